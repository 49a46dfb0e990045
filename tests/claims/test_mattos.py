"""Mattos et al. 2012: each claim against made-up runs whose truth is known, and against what the paper's presets plan.

A case says in the paper's units what each platform measured, and which ratios (or values) the ledger must find in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from tests.support.made_up_run import Made, made_up_run

from virtoll.campaign.preview import catalogue, plan_of
from virtoll.claims import Finding, Judged, JudgedTest, Outcome, judge_claims, published_claims
from virtoll.claims.ratios import Ratios
from virtoll.experiment.model import Experiment
from virtoll.experiment.parse import find_experiment, load_experiment
from virtoll.experiment.selection import Selection
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.stats.analysis import analyse

SUPPORTED, REFUTED, NOT_DECIDED, NOT_MEASURED = Outcome
CLAIMS = {one.id: one for one in published_claims() if one.paper == "mattos2012"}

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
GIGABIT = {"rate_bits_per_second": 957087379, "datagrams": 812744}
FRAMES = {"frame_size_bytes": 64, "point_milliseconds": 1000}
SENDERS = {"nic": "shared", "link_rate_bits_per_second": 1000000000, "duration_milliseconds": 10000}
ROUTERS = {"total_rate_frames_per_second": 130000, "point_milliseconds": 1000}
Measured = tuple[Made, ...]
Expected = Mapping[str, tuple[float, ...]]


def each(workload: str, parameters: Mapping[str, Any], values: Mapping[str, float], **more: Any) -> Measured:
    """A workload on several platforms, by label what each has: rates in the workload's unit."""
    return tuple(Made(label, workload, parameters, value=value, **more) for label, value in values.items())


def timed(workload: str, parameters: Mapping[str, Any], seconds: Mapping[str, float], **more: Any) -> Measured:
    """The same of a job, in seconds."""
    return each(workload, parameters, {label: value * 1e9 for label, value in seconds.items()}, **more)


@dataclass(frozen=True)
class Case:
    """A run and what a claim's tests find in it.

    `found`: for each test the ratios, or the values, by platform; none of a platform that is shown without a ratio.
    `why`: what tells it from others of its outcome. `limit`: what the generator reaches with nothing between, frames/s.
    `tests`: what is said of each test; (): as of the claim, or told by another case. `lacks`: which of the values that
    must each be measured was not, where a test stays open for that alone.
    """

    claim: str
    outcome: Outcome
    measured: Measured
    found: tuple[Expected, ...]
    why: str = ""
    limit: float | None = None
    blocks: int = 5
    tests: tuple[Outcome, ...] = ()
    lacks: str = ""

    @property
    def name(self) -> str:
        """Such as M02-refuted-by-a-part."""
        return "-".join([self.claim, *self.outcome.value.split(), *self.why.split()])


def clocks(**errors: float) -> Measured:
    """Two jobs of different lengths on guests whose clocks are wrong by so much; `_` is a label's hyphen."""
    jobs = (("superpi", {"digits": 65536}, 0.5), ("masr", {"size_bytes": "64MiB"}, 2.0))
    return tuple(
        Made(label.replace("_", "-"), workload, parameters, seconds * 1e9, clock_error=error, spread=0.02)
        for label, error in {"native": 0.0, **errors}.items()
        for workload, parameters, seconds in jobs
    )


M01 = [
    Case("M01", SUPPORTED, clocks(runc=0.0, qemu_tcg=0.02), ({"runc": (0.0,), "qemu-tcg": (0.02,)},), "one is enough"),
    Case("M01", SUPPORTED, clocks(qemu_tcg=-0.02), ({"qemu-tcg": (0.02,)},), "slow"),
    Case("M01", REFUTED, clocks(runc=0.0, xen=0.001), ({"runc": (0.0,), "xen": (0.001,)},)),
    Case("M01", REFUTED, clocks(native=0.03, runc=0.0), ({"runc": (0.0,)},), "native is none"),
    Case("M01", REFUTED, clocks(runc=0.0, xen_nested=0.05), ({"runc": (0.0,), "xen-nested": (0.05,)},), "nested"),
    Case("M01", NOT_DECIDED, clocks(runc=0.0, uml=0.01), ({"runc": (0.0,), "uml": (0.01,)},), "at the bound"),
    Case(
        "M01",
        NOT_DECIDED,
        timed("superpi", PI, {"native": 100, "runc": 100}, clock_error=0.02, spread=0.0),
        ({"runc": ()},),
        "one length of job has no slope",
    ),
    Case("M01", NOT_MEASURED, each("forward", FRAMES, {"native": 750e3, "xen": 150e3}), ({},), "no job has marks"),
    Case("M01", NOT_MEASURED, clocks(xen_nested=0.05), ({"xen-nested": (0.05,)},), "nested alone"),
]

