"""The claims of Schlosser et al. 2011 on made-up runs whose truth is known: every outcome of each, with its numbers.

Rates are in Mbit/s on the wire, as the paper has them. 64-byte ones are of its Tables 2 and 3; its figures print none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

import pytest
from tests.support.made_up_run import Made, made_up_run

from virtoll.campaign.preview import catalogue, plan_of
from virtoll.claims import Finding, Judged, Outcome, judge_claims, published_claims
from virtoll.experiment.parse import load_experiment, presets
from virtoll.experiment.selection import EVERYTHING
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.runfolder.guest_records import Forwarding
from virtoll.stats.analysis import RunData, analyse

CLAIMS = {one.id: one for one in published_claims() if one.paper == "schlosser2011"}
YES, NO, OPEN, NONE = Outcome.SUPPORTED, Outcome.REFUTED, Outcome.NOT_DECIDED, Outcome.NOT_MEASURED
Rates = Mapping[str, float]
"""Mbit/s on the wire, of all sources, by platform."""

ESXI = {"server": "esx", "password_from": "env:ESXI", "datastore": "one", "port_groups": ["in1", "out1"]}
PLATFORMS: dict[str, dict[str, Any]] = {
    "native": {},
    "netns": {},
    "runsc": {},
    "kvm": {"platform": "qemu-kvm"},
    "kvm-e1000": {"platform": "qemu-kvm", "parameters": {"nic": "e1000"}},
    "kvm-disk": {"platform": "qemu-kvm", "parameters": {"disk": "ide"}},
    "kvm-disk-e1000": {"platform": "qemu-kvm", "parameters": {"disk": "ide", "nic": "e1000"}},
    "kvm-rtl8139": {"platform": "qemu-kvm", "parameters": {"nic": "rtl8139"}},
    "kvm-vmxnet3": {"platform": "qemu-kvm", "parameters": {"nic": "vmxnet3"}},
    "xen": {},
    "virtualbox": {},
    "esxi": {"parameters": {**ESXI, "nic": "vmxnet3"}},
    "esxi-e1000": {"platform": "esxi", "parameters": {**ESXI, "nic": "e1000"}},
}
NESTED = {"host": "nested kvm", "caveat": "nested: functional only"}
OF_CONTAINERS = {"family": "os-level"}  # what records of an older Virtoll have for gVisor

FRAME = 1e-4  # relative: what a frame more or less makes of a rate without noise
# As in the presets schlosser2011 and schlosser2011-neighbours.
SWEPT = {"sweep": "rates", "rates_mbit_per_second": [10, 40, 100, 400, 1000], "point_milliseconds": 100}
BESIDE = {"sweep": "from-flat-out", "point_milliseconds": 1000, "cpu_milliseconds": 0}
IDLE = Condition("idle", affinity="apart")
LIGHT, HEAVY = Condition("light", affinity="apart"), Condition("heavy", affinity="apart")
UNPINNED, LIGHT_UNPINNED = (replace(one, affinity="unpinned") for one in (HEAVY, LIGHT))
FLOOD = Condition("network-flood", affinity="apart", rate_share=0.95)
HALF, FULL = (Condition("forward", affinity="apart", rate_share=share) for share in (0.5, 0.95))


def at(
    size: int, rates: Rates, *, sources: int = 1, egress: str = "one", flat_out: float | None = None, **made: Any
) -> list[Made]:
    """Frames of one size, each platform alone; `flat_out`: Mbit/s that are left of the largest rate."""
    shape = FrameShape(frame_size_bytes=size)
    parameters = {**SWEPT, "frame_size_bytes": size, "sources": sources, "egress": egress}
    left = None if flat_out is None else shape.frames_per_second(flat_out)
    return [
        Made(label, "forward", parameters, shape.frames_per_second(rate), flat_out=left, **made)
        for label, rate in rates.items()
    ]


def beside(
    label: str,
    size: int,
    alone: float,
    under: Mapping[Condition, float],
    neighbour: tuple[float, float] | None = None,
    **made: Any,
) -> list[Made]:
    """A platform alone, and under each condition; `neighbour`: Mbit/s into the second guest, and out of it."""
    shape, small = FrameShape(frame_size_bytes=size), FrameShape(frame_size_bytes=68)
    parameters = {**BESIDE, "frame_size_bytes": size}
    through = None
    if neighbour is not None:
        through = small.frames_per_second(neighbour[0]), small.frames_per_second(neighbour[1])
    return [
        Made(label, "forward", parameters, shape.frames_per_second(alone), **made),
        *(
            Made(label, "forward", parameters, shape.frames_per_second(rate), beside=one, neighbour=through, **made)
            for one, rate in under.items()
        ),
    ]


def lossless(*measured: Made, at: Sequence[Condition | None] = (None,)) -> list[Made]:
    """The same, where of those under these conditions (None: alone) nothing is lost flat out."""
    return [replace(one, lossless=one.beside in at) for one in measured]


@dataclass(frozen=True)
class Case:
    """One run and what it says of a claim.

    `estimates`: of all findings in order, what was put in. `others`: what every second block measures instead.
    `generator`: frames/s of generator and sink with nothing between. `changed`: what platforms have besides.
    """

    claim: str
    outcome: Outcome
    why: str
    measured: Sequence[Made]
    estimates: Sequence[float] = ()
    blocks: int = 4
    others: Sequence[Made] = ()
    generator: float | None = None
    changed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """For pytest: 'S01-refuted-kvm'."""
        return "-".join(filter(None, f"{self.claim} {self.outcome} {self.why}".split()))

    def run(self, **more: Any) -> RunData:
        """What analysis takes."""
        labels = ["native", *(one.platform for one in self.measured)]
        labels += [one.beside.platform for one in self.measured if one.beside and one.beside.platform]
        platforms = {label: {**PLATFORMS[label], **self.changed.get(label, {})} for label in labels}
        given = {"blocks": self.blocks, "calibrated_rate": self.generator, **more}
        run = made_up_run(platforms, self.measured, **given)
        if not self.others:
            return run
        other = made_up_run(platforms, self.others, **given)
        return replace(
            run,
            trials=tuple((one, two)[one.block % 2] for one, two in zip(run.trials, other.trials, strict=True)),
            beside=tuple((one, two)[one.block % 2] for one, two in zip(run.beside, other.beside, strict=True)),
        )


def judged(claim: str, run: RunData) -> Judged:
    """What a run says of one claim."""
    (found,) = judge_claims(analyse(run), [CLAIMS[claim]])
    return found


def findings(found: Judged) -> list[Finding]:
    """Of all its tests, in order."""
    return [one for test in found.tests for one in test.findings]


S01 = [
    Case(
        "S01",
        YES,
        "whatever VirtualBox does",
        at(1504, {"native": 1000, "netns": 1000, "kvm": 960, "virtualbox": 400}),
        [1.0, 0.96],
    ),
    Case("S01", NO, "one of two", at(1504, {"native": 1000, "netns": 1000, "kvm": 600}), [1.0, 0.6]),
    Case("S01", NO, "less than nine tenths", at(1504, {"native": 1000, "kvm": 830}), [0.83]),
    Case("S01", NO, "with FCS too", at(1500, {"native": 1000, "kvm": 600}), [0.6]),
    Case(
        "S01",
        NO,
        "either size",
        at(1504, {"native": 1000, "kvm": 990}) + at(1500, {"native": 1000, "kvm": 600}),
        [0.6, 0.99],
    ),
    Case("S01", NO, "more than a bound", lossless(*at(1504, {"native": 1000})) + at(1504, {"kvm": 600}), [0.6]),
    Case("S01", NO, "more than the generator", at(1504, {"native": 1000, "kvm": 600}), [0.6], generator=85e3),
    Case("S01", YES, "a bound above native", at(1504, {"native": 900}) + lossless(*at(1504, {"kvm": 990})), [1.1]),
    Case("S01", OPEN, "scattered", at(1504, {"native": 1000, "netns": 900}, spread=0.1)),
    Case("S01", OPEN, "both lossless", lossless(*at(1504, {"native": 1000, "netns": 1000}))),
    Case("S01", OPEN, "native lossless", lossless(*at(1504, {"native": 1000})) + at(1504, {"netns": 1000})),
    Case("S01", OPEN, "both at the generator", at(1504, {"native": 1000, "netns": 1000}), generator=85e3),
    Case("S01", OPEN, "native at the generator", at(1504, {"native": 1000, "netns": 910}), generator=89e3),
    Case("S01", OPEN, "a bound below native", at(1504, {"native": 1000}) + lossless(*at(1504, {"kvm": 600})), [0.6]),
    Case("S01", NONE, "VirtualBox alone", at(1504, {"native": 1000, "virtualbox": 400})),
    Case("S01", NONE, "smaller frames", at(504, {"native": 1000, "kvm": 600})),
    Case("S01", NONE, "two sources", at(1504, {"native": 2000, "kvm": 600}, sources=2)),
    Case("S01", NONE, "native alone", at(1504, {"native": 1000})),
    Case("S01", NO, "its only egress link", at(1504, {"native": 1000, "kvm": 600}, egress="each"), [0.6]),
    Case(
        "S01",
        YES,
        "nested it decides nothing",
        at(1504, {"native": 1000, "netns": 1000, "kvm": 300}),
        changed={"kvm": NESTED},
    ),
    Case("S01", NONE, "nested alone", at(1504, {"native": 1000, "kvm": 1000}), changed={"kvm": NESTED}),
]

ROUGHLY_3 = {68: 290, 504: 1000, 1004: 1000, 1504: 1000}  # native from one source, Figure 3 and Table 3


def by_size(label: str, *rates: float, **made: Any) -> list[Made]:
    """One platform at the paper's four sizes."""
    return [one for size, rate in zip(ROUGHLY_3, rates, strict=True) for one in at(size, {label: rate}, **made)]


