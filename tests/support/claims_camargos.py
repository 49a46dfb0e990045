"""The claims of Camargos, Girard and des Ligneris 2008 on made-up runs whose truth is known.

The values are such as their figures might show on their host: seconds of a job, MB/s of dbench. Of results they print
no more than "less than 30 %" and "half as good".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.support.claim_cases import NO, NONE, YES, ClaimCase, cases
from tests.support.made_up_run import Made

from virtoll.claims import Outcome
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.runfolder.scale import ScalePoint
from virtoll.workloads import WORKLOADS

PLATFORMS: Mapping[str, Mapping[str, Any]] = {
    **{name: {} for name in ("native", "vserver", "openvz", "runc", "runsc", "uml", "firecracker", "kqemu")},
    "old_runsc": {"platform": "runsc", "family": "os-level"},  # as Virtoll 0.1.0 recorded it
    "xen": {"parameters": {"type": "pv"}},
    "hvm": {"platform": "xen", "parameters": {"type": "hvm", "nic": "e1000"}},
    "kvm": {"platform": "qemu-kvm"},
    "kvm_e1000": {"platform": "qemu-kvm", "parameters": {"nic": "e1000"}},
    "cloud": {"platform": "cloud-hypervisor"},
    "libvirt_kvm": {"platform": "libvirt", "parameters": {"domain_type": "kvm"}},
    "virtualbox": {"parameters": {"nic": "82540EM"}},
    "tcg": {"platform": "qemu-tcg"},
    "tcg_rtl8139": {"platform": "qemu-tcg", "parameters": {"nic": "rtl8139"}},
    "nested_xen": {"platform": "xen", "host": "nested xen", "caveat": FUNCTIONAL_ONLY},
    "nested_kvm": {"platform": "qemu-kvm", "host": "nested kvm", "caveat": FUNCTIONAL_ONLY},
    "nested_virtualbox": {"platform": "virtualbox", "host": "nested kvm", "caveat": FUNCTIONAL_ONLY},
}
MIB = 2**20
# What parameters do not say here is as experiment/presets/camargos2008*.yaml have it at size paper.
DBENCH = {"clients": 100, "seconds": 300}
STREAM = {"size": 1200 * MIB, "direction": "to-guest"}
FETCHED = {"direction": "from-guest", "client": "peer", "files": "disk", "peer_files": "disk"}
TREE, FILE = {"tree": "paper", **FETCHED}, {"size_bytes": 433 * MIB, **FETCHED}
BUILD, OLTP = {"size": "paper", "jobs": 1}, {"transactions": 10_000, "rows": 10_000}
MEMORY_MIB = {1: 2039, 2: 1622, 4: 811, 8: 405, 16: 202, 32: 101}  # Table 4


def jobs(
    workload: str,
    parameters: Mapping[str, object],
    *,
    spread: float = 0.01,
    blocks: int | None = None,
    clock_error: float = 0.0,
    **seconds: float,
) -> list[Made]:
    """How many seconds a job takes on each platform."""
    return [
        Made(label, workload, parameters, 1e9 * one, spread=spread, blocks=blocks, clock_error=clock_error)
        for label, one in seconds.items()
    ]


def dbench(*, spread: float = 0.01, **rates: float) -> list[Made]:
    """What each platform serves, in MB/s."""
    return [Made(label, "dbench", DBENCH, 1e6 * rate, spread=spread) for label, rate in rates.items()]


def at_once(
    workload: str, parameters: Mapping[str, object], *, spread: float = 0.01, **seconds: Mapping[int, float]
) -> list[Made]:
    """How many seconds each of so many guests needs for its job, on each platform."""
    return [
        Made(label, workload, parameters, 1e9 * one, figures(workload), scale=point(guests), spread=spread)
        for label, of in seconds.items()
        for guests, one in of.items()
    ]


def point(guests: int) -> ScalePoint:
    """So many guests, as Table 4 has them."""
    return ScalePoint(guests, 1, MEMORY_MIB[guests] * MIB)


def figures(workload: str) -> dict[str, float]:
    """All of a workload's further figures, which no claim is on."""
    return {one.name: 1.0 for one in WORKLOADS[workload].metrics[1:] if one.source == "figures"}


