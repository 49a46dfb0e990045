"""What a platform is: a way to run a guest, behind one small interface.

Main types: ``Platform`` (a driver: what it declares, its probe and its start), ``Guest`` (one live instance),
``GuestRequest`` (what every guest is given) and ``Probe`` (whether a platform works here).

A platform must not know a workload, nor what its guests will be used for.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final, Generic, Literal, Self, TypeVar

from virtoll.agent.client import Caller
from virtoll.errors import GuestError, ProgramMissing
from virtoll.experiment.model import Parameters, PlatformChoice
from virtoll.host.guest_usage import GuestProcesses, HostView, view_of_host
from virtoll.host.packages import how_to_install, why_missing
from virtoll.hosts.base import CommandRunner, GuestHost
from virtoll.lab.cgroups import Limits
from virtoll.lab.data import DataBy, DataVolume
from virtoll.lab.interfaces import TUN_DEVICE
from virtoll.lab.network import GuestNetwork
from virtoll.platforms.host import Site

Validation = Literal["real", "nested: functional only", "simulator", "mock", "record only", "model", "not stated"]
"""What shows that a platform's driver works.

``real``: the tests' guests ran on the product itself. ``nested: functional only``: on it, in a host that was emulated.
``simulator``: against the maker's simulator. ``mock``: against programs that take the documented commands (never run on
the real platform). ``record only``: there is no driver, only what others published. ``model``: it is no platform.
"""
VALIDATION_WORDS: dict[Validation, str] = {
    "mock": "mock: never run on the real platform",
    "simulator": "simulator: never run on the real platform",
}

DATA_PATH = "/data"
"""Where a guest finds its data directory; the image has the place to mount it on."""


@dataclass(frozen=True)
class Probe:
    """What ``probe`` found out.

    Usable or not, the product's version, and if not why. ``remedy``: what to do about it; None if ``why`` says it too.
    ``install``: the Debian packages that the remedy installs on this machine.
    """

    available: bool
    version: str | None
    why: str | None
    remedy: str | None = None
    install: tuple[str, ...] = ()

    @classmethod
    def unusable(cls, version: str | None, why: str, remedy: str, install: Sequence[str] = ()) -> Self:
        """Not usable: why, and what to do about it."""
        return cls(False, version, why, remedy, tuple(install))

    @property
    def reason(self) -> str | None:
        """Why and what to do, as one sentence; None if the platform is usable."""
        return self.why if self.remedy is None else f"{self.why}; {self.remedy}"


def no_taps(version: str | None, remedy: str = f"as root: chmod 0666 {TUN_DEVICE}, as Debian has it") -> Probe:
    """The probe of a platform whose NICs are taps, for a user who may make none; ``remedy``: what to do about it."""
    return Probe.unusable(version, f"its NICs need taps, and this user may not open {TUN_DEVICE}", remedy)


class GuestStartError(GuestError):
    """A guest that did not start: the sentence, and what its console said."""

    def __init__(self, message: str, evidence: dict[str, bytes]) -> None:
        """``evidence`` maps file names to their content."""
        super().__init__(message)
        self.evidence = evidence


@dataclass(frozen=True)
class GuestRequest:
    """What a guest is given: the same for every platform. ``cpus`` are host CPUs that it is pinned to.

    ``cpu_quota``: CPU time per wall time in CPUs (0.2: a fifth of one), for all of the guest; None: no limit.
    ``cpu_period_microseconds``: over which the quota holds, where it is a cgroup of this machine; None: 100 ms.
    ``data``: room on the host's disk to be found at ``DATA_PATH``; only for a platform that says how (``data_by``).
    ``instance``: which of several guests of its platform it is, from 0. ``own``: limits by its platform's parameters
    (``platforms/limits.py``), whose memory and quota are in the place of all guests'.
    """

    name: str
    vcpus: int
    memory_bytes: int
    cpus: tuple[int, ...]
    network: GuestNetwork
    deadline_seconds: float = 120.0
    cpu_quota: float | None = None
    data: DataVolume | None = None
    cpu_period_microseconds: int | None = None
    instance: int = 0
    own: Limits = field(default_factory=Limits)

    @property
    def file_name(self) -> str:
        """The guest's name as a file or an identifier of a product may have it: without a slash."""
        return self.name.replace("/", "-")

    @property
    def data_bytes(self) -> int:
        """Room for workloads' files, in bytes; 0 without a data directory."""
        return self.data.size_bytes if self.data is not None else 0

    @property
    def data_folder(self) -> Path | None:
        """The host's folder to be mounted at ``DATA_PATH``; None where there is none, or it is a disk."""
        return self.data.folder if self.data is not None else None

    @property
    def data_disk(self) -> int | None:
        """The descriptor of the file of a disk to be mounted at ``DATA_PATH``."""
        return self.data.descriptor if self.data is not None else None

    @property
    def data_disk_path(self) -> Path | None:
        """By which a program on the guest's host opens the disk to be mounted at ``DATA_PATH``; None: there is none."""
        return self.data.disk_path if self.data is not None else None

    def limits(self, *, memory: bool) -> Limits:
        """The cgroup's limits; ``memory`` only where the guest has no memory of its own that bounds it."""
        limits = Limits(self.memory_bytes if memory else self.own.memory_bytes, self.cpu_quota, self.cpus)
        if self.cpu_period_microseconds is not None:
            limits = replace(limits, cpu_period_microseconds=self.cpu_period_microseconds)
        return replace(limits, cpu_weight=self.own.cpu_weight, disk=self.own.disk)


