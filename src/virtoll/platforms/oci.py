"""Containers by an OCI runtime: one driver for every runtime that takes a bundle, given by its binary's name.

The bundle is written here, so that nothing of an engine's defaults (networks, limits, profiles) comes between: the
image's root read-only, namespaces for PID, network, mount, IPC and UTS, all capabilities, and memory and CPU limits
by cgroup where the lab may set them. Source: OCI runtime specification 1.0.2.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from virtoll.errors import GuestError
from virtoll.experiment import Parameters
from virtoll.lab.inside import wait_until
from virtoll.platforms.attaching import Attached
from virtoll.platforms.base import GuestRequest, Probe, Site, require_site
from virtoll.platforms.namespaced import NamespacedGuest, move_links_in, start_namespaced

_CAPABILITIES = [
    "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_NET_BIND_SERVICE", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE",
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP",
    "CAP_IPC_LOCK", "CAP_SYS_NICE", "CAP_MKNOD",
]  # fmt: skip

_PERIOD_MICROSECONDS = 100_000


class OciParameters(Attached):
    """An OCI runtime has no parameters of its own yet."""


class OciPlatform:
    """The driver; a runtime is a subclass that names its binary and its arguments."""

    runtime: ClassVar[str]
    family: ClassVar[str] = "os-level"
    parameter_model: ClassVar[type[Parameters]] = OciParameters
    boot_seconds: ClassVar[float] = 0.5
    slowdown: ClassVar[float] = 1.0
    control_of: ClassVar[str | None] = None
    needs_lab: ClassVar[bool] = True

    def __init__(self, parameters: Parameters) -> None:
        """Nothing to choose."""

    def probe(self, site: Site | None) -> Probe:
        """Ask for the version and run the image's agent once in a container."""
        place = require_site(site)
        try:
            version = place.lab.run([self.runtime, "--version"], "probe").splitlines()[0].replace(" version", "")
        except GuestError as error:
            return Probe(False, None, f"{error}: apt-get install {self.runtime}")
        folder = place.lab.guest_folder("probe")
        name = folder.name
        _write_bundle(folder, oci_configuration(place, ["/init", "--version"], None))
        try:
            place.lab.run([*self._command(place), "run", "--bundle", str(folder), name], "probe")
        except GuestError as error:
            return Probe(False, version, f"{version} does not start a container here: {error}")
        return Probe(True, version, None)

    def depends_on(self) -> str | None:
        """The probe is quick."""
        return None

    def start(self, request: GuestRequest, site: Site | None) -> NamespacedGuest:
        """Start the agent as PID 1 of a container and move its links in."""
        place = require_site(site)
        lab, network = place.lab, place.require_network()
        bundle = lab.guest_folder(request.name)
        container = request.name.replace("/", "-")
        agent = ["/init", "--seat", "guest", "--channel", "stdio"]
        _write_bundle(bundle, oci_configuration(place, agent, request))
        runtime = self._command(place)
        pid_file = bundle / "pid"
        command = [*runtime, "run", "--bundle", str(bundle), "--pid-file", str(pid_file), container]
        cleanup = [
            lambda: network.remove(request.network),
            lambda: lab.run([*runtime, "delete", "--force", container], f"guest {request.name}"),
        ]
        guest = start_namespaced(request, place, command, request.network.attachment, cleanup)
        wait_until(pid_file.exists, 5.0, f"{self.runtime}'s pid file of {request.name}")
        guest.inner_group = int(pid_file.read_text())  # a runtime gives its container a session of its own
        move_links_in(guest, request, place, guest.inner_group)
        return guest

    def _command(self, site: Site) -> list[str]:
        rootless = [] if site.lab.is_root else ["--rootless", "true"]
        return [self.runtime, "--root", str(site.lab.scratch / self.runtime), *rootless]


class Runc(OciPlatform):
    """runc, the reference runtime."""

    name: ClassVar[str] = "runc"
    title: ClassVar[str] = "container by runc"
    runtime: ClassVar[str] = "runc"


def _write_bundle(folder: Path, configuration: dict[str, Any]) -> None:
    (folder / "config.json").write_text(json.dumps(configuration, indent=1), encoding="utf-8")


def oci_configuration(site: Site, argv: list[str], request: GuestRequest | None) -> dict[str, Any]:
    """A bundle's ``config.json`` for ``argv`` in the image; limits only where the lab may make cgroups."""
    linux: dict[str, Any] = {
        "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
        "maskedPaths": [],
        "readonlyPaths": [],
    }
    if site.lab.cgroup is not None:
        linux["cgroupsPath"] = f"/{site.lab.cgroup}/{request.name.replace('/', '-') if request else 'probe'}"
        linux["resources"] = _limits(request) if request else {}
    return {
        "ociVersion": "1.0.2",
        "hostname": "guest",
        "root": {"path": str(site.image.root), "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "cwd": "/",
            "env": ["PATH=/bin:/sbin:/usr/bin:/usr/sbin"],
            "args": argv,
            "noNewPrivileges": False,
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted", "inheritable"), _CAPABILITIES),
        },
        "mounts": _MOUNTS + ([_CGROUP_MOUNT] if site.lab.cgroup is not None else []),
        "linux": linux,
    }


def _limits(request: GuestRequest) -> dict[str, Any]:
    """Memory, CPU set and quota of a guest as OCI ``linux.resources``."""
    cpu: dict[str, Any] = {"cpus": ",".join(map(str, request.cpus))}
    if request.cpu_quota is not None:
        cpu |= {"period": _PERIOD_MICROSECONDS, "quota": round(request.cpu_quota * _PERIOD_MICROSECONDS)}
    return {"memory": {"limit": request.memory_bytes}, "cpu": cpu}


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
