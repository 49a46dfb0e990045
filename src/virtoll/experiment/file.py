"""The keys of an experiment's YAML file, as models.

Main types: ``ExperimentFile``, ``NeighboursEntry``, ``ScaleEntry``, and ``ConsolidationFile`` (a file with
``scenario: consolidation``).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ByteSize, Field, model_validator

from virtoll.experiment.describe import Words
from virtoll.experiment.model import BootedFor, ConsolidationBudget, Image, Label, Order, Parameters
from virtoll.experiment.topology import HostAddress, Testbed
from virtoll.runfolder.conditions import TRAFFIC_LOADS, Affinity, Condition, Load
from virtoll.runfolder.scale import MOST_GUESTS, ScalePoint

LEAST_MEMORY_BYTES = 64 * 2**20
GuestCount = Annotated[int, Field(ge=1, le=MOST_GUESTS)]
VcpuCount = Annotated[int, Field(ge=1, le=1024)]


class OwnSize(Parameters):
    """What the guests of one platform's entry are given in the place of all guests' (``guest`` of an entry)."""

    vcpus: VcpuCount | None = Field(default=None, description="virtual CPUs of each of its guests")
    memory: ByteSize | None = Field(default=None, ge=LEAST_MEMORY_BYTES, description="memory of each of its guests")


class GuestSize(Parameters):
    """What every guest is given: virtual CPUs, memory (bytes, or text such as ``256MiB``), and how its marks travel.

    ``cpu_quota``: CPU time per wall time, in CPUs (0.2: a fifth of one); without it a guest may use its CPUs wholly.
    ``icmp``: on a link of their own, stamped by the kernel; ``channel``: on the agent's channel, stamped when read.
    ``image``: what is in its file system; without it, the smallest one that holds what the workloads need.
    """

    vcpus: VcpuCount = Field(default=1, description="virtual CPUs of every guest")
    memory: ByteSize = Field(default=ByteSize(256 * 2**20), ge=LEAST_MEMORY_BYTES, description="memory of every guest")
    marks: Literal["icmp", "channel"] = Field(
        default="icmp", description="how marks travel: on a link of their own (icmp), or on the agent's channel"
    )
    cpu_quota: float | None = Field(
        default=None,
        ge=0.01,
        le=1024,
        description="CPU time per wall time at most, in CPUs (0.2: a fifth of one); without it, no limit",
    )
    image: Image | None = Field(
        default=None, description="what is in the guests' file system; without it, the smallest that the workloads need"
    )


class PlatformEntry(Parameters):
    """What an entry of ``platforms`` may say besides its platform's own parameters (``parse.py`` takes them out)."""

    label: Label | None = Field(
        default=None, description="its name in every table; without it, the platform with the factors' values"
    )
    guest: OwnSize | None = Field(default=None, description="size of its guests, in place of all guests'")
    host: Annotated[HostAddress, Words("'local', or 'nested:KIND' such as nested:xen")] | None = Field(
        default=None, description="where its guests are: here, or on a hypervisor host that is emulated for the run"
    )
    counters: Literal["all", "none"] = Field(
        default="all", description="whether counters are read around what is measured"
    )
    stands_for: str | None = Field(
        default=None, description="in a study's repetition: which of the paper's platforms it replaces, in words"
    )


class NeighboursEntry(Parameters):
    """Guests beside the measured one, all with the same load; a list of values makes one condition of each.

    ``affinity``: on the measured guest's CPUs (``shared``), on others (``apart``), or on any (``unpinned``).
    ``guests``: how many. ``platform``: a label of the experiment's, where they are another platform's; else its own.
    ``memory``: of each, in place of ``guest.memory``. ``rate_share``: for ``forward``, of its own maximum.
    """

    load: Load = Field(description="what each guest beside the measured one does")
    affinity: Affinity = Field(default="shared", description="its host CPUs: the measured guest's, others, or any")
    guests: int = Field(default=1, ge=1, le=31, description="how many guests there are beside it")
    platform: Label | None = Field(
        default=None,
        description="a label of platforms, where they are another platform's; else the measured guest's own",
    )
    memory: ByteSize | None = Field(
        default=None, ge=LEAST_MEMORY_BYTES, description="memory of each, in place of guest.memory"
    )
    rate_share: float | None = Field(
        default=None, gt=0, le=1, description="for load forward: the share of its own maximum that it forwards"
    )

    @model_validator(mode="after")
    def _forwards(self) -> Self:
        if self.load == "forward" and self.rate_share is None:
            raise ValueError("'forward' needs 'rate_share', such as [0.5, 0.95]: of what the guest forwards at most")
        if self.load != "forward" and self.rate_share is not None:
            raise ValueError(f"'rate_share' is for 'load: forward', not for {self.load!r}; leave it out")
        if self.load in TRAFFIC_LOADS and self.guests > 1:
            raise ValueError(f"one guest at most is sent traffic to ('load: {self.load}'); leave 'guests' out")
        return self

    @property
    def condition(self) -> Condition:
        """As records name it."""
        return Condition(
            self.load,
            self.affinity,
            self.guests,
            self.platform,
            None if self.memory is None else int(self.memory),
            self.rate_share,
        )


