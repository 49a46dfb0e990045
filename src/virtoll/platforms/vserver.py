"""Linux-VServer by util-vserver: a context with a network namespace of its own, through ``GuestHost``.

Never run on the real platform: written after util-vserver's scripts (docs/platforms/vserver.md names file and commit of
each) and tested against a mock that takes exactly those commands.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from virtoll.errors import GuestError
from virtoll.experiment.describe import Words
from virtoll.experiment.topology import Testbed
from virtoll.hosts.base import CommandRunner, GuestHost
from virtoll.lab.data import DataBy
from virtoll.lab.network import GuestNetwork, Link
from virtoll.lab.residue import lab_named_in
from virtoll.platforms.attachment import Attached
from virtoll.platforms.base import DATA_PATH, GuestRequest, Platform, Probe, Validation
from virtoll.platforms.exec_guest import EnteredMachine, bridged, enter, image_file, name_of, now, quietly
from virtoll.platforms.host import Site
from virtoll.platforms.promises import PromisedEnd

KERNEL = "/proc/virtual"
_BUILD_SECONDS = 300.0
_PERIOD_MICROSECONDS = 100_000
# What the agent needs besides a context's own capabilities: interfaces, raw sockets, routes.
_CAPABILITIES = ("NET_ADMIN", "NET_RAW", "SYS_ADMIN")
# In the place of the lines that ``build`` writes: /tmp as large as the guest's memory and not 16 MiB, and /run.
_MOUNTS = (
    "none /proc proc defaults 0 0",
    "none /tmp tmpfs mode=1777 0 0",
    "none /run tmpfs mode=0755 0 0",
    "none /dev/pts devpts gid=5,mode=620 0 0",
)
_PATH = Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/-]+$"), Words("a path from / on")]


class VserverParameters(Attached):
    """``area``: the folder of the guests' roots; ``configuration``: that of their settings; ``first_context``: static
    numbers from here on, one a guest.
    """

    area: _PATH = Field(default="/vservers", description="folder of the guests' roots")
    configuration: _PATH = Field(default="/etc/vservers", description="folder of the guests' settings")
    first_context: int = Field(
        default=7001, ge=2, le=49_000, description="static context numbers from here on, one a guest"
    )

    def conflict(self, testbed: Testbed | None) -> tuple[str, str] | None:
        """Links are veth pairs in bridges."""
        if self.attachment != "bridge":
            return "attachment", f"{self.attachment} is not for guests of Linux-VServer; leave it out"
        return super().conflict(testbed)


class Vserver(Platform[VserverParameters]):
    """The driver."""

    name: ClassVar[str] = "vserver"
    remedy: ClassVar[str] = "build util-vserver 0.30.216"
    without_root: ClassVar[str] = "no"
    remote_hosts: ClassVar[bool] = True
    family: ClassVar[str] = "os-level"
    validation: ClassVar[Validation] = "mock"
    title: ClassVar[str] = "Linux-VServer (history; successors: lxc, nspawn)"
    parameter_model = VserverParameters
    boot_seconds: ClassVar[float] = 3.0
    slowdown: ClassVar[float] = 1.0
    data_by: ClassVar[DataBy] = "folder"

    def depends_on(self) -> None:
        """The probe is tried each time."""
        return

    @classmethod
    def remove_leftovers(cls, host: CommandRunner, alive: frozenset[str]) -> list[str]:
        """By the product's own commands."""
        return remove_leftovers(host, alive)

    def probe(self, site: Site) -> Probe:
        """Ask for the version and the kernel, then start a guest without links."""
        host = site.host
        try:
            version = host.run(["vserver", "--version"], "probe").strip().splitlines()[0].partition(" -- ")[0]
        except GuestError as error:
            return self.without(error, host)
        if not host.is_root:
            return Probe.unusable(version, f"{host.name}: vserver needs root", "log in as root")
        try:
            host.run(["test", "-d", KERNEL], "probe")
        except GuestError:
            return Probe.unusable(
                version, f"{host.name}: no {KERNEL}: its kernel has no VServer patch", "boot one with it"
            )
        try:
            self._start(GuestRequest("probe-vserver", 1, 128 * 2**20, (), GuestNetwork(())), site).stop()
        except GuestError as error:
            return Probe(False, version, f"no guest starts: {error}")
        return Probe(True, version, None)

    def start(self, request: GuestRequest, site: Site) -> EnteredMachine:
        """Build a guest of the image, start it, attach its links, bring the agent in."""
        return self._start(request, site)

    def _start(self, request: GuestRequest, site: Site) -> EnteredMachine:
        host, name, role = site.host, name_of(site.host, request), f"guest {request.name}"
        owner = request.network.links[0].owner if request.network.links else 199
        context = str(self.parameters.first_context + owner)
        _refuse_taken(host, name, context, self.parameters)
        with contextlib.ExitStack() as undo:
            if request.network.links:
                undo.callback(site.network.remove, request.network)
            spawned = now()
            ending = undo.enter_context(
                PromisedEnd(
                    host, role, lambda: f"vserver {name}" if name in guests(host, self.parameters.configuration) else ""
                )
            )
            ending.promise(*(["vserver", "--silent", name, action] for action in ("stop", "delete")))
            host.run(
                [
                    "vserver",
                    name,
                    "build",
                    "-m",
                    "skeleton",
                    "--context",
                    context,
                    "--hostname",
                    "guest",
                    "--initstyle",
                    "plain",
                    "--rootdir",
                    self.parameters.area,
                ],
                role,
                _BUILD_SECONDS,
            )
            vdir = f"{self.parameters.area}/{name}"
            host.run(["tar", "-x", "-f", str(image_file(site)), "-C", vdir], role, _BUILD_SECONDS)
            self._configure(request, host, Path(self.parameters.configuration) / name)
            host.run(["vserver", name, "start", "--rescue", "--rescue-init", "/init", "hold"], role, _BUILD_SECONDS)
            first = host.run(["vserver-info", context, "INITPID"], role).strip()
            for link in request.network.links:
                _attach(host, link, first)
                bridged(host, link, site.network.bridge_port(link, link.port_interface))
            kept = undo.pop_all()
        stop, go_on = (["vkill", "--xid", context, "-s", signal, "--", "0"] for signal in ("STOP", "CONT"))
        return enter(
            ["vserver", name, "exec"],
            request,
            host,
            site.peer,
            spawned,
            park=(lambda: host.run(stop, "park"), lambda: host.run(go_on, "resume")),
            cleanup=[kept.close],
        )

    def _configure(self, request: GuestRequest, host: GuestHost, folder: Path) -> None:
        """A network namespace of its own, capabilities, mounts, and limits by cgroup.

        util-vserver copies the limits to the cgroup's files, and mounts what is in ``fstab`` before the first process.
        """
        mounts = list(_MOUNTS)
        if request.data_folder is not None:
            mounts.append(f"{request.data_folder} {DATA_PATH} none bind,rw 0 0")
        files = {
            "fstab": "".join(f"{mount}\n" for mount in mounts),
            "spaces/net": "",
            "bcapabilities": "".join(f"{capability}\n" for capability in _CAPABILITIES),
            "cgroup/memory.limit_in_bytes": f"{request.memory_bytes}\n",
        }
        if request.cpus:
            files["cgroup/cpuset.cpus"] = f"{','.join(map(str, request.cpus))}\n"
        if request.cpu_quota is not None:
            files["cgroup/cpu.cfs_period_us"] = f"{_PERIOD_MICROSECONDS}\n"
            files["cgroup/cpu.cfs_quota_us"] = f"{round(request.cpu_quota * _PERIOD_MICROSECONDS)}\n"
        folders = sorted({str((folder / name).parent) for name in files})
        host.run(["mkdir", "-p", "--", *folders], f"guest {request.name}")
        for name, content in files.items():
            host.write(folder / name, content.encode())


