"""Nested hosts that are kept up for somebody to try things on by hand: each in a lab of its own, which its launcher
holds.

Main types: ``HeldNestedHost``. A file in its lab's record stands for a held nested host, so it is gone when the lab is.
No run uses one: what a run measures is booted for it.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from virtoll.errors import GuestError, LabError, UsageError
from virtoll.experiment.topology import HostAddress
from virtoll.lab import residue, state
from virtoll.nested import NESTED_HOSTS
from virtoll.pipeline.pinning import choose_pinning
from virtoll.pipeline.progress import SilentProgress
from virtoll.pipeline.session import open_run_session
from virtoll.system.locks import LockBusy
from virtoll.system.python import isolated

_FILE = "nested.json"
_UP_SECONDS = 400.0
_DOWN_SECONDS = 180.0


@dataclass(frozen=True)
class HeldNestedHost:
    """One that is up: its kind, lab, the lab's first process, since when (Unix time, s), and how it is reached."""

    kind: str
    lab_id: str
    pid: int
    since: float
    prefix: tuple[str, ...]

    def as_row(self) -> dict[str, object]:
        """As a table's row."""
        address = next((word for word in self.prefix if word.startswith("root@")), "")
        return {"kind": self.kind, "lab": self.lab_id, "pid": self.pid, "since": self.since, "address": address}


def known_kind(name: str) -> str:
    """The name of a kind of nested host; ``UsageError`` for another."""
    if name not in NESTED_HOSTS:
        raise UsageError(f"there is no nested host {name!r}; allowed: {', '.join(NESTED_HOSTS)}")
    return name


def held() -> list[HeldNestedHost]:
    """All that are up, of this user."""
    hosts = []
    first = _first_processes()
    for folder in residue.record_folders():
        lab_id = folder.name
        match residue.read_entry(folder, _FILE):
            case {"kind": str(kind), "since": float(since), "prefix": [*prefix]} if lab_id in first:
                hosts.append(HeldNestedHost(kind, lab_id, first[lab_id], since, tuple(map(str, prefix))))
    return hosts


def find(kind: str) -> HeldNestedHost:
    """The one of a kind; ``UsageError`` where it is not up."""
    known_kind(kind)
    for host in held():
        if host.kind == kind:
            return host
    up = ", ".join(host.kind for host in held()) or "none"
    raise UsageError(f"no nested host {kind} is up (up: {up}); start it with 'virtoll nested up {kind}'")


def start(kind: str) -> HeldNestedHost:
    """Start one, whose launcher goes on in the background, and wait until it answers."""
    known_kind(kind)
    if any(host.kind == kind for host in held()):
        raise UsageError(f"a nested host {kind} is up already; use it, or end it with 'virtoll nested down {kind}'")
    with tempfile.TemporaryFile() as log:
        launcher = subprocess.Popen(
            isolated("virtoll", "nested", "hold", kind),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            host = _await(kind, launcher)
        except BaseException:  # Ctrl-C as well: what nobody waits for any more is not left behind
            launcher.terminate()
            launcher.wait(_DOWN_SECONDS)
            raise
        if host is not None:
            return host
        log.seek(0)
        lines = log.read().decode(errors="replace").strip().splitlines()
    last = lines[-1].removeprefix("virtoll: ") if lines else "it said nothing"
    raise LabError(f"the nested host {kind} did not come up: {last}")


def _await(kind: str, launcher: subprocess.Popen[bytes]) -> HeldNestedHost | None:
    """The nested host once it answers; None where its launcher ended before. ``LabError`` when it takes too long."""
    deadline = time.monotonic() + _UP_SECONDS
    while launcher.poll() is None:
        for host in held():
            if host.kind == kind:
                return host
        if time.monotonic() > deadline:
            raise LabError(f"the nested host {kind} did not come up within {_UP_SECONDS:g} s")
        time.sleep(0.1)
    return None


@contextlib.contextmanager
def only_one(kind: str) -> Iterator[None]:
    """Of a kind, one launcher of this user at a time: ``UsageError`` in all others. Ends with the process, as it ends.

    The lock is in the state folder: a host with another /run has other nested hosts.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(state.labs_lock(state.state_directory() / "labs", f"nested-{kind}.lock", 0.0))
        except LockBusy as error:
            raise UsageError(
                f"another 'virtoll nested up {kind}' is at work (process {error.pid}); wait for it"
            ) from error
        yield


def hold(kind: str) -> None:
    """Inside a lab: boot one, note it in the lab's record, and stay until the lab ends."""
    folder = os.environ.get(residue.RECORD_VARIABLE)
    with open_run_session(choose_pinning(1), SilentProgress()) as session:
        if session.sites is None or folder is None:
            raise LabError("a nested host is held in a lab; start it with 'virtoll nested up'")
        try:
            site = session.sites.at(HostAddress.model_validate({"nested": kind}))
        except GuestError as error:
            raise LabError(str(error)) from error
        with site.awake():
            reported = {"kind": kind, "since": time.time(), "prefix": site.host.connection.prefix}
            residue.note_whole(_FILE, int(folder), reported)
            signal.pause()


def command(host: HeldNestedHost, argv: list[str], *, terminal: bool) -> list[str]:
    """The argument list that runs a program there from outside the lab, or a shell without one."""
    enter = ["nsenter", f"--target={host.pid}", "--mount", "--net", "--pid"]
    if os.geteuid() != 0:
        enter += ["--user", "--preserve-credentials"]
    prefix = ["-tt" if terminal and word == "-T" else word for word in host.prefix]
    return [*enter, "--", *prefix, *([shlex.join(argv)] if argv else [])]


def end(host: HeldNestedHost) -> None:
    """End it with its lab, and wait until nothing of it is left."""
    os.kill(host.pid, signal.SIGKILL)
    folder = state.state_directory() / "labs" / host.lab_id
    deadline = time.monotonic() + _DOWN_SECONDS
    while folder.exists():
        if time.monotonic() > deadline:
            raise LabError(f"{folder} is still there after {_DOWN_SECONDS:g} s; run 'virtoll clean'")
        time.sleep(0.05)


def _first_processes() -> dict[str, int]:
    """By lab's id, the process of this user that is its first, by its number out here.

    Any user may start a process that looks like one, into whose namespaces a shell would then be put.
    """
    processes: dict[str, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if entry.stat().st_uid != os.geteuid() or b"virtoll.lab.init" not in words or not _is_first(entry):
                continue
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for variable in variables:
            if variable.startswith(b"VIRTOLL_LAB="):
                processes[variable.split(b"=", 1)[1].decode()] = int(entry.name)
    return processes


def _is_first(entry: Path) -> bool:
    """Whether a process has the number 1 in its own namespace."""
    lines = (entry / "status").read_text(encoding="utf-8", errors="replace").splitlines()
    return any(line.startswith("NSpid:") and line.split()[-1] == "1" for line in lines)