_AS_IN_THE_PAPER = {"native": 100, "native-again": 100, "xen": 102, "openvz": 105, "runsc": 106, "qemu-kvm": 130}
M02 = [
    Case(
        "M02",
        SUPPORTED,
        timed("superpi", PI, _AS_IN_THE_PAPER, spread=0.002),
        (
            {"xen": (1 / 1.02,), "openvz": (1 / 1.05,), "runsc": (1 / 1.06,), "qemu-kvm": (1 / 1.3,)},
            {"xen": (105 / 102, 106 / 102, 130 / 102)},
            {"qemu-kvm": (102 / 130, 105 / 130, 106 / 130)},
        ),
    ),
    Case(
        "M02",
        REFUTED,
        timed("superpi", PI, {"native": 100, "xen": 115, "runc": 101, "qemu-kvm": 104}, spread=0.002),
        (
            {"xen": (1 / 1.15,), "runc": (1 / 1.01,), "qemu-kvm": (1 / 1.04,)},
            {"xen": (101 / 115, 104 / 115)},
            {"qemu-kvm": (115 / 104, 101 / 104)},
        ),
        "by both orders",
        tests=(SUPPORTED, REFUTED, REFUTED),
    ),
    Case(
        "M02",
        REFUTED,
        timed("superpi", PI, {"native": 100, "runc": 95}, spread=0.002),
        ({"runc": (100 / 95,)}, {}, {}),
        "by one faster than native",
        tests=(REFUTED, NOT_MEASURED, NOT_MEASURED),
    ),
    Case(
        "M02",
        NOT_DECIDED,
        timed("superpi", PI, {"native": 100, "xen": 102, "openvz": 105, "qemu-kvm": 108}, spread=0.05),
        (
            {"xen": (1 / 1.02,), "openvz": (1 / 1.05,), "qemu-kvm": (1 / 1.08,)},
            {"xen": (105 / 102, 108 / 102)},
            {"qemu-kvm": (102 / 108, 105 / 108)},
        ),
        "noise",
    ),
    Case(
        "M02",
        NOT_DECIDED,
        timed("superpi", PI, {"native": 100, "runc": 104, "uml": 130, "qemu-tcg": 900}),
        ({"runc": (1 / 1.04,), "uml": (1 / 1.3,), "qemu-tcg": (1 / 9,)}, {}, {"qemu-tcg": (104 / 900, 130 / 900)}),
        "without a para-virtualised one",
        tests=(SUPPORTED, NOT_MEASURED, SUPPORTED),
    ),
    Case("M02", NOT_MEASURED, timed("masr", MEMORY, {"native": 2, "xen": 2.2, "runc": 2, "qemu-kvm": 3}), ({},) * 3),
]

M03 = [
    Case(
        "M03",
        SUPPORTED,
        timed(
            "masr", MEMORY, {"native": 2.0, "openvz": 2.02, "xen": 2.2, "runsc": 2.5, "qemu-kvm": 3.0, "qemu-tcg": 9.0}
        ),
        ({"openvz": (2 / 2.02,)}, {"qemu-kvm": (2.02 / 3, 2.2 / 3, 2.5 / 3), "qemu-tcg": (2.02 / 9, 2.2 / 9, 2.5 / 9)}),
        "gVisor is no container",
    ),
    Case(
        "M03",
        REFUTED,
        timed("masr", MEMORY, {"native": 2.0, "openvz": 2.6, "qemu-kvm": 3.0}),
        ({"openvz": (2 / 2.6,)}, {"qemu-kvm": (2.6 / 3,)}),
        "by a slow container",
        tests=(REFUTED, SUPPORTED),
    ),
    Case(
        "M03",
        REFUTED,
        timed("masr", MEMORY, {"native": 2.0, "runc": 2.0, "xen": 2.6, "qemu-tcg": 2.2}),
        ({"runc": (1.0,)}, {"qemu-tcg": (2.0 / 2.2, 2.6 / 2.2)}),
        "by Xen that is slower",
        tests=(SUPPORTED, REFUTED),
    ),
    Case(
        "M03",
        NOT_DECIDED,
        timed("masr", MEMORY, {"native": 2.0, "runc": 2.15, "qemu-kvm": 2.2}, spread=0.1),
        ({"runc": (2 / 2.15,)}, {"qemu-kvm": (2.15 / 2.2,)}),
        "noise",
        blocks=3,
    ),
    Case(
        "M03",
        NOT_DECIDED,
        timed("masr", MEMORY, {"native": 2.0, "runc": 2.02}),
        ({"runc": (2 / 2.02,)}, {}),
        "a container alone",
        tests=(SUPPORTED, NOT_MEASURED),
    ),
    Case(
        "M03",
        REFUTED,
        timed("masr", MEMORY, {"native": 2.0, "runc": 2.6}),
        ({"runc": (2 / 2.6,)}, {}),
        "by a container alone",
        tests=(REFUTED, NOT_MEASURED),
    ),
    Case("M03", NOT_MEASURED, timed("superpi", PI, {"native": 100, "runc": 101, "qemu-kvm": 130}), ({}, {})),
    Case(
        "M03", NOT_MEASURED, timed("masr", MEMORY, {"native": 2.0, "runsc": 4.0, "uml": 9.0}), ({}, {}), "other kinds"
    ),
]


def disk(bonnie: Mapping[str, float], zfg: Mapping[str, float], **more: Any) -> Measured:
    """Both benchmarks of the disk, in seconds."""
    return timed("bonnie", BONNIE, bonnie, **more) + timed("zfg", ZFG, zfg, **more)