NATIVE = by_size("native", *ROUGHLY_3.values())
S02 = [
    Case("S02", YES, "", NATIVE + by_size("kvm", 72.5, 300, 600, 1000), [0.25, 0.25 / 0.3, 0.3 / 0.6, 0.6]),
    Case("S02", NO, "the same share", NATIVE + by_size("kvm", 145, 500, 500, 500), [1.0, 1.0, 1.0, 1.0]),
    Case("S02", NO, "large ones lose more", NATIVE + by_size("kvm", 290, 900, 700, 500), [2.0, 10 / 9, 9 / 7, 7 / 5]),
    Case("S02", NO, "not in order", NATIVE + by_size("kvm", 87, 750, 600, 1000), [0.3, 0.3 / 0.75, 1.25, 0.6]),
    Case(
        "S02",
        YES,
        "a little less",
        at(68, {"native": 290, "kvm": 232}) + at(1504, {"native": 1000, "kvm": 1000}),
        [0.8, 0.8],
    ),
    Case(
        "S02",
        NO,
        "with FCS too",
        at(64, {"native": 290, "kvm": 290}) + at(1500, {"native": 1000, "kvm": 1000}),
        [1.0, 1.0],
    ),
    Case(
        "S02",
        YES,
        "four bytes more or less",
        [
            *at(64, {"native": 290, "kvm": 72.5}),
            *at(68, {"native": 290, "kvm": 72.5}),
            *at(1500, {"native": 1000, "kvm": 1000}),
            *at(1504, {"native": 1000, "kvm": 1000}),
        ],
        [0.25, 1.0, 0.25, 1.0],
    ),
    Case(
        "S02",
        YES,
        "each source by its own link",
        by_size("native", *ROUGHLY_3.values(), egress="each") + by_size("kvm", 72.5, 300, 600, 1000, egress="each"),
    ),
    Case("S02", OPEN, "scattered", NATIVE + by_size("kvm", 261, 960, 980, 1000, spread=0.1)),
    Case(
        "S02",
        OPEN,
        "the link is the limit",
        at(68, {"native": 290, "kvm": 72.5}) + lossless(*at(1504, {"native": 1000, "kvm": 1000})),
        [0.25, 0.25],
    ),
    Case(
        "S02",
        OPEN,
        "small ones at the generator",
        at(68, {"native": 290, "kvm": 285}) + at(1504, {"native": 1000, "kvm": 1000}),
        [285 / 290, 285 / 290],
        generator=420e3,
    ),
    Case(
        "S02",
        YES,
        "native's small ones at the generator",
        at(68, {"native": 290, "kvm": 145}) + at(1504, {"native": 1000, "kvm": 1000}),
        [0.5, 0.5],
        generator=420e3,
    ),
    Case("S02", OPEN, "native not of all", at(68, {"kvm": 72.5}) + at(1504, {"native": 1000, "kvm": 1000})),
    Case("S02", NONE, "one size", at(68, {"native": 290, "kvm": 72.5})),
    Case("S02", NONE, "native alone", NATIVE),
    Case("S02", NONE, "three sources", by_size("native", 300, 3000, 3000, 3000, sources=3)),
]


