#!/usr/bin/env python3
"""Writes the folder `advisories/`: what is known of the packages that the lock files name, each source with its date.

`make advisories` asks RustSec and PyPA for their databases (git, from GitHub), PyPI for each package's latest version,
and the Go module proxy for Go's database. `--rustsec FOLDER` and `--pypa FOLDER` name clones that are there already. A
source that cannot be reached keeps what the folder has of it, and is told. `tools/audit.py` reads the folder.

Only facts are stored: id, aliases, package, versions, date, address, one line of summary. Exit codes: 0, or 1 where a
source could not be reached.
"""

import argparse
import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "advisories"
CARGO_LOCKS = (ROOT / "Cargo.lock", ROOT / "fuzz" / "Cargo.lock")
PYTHON_LOCK = ROOT / "requirements-dev.lock"
GO_MODULES = tuple(sorted((ROOT / "tools").glob("*/go.mod")))
_RUSTSEC = "https://github.com/rustsec/advisory-db"
_PYPA = "https://github.com/pypa/advisory-database"
_VULNDB = "golang.org/x/vulndb"
_SECONDS = 60.0
_CLONE_SECONDS = 600.0


class Unreachable(Exception):
    """A source that gave nothing: one clause."""


def locked_crates() -> set[str]:
    """Crates of both lock files that are not this project's own."""
    locks = [tomllib.loads(lock.read_text(encoding="utf-8")) for lock in CARGO_LOCKS]
    return {package["name"] for lock in locks for package in lock["package"] if "source" in package}


def locked_python() -> dict[str, set[str]]:
    """Package -> versions of the lock that has all; several where markers choose."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", PYTHON_LOCK.read_text(encoding="utf-8"), re.MULTILINE):
        found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), set()).add(version)
    return found


def locked_go() -> dict[str, set[str]]:
    """Go module -> versions without the v: what the tools' go.mod files pin, and gVisor."""
    found: dict[str, set[str]] = {}
    for file in GO_MODULES:
        for name, version in re.findall(
            r"^\s*(?:require )?(\S+\.\S+/\S+) v(\S+)", file.read_text("utf-8"), re.MULTILINE
        ):
            found.setdefault(name, set()).add(version)
    source = (ROOT / "src/virtoll/image/third_party.py").read_text(encoding="utf-8")
    for name, version in re.findall(r'^MODULE = "(.+)"\nVERSION = "v(.+)"', source, re.MULTILINE):
        found.setdefault(name, set()).add(version)
    return found


def rustsec_files(clone: Path) -> Iterator[tuple[str, str]]:
    """Path and text of each advisory on a locked crate: RustSec's own form, with the facts alone."""
    for crate in sorted(locked_crates()):
        for file in sorted((clone / "crates" / crate).glob("RUSTSEC-*.md")):
            head, _, rest = file.read_text(encoding="utf-8").removeprefix("```toml\n").partition("```\n")
            title = next((line for line in rest.splitlines() if line.startswith("# ")), f"# {file.stem}")
            yield f"crates/{crate}/{file.name}", f"```toml\n{head.strip()}\n```\n\n{title}\n\nSee its `url`.\n"


def pypa_records(clone: Path) -> Iterator[dict[str, Any]]:
    """OSV records of PyPA's database on a locked package."""
    for name in sorted(locked_python()):
        for file in sorted((clone / "vulns" / name).glob("*.yaml")):
            yield trimmed(yaml.safe_load(file.read_text(encoding="utf-8")), {name})


def pypi_records(asked: dict[str, str]) -> Iterator[dict[str, Any]]:
    """What PyPI itself says of a package's latest version, where that is a locked one; `asked` gets those."""
    for name, versions in sorted(locked_python().items()):
        answer = _json(f"https://pypi.org/pypi/{name}/json")
        latest = answer["info"]["version"]
        if latest not in versions:
            continue
        asked[name] = latest
        for one in answer["vulnerabilities"]:
            events = [{"introduced": "0"}, *({"fixed": version} for version in one.get("fixed_in") or ())]
            package = {"name": name, "ecosystem": "PyPI"}
            of_one = {"package": package, "versions": [latest], "ranges": [{"type": "ECOSYSTEM", "events": events}]}
            yield trimmed({**one, "affected": [of_one], "withdrawn": one.get("withdrawn")}, {name})


def go_records(database: Path) -> Iterator[dict[str, Any]]:
    """OSV records of Go's database on a locked module."""
    modules = set(locked_go())
    for file in sorted((database / "data" / "osv").glob("GO-*.json")):
        record = json.loads(file.read_text(encoding="utf-8"))
        if any(one["package"]["name"] in modules for one in record.get("affected", ())):
            yield trimmed(record, modules)