_BONNIE = {"native": 300, "openvz": 306, "runsc": 600, "xen": 420, "qemu-kvm": 400, "qemu-tcg": 450}
_ZFG = {"native": 200, "openvz": 208, "runsc": 900, "xen": 600, "qemu-kvm": 500, "qemu-tcg": 700}
M04 = [
    Case(
        "M04",
        SUPPORTED,
        disk(_BONNIE, _ZFG),
        (
            {"openvz": (300 / 306,)},
            {"openvz": (200 / 208,)},
            {"xen": (300 / 420,), "qemu-kvm": (300 / 400,), "qemu-tcg": (300 / 450,)},
            {"xen": (200 / 600,), "qemu-kvm": (200 / 500,), "qemu-tcg": (200 / 700,)},
        ),
        "gVisor is no container",
    ),
    Case(
        "M04",
        REFUTED,
        disk({"native": 300, "openvz": 306, "qemu-kvm": 310}, {"native": 200, "openvz": 208, "qemu-kvm": 500}),
        ({"openvz": (300 / 306,)}, {"openvz": (200 / 208,)}, {"qemu-kvm": (300 / 310,)}, {"qemu-kvm": (200 / 500,)}),
        "by a virtual disk as fast as native",
        tests=(SUPPORTED, SUPPORTED, REFUTED, SUPPORTED),
    ),
    Case(
        "M04",
        REFUTED,
        disk({"native": 300, "openvz": 306, "xen": 420}, {"native": 200, "openvz": 300, "xen": 600}),
        ({"openvz": (300 / 306,)}, {"openvz": (200 / 300,)}, {"xen": (300 / 420,)}, {"xen": (200 / 600,)}),
        "by a slow container",
        tests=(SUPPORTED, REFUTED, SUPPORTED, SUPPORTED),
    ),
    Case(
        "M04",
        NOT_DECIDED,
        disk({"native": 300, "openvz": 320, "xen": 370}, {"native": 200, "openvz": 215, "xen": 245}, spread=0.1),
        ({"openvz": (300 / 320,)}, {"openvz": (200 / 215,)}, {"xen": (300 / 370,)}, {"xen": (200 / 245,)}),
        "noise",
        tests=(NOT_DECIDED,) * 4,
    ),
    Case(
        "M04",
        NOT_DECIDED,
        disk({"native": 300, "xen": 420}, {"native": 200, "xen": 600}),
        ({}, {}, {"xen": (300 / 420,)}, {"xen": (200 / 600,)}),
        "without a container",
        tests=(NOT_MEASURED, NOT_MEASURED, SUPPORTED, SUPPORTED),
    ),
    Case(
        "M04",
        NOT_DECIDED,
        disk({"native": 300, "openvz": 306, "xen": 420}, {}),
        ({"openvz": (300 / 306,)}, {}, {"xen": (300 / 420,)}, {}),
        "Bonnie alone",
        tests=(SUPPORTED, NOT_MEASURED, SUPPORTED, NOT_MEASURED),
    ),
    Case(
        "M04",
        NOT_DECIDED,
        disk({"openvz": 306, "xen": 420}, {"native": 200, "openvz": 208, "xen": 600}),
        ({}, {"openvz": (200 / 208,)}, {}, {"xen": (200 / 600,)}),
        "native with ZFG alone",
        tests=(NOT_MEASURED, SUPPORTED, NOT_MEASURED, SUPPORTED),
    ),
    Case(
        "M04",
        REFUTED,
        disk({"native": 300, "openvz": 500}, {}),
        ({"openvz": (300 / 500,)}, {}, {}, {}),
        "by a container with Bonnie alone",
        tests=(REFUTED, NOT_MEASURED, NOT_MEASURED, NOT_MEASURED),
    ),
    Case(
        "M04",
        SUPPORTED,
        disk(
            {"native": 300, "runc": 306, "xen": 420, "xen-nested": 150},
            {"native": 200, "runc": 208, "xen": 600, "xen-nested": 100},
        ),
        (
            {"runc": (300 / 306,)},
            {"runc": (200 / 208,)},
            {"xen": (300 / 420,), "xen-nested": (300 / 150,)},
            {"xen": (200 / 600,), "xen-nested": (200 / 100,)},
        ),
        "nested",
    ),
    Case(
        "M04",
        NOT_MEASURED,
        disk({"native": 300, "xen-nested": 420}, {}),
        ({}, {}, {"xen-nested": (300 / 420,)}, {}),
        "nested alone",
    ),
    Case(
        "M04", NOT_MEASURED, disk({"native": 300, "runsc": 600}, {"native": 200, "uml": 700}), ({},) * 4, "other kinds"
    ),
    Case("M04", NOT_MEASURED, timed("masr", MEMORY, {"native": 2, "openvz": 2, "xen": 3}), ({},) * 4),
]

M05 = [
    Case(
        "M05",
        SUPPORTED,
        disk(_BONNIE | {"openvz": 200}, _ZFG),
        ({"xen": (0.333 / 0.714,), "qemu-kvm": (0.4 / 0.75,), "qemu-tcg": (0.286 / 0.667,)},),
        "containers are none",
    ),
    Case(
        "M05",
        REFUTED,
        disk({"native": 300, "xen": 600, "qemu-kvm": 400}, {"native": 200, "xen": 210, "qemu-kvm": 500}),
        ({"xen": (0.952 / 0.5,), "qemu-kvm": (0.4 / 0.75,)},),
    ),
    Case(
        "M05",
        NOT_DECIDED,
        disk({"native": 300, "qemu-kvm": 400}, {"native": 200, "qemu-kvm": 275}, spread=0.1),
        ({"qemu-kvm": (0.727 / 0.75,)},),
        "noise",
    ),
    Case(
        "M05",
        NOT_DECIDED,
        disk({"native": 300, "qemu-kvm": 400}, {"native": 200, "qemu-kvm": 500}),
        ({"qemu-kvm": (0.4 / 0.75,)},),
        "one block",
        blocks=1,
    ),
    Case(
        "M05",
        NOT_DECIDED,
        disk({"qemu-kvm": 400}, {"native": 200, "qemu-kvm": 500}),
        ({"qemu-kvm": ()},),
        "native lacks one",
    ),
    Case("M05", NOT_MEASURED, timed("zfg", ZFG, {"native": 200, "xen": 600, "qemu-kvm": 500}), ({},), "ZFG alone"),
    Case("M05", NOT_MEASURED, timed("bonnie", BONNIE, {"native": 300, "xen": 600}), ({},), "Bonnie alone"),
    Case(
        "M05", NOT_MEASURED, disk({"native": 300, "openvz": 306}, {"native": 200, "openvz": 500}), ({},), "containers"
    ),
]


