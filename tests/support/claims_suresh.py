"""The claims of Suresh and Kannan 2014: made-up runs with the paper's numbers and others.

Durations are in seconds and rates in the paper's units, as a reader has them. What a claim is not about stands in the
same runs and says the contrary, so that a test which reads too much is noticed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tests.support.claim_cases import NO, NONE, YES, ClaimCase, cases
from tests.support.made_up_run import Made

from virtoll.claims import Outcome
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.scale import ScalePoint

EXACT, WIDE = 0.004, 0.1  # SD of the log from trial to trial
MIB, GIB = 2**20, 2**30
KINDS: dict[str, dict[str, Any]] = {
    "native": {},
    "kvm": {"platform": "qemu-kvm"},
    "virtualbox": {},
    "nested": {"platform": "qemu-kvm", "host": "nested kvm", "caveat": FUNCTIONAL_ONLY},
    "elsewhere": {"platform": "qemu-kvm", "host": "another machine"},
    # None of these is hardware-assisted.
    "tcg": {"platform": "qemu-tcg"},
    "runc": {},
    "gvisor": {"platform": "runsc"},
}
PHASES = (None, Condition("idle", guests=2), Condition("heavy", guests=2))
NO_PLATFORM, NO_VALUE, NO_OTHER_SIDE = "platform", "value", "compared"
Values = float | tuple[float | None, ...]
Rates = tuple[float, float, float, float]


@dataclass(frozen=True)
class Case(ClaimCase):
    """`performance`: each platform's by all tests. `tests`: the outcome of each test; (): that of the claim.

    `lacks`: what the run has not, or why it leaves something open, by a fact of its reason; empty: it has everything.
    """

    lacks: str = ""
    tests: Sequence[Outcome] = ()
    performance: Mapping[str, Sequence[float]] = field(default_factory=dict)


def _case(
    outcome: Outcome,
    why: str,
    measured: Sequence[Made],
    lacks: str = "",
    *,
    tests: Sequence[Outcome] = (),
    **performance: float | Sequence[float],
) -> Case:
    listed = {label: [one] if isinstance(one, float) else list(one) for label, one in performance.items()}
    return Case(outcome, why, measured, lacks, tests, listed)


yes, no, unsure, nothing = (partial(_case, outcome) for outcome in Outcome)


def made(
    workload: str, parameters: Mapping[str, Any], values: Mapping[str, Values], unit: float = 1e9, spread: float = EXACT
) -> list[Made]:
    """By platform its value in `unit`; of several the guest alone, then beside two idle guests, two loaded ones."""
    return [
        Made(label, workload, parameters, one * unit, beside=phase, spread=spread)
        for label, given in values.items()
        for phase, one in zip(PHASES, given if isinstance(given, tuple) else (given,), strict=False)
        if one is not None
    ]


# Table 1: microseconds on Ubuntu, KVM and VirtualBox; so many seconds for a million of each.
Row = tuple[float, float, float]
CALLS: dict[str, Row] = {
    "null-call": (0.0537, 0.0541, 0.0596),
    "read": (0.1031, 0.1056, 0.1075),
    "write": (0.1251, 0.1258, 0.1457),
    "stat": (0.2484, 0.2797, 0.2920),
    "fstat": (0.0826, 0.0929, 0.1013),
    "open-close": (0.2282, 0.2314, 0.2532),
}
FORKS: dict[str, Row] = {
    "fork-exit": (287.00, 656.875, 1785.0564),
    "fork-exec": (439.76, 690.75, 1819.6630),
    "fork-sh": (2917.00, 4442.72, 9057.9412),
}
PIPE: dict[str, Row] = {"pipe": (3.4782, 3.49, 16.4372)}


def operations(rows: Mapping[str, Row], workers: int = 1, /, **others: float) -> list[Made]:
    """Rows of Table 1; `others`: how many times as long as native other platforms take."""
    return [
        one
        for operation, (native, kvm, virtualbox) in rows.items()
        for one in made(
            "kernel-operations",
            {"operation": operation, "workers": workers},
            {"native": native, "kvm": kvm, "virtualbox": virtualbox}
            | {label: native * times for label, times in others.items()},
        )
    ]


def table_1(
    make: Callable[..., Case],
    why: str,
    told: Mapping[str, Row],
    besides: Mapping[str, Row] | None = None,
    lacks: str = "",
    more: Sequence[Made] = (),
    **others: float,
) -> Case:
    """A run with these rows, of which some are told of, as shares of native's performance."""
    return make(
        why,
        [*operations({**told, **(besides or {})}, **others), *more],
        lacks,
        kvm=[native / kvm for native, kvm, _ in told.values()],
        virtualbox=[native / virtualbox for native, _, virtualbox in told.values()],
    )


