"""OpenVZ and Virtuozzo: a container by ``vzctl``, or by ``prlctl`` with ``vzctl`` for its links, through ``GuestHost``.

Never run on the real platform: written after the products' manual pages and sources (docs/platforms/openvz.md names
file and commit of each) and tested against a mock that takes exactly those commands.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from virtoll.errors import CommandFailed, GuestError
from virtoll.experiment.describe import Words
from virtoll.experiment.topology import Testbed
from virtoll.hosts.base import CommandRunner, GuestHost
from virtoll.lab.data import DataBy
from virtoll.lab.network import GuestNetwork
from virtoll.lab.residue import lab_named_in
from virtoll.platforms.attachment import Attached
from virtoll.platforms.base import DATA_PATH, GuestRequest, Platform, Probe, Validation
from virtoll.platforms.exec_guest import EnteredMachine, bridged, enter, image_file, name_of, now, quietly
from virtoll.platforms.host import Site
from virtoll.platforms.promises import PromisedEnd

KERNEL = "/proc/vz"
_PAGE_BYTES = 4096
_CREATE_SECONDS = 300.0
_CONFIGURATION = "/etc/vz/conf"
_INIT = b"#!/init hold\n"
_DEVICES = {  # what a template has and no image: name, minor number of the memory devices, or of the terminals
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
    "ptmx": (5, 2),
}
_NONE = "Container(s) not found"  # what vzlist says, with exit code 1, where there is none
_NO_TRIM = "invalid option -- 't'"  # what Virtuozzo's says of an option that it has not, and has no need of
# Exit codes of vzctl(8) that are the host's state and not a mistake of ours, and what to do about each.
_REMEDIES = {
    5: "boot an OpenVZ kernel with its modules (/proc/vz)",
    6: "the host has too little memory for it; give the guest less, or end others",
    12: "vzctl needs root on the hardware node; log in as root",
    44: "it belongs to no container that is known; look whose it is",
    46: "no space is left below 'area'; free some, or name another folder",
    91: "vzctl looks for templates elsewhere: give vz.conf's folder above template/ as 'area'",
}


class OpenVzParameters(Attached):
    """``tool`` makes and holds the container; ``area`` is the folder of template, private and root (vz.conf).

    ``configuration``: the folder of vzctl's own files for each container, its action scripts among them.
    ``first_ctid``: containers get the first free numbers from here on. ``memory``: VSwap's two numbers, or, for kernels
    before 042stab042, user beancounters. ``ostemplate``: for prlctl, an installed template under the image.
    """

    tool: Literal["vzctl", "prlctl"] = Field(
        default="vzctl", description="the command that makes and holds the container"
    )
    area: Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/-]+$"), Words("a path from / on")] = Field(
        default="/vz", description="folder of template, private and root, as in vz.conf"
    )
    configuration: Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/-]+$"), Words("a path from / on")] = Field(
        default=_CONFIGURATION, description="folder of vzctl's own files for each container"
    )
    first_ctid: int = Field(
        default=7001, ge=101, le=2**31 - 1, description="containers get the first free numbers from here on"
    )
    cpu_units: int = Field(default=1000, ge=8, le=500_000, description="CPU weight of the container, in vzctl's units")
    memory: Literal["vswap", "ubc"] = Field(
        default="vswap", description="VSwap's two numbers, or user beancounters for kernels before 042stab042"
    )
    ostemplate: (
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"), Words("the name of a template")]
        | None
    ) = Field(default=None, description="for prlctl, an installed template under the image")

    def conflict(self, testbed: Testbed | None) -> tuple[str, str] | None:
        """Links are veth pairs in bridges; venet (``routed`` elsewhere) carries the container's own packets alone."""
        if self.attachment == "routed":
            return "attachment", (
                "OpenVZ's venet drops packets that are not of the container's own addresses, so that it could forward "
                "none; leave it out, or take it with runc or netns"
            )
        if self.attachment != "bridge":
            return "attachment", f"{self.attachment} is not for containers of OpenVZ; leave it out"
        if (self.tool == "prlctl") != (self.ostemplate is not None):
            return ("ostemplate", "prlctl needs the name of an installed template; vzctl takes none")
        return super().conflict(testbed)


