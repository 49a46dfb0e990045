"""The claims of Camargos, Girard and des Ligneris 2008, each on runs whose truth is known: all four outcomes.

The values are such as their figures might show on their host: seconds of a job, MB/s of dbench. Of results they print
no more than "less than 30 %" and "half as good".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import pytest
from tests.support.made_up_run import Made, made_up_run

from virtoll.campaign.preview import catalogue, plan_of
from virtoll.claims import Judged, Outcome, judge_claims, published_claims
from virtoll.experiment.parse import find_experiment, load_experiment
from virtoll.experiment.selection import Selection
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import analyse
from virtoll.workloads import WORKLOADS

BY_ID = {one.id: one for one in published_claims() if one.paper == "camargos2008"}
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

# By claim, outcome and circumstance: what was measured, what each test says of it, and by platform and what it is
# compared with its share of that one's performance.
Case = tuple[Sequence[Made], str, Mapping[str, float]]
CASES: dict[str, Case] = {
    "C01-supported": (
        compiled(native=1500, vserver=1520, openvz=1700, xen=1650, kvm=2100, virtualbox=7500),
        "supported, supported",
        {"vserver/native": 1500 / 1520, "openvz/native": 1500 / 1700, "kvm/virtualbox": 7500 / 2100},
    ),
    "C01-supported-gvisor-uml-and-nested-are-no-witnesses": (
        [
            *compiled(native=1500, xen=1650, kvm=2100, kqemu=6300, tcg=26000),
            *compiled(runsc=4000, old_runsc=4000, uml=6000, nested_xen=9000, nested_virtualbox=2200),
        ],
        "supported, supported",
        {"xen/native": 1500 / 1650, "kvm/kqemu": 3.0, "kvm/tcg": 26 / 2.1},
    ),
    "C01-supported-products-of-kvm-are-no-rivals": (
        compiled(
            native=1500, xen=1650, kvm=2100, kvm_e1000=2100, firecracker=2000, cloud=2000, libvirt_kvm=2150, tcg=26000
        ),
        "supported, supported",
        {},
    ),
    "C01-refuted-by-xen": (
        compiled(native=1500, vserver=1520, xen=3000, kvm=2100, virtualbox=7500),
        "refuted, supported",
        {"xen/native": 0.5},
    ),
    "C01-refuted-by-virtualbox": (
        compiled(native=1500, vserver=1520, kvm=2100, virtualbox=2310, tcg=26000),
        "supported, refuted",
        {"kvm/virtualbox": 1.1},
    ),
    "C01-refuted-by-kqemu": (
        compiled(native=1500, vserver=1520, kvm=2100, kqemu=2310),
        "supported, refuted",
        {"kvm/kqemu": 1.1},
    ),
    "C01-refuted-by-a-part": (compiled(native=1500, openvz=3000), "refuted, not measured", {"openvz/native": 0.5}),
    "C01-not-decided": (
        compiled(native=1500, xen=1875, kvm=2100, virtualbox=4200, spread=0.05),
        "not decided, not decided",
        {"xen/native": 0.8, "kvm/virtualbox": 2.0},
    ),
    "C01-not-decided-without-kvm": (
        compiled(native=1500, vserver=1520, virtualbox=7500),
        "supported, not measured",
        {},
    ),
    "C01-not-measured": (
        compiled(native=1500, runsc=1600, uml=1700, kvm=1550, nested_xen=3000, nested_virtualbox=9000),
        "not measured, not measured",
        {},
    ),
    "C02-supported-whatever-its-exceptions-do": (
        packed(native=75, vserver=76, xen=80, kvm=82, virtualbox=85, openvz=150, kqemu=200, tcg=1500, nested_kvm=900),
        "supported",
        {"vserver/native": 75 / 76, "virtualbox/native": 75 / 85},
    ),
    "C02-refuted": (packed(native=75, vserver=76, virtualbox=125), "refuted", {"virtualbox/native": 0.6}),
    "C02-not-decided": (packed(native=76, vserver=77, xen=95, spread=0.05), "not decided", {"xen/native": 0.8}),
    "C02-not-decided-by-one-block": (packed(native=75, xen=76, blocks=1), "not decided", {}),
    "C02-not-measured": (packed(native=75, openvz=76, kqemu=77, tcg=78), "not measured", {}),
    "C03-supported-whatever-virtualbox-did": (
        dbench(native=250, vserver=245, openvz=60, xen=50, kvm=40, virtualbox=240, nested_xen=240),
        "supported, supported",
        {"vserver/native": 0.98, "openvz/native": 0.24, "xen/native": 0.2, "kvm/native": 0.16},
    ),
    "C03-refuted-by-vserver": (dbench(native=250, vserver=125, xen=50), "refuted, supported", {"vserver/native": 0.5}),
    "C03-refuted-by-xen": (
        dbench(native=250, vserver=245, openvz=60, xen=200),
        "supported, refuted",
        {"xen/native": 0.8},
    ),
    "C03-refuted-by-a-part": (dbench(native=250, kvm=150), "not measured, refuted", {"kvm/native": 0.6}),
    "C03-not-decided": (
        dbench(native=250, vserver=200, xen=75, spread=0.06),
        "not decided, not decided",
        {"vserver/native": 0.8, "xen/native": 0.3},
    ),
    "C03-not-decided-without-vserver": (dbench(native=250, openvz=60, xen=50), "not measured, supported", {}),
    "C03-not-measured": (dbench(native=250, virtualbox=40, nested_xen=200), "not measured, not measured", {}),
    "C03-not-measured-by-bzip2": (packed(native=75, vserver=76, xen=300), "not measured, not measured", {}),
    "C04-supported": (
        [
            *copied(native=11, vserver=8, xen=12.5, kvm=13, openvz=27.5, runc=30, virtualbox=40, nested_kvm=60),
            *zeros(native=38, vserver=38, xen=60, kvm=42, openvz=55),
        ],
        "supported, supported, supported, supported",
        {
            "vserver/native": 11 / 8,
            "xen/native": 0.88,
            "kvm/native": 11 / 13,
            "openvz/native": 0.4,
            "xen/image, 433 MiB": 38 / 60 / 0.88,
        },
    ),
    "C04-refuted-by-vserver": (
        copied(native=11, vserver=11, xen=12),
        "refuted, supported, not measured, not measured",
        {"vserver/native": 1.0},
    ),
    "C04-refuted-by-kvm": (
        copied(native=11, vserver=8, kvm=22, openvz=27.5),
        "supported, refuted, supported, not measured",
        {"kvm/native": 0.5},
    ),
    "C04-refuted-by-openvz": (
        copied(native=11, vserver=8, kvm=13, openvz=13.75),
        "supported, supported, refuted, not measured",
        {"openvz/native": 0.8},
    ),
    "C04-refuted-by-zeros-on-xen": (
        [*copied(native=11, xen=13.75), *zeros(native=38, xen=38)],
        "not measured, supported, not measured, refuted",
        {"xen/image, 433 MiB": 1.25},
    ),
    "C04-not-decided": (
        [*copied(native=11, vserver=10, xen=15.7, openvz=22, spread=0.06), *zeros(native=38, xen=54.2, spread=0.06)],
        "not decided, not decided, not decided, not decided",
        {"vserver/native": 1.1, "xen/native": 0.7, "openvz/native": 0.5, "xen/image, 433 MiB": 1.0},
    ),
    "C04-not-decided-with-kvm-alone": (
        copied(native=11, kvm=13),
        "not measured, supported, not measured, not measured",
        {},
    ),
    "C04-not-measured-with-zeros-alone": (
        zeros(native=38, vserver=80, kvm=100, xen=60, openvz=40),
        "not measured, not measured, not measured, not measured",
        {},
    ),
    "C04-not-measured": (
        [*copied(native=11, runc=40, virtualbox=40, nested_xen=40), *zeros(native=38, runc=90)],
        "not measured, not measured, not measured, not measured",
        {},
    ),
    "C05-supported-whatever-virtualbox-does": (
        received(native=10.7, openvz=10.8, xen=11.5, kvm_e1000=45, tcg_rtl8139=60, kvm=20, virtualbox=11, runsc=40),
        "supported, supported",
        {"kvm_e1000/native": 10.7 / 45, "openvz/native": 10.7 / 10.8, "xen/native": 10.7 / 11.5},
    ),
    "C05-supported-by-hvm-as-emulated": (
        received(native=10.7, vserver=10.8, hvm=50, nested_kvm=40, nested_xen=40),
        "supported, supported",
        {"hvm/native": 0.214},
    ),
    "C05-refuted-by-an-emulated-nic": (
        received(native=10.7, vserver=10.8, kvm_e1000=12),
        "refuted, supported",
        {"kvm_e1000/native": 10.7 / 12},
    ),
    "C05-refuted-by-xen": (
        received(native=10.7, vserver=10.8, xen=21.4, kvm_e1000=45),
        "supported, refuted",
        {"xen/native": 0.5},
    ),
    "C05-not-decided": (
        received(native=10.7, kvm_e1000=21.4, openvz=13.375, spread=0.05),
        "not decided, not decided",
        {"kvm_e1000/native": 0.5, "openvz/native": 0.8},
    ),
    "C05-not-decided-without-an-emulated-nic": (
        received(native=10.7, vserver=10.8, kvm=20),
        "not measured, supported",
        {},
    ),
    "C05-not-measured": (
        received(native=10.7, kvm=20, virtualbox=45, runsc=40, nested_xen=40),
        "not measured, not measured",
        {},
    ),
    "C05-not-measured-from-the-guest-or-on-a-slower-link": (
        [
            *jobs("tcp-stream", {**STREAM, "direction": "from-guest"}, native=10.7, vserver=30, kvm_e1000=11),
            *jobs("tcp-stream", {**STREAM, "link_rate_bits_per_second": 10**8}, native=101, vserver=300, kvm_e1000=102),
            *jobs("tcp-stream", {**STREAM, "between": "guests"}, native=10.7, vserver=30, kvm_e1000=11),
        ],
        "not measured, not measured",
        {},
    ),
    "C06-supported": (
        [
            *fetched_tree(native=95, vserver=97, openvz=100, kvm_e1000=240, kvm=120, tcg_rtl8139=100, xen=140),
            *fetched_file(native=42, vserver=43, openvz=44, kvm_e1000=110, virtualbox=44, runsc=150, nested_kvm=44),
        ],
        "supported, supported, supported, supported",
        {"vserver/native": 42 / 43, "kvm_e1000/native": 42 / 110},
    ),
    "C06-refuted-by-openvz-with-a-file": (
        [
            *fetched_tree(native=95, vserver=97, openvz=100, kvm_e1000=240),
            *fetched_file(native=42, vserver=43, openvz=70, kvm_e1000=110),
        ],
        "supported, refuted, supported, supported",
        {"openvz/native": 0.6},
    ),
    "C06-refuted-by-kvm-with-a-tree": (
        [*fetched_tree(native=95, vserver=97, kvm_e1000=118.75), *fetched_file(native=42, vserver=43, kvm_e1000=110)],
        "supported, supported, refuted, supported",
        {"kvm_e1000/native": 0.8},
    ),
    "C06-refuted-with-a-tree-alone": (
        fetched_tree(native=95, vserver=97, kvm_e1000=118.75),
        "supported, not measured, refuted, not measured",
        {"kvm_e1000/native": 0.8},
    ),
    "C06-not-decided": (
        [
            *fetched_tree(native=95, openvz=118.75, kvm_e1000=190, spread=0.05),
            *fetched_file(native=42, openvz=52.5, kvm_e1000=84, spread=0.05),
        ],
        "not decided, not decided, not decided, not decided",
        {"openvz/native": 0.8, "kvm_e1000/native": 0.5},
    ),
    "C06-not-decided-with-a-tree-alone": (
        fetched_tree(native=95, vserver=97, kvm_e1000=240),
        "supported, not measured, supported, not measured",
        {"vserver/native": 95 / 97, "kvm_e1000/native": 95 / 240},
    ),
    "C06-not-decided-with-a-file-alone": (
        [
            *fetched_file(native=42, vserver=43, kvm_e1000=110),
            *jobs("rsync-tree", {**TREE, "direction": "to-guest"}, native=95, vserver=200, kvm_e1000=96),
        ],
        "not measured, supported, not measured, supported",
        {"vserver/native": 42 / 43, "kvm_e1000/native": 42 / 110},
    ),
    "C06-not-decided-without-an-emulated-nic": (
        [*fetched_tree(native=95, vserver=97, kvm=96), *fetched_file(native=42, vserver=43, kvm=43)],
        "supported, supported, not measured, not measured",
        {},
    ),
    "C06-not-measured": (
        [
            *fetched_tree(native=95, kvm=96, xen=250, runsc=300, tcg_rtl8139=100),
            *jobs("rsync-file", {**FILE, "direction": "to-guest"}, native=42, vserver=90, kvm_e1000=43),
        ],
        "not measured, not measured, not measured, not measured",
        {},
    ),
    "C07-supported": (
        transacted(native=40, vserver=42, xen=46, kvm=80, openvz=76, virtualbox=300, kqemu=41, runc=80, nested_xen=90),
        "supported, supported",
        {"vserver/native": 40 / 42, "xen/native": 40 / 46, "kvm/native": 0.5, "openvz/native": 40 / 76},
    ),
    "C07-refuted-by-xen": (
        transacted(native=40, vserver=42, xen=80, kvm=80),
        "refuted, supported",
        {"xen/native": 0.5},
    ),
    "C07-refuted-by-a-fast-kvm": (
        transacted(native=40, vserver=42, kvm=56, openvz=80),
        "supported, refuted",
        {"kvm/native": 40 / 56},
    ),
    "C07-refuted-by-a-slow-openvz": (
        transacted(native=40, openvz=120),
        "not measured, refuted",
        {"openvz/native": 1 / 3},
    ),
    "C07-not-decided": (
        transacted(native=40, vserver=50, kvm=66.7, openvz=100, spread=0.05),
        "not decided, not decided",
        {"vserver/native": 0.8, "kvm/native": 0.6, "openvz/native": 0.4},
    ),
    "C07-not-decided-without-kvm-and-openvz": (
        transacted(native=40, vserver=42, xen=46),
        "supported, not measured",
        {},
    ),
    "C07-not-measured": (
        [*transacted(native=40, runc=80, virtualbox=42, nested_kvm=41), *compiled(native=1500, xen=2000, kvm=1600)],
        "not measured, not measured",
        {},
    ),
    "C08-supported-whatever-its-exceptions-do": (
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
        "supported",
        {"vserver/4 guests": 77 / 40 / 4, "xen/4 guests": 4 * 85 / 400},
    ),
    "C08-refuted-by-vserver": (
        transacted_at_once(native={2: 42, 4: 60}, vserver={2: 47, 4: 77, 8: 100}),
        "refuted",
        {"vserver/4 guests": 2 * 77 / 100},
    ),
    "C08-refuted-by-xen-with-32": (
        transacted_at_once(native={4: 60, 32: 300}, xen={4: 80, 32: 512}),
        "refuted",
        {"xen/4 guests": 1.25},
    ),
    "C08-not-decided": (
        transacted_at_once(native={4: 60}, vserver={2: 40, 4: 77}, xen={4: 85, 8: 170}, spread=0.05),
        "not decided",
        {"vserver/4 guests": 77 / 80, "xen/4 guests": 1.0},
    ),
    "C08-not-decided-where-it-rises-as-far-as-it-was-measured": (
        transacted_at_once(native={4: 60}, vserver={1: 40, 2: 47, 4: 77}),
        "not decided",
        {"vserver/4 guests": 77 / 40 / 4},
    ),
    "C08-not-measured": (
        transacted_at_once(
            native={2: 42, 4: 60, 8: 75}, kvm={4: 160, 8: 200}, runsc={4: 90, 8: 300}, uml={4: 80, 8: 300}
        ),
        "not measured",
        {},
    ),
    "C08-not-measured-without-four": (transacted_at_once(native={2: 42}, vserver={2: 47, 8: 188}), "not measured", {}),
    "C08-not-measured-with-four-alone": (transacted_at_once(native={4: 60}, vserver={4: 77}), "not measured", {}),
    "C08-not-measured-with-one-guest": (transacted(native=40, vserver=42, xen=46), "not measured", {}),
    "C09-supported-whatever-its-exceptions-do": (
        compiled_at_once(
            native={1: 1500, 2: 1500, 4: 3000, 32: 24000},
            vserver={1: 3000, 2: 1530, 4: 3000, 32: 24500},
            xen={1: 3000, 2: 1600, 4: 3200, 32: 32000},
            kvm={2: 2500, 4: 5000},
            runsc={2: 4000, 4: 9000},
            nested_xen={2: 4000, 32: 24000},
        ),
        "supported, supported, supported",
        {"vserver/native": 1500 / 1530, "xen/native": 0.9375, "xen/2 guests": 0.8},
    ),
    "C09-refuted-by-vserver-with-32": (
        compiled_at_once(native={2: 1500, 32: 24000}, vserver={2: 1520, 32: 40000}),
        "refuted, not measured, not measured",
        {"vserver/native": 0.6},
    ),
    "C09-refuted-by-xen": (
        compiled_at_once(native={2: 1500, 4: 3000}, vserver={2: 1520}, xen={2: 1600, 4: 5000}),
        "supported, refuted, not measured",
        {"xen/native": 0.6},
    ),
    "C09-refuted-by-xen-with-32": (
        compiled_at_once(
            native={4: 3000, 8: 6000, 16: 12000, 32: 24000},
            vserver={4: 3030},
            xen={4: 3330, 8: 6900, 16: 13800, 32: 24000},
        ),
        "supported, supported, refuted",
        {"xen/4 guests": 1.11, "xen/8 guests": 1.15, "xen/16 guests": 1.15},
    ),
    "C09-not-decided": (
        compiled_at_once(native={4: 3000, 32: 24000}, vserver={4: 3333}, xen={4: 3600, 32: 28800}, spread=0.1),
        "not decided, not decided, not decided",
        {"vserver/native": 0.9, "xen/native": 1 / 1.2, "xen/4 guests": 1.0},
    ),
    "C09-not-decided-without-xen": (
        compiled_at_once(native={2: 1500}, vserver={2: 1520}),
        "supported, not measured, not measured",
        {},
    ),
    "C09-not-measured": (
        compiled_at_once(native={1: 1500, 4: 3000}, vserver={1: 3000}, xen={1: 3000}, kvm={4: 6000}, runsc={4: 9000}),
        "not measured, not measured, not measured",
        {},
    ),
    "C09-not-measured-with-one-guest": (
        compiled(native=1500, vserver=3000, xen=3000),
        "not measured, not measured, not measured",
        {},
    ),
    "C10-supported": (
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
        "supported",
        {"virtualbox/": 0.12, "kqemu/": 0.3},
    ),
    "C10-refuted": (
        [*copied(virtualbox=30, clock_error=0.08), *zeros(native=38, virtualbox=90, clock_error=0.08)],
        "refuted",
        {"virtualbox/": 0.08},
    ),
    "C10-refuted-by-one-of-both": (
        [
            *copied(kqemu=40, clock_error=0.3),
            *zeros(native=38, kqemu=200, clock_error=0.3),
            *copied(virtualbox=30),
            *zeros(virtualbox=90),
        ],
        "refuted",
        {"kqemu/": 0.3},
    ),
    "C10-not-decided-where-the-error-varies": (
        [*copied(virtualbox=30, clock_error=0.02), *zeros(native=38, virtualbox=90, clock_error=0.3)],
        "not decided",
        {},
    ),
    "C10-not-decided-by-one-length": ([*zeros(native=38), *zeros(virtualbox=90, clock_error=0.3)], "not decided", {}),
    "C10-not-decided-by-two-blocks": (
        [
            *copied(native=11, virtualbox=30, clock_error=0.3, blocks=2),
            *zeros(native=38, virtualbox=90, clock_error=0.3, blocks=2),
        ],
        "not decided",
        {},
    ),
    "C10-not-measured": (
        [
            *copied(native=11, kvm=13, tcg=60, nested_virtualbox=40, clock_error=0.3),
            *zeros(native=38, kvm=42, tcg=700, nested_virtualbox=200, clock_error=0.3),
        ],
        "not measured",
        {},
    ),
}


def judged(claim: str, measured: Sequence[Made]) -> Judged:
    """What a run of four blocks says about a claim."""
    labels = {one.platform for one in measured}
    run = made_up_run({label: one for label, one in PLATFORMS.items() if label in labels}, measured, blocks=4, seed=2)
    (found,) = judge_claims(analyse(run), [BY_ID[claim]])
    return found


def outcome_of(case: str) -> Outcome:
    """What a case's name says of the claim."""
    (found,) = (one for one in Outcome if case[4:].replace("-", " ").startswith(one))
    return found


