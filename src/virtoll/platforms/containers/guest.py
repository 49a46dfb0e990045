"""What guests made of namespaces share: the agent on standard input and output, its links moved in once it is ready."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from virtoll.errors import GuestError
from virtoll.lab.cgroups import Group, Limits
from virtoll.lab.commands import PIPED
from virtoll.lab.data import DataBy
from virtoll.lab.enter import Enter, ExecutionReport
from virtoll.lab.inside import end_process, signal_tree, with_descendants
from virtoll.platforms.base import GuestRequest, GuestStartError, Platform, Probe, Validation
from virtoll.platforms.containers.confinement import Confined
from virtoll.platforms.host import Site
from virtoll.platforms.last_words import last_line
from virtoll.platforms.limits import limits_held
from virtoll.platforms.process_guest import AgentGuest, connect_stdio

AGENT = ("/init", "--role", "guest", "--channel", "stdio")


@dataclass(kw_only=True)
class NamespacedGuest(AgentGuest):
    """A guest whose processes are all below the one that was started, in whatever sessions they are.

    ``paused``: how a runtime that must not be stopped by signals is asked to pause (True) and to resume (False).
    """

    paused: Callable[[bool], object] | None = None
    executed_monotonic_ns: int | None = None
    limits_held: Mapping[str, str] = field(default_factory=dict)
    _is_paused: bool = field(default=False, init=False)

    def park(self) -> None:
        """Stop every process of the guest, or have its runtime do it."""
        if self.paused is None:
            super().park()
        elif not self._is_paused:
            self.paused(True)
            self._is_paused = True

    def resume(self) -> None:
        """Continue it; harmless when it was not parked."""
        if self.paused is None:
            super().resume()
        elif self._is_paused:
            self._is_paused = False
            self.paused(False)

    def _signal(self, number: int) -> None:
        if self.process.poll() is None:
            signal_tree([pid for pid in (self.process.pid, self.inner_group) if pid is not None], number)


def move_links_in(guest: AgentGuest, request: GuestRequest, site: Site, pid: int) -> None:
    """Attach the guest's links to the network namespace of process ``pid``; a guest that cannot have them is ended."""
    with guest.ending_on_error():
        for link in request.network.links:
            site.local_ports.namespace_port(link, pid)


def start_namespaced(
    request: GuestRequest,
    site: Site,
    command: Sequence[str],
    attachment: str,
    cleanup: Sequence[Callable[[], object]] = (),
    group: Group | None = None,
    *,
    enter: Enter | None = None,
) -> NamespacedGuest:
    """Start ``command``, whose standard input and output become the agent's channel, and wait until it is ready.

    ``group`` is removed after everything else. ``enter``: what is done before the command is executed.
    """
    host = site.this_machine
    folder = host.guest_folder(request.name)
    console = folder / "console.txt"
    with ExecutionReport() as report:
        spawned = time.monotonic_ns()
        with console.open("wb") as stderr:
            options = replace(
                PIPED,
                enter=replace(enter or Enter(), report=report.descriptor),
                cpus=request.cpus,
                group=group,
                stderr=stderr.fileno(),
                pass_fds=(report.descriptor,),
            )
            process = host.spawn(command, f"guest {request.name}", options)
        guest = NamespacedGuest(
            agent=connect_stdio(process, request.name),
            peer=site.peer,
            process=process,
            attachment=attachment,
            console_file=console,
            spawned_monotonic_ns=spawned,
            cleanup=[*([group.remove] if group is not None else []), *cleanup],
        )
        try:
            guest.wait_ready(request.deadline_seconds)
        except GuestStartError as error:
            complaint = last_line(error.evidence["console.txt"])  # what the engine complained of last
            sentence = f"{error} (it said: {complaint[-300:]})" if complaint else str(error)
            raise GuestStartError(sentence, error.evidence) from error
        guest.executed_monotonic_ns = report.executed_monotonic_ns()
    return guest