def datagrams(values: Mapping[str, tuple[float, float]], given: Mapping[str, Any] = GIGABIT, **more: Any) -> Measured:
    """What arrives of UDP datagrams from and to each guest, Mbit/s."""
    return tuple(
        made
        for place, direction in enumerate(("from-guest", "to-guest"))
        for made in each(
            "iperf-udp", {"direction": direction, **given}, {k: v[place] for k, v in values.items()}, **more
        )
    )


def one_way(measured: Measured, direction: str) -> Measured:
    """Those of one direction alone."""
    return tuple(one for one in measured if one.parameters["direction"] == direction)


_NATIVE = {"native": (957.0, 950.0)}
_OTHERS = {"runc": (956.0, 949.0), "runsc-routed": (955.0, 948.0), "uml": (500.0, 400.0)}
_ALL_THREE = _NATIVE | {"xen": (955.0, 940.0), "qemu-kvm-e1000": (600.0, 500.0), "runc-routed": (400.0, 300.0)}
M06 = [
    Case(
        "M06",
        SUPPORTED,
        datagrams(_NATIVE | {"xen": (955, 940), "qemu-kvm-e1000": (600, 500), "openvz-routed": (400, 300)} | _OTHERS),
        (
            {"xen": (955 / 957, 940 / 950)},
            {"qemu-kvm-e1000": (600 / 957, 500 / 950)},
            {"openvz-routed": (400 / 957, 300 / 950)},
        ),
        "neither gVisor nor a bridge is their OpenVZ",
    ),
    Case(
        "M06",
        REFUTED,
        datagrams(_NATIVE | {"xen": (955, 780), "qemu-kvm-e1000": (600, 500), "runc-routed": (400, 300)}),
        (
            {"xen": (955 / 957, 780 / 950)},
            {"qemu-kvm-e1000": (600 / 957, 500 / 950)},
            {"runc-routed": (400 / 957, 300 / 950)},
        ),
        "by one direction of Xen",
        tests=(REFUTED, SUPPORTED, SUPPORTED),
    ),
    Case(
        "M06",
        REFUTED,
        datagrams(_NATIVE | {"qemu-kvm-e1000": (956, 949)}),
        ({}, {"qemu-kvm-e1000": (956 / 957, 949 / 950)}, {}),
        "by an emulated NIC alone",
        tests=(NOT_MEASURED, REFUTED, NOT_MEASURED),
    ),
    Case(
        "M06",
        REFUTED,
        datagrams(_NATIVE | {"xen": (955, 940), "runc-routed": (956, 949)}),
        ({"xen": (955 / 957, 940 / 950)}, {}, {"runc-routed": (956 / 957, 949 / 950)}),
        "by a fast container that routes",
        tests=(SUPPORTED, NOT_MEASURED, REFUTED),
    ),
    Case(
        "M06",
        NOT_DECIDED,
        datagrams(
            _NATIVE | {"qemu-kvm": (880, 870), "qemu-kvm-e1000": (850, 840), "runc-routed": (850, 840)}, spread=0.1
        ),
        (
            {"qemu-kvm": (880 / 957, 870 / 950)},
            {"qemu-kvm-e1000": (850 / 957, 840 / 950)},
            {"runc-routed": (850 / 957, 840 / 950)},
        ),
        "noise",
    ),
    Case(
        "M06",
        NOT_DECIDED,
        datagrams(_NATIVE | {"qemu-kvm": (955, 948)}),
        ({"qemu-kvm": (955 / 957, 948 / 950)}, {}, {}),
        "one kind alone",
        tests=(SUPPORTED, NOT_MEASURED, NOT_MEASURED),
    ),
    Case(
        "M06",
        NOT_DECIDED,
        one_way(datagrams(_ALL_THREE), "from-guest"),
        ({"xen": (955 / 957,)}, {"qemu-kvm-e1000": (600 / 957,)}, {"runc-routed": (400 / 957,)}),
        "one way alone",
        tests=(NOT_DECIDED,) * 3,
        lacks="not measured with direction to-guest",
    ),
    Case(
        "M06",
        REFUTED,
        one_way(datagrams(_ALL_THREE | {"xen": (955, 780)}), "to-guest"),
        ({"xen": (780 / 950,)}, {"qemu-kvm-e1000": (500 / 950,)}, {"runc-routed": (300 / 950,)}),
        "by the one way",
        tests=(REFUTED, NOT_DECIDED, NOT_DECIDED),
        lacks="not measured with direction from-guest",
    ),
    Case("M06", NOT_MEASURED, datagrams(_NATIVE | _OTHERS), ({},) * 3, "other kinds"),
    Case(
        "M06",
        NOT_MEASURED,
        datagrams({"native": (50, 50), "xen": (50, 50), "qemu-kvm-e1000": (50, 50), "runc-routed": (50, 50)}, {}),
        ({},) * 3,
        "50 Mbit/s",
    ),
    Case("M06", NOT_MEASURED, datagrams(_ALL_THREE, {**GIGABIT, "datagram_bytes": 64}), ({},) * 3, "small datagrams"),
    Case(
        "M06", NOT_MEASURED, datagrams(_ALL_THREE, {**GIGABIT, "between": "guests"}), ({},) * 3, "from guest to guest"
    ),
    Case("M06", NOT_MEASURED, each("forward", FRAMES, {"native": 750e3, "xen": 150e3}), ({},) * 3),
]


def tables(values: Mapping[str, Mapping[int, float]], **more: Any) -> Measured:
    """What each platform forwards with so many routes in its table, in thousands of frames/s."""
    return tuple(
        Made(label, "forward", {**FRAMES, **({"routes": routes} if routes else {})}, value=1e3 * rate, **more)
        for label, rates in values.items()
        for routes, rate in rates.items()
    )