SLOW_OPEN = CALLS | {"open-close": (0.2282, 0.2314, 0.3300)}
OPEN_AT_25 = CALLS | {"open-close": (0.2282, 0.2314, 0.2853)}
NO_STAT = {name: row for name, row in CALLS.items() if "stat" not in name}
STATS = {name: row for name, row in CALLS.items() if "stat" in name}
NO_SHELL = {name: row for name, row in FORKS.items() if name != "fork-sh"}
NESTED_PAGES = FORKS | {"fork-sh": (2917.0, 3200.0, 9057.9)}
SHELL_AT_50 = FORKS | {"fork-sh": (2917.0, 4376.0, 9057.9)}
K01 = cases(
    "K01",
    table_1(yes, "Table 1", CALLS, FORKS | PIPE, tcg=9, gvisor=7),
    table_1(yes, "whatever eight workers do", CALLS, more=operations(SLOW_OPEN, 8)),
    table_1(no, "open", SLOW_OPEN),
    table_1(no, "open without stat", {name: SLOW_OPEN[name] for name in NO_STAT}),
    table_1(unsure, "open 25 % longer", OPEN_AT_25),
    table_1(unsure, "no stat", NO_STAT, lacks="operation stat, fstat"),
    table_1(
        unsure,
        "no stat on native",
        NO_STAT,
        lacks="operation stat, fstat",
        more=[one for one in operations(STATS) if one.platform != "native"],
    ),
    table_1(unsure, "stat of eight workers", NO_STAT, lacks="operation stat, fstat", more=operations(STATS, 8)),
    nothing("eight workers", operations(CALLS, 8), "workers 1"),
    nothing("no call", operations(FORKS | PIPE), "operation null-call"),
    nothing(
        "others",
        made("kernel-operations", {"operation": "read"}, {"native": 0.1, "runc": 0.1, "gvisor": 0.7}),
        NO_PLATFORM,
    ),
)
K02 = cases(
    "K02",
    table_1(yes, "Table 1", FORKS, CALLS | PIPE, runc=1, gvisor=1),
    table_1(yes, "whatever eight workers do", FORKS, more=operations(NESTED_PAGES, 8)),
    table_1(no, "nested pages", NESTED_PAGES),
    table_1(unsure, "50 % longer", SHELL_AT_50),
    table_1(unsure, "no shell", NO_SHELL, lacks="operation fork-sh"),
    nothing("eight workers", operations(FORKS, 8), "workers 1"),
    nothing("no process", operations(CALLS | PIPE), "operation fork-exit"),
    nothing(
        "others",
        made("kernel-operations", {"operation": "fork-sh"}, {"native": 2917, "gvisor": 9000, "tcg": 40000}),
        NO_PLATFORM,
    ),
)


def forked(workers: int = 1, spread: float = EXACT, **seconds: float) -> list[Made]:
    """Section 4.3.1: 40000 processes."""
    return made("forkwait", {"processes": 40_000, "workers": workers}, seconds, spread=spread)