def native(size: int, *rates: float, egress: str = "each", **made: Any) -> list[Made]:
    """The bare host from one source, two and three."""
    return [
        one
        for place, rate in enumerate(rates)
        for one in at(size, {"native": rate}, sources=place + 1, egress=egress, **made)
    ]


SMALL = native(68, 290, 300, 300)  # "the accumulated throughput for two and three traffic generators is the same"
S03 = [
    Case(
        "S03",
        YES,
        "",
        SMALL + native(504, 1000, 2000, 3000) + native(1504, 1000, 2000, 3000),
        [1.0, 1.0, 1.0, 1.0, 1.0],
    ),
    Case(
        "S03",
        YES,
        "one egress link",
        native(68, 290, 300, 300, egress="one") + native(1504, 1000, 2000, 3000, egress="one"),
        [1.0, 1.0, 1.0],
    ),
    Case("S03", NO, "two and three as one", SMALL + native(1504, 1000, 1000, 1000), [0.5, 1 / 3, 1.0]),
    Case("S03", NO, "three as two", SMALL + native(504, 1000, 2000, 2000), [1.0, 2 / 3, 1.0]),
    Case("S03", NO, "small ones too", native(68, 200, 400, 500) + native(1504, 1000, 2000, 3000), [1.0, 1.0, 1.25]),
    Case(
        "S03",
        YES,
        "whatever is between",
        SMALL + native(260, 900, 900, 1200) + native(1504, 1000, 2000, 3000),
        [1.0, 1.0, 1.0],
    ),
    Case("S03", NO, "large ones alone", native(1504, 1000, 1000, 1000), [0.5, 1 / 3]),
    Case("S03", NO, "with FCS too", native(64, 200, 400, 600), [1.5]),
    Case("S03", NO, "to a bound", lossless(*native(1504, 1000)) + native(1504, 0.1, 1000, 1000)[1:], [0.5, 1 / 3]),
    Case("S03", OPEN, "large ones alone", native(1504, 1000, 2000, 3000), [1.0, 1.0]),
    Case("S03", OPEN, "small ones alone", SMALL, [1.0]),
    Case("S03", OPEN, "scattered", SMALL + native(1504, 1000, 1800, 2700, spread=0.1)),
    Case("S03", OPEN, "the links are the limit", lossless(*SMALL, *native(1504, 1000, 2000, 3000))),
    Case(
        "S03",
        OPEN,
        "the generator is the limit",
        native(68, 200, 400, 400) + native(1504, 1000, 2000, 2000),
        generator=170e3,
    ),
    Case(
        "S03",
        OPEN,
        "two by one link and three by three",
        at(68, {"native": 300}, sources=2)
        + at(68, {"native": 900}, sources=3, egress="each")
        + native(1504, 1000, 2000, 3000),
    ),
    Case("S03", NONE, "one source", native(68, 290) + native(1504, 1000)),
    Case("S03", NONE, "guests alone", [one for n in (1, 2, 3) for one in at(1504, {"kvm": 900.0 * n}, sources=n)]),
]


def three(size: int, rates: Rates, **made: Any) -> list[Made]:
    """From three sources, each with an egress link of its own."""
    return at(size, rates, sources=3, egress="each", **made)


S04 = [
    Case(
        "S04",
        YES,
        "OS-level as native with large ones",
        three(68, {"native": 300, "netns": 135, "kvm": 75})
        + three(504, {"native": 3000, "netns": 1500, "kvm": 2400})
        + three(1504, {"native": 3000, "netns": 3000, "kvm": 2400}),
        [0.45, 0.5, 0.25, 0.8, 0.8],
    ),
    Case(
        "S04",
        NO,
        "another with large ones",
        three(504, {"native": 3000, "kvm": 600}) + three(1504, {"native": 3000, "kvm": 3000}),
        [0.2, 1.0],
    ),
    Case(
        "S04",
        NO,
        "OS-level with smaller ones",
        three(1004, {"native": 3000, "netns": 3000, "kvm": 600}) + three(1504, {"native": 3000, "kvm": 600}),
        [1.0, 0.2, 0.2],
    ),
    Case(
        "S04",
        NO,
        "gVisor is no container",
        three(68, {"native": 300, "runsc": 75}) + three(1504, {"native": 3000, "runsc": 3000}),
        [0.25, 1.0],
        changed={"runsc": OF_CONTAINERS},
    ),
    Case("S04", NO, "large ones alone", three(1500, {"native": 3000, "kvm": 3000}), [1.0]),
    Case("S04", NO, "one egress link", at(64, {"native": 300, "kvm": 300}, sources=3), [1.0]),
    Case("S04", NO, "large ones by one link", at(1504, {"native": 3000, "kvm": 3000}, sources=3), [1.0]),
    Case(
        "S04",
        YES,
        "than a bound",
        lossless(*three(504, {"native": 3000}), *three(1504, {"native": 3000}))
        + three(504, {"kvm": 600})
        + three(1504, {"kvm": 1500}),
        [0.2, 0.5],
    ),
    Case("S04", OPEN, "large ones alone", three(1504, {"native": 3000, "kvm": 1500}), [0.5]),
    Case(
        "S04",
        OPEN,
        "OS-level alone",
        three(68, {"native": 300, "netns": 135}) + three(1504, {"native": 3000, "netns": 3000}),
        [0.45],
    ),
    Case(
        "S04",
        OPEN,
        "scattered",
        three(504, {"native": 3000, "kvm": 2700}, spread=0.1) + three(1504, {"native": 3000, "kvm": 1500}),
    ),
    Case(
        "S04",
        OPEN,
        "the guest lossless",
        three(504, {"native": 3000})
        + lossless(*three(504, {"kvm": 1500}))
        + three(1504, {"native": 3000, "kvm": 1500}),
        [0.5, 0.5],
    ),
    Case(
        "S04",
        OPEN,
        "both at the generator",
        three(1004, {"native": 3000, "kvm": 3000}) + three(1504, {"native": 3000, "kvm": 1500}),
        generator=380e3,
    ),
    Case("S04", NONE, "one source", at(68, {"native": 290, "kvm": 76}) + at(1504, {"native": 1000, "kvm": 900})),
    Case(
        "S04",
        NONE,
        "native by one link and the guest by three",
        at(68, {"native": 300}, sources=3) + three(68, {"kvm": 76}),
    ),
    Case("S04", NONE, "two sources", at(68, {"native": 300, "kvm": 76}, sources=2)),
    Case("S04", NONE, "native alone", three(68, {"native": 300}) + three(1504, {"native": 3000})),
]

