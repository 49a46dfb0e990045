"""Docker: containers by a daemon of the lab's own, started when the first guest needs it; the host's is never asked.

Daemon, containerd and all they store live in the lab (its mounts, its PID namespace, its memory), make no network and
no packet filter, and end with it. While no guest of Docker's is running, daemon and containerd are stopped, so that
they take no CPU from the others. The image is imported from the image's folder, once a lab.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import ClassVar

from virtoll.errors import GuestError
from virtoll.host.packages import how_to_install
from virtoll.hosts.base import LocalHost
from virtoll.lab.commands import ProcessOptions
from virtoll.lab.data import DataBy
from virtoll.lab.inside import end_process, is_listened, wait_until
from virtoll.platforms.base import GuestRequest, GuestStartError, Platform, Probe, Validation
from virtoll.platforms.containers.engines import EngineParameters, container_name, container_options, start_container
from virtoll.platforms.containers.guest import AGENT, NamespacedGuest
from virtoll.platforms.containers.oci import with_cgroup_v2
from virtoll.platforms.host import Site
from virtoll.platforms.last_words import last_line

_READY_SECONDS = 120.0
_ENDING_SECONDS = 1.0
_STARTS = 2  # it gives its containerd 15 s, in which a slow machine may not have read all from its disk
_PACKAGES = ("docker.io", "docker-cli")  # the client is in the first one up to Debian 12
# What a user may have set for a daemon of their own must not lead the client there.
_CLIENT_VARIABLES = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_API_VERSION", "DOCKER_TLS_VERIFY", "DOCKER_CONFIG")


class DockerParameters(EngineParameters):
    """See ``EngineParameters``. No gVisor: it takes a guest's links at its start only, and here they come after."""


@dataclass
class Daemon:
    """The lab's daemon and a client that it answers; ``running``: the guests that need it now."""

    lab: LocalHost
    process: subprocess.Popen[bytes]
    folder: Path
    client: list[str]
    version: str
    running: set[str] = field(default_factory=set)

    def run(self, *arguments: str) -> str:
        """One command of the client."""
        return self.lab.run([*self.client, *arguments], "docker")

    def wake(self, name: str) -> None:
        """A guest (or whatever asks) needs it."""
        self.running.add(name)
        self._signal(signal.SIGCONT)

    def rest(self, name: str) -> None:
        """A guest does not need it any more; without any it is stopped."""
        self.running.discard(name)
        if not self.running:
            self._signal(signal.SIGSTOP)

    def log(self) -> bytes:
        """What it said."""
        return (self.folder / "dockerd.txt").read_bytes()

    def processes(self) -> tuple[tuple[str, int], ...]:
        """The daemon and its containerd, which is in a session of its own, by name, as far as they live."""
        processes = [("dockerd", self.process.pid)] if self.process.poll() is None else []
        with contextlib.suppress(OSError, ValueError):
            text = (self.folder / "exec/containerd/containerd.pid").read_text(encoding="ascii")
            processes.append(("containerd", int(text)))
        return tuple(processes)

    def end(self) -> None:
        """End it and its containerd."""
        self._signal(signal.SIGCONT)
        held = []
        for name, pid in self.processes():
            if name != "dockerd":
                with contextlib.suppress(ProcessLookupError):
                    held.append(os.pidfd_open(pid))
        end_process(self.process)
        for descriptor in held:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)

    def _signal(self, number: int) -> None:
        for _, pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


class DaemonEnded(GuestError):
    """The daemon ended before a client had its answer."""


def lab_daemon(site: Site) -> Daemon:
    """The lab's daemon, started at the first call; awake until it is let ``rest``."""
    known = site.shared.find(Daemon)
    if known is not None and known.process.poll() is None:
        known.wake("a start")
        return known
    for _ in range(_STARTS - 1):
        with contextlib.suppress(DaemonEnded):
            return _start_daemon(site)
    return _start_daemon(site)


