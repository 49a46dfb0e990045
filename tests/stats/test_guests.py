"""The guests themselves: readiness in parts, memory, CPU time per unit of work, consolidation; missing is None."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.support.by_hand import boot_record, held, job, plain, process, reading, task, trial

from virtoll.runfolder.guest_records import (
    AgentClock,
    CpuSpan,
    HostCpu,
)
from virtoll.runfolder.records import BootRecord
from virtoll.stats.guests import (
    Quantity,
    Readiness,
    cpu_uses,
    cpus_used,
    forwarded_frames,
    guest_costs,
    held_bytes,
    readiness,
    used_ns,
)
from virtoll.stats.intervals import Interval


def boot(facts: dict[str, Any] | None, clock: AgentClock | None, host: str | None, **changed: Any) -> BootRecord:
    return boot_record(facts, agent_clock=clock, host_boot_id=host, **changed)


@pytest.mark.parametrize(
    ("own", "clock", "expected"),
    [
        ("host", AgentClock(2400, 2400, 2900), Readiness(2000, 1400, None, 500)),
        ("machine", AgentClock(700, 800, 1000), Readiness(2000, 900, 800, 300)),
        ("machine", AgentClock(5000, 5000, 5300), Readiness(2000, None, None, None)),
        ("host", AgentClock(400, 400, 500), Readiness(2000, None, None, None)),
        ("host", AgentClock(1000, 1000, 3000), Readiness(2000, 0, None, 2000)),
        ("host", AgentClock(2999, 2999, 2999), Readiness(2000, 1999, None, 0)),
        ("host", AgentClock(3000, 3000, 3001), Readiness(2000, None, None, None)),
        ("machine", AgentClock(1, 1700, 301), Readiness(2000, 0, 1700, 300)),
        (None, AgentClock(2400, 2400, 2900), Readiness(2000, None, None, None)),
        ("host", None, Readiness(2000, None, None, None)),
    ],
    ids=[
        "the host's kernel",
        "a kernel of its own",
        "a clock that began before",
        "a time namespace",
        "the agent's alone",
        "none of the agent's",
        "ready after the answer",
        "nothing before the kernel",
        "not reported",
        "an older agent",
    ],
)
def test_readiness_is_split_as_far_as_clocks_tell(
    own: str | None, clock: AgentClock | None, expected: Readiness
) -> None:
    assert readiness(boot({"boot_id": own}, clock, "host")) == expected


@pytest.mark.parametrize("clock", [AgentClock(2400, 2400, 2900), None])
def test_the_harness_is_what_went_before_the_platforms_program(clock: AgentClock | None) -> None:
    entered = readiness(boot({"boot_id": "h"}, clock, "h", executed_monotonic_ns=1300))
    assert entered is not None
    assert (entered.total, entered.harness) == (2000, 300)
    unknown = readiness(boot({"boot_id": "h"}, clock, "h"))
    assert unknown is not None
    assert unknown.harness is None, "what was not measured is not zero"


def test_a_start_that_failed_has_no_readiness() -> None:
    clock = AgentClock(2400, 2400, 2900)
    assert readiness(boot({"boot_id": "h"}, clock, "h", status="failed")) is None
    assert readiness(boot(None, None, "h", ready_monotonic_ns=None)) is None
    assert readiness(boot(None, None, None)) == Readiness(2000, None, None, None)
    assert readiness(boot(None, None, None, ready_monotonic_ns=1000)) is None, "it took no time: a clock that is wrong"
    wrong = boot({"boot_id": "h"}, AgentClock(400, 400, 500), "h", executed_monotonic_ns=1300)
    assert readiness(wrong) == Readiness(2000, None, None, None, 300), "the harness is by the outside clock"


def test_processes_hold_their_pages_and_tables_where_all_were_read() -> None:
    assert held_bytes([process(100, 7), process(20, 1)]) == 128
    for unread in ([process(100, 7), process(20, None)], [process(100, 7), process(None, 1)], []):
        assert held_bytes(unread) is None


def test_a_platforms_cost_is_the_median_over_blocks_of_what_each_was_read() -> None:
    """Starts of 2, 3 and 7 us, of which 300 ns are the harness's; a neighbour's start and a failed one are in none."""
    own = {"platform": "p", "executed_monotonic_ns": 1300}
    boots = [
        boot_record(None, **own, block=0),
        boot_record(None, **own, block=1, ready_monotonic_ns=4000),
        boot_record(None, **own, block=2, ready_monotonic_ns=8000),
        boot_record(None, **own, block=3, status="failed"),
        boot_record(None, **own, block=2, instance=1, ready_monotonic_ns=9000),
        boot_record(None, platform="started", block=0, ready_monotonic_ns=6000),
    ]
    engine: dict[str, Any] = {"shared": {"engine": (process(60, 1),)}}
    footprints = [
        held("p/0", process(100, 10), process(20, 2), charged_bytes=5, files_bytes=4),
        held("p/1", process(300, 30), charged_bytes=None, files_bytes=6, **engine),
        held("p/2", process(500, None), charged_bytes=9, files_bytes=None),
        held("p/0", process(1000, 1), when="after-work"),
        held("read/0", process(1, 1)),
    ]
    rows = guest_costs(boots, footprints, ("never", "read", "p", "started"))
    assert [row.platform for row in rows] == ["read", "p", "started"]
    read, row, started = rows

    def told(one: Quantity | None) -> tuple[float, int] | None:
        return None if one is None else (one.median, one.blocks)

    assert told(row.ready) == (3000, 3)
    assert told(row.harness) == (300, 3)
    assert row.ready is not None
    assert row.ready.interval == Interval(2000, 7000, 0.75, "range")
    assert (row.spawn, row.kernel, row.init) == (None, None, None)
    assert told(row.idle) == (231, 2), "132 and 330; the third could not be read whole"
    assert told(row.worked) == (1001, 1)
    assert told(row.page_tables) == (21, 2)
    assert (told(row.charged), told(row.files)) == ((7, 2), (5, 2))
    assert {name: told(one) for name, one in row.shared.items()} == {"engine": (61, 1)}
    assert row.processes == 1, "2, 1 and 1"
    assert (read.ready, told(read.idle), read.worked, read.processes) == (None, (2, 1), None, 1)
    assert (told(started.ready), started.idle, started.processes) == ((5000, 1), None, None)


def spent(used: int) -> HostCpu:
    return HostCpu(reading(0, 1000), reading(1, 1000 + used))


def test_cpu_time_is_the_processes_own_and_their_childrens() -> None:
    """7 and 5 of two processes, and 100 + 10 of each one's children; else a process's user and system time."""
    first, last = reading(0, 0, 0), reading(9, 7, 5, user=900, system=90, children=10)
    assert used_ns(HostCpu(first, last)) == 7 + 5 + 2 * 110
    assert used_ns(HostCpu(first, reading(9, 0, None, user=30, system=4))) == 34
    assert used_ns(HostCpu(first, first)) == 0
    assert used_ns(HostCpu(last, first)) is None, "a process that ended took its time with it"
    for unread in (HostCpu(None, last), HostCpu(first, None), HostCpu(first, reading(9)), HostCpu(reading(9), last)):
        assert used_ns(unread) is None
    assert used_ns(None) is None


def test_the_cpus_in_use_are_cpu_time_by_the_time_of_all_that_was_measured() -> None:
    """30 of 100 ns, and 60 of 20: 90 of 120."""
    spans = CpuSpan(reading(1000, 5), reading(1100, 35)), CpuSpan(reading(2000, 40), reading(2020, 100))
    assert cpus_used(HostCpu(None, None, spans)) == pytest.approx(0.75)
    assert cpus_used(HostCpu(None, None, (CpuSpan(reading(5, 0), reading(6, 3)),))) == 3
    unread = CpuSpan(reading(2000, 40), reading(2020))
    for unknown in (None, HostCpu(None, None), HostCpu(None, None, (spans[0], unread))):
        assert cpus_used(unknown) is None
    assert cpus_used(HostCpu(None, None, (CpuSpan(reading(5, 0), reading(5, 0)),))) is None, "in no time"


JOB, FIGURE = task("job", "marks"), task("job", "figures", name="ops", primary=False)
FRAMES = task("forward", "points", {"size": 64})


def test_cpu_time_of_a_job_is_set_against_the_same_blocks_baseline() -> None:
    """p takes 4 and 9 ns a job where the baseline takes 1: on average, as factors, 6 times as much."""
    trials = [
        job(1, 10, platform="other", host_cpu=None),
        job(2, 10, platform="base", host_cpu=spent(4), repeats=4),
        job(3, 10, platform="base", block=1, host_cpu=spent(1)),
        job(4, 10, host_cpu=spent(8), repeats=2),
        job(5, 10, block=1, host_cpu=spent(9)),
        job(6, 10, block=1, host_cpu=spent(3)),
        job(7, 10, block=1, host_cpu=spent(99)),
        job(8, 10, block=2, host_cpu=spent(5)),
        job(9, 10, block=3, host_cpu=spent(7), status="invalid"),
        job(10, 10, platform="small", host_cpu=spent(1), repeats=2),
    ]
    tasks = (FRAMES, FIGURE, JOB)
    uses = cpu_uses(tasks, trials, ("base", "gone", "p", "small"), "base")
    assert [(one.platform, one.task, one.unit, one.per_unit.median, one.per_unit.blocks) for one in uses] == [
        ("base", JOB, "job", 1.0, 2),
        ("p", JOB, "job", 5.0, 3),
        ("small", JOB, "job", 0.5, 1),
    ]
    base, found, small = uses
    assert (base.ratio, base.interval) == (None, None)
    assert found.ratio == pytest.approx(6)
    # Student's t of two values: their mean logarithm -+ 12.706 times half their difference.
    half = 12.7062047 * math.log(9 / 4) / 2
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((6 / math.exp(half), 6 * math.exp(half)))
    assert (found.interval.coverage, found.interval.method) == (0.95, "Student t")
    assert small.ratio == pytest.approx(0.5)
    assert small.interval is None
    (_, against_little, _) = cpu_uses(tasks, trials, ("base", "p", "small"), "small")
    assert against_little.ratio == pytest.approx(8)
    for marked in ({"p": "nested"}, {"base": "nested"}):
        assert [one.ratio for one in cpu_uses(tasks, trials, ("p",), "base", marked)] == [None]
    assert [one.ratio for one in cpu_uses(tasks, trials, ("base", "p"), None)] == [None, None]
    idle = [job(1, 10, platform="base", host_cpu=spent(0)), job(2, 10, host_cpu=spent(0))]
    idle += [job(3, 10, platform="base", block=1, host_cpu=spent(2)), job(4, 10, block=1, host_cpu=spent(0))]
    assert [one.ratio for one in cpu_uses(tasks, idle, ("base", "p"), "base")] == [None, None], "0 is no factor"


def test_cpu_time_of_frames_is_by_all_that_were_forwarded() -> None:
    """300 + 100 frames, and 400 of the points for CPU time, of 8000 ns."""
    points = [plain(10.0, 301, 1), plain(None, 200, 100)]
    more: dict[str, Any] = {"host_cpu": spent(8000), "cpu_points": (plain(None, 400),)}
    trials = [
        trial(1, *points, **more),
        trial(2, *points, platform="base", host_cpu=spent(400)),
        trial(3, plain(10.0, 5, 5), block=1, host_cpu=spent(400)),
        trial(4, host_cpu=spent(9), block=2, points=None),
    ]
    assert forwarded_frames(trials[0]) == 800
    uses = cpu_uses((FRAMES,), trials, ("base", "p"), "base")
    assert [(one.unit, one.per_unit.median, one.per_unit.blocks, one.ratio) for one in uses] == [
        ("forwarded frame", 1.0, 1, None),
        ("forwarded frame", 10.0, 1, None),
    ]