S05 = [
    Case(
        "S05",
        YES,
        "E1000 above another's virtio",
        at(68, {"esxi": 289, "esxi-e1000": 133, "kvm": 76}) + at(504, {"esxi": 1000, "esxi-e1000": 800, "kvm": 300}),
        [289 / 133, 1.25],
    ),
    Case(
        "S05",
        NO,
        "one of two products",
        at(68, {"esxi": 289, "esxi-e1000": 133, "kvm": 76, "kvm-e1000": 95}),
        [289 / 133, 0.8],
    ),
    Case(
        "S05",
        YES,
        "two emulated ones",
        at(68, {"kvm": 289, "kvm-e1000": 133, "kvm-rtl8139": 40}),
        [289 / 133, 289 / 40],
    ),
    Case("S05", NO, "with FCS too", at(64, {"kvm": 76, "kvm-e1000": 95}), [0.8]),
    Case("S05", NO, "500 bytes", at(504, {"kvm": 400, "kvm-e1000": 800}, egress="each"), [0.5]),
    Case("S05", YES, "a bound", lossless(*at(68, {"esxi": 289})) + at(68, {"esxi-e1000": 133}), [289 / 133]),
    Case("S05", OPEN, "scattered", at(68, {"esxi": 140, "esxi-e1000": 133}, spread=0.1)),
    Case("S05", OPEN, "as a bound", at(68, {"esxi": 289}) + lossless(*at(68, {"esxi-e1000": 133})), [289 / 133]),
    Case("S05", OPEN, "below at the generator", at(68, {"kvm": 270, "kvm-e1000": 289}), [270 / 289], generator=412e3),
    Case("S05", NONE, "no E1000", at(68, {"native": 290, "esxi": 289, "xen": 76})),
    Case("S05", NONE, "another product's", at(68, {"kvm": 76, "esxi-e1000": 133})),
    Case("S05", NONE, "another disk too", at(68, {"kvm": 76, "kvm-disk-e1000": 95})),
    Case(
        "S05", YES, "each of its own disk", at(68, {"kvm": 289, "kvm-e1000": 133, "kvm-disk-e1000": 300}), [289 / 133]
    ),
    Case(
        "S05",
        NO,
        "both disks",
        at(68, {"kvm": 289, "kvm-e1000": 133, "kvm-disk": 76, "kvm-disk-e1000": 95}),
        [289 / 133, 0.8],
    ),
    Case("S05", NONE, "larger frames", at(1004, {"esxi": 1000, "esxi-e1000": 900})),
]

S06 = [
    Case(
        "S06",
        YES,
        "whatever others do",
        at(68, {"native": 290, "netns": 133, "runsc": 320}) + at(1504, {"native": 1000, "netns": 1000, "runsc": 100}),
        [1.0, 133 / 290],
    ),
    Case(
        "S06",
        YES,
        "from three sources",
        three(68, {"native": 300, "netns": 133}) + three(1504, {"native": 3000, "netns": 3000}),
        [1.0, 133 / 300],
    ),
    Case(
        "S06",
        NO,
        "large ones slower",
        at(68, {"native": 290, "netns": 133}) + at(1504, {"native": 1000, "netns": 700}),
        [0.7, 133 / 290],
    ),
    Case(
        "S06",
        NO,
        "small ones faster",
        at(64, {"native": 290, "netns": 348}) + at(1500, {"native": 1000, "netns": 1000}),
        [1.0, 1.2],
    ),
    Case(
        "S06",
        YES,
        "a little from two sources",
        at(68, {"native": 300, "netns": 270}, sources=2) + at(1504, {"native": 2000, "netns": 2000}, sources=2),
        [1.0, 0.9],
    ),
    Case("S06", NO, "two sources", at(1504, {"native": 2000, "netns": 1000}, sources=2), [0.5]),
    Case("S06", NO, "large ones alone", at(1504, {"native": 1000, "netns": 700}), [0.7]),
    Case("S06", OPEN, "large ones alone", at(1504, {"native": 1000, "netns": 1000}), [1.0]),
    Case("S06", OPEN, "small ones alone", at(68, {"native": 290, "netns": 133}), [133 / 290]),
    Case(
        "S06",
        OPEN,
        "scattered",
        at(68, {"native": 290, "netns": 285}, spread=0.1) + at(1504, {"native": 1000, "netns": 1000}),
    ),
    Case(
        "S06",
        OPEN,
        "the link is the limit",
        at(68, {"native": 290, "netns": 133}) + lossless(*at(1504, {"native": 1000, "netns": 1000})),
    ),
    Case(
        "S06",
        OPEN,
        "small ones at the generator",
        at(68, {"native": 290, "netns": 289}) + at(1504, {"native": 1000, "netns": 1000}),
        generator=412e3,
    ),
    Case("S06", NONE, "another family", at(68, {"native": 290, "kvm": 76}) + at(1504, {"native": 1000, "kvm": 900})),
    Case(
        "S06",
        NONE,
        "gVisor alone",
        at(68, {"native": 290, "runsc": 133}) + at(1504, {"native": 1000, "runsc": 1000}),
        changed={"runsc": OF_CONTAINERS},
    ),
    Case("S06", NONE, "other sizes", at(504, {"native": 1000, "netns": 800})),
]

