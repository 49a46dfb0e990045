"""Root file systems that are not this machine's: Debian 12, 13 and sid, and three kinds that are no Debian.

In each the wheel is installed by pip, or the Debian package by apt. `virtoll setup` is run, and then what a person does
(``in_root``), as root and as an ordinary user, in mount, PID, IPC, UTS and network namespaces without a way out.
`--only` names some of the roots, `--keep` a folder in which roots stay and are used again. Kernel, `/dev` and cgroups
are this machine's.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benches.survive.made_roots import REPOSITORY, USER, Kind, Start, command_in, environment, make_root
from tests.support.wheels import build_wheel, copy_source
from tools import deb

VIRTOLL: Final = "/opt/virtoll/bin/virtoll"
COMMANDS: Final = (
    ("--version",),
    ("--help",),
    ("completion", "bash"),
    ("list", "platforms"),
    ("setup", "--print"),
    ("doctor",),
    ("plan", "quick"),
    ("run", "quick", "--blocks", "1"),
    ("report", "latest"),
    ("watch", "latest"),
    ("verify", "latest"),
    ("list", "runs"),
    ("image", "build", "tiny"),
    ("clean",),
)
OWN_TOOLS: Final = ("e2fsprogs", "iproute2", "mount", "runc", "util-linux")
"""What has to be itself on a system of busybox."""
_SECONDS: Final = 1500
_MAY_END_WITH: Final[Mapping[str, tuple[int, ...]]] = {"doctor": (0, 1)}
_INSTALL: Final = """\
set -e
python3 -m venv /opt/virtoll
/opt/virtoll/bin/pip install --quiet --require-hashes --only-binary :all: --requirement requirements.lock
/opt/virtoll/bin/pip install --quiet --no-deps --no-index virtoll-*.whl
"""


@dataclass(frozen=True)
class Root:
    """A root: which Debian packages it has besides Python, and whether something can be measured in it.

    ``by_apt``: Virtoll is installed as the Debian package of that release, else its wheel by pip.
    """

    name: str
    kind: Kind
    packages: tuple[str, ...] = ()
    measures: bool = True
    by_apt: bool = False


ROOTS: Final = (
    Root("Debian 12", Kind.DEBIAN_12),
    Root("Debian 13", Kind.DEBIAN_13),
    Root("Debian sid", Kind.DEBIAN_SID),
    Root("Debian 12 by apt", Kind.DEBIAN_12, by_apt=True),
    Root("Debian 13 by apt", Kind.DEBIAN_13, by_apt=True),
    Root("merged", Kind.MERGED, (*OWN_TOOLS, "procps", "qemu-system-x86")),
    Root("profile", Kind.PROFILE, (*OWN_TOOLS, "procps")),
    Root("bare", Kind.BARE, OWN_TOOLS),
    Root("bare, busybox alone", Kind.BARE, ("runc",), measures=False),
)


@dataclass
class Session:
    """What came of one user's commands in a root; ``wrong``: what should not have been, in words.

    ``said``: the end of what each command printed, by its first word.
    """

    root: Root
    user: str
    python: str = ""
    works: tuple[str, ...] = ()
    trials: Mapping[str, int] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    left: Sequence[str] = ()
    said: Mapping[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def row(self) -> str:
        """Of the table."""
        good = sum(count for name, count in self.trials.items() if name.endswith(" ok"))
        measured = sorted({name.removesuffix(" ok") for name in self.trials if name.endswith(" ok")})
        reasons = "; ".join(f"{count} x {reason}" for reason, count in self.reasons.items()) or "–"
        cells = (
            *(self.root.name, self.python, self.user, ", ".join(self.works) or "none", ", ".join(measured) or "none"),
            *(str(good), reasons[:400].replace("|", "/"), str(len(self.left)), str(len(self.wrong))),
        )
        return f"| {' | '.join(cells)} |"


HEAD: Final = (
    "| root | Python | user | works, by `doctor` | measured in `quick` | trials ok | others, and why | left | wrong |\n"
    "| --- | --- | --- | --- | --- | ---: | --- | ---: | ---: |"
)


def session(
    root: Root,
    folder: Path,
    user: str,
    commands: Sequence[Sequence[str]] = COMMANDS,
    given: Mapping[str, str] | None = None,
    platforms: Sequence[str] = (),
) -> Session:
    """One user's commands in a root where Virtoll is installed.

    ``given``: for folders of this machine the places in the root where they are found, for reading. ``platforms``:
    which of them `doctor` is asked for; all without names.
    """
    place = folder / ("root" if user == "root" else f"home/{USER}")
    shutil.copy(REPOSITORY / "benches/survive/in_root.py", folder / "opt/in_root.py")
    given = given or {}
    order = json.dumps({"platforms": platforms, "commands": commands, "given": list(given.values())})
    start = Start(f"/{place.relative_to(folder)}", user=user != "root", read_only=given)
    finished = _run(root, folder, ["python3", "/opt/in_root.py", VIRTOLL, order], start)
    found = Session(root, user)
    if finished.returncode != 0:
        found.wrong.append(f"the session ended with {finished.returncode}: {finished.stderr[-1500:]}")
        return found
    document = json.loads(finished.stdout)
    found.python, found.left = document["python"], document["left"]
    found.trials, found.reasons = document["trials"], document["reasons"]
    found.said = {one["argv"][0]: one["said"] for one in document["calls"]}
    doctor = document["doctor"]
    if doctor is not None:
        found.works = tuple(one["platform"] for one in doctor["platforms"] if one["available"])
    found.wrong += list(complaints(root, document))
    return found


def complaints(root: Root, document: Mapping[str, Any]) -> Iterator[str]:
    """What is not as documented in a session's answers."""
    for one in document["calls"]:
        name = one["argv"][0]
        allowed = _MAY_END_WITH.get(name, (0,))
        if not root.measures and name in {"run", "report", "watch", "verify"}:
            allowed = (2,)  # there is nothing to measure with, and then no run
        if one["code"] not in allowed or one["traceback"]:
            yield f"virtoll {' '.join(one['argv'])} ended with {one['code']}: {one['said'][-600:]}"
        if not root.kind.is_debian and "apt-get" in one["said"]:
            yield f"virtoll {name} names apt-get where there is none"
    if document["doctor"] is None:
        yield "doctor --json printed no document"
    elif document["doctor"]["works"] is not root.measures:
        yield f"doctor says works: {document['doctor']['works']}"
    runs = sum(one["argv"][0] == "run" for one in document["calls"])
    if root.measures and document["reports"] != runs:
        yield f"{document['reports']} reports of {runs} runs"
    for one in document["left"]:
        yield f"left: {one}"