class Guest(ABC):
    """One live instance.

    ``attachment`` says how its links reach it, ``peer`` who generates and times for it. ``network``: its links, where
    they are its own NICs and not those that were asked for. ``flushes``: whether what it syncs on its disks is synced
    on the host too. ``data``: its data directory's room, where that is not the one that was asked for but a copy
    elsewhere. ``executed_monotonic_ns``: when Virtoll's own part of the start was over and the platform's program
    (the agent itself, a container's runtime) was executed; None: not measured. ``limits_held``: what the cgroup's files
    hold of limits of its own, by file, read on its host once it was there.
    """

    agent: Caller
    peer: Caller
    attachment: str
    spawned_monotonic_ns: int
    ready_monotonic_ns: int
    network: GuestNetwork | None = None
    flushes: bool = True
    data: DataVolume | None = None
    executed_monotonic_ns: int | None = None
    limits_held: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def park(self) -> None:
        """Stop it from using the CPU while others are measured."""

    @abstractmethod
    def resume(self) -> None:
        """Let it run again; harmless when it was not parked."""

    @abstractmethod
    def stop(self) -> None:
        """End it and remove all that it holds; harmless when it has ended already.

        ``GuestRemains``, when all is done, if something of it could not be removed.
        """

    @abstractmethod
    def evidence(self) -> dict[str, bytes]:
        """Console and logs by file name, for a guest that failed."""

    def host_processes(self) -> GuestProcesses | None:
        """Where its processes are found on its host; None where it has none there."""
        return None

    def own_counters(self) -> Mapping[str, int]:
        """What its platform itself counts of it so far, by names of ``runfolder.explain_records.COUNTERS``.

        Empty where it counts nothing; ``GuestError`` where it does not answer.
        """
        return {}

    def host_view(self) -> HostView:
        """What the host says whose kernel it may run on, and of its processes there."""
        return view_of_host(self.host_processes())


P_co = TypeVar("P_co", bound=Parameters, covariant=True)