def _attach(host: GuestHost, link: Link, pid: str) -> None:
    """A veth pair whose end is moved into the guest's network namespace: util-vserver has no command for it."""
    inner = f"x{link.port_interface[1:]}"
    pair = ["ip", "link", "add", link.port_interface, "type", "veth", "peer", "name", inner]
    host.run([*pair, "address", link.guest_mac], "link")
    host.run(["ip", "link", "set", "dev", inner, "netns", pid, "name", link.name], "link")


def _refuse_taken(host: GuestHost, name: str, context: str, parameters: VserverParameters) -> None:
    if name in guests(host, parameters.configuration):
        raise GuestError(f"{host.name} has a vserver {name} already, which this run did not make: remove it")
    running = ""
    with contextlib.suppress(GuestError):  # it fails without output where nobody has it
        running = host.run(["vserver-info", "-q", context, "RUNNING"], "context").strip()
    if running == "1":
        raise GuestError(f"{host.name}: context {context} is in use by another; give another 'first_context'")


def guests(host: CommandRunner, configuration: str = "/etc/vservers") -> list[str]:
    """Names of the guests there, running or not."""
    return host.run(["ls", "-1", "--", configuration], "guests").split()


def remove_leftovers(host: CommandRunner, alive: frozenset[str] = frozenset()) -> list[str]:
    """Delete guests that a run made which is not among ``alive`` (labs' ids); what was deleted. Nothing else."""
    host.run(["vserver", "--version"], "clean")
    removed = []
    for name in guests(host):
        lab = lab_named_in(name)
        if lab is not None and lab not in alive:
            for action in ("stop", "delete"):
                quietly(host, ["vserver", "--silent", name, action], "clean")
            removed.append(f"vserver {name}")
    return removed