S07 = [
    Case(
        "S07",
        YES,
        "whatever others do",
        at(68, {"netns": 133}, flat_out=60) + at(68, {"runsc": 76, "kvm": 76}),
        [60 / 133],
    ),
    Case("S07", YES, "some of it", at(68, {"netns": 133}, flat_out=110), [110 / 133]),
    Case("S07", YES, "the best at the generator", at(68, {"netns": 290}, flat_out=60), [60 / 290], generator=412e3),
    Case("S07", NO, "it stays", at(68, {"netns": 133}), [1.0]),
    Case("S07", NO, "a little less", at(64, {"netns": 133}, flat_out=130, egress="each"), [130 / 133]),
    Case(
        "S07",
        OPEN,
        "in every second block",
        at(68, {"netns": 133}, flat_out=60),
        [(60 / 133) ** 0.5],
        others=at(68, {"netns": 133}),
    ),
    Case("S07", OPEN, "nothing lost", lossless(*at(68, {"netns": 133}))),
    Case("S07", OPEN, "nothing lost at the generator", lossless(*at(68, {"netns": 133})), generator=190e3),
    Case("S07", OPEN, "the sender slowed down", lossless(*at(68, {"netns": 133})), [1.0], generator=852e3),
    Case("S07", NONE, "another family", at(68, {"native": 290, "kvm": 76}, flat_out=30)),
    Case("S07", NONE, "gVisor alone", at(68, {"runsc": 76}, flat_out=30), changed={"runsc": OF_CONTAINERS}),
    Case("S07", NONE, "larger frames", at(504, {"netns": 900}, flat_out=300)),
    Case("S07", NONE, "three sources", three(68, {"netns": 133}, flat_out=60)),
]

OFFERED = FrameShape(frame_size_bytes=68).frames_per_second(600)  # "accept up to 600 Mbit/s input rates"
S08 = [
    Case("S08", YES, "", at(68, {"native": 600, "netns": 133, "kvm": 76}), [133 / 600, 76 / 600], generator=OFFERED),
    Case("S08", NO, "one of two", at(68, {"netns": 133, "kvm": 570}), [133 / 600, 0.95], generator=OFFERED),
    Case("S08", NO, "the sender slowed down", lossless(*at(68, {"kvm": 76}, egress="each")), [1.0], generator=OFFERED),
    Case("S08", NO, "with FCS too", at(64, {"kvm": 570}), [0.95], generator=600e6 / 8 / 84),
    Case("S08", OPEN, "scattered", at(68, {"kvm": 540}, spread=0.1), generator=OFFERED),
    Case("S08", OPEN, "nothing lost", lossless(*at(68, {"kvm": 76}))),
    Case("S08", OPEN, "nothing lost at the generator", lossless(*at(68, {"kvm": 580})), generator=OFFERED),
    Case("S08", NONE, "native alone", at(68, {"native": 290})),
    Case("S08", NONE, "larger frames", at(504, {"native": 1000, "kvm": 300})),
    Case("S08", NONE, "three sources", three(68, {"kvm": 76})),
]

S09 = [
    Case(
        "S09",
        YES,
        "whatever a busy one does",
        beside("netns", 68, 133, {IDLE: 133, HEAVY: 60}) + beside("kvm", 1504, 950, {IDLE: 940}),
        [1.0, 940 / 950],
    ),
    Case("S09", NO, "slower", beside("kvm", 68, 75, {IDLE: 60}) + beside("netns", 68, 133, {IDLE: 133}), [0.8, 1.0]),
    Case("S09", NO, "faster", beside("kvm", 504, 300, {IDLE: 390}), [1.3]),
    Case("S09", NO, "on the same CPU", beside("kvm", 68, 75, {Condition("idle"): 60}), [0.8]),
    Case("S09", NO, "than a bound", lossless(*beside("kvm", 68, 75, {IDLE: 60})), [0.8]),
    Case("S09", OPEN, "scattered", beside("kvm", 68, 76, {IDLE: 72.2}, spread=0.05)),
    Case("S09", OPEN, "alone lossless", lossless(*beside("kvm", 68, 75, {IDLE: 75}))),
    Case("S09", OPEN, "beside it lossless", lossless(*beside("kvm", 68, 75, {IDLE: 60}), at=[IDLE]), [0.8]),
    Case("S09", OPEN, "at the generator", beside("kvm", 68, 290, {IDLE: 290}), generator=412e3),
    Case("S09", NONE, "busy ones", beside("kvm", 68, 76, {LIGHT: 76, HEAVY: 76})),
    Case("S09", NONE, "nothing beside", at(68, {"native": 290, "kvm": 76})),
    Case("S09", NONE, "native alone", beside("native", 68, 290, {IDLE: 200})),
    Case("S09", NONE, "three idle ones", beside("kvm", 68, 75, {replace(IDLE, guests=3): 60})),
    Case("S09", NONE, "one of another platform", beside("kvm", 68, 75, {replace(IDLE, platform="netns"): 60})),
]