class ManagedContainer(Platform[Confined]):
    """The driver of a container manager that is started in a cgroup of the guest's and makes its own below that.

    A manager is a subclass that says its program, its Debian package and its command line.
    """

    program: ClassVar[str]
    family: ClassVar[str] = "os-level"
    validation: ClassVar[Validation] = "real"
    boot_seconds: ClassVar[float] = 0.5
    slowdown: ClassVar[float] = 1.0
    data_by: ClassVar[DataBy] = "folder"
    without_root: ClassVar[str] = "no"
    parameter_model = Confined

    @property
    def programs(self) -> tuple[str, ...]:
        """The manager's."""
        return (self.program,)

    def probe(self, site: Site) -> Probe:
        """Ask for the version and run the image's agent once in a container."""
        try:
            version = self.version(site.host.run([self.program, "--version"], "probe"))
        except GuestError as error:
            return self.without(error, site.host)
        if site.host.local is not None and (site.host.local.cgroup is None or not site.host.is_root):
            return Probe.unusable(version, "it needs root and cgroups", "run as root")
        try:
            with contextlib.ExitStack() as undo:
                group = self._group(site, "probe", Limits())
                undo.callback(group.remove)
                folder = site.host.guest_folder("probe")
                command = self.command(site, folder, "probe", ["/init", "--version"], None, undo)
                site.host.run([*Enter(cgroups=group.process_files).prefix(site.image.agent), *command], "probe")
        except GuestError as error:
            return Probe(False, version, f"{version} does not start a container here: {error}")
        return Probe(True, version, None)

    def start(self, request: GuestRequest, site: Site) -> NamespacedGuest:
        """Start the agent as PID 1 of a container and move its links in."""
        network = site.network
        with contextlib.ExitStack() as undo:
            undo.callback(network.remove, request.network)
            group = self._group(site, request.name, request.limits(memory=True))
            undo.callback(group.remove)
            folder = site.host.guest_folder(request.name)
            command = self.command(site, folder, plain_name(request.name), AGENT, request, undo)
            guest = start_namespaced(request, site, command, request.network.attachment, [undo.pop_all().close], group)
        below = [pid for pid in with_descendants([guest.process.pid]) if pid != guest.process.pid]
        with guest.ending_on_error():
            if not below:
                raise GuestError(f"{request.name}: {self.program} has no process of a container below it")
            guest.limits_held = limits_held(request, site, below[0])
        move_links_in(guest, request, site, below[0])
        return guest

    def version(self, output: str) -> str:
        """The product's name and version, from what the program says of itself."""
        raise NotImplementedError

    def command(
        self,
        site: Site,
        folder: Path,
        name: str,
        argv: Sequence[str],
        request: GuestRequest | None,
        undo: contextlib.ExitStack,
    ) -> list[str]:
        """The command line that runs ``argv`` in a container; what it needs is made in ``folder``, and undone."""
        raise NotImplementedError

    def private_root(self, site: Site, folder: Path, name: str, undo: contextlib.ExitStack) -> Path:
        """The image's root by a read-only mount: managers put locks beside a root, and folders and files into it."""
        root = folder / "root"
        root.mkdir()
        site.host.run(["mount", "--bind", str(site.image.root), str(root)], f"guest {name}")
        undo.callback(site.host.run, ["umount", str(root)], f"guest {name}")
        site.host.run(["mount", "-o", "remount,bind,ro", str(root)], f"guest {name}")
        return root

    def _group(self, site: Site, name: str, limits: Limits) -> Group:
        group = site.this_machine.group(name, limits)
        if group is None:
            raise GuestError(f"{self.program} needs root and cgroups; run as root")
        return group


def plain_name(name: str) -> str:
    """A guest's name as a machine may have it: letters, digits and hyphens."""
    return re.sub(r"[\W_]", "-", name)


@contextlib.contextmanager
def held_namespace(site: Site, role: str) -> Iterator[int]:
    """A network namespace before there is a guest for it: the process that holds it, ended after the context."""
    process = site.this_machine.spawn(["unshare", "--net", "--", "cat"], role, PIPED)
    try:
        if process.stdin is None or process.stdout is None:
            raise GuestError(f"{role}: the namespace's holder was started without pipes")
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"!")
            process.stdin.flush()
        if process.stdout.read(1) != b"!":  # echoed once the namespace is there
            raise GuestError(f"{role}: no network namespace could be made; run as root or allow user namespaces")
        yield process.pid
    finally:
        end_process(process)
        for pipe in filter(None, (process.stdin, process.stdout)):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