ONE_BLOCK = [*forked(native=94, virtualbox=624), *(replace(one, blocks=1) for one in forked(kvm=232))]
K03 = cases(
    "K03",
    yes("", forked(native=94, kvm=232, virtualbox=624, runc=95, gvisor=99), kvm=94 / 232, virtualbox=94 / 624),
    yes("whatever a nested one does", forked(native=94, kvm=232, nested=95), kvm=94 / 232, nested=94 / 95),
    yes("whatever eight workers do", [*forked(native=94, kvm=232), *forked(8, native=20, kvm=24)], kvm=94 / 232),
    no("", forked(native=94, kvm=150, virtualbox=624), kvm=94 / 150, virtualbox=94 / 624),
    unsure("twice as long", forked(spread=WIDE, native=94, kvm=190), kvm=94 / 190),
    unsure("one block", ONE_BLOCK, "one block", kvm=94 / 232, virtualbox=94 / 624),
    unsure("on another machine", forked(native=94, elsewhere=232), "comparable", elsewhere=()),
    nothing("others", forked(native=94, runc=95, gvisor=300, tcg=900), NO_PLATFORM),
    nothing("no forkwait", operations(FORKS), NO_VALUE),
    nothing("eight workers", forked(8, native=20, kvm=60), "workers 1"),
    nothing("nested", forked(native=94, nested=940), "results", nested=0.1),
)


BUILD = {"size": "paper", "timed": "unpack-and-build"}


def built(jobs: int, size: str = "paper", **seconds: float) -> list[Made]:
    return made("kernel-compile", BUILD | {"jobs": jobs, "size": size}, seconds)


def with_cores(vcpus: int, spread: float = EXACT, **seconds: float) -> list[Made]:
    """As suresh2014-cores builds: as many jobs as the guest has virtual CPUs."""
    found = made("kernel-compile", BUILD | {"jobs": "vcpus"}, seconds, spread=spread)
    return [replace(one, scale=ScalePoint(1, vcpus, 2 * GIB)) for one in found]


def cores(kvm: tuple[float, float], virtualbox: tuple[float, float], spread: float = EXACT) -> list[Made]:
    """With one core and with eight; with four they are far apart."""
    return [
        *with_cores(1, spread, native=900, kvm=kvm[0], virtualbox=virtualbox[0]),
        *with_cores(4, spread, native=250, kvm=900, virtualbox=300),
        *with_cores(8, spread, native=140, kvm=kvm[1], virtualbox=virtualbox[1]),
    ]


SIXTEEN = [*with_cores(1, native=900, kvm=1000, virtualbox=1100), *with_cores(16, native=80, kvm=120, virtualbox=125)]
BY_JOBS = [
    *built(1, native=900, kvm=1000, virtualbox=1100),
    *built(2, native=500, kvm=900, virtualbox=700),
    *built(8, native=140, kvm=200, virtualbox=180),
]
NO_VIRTUALBOX = [*built(1, kvm=1000, tcg=9000), *built(8, kvm=200, tcg=9000)]
OTHER_SOURCES = [*NO_VIRTUALBOX, *built(1, "quick", virtualbox=3), *built(8, "quick", virtualbox=1)]
K04 = cases(
    "K04",
    yes("", cores((1000, 200), (1100, 215)), kvm=(1.1, 215 / 200)),
    yes("by jobs", BY_JOBS, kvm=(1.1, 0.9)),
    yes("with sixteen", SIXTEEN, kvm=(1.1, 125 / 120)),
    no("by one core", cores((1100, 200), (1000, 215)), kvm=(1000 / 1100, 215 / 200), tests=(NO, YES)),
    no("KVM slow with eight", cores((1000, 300), (1100, 200)), kvm=(1.1, 200 / 300), tests=(YES, NO)),
    no("VirtualBox slow with eight", cores((1000, 200), (1100, 300)), kvm=(1.1, 1.5), tests=(YES, NO)),
    unsure("", cores((1000, 200), (1001, 250), WIDE), kvm=(1.001, 1.25)),
    unsure("one job", built(1, native=900, kvm=1000, virtualbox=1100), "jobs", kvm=1.1, tests=(YES, NONE)),
    nothing("no VirtualBox", NO_VIRTUALBOX, NO_OTHER_SIDE),
    nothing("no KVM", built(1, native=900, virtualbox=1100, tcg=9000), NO_PLATFORM),
    nothing("four jobs", built(4, native=250, kvm=900, virtualbox=300), "jobs"),
    nothing("four cores", with_cores(4, native=250, kvm=900, virtualbox=300), "jobs"),
    nothing("other sources", OTHER_SOURCES, NO_OTHER_SIDE),
)


