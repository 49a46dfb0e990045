"""sysbench's CPU test: its report, and a guest's clock that stands."""

from __future__ import annotations

import pytest
from tests.support.facts import refused
from tests.support.repository import RECORDED
from tests.support.workload_trials import ProgramGuest, measure, result_of

from virtoll.runfolder.records import Check
from virtoll.workloads import sysbench_cpu

# sysbench 1.0.20 of Debian 12, from the image full.
SYSBENCH = (RECORDED / "sysbench-cpu.txt").read_text()


def test_its_report() -> None:
    assert sysbench_cpu.parse(SYSBENCH) == {
        "events_per_second": 572.92,
        "total_seconds": 0.336,
        "events": 200,
        "latency_average_ms": 1.68,
        "latency_p95_ms": 7.56,
    }


@pytest.mark.parametrize("rate", ["   inf", "  -nan", " -3.50"])
def test_a_clock_that_stands_costs_the_rate_alone(rate: str) -> None:
    """Infinite is recorded, with a clock_gettime that always gives the same time: sysbench divides by what passed."""
    standing = SYSBENCH.replace("572.92", rate).replace("0.3360s", "0.0000s")
    assert sysbench_cpu.parse(standing)["events_per_second"] is None
    result_of(measure("sysbench-cpu", ProgramGuest(timed={"stdout": standing}), events=200))


@pytest.mark.parametrize(
    ("cut", "missing"),
    [
        ("total number of events", "events"),
        ("events per second", "events per second"),
        ("95th percentile", "latency p95 ms"),
    ],
)
def test_a_report_without_a_figure_names_it(cut: str, missing: str) -> None:
    lines = "".join(line for line in SYSBENCH.splitlines(keepends=True) if cut not in line)
    with refused(missing, error=ValueError):
        sysbench_cpu.parse(lines)


@pytest.mark.parametrize(("events", "right"), [(200, True), (1000, False)])
def test_it_must_have_counted_all_events(events: int, right: bool) -> None:
    guest = ProgramGuest({"sysbench": [{"stdout": "sysbench 1.0.20\n"}]}, timed={"stdout": SYSBENCH})
    measured = measure("sysbench-cpu", guest, events=events, maximum_prime=5000)
    assert measured.check == Check("200", str(events), right)
    assert (measured.problem is None) == right
    (command,) = guest.timed_commands
    options = ["--threads=1", f"--events={events}", "--time=0", "--cpu-max-prime=5000"]
    assert command == ["sysbench", "cpu", *options, "run"]