def _start_daemon(site: Site) -> Daemon:
    lab = site.this_machine
    folder = lab.scratch / "docker"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "daemon.json").write_text("{}", encoding="ascii")
    with (folder / "dockerd.txt").open("wb") as log:
        enter = with_cgroup_v2("crun") if shutil.which("crun") else None
        options = ProcessOptions(enter=enter, stdout=log.fileno(), stderr=subprocess.STDOUT)
        process = lab.spawn(_daemon_command(folder), "docker", options)
    daemon = Daemon(lab, process, folder, [], "", {"a start"})
    try:
        _await_daemon(daemon)
        daemon.client, daemon.version = _choose_client(site, folder)
        _import_image(daemon, site)
    except GuestError as error:
        ended = _has_ended(process)
        daemon.end()
        if ended:  # what a client says of that is that it cannot connect
            complaint = last_line(daemon.log()) or "nothing"
            raise DaemonEnded(f"the lab's own Docker daemon ended; it said: {complaint}") from error
        raise
    site.shared.keep(daemon, daemon.end)
    return daemon


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has; its sockets are closed a moment before."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_ENDING_SECONDS)
    return process.poll() is not None


def _daemon_command(folder: Path) -> list[str]:
    """``dockerd`` with all that it has below ``folder``."""
    crun = shutil.which("crun")
    runtimes = ["--add-runtime", f"crun={crun}"] if crun else []
    return [
        "dockerd",
        "--config-file",
        f"{folder}/daemon.json",
        "--data-root",
        f"{folder}/data",
        "--exec-root",
        f"{folder}/exec",
        "--pidfile",
        f"{folder}/pid",
        "--host",
        f"unix://{folder}/socket",
        "--group",
        "root",
        "--bridge=none",
        "--iptables=false",
        "--ip6tables=false",
        "--ip-forward=false",
        "--ip-masq=false",
        "--userland-proxy=false",
        "--exec-opt",
        "native.cgroupdriver=cgroupfs",
        "--shutdown-timeout",
        "2",
        "--log-level",
        "warn",
        *runtimes,
    ]


def _await_daemon(daemon: Daemon) -> None:
    """Wait for its socket, or its end. It listens before its containerd has started, and may end after that."""
    socket = daemon.folder / "socket"
    wait_until(
        lambda: is_listened(socket) or daemon.process.poll() is not None, _READY_SECONDS, "the Docker daemon's start"
    )


def _choose_client(site: Site, folder: Path) -> tuple[list[str], str]:
    """The first ``docker`` on the path that the daemon answers, one of the daemon's own version before all others.

    Clients and daemons of different versions agree on an API by themselves; Podman's script of the same name does not.
    """
    cleared = [word for name in _CLIENT_VARIABLES for word in ("--unset", name)]
    spoken: list[tuple[bool, list[str], str]] = []
    complaint = "docker: no client on the path"
    places = (Path(entry) / "docker" for entry in os.get_exec_path())
    for program in dict.fromkeys(str(path) for path in places if os.access(path, os.X_OK)):
        client = ["env", *cleared, program, "--config", f"{folder}/client", "--host", f"unix://{folder}/socket"]
        template = "{{.Client.Version}} {{.Server.Version}} {{.Server.APIVersion}}"
        try:
            words = site.host.run([*client, "version", "--format", template], "docker").split()
        except GuestError as error:
            complaint = f"no docker client on the path speaks with dockerd: {error}"
            continue
        theirs, ours, interface = words if len(words) == 3 else ("?", "?", "?")
        version = f"Docker {ours}, client {theirs}, API {interface}"
        spoken.append((theirs != ours, client, version))
    if not spoken:
        raise GuestError(f"{complaint}; {how_to_install(*_PACKAGES)}")
    _, client, version = min(spoken, key=lambda candidate: candidate[0])
    return client, version


def _image_name(site: Site) -> str:
    return f"virtoll:{site.image.digest.removeprefix('sha256:')[:32]}"


def _import_image(daemon: Daemon, site: Site) -> None:
    """The image's folder as Docker's image: the same files, owned by root."""
    archive = daemon.folder / "image.tar"
    owner = ["--owner=0", "--group=0", "--numeric-owner"]
    root = ["--directory", str(site.image.root)]
    daemon.lab.run(["tar", "--create", "--file", str(archive), *owner, *root, "."], "docker")
    daemon.run("import", str(archive), _image_name(site))
    archive.unlink()