# Table 1: of OpenVZ, under heavy load, 18.2 % less at 64 bytes, 11.4 % at 500, nothing at 1000.
CONTAINER = [
    *beside("netns", 68, 133, {LIGHT: 133, HEAVY: 133, UNPINNED: 109, LIGHT_UNPINNED: 134}, spread=0.003),
    *beside("netns", 504, 900, {HEAVY: 900, UNPINNED: 900 * 0.886}, spread=0.003),
    *beside("netns", 1004, 1000, {HEAVY: 1000, UNPINNED: 1000}, spread=0.003),
]
WITHOUT_LIGHT = [one for one in CONTAINER if one.beside != LIGHT]
S10 = [
    Case(
        "S10",
        YES,
        "as in Table 1",
        CONTAINER + beside("xen", 68, 76, {LIGHT: 76 * 1.068, HEAVY: 76 * 1.079}, spread=0.003),
        [1.0, 1.0, 1.0, 1.0, 1.079, 1.068, 0.82, 0.886],
    ),
    Case(
        "S10",
        YES,
        "whatever others do unpinned",
        CONTAINER
        + beside("kvm", 68, 76, {LIGHT: 76, HEAVY: 76, UNPINNED: 30}, spread=0.003)
        + beside("runsc", 68, 76, {UNPINNED: 76}),
        changed={"runsc": OF_CONTAINERS},
    ),
    Case("S10", NO, "on other CPUs", CONTAINER + beside("kvm", 68, 75, {LIGHT: 75, HEAVY: 60})),
    Case("S10", NO, "faster on other CPUs", beside("kvm", 1504, 500, {LIGHT: 600}), [1.2]),
    Case(
        "S10",
        NO,
        "unpinned as alone",
        beside("netns", 68, 133, {HEAVY: 133, UNPINNED: 133}) + beside("netns", 504, 900, {UNPINNED: 700}),
        [1.0, 1.0, 7 / 9],
    ),
    Case("S10", NO, "with FCS too", beside("netns", 64, 133, {UNPINNED: 133}), [1.0]),
    Case("S10", OPEN, "without the light load", WITHOUT_LIGHT),
    Case("S10", OPEN, "without it on one platform", WITHOUT_LIGHT + beside("kvm", 68, 75, {LIGHT: 75, HEAVY: 75})),
    Case("S10", OPEN, "pinned alone", beside("kvm", 68, 76, {LIGHT: 76, HEAVY: 76}), [1.0, 1.0]),
    Case("S10", OPEN, "unpinned alone", beside("netns", 68, 133, {UNPINNED: 100}), [100 / 133]),
    Case("S10", OPEN, "scattered", CONTAINER + beside("kvm", 68, 75, {LIGHT: 75, HEAVY: 68}, spread=0.05)),
    Case(
        "S10",
        OPEN,
        "beside it lossless",
        CONTAINER + lossless(*beside("kvm", 68, 75, {LIGHT: 75, HEAVY: 60}), at=[HEAVY]),
    ),
    Case("S10", OPEN, "alone lossless", lossless(*CONTAINER, *beside("kvm", 68, 75, {LIGHT: 75}))),
    Case(
        "S10", OPEN, "at the generator", CONTAINER + beside("kvm", 68, 290, {LIGHT: 290, HEAVY: 290}), generator=412e3
    ),
    Case("S10", NONE, "on the same CPU", beside("netns", 68, 133, {Condition("heavy"): 66})),
    Case("S10", NONE, "an idle one", beside("netns", 68, 133, {IDLE: 133})),
    Case("S10", NONE, "nothing beside", at(68, {"native": 290, "netns": 133})),
    Case(
        "S10",
        NONE,
        "two busy ones",
        beside("netns", 68, 133, {replace(HEAVY, guests=2): 66, replace(UNPINNED, guests=2): 66}),
    ),
]

S11 = [
    Case(
        "S11",
        YES,
        "whatever VMXNET 3 of VMware does",
        beside("netns", 504, 900, {FULL: 720}) + beside("esxi", 504, 1000, {FULL: 1000}),
        [0.8],
    ),
    Case(
        "S11",
        YES,
        "whatever other sizes and loads do",
        beside("kvm", 1004, 600, {HALF: 600, FLOOD: 600, FULL: 480})
        + beside("kvm", 1504, 950, {FULL: 950})
        + beside("kvm", 260, 180, {FULL: 180}),
        [0.8],
    ),
    Case(
        "S11",
        NO,
        "one of two",
        beside("netns", 504, 900, {FULL: 720}) + beside("kvm", 504, 300, {FULL: 300}),
        [0.8, 1.0],
    ),
    Case("S11", NO, "with FCS too", beside("xen", 500, 300, {FULL: 330}), [1.1]),
    Case("S11", NO, "VMXNET 3 of another", beside("kvm-vmxnet3", 504, 300, {FULL: 300}), [1.0]),
    Case("S11", YES, "than a bound", lossless(*beside("kvm", 1004, 600, {FULL: 480})), [0.8]),
    Case("S11", OPEN, "scattered", beside("kvm", 504, 300, {FULL: 285}, spread=0.05)),
    Case("S11", OPEN, "beside it lossless", lossless(*beside("kvm", 504, 300, {FULL: 240}), at=[FULL]), [0.8]),
    Case("S11", OPEN, "alone lossless", lossless(*beside("kvm", 504, 300, {FULL: 300}))),
    Case("S11", NONE, "at half its rate", beside("kvm", 504, 300, {HALF: 300})),
    Case("S11", NONE, "other sizes", beside("kvm", 68, 76, {FULL: 76}) + beside("kvm", 1504, 950, {FULL: 950})),
    Case("S11", NONE, "VMXNET 3 alone", beside("esxi", 504, 1000, {FULL: 1000})),
    Case("S11", NONE, "two that forward", beside("kvm", 504, 300, {replace(FULL, guests=2): 300})),
    Case("S11", NONE, "native alone", beside("native", 504, 1000, {FULL: 1000})),
]


def second(
    label: str, large: tuple[float, float], small: tuple[float, float], condition: Condition = FULL
) -> list[Made]:
    """Into and out of the second guest, Mbit/s (Table 3), where the first one's frames have 1500 bytes, and 64."""
    return [*beside(label, 1504, 1000, {condition: 900}, large), *beside(label, 68, 133, {condition: 100}, small)]


OPENVZ, XEN = ((127.0, 127.0), (124.4, 62.7)), ((72.0, 56.2), (72.0, 47.2))
KVM, VIRTUALBOX = ((72.1, 63.2), (72.1, 64.6)), ((72.1, 42.1), (72.1, 42.4))
S12 = [
    Case(
        "S12",
        YES,
        "as in Table 3, whatever KVM and VirtualBox do",
        [
            *second("netns", *OPENVZ),
            *beside("netns", 504, 900, {FULL: 700}, (125.9, 120)),
            *second("xen", *XEN),
            *second("kvm", *KVM),
            *second("virtualbox", *VIRTUALBOX),
        ],
        [62.7 / 124.4, 47.2 / 56.2],
    ),
    Case(
        "S12",
        NO,
        "Xen loses the same",
        second("netns", *OPENVZ) + second("xen", (72, 56.2), (72, 56.2)),
        [62.7 / 124.4, 1.0],
    ),
    Case("S12", NO, "large ones lose more", second("netns", (127, 60), (127, 120)), [2.0]),
    Case(
        "S12",
        NO,
        "with FCS too",
        beside("netns", 1500, 1000, {FULL: 900}, (127, 127)) + beside("netns", 64, 133, {FULL: 100}, (127, 127)),
        [1.0],
    ),
    Case(
        "S12",
        OPEN,
        "in every second block",
        second("netns", *OPENVZ),
        [(62.7 / 124.4) ** 0.5],
        others=second("netns", (127, 127), (127, 127)),
    ),
    Case("S12", NONE, "KVM and gVisor", second("kvm", *KVM) + second("runsc", *KVM), changed={"runsc": OF_CONTAINERS}),
    Case("S12", NONE, "at half its rate", second("netns", *OPENVZ, condition=HALF)),
    Case("S12", NONE, "one size", beside("netns", 68, 133, {FULL: 100}, (124.4, 62.7))),
    Case("S12", NONE, "busy ones", beside("netns", 68, 133, {HEAVY: 100}) + beside("netns", 1504, 950, {HEAVY: 900})),
    Case("S12", NONE, "two that forward", second("netns", *OPENVZ, condition=replace(FULL, guests=2))),
    Case(
        "S12",
        NONE,
        "one of another platform",
        second("netns", (72, 72), (72, 72), condition=replace(FULL, platform="kvm")),
    ),
]