class Platform(ABC, Generic[P_co]):
    """One way to run a guest, with its parameters.

    A subclass names their model as type argument and as ``parameter_model``.

    ``boot_seconds`` and ``slowdown`` (against the host) are for estimates alone; ``kernel_slowdown`` is that of
    system calls, processes and switches, where it is another. ``control_of``: the platform of which it is the A/A
    control. ``needs_lab``: False for a model, which starts nothing. ``validation``: what shows that the driver works.
    ``data_by``: how its guests get a data directory on their host's disk; None: they do not. ``lacks``: what its
    guests cannot do, feature (``workloads.base.FEATURES``) -> why, in a few words. ``max_vcpus``: CPUs that a guest
    can have; None: as many as the host. ``least_memory_bytes``: in less no guest's kernel starts, by the image's name;
    an image that is not there: not known. ``packages``: Debian packages of the product, whose versions a run's manifest
    has. ``install``: those that bring it where it is missing, as ``host/packages.py`` names them. ``remedy``: what to
    do instead where no package has it, the end of the probe's reason; None: nothing. ``without_root``: what of it an
    ordinary user can have, in a few words. ``remote_hosts``: whether its guests may be on another host.
    ``quota_by_cgroup``: whether their CPU quota is a cgroup of this machine, so that they have none on another host.
    ``cleaned_by_api``: leftovers are removed over the product's API, and by no command.
    """

    name: ClassVar[str]
    family: ClassVar[str]
    title: ClassVar[str]
    parameter_model: type[P_co]  # of the class, but a ClassVar cannot name a type variable
    boot_seconds: ClassVar[float]
    slowdown: ClassVar[float]
    kernel_slowdown: ClassVar[float | None] = None
    control_of: ClassVar[str | None] = None
    needs_lab: ClassVar[bool] = True
    validation: ClassVar[Validation] = "not stated"
    data_by: ClassVar[DataBy | None] = None
    lacks: ClassVar[Mapping[str, str]] = {}
    max_vcpus: ClassVar[int | None] = None
    least_memory_bytes: ClassVar[Mapping[str, int]] = {}
    packages: ClassVar[tuple[str, ...]] = ()
    install: ClassVar[tuple[str, ...]] = ()
    remedy: ClassVar[str | None] = None
    without_root: ClassVar[str] = "not tried"
    remote_hosts: ClassVar[bool] = False
    quota_by_cgroup: ClassVar[bool] = False
    cleaned_by_api: ClassVar[bool] = False

    def __init__(self, parameters: P_co) -> None:
        self.parameters: Final = parameters

    @classmethod
    def with_parameters(cls, parameters: object) -> Self:
        """The platform with these parameters: as a file has them, or as its model. It starts nothing.

        Raises pydantic's ``ValidationError`` for values that are not allowed, and for another platform's model.
        """
        return cls(cls.parameter_model.model_validate(parameters))

    @classmethod
    def how_to_get(cls, *, here: bool = True) -> str:
        """What to do where the product is missing on this machine, or on another one (not ``here``)."""
        return how_to_install(*cls.install, here=here) if cls.install else cls.remedy or "install it"

    @classmethod
    def without(cls, error: GuestError, host: GuestHost) -> Probe:
        """The probe on a host where the product's program could not be run, as ``error`` says."""
        here = host.local is not None
        if isinstance(error, ProgramMissing):
            return cls.without_program(error.program, None if here else host.name)
        remedy = cls.how_to_get(here=here)
        return Probe(False, None, str(error), remedy, cls.install if here else ())

    @classmethod
    def without_program(cls, program: str, host: str | None = None, install: Sequence[str] | None = None) -> Probe:
        """The probe where a program is missing: on this machine, or on the one of that name.

        ``install``: the packages that bring it; None: the product's.
        """
        names = cls.install if install is None else install
        if host is not None:
            return Probe.unusable(None, f"{program}: not found on {host}", cls.how_to_get(here=False))
        remedy = how_to_install(*names) if names else cls.how_to_get()
        return Probe.unusable(None, why_missing(program), remedy, tuple(names))

    @property
    def small_images_only(self) -> bool:
        """Whether it copies an image as a whole, so that one with tools is too large for it."""
        return False

    @property
    def needs_kernel(self) -> bool:
        """Whether its guests are started with the image's kernel or initramfs; else a run need not have them."""
        return False

    @property
    def boots_image_kernel(self) -> bool:
        """Whether the image's kernel is the one that its guests run on: another one may be given in its place."""
        return self.needs_kernel

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of the programs, found by PATH, whose builds differ in what guests of this platform cost.

        Another build of them may be measured beside. Empty: none, or one that serves all guests of its host (a daemon).
        """
        return ()

    def find_program(self, name: str) -> Path | None:
        """The file of one of ``programs`` that its guests are started with here; None where it is missing."""
        program = shutil.which(name)
        return None if program is None else Path(program)

    @abstractmethod
    def probe(self, site: Site) -> Probe:
        """Find out by trying whether this platform works here; never raises."""

    def depends_on(self) -> str | None:
        """What a slow probe's outcome depends on besides host boot and image; None: the probe is quick, try always."""
        return None

    def tried_as(self, choice: PlatformChoice) -> PlatformChoice:
        """The entry that a probe of this platform's tries: the outcome is remembered for all that try the same."""
        return choice

    @abstractmethod
    def start(self, request: GuestRequest, site: Site) -> Guest:
        """Start a guest and wait until its agent is ready; a ``GuestError`` carries the evidence when it is not."""

    @classmethod
    def remove_leftovers(cls, host: CommandRunner, alive: frozenset[str]) -> list[str]:
        """Remove what runs left in the product on a host, whose labs are not among ``alive``; what was removed.

        Nothing else is touched. ``GuestError`` where the product cannot be asked.
        """
        del host, alive
        return []

    def remove_leftovers_by_api(self, alive: frozenset[str]) -> list[str]:
        """The same on the host that the parameters name, for a product that is ``cleaned_by_api``."""
        del alive
        return []
