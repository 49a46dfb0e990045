"""The timekeeper against callers that answer from a script: what it stores, and what it says when a mark is missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.agents import ScriptedAgent

from virtoll.agent.client import ChannelMark
from virtoll.agent.messages import Message, Request
from virtoll.agent.operations.jobs import MarkLink, RunRequest
from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.operations.timekeeping import MarksRequest, PathDelayRequest, TimekeeperStartRequest
from virtoll.agent.timekeeper import Timekeeper
from virtoll.lab.network import plan_links
from virtoll.runfolder.records import Clock, duration_ns
from virtoll.runfolder.store import parse_record

IDENTIFIER = 23
MARKS = plan_links(0).marks


class Script(ScriptedAgent):
    """Answers operations by functions, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[type[Request[Any]], Callable[[], dict[str, Any]]] = {}

    def tell(self, request: Request[Message]) -> dict[str, Any]:
        return self.answers[type(request)]()


def guest(
    edges: tuple[str, ...] = ("start", "end"), step_ns: int = 0, pause_ns: int = 0, apart_ns: int = 1_500_000_000
) -> Script:
    """A guest whose job takes 1 s by its own clock; its marks arrive over the channel 1.5 s apart, or so far."""
    script = Script()

    def run() -> dict[str, Any]:
        for number, edge in enumerate(edges):
            script.channel_marks.append(
                ChannelMark(edge, 10**18 + number * (apart_ns + step_ns), 10**9 + number * apart_ns)
            )
        clock = {"start_monotonic_ns": 5, "end_monotonic_ns": 1_000_000_005, "pause_ns": pause_ns}
        return {"guest": clock, "result": {"digits": 3}, "check": "23"}

    script.answers = {RunRequest: run, ClocksRequest: dict}
    return script


def peer(lost: int = 0, step_ns: int = 0, round_trips: tuple[list[int], list[int]] = ([20, 30], [25, 40])) -> Script:
    """A peer that has seen both marks 2 s apart, or fewer; with these round trips before and after."""
    delays = iter(round_trips)
    script = Script()

    def marks() -> dict[str, Any]:
        first = next(link.first_sequence for one in reversed(GUESTS[-1].asked) if (link := marks_of(one)))
        seen = [
            {
                "identifier": IDENTIFIER,
                "sequence": first,
                "received_realtime_ns": 100,
                "realtime_minus_monotonic_ns": 7,
            },
            {
                "identifier": IDENTIFIER,
                "sequence": first + 1,
                "received_realtime_ns": 2_000_000_100 + step_ns,
                "realtime_minus_monotonic_ns": 7 + step_ns,
            },
        ]
        return {"marks": seen[: 2 - lost], "missing": lost}

    script.answers = {
        TimekeeperStartRequest: dict,
        PathDelayRequest: lambda: {"round_trip_ns": next(delays), "lost": 0},
        MarksRequest: marks,
    }
    return script


GUESTS: list[Script] = []


def marks_of(request: Request[Message]) -> MarkLink | None:
    """Where the marks of a job were to go."""
    return request.marks if isinstance(request, RunRequest) else None


def timed(of: Script, by: Script, *, link: bool = True) -> Any:
    GUESTS.append(of)
    keeper = Timekeeper(of, by, MARKS if link else None, "eth2", IDENTIFIER)
    return keeper.time_job("superpi", {"digits": 3}, 10.0)


def test_marks_on_the_link_are_what_counts() -> None:
    by = peer()
    found = timed(guest(), by)
    assert found.problem is None
    assert found.clock["method"] == "icmp"
    assert found.clock["marks"] == {"start_ns": 100, "end_ns": 2_000_000_100}
    assert found.clock["channel_marks"]["end_ns"] - found.clock["channel_marks"]["start_ns"] == 1_500_000_000
    assert found.clock["realtime_step_ns"] == 0
    assert found.clock["path_delay_before_ns"] == [20, 30]
    assert found.clock["path_delay_after_ns"] == [25, 40]
    assert found.clock["error_estimate_ns"] == 500_000_000, "the marks differ by more than any round trip"
    assert found.clock["guest"]["end_monotonic_ns"] == 1_000_000_005
    assert (found.result, found.check) == ({"digits": 3}, "23")
    assert by.operations() == ["timekeeper-start", "path-delay", "marks", "path-delay"]


def test_the_pause_after_the_start_mark_is_stored_and_comes_off() -> None:
    """As a share: the guest's clock runs at half the speed of the outside one."""
    found = timed(guest(pause_ns=10_000_000), peer())
    assert found.clock["guest"]["pause_ns"] == 10_000_000
    assert duration_ns(parse_record(Clock, _whole(found.clock))) == 1_980_000_000


