"""Containers by an OCI runtime: one driver for every runtime that takes a bundle, given by its binary's name.

The bundle is written here, so that nothing of an engine's defaults (networks, limits, profiles) comes between. It has
the image's root read-only, namespaces for PID, network, mount, IPC, UTS and cgroups, and is confined as
``confinement.py`` says. It has memory and CPU limits by cgroup where the lab may set them. Source: OCI runtime
specification 1.0.2.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field, StringConstraints

from virtoll.errors import GuestDied, GuestError
from virtoll.experiment.describe import Words
from virtoll.lab import cgroups
from virtoll.lab.data import DataBy
from virtoll.lab.enter import Enter, Hide
from virtoll.lab.inside import wait_until
from virtoll.platforms.attachment import Attached
from virtoll.platforms.base import DATA_PATH, GuestRequest, Platform, Probe, Validation
from virtoll.platforms.containers.confinement import MASKED, NEEDED, OPEN, Confined, read_only_paths
from virtoll.platforms.containers.guest import AGENT, NamespacedGuest, move_links_in, start_namespaced
from virtoll.platforms.host import Site
from virtoll.platforms.limits import limits_held

_PERIOD_MICROSECONDS = 100_000
_PID_SECONDS = 60.0


AttachedP = TypeVar("AttachedP", bound=Attached)


class OciPlatform(Platform[AttachedP]):
    """The driver; a runtime is a subclass that names its binary and its arguments."""

    runtime: str
    family: ClassVar[str] = "os-level"
    validation: ClassVar[Validation] = "real"
    boot_seconds: ClassVar[float] = 0.5
    slowdown: ClassVar[float] = 1.0
    data_by: ClassVar[DataBy] = "folder"
    without_root: ClassVar[str] = "yes, without limits"

    @property
    def programs(self) -> tuple[str, ...]:
        """The runtime."""
        return (self.runtime,)

    def probe(self, site: Site) -> Probe:
        """Ask for the version and run the image's agent once in a container."""
        try:
            version = site.host.run([self._binary(site), "--version"], "probe").splitlines()[0].replace(" version", "")
        except GuestError as error:
            return self.without(error, site.host)
        try:
            self._try(site)
        except GuestError as error:
            return Probe(False, version, f"{version} does not start a container here: {error}")
        return Probe(True, version, None)

    def _try(self, site: Site) -> None:
        """Run a container to its end; a ``GuestError`` where that fails."""
        self._run_agent_once(site)

    def _run_agent_once(self, site: Site, namespace: str | None = None) -> None:
        """Run the image's agent in a container, which is given the network ``namespace`` of that file."""
        folder = site.host.guest_folder("probe")
        write_bundle(
            folder, oci_configuration(site, ["/init", "--version"], None, namespace=namespace, strict=self._strict)
        )
        site.host.run([*self._entered(site), "run", "--bundle", str(folder), folder.name], "probe")

    def start(self, request: GuestRequest, site: Site) -> NamespacedGuest:
        """Start the agent as PID 1 of a container and move its links in."""
        configuration = oci_configuration(site, self.agent_command(site, request), request, strict=self._strict)
        guest, first = self._run(request, site, configuration, [])
        move_links_in(guest, request, site, first)
        return guest

    def agent_command(self, site: Site, request: GuestRequest) -> Sequence[str]:
        """The container's first process: the agent, which takes the guest's CPUs itself where no cgroup says which.

        runc from 1.3.1 on gives a container all CPUs then, whichever it was started on.
        """
        cpus = () if site.this_machine.cgroup is not None else request.cpus
        return [*Enter(cpus=cpus).prefix(Path(AGENT[0])), *AGENT]

    def _run(
        self, request: GuestRequest, site: Site, configuration: dict[str, Any], cleanup: Sequence[Callable[[], object]]
    ) -> tuple[NamespacedGuest, int]:
        """Run a bundle until its agent is ready; the guest and its first process. ``cleanup`` is undone last."""
        network, lab = site.network, site.host
        bundle = lab.guest_folder(request.name)
        write_bundle(bundle, configuration)
        runtime, pid_file, container = self._entered(site), bundle / "pid", request.file_name
        command = [*self._command(site), "run", "--bundle", str(bundle), "--pid-file", str(pid_file), container]
        undo = [
            *cleanup,
            lambda: network.remove(request.network),
            lambda: lab.run([*runtime, "delete", "--force", container], f"guest {request.name}"),
        ]
        guest = start_namespaced(request, site, command, request.network.attachment, undo, enter=self._around())
        with guest.ending_on_error():
            first = self._first_process(guest, pid_file)
            guest.limits_held = limits_held(request, site, first)
        guest.inner_group = first  # a runtime gives its container a session of its own
        return guest, first

    def _first_process(self, guest: NamespacedGuest, pid_file: Path) -> int:
        """The number of the container's first process; some runtimes make the file first and write to it then."""
        reported, awaited = "", f"{self.runtime}'s pid file"

        def decided() -> bool:
            nonlocal reported
            with contextlib.suppress(FileNotFoundError):
                reported = pid_file.read_text(encoding="ascii")
            return bool(reported) or guest.process.poll() is not None

        wait_until(decided, _PID_SECONDS, awaited)
        if not reported:
            raise GuestDied(f"{awaited} was never written: the container has ended")
        return int(reported)

    @property
    def _strict(self) -> bool:
        """Whether its guests are confined; a kernel of a guest's own is not to be kept from it."""
        return isinstance(self.parameters, Confined) and self.parameters.strict

    def _binary(self, site: Site) -> str:
        del site  # PATH finds it, on whichever host
        return self.runtime

    def _around(self) -> Enter:
        """What every process of the runtime is put into."""
        return Enter()

    def _entered(self, site: Site) -> list[str]:
        return [*self._around().prefix(site.image.agent), *self._command(site)]

    def _command(self, site: Site) -> list[str]:
        rootless = [] if site.host.is_root else ["--rootless", "true"]
        return [self._binary(site), "--root", str(site.host.scratch / self.runtime), *rootless]