def at_random(spread: float = EXACT, **seconds: Row) -> list[Made]:
    """Random reads, writes and both of 5 GiB in blocks of 32 KiB; reading in order says the contrary of them."""
    size = {"size_bytes": 5 * GIB, "block_bytes": 32 * 1024}
    found = made("fio", size | {"pattern": "read"}, dict.fromkeys(seconds, 60.0))
    for place, pattern in enumerate(("randread", "randwrite", "randrw")):
        row = {label: each[place] for label, each in seconds.items()}
        found += made("fio", size | {"pattern": pattern}, row, spread=spread)
    return found


HOST: Row = (100, 160, 130)
K05 = cases(
    "K05",
    yes(
        "",
        at_random(native=HOST, kvm=(170, 270, 210), virtualbox=(200, 320, 260), tcg=HOST, gvisor=HOST),
        kvm=(100 / 170, 160 / 270, 130 / 210),
        virtualbox=(0.5, 0.5, 0.5),
    ),
    no("reads from a cache", at_random(native=HOST, kvm=(105, 270, 210)), kvm=(100 / 105, 160 / 270, 130 / 210)),
    unsure("", at_random(WIDE, native=HOST, kvm=(133, 320, 260)), kvm=(100 / 133, 0.5, 0.5)),
    unsure(
        "no reads and writes",
        [one for one in at_random(native=HOST, kvm=(170, 270, 210)) if one.parameters["pattern"] != "randrw"],
        "pattern randrw",
        kvm=(100 / 170, 160 / 270),
    ),
    nothing("others", at_random(native=HOST, runc=HOST, gvisor=(400, 600, 500)), NO_PLATFORM),
    nothing("in order", made("fio", {"pattern": "write"}, {"native": 30, "kvm": 90}), "pattern randread"),
)

# Table 2: MB/s of copy, scale, add and triad ("traid"), by threads, on Ubuntu, VirtualBox and KVM.
TABLE_2: dict[int, tuple[Rates, Rates, Rates]] = {
    2: ((11040.1, 10581.0, 13919.2, 13363.9), (10470.3, 9935.5, 13006.6, 12432.3), (9152.0, 8628.4, 11664.0, 10190.0)),
    4: (
        (12476.7, 12435.6, 13911.0, 13971.8),
        (11830.1, 11821.0, 13412.5, 13331.8),
        (11429.1, 11462.3, 12690.3, 12420.5),
    ),
    8: (
        (12061.8, 12046.9, 13478.4, 13511.6),
        (11396.2, 11426.9, 12884.0, 12804.8),
        (10724.1, 10649.8, 12435.1, 12252.9),
    ),
}
KERNELS = ("copy_rate", "scale_rate", "add_rate", "triad_rate")
HOST_2, VIRTUALBOX_2, KVM_2 = TABLE_2[2]
SLOW_TRIAD: Rates = (9152, 8628, 11664, 9000)
SLOW: Rates = (900, 700, 600, 500)


def streamed(threads: int, spread: float = EXACT, **rates: Rates) -> list[Made]:
    """Ten million elements; the duration of it all says the contrary of the rates."""
    found = []
    for label, each in rates.items():
        asked, took = {"threads": threads, "elements": 10_000_000}, 3e9 if label == "native" else 9e9
        found.append(Made(label, "stream", asked, took, dict(zip(KERNELS, each, strict=True)), spread=spread))
    return found


