"""Workloads that run a program: parsers on what the real tools printed, and what a wrong or failed program becomes."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.support.agents import ScriptedAgent
from tests.support.benches import channel_bench

from virtoll.agent.client import ChannelMark
from virtoll.agent.messages import Message, Request
from virtoll.agent.operations.jobs import RunRequest
from virtoll.agent.operations.programs import ExecRequest
from virtoll.agent.operations.session import ClocksRequest
from virtoll.errors import GuestError
from virtoll.workloads import WORKLOADS, bzip2, sysbench_cpu
from virtoll.workloads.base import Measurement

# bzip2 1.0.8 and sysbench 1.0.20 of Debian 12, from the image full.
BZIP2 = "  /tmp/virtoll-bzip2:  0.995:1,  8.037 bits/byte, -0.46% saved, 1048576 in, 1053388 out.\n"
SYSBENCH = """sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 1
Initializing random number generator from current time


Prime numbers limit: 10000

Initializing worker threads...

Threads started!

CPU speed:
    events per second:   572.92

General statistics:
    total time:                          0.3360s
    total number of events:              200

Latency (ms):
         min:                                    0.29
         avg:                                    1.68
         max:                                   72.37
         95th percentile:                        7.56
         sum:                                  335.40

Threads fairness:
    events (avg/stddev):           200.0000/0.00
    execution time (avg/stddev):   0.3354/0.00

