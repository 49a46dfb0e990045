#!/usr/bin/env python3
"""Checks what the lock files name: sources, licences, duplicates, and known advisories.

`python3 tools/audit.py` (part of `make test`) judges by the folder `advisories/`, so that a commit gets the same answer
each day: cargo-audit and pip-audit run in a network namespace without a way out. cargo-deny judges what crates may be
(`deny.toml`). `--live` (`make audit`) asks the databases of today too, and says which of them gave no answer.

What is known and does not concern us is in `advisories/allowed.toml`, each entry with its end. An entry past its end,
and one that matches nothing, is a complaint. A source older than 180 days is a sentence and no complaint.
Exit codes: 0, 1 with a sentence for each complaint, 2 where a program is missing.
"""

import argparse
import contextlib
import datetime as dt
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tools import snapshot

ROOT = snapshot.ROOT
OLD_DAYS = 180
_LIVE_SECONDS = 300.0
_PROGRAMS = Path(sys.executable).parent


class AuditError(Exception):
    """What keeps this from judging: one sentence."""


@dataclass(frozen=True)
class Finding:
    """An advisory that concerns a locked version; `names` are its id and its aliases."""

    names: tuple[str, ...]
    package: str
    version: str
    words: str

    def __str__(self) -> str:
        return f"{self.names[0]} concerns {self.package} {self.version}: {self.words}"


@dataclass(frozen=True)
class Allowed:
    """An entry of allowed.toml."""

    name: str
    why: str
    until: dt.date


def read_allowed(file: Path) -> tuple[Allowed, ...]:
    """The entries of allowed.toml; `AuditError` names the file and the entry that has no reason or no date."""
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AuditError(f"{file} cannot be read ({error}); correct it") from error
    found = []
    for name, entry in document.items():
        why, until = (entry.get("why"), entry.get("until")) if isinstance(entry, dict) else (None, None)
        if not isinstance(why, str) or not why.strip() or type(until) is not dt.date or len(entry) != 2:
            raise AuditError(f"{file}: {name} needs 'why' (a text), 'until' (a date such as 2027-01-31), no other key")
        found.append(Allowed(name, why, until))
    return tuple(found)


def complaints(findings: Sequence[Finding], allowed: Sequence[Allowed], today: dt.date) -> Iterator[str]:
    """What is found and not allowed, what is allowed for too long, and what is allowed for nothing."""
    for entry in allowed:
        if not any(entry.name in finding.names for finding in findings):
            yield f"advisories/allowed.toml: {entry.name} matches nothing that is locked: remove it"
        elif entry.until < today:
            yield f"advisories/allowed.toml: {entry.name} was allowed until {entry.until}: update, or decide again"
    names = {entry.name for entry in allowed}
    for finding in findings:
        if not names.intersection(finding.names):
            yield f"{finding}: update it, or say in advisories/allowed.toml why it does not concern us, and until when"


def old_sources(sources: Mapping[str, Mapping[str, Any]], today: dt.date) -> Iterator[str]:
    """A sentence for each source that is older than `OLD_DAYS` days."""
    for name, facts in sources.items():
        days = (today - dt.date.fromisoformat(facts["date"])).days
        if days > OLD_DAYS:
            yield f"advisories/sources.json: what {name} knew is {days} days old ({facts['date']}): 'make advisories'"


def affected(version: str, record: Mapping[str, Any], name: str) -> bool:
    """Whether a version is among those of an OSV record, by its lists or its ranges (OSV schema 1.7, evaluation)."""
    for one in record["affected"]:
        if one["package"]["name"].lower() != name.lower():
            continue
        if version in one.get("versions", ()):
            return True
        order = _semver if one["package"]["ecosystem"] == "Go" else Version
        if any(_inside(order(version), ranged["events"], order) for ranged in one.get("ranges", ())):
            return True
    return False


def _inside(version: Any, events: Sequence[Mapping[str, str]], order: Any) -> bool:
    """Whether a version is in a range; an introduction at "0" comes before every version."""
    pairs = [(kind, text) for event in events for kind, text in event.items()]
    inside = ("introduced", "0") in pairs
    for kind, at in sorted(((k, order(t)) for k, t in pairs if (k, t) != ("introduced", "0")), key=lambda one: one[1]):
        if kind == "introduced" and version >= at:
            inside = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            inside = False
    return inside


