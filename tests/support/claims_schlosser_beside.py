"""The claims of Schlosser et al. 2011 on a router with another guest next to it (Section 5), on made-up runs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.support.claim_cases import cases
from tests.support.claims_schlosser import at, lossless, no, nothing, unsure, yes
from tests.support.made_up_run import Made

from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.frame_shape import FrameShape

# As in the preset schlosser2011-neighbours.
BESIDE = {"sweep": "from-flat-out", "point_milliseconds": 1000, "cpu_milliseconds": 0}
IDLE = Condition("idle", affinity="apart")
LIGHT, HEAVY = Condition("light", affinity="apart"), Condition("heavy", affinity="apart")
UNPINNED, LIGHT_UNPINNED = (replace(one, affinity="unpinned") for one in (HEAVY, LIGHT))
FLOOD = Condition("network-flood", affinity="apart", rate_share=0.95)
HALF, FULL = (Condition("forward", affinity="apart", rate_share=share) for share in (0.5, 0.95))


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


S09 = cases(
    "S09",
    yes(
        "whatever a busy one does",
        beside("netns", 68, 133, {IDLE: 133, HEAVY: 60}) + beside("kvm", 1504, 950, {IDLE: 940}),
        [1.0, 940 / 950],
    ),
    no("slower", beside("kvm", 68, 75, {IDLE: 60}) + beside("netns", 68, 133, {IDLE: 133}), [0.8, 1.0]),
    no("faster", beside("kvm", 504, 300, {IDLE: 390}), [1.3]),
    no("on the same CPU", beside("kvm", 68, 75, {Condition("idle"): 60}), [0.8]),
    no("than a bound", lossless(*beside("kvm", 68, 75, {IDLE: 60})), [0.8]),
    unsure("scattered", beside("kvm", 68, 76, {IDLE: 72.2}, spread=0.05)),
    unsure("alone lossless", lossless(*beside("kvm", 68, 75, {IDLE: 75}))),
    unsure("beside it lossless", lossless(*beside("kvm", 68, 75, {IDLE: 60}), at=[IDLE]), [0.8]),
    unsure("at the generator", beside("kvm", 68, 290, {IDLE: 290}), generator=412e3),
    nothing("busy ones", beside("kvm", 68, 76, {LIGHT: 76, HEAVY: 76})),
    nothing("nothing beside", at(68, native=290, kvm=76)),
    nothing("native alone", beside("native", 68, 290, {IDLE: 200})),
    nothing("three idle ones", beside("kvm", 68, 75, {replace(IDLE, guests=3): 60})),
    nothing("one of another platform", beside("kvm", 68, 75, {replace(IDLE, platform="netns"): 60})),
)

# Table 1: of OpenVZ, under heavy load, 18.2 % less at 64 bytes, 11.4 % at 500, nothing at 1000.
CONTAINER = [
    *beside("netns", 68, 133, {LIGHT: 133, HEAVY: 133, UNPINNED: 109, LIGHT_UNPINNED: 134}, spread=0.003),
    *beside("netns", 504, 900, {HEAVY: 900, UNPINNED: 900 * 0.886}, spread=0.003),
    *beside("netns", 1004, 1000, {HEAVY: 1000, UNPINNED: 1000}, spread=0.003),
]
WITHOUT_LIGHT = [one for one in CONTAINER if one.beside != LIGHT]
S10 = cases(
    "S10",
    yes(
        "as in Table 1",
        CONTAINER + beside("xen", 68, 76, {LIGHT: 76 * 1.068, HEAVY: 76 * 1.079}, spread=0.003),
        [1.0, 1.0, 1.0, 1.0, 1.079, 1.068, 0.82, 0.886],
    ),
    yes(
        "whatever others do unpinned",
        CONTAINER
        + beside("kvm", 68, 76, {LIGHT: 76, HEAVY: 76, UNPINNED: 30}, spread=0.003)
        + beside("old-runsc", 68, 76, {UNPINNED: 76}),
    ),
    no("on other CPUs", CONTAINER + beside("kvm", 68, 75, {LIGHT: 75, HEAVY: 60})),
    no("faster on other CPUs", beside("kvm", 1504, 500, {LIGHT: 600}), [1.2]),
    no(
        "unpinned as alone",
        beside("netns", 68, 133, {HEAVY: 133, UNPINNED: 133}) + beside("netns", 504, 900, {UNPINNED: 700}),
        [1.0, 1.0, 7 / 9],
    ),
    no("with FCS too", beside("netns", 64, 133, {UNPINNED: 133}), [1.0]),
    unsure("without the light load", WITHOUT_LIGHT),
    unsure("without it on one platform", WITHOUT_LIGHT + beside("kvm", 68, 75, {LIGHT: 75, HEAVY: 75})),
    unsure("pinned alone", beside("kvm", 68, 76, {LIGHT: 76, HEAVY: 76}), [1.0, 1.0]),
    unsure("unpinned alone", beside("netns", 68, 133, {UNPINNED: 100}), [100 / 133]),
    unsure("scattered", CONTAINER + beside("kvm", 68, 75, {LIGHT: 75, HEAVY: 68}, spread=0.05)),
    nothing("on the same CPU", beside("netns", 68, 133, {Condition("heavy"): 66})),
    nothing("an idle one", beside("netns", 68, 133, {IDLE: 133})),
    nothing("nothing beside", at(68, native=290, netns=133)),
    nothing("two busy ones", beside("netns", 68, 133, {replace(HEAVY, guests=2): 66, replace(UNPINNED, guests=2): 66})),
)

S11 = cases(
    "S11",
    yes(
        "whatever VMXNET 3 of VMware does",
        beside("netns", 504, 900, {FULL: 720}) + beside("esxi", 504, 1000, {FULL: 1000}),
        [0.8],
    ),
    yes(
        "whatever other sizes and loads do",
        beside("kvm", 1004, 600, {HALF: 600, FLOOD: 600, FULL: 480})
        + beside("kvm", 1504, 950, {FULL: 950})
        + beside("kvm", 260, 180, {FULL: 180}),
        [0.8],
    ),
    no("one of two", beside("netns", 504, 900, {FULL: 720}) + beside("kvm", 504, 300, {FULL: 300}), [0.8, 1.0]),
    no("with FCS too", beside("xen", 500, 300, {FULL: 330}), [1.1]),
    no("VMXNET 3 of another", beside("kvm-vmxnet3", 504, 300, {FULL: 300}), [1.0]),
    unsure("scattered", beside("kvm", 504, 300, {FULL: 285}, spread=0.05)),
    nothing("at half its rate", beside("kvm", 504, 300, {HALF: 300})),
    nothing("other sizes", beside("kvm", 68, 76, {FULL: 76}) + beside("kvm", 1504, 950, {FULL: 950})),
    nothing("VMXNET 3 alone", beside("esxi", 504, 1000, {FULL: 1000})),
    nothing("two that forward", beside("kvm", 504, 300, {replace(FULL, guests=2): 300})),
    nothing("native alone", beside("native", 504, 1000, {FULL: 1000})),
)


def second(
    label: str, large: tuple[float, float], small: tuple[float, float], condition: Condition = FULL
) -> list[Made]:
    """Into and out of the second guest, Mbit/s (Table 3), where the first one's frames have 1500 bytes, and 64."""
    return [*beside(label, 1504, 1000, {condition: 900}, large), *beside(label, 68, 133, {condition: 100}, small)]


