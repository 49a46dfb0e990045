"""The claims of Mattos et al. 2012 on the network: cases as in `claims_mattos`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.claim_cases import NO, NONE, OPEN, YES, cases
from tests.support.claims_mattos import FRAMES, Measured, each, no, nothing, unsure, yes
from tests.support.made_up_run import Made

GIGABIT = {"rate_bits_per_second": 957087379, "datagrams": 812744}
SENDERS = {"nic": "shared", "link_rate_bits_per_second": 1000000000, "duration_milliseconds": 10000}
ROUTERS = {"total_rate_frames_per_second": 130000, "point_milliseconds": 1000}


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
M06 = cases(
    "M06",
    yes(
        "neither gVisor nor a bridge is their OpenVZ",
        datagrams(_NATIVE | {"xen": (955, 940), "qemu-kvm-e1000": (600, 500), "openvz-routed": (400, 300)} | _OTHERS),
        [
            {"xen": (955 / 957, 940 / 950)},
            {"qemu-kvm-e1000": (600 / 957, 500 / 950)},
            {"openvz-routed": (400 / 957, 300 / 950)},
        ],
    ),
    no(
        "by one direction of Xen",
        datagrams(_NATIVE | {"xen": (955, 780), "qemu-kvm-e1000": (600, 500), "runc-routed": (400, 300)}),
        [
            {"xen": (955 / 957, 780 / 950)},
            {"qemu-kvm-e1000": (600 / 957, 500 / 950)},
            {"runc-routed": (400 / 957, 300 / 950)},
        ],
        tests=(NO, YES, YES),
    ),
    no(
        "by an emulated NIC alone",
        datagrams(_NATIVE | {"qemu-kvm-e1000": (956, 949)}),
        [{}, {"qemu-kvm-e1000": (956 / 957, 949 / 950)}, {}],
        tests=(NONE, NO, NONE),
    ),
    no(
        "by a fast container that routes",
        datagrams(_NATIVE | {"xen": (955, 940), "runc-routed": (956, 949)}),
        [{"xen": (955 / 957, 940 / 950)}, {}, {"runc-routed": (956 / 957, 949 / 950)}],
        tests=(YES, NONE, NO),
    ),
    unsure(
        "noise",
        datagrams(
            _NATIVE | {"qemu-kvm": (880, 870), "qemu-kvm-e1000": (850, 840), "runc-routed": (850, 840)}, spread=0.1
        ),
        [
            {"qemu-kvm": (880 / 957, 870 / 950)},
            {"qemu-kvm-e1000": (850 / 957, 840 / 950)},
            {"runc-routed": (850 / 957, 840 / 950)},
        ],
    ),
    unsure(
        "one kind alone",
        datagrams(_NATIVE | {"qemu-kvm": (955, 948)}),
        [{"qemu-kvm": (955 / 957, 948 / 950)}, {}, {}],
        tests=(YES, NONE, NONE),
    ),
    unsure(
        "one way alone",
        one_way(datagrams(_ALL_THREE), "from-guest"),
        [{"xen": 955 / 957}, {"qemu-kvm-e1000": 600 / 957}, {"runc-routed": 400 / 957}],
        tests=(OPEN,) * 3,
        lacks="direction to-guest",
    ),
    no(
        "by the one way",
        one_way(datagrams(_ALL_THREE | {"xen": (955, 780)}), "to-guest"),
        [{"xen": 780 / 950}, {"qemu-kvm-e1000": 500 / 950}, {"runc-routed": 300 / 950}],
        tests=(NO, OPEN, OPEN),
        lacks="direction from-guest",
    ),
    nothing("other kinds", datagrams(_NATIVE | _OTHERS)),
    nothing(
        "50 Mbit/s",
        datagrams({"native": (50, 50), "xen": (50, 50), "qemu-kvm-e1000": (50, 50), "runc-routed": (50, 50)}, {}),
    ),
    nothing("small datagrams", datagrams(_ALL_THREE, {**GIGABIT, "datagram_bytes": 64})),
    nothing("from guest to guest", datagrams(_ALL_THREE, {**GIGABIT, "between": "guests"})),
    nothing("", each("forward", FRAMES, native=750e3, xen=150e3)),
)


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
M07 = cases(
    "M07",
    yes(
        "neither native nor other tables count",
        tables({"native": _NATIVE_FALLS, "xen": {0: 300, 1: 290, **_XEN_HOLDS, 1000000: 80}}),
        [{"xen": (149 / 150, 147 / 150)}],
    ),
    no(
        "",
        tables({"xen": _XEN_FALLS, "uml": _XEN_HOLDS}),
        [{"xen": (149 / 150, 115 / 150), "uml": (149 / 150, 147 / 150)}],
    ),
    no("by more than before", tables({"xen": {1000: 150, 10000: 190}}), [{"xen": 190 / 150}]),
    unsure("noise", tables({"xen": {1000: 150, 10000: 150, 100000: 136}}, spread=0.1), [{"xen": (1.0, 136 / 150)}]),
    unsure(
        "as much as the generator sends",
        tables({"runc": _RUNC_HOLDS}),
        [{"runc": (978 / 980, 975 / 980)}],
        limit=1000e3,
    ),
    no(
        "from the most that the generator sends",
        tables({"runc": {1000: 980, 100000: 600}}),
        [{"runc": 600 / 980}],
        limit=1000e3,
    ),
    unsure(
        "not with 100000",
        tables({"native": _NATIVE_FALLS, "xen": {1000: 150, 10000: 149}}),
        [{"xen": 149 / 150}],
        lacks="routes 100000",
    ),
    unsure(
        "not with 10000",
        tables({"native": _NATIVE_FALLS, "xen": {1000: 150, 100000: 147}}),
        [{"xen": 147 / 150}],
        lacks="routes 10000",
    ),
    nothing("not with 1000", tables({"native": _NATIVE_FALLS, "xen": {0: 150, 10000: 149}})),
    nothing("native alone", tables({"native": _NATIVE_FALLS})),
)


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
M08 = cases(
    "M08",
    yes(
        "neither native nor eight count",
        senders({"native": {1: 957, 2: 957, 4: 400}, "xen": {**_FULL, 8: 700}}, parts=_FAIR),
        [{"xen": _EQUAL}, {"xen": (1.0, 0.96, 0.96)}],
    ),
    no(
        "by a total that falls",
        senders({"xen": {1: 957, 2: 957, 3: 800, 4: 700}}, parts=_FAIR),
        [{"xen": (1.0, 800 / 957, 700 / 957)}, {"xen": (1.0, 0.96, 0.96)}],
        tests=(NO, YES),
    ),
    no(
        "by a total that grows",
        senders({"xen": {**_FULL, 1: 780}}, parts=_FAIR),
        [{"xen": (957 / 780, 955 / 780, 950 / 780)}, {"xen": (1.0, 0.96, 0.96)}],
        tests=(NO, YES),
    ),
    no(
        "by unequal shares",
        senders({"xen": _FULL}, parts=_UNFAIR),
        [{"xen": _EQUAL}, {"xen": (1.0, 0.75, 0.96)}],
        tests=(YES, NO),
    ),
    unsure(
        "noise",
        senders({"xen": {**_FULL, 2: 870}}, parts=_FAIR, spread=0.05),
        [{"xen": (870 / 957, 955 / 957, 950 / 957)}, {"xen": (1.0, 0.96, 0.96)}],
        tests=(OPEN, YES),
    ),
    unsure(
        "not from one",
        senders({"xen": {2: 957, 3: 955, 4: 950}}, parts=_FAIR),
        [{}, {"xen": (1.0, 0.96, 0.96)}],
        tests=(NONE, YES),
    ),
    unsure(
        "not from three",
        senders({"xen": {1: 957, 2: 957, 4: 950}}, parts=_FAIR),
        [{"xen": (1.0, 950 / 957)}, {"xen": (1.0, 0.96)}],
        tests=(OPEN, OPEN),
        lacks="transmitters 3",
    ),
    unsure(
        "two alone",
        senders({"xen": {1: 957, 2: 957}}, parts=_FAIR),
        [{"xen": 1.0}, {"xen": 1.0}],
        tests=(OPEN, OPEN),
        lacks="transmitters 3, 4",
    ),
    no(
        "by two alone",
        senders({"xen": {1: 780, 2: 957}}, parts=_FAIR),
        [{"xen": 957 / 780}, {"xen": 1.0}],
        tests=(NO, OPEN),
        lacks="transmitters 3, 4",
    ),
    no("by the shares alone", senders({"xen": {3: 957}}, parts=_UNFAIR), [{}, {"xen": 0.75}], tests=(NONE, NO)),
    nothing("a NIC each", senders({"xen": _FULL}, given={"duration_milliseconds": 10000})),
    nothing(
        "held to a rate",
        senders({"xen": {1: 110, 4: 440}}, spread=0.0, given={**SENDERS, "rate_frames_per_second": 10000}),
    ),
    nothing("", each("forward", FRAMES, native=750e3, xen=150e3)),
)


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
M09 = cases(
    "M09",
    yes(
        "native is none", routers({"native": {1: 120, 4: 120}, "xen": {1: 125, 2: 110, 3: 99, 4: 87.5}}), [{"xen": 0.7}]
    ),
    no("by no fall", routers({"xen": {1: 125, 4: 87.5}, "uml": {1: 90, 4: 88}}), [{"xen": 0.7, "uml": 88 / 90}]),
    no("by a larger fall", routers({"xen": {1: 125, 4: 65}}), [{"xen": 0.52}]),
    unsure("noise", routers({"xen": {1: 105, 4: 83}}, spread=0.05), [{"xen": 83 / 105}]),
    yes("all of it by one", routers({"xen": {1: 130}}, spread=0.0) + routers({"xen": {4: 91}}), [{"xen": 0.7}]),
    unsure("as much as the generator sends", routers({"xen": {1: 125, 4: 87.5}}), [{"xen": 0.7}], limit=135e3),
    nothing("a sweep", routers({"xen": {1: 125, 4: 87.5}}, given=_SWEPT)),
    nothing("not four", routers({"xen": {1: 125, 2: 110, 3: 99}})),
    nothing("on other CPUs", _APART),
)


def forwarded(values: Mapping[str, float] | None = None, given: Mapping[str, Any] = FRAMES, **more: Any) -> Measured:
    """What each platform forwards, in kp/s."""
    return each("forward", given, values, unit=1e3, **more)


_MODES = {"native": 750.0, "xen": 150.0, "xen-routed": 200.0}
_SRIOV = {"xen-sriov": 740.0}
M10 = cases(
    "M10",
    yes(
        "other NICs are none",
        forwarded(_MODES | {"xen-sriov": 740, "runc": 600, "qemu-kvm-e1000": 300}),
        [{"xen-sriov": 740 / 750}, {"xen": 0.2, "xen-routed": 200 / 750}],
    ),
    no(
        "by a slow function",
        forwarded(_MODES | {"xen-sriov": 560}),
        [{"xen-sriov": 560 / 750}, {"xen": 0.2, "xen-routed": 200 / 750}],
        tests=(NO, YES),
    ),
    no(
        "by a fast para-virtualised NIC",
        forwarded(native=750, xen_sriov=740, qemu_kvm=290),
        [{"xen-sriov": 740 / 750}, {"qemu-kvm": 290 / 750}],
        tests=(YES, NO),
    ),
    unsure(
        "noise",
        forwarded(native=750, xen_sriov=680, xen=240, spread=0.1),
        [{"xen-sriov": 680 / 750}, {"xen": 240 / 750}],
    ),
    unsure(
        "as much as the generator sends",
        forwarded(_MODES | {"xen-sriov": 740}),
        [{"xen-sriov": 740 / 750}, {"xen": 0.2, "xen-routed": 200 / 750}],
        limit=760e3,
        tests=(OPEN, YES),
    ),
    unsure(
        "without the device itself", forwarded(_MODES), [{}, {"xen": 0.2, "xen-routed": 200 / 750}], tests=(NONE, YES)
    ),
    no("by the NIC alone", forwarded(native=750, qemu_kvm=400), [{}, {"qemu-kvm": 400 / 750}], tests=(NONE, NO)),
    nothing("other NICs", forwarded(native=750, runc=600, qemu_kvm_e1000=40)),
    yes(
        "with 68 bytes",
        forwarded(_MODES | {"xen-sriov": 740}, {"frame_size_bytes": 68}),
        [{"xen-sriov": 740 / 750}, {"xen": 0.2, "xen-routed": 200 / 750}],
    ),
    nothing("large frames", forwarded(_MODES | _SRIOV, {**FRAMES, "frame_size_bytes": 1500})),
    nothing("tables", forwarded(_MODES | _SRIOV, {**FRAMES, "routes": 1000})),
)

M11 = cases(
    "M11",
    yes(
        "only of one product",
        forwarded(_MODES | {"uml": 50, "qemu-kvm": 700, "qemu-kvm-e1000": 40}),
        [{"xen-routed": 200 / 150}],
    ),
    yes("with 68 bytes", forwarded(_MODES, {"frame_size_bytes": 68}), [{"xen-routed": 200 / 150}]),
    no("", forwarded(_MODES | {"xen-routed": 120}), [{"xen-routed": 120 / 150}]),
    unsure("noise", forwarded(_MODES | {"xen-routed": 153}, spread=0.1), [{"xen-routed": 153 / 150}]),
    nothing("two products", forwarded(native=750, xen=150, runc_routed=500)),
    nothing("two types of Xen", forwarded(native=750, xen_hvm=90, xen_routed=200)),
    yes(
        "each of its own type",
        forwarded(_MODES | {"xen-hvm": 900, "xen-hvm-routed": 950}),
        [{"xen-routed": 200 / 150, "xen-hvm-routed": 950 / 900}],
    ),
    nothing("bridges alone", forwarded(native=750, xen=150)),
    nothing("large frames", forwarded(_MODES, {**FRAMES, "frame_size_bytes": 1500})),
)

CASES_ON_THE_NETWORK = [*M06, *M07, *M08, *M09, *M10, *M11]