_NATIVE_FALLS = {0: 750.0, 1000: 700.0, 10000: 600.0, 100000: 400.0}
_RUNC_HOLDS = {1000: 980.0, 10000: 978.0, 100000: 975.0}
_XEN_HOLDS, _XEN_FALLS = {1000: 150.0, 10000: 149.0, 100000: 147.0}, {1000: 150.0, 10000: 149.0, 100000: 115.0}
M07 = [
    Case(
        "M07",
        SUPPORTED,
        tables({"native": _NATIVE_FALLS, "xen": {0: 300, 1: 290, **_XEN_HOLDS, 1000000: 80}}),
        ({"xen": (149 / 150, 147 / 150)},),
        "neither native nor other tables count",
    ),
    Case(
        "M07",
        REFUTED,
        tables({"xen": _XEN_FALLS, "uml": _XEN_HOLDS}),
        ({"xen": (149 / 150, 115 / 150), "uml": (149 / 150, 147 / 150)},),
    ),
    Case("M07", REFUTED, tables({"xen": {1000: 150, 10000: 190}}), ({"xen": (190 / 150,)},), "by more than before"),
    Case(
        "M07",
        NOT_DECIDED,
        tables({"xen": {1000: 150, 10000: 150, 100000: 136}}, spread=0.1),
        ({"xen": (1.0, 136 / 150)},),
        "noise",
    ),
    Case(
        "M07",
        NOT_DECIDED,
        tables({"xen": {1000: 150, 10000: 149, 100000: 90}}),
        ({"xen": (149 / 150, 0.6)},),
        "one block",
        blocks=1,
    ),
    Case(
        "M07",
        NOT_DECIDED,
        tables({"runc": _RUNC_HOLDS}),
        ({"runc": (978 / 980, 975 / 980)},),
        "as much as the generator sends",
        limit=1e6,
    ),
    Case(
        "M07",
        NOT_DECIDED,
        tables({"runc": _RUNC_HOLDS}, lossless=True),
        ({"runc": (978 / 980, 975 / 980)},),
        "lossless",
    ),
    Case(
        "M07",
        REFUTED,
        tables({"runc": {1000: 980, 100000: 600}}),
        ({"runc": (600 / 980,)},),
        "from the most that the generator sends",
        limit=1e6,
    ),
    Case(
        "M07",
        NOT_DECIDED,
        tables({"native": _NATIVE_FALLS, "xen": {1000: 150, 10000: 149}}),
        ({"xen": (149 / 150,)},),
        "not with 100000",
        lacks="not measured with routes 100000",
    ),
    Case(
        "M07",
        NOT_DECIDED,
        tables({"native": _NATIVE_FALLS, "xen": {1000: 150, 100000: 147}}),
        ({"xen": (147 / 150,)},),
        "not with 10000",
        lacks="not measured with routes 10000",
    ),
    Case("M07", NOT_MEASURED, tables({"native": _NATIVE_FALLS, "xen": {0: 150, 10000: 149}}), ({},), "not with 1000"),
    Case("M07", NOT_MEASURED, tables({"native": _NATIVE_FALLS}), ({},), "native alone"),
]


def senders(values: Mapping[str, Mapping[int, float]], **more: Any) -> Measured:
    """What so many guests send over one NIC of a gigabit (957 Mbit/s of payload), in Mbit/s of payload."""
    parts = more.pop("parts", {})
    return tuple(
        Made(
            label,
            "transmitters",
            {"transmitters": guests, **more.get("given", SENDERS)},
            value=rate * 1e6 / 8 / 1472,
            by_source=parts.get(guests, ()),
            **{key: value for key, value in more.items() if key != "given"},
        )
        for label, rates in values.items()
        for guests, rate in rates.items()
    )


