"""The claims of Schlosser et al. 2011 on a router alone (Section 4), on made-up runs whose truth is known.

Rates are in Mbit/s on the wire, as the paper has them. 64-byte ones are of its Tables 2 and 3; its figures print none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.support.claim_cases import ClaimCase, cases
from tests.support.made_up_run import Made, made_up_run

from virtoll.claims import Outcome
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.stats.analysis import RunData

ESXI = {"server": "esx", "password_from": "env:ESXI", "datastore": "one", "port_groups": ["in1", "out1"]}
PLATFORMS: dict[str, dict[str, Any]] = {
    "native": {},
    "netns": {},
    "runsc": {},
    "old-runsc": {"platform": "runsc", "family": "os-level"},  # as Virtoll 0.1.0 recorded gVisor
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

SPREAD = 0.01  # of a trial's rate, where a case says nothing else
# As in the preset schlosser2011.
SWEPT = {"sweep": "rates", "rates_mbit_per_second": [10, 40, 100, 400, 1000], "point_milliseconds": 100}


def at(
    size: int,
    *,
    sources: int = 1,
    egress: str = "one",
    flat_out: float | None = None,
    spread: float = SPREAD,
    **rates: float,
) -> list[Made]:
    """Frames of one size, each platform alone: Mbit/s on the wire from all sources; `_` is a label's hyphen.

    `flat_out`: Mbit/s that are left of the largest rate.
    """
    shape = FrameShape(frame_size_bytes=size)
    parameters = {**SWEPT, "frame_size_bytes": size, "sources": sources, "egress": egress}
    left = None if flat_out is None else shape.frames_per_second(flat_out)
    return [
        Made(
            label.replace("_", "-"), "forward", parameters, shape.frames_per_second(rate), flat_out=left, spread=spread
        )
        for label, rate in rates.items()
    ]


def lossless(*measured: Made, at: Sequence[Condition | None] = (None,)) -> list[Made]:
    """The same, where of those under these conditions (None: alone) nothing is lost flat out."""
    return [replace(one, lossless=one.beside in at) for one in measured]


@dataclass(frozen=True)
class Case(ClaimCase):
    """One run and what it says of a claim.

    `estimates`: of all findings in order, what was put in. `others`: what every second block measures instead.
    `generator`: frames/s of generator and sink with nothing between. `changed`: what platforms have besides.
    """

    estimates: Sequence[float] = ()
    blocks: int = 4
    others: Sequence[Made] = ()
    generator: float | None = None
    changed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

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


yes, no, unsure, nothing = (partial(Case, outcome) for outcome in Outcome)


S01 = cases(
    "S01",
    yes("whatever VirtualBox does", at(1504, native=1000, netns=1000, kvm=960, virtualbox=400), [1.0, 0.96]),
    no("one of two", at(1504, native=1000, netns=1000, kvm=600), [1.0, 0.6]),
    no("less than nine tenths", at(1504, native=1000, kvm=830), [0.83]),
    no("with FCS too", at(1500, native=1000, kvm=600), [0.6]),
    no("either size", at(1504, native=1000, kvm=990) + at(1500, native=1000, kvm=600), [0.6, 0.99]),
    no("more than a bound", lossless(*at(1504, native=1000)) + at(1504, kvm=600), [0.6]),
    no("more than the generator", at(1504, native=1000, kvm=600), [0.6], generator=85e3),
    yes("a bound above native", at(1504, native=900) + lossless(*at(1504, kvm=990)), [1.1]),
    unsure("scattered", at(1504, native=1000, netns=900, spread=0.1)),
    unsure("both lossless", lossless(*at(1504, native=1000, netns=1000))),
    unsure("native lossless", lossless(*at(1504, native=1000)) + at(1504, netns=1000)),
    unsure("both at the generator", at(1504, native=1000, netns=1000), generator=85e3),
    unsure("native at the generator", at(1504, native=1000, netns=910), generator=89e3),
    unsure("a bound below native", at(1504, native=1000) + lossless(*at(1504, kvm=600)), [0.6]),
    nothing("VirtualBox alone", at(1504, native=1000, virtualbox=400)),
    nothing("smaller frames", at(504, native=1000, kvm=600)),
    nothing("two sources", at(1504, native=2000, kvm=600, sources=2)),
    nothing("native alone", at(1504, native=1000)),
    no("its only egress link", at(1504, native=1000, kvm=600, egress="each"), [0.6]),
    yes("nested it decides nothing", at(1504, native=1000, netns=1000, kvm=300), changed={"kvm": NESTED}),
    nothing("nested alone", at(1504, native=1000, kvm=1000), changed={"kvm": NESTED}),
)

ROUGHLY_3 = {68: 290, 504: 1000, 1004: 1000, 1504: 1000}  # native from one source, Figure 3 and Table 3


def by_size(label: str, *rates: float, **made: Any) -> list[Made]:
    """One platform at the paper's four sizes."""
    return [one for size, rate in zip(ROUGHLY_3, rates, strict=True) for one in at(size, **{label: rate, **made})]