class ScaleEntry(Parameters):
    """How many guests do the same at once: each number in ``guests`` is measured, with each number of ``vcpus``.

    ``memory``: of each guest by their number, in place of ``guest.memory`` (``{1: 2039MiB, 2: 1622MiB}``). ``most``:
    the largest number for a platform, by its label. ``overcommit``: whether so many guests are tried that all their
    memory together is more than the host has available. ``affinity``: on which of the host's CPUs they are: all on
    those of one guest, each on its own, or on any.
    """

    guests: list[GuestCount] = Field(
        min_length=1, description="numbers of guests that do the same at once; each is measured"
    )
    vcpus: list[VcpuCount] | None = Field(
        default=None, min_length=1, description="numbers of virtual CPUs; each is measured; else guest.vcpus"
    )
    memory: dict[GuestCount, ByteSize] | None = Field(
        default=None,
        description="memory of each guest by their number, such as {1: 2039MiB, 2: 1622MiB}; else guest.memory",
    )
    most: dict[Label, GuestCount] = Field(
        default_factory=dict, description="largest number for a platform, by its label"
    )
    overcommit: bool = Field(
        default=False, description="whether numbers are tried for which the host has not the memory"
    )
    affinity: Affinity = Field(
        default="unpinned", description="host CPUs of each guest: any, all on those of one, or each on its own"
    )

    @model_validator(mode="after")
    def _of_each(self) -> Self:
        for key, numbers in (("guests", self.guests), ("vcpus", self.vcpus or [])):
            if len(set(numbers)) < len(numbers):
                raise ValueError(f"'{key}' has a number twice; leave one out")
        lacking = [number for number in self.guests if self.memory is not None and number not in self.memory]
        if lacking:
            raise ValueError(f"'memory' says nothing for {lacking[0]} guests; add it, or leave 'memory' out")
        small = [size for size in (self.memory or {}).values() if size < LEAST_MEMORY_BYTES]
        if small:
            raise ValueError(f"'memory': a guest has at least 64 MiB, not {small[0]} bytes")
        return self

    def points(self, size: GuestSize) -> tuple[ScalePoint, ...]:
        """Each number of guests with their size; ``size``: what is not given here."""
        each = self.memory or {}
        return tuple(
            ScalePoint(guests, vcpus, int(each.get(guests, size.memory)))
            for guests in self.guests
            for vcpus in self.vcpus or [size.vcpus]
        )