S13 = [
    Case(
        "S13",
        YES,
        "as in Table 3, whatever others do",
        second("netns", *OPENVZ) + second("kvm", *KVM) + second("runsc", *KVM),
        [62.7 / 124.4],
        changed={"runsc": OF_CONTAINERS},
    ),
    Case("S13", YES, "three tenths", beside("netns", 68, 133, {FULL: 100}, (100, 70)), [0.7]),
    Case("S13", NO, "less than a quarter", beside("netns", 68, 133, {FULL: 100}, (100, 85)), [0.85]),
    Case("S13", NO, "most came through", second("netns", (127, 62.7), (124.4, 118)), [118 / 124.4]),
    Case("S13", NO, "with FCS too", beside("netns", 64, 133, {FULL: 100}, (124.4, 118)), [118 / 124.4]),
    Case(
        "S13",
        OPEN,
        "in every second block",
        second("netns", *OPENVZ),
        [(62.7 / 124.4) ** 0.5],
        others=second("netns", (127, 127), (124.4, 124.4)),
    ),
    Case("S13", NONE, "another family", second("xen", *XEN)),
    Case("S13", NONE, "gVisor alone", second("runsc", *OPENVZ), changed={"runsc": OF_CONTAINERS}),
    Case("S13", NONE, "at half its rate", second("netns", *OPENVZ, condition=HALF)),
    Case("S13", NONE, "two that forward", second("netns", *OPENVZ, condition=replace(FULL, guests=2))),
    Case("S13", NONE, "large ones", beside("netns", 1504, 1000, {FULL: 900}, (127, 62.7))),
    Case(
        "S13", NONE, "one of another platform", beside("netns", 68, 133, {replace(FULL, platform="kvm"): 100}, (72, 30))
    ),
]

CASES = [*S01, *S02, *S03, *S04, *S05, *S06, *S07, *S08, *S09, *S10, *S11, *S12, *S13]
# The first of each claim's cases is one that supports it.
SUPPORTED = {claim: next(one for one in CASES if one.claim == claim) for claim in CLAIMS}


def test_each_claim_has_a_case_for_each_outcome() -> None:
    assert {(one.claim, one.outcome) for one in CASES} == {(claim, outcome) for claim in CLAIMS for outcome in Outcome}
    assert list(CLAIMS) == [f"S{number:02d}" for number in range(1, 14)]
    assert all(one.outcome is YES and one.estimates for one in SUPPORTED.values())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_run_says_of_a_claim_what_was_put_into_it(case: Case) -> None:
    found = judged(case.claim, case.run())
    assert found.outcome is case.outcome
    told = findings(found)
    assert bool(told) != (case.outcome is NONE) or any(one.functional for one in told)
    if case.estimates:
        assert [one.estimate for one in told] == pytest.approx(case.estimates, rel=0.03)
        for one, estimate in zip(told, case.estimates, strict=True):
            if one.interval is not None and one.simultaneous is not None and one.estimate is not None:
                assert one.interval.low <= one.estimate <= one.interval.high
                assert one.simultaneous.low * (1 - FRAME) <= estimate <= one.simultaneous.high * (1 + FRAME)
    for one in told:
        assert one.outcome is not OPEN or one.interval is not None or one.reason


@pytest.mark.parametrize(
    ("claim", "measured", "missing"),
    [
        ("S03", SMALL + native(504, 1000, 2000), ["not measured with sources 3", ""]),
        ("S10", WITHOUT_LIGHT, ["not measured with beside light", ""]),
        (
            "S10",
            WITHOUT_LIGHT + beside("kvm", 68, 75, {LIGHT: 75, HEAVY: 75}),
            ["not measured with beside light on netns", ""],
        ),
    ],
)
def test_without_one_of_the_values_that_must_each_be_measured_it_stays_open(
    claim: str, measured: Sequence[Made], missing: Sequence[str]
) -> None:
    found = judged(claim, Case(claim, OPEN, "", measured).run())
    assert [(one.outcome, one.missing) for one in found.tests] == list(zip([OPEN, YES], missing, strict=True))
    assert {one.outcome for one in findings(found)} == {YES}


@cache
def supported(claim: str) -> RunData:
    """The run that supports a claim."""
    return SUPPORTED[claim].run()


@pytest.mark.parametrize("claim", CLAIMS)
def test_one_block_alone_decides_nothing(claim: str) -> None:
    found = judged(claim, SUPPORTED[claim].run(blocks=1))
    assert found.outcome is OPEN
    for one in findings(found):
        assert (one.outcome, one.interval, one.reason) == (OPEN, None, "one block alone: no interval")


# Claims that are made of the bare host's rates; S03 is of no others.
OF_NATIVE = {"S01", "S02", "S03", "S04", "S06"}
WHO = ["native", "guests"]


def concerns(claim: str, who: str) -> bool:
    """Whether a claim is made of the values of native, or of the guests."""
    return claim in OF_NATIVE if who == "native" else claim != "S03"


def on_cpus_of_others(run: RunData, who: str, forwarding: Forwarding) -> RunData:
    """The same run, where native or all guests forward so."""
    return replace(
        run,
        boots=tuple(
            replace(one, forwarding=forwarding) if (one.platform == "native") == (who == "native") else one
            for one in run.boots
        ),
    )