NATIVE = by_size("native", *ROUGHLY_3.values())
S02 = cases(
    "S02",
    yes("", NATIVE + by_size("kvm", 72.5, 300, 600, 1000), [0.25, 0.25 / 0.3, 0.3 / 0.6, 0.6]),
    no("the same share", NATIVE + by_size("kvm", 145, 500, 500, 500), [1.0, 1.0, 1.0, 1.0]),
    no("large ones lose more", NATIVE + by_size("kvm", 290, 900, 700, 500), [2.0, 10 / 9, 9 / 7, 7 / 5]),
    no("not in order", NATIVE + by_size("kvm", 87, 750, 600, 1000), [0.3, 0.3 / 0.75, 1.25, 0.6]),
    yes("a little less", at(68, native=290, kvm=232) + at(1504, native=1000, kvm=1000), [0.8, 0.8]),
    no("with FCS too", at(64, native=290, kvm=290) + at(1500, native=1000, kvm=1000), [1.0, 1.0]),
    yes(
        "four bytes more or less",
        [
            *at(64, native=290, kvm=72.5),
            *at(68, native=290, kvm=72.5),
            *at(1500, native=1000, kvm=1000),
            *at(1504, native=1000, kvm=1000),
        ],
        [0.25, 1.0, 0.25, 1.0],
    ),
    yes(
        "each source by its own link",
        by_size("native", *ROUGHLY_3.values(), egress="each") + by_size("kvm", 72.5, 300, 600, 1000, egress="each"),
    ),
    unsure("scattered", NATIVE + by_size("kvm", 261, 960, 980, 1000, spread=0.1)),
    unsure(
        "the link is the limit", at(68, native=290, kvm=72.5) + lossless(*at(1504, native=1000, kvm=1000)), [0.25, 0.25]
    ),
    unsure(
        "small ones at the generator",
        at(68, native=290, kvm=285) + at(1504, native=1000, kvm=1000),
        [285 / 290, 285 / 290],
        generator=420e3,
    ),
    yes(
        "native's small ones at the generator",
        at(68, native=290, kvm=145) + at(1504, native=1000, kvm=1000),
        [0.5, 0.5],
        generator=420e3,
    ),
    unsure("native not of all", at(68, kvm=72.5) + at(1504, native=1000, kvm=1000)),
    nothing("one size", at(68, native=290, kvm=72.5)),
    nothing("native alone", NATIVE),
    nothing("three sources", by_size("native", 300, 3000, 3000, 3000, sources=3)),
)


def native(size: int, *rates: float, egress: str = "each", **made: Any) -> list[Made]:
    """The bare host from one source, two and three."""
    return [
        one
        for place, rate in enumerate(rates)
        for one in at(size, native=rate, sources=place + 1, egress=egress, **made)
    ]