OPENVZ, XEN = ((127.0, 127.0), (124.4, 62.7)), ((72.0, 56.2), (72.0, 47.2))
KVM, VIRTUALBOX = ((72.1, 63.2), (72.1, 64.6)), ((72.1, 42.1), (72.1, 42.4))
S12 = cases(
    "S12",
    yes(
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
    no("Xen loses the same", second("netns", *OPENVZ) + second("xen", (72, 56.2), (72, 56.2)), [62.7 / 124.4, 1.0]),
    no("large ones lose more", second("netns", (127, 60), (127, 120)), [2.0]),
    no(
        "with FCS too",
        beside("netns", 1500, 1000, {FULL: 900}, (127, 127)) + beside("netns", 64, 133, {FULL: 100}, (127, 127)),
        [1.0],
    ),
    unsure(
        "in every second block",
        second("netns", *OPENVZ),
        [(62.7 / 124.4) ** 0.5],
        others=second("netns", (127, 127), (127, 127)),
    ),
    nothing("KVM and gVisor", second("kvm", *KVM) + second("old-runsc", *KVM)),
    nothing("at half its rate", second("netns", *OPENVZ, condition=HALF)),
    nothing("one size", beside("netns", 68, 133, {FULL: 100}, (124.4, 62.7))),
    nothing("busy ones", beside("netns", 68, 133, {HEAVY: 100}) + beside("netns", 1504, 950, {HEAVY: 900})),
    nothing("two that forward", second("netns", *OPENVZ, condition=replace(FULL, guests=2))),
    nothing("one of another platform", second("netns", (72, 72), (72, 72), condition=replace(FULL, platform="kvm"))),
)

S13 = cases(
    "S13",
    yes(
        "as in Table 3, whatever others do",
        second("netns", *OPENVZ) + second("kvm", *KVM) + second("old-runsc", *KVM),
        [62.7 / 124.4],
    ),
    yes("three tenths", beside("netns", 68, 133, {FULL: 100}, (100, 70)), [0.7]),
    no("less than a quarter", beside("netns", 68, 133, {FULL: 100}, (100, 85)), [0.85]),
    no("most came through", second("netns", (127, 62.7), (124.4, 118)), [118 / 124.4]),
    no("with FCS too", beside("netns", 64, 133, {FULL: 100}, (124.4, 118)), [118 / 124.4]),
    unsure(
        "in every second block",
        second("netns", *OPENVZ),
        [(62.7 / 124.4) ** 0.5],
        others=second("netns", (127, 127), (124.4, 124.4)),
    ),
    nothing("another family", second("xen", *XEN)),
    nothing("gVisor alone", second("old-runsc", *OPENVZ)),
    nothing("at half its rate", second("netns", *OPENVZ, condition=HALF)),
    nothing("two that forward", second("netns", *OPENVZ, condition=replace(FULL, guests=2))),
    nothing("large ones", beside("netns", 1504, 1000, {FULL: 900}, (127, 62.7))),
    nothing("one of another platform", beside("netns", 68, 133, {replace(FULL, platform="kvm"): 100}, (72, 30))),
)

CASES_BESIDE = [*S09, *S10, *S11, *S12, *S13]