_FULL = {1: 957.0, 2: 957.0, 3: 955.0, 4: 950.0}
_FAIR = {2: (0.5, 0.5), 3: (0.34, 0.34, 0.32), 4: (0.25, 0.26, 0.25, 0.24)}
_UNFAIR = {2: (0.5, 0.5), 3: (0.4, 0.35, 0.25), 4: (0.25, 0.26, 0.25, 0.24)}
_EQUAL = (1.0, 955 / 957, 950 / 957)
M08 = [
    Case(
        "M08",
        SUPPORTED,
        senders({"native": {1: 957, 2: 957, 4: 400}, "xen": {**_FULL, 8: 700}}, parts=_FAIR),
        ({"xen": _EQUAL}, {"xen": (1.0, 0.96, 0.96)}),
        "neither native nor eight count",
    ),
    Case(
        "M08",
        REFUTED,
        senders({"xen": {1: 957, 2: 957, 3: 800, 4: 700}}, parts=_FAIR),
        ({"xen": (1.0, 800 / 957, 700 / 957)}, {"xen": (1.0, 0.96, 0.96)}),
        "by a total that falls",
        tests=(REFUTED, SUPPORTED),
    ),
    Case(
        "M08",
        REFUTED,
        senders({"xen": {**_FULL, 1: 780}}, parts=_FAIR),
        ({"xen": (957 / 780, 955 / 780, 950 / 780)}, {"xen": (1.0, 0.96, 0.96)}),
        "by a total that grows",
        tests=(REFUTED, SUPPORTED),
    ),
    Case(
        "M08",
        REFUTED,
        senders({"xen": _FULL}, parts=_UNFAIR),
        ({"xen": _EQUAL}, {"xen": (1.0, 0.75, 0.96)}),
        "by unequal shares",
        tests=(SUPPORTED, REFUTED),
    ),
    Case(
        "M08",
        NOT_DECIDED,
        senders({"xen": {**_FULL, 2: 870}}, parts=_FAIR, spread=0.05),
        ({"xen": (870 / 957, 955 / 957, 950 / 957)}, {"xen": (1.0, 0.96, 0.96)}),
        "noise",
        tests=(NOT_DECIDED, SUPPORTED),
    ),
    Case(
        "M08",
        NOT_DECIDED,
        senders({"xen": {**_FULL, 2: 400}}),
        ({"xen": (400 / 957, 955 / 957, 950 / 957)}, {"xen": (1.0, 1.0, 1.0)}),
        "one block",
        blocks=1,
    ),
    Case(
        "M08",
        NOT_DECIDED,
        senders({"xen": {2: 957, 3: 955, 4: 950}}, parts=_FAIR),
        ({}, {"xen": (1.0, 0.96, 0.96)}),
        "not from one",
        tests=(NOT_MEASURED, SUPPORTED),
    ),
    Case(
        "M08",
        NOT_DECIDED,
        senders({"xen": {1: 957, 2: 957, 4: 950}}, parts=_FAIR),
        ({"xen": (1.0, 950 / 957)}, {"xen": (1.0, 0.96)}),
        "not from three",
        tests=(NOT_DECIDED, NOT_DECIDED),
        lacks="not measured with transmitters 3",
    ),
    Case(
        "M08",
        NOT_DECIDED,
        senders({"xen": {1: 957, 2: 957}}, parts=_FAIR),
        ({"xen": (1.0,)}, {"xen": (1.0,)}),
        "two alone",
        tests=(NOT_DECIDED, NOT_DECIDED),
        lacks="not measured with transmitters 3, 4",
    ),
    Case(
        "M08",
        REFUTED,
        senders({"xen": {1: 780, 2: 957}}, parts=_FAIR),
        ({"xen": (957 / 780,)}, {"xen": (1.0,)}),
        "by two alone",
        tests=(REFUTED, NOT_DECIDED),
        lacks="not measured with transmitters 3, 4",
    ),
    Case(
        "M08",
        REFUTED,
        senders({"xen": {3: 957}}, parts=_UNFAIR),
        ({}, {"xen": (0.75,)}),
        "by the shares alone",
        tests=(NOT_MEASURED, REFUTED),
    ),
    Case("M08", NOT_MEASURED, senders({"xen": _FULL}, given={"duration_milliseconds": 10000}), ({}, {}), "a NIC each"),
    Case(
        "M08",
        NOT_MEASURED,
        senders({"xen": {1: 110, 4: 440}}, spread=0.0, given={**SENDERS, "rate_frames_per_second": 10000}),
        ({}, {}),
        "held to a rate",
    ),
    Case("M08", NOT_MEASURED, each("forward", FRAMES, {"native": 750e3, "xen": 150e3}), ({}, {})),
]


def routers(values: Mapping[str, Mapping[int, float]], **more: Any) -> Measured:
    """What so many routers forward together of 130 kp/s, in kp/s."""
    given = more.pop("given", ROUTERS)
    return tuple(
        Made(label, "virtual-routers", {"routers": count, **given}, value=rate * 1e3, **more)
        for label, rates in values.items()
        for count, rate in rates.items()
    )


_SWEPT = {"point_milliseconds": 1000}
_APART = routers({"xen": {1: 125}}) + routers({"xen": {4: 87.5}}, given={**ROUTERS, "affinity": "unpinned"})
M09 = [
    Case(
        "M09",
        SUPPORTED,
        routers({"native": {1: 120, 4: 120}, "xen": {1: 125, 2: 110, 3: 99, 4: 87.5}}),
        ({"xen": (0.7,)},),
        "native is none",
    ),
    Case(
        "M09",
        REFUTED,
        routers({"xen": {1: 125, 4: 87.5}, "uml": {1: 90, 4: 88}}),
        ({"xen": (0.7,), "uml": (88 / 90,)},),
        "by no fall",
    ),
    Case("M09", REFUTED, routers({"xen": {1: 125, 4: 65}}), ({"xen": (0.52,)},), "by a larger fall"),
    Case("M09", NOT_DECIDED, routers({"xen": {1: 105, 4: 83}}, spread=0.05), ({"xen": (83 / 105,)},), "noise"),
    Case("M09", NOT_DECIDED, routers({"xen": {1: 125, 4: 87.5}}), ({"xen": (0.7,)},), "one block", blocks=1),
    Case(
        "M09",
        SUPPORTED,
        routers({"xen": {1: 130}}, spread=0.0) + routers({"xen": {4: 91}}),
        ({"xen": (0.7,)},),
        "all of it by one",
    ),
    Case(
        "M09",
        NOT_DECIDED,
        routers({"xen": {1: 125, 4: 87.5}}),
        ({"xen": (0.7,)},),
        "as much as the generator sends",
        limit=135e3,
    ),
    Case("M09", NOT_MEASURED, routers({"xen": {1: 125, 4: 87.5}}, given=_SWEPT), ({},), "a sweep"),
    Case("M09", NOT_MEASURED, routers({"xen": {1: 125, 2: 110, 3: 99}}), ({},), "not four"),
    Case("M09", NOT_MEASURED, _APART, ({},), "on other CPUs"),
]


def forwarded(values: Mapping[str, float], given: Mapping[str, Any] = FRAMES, **more: Any) -> Measured:
    """What each platform forwards, in kp/s."""
    return each("forward", given, {label: rate * 1e3 for label, rate in values.items()}, **more)