class OpenVz(Platform[OpenVzParameters]):
    """The driver."""

    name: ClassVar[str] = "openvz"
    remedy: ClassVar[str] = "install Virtuozzo 7, the distribution that OpenVZ is part of"
    without_root: ClassVar[str] = "no"
    remote_hosts: ClassVar[bool] = True
    family: ClassVar[str] = "os-level"
    validation: ClassVar[Validation] = "mock"
    title: ClassVar[str] = "OpenVZ, Virtuozzo (vzctl, prlctl)"
    parameter_model = OpenVzParameters
    boot_seconds: ClassVar[float] = 3.0
    slowdown: ClassVar[float] = 1.0
    data_by: ClassVar[DataBy] = "folder"

    @property
    def small_images_only(self) -> bool:
        """By prlctl the image goes into a running container through a pipe, and is in memory here."""
        return self.parameters.tool == "prlctl"

    def depends_on(self) -> None:
        """The probe is tried each time."""
        return

    @classmethod
    def remove_leftovers(cls, host: CommandRunner, alive: frozenset[str]) -> list[str]:
        """By the product's own commands."""
        return remove_leftovers(host, alive)

    def probe(self, site: Site) -> Probe:
        """Ask for the version and the kernel, then start a container without links."""
        host, parameters = site.host, self.parameters
        try:
            version = host.run(["vzctl", "--version"], "probe").strip().splitlines()[0]
            if parameters.tool == "prlctl":
                host.run(["prlctl", "list", "-a"], "probe")
        except GuestError as error:
            return self.without(error, host)
        if not host.is_root:
            return Probe.unusable(version, f"{host.name}: vzctl needs root on the hardware node", "log in as root")
        try:
            host.run(["test", "-d", KERNEL], "probe")
        except GuestError:
            return Probe.unusable(version, f"{host.name}: no {KERNEL}: its kernel is not OpenVZ's", "boot one that is")
        try:
            self._start(GuestRequest("probe-openvz", 1, 128 * 2**20, (), GuestNetwork(())), site).stop()
        except GuestError as error:
            return Probe(False, version, f"no container starts: {error}")
        return Probe(True, version, None)

    def start(self, request: GuestRequest, site: Site) -> EnteredMachine:
        """Make a container of the image, start it, attach its links, bring the agent in."""
        return self._start(request, site)

    def _start(self, request: GuestRequest, site: Site) -> EnteredMachine:
        host, name = site.host, name_of(site.host, request)
        known = containers(host)
        if name in known.values():
            raise GuestError(f"{host.name} has a container {name} already, which this run did not make: remove it")
        with contextlib.ExitStack() as undo, _in_words(host):
            if request.network.links:
                undo.callback(site.network.remove, request.network)
            spawned = now()
            ending = undo.enter_context(
                PromisedEnd(
                    host,
                    f"guest {request.name}",
                    lambda: f"container {name}" if name in containers(host).values() else "",
                )
            )
            if self.parameters.tool == "vzctl":
                handle = self._create(request, site, name, known, ending)
            else:
                handle = self._create_by_prlctl(request, site, name, ending)
            for link in request.network.links:
                bridged(host, link, site.network.bridge_port(link, link.port_interface))
            kept = undo.pop_all()
        pause, resume = self._parking(handle, name)
        return enter(
            ["vzctl", "exec3", handle],
            request,
            host,
            site.peer,
            spawned,
            park=(lambda: host.run(pause, "park"), lambda: host.run(resume, "resume")),
            cleanup=[kept.close],
        )

    def _create(self, request: GuestRequest, site: Site, name: str, known: dict[str, str], ending: PromisedEnd) -> str:
        """By vzctl: a private area out of the image as a template, which is there for the length of this only."""
        host, area = site.host, Path(self.parameters.area)
        numbers = map(str, range(self.parameters.first_ctid, 2**31))
        ctid, role = next(number for number in numbers if number not in known), f"guest {request.name}"
        template, private, root = (
            str(area / place) for place in (f"template/cache/{name}.tar", f"private/{name}", f"root/{name}")
        )
        # By a name that is ours, should all end in the middle of ``create``: until then its number may be another's.
        ending.promise(["vzctl", "destroy", name], ["rm", "-rf", "--", private, f"{private}.tmp"])
        ending.promise(["rm", "-f", "--", template])
        # No link: vzctl's script takes the size of what it unpacks from `ls -l`, and refuses one that is no whole KiB.
        host.run(["cp", "--", str(image_file(site)), template], role, _CREATE_SECONDS)
        host.run(
            [
                "vzctl",
                "create",
                ctid,
                "--ostemplate",
                name,
                "--layout",
                "simfs",
                "--private",
                private,
                "--root",
                root,
                "--name",
                name,
                "--hostname",
                "guest",
            ],
            role,
            _CREATE_SECONDS,
        )
        ending.promise(*_removal(ctid, self.parameters.configuration))
        quietly(host, ["rm", "-f", "--", template], role)
        host.run(["tar", "-x", "-f", "-", "-C", private], role, stdin=_template_files())
        host.run(["vzctl", "set", ctid, *self._limits(request), *_netifs(request), "--save"], role)
        script = Path(self.parameters.configuration) / f"{ctid}.mount"
        host.write(script, _mount_script(request, root))
        host.run(["chmod", "0755", "--", str(script)], role)
        host.run(["vzctl", "start", ctid], role, _CREATE_SECONDS)
        return ctid

    def _create_by_prlctl(self, request: GuestRequest, site: Site, name: str, ending: PromisedEnd) -> str:
        """By prlctl: a container of an installed template, into whose root the image is unpacked."""
        host, role, parameters = site.host, f"guest {request.name}", self.parameters
        ending.promise(["prlctl", "stop", name, "--kill"], ["prlctl", "delete", name])
        host.run(
            ["prlctl", "create", name, "--vmtype", "ct", "--ostemplate", str(parameters.ostemplate)],
            role,
            _CREATE_SECONDS,
        )
        mebibytes = ["--memsize", str(request.memory_bytes // 2**20), "--swap", "0"]
        host.run(["prlctl", "set", name, *_cpu(request, parameters.cpu_units), *mebibytes], role)
        shares = ["--bindmount_add", f"{request.data_folder}:{DATA_PATH}"] if request.data_folder is not None else []
        host.run(["vzctl", "set", name, "--capability", "net_admin:on", *_netifs(request), *shares, "--save"], role)
        host.run(["prlctl", "start", name], role, _CREATE_SECONDS)
        host.run(
            ["vzctl", "exec3", name, "tar", "-x", "-f", "-", "-C", "/"],
            role,
            _CREATE_SECONDS,
            image_file(site).read_bytes(),
        )
        return name

    def _limits(self, request: GuestRequest) -> list[str]:
        """Memory and CPU; without swap in either model."""
        pages = request.memory_bytes // _PAGE_BYTES
        memory = {
            "vswap": ["--ram", f"{request.memory_bytes}b", "--swap", "0"],
            "ubc": ["--applyconfig", "basic", "--privvmpages", f"{pages}:{pages}", "--physpages", "0:unlimited"],
        }[self.parameters.memory]
        return [*memory, *_cpu(request, self.parameters.cpu_units), "--capability", "net_admin:on"]

    def _parking(self, handle: str, name: str) -> tuple[list[str], list[str]]:
        """Frozen in memory: vzctl's chkpnt without a dump, prlctl's pause."""
        if self.parameters.tool == "prlctl":
            return ["prlctl", "pause", name], ["prlctl", "resume", name]
        return ["vzctl", "chkpnt", handle, "--suspend"], ["vzctl", "chkpnt", handle, "--resume"]


def _cpu(request: GuestRequest, units: int) -> list[str]:
    argv = ["--cpus", str(request.vcpus), "--cpuunits", str(units)]
    if request.cpu_quota is not None:
        argv += ["--cpulimit", str(round(100 * request.cpu_quota))]
    return [*argv, "--cpumask", ",".join(map(str, request.cpus))] if request.cpus else argv


def _netifs(request: GuestRequest) -> list[str]:
    """One veth pair a link: name and MAC address inside, name on the host."""
    links = request.network.links
    return [word for link in links for word in ("--netif_add", f"{link.name},{link.guest_mac},{link.port_interface}")]


def _template_files() -> bytes:
    """What a template has besides the image: the program that vzctl starts first, and devices."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as archive:
        entry = tarfile.TarInfo("sbin/init")
        entry.size, entry.mode = len(_INIT), 0o755
        archive.addfile(entry, io.BytesIO(_INIT))
        for name, (major, minor) in _DEVICES.items():
            entry = tarfile.TarInfo(f"dev/{name}")
            entry.type, entry.mode, entry.devmajor, entry.devminor = tarfile.CHRTYPE, 0o666, major, minor
            archive.addfile(entry)
    return made.getvalue()


def _mount_script(request: GuestRequest, root: str) -> bytes:
    """vzctl runs it once the container's root is mounted; what it mounts there, vzctl unmounts before the root."""
    mounts = [
        ["-t", "tmpfs", "-o", "mode=1777", "tmpfs", f"{root}/tmp"],  # noqa: S108 - the container's own
        ["-t", "tmpfs", "-o", "mode=0755", "tmpfs", f"{root}/run"],
    ]
    if request.data_folder is not None:
        mounts.append(["--bind", str(request.data_folder), f"{root}{DATA_PATH}"])
    lines = ["#!/bin/sh", "set -e", *(shlex.join(["mount", "-n", *mount]) for mount in mounts)]
    return "".join(f"{line}\n" for line in lines).encode()


def _removal(ctid: str, configuration: str) -> list[list[str]]:
    """End and destroy a container, and take away what is left of it.

    One that ended by itself is still mounted: ``stop`` does nothing then. ``destroy`` renames the files.
    """
    files = [f"{configuration}/{ctid}.{suffix}" for suffix in ("mount", "mount.destroyed", "conf.destroyed")]
    vzctl = [["vzctl", "stop", ctid, "--fast"], ["vzctl", "umount", ctid], ["vzctl", "destroy", ctid]]
    return [*vzctl, ["rm", "-f", "--", *files]]


@contextlib.contextmanager
def _in_words(host: GuestHost) -> Iterator[None]:
    """A refusal of vzctl's with what to do about it."""
    try:
        yield
    except CommandFailed as error:
        remedy = _REMEDIES.get(error.returncode)
        if remedy is None or error.argv[0] != "vzctl":
            raise
        raise GuestError(f"{host.name}: {error}; {remedy}") from error


def containers(host: CommandRunner) -> dict[str, str]:
    """CTID and name of every container there; a CTID is a number, and a UUID where prlctl made the container."""
    every, fields = ["vzlist", "-a", "-H"], ["-o", "ctid,name"]
    try:
        listing = host.run([*every, "-t", *fields], "containers")
    except CommandFailed as error:
        if _NONE in error.complaint:
            return {}
        if _NO_TRIM not in error.stderr:
            raise
        listing = host.run([*every, *fields], "containers")
    names = {}
    for line in listing.splitlines():
        if line.strip():
            number, *name = line.split(None, 1)
            names[number] = name[0].strip() if name else "-"
    return names


def remove_leftovers(
    host: CommandRunner, alive: frozenset[str] = frozenset(), configuration: str = _CONFIGURATION
) -> list[str]:
    """Destroy containers that a run made which is not among ``alive`` (labs' ids); what was destroyed. Nothing else."""
    removed = []
    for ctid, name in containers(host).items():
        lab = lab_named_in(name)
        if lab is not None and lab not in alive:
            for argv in _removal(ctid, configuration):
                quietly(host, argv, "clean")
            removed.append(f"OpenVZ container {ctid} ({name})")
    return removed