compiled = partial(jobs, "kernel-compile", BUILD)
packed = partial(jobs, "bzip2", {"size_bytes": 433 * MIB, "files": "disk"})
copied = partial(jobs, "dd", {"source": "image", "size_bytes": 433 * MIB})
zeros = partial(jobs, "dd", {"source": "zeros", "size_bytes": 60_000_030_720})
received = partial(jobs, "tcp-stream", STREAM)
fetched_tree, fetched_file = partial(jobs, "rsync-tree", TREE), partial(jobs, "rsync-file", FILE)
transacted = partial(jobs, "mariadb-oltp", OLTP)
compiled_at_once = partial(at_once, "kernel-compile", BUILD)
transacted_at_once = partial(at_once, "mariadb-oltp", OLTP)


@dataclass(frozen=True)
class Case(ClaimCase):
    """`shares`: by platform and what it is compared with, its share of that one's performance.

    `tests`: the outcome of each test; (): that of the claim.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    tests: tuple[Outcome, ...] = ()


yes, no, unsure, nothing = (partial(Case, outcome) for outcome in Outcome)

C01 = cases(
    "C01",
    yes(
        "",
        compiled(native=1500, vserver=1520, openvz=1700, xen=1650, kvm=2100, virtualbox=7500),
        {"vserver/native": 1500 / 1520, "openvz/native": 1500 / 1700, "kvm/virtualbox": 7500 / 2100},
    ),
    yes(
        "gvisor uml and nested are no witnesses",
        [
            *compiled(native=1500, xen=1650, kvm=2100, kqemu=6300, tcg=26000),
            *compiled(runsc=4000, old_runsc=4000, uml=6000, nested_xen=9000, nested_virtualbox=2200),
        ],
        {"xen/native": 1500 / 1650, "kvm/kqemu": 3.0, "kvm/tcg": 26 / 2.1},
    ),
    yes(
        "products of kvm are no rivals",
        compiled(
            native=1500, xen=1650, kvm=2100, kvm_e1000=2100, firecracker=2000, cloud=2000, libvirt_kvm=2150, tcg=26000
        ),
    ),
    no(
        "by xen",
        compiled(native=1500, vserver=1520, xen=3000, kvm=2100, virtualbox=7500),
        {"xen/native": 0.5},
        tests=(NO, YES),
    ),
    no(
        "by virtualbox",
        compiled(native=1500, vserver=1520, kvm=2100, virtualbox=2310, tcg=26000),
        {"kvm/virtualbox": 1.1},
        tests=(YES, NO),
    ),
    no("by kqemu", compiled(native=1500, vserver=1520, kvm=2100, kqemu=2310), {"kvm/kqemu": 1.1}, tests=(YES, NO)),
    no("by a part", compiled(native=1500, openvz=3000), {"openvz/native": 0.5}, tests=(NO, NONE)),
    unsure(
        "",
        compiled(native=1500, xen=1875, kvm=2100, virtualbox=4200, spread=0.05),
        {"xen/native": 0.8, "kvm/virtualbox": 2.0},
    ),
    unsure("without kvm", compiled(native=1500, vserver=1520, virtualbox=7500), tests=(YES, NONE)),
    nothing("", compiled(native=1500, runsc=1600, uml=1700, kvm=1550, nested_xen=3000, nested_virtualbox=9000)),
)
C02 = cases(
    "C02",
    yes(
        "whatever its exceptions do",
        packed(native=75, vserver=76, xen=80, kvm=82, virtualbox=85, openvz=150, kqemu=200, tcg=1500, nested_kvm=900),
        {"vserver/native": 75 / 76, "virtualbox/native": 75 / 85},
    ),
    no("", packed(native=75, vserver=76, virtualbox=125), {"virtualbox/native": 0.6}),
    unsure("", packed(native=76, vserver=77, xen=95, spread=0.05), {"xen/native": 0.8}),
    unsure("by one block", packed(native=75, xen=76, blocks=1)),
    nothing("", packed(native=75, openvz=76, kqemu=77, tcg=78)),
)
C03 = cases(
    "C03",
    yes(
        "whatever virtualbox did",
        dbench(native=250, vserver=245, openvz=60, xen=50, kvm=40, virtualbox=240, nested_xen=240),
        {"vserver/native": 0.98, "openvz/native": 0.24, "xen/native": 0.2, "kvm/native": 0.16},
    ),
    no("by vserver", dbench(native=250, vserver=125, xen=50), {"vserver/native": 0.5}, tests=(NO, YES)),
    no("by xen", dbench(native=250, vserver=245, openvz=60, xen=200), {"xen/native": 0.8}, tests=(YES, NO)),
    no("by a part", dbench(native=250, kvm=150), {"kvm/native": 0.6}, tests=(NONE, NO)),
    unsure("", dbench(native=250, vserver=200, xen=75, spread=0.06), {"vserver/native": 0.8, "xen/native": 0.3}),
    unsure("without vserver", dbench(native=250, openvz=60, xen=50), tests=(NONE, YES)),
    nothing("", dbench(native=250, virtualbox=40, nested_xen=200)),
    nothing("by bzip2", packed(native=75, vserver=76, xen=300)),
)
C04 = cases(
    "C04",
    yes(
        "",
        [
            *copied(native=11, vserver=8, xen=12.5, kvm=13, openvz=27.5, runc=30, virtualbox=40, nested_kvm=60),
            *zeros(native=38, vserver=38, xen=60, kvm=42, openvz=55),
        ],
        {
            "vserver/native": 11 / 8,
            "xen/native": 0.88,
            "kvm/native": 11 / 13,
            "openvz/native": 0.4,
            "xen/image, 433 MiB": 38 / 60 / 0.88,
        },
    ),
    no("by vserver", copied(native=11, vserver=11, xen=12), {"vserver/native": 1.0}, tests=(NO, YES, NONE, NONE)),
    no("by kvm", copied(native=11, vserver=8, kvm=22, openvz=27.5), {"kvm/native": 0.5}, tests=(YES, NO, YES, NONE)),
    no(
        "by openvz",
        copied(native=11, vserver=8, kvm=13, openvz=13.75),
        {"openvz/native": 0.8},
        tests=(YES, YES, NO, NONE),
    ),
    no(
        "by zeros on xen",
        [*copied(native=11, xen=13.75), *zeros(native=38, xen=38)],
        {"xen/image, 433 MiB": 1.25},
        tests=(NONE, YES, NONE, NO),
    ),
    unsure(
        "",
        [*copied(native=11, vserver=10, xen=15.7, openvz=22, spread=0.06), *zeros(native=38, xen=54.2, spread=0.06)],
        {"vserver/native": 1.1, "xen/native": 0.7, "openvz/native": 0.5, "xen/image, 433 MiB": 1.0},
    ),
    unsure("with kvm alone", copied(native=11, kvm=13), tests=(NONE, YES, NONE, NONE)),
    nothing("with zeros alone", zeros(native=38, vserver=80, kvm=100, xen=60, openvz=40)),
    nothing("", [*copied(native=11, runc=40, virtualbox=40, nested_xen=40), *zeros(native=38, runc=90)]),
)
C05 = cases(
    "C05",
    yes(
        "whatever virtualbox does",
        received(native=10.7, openvz=10.8, xen=11.5, kvm_e1000=45, tcg_rtl8139=60, kvm=20, virtualbox=11, runsc=40),
        {"kvm_e1000/native": 10.7 / 45, "openvz/native": 10.7 / 10.8, "xen/native": 10.7 / 11.5},
    ),
    yes(
        "by hvm as emulated",
        received(native=10.7, vserver=10.8, hvm=50, nested_kvm=40, nested_xen=40),
        {"hvm/native": 0.214},
    ),
    no(
        "by an emulated nic",
        received(native=10.7, vserver=10.8, kvm_e1000=12),
        {"kvm_e1000/native": 10.7 / 12},
        tests=(NO, YES),
    ),
    no("by xen", received(native=10.7, vserver=10.8, xen=21.4, kvm_e1000=45), {"xen/native": 0.5}, tests=(YES, NO)),
    unsure(
        "",
        received(native=10.7, kvm_e1000=21.4, openvz=13.375, spread=0.05),
        {"kvm_e1000/native": 0.5, "openvz/native": 0.8},
    ),
    unsure("without an emulated nic", received(native=10.7, vserver=10.8, kvm=20), tests=(NONE, YES)),
    nothing("", received(native=10.7, kvm=20, virtualbox=45, runsc=40, nested_xen=40)),
    nothing(
        "from the guest or on a slower link",
        [
            *jobs("tcp-stream", {**STREAM, "direction": "from-guest"}, native=10.7, vserver=30, kvm_e1000=11),
            *jobs("tcp-stream", {**STREAM, "link_rate_bits_per_second": 10**8}, native=101, vserver=300, kvm_e1000=102),
            *jobs("tcp-stream", {**STREAM, "between": "guests"}, native=10.7, vserver=30, kvm_e1000=11),
        ],
    ),
)
C06 = cases(
    "C06",
    yes(
        "",
        [
            *fetched_tree(native=95, vserver=97, openvz=100, kvm_e1000=240, kvm=120, tcg_rtl8139=100, xen=140),
            *fetched_file(native=42, vserver=43, openvz=44, kvm_e1000=110, virtualbox=44, runsc=150, nested_kvm=44),
        ],
        {"vserver/native": 42 / 43, "kvm_e1000/native": 42 / 110},
    ),
    no(
        "by openvz with a file",
        [
            *fetched_tree(native=95, vserver=97, openvz=100, kvm_e1000=240),
            *fetched_file(native=42, vserver=43, openvz=70, kvm_e1000=110),
        ],
        {"openvz/native": 0.6},
        tests=(YES, NO, YES, YES),
    ),
    no(
        "by kvm with a tree",
        [*fetched_tree(native=95, vserver=97, kvm_e1000=118.75), *fetched_file(native=42, vserver=43, kvm_e1000=110)],
        {"kvm_e1000/native": 0.8},
        tests=(YES, YES, NO, YES),
    ),
    no(
        "with a tree alone",
        fetched_tree(native=95, vserver=97, kvm_e1000=118.75),
        {"kvm_e1000/native": 0.8},
        tests=(YES, NONE, NO, NONE),
    ),
    unsure(
        "",
        [
            *fetched_tree(native=95, openvz=118.75, kvm_e1000=190, spread=0.05),
            *fetched_file(native=42, openvz=52.5, kvm_e1000=84, spread=0.05),
        ],
        {"openvz/native": 0.8, "kvm_e1000/native": 0.5},
    ),
    unsure(
        "with a tree alone",
        fetched_tree(native=95, vserver=97, kvm_e1000=240),
        {"vserver/native": 95 / 97, "kvm_e1000/native": 95 / 240},
        tests=(YES, NONE, YES, NONE),
    ),
    unsure(
        "with a file alone",
        [
            *fetched_file(native=42, vserver=43, kvm_e1000=110),
            *jobs("rsync-tree", {**TREE, "direction": "to-guest"}, native=95, vserver=200, kvm_e1000=96),
        ],
        {"vserver/native": 42 / 43, "kvm_e1000/native": 42 / 110},
        tests=(NONE, YES, NONE, YES),
    ),
    unsure(
        "without an emulated nic",
        [*fetched_tree(native=95, vserver=97, kvm=96), *fetched_file(native=42, vserver=43, kvm=43)],
        tests=(YES, YES, NONE, NONE),
    ),
    nothing(
        "",
        [
            *fetched_tree(native=95, kvm=96, xen=250, runsc=300, tcg_rtl8139=100),
            *jobs("rsync-file", {**FILE, "direction": "to-guest"}, native=42, vserver=90, kvm_e1000=43),
        ],
    ),
)
C07 = cases(
    "C07",
    yes(
        "",
        transacted(native=40, vserver=42, xen=46, kvm=80, openvz=76, virtualbox=300, kqemu=41, runc=80, nested_xen=90),
        {"vserver/native": 40 / 42, "xen/native": 40 / 46, "kvm/native": 0.5, "openvz/native": 40 / 76},
    ),
    no("by xen", transacted(native=40, vserver=42, xen=80, kvm=80), {"xen/native": 0.5}, tests=(NO, YES)),
    no("by a fast kvm", transacted(native=40, vserver=42, kvm=56, openvz=80), {"kvm/native": 40 / 56}, tests=(YES, NO)),
    no("by a slow openvz", transacted(native=40, openvz=120), {"openvz/native": 1 / 3}, tests=(NONE, NO)),
    unsure(
        "",
        transacted(native=40, vserver=50, kvm=66.7, openvz=100, spread=0.05),
        {"vserver/native": 0.8, "kvm/native": 0.6, "openvz/native": 0.4},
    ),
    unsure("without kvm and openvz", transacted(native=40, vserver=42, xen=46), tests=(YES, NONE)),
    nothing(
        "", [*transacted(native=40, runc=80, virtualbox=42, nested_kvm=41), *compiled(native=1500, xen=2000, kvm=1600)]
    ),
)
C08 = cases(
    "C08",
    yes(
        "whatever its exceptions do",
        [
            *transacted_at_once(
                native={2: 42, 4: 60, 8: 75},
                vserver={1: 40, 2: 47, 4: 77, 8: 188, 16: 640, 32: 1300},
                xen={1: 40, 2: 55, 4: 85, 8: 188, 16: 400, 32: 900},
                kvm={4: 160, 8: 200},
                virtualbox={4: 80, 8: 115, 16: 115},
                runsc={4: 90, 8: 100},
                nested_xen={4: 90, 8: 100},
            ),
            *at_once("mariadb-oltp", {**OLTP, "server": "shared"}, native={4: 60, 8: 70}),
        ],
        {"vserver/4 guests": 77 / 40 / 4, "xen/4 guests": 4 * 85 / 400},
    ),
    no(
        "by vserver",
        transacted_at_once(native={2: 42, 4: 60}, vserver={2: 47, 4: 77, 8: 100}),
        {"vserver/4 guests": 2 * 77 / 100},
    ),
    no("by xen with 32", transacted_at_once(native={4: 60, 32: 300}, xen={4: 80, 32: 512}), {"xen/4 guests": 1.25}),
    unsure(
        "",
        transacted_at_once(native={4: 60}, vserver={2: 40, 4: 77}, xen={4: 85, 8: 170}, spread=0.05),
        {"vserver/4 guests": 77 / 80, "xen/4 guests": 1.0},
    ),
    unsure(
        "where it rises as far as it was measured",
        transacted_at_once(native={4: 60}, vserver={1: 40, 2: 47, 4: 77}),
        {"vserver/4 guests": 77 / 40 / 4},
    ),
    nothing(
        "",
        transacted_at_once(
            native={2: 42, 4: 60, 8: 75}, kvm={4: 160, 8: 200}, runsc={4: 90, 8: 300}, uml={4: 80, 8: 300}
        ),
    ),
    nothing("without four", transacted_at_once(native={2: 42}, vserver={2: 47, 8: 188})),
    nothing("with four alone", transacted_at_once(native={4: 60}, vserver={4: 77})),
    nothing("with one guest", transacted(native=40, vserver=42, xen=46)),
)
C09 = cases(
    "C09",
    yes(
        "whatever its exceptions do",
        compiled_at_once(
            native={1: 1500, 2: 1500, 4: 3000, 32: 24000},
            vserver={1: 3000, 2: 1530, 4: 3000, 32: 24500},
            xen={1: 3000, 2: 1600, 4: 3200, 32: 32000},
            kvm={2: 2500, 4: 5000},
            runsc={2: 4000, 4: 9000},
            nested_xen={2: 4000, 32: 24000},
        ),
        {"vserver/native": 1500 / 1530, "xen/native": 0.9375, "xen/2 guests": 0.8},
    ),
    no(
        "by vserver with 32",
        compiled_at_once(native={2: 1500, 32: 24000}, vserver={2: 1520, 32: 40000}),
        {"vserver/native": 0.6},
        tests=(NO, NONE, NONE),
    ),
    no(
        "by xen",
        compiled_at_once(native={2: 1500, 4: 3000}, vserver={2: 1520}, xen={2: 1600, 4: 5000}),
        {"xen/native": 0.6},
        tests=(YES, NO, NONE),
    ),
    no(
        "by xen with 32",
        compiled_at_once(
            native={4: 3000, 8: 6000, 16: 12000, 32: 24000},
            vserver={4: 3030},
            xen={4: 3330, 8: 6900, 16: 13800, 32: 24000},
        ),
        {"xen/4 guests": 1.11, "xen/8 guests": 1.15, "xen/16 guests": 1.15},
        tests=(YES, YES, NO),
    ),
    unsure(
        "",
        compiled_at_once(native={4: 3000, 32: 24000}, vserver={4: 3333}, xen={4: 3600, 32: 28800}, spread=0.1),
        {"vserver/native": 0.9, "xen/native": 1 / 1.2, "xen/4 guests": 1.0},
    ),
    unsure("without xen", compiled_at_once(native={2: 1500}, vserver={2: 1520}), tests=(YES, NONE, NONE)),
    nothing(
        "",
        compiled_at_once(native={1: 1500, 4: 3000}, vserver={1: 3000}, xen={1: 3000}, kvm={4: 6000}, runsc={4: 9000}),
    ),
    nothing("with one guest", compiled(native=1500, vserver=3000, xen=3000)),
)
C10 = cases(
    "C10",
    yes(
        "",
        [
            *copied(native=11, kvm=13, tcg=60),
            *zeros(native=38, kvm=42, tcg=700),
            *copied(virtualbox=30, clock_error=-0.12),
            *zeros(virtualbox=90, clock_error=-0.12),
            *copied(kqemu=40, clock_error=0.3),
            *zeros(kqemu=200, clock_error=0.3),
            *copied(nested_virtualbox=40),
            *zeros(nested_virtualbox=200),
        ],
        {"virtualbox/": 0.12, "kqemu/": 0.3},
    ),
    no(
        "",
        [*copied(virtualbox=30, clock_error=0.08), *zeros(native=38, virtualbox=90, clock_error=0.08)],
        {"virtualbox/": 0.08},
    ),
    no(
        "by one of both",
        [
            *copied(kqemu=40, clock_error=0.3),
            *zeros(native=38, kqemu=200, clock_error=0.3),
            *copied(virtualbox=30),
            *zeros(virtualbox=90),
        ],
        {"kqemu/": 0.3},
    ),
    unsure(
        "where the error varies",
        [*copied(virtualbox=30, clock_error=0.02), *zeros(native=38, virtualbox=90, clock_error=0.3)],
    ),
    unsure("by one length", [*zeros(native=38), *zeros(virtualbox=90, clock_error=0.3)]),
    unsure(
        "by two blocks",
        [
            *copied(native=11, virtualbox=30, clock_error=0.3, blocks=2),
            *zeros(native=38, virtualbox=90, clock_error=0.3, blocks=2),
        ],
    ),
    nothing(
        "",
        [
            *copied(native=11, kvm=13, tcg=60, nested_virtualbox=40, clock_error=0.3),
            *zeros(native=38, kvm=42, tcg=700, nested_virtualbox=200, clock_error=0.3),
        ],
    ),
)

CASES = [*C01, *C02, *C03, *C04, *C05, *C06, *C07, *C08, *C09, *C10]
