"""What an experiment is once it is checked: the types that the rest of Virtoll is given.

Main types: ``Parameters`` (base of all parameter models), ``PlatformChoice`` and ``WorkloadChoice`` (one entry of the
file, with its factors expanded), ``Catalogue`` (the names and parameter models that a file may use) and ``Experiment``
(everything the plan needs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NoReturn

from pydantic import BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

from virtoll.experiment.describe import Words
from virtoll.experiment.selection import EVERYTHING, Cell, Selection
from virtoll.experiment.topology import HostAddress, Testbed
from virtoll.runfolder.conditions import Affinity, Condition
from virtoll.runfolder.looks import Looks
from virtoll.runfolder.scale import ScalePoint

LABEL_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
LABEL_WORDS = "small letters, digits, '.', '_' and '-', a letter or digit first, at most 63"
Label = Annotated[str, StringConstraints(pattern=LABEL_PATTERN), Words(LABEL_WORDS)]
Order = Literal["randomised", "paper"]
BootedFor = Literal["block", "each-workload"]
"""What each platform's guest is booted anew for: a block (in the paper's order: once), or in it each workload."""
# Guest images that an experiment may ask for, each with all that the one before it holds.
Image = Literal["tiny", "full", "full-non-free"]


def _switch(value: Any) -> Any:
    """``on`` and ``off`` without quotes are truth values in YAML."""
    return {True: "on", False: "off"}.get(value, value) if isinstance(value, bool) else value


Switch = Annotated[Literal["on", "off"], BeforeValidator(_switch, json_schema_input_type=Literal["on", "off"] | bool)]


def refuse(sentence: str) -> NoReturn:
    """For a model's validator: its keys do not go together, in a sentence that is printed as it is."""
    kind = "combination"
    raise PydanticCustomError(kind, "{sentence}", {"sentence": sentence})


class Parameters(BaseModel):
    """Base of all parameter models: immutable, and a misspelt key is refused.

    A model's validator is built at its first use: of all that a catalogue names, an experiment uses a few.
    ``unlabelled``: keys that say where something is and not what it is; they are in no label.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    unlabelled: ClassVar[frozenset[str]] = frozenset()
    pre_provisioned: ClassVar[bool] = False
    """Whether the guest is one that its user made and Virtoll only finds: its size cannot be asked for."""

    @property
    def elsewhere(self) -> str | None:
        """Where the guest is, in words, if the parameters themselves say so."""
        return None

    @property
    def needs_far_side(self) -> str | None:
        """The key that hands in the host's own NICs, behind which generator and sink must be; None: none does."""
        return None

    def conflict(self, testbed: Testbed | None) -> tuple[str, str] | None:
        """A key that conflicts with the rest of the experiment, and what to do, in one sentence; None: none does."""
        del testbed
        return None


class ConsolidationBudget(Parameters):
    """When a consolidation series ends: so much of the host's memory gone, or so many guests."""

    memory: ByteSize = Field(
        default=ByteSize(2**30), ge=2**20, description="memory of the host that the guests may use together"
    )
    guests: int = Field(default=1000, ge=1, le=100_000, description="guests at most")


@dataclass(frozen=True)
class Build:
    """What guests are started with in the place of what this machine has.

    ``programs``: names with their files, which come before PATH. ``kernel``: the package of the guests' kernel.
    """

    programs: tuple[tuple[str, Path], ...] = ()
    kernel: Path | None = None


@dataclass(frozen=True)
class PlatformChoice:
    """One platform of an experiment: ``label`` is its name in every table, ``parameters`` its checked model.

    ``host``: where its guests are, where that is not this machine. ``stands_for``: in a study's repetition, what of the
    paper's it is in the place of, in words. ``counters``: whether counters are read around what is measured.
    ``vcpus``, ``memory_bytes``: its guests' own, None where they have all guests'. ``build``: None: what PATH finds.
    """

    label: str
    platform: str
    parameters: Parameters
    host: HostAddress | None = None
    stands_for: str | None = None
    counters: bool = True
    vcpus: int | None = None
    memory_bytes: int | None = None
    build: Build | None = None

    @property
    def whereabouts(self) -> dict[str, str | None]:
        """``host`` in words and ``caveat``, as all records of this platform have them."""
        if self.parameters.elsewhere is not None:
            return {"host": self.parameters.elsewhere, "caveat": None}
        if self.host is None:
            return {"host": "this machine", "caveat": None}
        return {"host": self.host.words, "caveat": self.host.caveat}


