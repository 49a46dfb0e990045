"""The claims of Mattos et al. 2012 on made-up runs whose truth is known.

A case says in the paper's units what each platform measured, and which ratios (or values) the ledger must find in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.support.claim_cases import NO, NONE, OPEN, YES, ClaimCase, cases
from tests.support.made_up_run import Made

from virtoll.claims import Outcome
from virtoll.experiment.topology import FUNCTIONAL_ONLY

_ROUTED, _FUNCTIONS = {"attachment": "routed"}, ["0000:01:10.0", "0000:01:10.1"]
PLATFORMS: dict[str, dict[str, Any]] = {
    **{label: {} for label in ("native", "native-again", "runc", "openvz", "runsc", "uml", "qemu-tcg", "qemu-kvm")},
    "xen": {"parameters": {"type": "pv"}},
    "xen-routed": {"platform": "xen", "parameters": {"type": "pv", **_ROUTED}},
    "xen-hvm": {"platform": "xen", "parameters": {"type": "hvm"}},
    "xen-hvm-routed": {"platform": "xen", "parameters": {"type": "hvm", **_ROUTED}},
    "xen-sriov": {"platform": "xen", "parameters": {"attachment": "passthrough", "vfio": _FUNCTIONS}},
    "xen-nested": {"platform": "xen", "host": "nested xen", "caveat": FUNCTIONAL_ONLY},
    "runc-routed": {"platform": "runc", "parameters": _ROUTED},
    "openvz-routed": {"platform": "openvz", "parameters": _ROUTED},
    "runsc-routed": {"platform": "runsc", "parameters": _ROUTED},
    "qemu-kvm-e1000": {"platform": "qemu-kvm", "parameters": {"nic": "e1000"}},
}

# The parameters of the preset mattos2012, size paper.
PI, MEMORY = {"digits": 4194304}, {"size_bytes": "2GiB"}
BONNIE, ZFG = {"file_bytes": "6GiB", "small_files": 16384, "per_character": True}, {"size_bytes": "2GiB", "rounds": 10}
FRAMES = {"frame_size_bytes": 64, "point_milliseconds": 1000}
SPREAD = 0.01  # of a trial, where a case says nothing else
Measured = tuple[Made, ...]
Expected = Mapping[str, float | tuple[float, ...]]


def each(
    workload: str,
    parameters: Mapping[str, Any],
    values: Mapping[str, float] | None = None,
    *,
    unit: float = 1.0,
    spread: float = SPREAD,
    clock_error: float = 0.0,
    lossless: bool = False,
    **others: float,
) -> Measured:
    """A workload on several platforms, in the workload's unit or `unit` of them; `_` is a label's hyphen."""
    more: dict[str, Any] = {"spread": spread, "clock_error": clock_error, "lossless": lossless}
    return tuple(
        Made(label.replace("_", "-"), workload, parameters, value=value * unit, **more)
        for label, value in {**(values or {}), **others}.items()
    )


timed = partial(each, unit=1e9)
"""The same of a job, in seconds."""


@dataclass(frozen=True)
class Case(ClaimCase):
    """A run and what a claim's tests find in it.

    `found`: for each test the ratios, or the values, by platform; () of a platform that is shown without a ratio; none
    of a run that has nothing for any test. `limit`: what the generator
    reaches with nothing between, frames/s. `tests`: the outcome of each test; (): that of the claim, or of another
    case. `lacks`: which of the values that must each be measured was not, where a test stays open for that alone.
    """

    found: Sequence[Expected] = ()
    limit: float | None = None
    blocks: int = 5
    tests: tuple[Outcome, ...] = ()
    lacks: str = ""


yes, no, unsure, nothing = (partial(Case, outcome) for outcome in Outcome)


def clocks(**errors: float) -> Measured:
    """Two jobs of different lengths on guests whose clocks are wrong by so much; `_` is a label's hyphen."""
    jobs = (("superpi", {"digits": 65536}, 0.5), ("masr", {"size_bytes": "64MiB"}, 2.0))
    return tuple(
        Made(label.replace("_", "-"), workload, parameters, seconds * 1e9, clock_error=error, spread=0.02)
        for label, error in {"native": 0.0, **errors}.items()
        for workload, parameters, seconds in jobs
    )


M01 = cases(
    "M01",
    yes("one is enough", clocks(runc=0.0, qemu_tcg=0.02), [{"runc": 0.0, "qemu-tcg": 0.02}]),
    yes("slow", clocks(qemu_tcg=-0.02), [{"qemu-tcg": 0.02}]),
    no("", clocks(runc=0.0, xen=0.001), [{"runc": 0.0, "xen": 0.001}]),
    no("native is none", clocks(native=0.03, runc=0.0), [{"runc": 0.0}]),
    no("nested", clocks(runc=0.0, xen_nested=0.05), [{"runc": 0.0, "xen-nested": 0.05}]),
    unsure("at the bound", clocks(runc=0.0, uml=0.01), [{"runc": 0.0, "uml": 0.01}]),
    unsure(
        "one length of job has no slope",
        timed("superpi", PI, native=100, runc=100, clock_error=0.02, spread=0.0),
        [{"runc": ()}],
    ),
    nothing("no job has marks", each("forward", FRAMES, native=750e3, xen=150e3)),
    nothing("nested alone", clocks(xen_nested=0.05), [{"xen-nested": 0.05}]),
)