def of_native(*both: tuple[Rates, Rates]) -> list[float]:
    """Native and another platform."""
    return [own / base for native, other in both for base, own in zip(native, other, strict=True)]


K06 = cases(
    "K06",
    yes(
        "Table 2",
        [
            one
            for threads, (native, virtualbox, kvm) in TABLE_2.items()
            for one in streamed(threads, native=native, virtualbox=virtualbox, kvm=kvm, tcg=SLOW, gvisor=SLOW)
        ],
        kvm=of_native(*((native, kvm) for native, _, kvm in TABLE_2.values())),
        virtualbox=of_native(*((native, virtualbox) for native, virtualbox, _ in TABLE_2.values())),
    ),
    no(
        "triad of KVM",
        streamed(2, native=HOST_2, virtualbox=VIRTUALBOX_2, kvm=SLOW_TRIAD),
        kvm=of_native((HOST_2, SLOW_TRIAD)),
        virtualbox=of_native((HOST_2, VIRTUALBOX_2)),
    ),
    unsure("triad of KVM", streamed(2, WIDE, native=HOST_2, kvm=KVM_2), kvm=of_native((HOST_2, KVM_2))),
    nothing("others", streamed(2, native=HOST_2, runc=HOST_2, tcg=SLOW), NO_PLATFORM),
    nothing("no rate", made("stream", {}, {"native": 3, "kvm": 3}), NO_VALUE),
)

# Section 4.4.4: Mbit/s over a link of 100 Mbit/s, and between two guests.
EIGHT = {"connections": 8}
LINK = {"link_rate_bits_per_second": 100_000_000, "size": 119 * MIB}
GIGABIT = LINK | {"link_rate_bits_per_second": 1_000_000_000}
BRIDGE = {"between": "guests", "path": "bridge", "size": 1200 * MIB}
ROUTED = BRIDGE | {"path": "peer"}


def sent(parameters: Mapping[str, Any], spread: float = EXACT, **mbit: float) -> list[Made]:
    """TCP streams at such rates, as long as their size takes at that."""
    ns = 8e3 * parameters["size"]
    return [
        Made(label, "tcp-stream", parameters, ns / rate, {"throughput": rate}, spread=spread)
        for label, rate in mbit.items()
    ]


K07 = cases(
    "K07",
    yes(
        "",
        [
            *sent(LINK, native=95.13, virtualbox=91.61, kvm=93.08, tcg=60, gvisor=50),
            *sent(GIGABIT, native=940, virtualbox=300, kvm=400),
            *sent(LINK | EIGHT, native=95, virtualbox=70, kvm=60),
            *sent(BRIDGE, virtualbox=453.29, kvm=528.64),
        ],
        virtualbox=91.61 / 95.13,
        kvm=93.08 / 95.13,
    ),
    no("VirtualBox", sent(LINK, native=95.13, virtualbox=84, kvm=93.08), virtualbox=84 / 95.13, kvm=93.08 / 95.13),
    unsure("", sent(LINK, WIDE, native=95.13, kvm=90.4), kvm=90.4 / 95.13),
    nothing("other ways", [*sent(GIGABIT, native=940, kvm=400), *sent(ROUTED, kvm=95)], "100000000"),
    nothing("eight connections", sent(LINK | EIGHT, native=95, kvm=94), "connections 1"),
    nothing("others", sent(LINK, native=95.13, runc=95, gvisor=94), NO_PLATFORM),
)
K08 = cases(
    "K08",
    yes(
        "",
        [
            *sent(LINK, native=95.13, virtualbox=91.61, kvm=93.08, tcg=90, gvisor=90),
            *sent(GIGABIT, native=940, virtualbox=400, kvm=450),
            *sent(LINK | EIGHT, native=95, virtualbox=94, kvm=94),
            *sent(BRIDGE | EIGHT, virtualbox=200, kvm=250),
            *sent(BRIDGE, virtualbox=453.29, kvm=528.64, tcg=200, gvisor=200),
        ],
        virtualbox=453.29 / 91.61,
        kvm=528.64 / 93.08,
    ),
    no(
        "by the peer",
        [*sent(LINK, kvm=93.08), *sent(BRIDGE, kvm=528.64), *sent(ROUTED, kvm=300)],
        kvm=(528.64 / 93.08, 300 / 93.08),
    ),
    unsure("", [*sent(LINK, WIDE, kvm=93.08), *sent(BRIDGE, WIDE, kvm=373)], kvm=373 / 93.08),
    nothing("no link", [*sent(GIGABIT, kvm=450), *sent(BRIDGE, kvm=528.64)], NO_OTHER_SIDE),
    nothing("eight connections", [*sent(LINK, kvm=93.08), *sent(BRIDGE | EIGHT, kvm=900)], "connections 1"),
    nothing("eight over the link", [*sent(LINK | EIGHT, kvm=93.08), *sent(BRIDGE, kvm=528.64)], NO_OTHER_SIDE),
    nothing("no other guest", sent(LINK, native=95.13, kvm=93.08), "between guests"),
    nothing("others", [*sent(LINK, runc=95), *sent(BRIDGE, runc=9000)], NO_PLATFORM),
)

