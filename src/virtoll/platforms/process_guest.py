"""The part that all real guests share: a session with the agent, readiness, and an end that undoes the start.

Main types: ``StartedGuest`` (every guest with an agent) and ``AgentGuest`` (one that is a process of ours).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from virtoll.agent.client import AgentClient, Caller
from virtoll.agent.operations.session import ShutdownRequest
from virtoll.errors import GuestError, ImageError
from virtoll.host.guest_usage import GuestProcesses
from virtoll.hosts.base import GuestHost
from virtoll.image import FormName, GuestImage, image_form
from virtoll.lab.cgroups import Group
from virtoll.lab.inside import end_process
from virtoll.platforms.base import Guest, GuestRequest, GuestStartError
from virtoll.platforms.last_words import with_last_words


class GuestRemains(GuestError):
    """Something of a guest is still on its host after its end: what it is, and how to remove it."""


def undo_all(steps: list[Callable[[], object]]) -> None:
    """Run every step, the last first, and empty the list; ``GuestRemains`` at the end names those that failed.

    A step that finds nothing left to undo must not fail.
    """
    remains: list[str] = []
    while steps:
        try:
            steps.pop()()
        except (GuestError, OSError) as error:
            remains.append(str(error))
    if remains:
        raise GuestRemains("; ".join(remains))


@dataclass(kw_only=True)
class StartedGuest(Guest):
    """A guest that was started and has an agent; ``cleanup`` undoes the start in reverse order, when it has ended."""

    agent: AgentClient
    peer: Caller
    attachment: str
    spawned_monotonic_ns: int
    ready_monotonic_ns: int = 0
    cleanup: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """While one guest is waited for, others that are started or measured at the same time go on."""
        self.agent.gives_turn = True

    def wait_ready(self, deadline_seconds: float) -> None:
        """Wait for the agent; on failure everything is removed and the console is handed out with the error."""
        with self.ending_on_error(last_words=True):
            self.agent.wait_ready(deadline_seconds)
        self.ready_monotonic_ns = self.agent.greeted_monotonic_ns

    @contextlib.contextmanager
    def ending_on_error(self, *, last_words: bool = False) -> Iterator[None]:
        """A step of the start: if it fails, the guest is ended, and the error has the evidence and what remains.

        ``last_words``: what the guest's console said last belongs in the sentence.
        """
        try:
            yield
        except GuestError as error:
            evidence = self.evidence()
            sentence = with_last_words(str(error), evidence) if last_words else str(error)
            try:
                self.stop()
            except GuestRemains as remains:
                sentence = f"{sentence}; {remains}"
            raise GuestStartError(sentence, evidence) from error


@dataclass(kw_only=True)
class AgentGuest(StartedGuest):
    """A guest that is a process of ours, whose standard input and output or sockets are the agent's channel.

    ``inner_group`` is the process group of what runs inside, where it is not the started process's own; ``shared`` are
    processes that serve several guests (an engine's daemon), by name. ``host``: another host, where its files are; then
    ``process`` is the connection that the guest ends with. None: this machine. ``flushes``: whether what it syncs on
    its disks is synced on the host too.
    """

    process: subprocess.Popen[bytes]
    console_file: Path
    inner_group: int | None = None
    shared: tuple[tuple[str, int], ...] = ()
    host: GuestHost | None = None
    flushes: bool = True

    def park(self) -> None:
        """Stop every process of the guest's session."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue every process of the guest's session."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ask the agent to leave, then end the process, then undo what the start did, whatever state it is in.

        ``GuestRemains``, when all is done, if a step of the undoing failed.
        """
        with contextlib.suppress(GuestError):
            self.resume()
        if self.process.poll() is None and not self.agent.ended and not self.agent.busy:
            with contextlib.suppress(GuestError, subprocess.TimeoutExpired):
                self.agent.ask(ShutdownRequest(), deadline_seconds=2.0)
                self.process.wait(2.0)
        self.agent.close()
        end_process(self.process)
        undo_all(self.cleanup)

    def evidence(self) -> dict[str, bytes]:
        """The console file, and what came over the agent's channel that was not the protocol."""
        evidence = {"console.txt": bytes(self.agent.console)}
        with contextlib.suppress(OSError, GuestError):
            console = self.host.read(self.console_file) if self.host else self.console_file.read_bytes()
            evidence["console.txt"] = console + evidence["console.txt"]
        return evidence

    def host_processes(self) -> GuestProcesses | None:
        """The started process, what runs inside, the daemons that it shares, and its folder; None on another host."""
        if self.host is not None:
            return None
        return GuestProcesses(self.process.pid, self.inner_group, self.shared, self.console_file.parent)

    def _signal(self, number: int) -> None:
        if self.process.poll() is None:
            for group in (self.process.pid, self.inner_group):
                with contextlib.suppress(ProcessLookupError):
                    if group is not None:
                        os.killpg(group, number)


def quota_group(host: GuestHost, request: GuestRequest) -> Group | None:
    """The cgroup by which a process of this machine has its CPU quota; None without a quota.

    Memory is not limited by it: a machine's is bounded by its size, and the monitor's own would be counted as well.
    """
    if request.cpu_quota is None:
        return None
    local = host.local
    if local is None:
        raise GuestError(
            f"{request.name}: a CPU quota by cgroup is for guests of this machine; leave it out on {host.name}"
        )
    return local.group(request.name, request.limits(memory=False))


def root_disk(image: GuestImage, file_system: FormName = "erofs") -> Path:
    """The image as a disk, which is only read; a ``GuestError`` where it cannot be made."""
    try:
        return image_form(image, file_system).file
    except ImageError as error:
        raise GuestError(str(error)) from error


def connect_stdio(process: subprocess.Popen[bytes], who: str) -> AgentClient:
    """A session over the standard input and output of a process that ``Lab.spawn`` started with pipes."""
    if process.stdin is None or process.stdout is None:
        raise GuestError(f"{who} was started without pipes")
    reader, writer = os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno())
    process.stdout.close()
    process.stdin.close()
    return AgentClient(reader, writer, who)


def socket_session(who: str) -> tuple[AgentClient, socket.socket]:
    """A session over a socket pair, and the end that the guest's monitor is to be given."""
    ours, theirs = socket.socketpair()
    descriptor = ours.detach()
    return AgentClient(descriptor, descriptor, who), theirs