_AS_IN_THE_PAPER = {"native": 100, "native-again": 100, "xen": 102, "openvz": 105, "runsc": 106, "qemu-kvm": 130}
M02 = cases(
    "M02",
    yes(
        "",
        timed("superpi", PI, _AS_IN_THE_PAPER, spread=0.002),
        [
            {"xen": 1 / 1.02, "openvz": 1 / 1.05, "runsc": 1 / 1.06, "qemu-kvm": 1 / 1.3},
            {"xen": (105 / 102, 106 / 102, 130 / 102)},
            {"qemu-kvm": (102 / 130, 105 / 130, 106 / 130)},
        ],
    ),
    no(
        "by both orders",
        timed("superpi", PI, native=100, xen=115, runc=101, qemu_kvm=104, spread=0.002),
        [
            {"xen": 1 / 1.15, "runc": 1 / 1.01, "qemu-kvm": 1 / 1.04},
            {"xen": (101 / 115, 104 / 115)},
            {"qemu-kvm": (115 / 104, 101 / 104)},
        ],
        tests=(YES, NO, NO),
    ),
    no(
        "by one faster than native",
        timed("superpi", PI, native=100, runc=95, spread=0.002),
        [{"runc": 100 / 95}, {}, {}],
        tests=(NO, NONE, NONE),
    ),
    unsure(
        "noise",
        timed("superpi", PI, native=100, xen=102, openvz=105, qemu_kvm=108, spread=0.05),
        [
            {"xen": 1 / 1.02, "openvz": 1 / 1.05, "qemu-kvm": 1 / 1.08},
            {"xen": (105 / 102, 108 / 102)},
            {"qemu-kvm": (102 / 108, 105 / 108)},
        ],
    ),
    unsure(
        "without a para-virtualised one",
        timed("superpi", PI, native=100, runc=104, uml=130, qemu_tcg=900),
        [{"runc": 1 / 1.04, "uml": 1 / 1.3, "qemu-tcg": 1 / 9}, {}, {"qemu-tcg": (104 / 900, 130 / 900)}],
        tests=(YES, NONE, YES),
    ),
    nothing("", timed("masr", MEMORY, native=2, xen=2.2, runc=2, qemu_kvm=3)),
)

M03 = cases(
    "M03",
    yes(
        "gVisor is no container",
        timed("masr", MEMORY, native=2.0, openvz=2.02, xen=2.2, runsc=2.5, qemu_kvm=3.0, qemu_tcg=9.0),
        [{"openvz": 2 / 2.02}, {"qemu-kvm": (2.02 / 3, 2.2 / 3, 2.5 / 3), "qemu-tcg": (2.02 / 9, 2.2 / 9, 2.5 / 9)}],
    ),
    no(
        "by a slow container",
        timed("masr", MEMORY, native=2.0, openvz=2.6, qemu_kvm=3.0),
        [{"openvz": 2 / 2.6}, {"qemu-kvm": 2.6 / 3}],
        tests=(NO, YES),
    ),
    no(
        "by Xen that is slower",
        timed("masr", MEMORY, native=2.0, runc=2.0, xen=2.6, qemu_tcg=2.2),
        [{"runc": 1.0}, {"qemu-tcg": (2.0 / 2.2, 2.6 / 2.2)}],
        tests=(YES, NO),
    ),
    unsure(
        "noise",
        timed("masr", MEMORY, native=2.0, runc=2.15, qemu_kvm=2.2, spread=0.1),
        [{"runc": 2 / 2.15}, {"qemu-kvm": 2.15 / 2.2}],
        blocks=3,
    ),
    unsure(
        "a container alone", timed("masr", MEMORY, native=2.0, runc=2.02), [{"runc": 2 / 2.02}, {}], tests=(YES, NONE)
    ),
    no("by a container alone", timed("masr", MEMORY, native=2.0, runc=2.6), [{"runc": 2 / 2.6}, {}], tests=(NO, NONE)),
    nothing("", timed("superpi", PI, native=100, runc=101, qemu_kvm=130)),
    nothing("other kinds", timed("masr", MEMORY, native=2.0, runsc=4.0, uml=9.0)),
)


def disk(bonnie: Mapping[str, float], zfg: Mapping[str, float], **more: Any) -> Measured:
    """Both benchmarks of the disk, in seconds."""
    return timed("bonnie", BONNIE, bonnie, **more) + timed("zfg", ZFG, zfg, **more)