@dataclass(frozen=True)
class WorkloadChoice:
    """One workload with one combination of its factors."""

    workload: str
    parameters: Parameters


@dataclass(frozen=True)
class Scale:
    """How many guests do the same at once; ``most``: the largest number for a platform, by its label.

    ``overcommit``: whether they are tried where the host has not the memory for all of them. ``affinity``: on which of
    the host's CPUs they are: all on as many as one has, each on its own, or on any.
    """

    points: tuple[ScalePoint, ...]
    most: Mapping[str, int]
    overcommit: bool
    affinity: Affinity = "unpinned"

    def points_of(self, label: str) -> tuple[ScalePoint, ...]:
        """Those that a platform is measured at."""
        return tuple(point for point in self.points if point.guests <= self.most.get(label, point.guests))


SIZE_LAYERS: Mapping[str, tuple[str, ...]] = {
    "quick": ("quick",),
    "paper": ("paper",),
    "full": ("paper", "full"),
}
"""Each size of an experiment with the sizes whose keys it has; those of a later one take the place of an earlier's."""
STUDIES = ("camargos2008", "mattos2012", "schlosser2011", "suresh2014")
"""Whose published numbers an experiment may be set beside: those of `reference/studies.yaml`."""


@dataclass(frozen=True)
class Catalogue:
    """The names that a file may use, each with the model of its parameters.

    ``controls``: platform -> the baseline that it is the A/A control of, or None. ``images``: workload -> the image
    that holds what it runs; ``load_image``: the same for what a guest beside the measured one is loaded with.
    ``programs``: the names of a platform's programs that another build may replace; ``boots_kernel``: whether its
    guests boot the image's kernel.
    """

    platforms: Mapping[str, type[Parameters]]
    workloads: Mapping[str, type[Parameters]]
    controls: Mapping[str, str | None]
    images: Mapping[str, Image]
    load_image: Callable[[str], Image]
    programs: Callable[[PlatformChoice], tuple[str, ...]]
    boots_kernel: Callable[[PlatformChoice], bool]


@dataclass(frozen=True)
class Experiment:
    """A checked experiment; ``text`` is the YAML as read, so that a run folder can say exactly what was asked.

    ``blocks``: how many at most; ``looks``: after how many of them a run ends if all is decided, None: never.
    ``conditions``: under which every trial is measured besides alone (scenario ``neighbours``). ``scale``: how many
    guests do the same at once (scenario ``scale``), None in any other.
    ``needs``: of the user, as ``virtoll advise`` takes them. ``thresholds``: what must hold, as ``virtoll gate`` does.
    ``size`` and ``selection`` say which part of it; ``cells`` are the pairs of label and workload that are run.
    ``against``: the settings whose cost is asked for; ``pairs``: the labels of a platform as it is, and with them.
    ``unconcerned``: the labels of platforms that no such setting concerns, and that are left out.
    """

    name: str
    question: str
    file: Path
    text: str
    platforms: tuple[PlatformChoice, ...]
    workloads: tuple[WorkloadChoice, ...]
    baseline: str | None
    control: str | None
    scenario: str
    vcpus: int
    memory_bytes: int
    marks: str
    blocks: int
    seed: int
    testbed: Testbed | None = None
    cpu_quota: float | None = None
    consolidation: ConsolidationBudget | None = None
    study: str | None = None
    image: str = "tiny"
    order: Order = "randomised"
    boot: BootedFor = "block"
    rounds: int = 5
    looks: Looks | None = None
    summary: str | None = None
    margin: float = 0.10
    needs: tuple[str, ...] = ()
    thresholds: tuple[str, ...] = ()
    size: str | None = None
    selection: Selection = EVERYTHING
    cells: frozenset[Cell] = frozenset()
    conditions: tuple[Condition, ...] = ()
    scale: Scale | None = None
    against: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    unconcerned: tuple[str, ...] = ()

    def size_of(self, choice: PlatformChoice) -> tuple[int, int]:
        """Virtual CPUs and bytes of memory of a platform's guest, where no more than one is measured at once."""
        return choice.vcpus or self.vcpus, choice.memory_bytes or self.memory_bytes

    @property
    def most_vcpus(self) -> int:
        """The most virtual CPUs that a measured guest has."""
        return max(self.size_of(choice)[0] for choice in self.platforms)

    @property
    def nested_hosts(self) -> tuple[str, ...]:
        """The kinds of nested hosts that its platforms' guests are on, sorted."""
        hosts = (choice.host for choice in self.platforms)
        return tuple(sorted({host.nested for host in hosts if host is not None and host.nested}))