def wheel_into(folder: Path) -> Path:
    """The wheel of this clone, with the agent that was built here."""
    finished = build_wheel(copy_source(folder / "source"), REPOSITORY / "build" / "virtoll-agent", folder / "dist")
    if finished.returncode != 0:
        raise SystemExit(finished.stderr)
    (wheel,) = (folder / "dist").iterdir()
    return wheel


def prepared(root: Root, folder: Path, wheel: Path) -> None:
    """Make the root, and install Virtoll in it as a person does, with a network."""
    if not (folder / "usr").exists():
        make_root(root.kind, folder, root.packages)
    if root.by_apt and not (folder / VIRTOLL.lstrip("/")).exists():
        os.environ.setdefault("SOURCE_DATE_EPOCH", "1700000000")
        package = deb.make(deb.order_for(root.kind.suite, wheel), folder / "root")
        _with_network(root, folder, ["apt-get", "update"], (0,))
        install = ["apt-get", "install", "-y", "--no-remove", "--no-install-recommends", f"./{package.name}"]
        _with_network(root, folder, install, (0,))
    elif not (folder / VIRTOLL.lstrip("/")).exists():
        shutil.copy(wheel, folder / "root")
        shutil.copy(REPOSITORY / "requirements.lock", folder / "root")
        _with_network(root, folder, ["sh", "-c", _INSTALL], (0,))
    _with_network(root, folder, [VIRTOLL, "setup"], (0,) if root.measures else (2,))


def _run(root: Root, folder: Path, argv: Sequence[str], start: Start) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command_in(root.kind, folder, argv, start),
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def _with_network(root: Root, folder: Path, argv: Sequence[str], codes: tuple[int, ...]) -> None:
    finished = _run(root, folder, argv, Start(network=True))
    if finished.returncode not in codes:
        raise SystemExit(f"{root.name}: {argv} ended with {finished.returncode}: {finished.stderr[-2000:]}")


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 where something is not as it should be."""
    parser = argparse.ArgumentParser(prog="roots", description=__doc__)
    parser.add_argument("--only", action="append", choices=[one.name for one in ROOTS], help="one root; repeatable")
    parser.add_argument("--keep", type=Path, help="a folder in which roots stay, and are used again")
    parser.add_argument("--user", action="append", choices=["root", USER], help="one user; repeatable")
    options = parser.parse_args(arguments)
    rows: list[Session] = []
    with tempfile.TemporaryDirectory(prefix="virtoll-roots-", dir="/var/tmp") as scratch:
        os.environ.setdefault("VIRTOLL_CACHE", str(Path(scratch, "cache")))  # one for all roots, else each downloads
        Path(os.environ["VIRTOLL_CACHE"]).mkdir(parents=True, exist_ok=True)
        place = options.keep or Path(scratch)
        wheel = wheel_into(Path(scratch))
        for root in ROOTS:
            if options.only and root.name not in options.only:
                continue
            folder = place / root.name.replace(" ", "-").replace(",", "")
            prepared(root, folder, wheel)
            for user in options.user or ("root", USER):
                rows.append(session(root, folder, user))
                print(rows[-1].row(), *rows[-1].wrong, sep="\n", file=sys.stderr, flush=True)
    print(HEAD, *(one.row() for one in rows), sep="\n")
    return int(any(one.wrong for one in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