class Runc(OciPlatform[Confined]):
    """runc, the reference runtime."""

    name: ClassVar[str] = "runc"
    packages: ClassVar[tuple[str, ...]] = ("runc",)
    install: ClassVar[tuple[str, ...]] = ("runc",)
    title: ClassVar[str] = "container by runc"
    parameter_model = Confined
    runtime = "runc"


class Crun(OciPlatform[Confined]):
    """crun, a runtime in C."""

    name: ClassVar[str] = "crun"
    packages: ClassVar[tuple[str, ...]] = ("crun",)
    install: ClassVar[tuple[str, ...]] = ("crun",)
    title: ClassVar[str] = "container by crun"
    parameter_model = Confined
    runtime = "crun"

    def _around(self) -> Enter:
        """crun refuses a host with cgroup v1 where v2 is mounted too and holds a controller: it is not to see that."""
        return with_cgroup_v2(self.runtime)

    def _command(self, site: Site) -> list[str]:
        return [self._binary(site), "--root", str(site.host.scratch / self.runtime)]


class AnyRuntimeParameters(Confined):
    """``runtime``: the name of the runtime's binary, found by PATH, that takes runc's arguments."""

    runtime: Annotated[
        str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"), Words("the name of a program")
    ] = Field(default="runc", description="the runtime's program, found by PATH, that takes runc's arguments")


class AnyRuntime(OciPlatform[AnyRuntimeParameters]):
    """Any further runtime with runc's command line, such as youki or kata-runtime."""

    name: ClassVar[str] = "oci"
    title: ClassVar[str] = "container by the OCI runtime that 'runtime' names"
    remedy: ClassVar[str] = "put an OCI runtime of that name where PATH finds it"
    parameter_model = AnyRuntimeParameters

    def __init__(self, parameters: AnyRuntimeParameters) -> None:
        """The runtime is what the parameters name."""
        super().__init__(parameters)
        self.runtime = parameters.runtime

    def _around(self) -> Enter:
        """Where it is crun, what crun is started in."""
        return with_cgroup_v2(self.runtime)

    def _command(self, site: Site) -> list[str]:
        return [self._binary(site), "--root", str(site.host.scratch / self.runtime)]


def with_cgroup_v2(runtime: str) -> Enter:
    """What a command is put into on a host with v1 and v2 side by side: crun takes only one of them.

    It gets a mount namespace of its own in which the v2 hierarchy, which limits nothing there, is covered.
    """
    layout = cgroups.detect()
    if runtime != "crun" or layout.version != "hybrid" or layout.unified is None:
        return Enter()
    return Enter(namespaces=("mount",), mounts=(Hide(layout.unified),))


def write_bundle(folder: Path, configuration: dict[str, Any]) -> None:
    """A bundle is a folder with ``config.json``; its root is elsewhere."""
    (folder / "config.json").write_text(json.dumps(configuration, indent=1), encoding="utf-8")