def test_a_duration_of_an_older_virtoll_is_read_as_it_was_and_its_bound_as_an_estimate() -> None:
    clock = _whole(timed(guest(), peer()).clock)
    clock["error_bound_ns"] = clock.pop("error_estimate_ns")
    del clock["guest"]["pause_ns"]
    read = parse_record(Clock, clock)
    assert (duration_ns(read), read.error_estimate_ns) == (2_000_000_000, 500_000_000)


def _whole(clock: dict[str, Any]) -> dict[str, Any]:
    """A clock block with what this script's guest does not tell."""
    rest = {"start_realtime_ns": 0, "end_realtime_ns": 0, "user_cpu_ns": 0, "system_cpu_ns": 0}
    return {**clock, "guest": {**rest, **clock["guest"]}}


def test_a_mark_names_its_link_and_each_job_has_sequences_of_its_own() -> None:
    of = guest()
    GUESTS.append(of)
    by = peer()
    by.answers[PathDelayRequest] = lambda: {"round_trip_ns": [1]}
    keeper = Timekeeper(of, by, MARKS, "eth2", IDENTIFIER)
    seen = set()
    for _ in range(40_000):
        assert keeper.time_job("idle", {}, 1.0).problem is None
        marks = marks_of(of.asked[-1])
        assert marks is not None
        assert 0 <= marks.first_sequence <= 0xFFFD
        seen.add(marks.first_sequence)
        of.asked.clear()
    assert len(seen) > 30_000
    assert MARKS is not None
    assert marks is not None
    assert (marks.interface, marks.identifier) == ("eth2", IDENTIFIER)
    assert (marks.source, marks.target) == (MARKS.guest_address, MARKS.peer_address)
    assert marks.target_mac == MARKS.peer_mac


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_mark_is_a_problem_and_no_duration(lost: int) -> None:
    found = timed(guest(), peer(lost=lost))
    assert found.clock["marks"] is None
    assert "did not reach the timekeeper" in found.problem


@pytest.mark.parametrize("round_trips", [([], [1]), ([1], []), ([], [])])
def test_a_path_that_does_not_answer_is_a_problem(round_trips: tuple[list[int], list[int]]) -> None:
    found = timed(guest(), peer(round_trips=round_trips))
    assert "the error of the duration is not known" in found.problem
    assert found.clock["error_estimate_ns"] == (500_000_000 if any(round_trips) else None)


@pytest.mark.parametrize(("step", "stored"), [(0, 0), (999_999, 0), (1_000_000, 1_000_000), (-(10**9), -(10**9))])
def test_a_step_of_the_outside_clock_is_stored(step: int, stored: int) -> None:
    assert timed(guest(), peer(step_ns=step)).clock["realtime_step_ns"] == stored
    assert timed(guest(step_ns=step), peer(), link=False).clock["realtime_step_ns"] == stored


def test_without_a_link_the_channel_does() -> None:
    by = peer()
    before = time.monotonic_ns()
    found = timed(guest(), by, link=False)
    assert found.problem is None
    assert found.clock["method"] == "channel"
    assert found.clock["marks"] == found.clock["channel_marks"]
    assert found.clock["marks"]["end_ns"] - found.clock["marks"]["start_ns"] == 1_500_000_000
    delays = found.clock["path_delay_before_ns"] + found.clock["path_delay_after_ns"]
    assert all(0 < delay <= time.monotonic_ns() - before for delay in delays)
    assert found.clock["error_estimate_ns"] == max(delays)
    assert by.asked == []


@pytest.mark.parametrize("edges", [(), ("start",), ("end",)])
def test_without_both_marks_on_the_channel_there_is_no_duration(edges: tuple[str, ...]) -> None:
    found = timed(guest(edges=edges), peer(), link=False)
    assert found.clock["marks"] is None
    assert "did not reach the timekeeper" in found.problem


@pytest.mark.parametrize("step", [0, 10**9, -(10**9)])
@pytest.mark.parametrize("apart", [0, 5_000_000])
def test_marks_that_the_channel_brings_together_are_no_duration(step: int, apart: int) -> None:
    """The channel was not read for longer than the job took; beside marks of the link it makes the error large.

    A little apart where the second comes in the next read: less than the guest slept between them.
    """
    found = timed(guest(apart_ns=apart, step_ns=step, pause_ns=10_000_000), peer(), link=False)
    assert "both marks of the job reached the timekeeper at once" in found.problem
    assert found.clock["channel_marks"] is not None, "what arrived is stored"
    beside = timed(guest(apart_ns=apart, step_ns=step), peer())
    assert beside.problem is None
    assert beside.clock["error_estimate_ns"] == 2_000_000_000 - apart
    longer = timed(guest(apart_ns=5_000_001, step_ns=step, pause_ns=10_000_000), peer(), link=False)
    assert longer.problem is None