"""


def test_bzip2s_line() -> None:
    assert bzip2.parse(BZIP2) == {"bytes_in": 1048576, "bytes_out": 1053388}


def test_sysbenchs_report() -> None:
    assert sysbench_cpu.parse(SYSBENCH) == {
        "events_per_second": 572.92,
        "total_seconds": 0.336,
        "events": 200,
        "latency_average_ms": 1.68,
        "latency_p95_ms": 7.56,
    }


@pytest.mark.parametrize("rate", ["   inf", "  -nan", " -3.50"])
def test_a_guests_clock_that_stands_costs_sysbench_its_rate_alone(rate: str) -> None:
    """Infinite is recorded, with a clock_gettime that always gives the same time: sysbench divides by what passed."""
    standing = SYSBENCH.replace("572.92", rate).replace("0.3360s", "0.0000s")
    assert sysbench_cpu.parse(standing)["events_per_second"] is None
    measured = measure(Guest({"stdout": standing}, {"sysbench": [{}]}), "sysbench-cpu", events=200)
    assert measured.problem is None
    assert measured.check is not None
    assert measured.check["ok"]


@pytest.mark.parametrize("cut", ["total number of events", "events per second", "95th percentile"])
def test_a_report_without_a_figure_names_it(cut: str) -> None:
    lines = "".join(line for line in SYSBENCH.splitlines(keepends=True) if cut not in line)
    with pytest.raises(ValueError, match=r"no (events|events per second|latency p95 ms) in it"):
        sysbench_cpu.parse(lines)


@pytest.mark.parametrize("text", ["", "bzip2: I/O or other error", BZIP2 + BZIP2])
def test_a_complaint_that_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no line with bytes in and out"):
        bzip2.parse(text)


class Guest(ScriptedAgent):
    """Answers programs with what was recorded; ``timed`` is the one between the marks, ``others`` by their name."""

    def __init__(self, timed: dict[str, Any], others: dict[str, Sequence[dict[str, Any]]]) -> None:
        super().__init__()
        self.timed, self.others = said(**timed), {name: [said(**one) for one in all_] for name, all_ in others.items()}
        self.ran: list[list[str]] = []

    def tell(self, request: Request[Message]) -> Mapping[str, Any]:
        """A clock, a program, or the timed one."""
        if isinstance(request, ClocksRequest):
            return {}
        if isinstance(request, ExecRequest):
            self.ran.append(list(request.argv))
            return self.others[request.argv[0]].pop(0)
        assert isinstance(request, RunRequest)
        assert request.job == "program"
        self.ran.append([*request.parameters["argv"], "TIMED"])
        self.channel_marks += (ChannelMark("start", 1000, 1000), ChannelMark("end", 50_001_000, 50_001_000))
        return {"result": self.timed, "check": "not used"}


def said(status: int | None = 0, stdout: str = "", stderr: str = "", *, timed_out: bool = False) -> dict[str, Any]:
    """An answer as the agent gives it."""
    out, err = (base64.b64encode(text.encode()).decode() for text in (stdout, stderr))
    return {"status": status, "signal": None, "stdout": out, "stderr": err, "timed_out": timed_out, "truncated": False}


def measure(guest: Guest, name: str, **given: Any) -> Measurement:
    """One trial over the channel."""
    return WORKLOADS[name].with_parameters(given).measure(channel_bench(guest))


def compressing(unpacked: str = "abc", **timed: Any) -> Guest:
    """A guest in which bzip2 works; ``unpacked``: the hash of what comes out again."""
    sums = [{"stdout": "abc  /tmp/virtoll-bzip2\n"}, {"stdout": f"{unpacked}  /tmp/virtoll-bzip2\n"}]
    others: dict[str, Sequence[dict[str, Any]]] = {
        "rm": [{}] * 3,
        "stat": [{"stdout": "137961112\n"}],
        "dd": [{}],
        "bzip2": [{}],
        "sha256sum": sums,
    }
    return Guest({"stderr": BZIP2} | timed, others)


def test_bzip2_is_right_when_what_comes_out_again_is_what_went_in() -> None:
    guest = compressing()
    measured = measure(guest, "bzip2", size_bytes="1MiB")
    assert measured.problem is None
    assert measured.check == {"value": "abc", "expected": "abc", "ok": True}
    assert measured.clock is not None
    assert measured.clock["marks"] == {"start_ns": 1000, "end_ns": 50_001_000}
    assert measured.result is not None
    assert measured.result["figures"] == {"bytes_in": 1048576, "bytes_out": 1053388}
    assert measured.result["complaints"] == BZIP2
    assert [argv[0] for argv in guest.ran] == [
        "rm",
        "stat",
        "dd",
        "sha256sum",
        "bzip2",
        "rm",
        "bzip2",
        "sha256sum",
        "rm",
    ]
    assert guest.ran[4] == ["bzip2", "-9", "--keep", "--verbose", "/tmp/virtoll-bzip2", "TIMED"]
    assert {"bs=65536", "count=16"} <= set(guest.ran[2])
    assert "state" not in measured.result, "nothing is told of a disk that it does not touch"


@pytest.mark.parametrize(
    ("guest", "problem"),
    [
        (compressing("def"), "the check value is wrong: 'def' instead of 'abc'"),
        (
            compressing(status=1, stderr="bzip2: No space left on device\n"),
            "bzip2 failed with exit code 1: bzip2: No space left on device",
        ),
        (compressing(status=None, stderr=""), "bzip2 was ended by a signal"),
        (compressing(status=None, timed_out=True), "bzip2 did not end within"),
        (compressing(stderr="what?"), "what bzip2 printed cannot be read: no line with bytes"),
    ],
)
def test_what_went_wrong_is_the_trials_problem(guest: Guest, problem: str) -> None:
    measured = measure(guest, "bzip2")
    assert measured.problem is not None
    assert measured.problem.startswith(problem)
    assert measured.result is not None
    assert "complaints" in measured.result


def test_a_step_before_the_mark_that_fails_names_the_program() -> None:
    guest = compressing()
    guest.others["dd"] = [said(1, stderr="dd: no space\n")]
    with pytest.raises(GuestError, match="dd failed with exit code 1: dd: no space in the guest"):
        measure(guest, "bzip2")
    assert not [argv for argv in guest.ran if argv[-1] == "TIMED"]


@pytest.mark.parametrize(("events", "right"), [(200, True), (1000, False)])
def test_sysbench_must_have_counted_what_was_asked_for(events: int, right: bool) -> None:
    guest = Guest({"stdout": SYSBENCH}, {"sysbench": [{"stdout": "sysbench 1.0.20\n"}]})
    measured = measure(guest, "sysbench-cpu", events=events)
    assert measured.check == {"value": "200", "expected": str(events), "ok": right}
    assert (measured.problem is None) == right
    assert guest.ran[1][1:4] == ["cpu", "--threads=1", f"--events={events}"]


@pytest.mark.parametrize("name", ["bzip2", "sysbench-cpu"])
def test_they_need_the_image_with_tools(name: str) -> None:
    assert WORKLOADS[name].image == "full"
    assert {workload.image for other, workload in WORKLOADS.items() if other in ("forward", "superpi")} == {"tiny"}