_BONNIE = {"native": 300, "openvz": 306, "runsc": 600, "xen": 420, "qemu-kvm": 400, "qemu-tcg": 450}
_ZFG = {"native": 200, "openvz": 208, "runsc": 900, "xen": 600, "qemu-kvm": 500, "qemu-tcg": 700}
M04 = cases(
    "M04",
    yes(
        "gVisor is no container",
        disk(_BONNIE, _ZFG),
        [
            {"openvz": 300 / 306},
            {"openvz": 200 / 208},
            {"xen": 300 / 420, "qemu-kvm": 300 / 400, "qemu-tcg": 300 / 450},
            {"xen": 200 / 600, "qemu-kvm": 200 / 500, "qemu-tcg": 200 / 700},
        ],
    ),
    no(
        "by a virtual disk as fast as native",
        disk({"native": 300, "openvz": 306, "qemu-kvm": 310}, {"native": 200, "openvz": 208, "qemu-kvm": 500}),
        [{"openvz": 300 / 306}, {"openvz": 200 / 208}, {"qemu-kvm": 300 / 310}, {"qemu-kvm": 200 / 500}],
        tests=(YES, YES, NO, YES),
    ),
    no(
        "by a slow container",
        disk({"native": 300, "openvz": 306, "xen": 420}, {"native": 200, "openvz": 300, "xen": 600}),
        [{"openvz": 300 / 306}, {"openvz": 200 / 300}, {"xen": 300 / 420}, {"xen": 200 / 600}],
        tests=(YES, NO, YES, YES),
    ),
    unsure(
        "noise",
        disk({"native": 300, "openvz": 320, "xen": 370}, {"native": 200, "openvz": 215, "xen": 245}, spread=0.1),
        [{"openvz": 300 / 320}, {"openvz": 200 / 215}, {"xen": 300 / 370}, {"xen": 200 / 245}],
        tests=(OPEN,) * 4,
    ),
    unsure(
        "without a container",
        disk({"native": 300, "xen": 420}, {"native": 200, "xen": 600}),
        [{}, {}, {"xen": 300 / 420}, {"xen": 200 / 600}],
        tests=(NONE, NONE, YES, YES),
    ),
    unsure(
        "Bonnie alone",
        disk({"native": 300, "openvz": 306, "xen": 420}, {}),
        [{"openvz": 300 / 306}, {}, {"xen": 300 / 420}, {}],
        tests=(YES, NONE, YES, NONE),
    ),
    unsure(
        "native with ZFG alone",
        disk({"openvz": 306, "xen": 420}, {"native": 200, "openvz": 208, "xen": 600}),
        [{}, {"openvz": 200 / 208}, {}, {"xen": 200 / 600}],
        tests=(NONE, YES, NONE, YES),
    ),
    no(
        "by a container with Bonnie alone",
        disk({"native": 300, "openvz": 500}, {}),
        [{"openvz": 300 / 500}, {}, {}, {}],
        tests=(NO, NONE, NONE, NONE),
    ),
    yes(
        "nested",
        disk(
            {"native": 300, "runc": 306, "xen": 420, "xen-nested": 150},
            {"native": 200, "runc": 208, "xen": 600, "xen-nested": 100},
        ),
        [
            {"runc": 300 / 306},
            {"runc": 200 / 208},
            {"xen": 300 / 420, "xen-nested": 300 / 150},
            {"xen": 200 / 600, "xen-nested": 200 / 100},
        ],
    ),
    nothing("nested alone", disk({"native": 300, "xen-nested": 420}, {}), [{}, {}, {"xen-nested": 300 / 420}, {}]),
    nothing("other kinds", disk({"native": 300, "runsc": 600}, {"native": 200, "uml": 700})),
    nothing("", timed("masr", MEMORY, native=2, openvz=2, xen=3)),
)

M05 = cases(
    "M05",
    yes(
        "containers are none",
        disk(_BONNIE | {"openvz": 200}, _ZFG),
        [{"xen": 0.333 / 0.714, "qemu-kvm": 0.4 / 0.75, "qemu-tcg": 0.286 / 0.667}],
    ),
    no(
        "",
        disk({"native": 300, "xen": 600, "qemu-kvm": 400}, {"native": 200, "xen": 210, "qemu-kvm": 500}),
        [{"xen": 0.952 / 0.5, "qemu-kvm": 0.4 / 0.75}],
    ),
    unsure(
        "noise",
        disk({"native": 300, "qemu-kvm": 400}, {"native": 200, "qemu-kvm": 275}, spread=0.1),
        [{"qemu-kvm": 0.727 / 0.75}],
    ),
    unsure("native lacks one", disk({"qemu-kvm": 400}, {"native": 200, "qemu-kvm": 500}), [{"qemu-kvm": ()}]),
    nothing("ZFG alone", timed("zfg", ZFG, native=200, xen=600, qemu_kvm=500)),
    nothing("Bonnie alone", timed("bonnie", BONNIE, native=300, xen=600)),
    nothing("containers", disk({"native": 300, "openvz": 306}, {"native": 200, "openvz": 500})),
)

CASES_ON_A_HOST = [*M01, *M02, *M03, *M04, *M05]
