"""Podman: containers without a daemon, each under a monitor (conmon); the runtime below it is a parameter.

Storage, state and locks are in the lab, and so is the configuration. Nothing of the host's own /etc/containers,
/var/lib/containers or /dev/shm is read or written. The guest's root is the image's folder under an overlay, read-only.
The agent's standard streams are the container's own
(``--log-driver passthrough``, Podman 4.0 and newer): nothing copies the channel.
"""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path
from typing import ClassVar

from virtoll.errors import GuestError
from virtoll.lab.data import DataBy
from virtoll.lab.inside import wait_until
from virtoll.platforms.base import GuestRequest, Platform, Probe, Validation
from virtoll.platforms.containers.engines import EngineParameters, container_name, container_options, start_container
from virtoll.platforms.containers.guest import AGENT, NamespacedGuest
from virtoll.platforms.containers.oci import with_cgroup_v2
from virtoll.platforms.host import Site

_ENGINE = '[engine]\nlock_type = "file"\n'
_MOST_FILES = 1_048_576


class PodmanParameters(EngineParameters):
    """See ``EngineParameters``."""


class Podman(Platform[PodmanParameters]):
    """Containers by Podman."""

    name: ClassVar[str] = "podman"
    packages: ClassVar[tuple[str, ...]] = ("podman",)
    install: ClassVar[tuple[str, ...]] = ("podman",)
    without_root: ClassVar[str] = "yes, without limits"
    family: ClassVar[str] = "os-level"
    validation: ClassVar[Validation] = "real"
    title: ClassVar[str] = "container by Podman"
    parameter_model = PodmanParameters
    boot_seconds: ClassVar[float] = 0.8
    slowdown: ClassVar[float] = 1.0
    data_by: ClassVar[DataBy] = "folder"

    @property
    def programs(self) -> tuple[str, ...]:
        """The engine and the runtime below it; a monitor (conmon) it finds by itself."""
        return ("podman", self.parameters.runtime)

    def probe(self, site: Site) -> Probe:
        """Ask for the versions and run the image's agent once in a container."""
        version = None
        for program in ("podman", "conmon", self.parameters.runtime):
            if site.this_machine.which(program) is None:
                return self.without_program(program, install=(program,))
        try:
            version = site.host.run(["podman", "--version"], "probe").strip().replace(" version", "")
            runtime = site.host.run([self.parameters.runtime, "--version"], "probe").splitlines()[0]
            version = f"{version}, {runtime.replace(' version', '')}"
            site.host.run(
                [*self._entered(site), *self._run(site, None, "virtoll-probe"), "/init", "--version"], "probe"
            )
        except GuestError as error:
            return Probe(False, version, f"{version or 'podman'} does not start a container here: {error}")
        return Probe(True, version, None)

    def start(self, request: GuestRequest, site: Site) -> NamespacedGuest:
        """Start the agent as PID 1 of a container and move its links in."""
        name = container_name(request)
        pid_file = site.host.guest_folder(f"{request.name}-podman") / "pid"
        command = [*self._run(site, request, name, pid_file), *AGENT]

        def find_pid() -> int | None:
            with contextlib.suppress(OSError, ValueError):
                return int(pid_file.read_text(encoding="ascii"))
            return None

        def remove() -> None:
            podman = [*self._entered(site), *self._podman(site)]
            site.host.run([*podman, "rm", "--force", "--ignore", "--time", "0", name], f"guest {request.name}")
            pid = find_pid()
            if pid is not None:
                wait_until(lambda: not Path(f"/proc/{pid}").exists(), 5.0, f"the end of container {name}")

        return start_container(
            request,
            site,
            command,
            find_pid,
            remove,
            strict=self.parameters.strict,
            enter=with_cgroup_v2(self.parameters.runtime),
        )

    def _entered(self, site: Site) -> list[str]:
        return with_cgroup_v2(self.parameters.runtime).prefix(site.image.agent)

    def _podman(self, site: Site) -> list[str]:
        """Podman with all its state below the lab's scratch folder."""
        folder = site.host.scratch / "podman"
        engine, storage = folder / "containers.conf", folder / "storage.conf"
        if not storage.exists():
            (folder / "tmp").mkdir(parents=True, exist_ok=True)
            # Without a folder of its own it locks the host's networks in /etc, though a guest has none of them.
            engine.write_text(f'{_ENGINE}[network]\nnetwork_config_dir = "{folder}/networks"\n', encoding="ascii")
            roots = f'runroot = "{folder}/run"\ngraphroot = "{folder}/root"\n'
            storage.write_text(f'[storage]\ndriver = "overlay"\n{roots}', encoding="ascii")
        runtime = self.parameters.runtime
        return [
            "env",
            f"--chdir={folder}",
            f"CONTAINERS_CONF={engine}",
            f"CONTAINERS_STORAGE_CONF={storage}",
            *_as_user(site, folder),
            "podman",
            "--root",
            f"{folder}/root",
            "--runroot",
            f"{folder}/run",
            "--tmpdir",
            str(folder / "tmp"),
            "--cgroup-manager",
            "cgroupfs",
            "--events-backend",
            "none",
            "--runtime",
            site.this_machine.which(runtime) or runtime,
        ]

    def _run(self, site: Site, request: GuestRequest | None, name: str, pid_file: Path | None = None) -> list[str]:
        """``podman run`` up to the image's root; ulimits are this process's: Podman's default may be unavailable."""
        files, processes = (
            min(resource.getrlimit(kind)[1] % 2**63, most)
            for kind, most in ((resource.RLIMIT_NOFILE, _MOST_FILES), (resource.RLIMIT_NPROC, 2**22))
        )
        options = container_options(site, request, self.parameters)
        options[options.index("--log-driver") + 1] = "passthrough"
        settings = [
            "--ulimit",
            f"nofile={files}:{files}",
            "--ulimit",
            f"nproc={processes}:{processes}",
            "--no-hosts",
            "--read-only-tmpfs=false",
            "--security-opt",
            "unmask=ALL",
            "--cgroups",
            "no-conmon" if site.this_machine.cgroup is not None or self.parameters.runtime == "runc" else "disabled",
        ]
        if pid_file is not None:
            settings += ["--pidfile", str(pid_file)]
        podman = self._podman(site)
        return [*podman, "run", "--rm", "--name", name, *options, *settings, "--rootfs", str(_root(site))]


def _as_user(site: Site, home: Path) -> list[str]:
    """What shows Podman that it is in a user's namespace already: it would take its root for the host's otherwise.

    What it notes in the user's home goes to ``home``.
    """
    if site.host.is_root:
        return []
    users, groups = (Path(f"/proc/self/{kind}_map").read_text(encoding="ascii").split()[1] for kind in ("uid", "gid"))
    named = {"USERNS_CONFIGURED": "done", "ROOTLESS_UID": users, "ROOTLESS_GID": groups}
    return [f"HOME={home}", *(f"_CONTAINERS_{name}={value}" for name, value in named.items())]


def _root(site: Site) -> Path:
    """The image's root under an overlay, made once a lab: Podman makes places to mount on in a root it is given.

    Not by Podman's own overlay (``:O``): that gives its upper folder the image's owner, whom a user's lab may not have.
    """
    folder = site.host.scratch / "podman"
    root, upper, work = (folder / name for name in ("image", "upper", "work"))
    if not (root / "init").exists():
        for made in (root, upper, work):
            made.mkdir(parents=True, exist_ok=True)
        layers = f"lowerdir={site.image.root},upperdir={upper},workdir={work}"
        site.host.run(["mount", "-t", "overlay", "-o", layers, "overlay", str(root)], "podman")
    return root