def _semver(text: str) -> tuple[Any, ...]:
    """An order of semantic versions (semver.org, 11): a pre-release comes before its version."""
    plain, _, pre = text.partition("+")[0].partition("-")
    numbers = (*(int(part) for part in plain.split(".")), 0, 0)
    marks = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in pre.split(".") if part)
    return numbers[:3], not pre, marks


def matching(ecosystem: str, locked: Mapping[str, set[str]], folder: Path) -> list[Finding]:
    """What the stored OSV records of an ecosystem say of locked versions."""
    records = [record for record in _records(folder) if not record.get("withdrawn")]
    return [
        Finding((record["id"], *record.get("aliases", ())), name, version, record["summary"])
        for name, versions in sorted(locked.items())
        for version in sorted(versions)
        for record in records
        if record["affected"] and record["affected"][0]["package"]["ecosystem"] == ecosystem
        if affected(version, record, name)
    ]


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    for name in ("pypa.json", "pypi.json", "go.json"):
        yield from json.loads((folder / name).read_text(encoding="utf-8"))


def cargo_audit(database: Path, lock: Path) -> list[Finding]:
    """What cargo-audit says of a lock file, warnings (unmaintained, unsound) included, by a database on this disk."""
    command = [_program("cargo-audit"), "audit", "--json", "--no-fetch", "--stale"]
    said = json.loads(_asked([*command, "--db", database, "--file", lock], codes=(0, 1)))
    many = [*said["vulnerabilities"]["list"], *(one for kind in said["warnings"].values() for one in kind)]
    return [_of_cargo(one) for one in many if one.get("advisory")]


def _of_cargo(one: Mapping[str, Any]) -> Finding:
    advisory, package = one["advisory"], one["package"]
    return Finding((advisory["id"], *advisory["aliases"]), package["name"], package["version"], advisory["title"])


def pip_audit(*arguments: str) -> tuple[list[Finding], list[str]]:
    """What pip-audit says of the lock that has all, and which packages it could not ask for."""
    command = [_program("pip-audit"), "--require-hashes", "--disable-pip", "--requirement", snapshot.PYTHON_LOCK]
    with tempfile.TemporaryDirectory() as folder:
        more = ["--format", "json", "--aliases", "on", "--progress-spinner", "off", "--cache-dir", folder]
        said = json.loads(_asked([*map(str, command), *more, *arguments], codes=(0, 1)))["dependencies"]
    found = [
        Finding((known["id"], *known["aliases"]), one["name"], one["version"], known.get("description", "")[:160])
        for one in said
        for known in one.get("vulns", ())
    ]
    return found, [one["name"] for one in said if "skip_reason" in one]


class _Osv(http.server.BaseHTTPRequestHandler):
    """Answers as api.osv.dev does, from the stored records; `records` is set before it serves."""

    records: tuple[dict[str, Any], ...] = ()

    def do_POST(self) -> None:
        """One query: a package of PyPI and its version."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name, version = asked["package"]["name"], asked["version"]
        known = [one for one in self.records if affected(version, one, name)]
        content = json.dumps({"vulns": known} if known else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *values: Any) -> None:  # noqa: A002 - the name in the standard library
        """Says nothing."""


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[str]:
    """The address of a server for pip-audit, on the loopback of this process's network namespace."""
    kept = tuple(one for one in _records(folder) if one["affected"][0]["package"]["ecosystem"] == "PyPI")
    handler = type("Osv", (_Osv,), {"records": kept})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/query"
        finally:
            server.shutdown()
            thread.join()