SMALL = native(68, 290, 300, 300)  # "the accumulated throughput for two and three traffic generators is the same"
S03 = cases(
    "S03",
    yes("", SMALL + native(504, 1000, 2000, 3000) + native(1504, 1000, 2000, 3000), [1.0, 1.0, 1.0, 1.0, 1.0]),
    yes(
        "one egress link",
        native(68, 290, 300, 300, egress="one") + native(1504, 1000, 2000, 3000, egress="one"),
        [1.0, 1.0, 1.0],
    ),
    no("two and three as one", SMALL + native(1504, 1000, 1000, 1000), [0.5, 1 / 3, 1.0]),
    no("three as two", SMALL + native(504, 1000, 2000, 2000), [1.0, 2 / 3, 1.0]),
    no("small ones too", native(68, 200, 400, 500) + native(1504, 1000, 2000, 3000), [1.0, 1.0, 1.25]),
    yes("whatever is between", SMALL + native(260, 900, 900, 1200) + native(1504, 1000, 2000, 3000), [1.0, 1.0, 1.0]),
    no("large ones alone", native(1504, 1000, 1000, 1000), [0.5, 1 / 3]),
    no("with FCS too", native(64, 200, 400, 600), [1.5]),
    no("to a bound", lossless(*native(1504, 1000)) + native(1504, 0.1, 1000, 1000)[1:], [0.5, 1 / 3]),
    unsure("large ones alone", native(1504, 1000, 2000, 3000), [1.0, 1.0]),
    unsure("small ones alone", SMALL, [1.0]),
    unsure("scattered", SMALL + native(1504, 1000, 1800, 2700, spread=0.1)),
    unsure("the links are the limit", lossless(*SMALL, *native(1504, 1000, 2000, 3000))),
    unsure("the generator is the limit", native(68, 200, 400, 400) + native(1504, 1000, 2000, 2000), generator=170e3),
    unsure(
        "two by one link and three by three",
        at(68, native=300, sources=2) + at(68, native=900, sources=3, egress="each") + native(1504, 1000, 2000, 3000),
    ),
    nothing("one source", native(68, 290) + native(1504, 1000)),
    nothing("guests alone", [one for n in (1, 2, 3) for one in at(1504, kvm=900.0 * n, sources=n)]),
)


three = partial(at, sources=3, egress="each")
"""From three sources, each with an egress link of its own."""


S04 = cases(
    "S04",
    yes(
        "OS-level as native with large ones",
        three(68, native=300, netns=135, kvm=75)
        + three(504, native=3000, netns=1500, kvm=2400)
        + three(1504, native=3000, netns=3000, kvm=2400),
        [0.45, 0.5, 0.25, 0.8, 0.8],
    ),
    no("another with large ones", three(504, native=3000, kvm=600) + three(1504, native=3000, kvm=3000), [0.2, 1.0]),
    no(
        "OS-level with smaller ones",
        three(1004, native=3000, netns=3000, kvm=600) + three(1504, native=3000, kvm=600),
        [1.0, 0.2, 0.2],
    ),
    no(
        "gVisor is no container",
        three(68, native=300, old_runsc=75) + three(1504, native=3000, old_runsc=3000),
        [0.25, 1.0],
    ),
    no("large ones alone", three(1500, native=3000, kvm=3000), [1.0]),
    no("one egress link", at(64, native=300, kvm=300, sources=3), [1.0]),
    no("large ones by one link", at(1504, native=3000, kvm=3000, sources=3), [1.0]),
    unsure("large ones alone", three(1504, native=3000, kvm=1500), [0.5]),
    unsure("OS-level alone", three(68, native=300, netns=135) + three(1504, native=3000, netns=3000), [0.45]),
    unsure("scattered", three(504, native=3000, kvm=2700, spread=0.1) + three(1504, native=3000, kvm=1500)),
    nothing("one source", at(68, native=290, kvm=76) + at(1504, native=1000, kvm=900)),
    nothing("native by one link and the guest by three", at(68, native=300, sources=3) + three(68, kvm=76)),
    nothing("two sources", at(68, native=300, kvm=76, sources=2)),
    nothing("native alone", three(68, native=300) + three(1504, native=3000)),
)

S05 = cases(
    "S05",
    yes(
        "E1000 above another's virtio",
        at(68, esxi=289, esxi_e1000=133, kvm=76) + at(504, esxi=1000, esxi_e1000=800, kvm=300),
        [289 / 133, 1.25],
    ),
    no("one of two products", at(68, esxi=289, esxi_e1000=133, kvm=76, kvm_e1000=95), [289 / 133, 0.8]),
    yes("two emulated ones", at(68, kvm=289, kvm_e1000=133, kvm_rtl8139=40), [289 / 133, 289 / 40]),
    no("with FCS too", at(64, kvm=76, kvm_e1000=95), [0.8]),
    no("500 bytes", at(504, kvm=400, kvm_e1000=800, egress="each"), [0.5]),
    yes("a bound", lossless(*at(68, esxi=289)) + at(68, esxi_e1000=133), [289 / 133]),
    unsure("scattered", at(68, esxi=140, esxi_e1000=133, spread=0.1)),
    unsure("as a bound", at(68, esxi=289) + lossless(*at(68, esxi_e1000=133)), [289 / 133]),
    unsure("below at the generator", at(68, kvm=270, kvm_e1000=289), [270 / 289], generator=412e3),
    nothing("no E1000", at(68, native=290, esxi=289, xen=76)),
    nothing("another product's", at(68, kvm=76, esxi_e1000=133)),
    nothing("another disk too", at(68, kvm=76, kvm_disk_e1000=95)),
    yes("each of its own disk", at(68, kvm=289, kvm_e1000=133, kvm_disk_e1000=300), [289 / 133]),
    no("both disks", at(68, kvm=289, kvm_e1000=133, kvm_disk=76, kvm_disk_e1000=95), [289 / 133, 0.8]),
    nothing("larger frames", at(1004, esxi=1000, esxi_e1000=900)),
)