_MODES = {"native": 750.0, "xen": 150.0, "xen-routed": 200.0}
_SRIOV = {"xen-sriov": 740.0}
M10 = [
    Case(
        "M10",
        SUPPORTED,
        forwarded(_MODES | {"xen-sriov": 740, "runc": 600, "qemu-kvm-e1000": 300}),
        ({"xen-sriov": (740 / 750,)}, {"xen": (0.2,), "xen-routed": (200 / 750,)}),
        "other NICs are none",
    ),
    Case(
        "M10",
        REFUTED,
        forwarded(_MODES | {"xen-sriov": 560}),
        ({"xen-sriov": (560 / 750,)}, {"xen": (0.2,), "xen-routed": (200 / 750,)}),
        "by a slow function",
        tests=(REFUTED, SUPPORTED),
    ),
    Case(
        "M10",
        REFUTED,
        forwarded({"native": 750, "xen-sriov": 740, "qemu-kvm": 290}),
        ({"xen-sriov": (740 / 750,)}, {"qemu-kvm": (290 / 750,)}),
        "by a fast para-virtualised NIC",
        tests=(SUPPORTED, REFUTED),
    ),
    Case(
        "M10",
        NOT_DECIDED,
        forwarded({"native": 750, "xen-sriov": 680, "xen": 240}, spread=0.1),
        ({"xen-sriov": (680 / 750,)}, {"xen": (240 / 750,)}),
        "noise",
    ),
    Case(
        "M10",
        NOT_DECIDED,
        forwarded(_MODES | {"xen-sriov": 740}),
        ({"xen-sriov": (740 / 750,)}, {"xen": (0.2,), "xen-routed": (200 / 750,)}),
        "as much as the generator sends",
        limit=760e3,
        tests=(NOT_DECIDED, SUPPORTED),
    ),
    Case(
        "M10",
        NOT_DECIDED,
        forwarded({"native": 750}, lossless=True) + forwarded({"xen-sriov": 720, "qemu-kvm": 300}),
        ({"xen-sriov": (720 / 750,)}, {"qemu-kvm": (0.4,)}),
        "native is lossless",
    ),
    Case(
        "M10",
        NOT_DECIDED,
        forwarded(_MODES),
        ({}, {"xen": (0.2,), "xen-routed": (200 / 750,)}),
        "without the device itself",
        tests=(NOT_MEASURED, SUPPORTED),
    ),
    Case(
        "M10",
        REFUTED,
        forwarded({"native": 750, "qemu-kvm": 400}),
        ({}, {"qemu-kvm": (400 / 750,)}),
        "by the NIC alone",
        tests=(NOT_MEASURED, REFUTED),
    ),
    Case("M10", NOT_MEASURED, forwarded({"native": 750, "runc": 600, "qemu-kvm-e1000": 40}), ({}, {}), "other NICs"),
    Case(
        "M10",
        SUPPORTED,
        forwarded(_MODES | {"xen-sriov": 740}, {"frame_size_bytes": 68}),
        ({"xen-sriov": (740 / 750,)}, {"xen": (0.2,), "xen-routed": (200 / 750,)}),
        "with 68 bytes",
    ),
    Case(
        "M10", NOT_MEASURED, forwarded(_MODES | _SRIOV, {**FRAMES, "frame_size_bytes": 1500}), ({}, {}), "large frames"
    ),
    Case("M10", NOT_MEASURED, forwarded(_MODES | _SRIOV, {**FRAMES, "routes": 1000}), ({}, {}), "tables"),
]

M11 = [
    Case(
        "M11",
        SUPPORTED,
        forwarded(_MODES | {"uml": 50, "qemu-kvm": 700, "qemu-kvm-e1000": 40}),
        ({"xen-routed": (200 / 150,)},),
        "only of one product",
    ),
    Case(
        "M11", SUPPORTED, forwarded(_MODES, {"frame_size_bytes": 68}), ({"xen-routed": (200 / 150,)},), "with 68 bytes"
    ),
    Case("M11", REFUTED, forwarded(_MODES | {"xen-routed": 120}), ({"xen-routed": (120 / 150,)},)),
    Case(
        "M11",
        NOT_DECIDED,
        forwarded(_MODES | {"xen-routed": 153}, spread=0.1),
        ({"xen-routed": (153 / 150,)},),
        "noise",
    ),
    Case("M11", NOT_DECIDED, forwarded(_MODES), ({"xen-routed": (200 / 150,)},), "one block", blocks=1),
    Case(
        "M11",
        NOT_DECIDED,
        forwarded({"native": 990, "runc": 960, "runc-routed": 970}),
        ({"runc-routed": (970 / 960,)},),
        "as much as the generator sends",
        limit=1e6,
    ),
    Case("M11", NOT_MEASURED, forwarded({"native": 750, "xen": 150, "runc-routed": 500}), ({},), "two products"),
    Case("M11", NOT_MEASURED, forwarded({"native": 750, "xen-hvm": 90, "xen-routed": 200}), ({},), "two types of Xen"),
    Case(
        "M11",
        SUPPORTED,
        forwarded(_MODES | {"xen-hvm": 900, "xen-hvm-routed": 950}),
        ({"xen-routed": (200 / 150,), "xen-hvm-routed": (950 / 900,)},),
        "each of its own type",
    ),
    Case("M11", NOT_MEASURED, forwarded({"native": 750, "xen": 150}), ({},), "bridges alone"),
    Case("M11", NOT_MEASURED, forwarded(_MODES, {**FRAMES, "frame_size_bytes": 1500}), ({},), "large frames"),
]

CASES = {one.name: one for own in (M01, M02, M03, M04, M05, M06, M07, M08, M09, M10, M11) for one in own}