SENDERS = Forwarding(cpus=None, means=None, reason="this kernel has no threaded NAPI")
KERNELS = Forwarding(cpus=None, means="threaded NAPI", reason="the guest has no CPUs of its own")


@pytest.mark.parametrize(
    ("who", "forwarding", "where"),
    [
        ("native", SENDERS, "the core that sends"),
        ("guests", SENDERS, "the core that sends"),
        ("guests", KERNELS, "CPUs of the kernel's choice"),
    ],
)
@pytest.mark.parametrize("claim", CLAIMS)
def test_rates_that_were_not_forwarded_on_the_guests_cpus_decide_nothing(
    claim: str, who: str, forwarding: Forwarding, where: str
) -> None:
    found = judged(claim, on_cpus_of_others(supported(claim), who, forwarding))
    if not concerns(claim, who):
        assert found.outcome is YES
        return
    assert found.outcome is OPEN
    for one in findings(found):
        assert (one.outcome, one.estimate, one.interval) == (OPEN, None, None)
        assert where in one.reason


def test_rates_that_were_forwarded_on_the_guests_cpus_decide() -> None:
    pinned = Forwarding(cpus=(1,), means="threaded NAPI", reason=None)
    for who in WHO:
        assert judged("S01", on_cpus_of_others(supported("S01"), who, pinned)).outcome is YES


@pytest.mark.parametrize(("means", "outcome", "share"), [("threaded NAPI", YES, 0.475), (None, NO, 0.95)])
def test_what_the_first_interface_refuses_did_not_come_through_where_it_receives_apart(
    means: Literal["threaded NAPI"] | None, outcome: Outcome, share: float
) -> None:
    """As many frames as it took in; else the sender waits for it, and sends them again."""
    run = Case("S08", NO, "", at(68, {"kvm": 570}), generator=OFFERED).run()
    trials = [
        replace(
            trial,
            points=tuple(
                replace(point, sources=tuple(replace(one, refused_frames=one.offered_frames) for one in point.sources))
                for point in trial.points or ()
            ),
        )
        for trial in run.trials
    ]
    forwarding = Forwarding(cpus=(1,), means=means, reason=None)
    found = judged("S08", on_cpus_of_others(replace(run, trials=tuple(trials)), "guests", forwarding))
    assert found.outcome is outcome
    assert [one.estimate for one in findings(found)] == pytest.approx([share], rel=0.03)


def test_one_that_forwards_on_the_senders_core_leaves_others_to_refute() -> None:
    run = Case("S01", NO, "", at(1504, {"native": 1000, "netns": 1000, "kvm": 600})).run()
    boots = [replace(one, forwarding=SENDERS if one.platform == "netns" else None) for one in run.boots]
    found = judged("S01", replace(run, boots=tuple(boots)))
    assert found.outcome is NO
    assert [(one.platform, one.outcome) for one in findings(found)] == [("netns", OPEN), ("kvm", NO)]


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("claim", CLAIMS)
def test_what_is_functional_only_is_shown_and_decides_nothing(claim: str, who: str) -> None:
    case = SUPPORTED[claim]
    labels = {"native"} if who == "native" else PLATFORMS.keys() - {"native"}
    # On the same host: with another one there is no ratio either.
    found = judged(claim, replace(case, changed={label: {"caveat": NESTED["caveat"]} for label in labels}).run())
    if not concerns(claim, who):
        assert found.outcome is YES
        return
    assert found.outcome is NONE
    assert all(one.functional for one in findings(found))
    assert [one.estimate for one in findings(found)] == pytest.approx(case.estimates, rel=0.03)


@pytest.mark.parametrize("claim", CLAIMS)
def test_guests_on_another_host_are_not_set_against_native(claim: str) -> None:
    elsewhere = {label: {"host": "bench@far"} for label in PLATFORMS.keys() - {"native"}}
    found = judged(claim, replace(SUPPORTED[claim], changed=elsewhere).run())
    if claim not in OF_NATIVE - {"S03"}:
        assert found.outcome is YES
        return
    assert found.outcome is OPEN
    for one in findings(found):
        assert one.estimate is None
        assert one.reason.startswith("not comparable: ")


def planned(preset: str, size: str) -> RunData:
    """A run of one block in which each of a preset's routers forwards as much, on each of its platforms."""
    experiment = load_experiment(presets() / f"{preset}.yaml", catalogue(), replace(EVERYTHING, size=size))
    asked = {
        (one.platform.label, one.workload.parameters, one.condition): one
        for one in plan_of(experiment).trials
        if one.workload.workload == "forward" and not one.warm_up
    }
    return made_up_run(
        {
            one.label: {"platform": one.platform, "parameters": one.parameters.model_dump(exclude_unset=True)}
            for one in experiment.platforms
        },
        [
            Made(
                one.platform.label,
                "forward",
                one.workload.parameters.model_dump(mode="json", exclude_unset=True),
                1e5,
                beside=one.condition,
                neighbour=(2e4, 1e4) if one.condition and one.condition.rate_share else None,
            )
            for one in asked.values()
        ],
        blocks=1,
    )


@pytest.mark.parametrize(
    ("preset", "size", "whole", "parts"),
    [
        ("schlosser2011", "quick", "S01 S02 S06 S07 S08", ""),
        ("schlosser2011", "paper", "S01 S02 S03 S04 S05 S06 S07 S08", ""),
        # On other CPUs, and not unpinned.
        ("schlosser2011-neighbours", "quick", "S01 S02 S06 S07 S08 S09 S12 S13", "S10"),
        ("schlosser2011-neighbours", "paper", "S01 S02 S05 S06 S07 S08 S09 S10 S11 S12 S13", ""),
    ],
)
def test_the_papers_presets_measure_what_its_claims_ask_for(preset: str, size: str, whole: str, parts: str) -> None:
    """On their own platforms, were all of them there. Of each claim one preset measures every test."""
    found = {one.claim.id: one for one in judge_claims(analyse(planned(preset, size)), list(CLAIMS.values()))}
    measured = {claim: [test.outcome is not NONE for test in one.tests] for claim, one in found.items()}
    assert [claim for claim, tests in measured.items() if all(tests)] == whole.split()
    assert [claim for claim, tests in measured.items() if any(tests) and not all(tests)] == parts.split()