S06 = cases(
    "S06",
    yes(
        "whatever others do",
        at(68, native=290, netns=133, runsc=320) + at(1504, native=1000, netns=1000, runsc=100),
        [1.0, 133 / 290],
    ),
    yes(
        "from three sources", three(68, native=300, netns=133) + three(1504, native=3000, netns=3000), [1.0, 133 / 300]
    ),
    no("large ones slower", at(68, native=290, netns=133) + at(1504, native=1000, netns=700), [0.7, 133 / 290]),
    no("small ones faster", at(64, native=290, netns=348) + at(1500, native=1000, netns=1000), [1.0, 1.2]),
    yes(
        "a little from two sources",
        at(68, native=300, netns=270, sources=2) + at(1504, native=2000, netns=2000, sources=2),
        [1.0, 0.9],
    ),
    no("two sources", at(1504, native=2000, netns=1000, sources=2), [0.5]),
    no("large ones alone", at(1504, native=1000, netns=700), [0.7]),
    unsure("large ones alone", at(1504, native=1000, netns=1000), [1.0]),
    unsure("small ones alone", at(68, native=290, netns=133), [133 / 290]),
    unsure("scattered", at(68, native=290, netns=285, spread=0.1) + at(1504, native=1000, netns=1000)),
    nothing("another family", at(68, native=290, kvm=76) + at(1504, native=1000, kvm=900)),
    nothing("gVisor alone", at(68, native=290, old_runsc=133) + at(1504, native=1000, old_runsc=1000)),
    nothing("other sizes", at(504, native=1000, netns=800)),
)

S07 = cases(
    "S07",
    yes("whatever others do", at(68, netns=133, flat_out=60) + at(68, runsc=76, kvm=76), [60 / 133]),
    yes("some of it", at(68, netns=133, flat_out=110), [110 / 133]),
    yes("the best at the generator", at(68, netns=290, flat_out=60), [60 / 290], generator=412e3),
    no("it stays", at(68, netns=133), [1.0]),
    no("a little less", at(64, netns=133, flat_out=130, egress="each"), [130 / 133]),
    unsure("in every second block", at(68, netns=133, flat_out=60), [(60 / 133) ** 0.5], others=at(68, netns=133)),
    unsure("nothing lost", lossless(*at(68, netns=133))),
    unsure("nothing lost at the generator", lossless(*at(68, netns=133)), generator=190e3),
    unsure("the sender slowed down", lossless(*at(68, netns=133)), [1.0], generator=852e3),
    nothing("another family", at(68, native=290, kvm=76, flat_out=30)),
    nothing("gVisor alone", at(68, old_runsc=76, flat_out=30)),
    nothing("larger frames", at(504, netns=900, flat_out=300)),
    nothing("three sources", three(68, netns=133, flat_out=60)),
)

OFFERED = FrameShape(frame_size_bytes=68).frames_per_second(600)  # "accept up to 600 Mbit/s input rates"
S08 = cases(
    "S08",
    yes("", at(68, native=600, netns=133, kvm=76), [133 / 600, 76 / 600], generator=OFFERED),
    no("one of two", at(68, netns=133, kvm=570), [133 / 600, 0.95], generator=OFFERED),
    no("the sender slowed down", lossless(*at(68, kvm=76, egress="each")), [1.0], generator=OFFERED),
    no("with FCS too", at(64, kvm=570), [0.95], generator=600e6 / 8 / 84),
    unsure("scattered", at(68, kvm=540, spread=0.1), generator=OFFERED),
    unsure("nothing lost", lossless(*at(68, kvm=76))),
    unsure("nothing lost at the generator", lossless(*at(68, kvm=580)), generator=OFFERED),
    nothing("native alone", at(68, native=290)),
    nothing("larger frames", at(504, native=1000, kvm=300)),
    nothing("three sources", three(68, kvm=76)),
)

CASES_ALONE = [*S01, *S02, *S03, *S04, *S05, *S06, *S07, *S08]