@cache
def judged(name: str) -> Judged:
    """What the run of a case says about its claim."""
    case = CASES[name]
    platforms = {label: PLATFORMS[label] for label in ("native", *(one.platform for one in case.measured))}
    run = made_up_run(platforms, case.measured, blocks=case.blocks, calibrated_rate=case.limit)
    (found,) = judge_claims(analyse(run), [CLAIMS[case.claim]])
    return found


@pytest.mark.parametrize("name", CASES)
def test_what_a_run_says_of_a_claim(name: str) -> None:
    case, found = CASES[name], judged(name)
    assert found.outcome is case.outcome, found.tests
    assert not case.tests or tuple(one.outcome for one in found.tests) == case.tests
    assert {one.missing for one in found.tests if one.outcome is not NOT_MEASURED} - {""} == {case.lacks} - {""}
    for one, expected in zip(found.tests, case.found, strict=True):
        assert {finding.platform for finding in one.findings} == set(expected)
        for finding, ratio in paired(one, expected):
            assert finding.functional == (finding.platform == "xen-nested")
            if ratio is None:
                assert finding.estimate is None
                assert finding.reason
                continue
            assert finding.estimate == pytest.approx(ratio, rel=tolerance(case), abs=1e-3)
            assert finding.interval is not None or finding.reason


def paired(test: JudgedTest, expected: Expected) -> list[tuple[Finding, float | None]]:
    """Each finding with what was put in, by size; None where nothing can be told."""
    pairs: list[tuple[Finding, float | None]] = []
    for label, ratios in expected.items():
        own = sorted((one for one in test.findings if one.platform == label), key=lambda one: one.estimate or 0.0)
        pairs += zip(own, sorted(ratios) if ratios else [None] * len(own), strict=True)
    return pairs


def tolerance(case: Case) -> float:
    """Four standard errors of a ratio of four values, relative."""
    spread = max(one.spread for one in case.measured)
    return 4 * spread * math.sqrt(4 / case.blocks)


def test_intervals_hold_what_was_put_in() -> None:
    """Of intervals at 95 % nearly all, and some of each claim; those that a bound opens do not count."""
    held: dict[str, list[bool]] = {claim: [] for claim in CLAIMS}
    for name, case in CASES.items():
        for one, expected in zip(judged(name).tests, case.found, strict=True):
            for finding, ratio in paired(one, expected):
                interval = finding.interval
                if ratio is not None and interval is not None and interval.low > 0 and math.isfinite(interval.high):
                    held[case.claim].append(interval.low <= ratio <= interval.high)
    assert all(map(any, held.values())), held
    every = [one for own in held.values() for one in own]
    assert sum(every) >= 0.9 * len(every)


def test_each_claim_has_each_outcome() -> None:
    assert {(one.claim, one.outcome) for one in CASES.values()} == {
        (claim, outcome) for claim in CLAIMS for outcome in Outcome
    }


# Preset and size -> the claims of which it plans all tests' workloads and parameters, for the platforms that they need.
# The quick size has no gigabit (M06), three tables (M07), four senders (M08) or four routers (M09). `virtual-routers`
# has the paper's Section V without what its claims ask for: its routers are swept, its transmitters have a NIC each.
PLANNED = {
    ("mattos2012", "quick"): {"M01", "M02", "M03", "M04", "M05", "M10", "M11"},
    ("mattos2012", "paper"): set(CLAIMS),
    ("routes", None): {"M07", "M10", "M11"},
    ("virtual-routers", None): set(),
}
# What no platform of the preset can answer, though its workloads could: Xen with SR-IOV needs the addresses of a user's
# own virtual functions.
WITHOUT_A_PLATFORM = {("M10", "forwards as fast as native with the device itself")}


def preset(name: str, size: str | None) -> Experiment:
    """One of the package's experiments, as `virtoll plan` reads it."""
    return load_experiment(find_experiment(name), catalogue(), Selection(size=size))


def answered(experiment: Experiment, platforms: Mapping[str, Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Claims and tests of which a run of its planned workloads on these platforms has each value that must be there."""
    workloads = dict.fromkeys(trial.workload for trial in plan_of(experiment).trials)
    measured = [
        Made(label, one.workload, one.parameters.model_dump(mode="json", exclude_unset=True), value=1e4)
        for one in workloads
        for label in platforms
    ]
    ratios = Ratios(analyse(made_up_run(platforms, measured, blocks=2)))
    found = {(claim.id, test.says): (test, ratios.sides(test)) for claim in CLAIMS.values() for test in claim.tests}
    return {
        name for name, (test, sides) in found.items() if not isinstance(sides, str) and not ratios.missing(test, sides)
    }


def every_test() -> set[tuple[str, str]]:
    """Each claim's id with the words of each of its tests."""
    return {(claim.id, test.says) for claim in CLAIMS.values() for test in claim.tests}


@pytest.mark.parametrize(("name", "size"), PLANNED, ids=lambda part: part or "alone")
def test_a_preset_plans_what_its_claims_ask_for(name: str, size: str | None) -> None:
    kinds = ("native", "runc", "runc-routed", "qemu-kvm", "qemu-kvm-e1000", "xen", "xen-routed", "xen-sriov")
    found = answered(preset(name, size), {label: PLATFORMS[label] for label in kinds})
    lacking = {claim for claim, _ in every_test() - found}
    assert set(CLAIMS) - lacking == PLANNED[name, size]


def test_the_papers_size_has_platforms_for_its_claims() -> None:
    experiment = preset("mattos2012", "paper")
    platforms = {
        one.label: {"platform": one.platform, "parameters": one.parameters.model_dump(mode="json")}
        for one in experiment.platforms
    }
    assert every_test() - answered(experiment, platforms) == WITHOUT_A_PLATFORM