def test_each_claim_comes_to_each_outcome() -> None:
    assert {(case[:3], outcome_of(case)) for case in CASES} == set(product(BY_ID, Outcome))


@pytest.mark.parametrize("case", CASES)
def test_a_claim_comes_to_what_was_measured(case: str) -> None:
    measured, tests, numbers = CASES[case]
    found = judged(case[:3], measured)
    assert ", ".join(one.outcome for one in found.tests) == tests
    assert found.outcome is outcome_of(case)
    assert all(one.missing for one in found.tests if one.outcome is Outcome.NOT_MEASURED)
    every = [one for test in found.tests for one in test.findings]
    for what, expected in numbers.items():
        named = [one for one in every if f"{one.platform}/{one.against}" == what and one.estimate is not None]
        nearest = min(named, key=lambda one: abs(math.log((one.estimate or 0) / expected)))
        assert nearest.estimate == pytest.approx(expected, rel=0.08)
        assert nearest.interval is not None
        assert nearest.interval.low < expected < nearest.interval.high


def measured_by(preset: str, size: str, products: Mapping[str, Mapping[str, Any]] | None) -> set[str]:
    """The tests of which a preset's plan measures something; `products`: were these its platforms, None: its own."""
    experiment = load_experiment(find_experiment(preset), catalogue(), Selection(size=size))
    own = {
        one.label: {"platform": one.platform, "parameters": one.parameters.model_dump(mode="json")}
        for one in experiment.platforms
    }
    asked = dict.fromkeys(
        (label, one.workload, one.scale)
        for one in plan_of(experiment).trials
        for label in (products or [one.platform.label])
    )
    measured = [
        Made(label, one.workload, one.parameters.model_dump(mode="json"), figures=figures(one.workload), scale=scale)
        for label, one, scale in asked
    ]
    analysis = analyse(made_up_run(products or own, measured, blocks=1))
    return {
        f"{found.claim.id} {one.test.says}"
        for found in judge_claims(analysis, list(BY_ID.values()))
        for one in found.tests
        if one.outcome is not Outcome.NOT_MEASURED
    }


PRESETS = ("camargos2008", "camargos2008-scale", "camargos2008-builds")
EVERY_TEST = {f"{claim.id} {one.says}" for claim in BY_ID.values() for one in claim.tests}


@pytest.mark.parametrize("size", ["quick", "paper"])
def test_the_presets_measure_what_every_test_asks_for_whatever_the_platforms(size: str) -> None:
    labels = ("native", "vserver", "openvz", "xen", "kvm_e1000", "virtualbox")
    products = {label: PLATFORMS[label] for label in labels}
    assert set().union(*(measured_by(preset, size, products) for preset in PRESETS)) == EVERY_TEST


def test_at_size_paper_every_test_has_a_platform_that_it_is_about() -> None:
    assert set().union(*(measured_by(preset, "paper", None) for preset in PRESETS)) == EVERY_TEST


def test_the_quick_size_has_an_emulated_nic() -> None:
    """On QEMU without KVM, which most hosts can hold; C06 asks for KVM."""
    assert {one for one in EVERY_TEST if one.startswith("C05")} <= measured_by("camargos2008", "quick", None)