class DockerGuest(NamespacedGuest):
    """A container; with the last of them parked the daemon stops too."""

    daemon: Daemon
    container: str

    def park(self) -> None:
        """Stop the container's processes and the client, then let the daemon rest."""
        super().park()
        self.daemon.rest(self.container)

    def resume(self) -> None:
        """Wake the daemon first: the agent's channel goes through it."""
        self.daemon.wake(self.container)
        super().resume()

    def stop(self) -> None:
        """As every guest; the daemon may rest then."""
        try:
            super().stop()
        finally:
            self.daemon.rest(self.container)

    def evidence(self) -> dict[str, bytes]:
        """The console, and what the daemon said."""
        return {**super().evidence(), "dockerd.txt": self.daemon.log()}


class Docker(Platform[DockerParameters]):
    """Containers by Docker."""

    name: ClassVar[str] = "docker"
    packages: ClassVar[tuple[str, ...]] = _PACKAGES
    install: ClassVar[tuple[str, ...]] = _PACKAGES
    without_root: ClassVar[str] = "no"
    family: ClassVar[str] = "os-level"
    validation: ClassVar[Validation] = "real"
    title: ClassVar[str] = "container by Docker"
    parameter_model = DockerParameters
    boot_seconds: ClassVar[float] = 1.5
    slowdown: ClassVar[float] = 1.0
    data_by: ClassVar[DataBy] = "folder"

    def probe(self, site: Site) -> Probe:
        """Start the lab's daemon and run the image's agent once in a container."""
        runtime = self.parameters.runtime
        for program, brought_by in (("dockerd", _PACKAGES), ("docker", _PACKAGES), (runtime, (runtime,))):
            if shutil.which(program) is None:
                return self.without_program(program, install=brought_by)
        if not site.host.is_root:
            return Probe.unusable(None, "a Docker daemon of the lab's own needs root", "run as root")
        version = None
        try:
            its_version = site.host.run([runtime, "--version"], "probe").splitlines()[0]
            daemon = lab_daemon(site)
            version = f"{daemon.version}, {its_version.replace(' version', '')}"
            with contextlib.ExitStack() as ending:
                ending.callback(daemon.rest, "a start")
                daemon.run(*self._run(site, None, "virtoll-probe"), "/init", "--version")
        except GuestError as error:
            return Probe(False, version, f"no container starts under Docker here: {error}")
        return Probe(True, version, None)

    def depends_on(self) -> str | None:
        """The probe is quick: the daemon that it starts is the guests'."""
        return None

    def start(self, request: GuestRequest, site: Site) -> DockerGuest:
        """Start the agent as PID 1 of a container and move its links in."""
        if not site.host.is_root:
            raise GuestError("a Docker daemon of the lab's own needs root: run as root")
        daemon = lab_daemon(site)
        name = container_name(request)

        def find_pid() -> int | None:
            return int(daemon.run("inspect", "--format", "{{.State.Pid}}", name)) or None

        def remove() -> None:
            with contextlib.suppress(GuestError):  # gone already after an orderly end
                daemon.run("rm", "--force", name)

        daemon.wake(name)
        try:
            command = [*daemon.client, *self._run(site, request, name), *AGENT]
            guest = start_container(request, site, command, find_pid, remove, strict=self.parameters.strict)
        except GuestError as error:
            daemon.rest(name)
            if isinstance(error, GuestStartError):
                error.evidence["dockerd.txt"] = daemon.log()
            raise
        finally:
            daemon.rest("a start")
        values = {attribute.name: getattr(guest, attribute.name) for attribute in fields(guest) if attribute.init}
        docker = DockerGuest(**{**values, "shared": daemon.processes()})
        docker.daemon, docker.container = daemon, name
        return docker

    def _run(self, site: Site, request: GuestRequest | None, name: str) -> list[str]:
        """``docker run`` up to the image's name."""
        security = ["--security-opt", "systempaths=unconfined", "--security-opt", "apparmor=unconfined"]
        options = [*container_options(site, request, self.parameters), *security, "--runtime", self.parameters.runtime]
        return ["run", "--rm", "--interactive", "--name", name, *options, _image_name(site)]