def oci_configuration(
    site: Site, argv: Sequence[str], request: GuestRequest | None, namespace: str | None = None, *, strict: bool
) -> dict[str, Any]:
    """A bundle's ``config.json`` for ``argv`` in the image; limits only where the lab may make cgroups.

    ``namespace``: the path of a network namespace that is there already; None: a fresh one. ``strict``: the container
    is confined.
    """
    network = {"type": "network", **({"path": namespace} if namespace else {})}
    kinds, capabilities = ["pid", "ipc", "uts", "mount"], list(OPEN)
    masked, read_only, devices = [], [], {}
    if strict:
        kinds.append("cgroup")
        capabilities = list(NEEDED)
        masked, read_only, devices = list(MASKED), read_only_paths(), _NO_DEVICES
    linux: dict[str, Any] = {
        "namespaces": [network, *({"type": kind} for kind in kinds)],
        "maskedPaths": masked,
        "readonlyPaths": read_only,
    }
    if site.this_machine.cgroup is not None:
        linux["cgroupsPath"] = f"/{site.this_machine.cgroup}/{request.file_name if request else 'probe'}"
        linux["resources"] = (_limits(request) if request else {}) | devices
    return {
        "ociVersion": "1.0.2",
        "hostname": "guest",
        "root": {"path": str(site.image.root), "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "cwd": "/",
            "env": ["PATH=/bin:/sbin:/usr/bin:/usr/sbin"],
            "args": list(argv),
            "noNewPrivileges": strict,
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted", "inheritable"), capabilities),
        },
        "mounts": _mounts(strict)
        + ([_CGROUP_MOUNT] if site.this_machine.cgroup is not None else [])
        + _data_mounts(request),
        "linux": linux,
    }


def _mounts(strict: bool) -> list[dict[str, Any]]:
    """For a confined container /sys is read-only: it is the whole kernel's."""
    if not strict:
        return _MOUNTS
    return [{**mount, "options": [*mount["options"], "ro"]} if mount["type"] == "sysfs" else mount for mount in _MOUNTS]


def _data_mounts(request: GuestRequest | None) -> list[dict[str, Any]]:
    if request is None or request.data_folder is None:
        return []
    source, options = str(request.data_folder), ["bind", "rw", "nosuid", "nodev"]
    return [{"destination": DATA_PATH, "type": "bind", "source": source, "options": options}]


def _limits(request: GuestRequest) -> dict[str, Any]:
    """Memory, CPUs, quota and limits of a guest's own as OCI ``linux.resources``."""
    cpu: dict[str, Any] = {"cpus": ",".join(map(str, request.cpus))}
    limits: dict[str, Any] = {"memory": {"limit": request.memory_bytes}, "cpu": cpu}
    if request.cpu_quota is not None:
        cpu |= {"period": _PERIOD_MICROSECONDS, "quota": round(request.cpu_quota * _PERIOD_MICROSECONDS)}
    if request.own.cpu_weight is not None:
        if cgroups.detect().version == "v2":  # shares are translated to a weight there, by each version in its way
            limits["unified"] = {"cpu.weight": str(request.own.cpu_weight)}
        else:
            cpu["shares"] = request.own.cpu_shares
    if (disk := request.own.disk) is not None:
        major, minor = map(int, disk.device.split(":"))
        rate = [{"major": major, "minor": minor, "rate": disk.bytes_per_second}]
        limits["blockIO"] = {"throttleReadBpsDevice": rate, "throttleWriteBpsDevice": rate}
    return limits


# The runtime allows those that every container has by itself (null, zero, random and the like).
_NO_DEVICES: dict[str, Any] = {"devices": [{"allow": False, "access": "rwm"}]}

_MOUNTS: list[dict[str, Any]] = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {
        "destination": "/dev",
        "type": "tmpfs",
        "source": "tmpfs",
        "options": ["nosuid", "strictatime", "mode=755", "size=65536k"],
    },
    {
        "destination": "/dev/pts",
        "type": "devpts",
        "source": "devpts",
        "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666"],
    },
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev"]},
    {"destination": "/run", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=755"]},
    {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]},  # noqa: S108
]

# Read-only, so that the guest can see its limits and not change them.
_CGROUP_MOUNT = {
    "destination": "/sys/fs/cgroup",
    "type": "cgroup",
    "source": "cgroup",
    "options": ["nosuid", "noexec", "nodev", "relatime", "ro"],
}