def judged_by(folder: Path) -> list[Finding]:
    """What the snapshot says of all lock files; in a network namespace of its own."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        for one in (name, name.upper()):
            os.environ.pop(one, None)
    found = [one for lock in snapshot.CARGO_LOCKS for one in cargo_audit(folder / "rustsec", lock)]
    with _served(folder) as address:
        python, unasked = pip_audit("--vulnerability-service", "osv", "--osv-url", address)
    if unasked:
        raise AuditError(f"pip-audit did not ask for {', '.join(unasked)}")
    found += python
    # What a marker leaves out for this Python is not among pip-audit's.
    found += matching("PyPI", snapshot.locked_python(), folder) + matching("Go", snapshot.locked_go(), folder)
    return list({(one.names[0], one.package, one.version): one for one in found}.values())


def without_network(folder: Path) -> list[Finding]:
    """The same, from outside: this file again, in a network namespace without a way out."""
    apart = ["unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--net", "--"]
    said = _asked([*apart, sys.executable, __file__, "--inside", folder], codes=(0,))
    return [Finding(tuple(one["names"]), one["package"], one["version"], one["words"]) for one in json.loads(said)]


def refused_crates() -> list[str]:
    """What cargo-deny complains of: sources, licences, duplicates."""
    words = []
    for lock in snapshot.CARGO_LOCKS:
        manifest = lock.with_name("Cargo.toml")
        command = [_program("cargo-deny"), "--locked", "--color", "never", "--manifest-path", str(manifest)]
        check = ["--config", str(ROOT / "deny.toml"), "check", "--allow", "license-exception-not-encountered"]
        answer = subprocess.run([*command, *check, "bans", "licenses", "sources"], check=False, **_TEXT)
        if answer.returncode != 0:
            lines = re.findall(r"^error.*$", answer.stderr, re.MULTILINE) or answer.stderr.splitlines()[-3:]
            words += [f"{manifest.relative_to(ROOT)}: cargo-deny: {line}" for line in lines]
    return words


def live() -> tuple[list[Finding], list[str]]:
    """What the databases of today say, and a sentence for each that gave no or half an answer."""
    found: list[Finding] = []
    silent = []
    for lock in snapshot.CARGO_LOCKS:
        try:
            said = json.loads(_asked([_program("cargo-audit"), "audit", "--json", "--file", lock], codes=(0, 1)))
            found += [_of_cargo(one) for one in said["vulnerabilities"]["list"]]
        except AuditError as error:
            silent.append(f"cargo audit --file {lock.relative_to(ROOT)}: {error}")
    try:
        python, unasked = pip_audit("--vulnerability-service", "pypi")
        found += python
        if unasked:
            silent.append(f"pip-audit: PyPI gave no answer for {len(unasked)} packages, {unasked[0]} among them")
    except AuditError as error:
        silent.append(f"pip-audit: {error}")
    return found, silent


_TEXT: dict[str, Any] = {"capture_output": True, "text": True, "cwd": ROOT}


def _program(name: str) -> str:
    found = _PROGRAMS / name
    if not found.is_file():
        raise AuditError(f"{name} is missing beside {sys.executable}: 'make setup-dev' installs it")
    return str(found)


def _asked(command: Sequence[str | Path], codes: Sequence[int]) -> str:
    try:
        answer = subprocess.run(command, timeout=_LIVE_SECONDS, check=False, **_TEXT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AuditError(f"{Path(command[0]).name} did not end well ({error})") from error
    if answer.returncode not in codes or not answer.stdout.lstrip().startswith(("{", "[")):
        words = [line for line in answer.stderr.splitlines() if line.strip()] or ["no message"]
        raise AuditError(f"{Path(command[0]).name} failed with exit code {answer.returncode}: {words[-1].strip()}")
    return str(answer.stdout)


def main(arguments: Sequence[str]) -> int:
    """Judges; prints a sentence for each complaint."""
    parser = argparse.ArgumentParser(description="Checks sources, licences and advisories of what the locks name.")
    parser.add_argument("--live", action="store_true", help="ask the databases of today too")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        print(json.dumps([vars(one) for one in judged_by(options.inside)]))
        return 0
    today = dt.datetime.now(tz=dt.UTC).date()
    folder = snapshot.FOLDER
    allowed = read_allowed(folder / "allowed.toml")
    sources = json.loads((folder / "sources.json").read_text(encoding="utf-8"))
    found = without_network(folder)
    said = list(old_sources(sources, today))
    if options.live:
        more, silent = live()
        found += [one for one in more if one not in found]
        said += silent
    wrong = [*refused_crates(), *complaints(found, allowed, today)]
    for sentence in (*said, *wrong):
        print(f"audit: {sentence}", file=sys.stderr)
    crates, python, go = len(snapshot.locked_crates()), len(snapshot.locked_python()), len(snapshot.locked_go())
    print(f"audit: {crates} crates, {python} packages of PyPI, {go} Go modules: {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except AuditError as error:
        print(f"audit: {error}", file=sys.stderr)
        sys.exit(2)
