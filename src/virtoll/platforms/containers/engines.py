"""What container engines (Podman, Docker) share: the options that make their guests equal to a bare OCI runtime's.

The command lines of both take the same options. What an engine would add by itself (networks, a limit on processes,
ulimits) is switched off, because it belongs to a deployment and not to the platform. Capabilities and what is hidden
are a bare runtime's. Its seccomp profile is a parameter, because it costs time. It must not know an engine's options.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import Field

from virtoll.errors import GuestDied
from virtoll.lab import cgroups
from virtoll.lab.cgroups import Limits
from virtoll.lab.disks import node_of_disk
from virtoll.lab.enter import Enter
from virtoll.lab.inside import wait_until
from virtoll.platforms.base import DATA_PATH, GuestRequest
from virtoll.platforms.containers.confinement import NEEDED, OPEN, Confined, protect_from_outside
from virtoll.platforms.containers.guest import NamespacedGuest, move_links_in, start_namespaced
from virtoll.platforms.host import Site
from virtoll.platforms.limits import limits_held

_PERIOD_MICROSECONDS = 100_000
_PID_SECONDS = 60.0


class EngineParameters(Confined):
    """``runtime``: the OCI runtime below the engine. ``seccomp``: ``default`` is the engine's own profile."""

    runtime: Literal["runc", "crun"] = Field(default="runc", description="the OCI runtime below the engine")
    seccomp: Literal["unconfined", "default"] = Field(
        default="unconfined", description="profile of system calls; default is the engine's own"
    )


def container_options(site: Site, request: GuestRequest | None, parameters: EngineParameters) -> list[str]:
    """The options of ``run`` that both engines understand; limits only where the lab may make cgroups."""
    options = [
        "--network",
        "none",
        "--hostname",
        "guest",
        "--pids-limit",
        "-1",
        "--log-driver",
        "none",
        "--read-only",
        "--tmpfs",
        "/run:rw,nosuid,nodev,mode=755",
        "--tmpfs",
        "/tmp:rw,nosuid,nodev",  # noqa: S108
        "--security-opt",
        "label=disable",
        "--cap-drop",
        "ALL",
    ]
    for name in NEEDED if parameters.strict else OPEN:
        options += ["--cap-add", name]
    if parameters.strict:
        options += ["--security-opt", "no-new-privileges", "--cgroupns", "private"]
    if parameters.seccomp == "unconfined":
        options += ["--security-opt", "seccomp=unconfined"]
    if site.this_machine.cgroup is not None:
        options += ["--cgroup-parent", f"/{site.this_machine.cgroup}", *(_limits(request) if request else [])]
    if request is not None and request.data_folder is not None:
        options += ["--volume", f"{request.data_folder}:{DATA_PATH}"]
    return options


def _limits(request: GuestRequest) -> list[str]:
    """Memory, CPU set, quota and limits of its own; swap is not limited apart, as with a bare runtime."""
    options = ["--memory", str(request.memory_bytes), "--memory-swap", "-1"]
    if request.cpus:
        options += ["--cpuset-cpus", ",".join(map(str, request.cpus))]
    if request.cpu_quota is not None:
        quota = round(request.cpu_quota * _PERIOD_MICROSECONDS)
        options += ["--cpu-period", str(_PERIOD_MICROSECONDS), "--cpu-quota", str(quota)]
    if request.own.cpu_shares is not None and not _weight_is_written():
        options += ["--cpu-shares", str(request.own.cpu_shares)]
    if (disk := request.own.disk) is not None:
        rate = f"{node_of_disk(disk.device)}:{disk.bytes_per_second}"
        options += ["--device-read-bps", rate, "--device-write-bps", rate]
    return options


def _weight_is_written() -> bool:
    """Whether a CPU weight is written into the container's group: engines take shares, of cgroup v1.

    On a host with v2 runtimes translate these to a weight, each version in its own way.
    """
    return cgroups.detect().version == "v2"


def container_name(request: GuestRequest) -> str:
    """A name that no other guest of the lab has."""
    return f"virtoll-{request.file_name}"


def start_container(
    request: GuestRequest,
    site: Site,
    command: Sequence[str],
    find_pid: Callable[[], int | None],
    remove: Callable[[], object],
    *,
    strict: bool,
    enter: Enter | None = None,
) -> NamespacedGuest:
    """Start a container whose agent is on the command's standard input and output, and move its links in.

    ``find_pid`` gives the number of the container's first process once it is known, ``remove`` removes the container.
    ``strict``: what of /proc and /sys is the whole kernel's is protected then. ``enter``: what is done before the
    command is executed.
    """
    network = site.network
    cleanup = [lambda: network.remove(request.network), remove]
    guest = start_namespaced(request, site, command, request.network.attachment, cleanup, enter=enter)
    first: int | None = None

    def known() -> bool:
        nonlocal first
        first = find_pid()
        return first is not None or guest.process.poll() is not None

    awaited = f"the first process of container {request.name}"
    with guest.ending_on_error():
        wait_until(known, _PID_SECONDS, awaited)
        if first is None:
            raise GuestDied(f"{awaited} was never known: the container has ended")
        if request.own.cpu_weight is not None and _weight_is_written() and site.this_machine.cgroup is not None:
            weight = Limits(cpu_weight=request.own.cpu_weight)
            cgroups.write_into(weight, cgroups.memberships_of(first), site.this_machine.cgroup)
        guest.limits_held = limits_held(request, site, first)
        if strict:
            protect_from_outside(site, first, f"guest {request.name}")
    guest.inner_group = first
    move_links_in(guest, request, site, first)
    return guest