def trimmed(record: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """An OSV record with the facts alone, of these packages alone."""
    affected = [
        {key: one[key] for key in ("package", "ranges", *(() if one.get("ranges") else ("versions",))) if key in one}
        for one in record["affected"]
        if one["package"]["name"].lower() in {name.lower() for name in names}
    ]
    for one in affected:
        one["ranges"] = [{k: r[k] for k in ("type", "events")} for r in one.get("ranges", ()) if r["type"] != "GIT"]
    words = str(record.get("summary") or record.get("details") or "").strip().split("\n", 1)[0][:160]
    kept = {key: record[key] for key in ("id", "aliases", "published", "withdrawn") if record.get(key)}
    return {**kept, "summary": words, "affected": affected}


def write(name: str, content: str) -> None:
    """A file of the folder, by rename."""
    target = FOLDER / name
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    fresh.write_text(content, encoding="utf-8")
    fresh.replace(target)


def write_json(name: str, content: Any) -> None:
    """The same for JSON."""
    write(name, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False, default=str) + "\n")


def main(arguments: Sequence[str]) -> int:
    """Asks each source in turn."""
    parser = argparse.ArgumentParser(description="Writes what is known of the locked packages into advisories/.")
    parser.add_argument("--rustsec", type=Path, help="a clone of RustSec's database, instead of a new one")
    parser.add_argument("--pypa", type=Path, help="a clone of PyPA's database, instead of a new one")
    options = parser.parse_args(arguments)
    file = FOLDER / "sources.json"
    sources: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        for take in (_take_rustsec, _take_pypa, _take_pypi, _take_go):
            try:
                sources |= take(Path(name), options)
            except Unreachable as error:
                failed = 1
                print(f"snapshot: {error}; what the folder has of it stays", file=sys.stderr)
            write_json("sources.json", sources)
    return failed


def _take_rustsec(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    clone, facts = _clone(_RUSTSEC, options.rustsec, folder / "rustsec")
    files = dict(rustsec_files(clone))
    shutil.rmtree(FOLDER / "rustsec", ignore_errors=True)
    for name, text in files.items():
        write(f"rustsec/{name}", text)
    return {"rustsec": {**facts, "advisories": len(files)}}


def _take_pypa(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    clone, facts = _clone(_PYPA, options.pypa, folder / "pypa")
    records = list(pypa_records(clone))
    write_json("pypa.json", records)
    return {"pypa": {**facts, "advisories": len(records)}}


def _take_pypi(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    del folder, options
    asked: dict[str, str] = {}
    records = list(pypi_records(asked))
    write_json("pypi.json", records)
    locked = {(name, version) for name, versions in locked_python().items() for version in versions}
    unasked = sorted(f"{name}=={version}" for name, version in locked - set(asked.items()))
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    facts = {"from": "https://pypi.org/pypi/NAME/json", "date": today, "advisories": len(records)}
    return {"pypi": {**facts, "packages": len(asked), "not asked, as they are not the latest": unasked}}


def _take_go(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    del options
    own = {**os.environ, "GOMODCACHE": str(folder / "go"), "GOFLAGS": "-modcacherw"}
    answer = json.loads(_run(["go", "mod", "download", "-json", f"{_VULNDB}@latest"], own, folder))
    records = list(go_records(Path(answer["Dir"])))
    write_json("go.json", records)
    stamp = re.search(r"-(\d{4})(\d\d)(\d\d)\d{6}-", answer["Version"])
    assert stamp is not None, answer["Version"]
    date = "-".join(stamp.groups())
    facts = {"from": f"{_VULNDB} {answer['Version']}", "hash": answer["Sum"], "date": date}
    return {"go": {**facts, "advisories": len(records)}}


def _clone(address: str, given: Path | None, target: Path) -> tuple[Path, dict[str, str]]:
    """A clone of the database, its commit and the commit's date."""
    if given is None:
        _run(["git", "clone", "--quiet", "--depth=1", address, str(target)], {**os.environ, "GIT_TERMINAL_PROMPT": "0"})
    clone = given or target
    commit, date = _run(["git", "-C", str(clone), "log", "-1", "--format=%H %cs"]).split()
    return clone, {"from": address, "commit": commit, "date": date}


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None) -> str:
    try:
        answer = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_CLONE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unreachable(f"'{' '.join(command[:3])}' did not end well ({error})") from error
    if answer.returncode != 0:
        words = (answer.stderr.strip() or "no message").splitlines()[-1]
        raise Unreachable(f"'{' '.join(command[:3])}' said: {words}")
    return answer.stdout


def _json(address: str) -> Any:
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as answer:  # noqa: S310 - an address of PyPI's
            return json.loads(answer.read())
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise Unreachable(f"{address} gave no answer ({error})") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