WAN = {"link_rate_bits_per_second": 100_000_000}


def served(rate: float, spread: float = EXACT, **ms: Values) -> list[Made]:
    """The median response time of a web server at so many requests/s; Figure 5 has the paper's, in a drawing."""
    return made("nginx", WAN | {"rate_requests_per_second": rate, "requests": 20_000}, ms, 1e6, spread)


K09 = cases(
    "K09",
    yes(
        "whatever VirtualBox does",
        [
            *served(100, native=1, kvm=(1.5, 1.5, 1.7), virtualbox=(1.5, 1.5, 1.7)),
            *served(1600, native=2, kvm=(3, 3.1, 12), virtualbox=(3, 3.1, 3.5)),
            *served(1600, tcg=(9, 9.1, 9.3), runc=(2, 2, 2.1), gvisor=(4, 4, 4.2)),
        ],
        kvm=3 / 12,
    ),
    no("half as long again", served(1600, kvm=(3, 3.1, 4.5), virtualbox=(3, 3, 9)), kvm=3 / 4.5),
    unsure("twice as long", served(1600, WIDE, kvm=(3, 3, 6.1)), kvm=3 / 6.1),
    nothing("VirtualBox", served(1600, native=2, virtualbox=(3, 3.1, 3.5)), NO_PLATFORM),
    nothing("idle guests", served(1600, native=2, kvm=(3, 3.1)), "beside heavy"),
)

# Table 3: transactions/s of the guest alone, beside idle guests, beside highly loaded ones; by threads.
VIRTUALBOX_3: dict[int, Row] = {2: (200.37, 201.20, 89.05), 4: (329.06, 326.57, 105.13), 8: (137.74, 137.23, 78.72)}
KVM_3: dict[int, Row] = {2: (215.22, 217.13, 85.24), 4: (349.12, 356.91, 101.60), 8: (531.56, 544.71, 82.81)}


def answered(threads: int = 4, spread: float = EXACT, **rates: Values) -> list[Made]:
    """Asked for by another machine."""
    asked = WAN | {"threads": threads, "transactions": 10_000, "rows": 100_000}
    return made("mariadb-oltp-outside", asked, rates, 1, spread)


def asked_inside(**rates: Values) -> list[Made]:
    """By the guest itself; the duration of it all says the contrary of the rate."""
    found = made("mariadb-oltp", {"threads": 4, "transactions": 10_000}, rates, 1)
    return [replace(one, value=9e9, figures={"transactions_per_second": one.value}) for one in found]


def of_alone(rows: Mapping[int, Row]) -> list[float]:
    return [beside / alone for alone, *others in rows.values() for beside in others]


