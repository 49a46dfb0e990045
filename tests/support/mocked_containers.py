"""The containers behind the programs of ``container_mocks``: a JSON file each, and processes in bare namespaces.

A test starts them often: Virtoll is imported for the start of a container alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

HANG_SECONDS = 120.0
Share = tuple[str, str]
"""A folder of the host's and its place in the container."""


def fail(code: int, words: str) -> NoReturn:
    print(words, file=sys.stderr)
    sys.exit(code)


def refuse(command: str) -> None:
    """As a test wants it."""
    for line in os.environ.get("MOCK_REFUSES", "").splitlines():
        refused, code, words = line.split(" ", 2)
        if refused == command:
            fail(int(code), words)


def die(command: str) -> None:
    """As a test wants it."""
    if os.environ.get("MOCK_DIES") == command:
        os.kill(os.getpid(), signal.SIGKILL)


class Store:
    """The containers by their key (number or name)."""

    def __init__(self) -> None:
        self.folder = Path(os.environ["MOCK_STATE"])
        self.folder.mkdir(parents=True, exist_ok=True)
        self.scripts = self.folder / "conf"
        self.scripts.mkdir(exist_ok=True)

    def all(self) -> dict[str, dict[str, Any]]:
        found = (json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json")))
        return {one["key"]: one for one in found}

    def find(self, handle: str) -> dict[str, Any] | None:
        return next((one for one in self.all().values() if handle in (one["key"], one["name"])), None)

    def save(self, one: dict[str, Any]) -> None:
        (self.folder / f"{one['key']}.json").write_text(json.dumps(one))

    def drop(self, one: dict[str, Any]) -> None:
        (self.folder / f"{one['key']}.json").unlink()

    def note(self, program: str, argv: list[str]) -> None:
        with (self.folder / "calls.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps([program, *argv]) + "\n")


def running(one: dict[str, Any]) -> bool:
    pid = one.get("pid")
    try:
        return pid is not None and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def launch(one: dict[str, Any], init: list[str], shares: Sequence[Share] = ()) -> None:
    """The container's first process, in namespaces of its own and in the root of its files, with ``shares`` there.

    The agent says when it executes ``init``: it has changed root by then, after all is mounted there.
    """
    from virtoll.lab.enter import Bind, Enter

    reader, writer = os.pipe()
    binds = tuple(Bind(Path(source), Path(target)) for source, target in shares)
    around = Enter(
        namespaces=("mount", "net", "ipc", "uts", "pid"), root=Path(one["private"]), shares=binds, report=writer
    )
    process = subprocess.Popen(
        [*around.prefix(Path(os.environ["MOCK_AGENT"])), *init],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(writer,),
    )
    os.close(writer)
    with os.fdopen(reader, "rb") as report:
        if not (select.select([report], [], [], HANG_SECONDS)[0] and report.read()):
            fail(7, 'Container start failed (try to check kernel messages, e.g. "dmesg | tail")')
    (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    one |= {"pid": int(first), "holder": process.pid}
    writable(one)


def writable(one: dict[str, Any]) -> None:
    """Its root is its own, and no image that others share."""
    enter = ["nsenter", f"--target={one['pid']}", "--mount", "--"]
    subprocess.run([*enter, "mount", "-o", "remount,bind,rw", one["private"]], check=True)


def inside(one: dict[str, Any], argv: list[str]) -> NoReturn:
    enter = ["nsenter", f"--target={one['pid']}", "--mount", "--net", "--ipc", "--uts", "--pid", "--root", "--wd"]
    os.execvp(enter[0], [*enter, "--", *argv])


def end(one: dict[str, Any]) -> None:
    """Kill its first process, and with it all; who entered it from outside is let go on, so that it reaps its own."""
    if running(one):
        with contextlib.suppress(ProcessLookupError):  # it may end by itself meanwhile
            held = os.pidfd_open(one["pid"])
            send(one, signal.SIGCONT)
            signal.pidfd_send_signal(held, signal.SIGKILL)
            if not select.select([held], [], [], HANG_SECONDS)[0]:
                fail(7, f"process {one['pid']} of {one['name']} has not ended after {HANG_SECONDS:g} s")
            os.close(held)
    one["pid"] = None


def send(one: dict[str, Any], number: int) -> None:
    """To every process of the container: its PID namespace is its own. ``nsenter`` stops with what it entered with."""
    try:
        space = Path(f"/proc/{one['pid']}/ns/pid").readlink()
    except OSError:
        return  # it has ended, and all below it
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if (entry / "ns/pid").readlink() == space:
                os.kill(int(entry.name), number)
                if number == signal.SIGCONT and Path(f"/proc/{parent}/ns/pid").readlink() != space:
                    os.kill(parent, number)
        except OSError:
            continue


def options(argv: list[str], known: set[str], flags: set[str], code: int, program: str) -> list[tuple[str, str]]:
    """Pairs; whatever is not documented is refused as getopt refuses it."""
    found, words = [], iter(argv)
    for word in words:
        if word in flags:
            found.append((word, ""))
        elif word in known:
            value = next(words, None)
            if value is None:
                fail(code, f"{program}: option '{word}' requires an argument")
            found.append((word, value))
        else:
            fail(code, f"{program}: unrecognized option '{word}'")
    return found