class ExperimentFile(Parameters):
    """The YAML file's own keys; entries of ``platforms`` and ``workloads`` are checked against the catalogue.

    ``rounds``: of each workload in a block (``plan.py``); 1: each platform once. ``order``: blocks in random order, or
    as papers ran: platform after platform, all repetitions of a workload in a row, in one guest. ``summary``: a paper's
    way to sum up, reported beside the project's own (``stats/papers.py``).
    ``margin``: within how much of the baseline a platform is called alike (0.1 = 10 %).
    ``neighbours``: with ``scenario: neighbours``, the guests beside the measured one; an entry is a load or a
    mapping (``NeighboursEntry``). ``scale``: with ``scenario: scale``, how many guests do the same at once.
    ``skip``: pairs ``platform:workload`` that are not run, with the shell's wildcards (``selection.py``).
    ``needs``: what a user asks of the platforms, as ``virtoll advise --need`` takes it; its grammar is checked by who
    knows it (``cli/plan.py``).
    ``thresholds``: what must hold of them, as ``virtoll gate`` judges it; its grammar is checked likewise.
    ``sizes`` stand in the place of other keys (``sizes.py``), and are gone when this model sees the document.
    """

    name: Label = Field(description="what the experiment is called, in small letters, such as my-router")
    question: str = Field(min_length=1, description="one sentence saying what the experiment should answer")
    platforms: list[str | dict[str, Any]] = Field(
        min_length=1, description="a list of what is compared, such as [native, native-again, runc]"
    )
    workloads: list[str | dict[str, Any]] = Field(
        min_length=1, description="a list of what is measured, such as [superpi, forward]"
    )
    baseline: str = Field(default="native", description="label of the platform that all others are compared with")
    control: str | None = Field(
        default=None, description="label of the baseline's A/A control; without it, native-again is native's"
    )
    scenario: Literal["dedicated", "neighbours", "scale"] = Field(
        default="dedicated", description="what runs at once: one guest, one beside others, or several that do the same"
    )
    neighbours: list[str | dict[str, Any]] | None = Field(
        default=None, description="with scenario neighbours: what the guests beside the measured one do"
    )
    scale: ScaleEntry | None = Field(
        default=None, description="with scenario scale: how many guests do the same at once"
    )
    guest: GuestSize = Field(default_factory=GuestSize, description="what every guest is given")
    blocks: int = Field(
        default=3,
        ge=1,
        le=100_000,
        description="number of blocks, each one boot of every platform, or a mapping with until",
    )
    rounds: int = Field(
        default=5,
        ge=1,
        le=100,
        description="rounds of each workload in a block; 1: each platform once, without warm-up",
    )
    seed: int = Field(default=1, ge=0, lt=2**63, description="seed of the random order")
    testbed: Testbed | None = Field(
        default=None, description="other hosts and NICs that generate, count or hold guests"
    )
    study: str | None = Field(
        default=None, description="the published study whose numbers stand beside this run's, such as mattos2012"
    )
    order: Order = Field(
        default="randomised", description="blocks in random order, or as papers ran: platform after platform"
    )
    boot: BootedFor = Field(
        default="block", description="what each guest is booted anew for: a block, or in it each workload"
    )
    summary: Literal["mean-t95", "mean-sd", "median-drop-first"] | None = Field(
        default=None, description="a paper's way to sum up, reported beside the project's own"
    )
    margin: float = Field(
        default=0.10,
        ge=0.01,
        le=0.5,
        description="within how much of the baseline a platform is called alike; 0.1 is 10 %",
    )
    skip: list[str] = Field(
        default_factory=list, description="pairs platform:workload that are not run, with wildcards"
    )
    needs: list[str] = Field(
        default_factory=list, description="what you ask of the platforms, as 'virtoll advise --need' takes it"
    )
    thresholds: list[str] = Field(
        default_factory=list, description="what must hold, as 'virtoll gate --fail-if' takes it"
    )


class UntilDecided(Parameters):
    """``blocks`` as a mapping: so many at least and at most, until the verdict of every primary metric is known."""

    least: int = Field(default=3, ge=2, le=1000, description="blocks at least")
    most: int = Field(default=12, ge=2, le=1000, description="blocks at most")
    until: Literal["decided"] = Field(description="the run ends when the verdict of every primary metric is known")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"least ({self.least}) is more than most ({self.most}); turn them round")
        return self


class ConsolidationFile(Parameters):
    """The keys of a file with ``scenario: consolidation``: idle guests are counted, and no workload is run."""

    name: Label = Field(description="what the experiment is called, in small letters, such as my-density")
    question: str = Field(min_length=1, description="one sentence saying what the experiment should answer")
    scenario: Literal["consolidation"] = Field(
        description="idle guests are started and counted until the budget is used"
    )
    platforms: list[str | dict[str, Any]] = Field(
        min_length=1, description="a list of what is counted, such as [netns, runc]"
    )
    guest: GuestSize = Field(default_factory=GuestSize, description="what every guest is given")
    consolidation: ConsolidationBudget = Field(default_factory=ConsolidationBudget, description="when a series ends")