NO_MATTER = (100.0, 80.0, 99.0)  # less beside idle guests, and as much beside loaded ones
K10 = cases(
    "K10",
    yes(
        "Table 3",
        [
            one
            for threads, row in KVM_3.items()
            for one in answered(threads, kvm=row, virtualbox=VIRTUALBOX_3[threads], tcg=NO_MATTER, gvisor=NO_MATTER)
        ],
        virtualbox=of_alone(VIRTUALBOX_3),
        kvm=of_alone(KVM_3),
    ),
    yes(
        "inside and outside",
        [*answered(kvm=(349, 357, 102)), *asked_inside(kvm=(900, 890, 300))],
        kvm=(357 / 349, 102 / 349, 890 / 900, 300 / 900),
    ),
    no("by heavy load", answered(kvm=(349, 357, 235)), kvm=(357 / 349, 235 / 349), tests=(YES, NO)),
    no("less beside idle", answered(kvm=(349, 314, 102)), kvm=(314 / 349, 102 / 349), tests=(NO, YES)),
    no("more beside idle", answered(kvm=(349, 384, 102)), kvm=(384 / 349, 102 / 349), tests=(NO, YES)),
    no("by heavy load alone", answered(kvm=(349, None, 300)), "beside idle", kvm=300 / 349, tests=(NONE, NO)),
    unsure("heavy load alone", answered(kvm=(349, None, 102)), "beside idle", kvm=102 / 349, tests=(NONE, YES)),
    unsure("5 and 40 %", answered(4, WIDE, kvm=(349, 331, 209)), kvm=(331 / 349, 209 / 349)),
    nothing("the guest alone", answered(native=400, kvm=349), "beside"),
    nothing("others", answered(native=400, runc=(400, 300, 390)), NO_PLATFORM),
)

# Table 4: seconds alone, beside idle guests, beside highly loaded ones.
VIRTUALBOX_4, KVM_4 = (878.0, 896.0, 1530.0), (817.0, 836.0, 1276.0)


def rendered(spread: float = EXACT, **seconds: Values) -> list[Made]:
    return made("povray", {"pixels": 512, "threads": 8}, seconds, spread=spread)


K11 = cases(
    "K11",
    yes(
        "Table 4",
        rendered(native=830, virtualbox=VIRTUALBOX_4, kvm=KVM_4, gvisor=(830, 1000, 900), tcg=(9000, 9900, 9900)),
        virtualbox=(878 / 896, 878 / 1530),
        kvm=(817 / 836, 817 / 1276),
    ),
    no("by heavy load", rendered(kvm=(817, 836, 1090)), kvm=(817 / 836, 817 / 1090), tests=(YES, NO)),
    no("by idle guests", rendered(kvm=(817, 899, 1276)), kvm=(817 / 899, 817 / 1276), tests=(NO, YES)),
    unsure("5 and 50 %", rendered(WIDE, kvm=(817, 858, 1230)), kvm=(817 / 858, 817 / 1230)),
    unsure("idle guests alone", rendered(kvm=(817, 836)), "beside heavy", kvm=817 / 836, tests=(YES, NONE)),
    nothing("the guest alone", rendered(native=830, kvm=817), "beside"),
    nothing("others", rendered(native=830, runc=(830, 835, 1300)), NO_PLATFORM),
)
K12 = cases(
    "K12",
    yes(
        "Table 4",
        rendered(native=830, virtualbox=VIRTUALBOX_4, kvm=KVM_4, tcg=9000, gvisor=1000),
        virtualbox=830 / 878,
        kvm=830 / 817,
    ),
    no("", rendered(native=830, virtualbox=990, kvm=817), virtualbox=830 / 990, kvm=830 / 817),
    unsure("", rendered(WIDE, native=830, virtualbox=912), virtualbox=830 / 912),
    nothing("others", rendered(native=830, runc=830, tcg=9000), NO_PLATFORM),
    nothing("no scene", forked(native=94, kvm=232), NO_VALUE),
)

CASES = [*K01, *K02, *K03, *K04, *K05, *K06, *K07, *K08, *K09, *K10, *K11, *K12]
