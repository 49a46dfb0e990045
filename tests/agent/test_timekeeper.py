"""The timekeeper against callers that answer from a script: what it stores, and what it says when a mark is missing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agents import ScriptedAgent

from virtoll.agent.client import ChannelMark, Reply
from virtoll.agent.messages import Message, Request
from virtoll.agent.operations.jobs import MarkLink, RunRequest
from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.operations.timekeeping import MarksRequest, PathDelayRequest, TimekeeperStartRequest
from virtoll.agent.timekeeper import PAUSE_NS, Timekeeper, await_path, time_outside
from virtoll.errors import GuestError
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
        self.deadlines: list[float] = []

    def ask(self, request: Request[Reply], deadline_seconds: float = 60.0) -> Reply:
        """The answer; the deadline is kept."""
        self.deadlines.append(deadline_seconds)
        return super().ask(request, deadline_seconds)

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
    seen = []
    for jobs in (2, 3):
        for _ in range(jobs):
            assert keeper.time_job("idle", {}, 1.0).problem is None
            marks = marks_of(of.asked[-1])
            assert marks is not None
            seen.append(marks.first_sequence)
        keeper._sequence = 0xFFFA  # 32 765 jobs later
    assert seen == [2, 4, 0xFFFC, 0, 2], "16 bits, in pairs"
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


def test_what_it_asks_of_whom_and_how_long_it_waits() -> None:
    """Ten echoes of 5 s each and 5 s to answer; both marks within 10 s, and 5 s to answer."""
    assert MARKS is not None
    of, by = guest(), peer()
    timed(of, by)
    echoes = PathDelayRequest(
        interface=MARKS.peer_interface,
        source=MARKS.peer_address,
        target=MARKS.guest_address,
        target_mac=MARKS.peer_next_hop_mac,
        count=10,
        timeout_ns=5_000_000_000,
    )
    marks = MarksRequest(interface=MARKS.peer_interface, identifier=IDENTIFIER, wait_for=2, timeout_ns=10_000_000_000)
    assert by.asked == [TimekeeperStartRequest(interface=MARKS.peer_interface), echoes, marks, echoes]
    assert by.deadlines[1:] == [55, 15, 55]
    job = RunRequest(job="superpi", parameters={"digits": 3}, marks=marks_of(of.asked[0]), pause_ns=PAUSE_NS)
    assert (of.asked, of.deadlines) == ([job], [10.0])
    keeper = Timekeeper(of, by, None, "", 0, pause_ns=7)
    keeper.time_job("superpi", {}, 9.0, 2)
    assert of.asked[11] == RunRequest(job="superpi", parameters={}, marks=None, repeats=2, pause_ns=7)
    assert of.operations() == ["run", *["clocks"] * 10, "run", *["clocks"] * 10]


def test_marks_of_an_earlier_job_are_none_of_this_one() -> None:
    of = guest(edges=())
    of.channel_marks.extend(ChannelMark(edge, 10**18, 10**9) for edge in ("start", "end"))
    found = timed(of, peer(), link=False)
    assert (found.clock["marks"], found.clock["realtime_step_ns"]) == (None, 0)
    assert timed(guest(), peer(lost=1)).clock["realtime_step_ns"] == 0


@pytest.mark.parametrize(
    ("channel", "lost", "round_trips", "estimate"),
    [
        ({"apart_ns": 2_000_000_000}, 0, ([20, 30], [25, 40]), 40),
        ({"apart_ns": 2_000_000_000}, 0, ([20, 50], [25, 40]), 50),
        ({"apart_ns": 2_000_000_060}, 0, ([20, 50], [25, 40]), 60),
        ({"edges": ("start",)}, 0, ([20, 50], [25, 40]), 50),
        ({}, 1, ([20, 50], [25, 40]), 50),
        ({"apart_ns": 2_000_000_000, "step_ns": 10**9}, 0, ([20, 50], [25, 40]), 50),
    ],
)
def test_the_error_is_the_largest_round_trip_or_by_how_much_both_marks_differ(
    channel: dict[str, Any], lost: int, round_trips: tuple[list[int], list[int]], estimate: int
) -> None:
    found = timed(guest(**channel), peer(lost=lost, round_trips=round_trips))
    assert found.clock["error_estimate_ns"] == estimate


class Line:
    """A start line that tells what it was asked, in `told`."""

    pause_ns = 5

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def start(self) -> int:
        self.told.append("start")
        return 77

    def finish(self) -> None:
        self.told.append("finish")


def measuring(told: list[str], name: str) -> Callable[[], contextlib.AbstractContextManager[None]]:
    @contextlib.contextmanager
    def own() -> Iterator[None]:
        told.append(f"{name} begins")
        yield
        told.append(f"{name} ends")

    return own


def test_guests_at_once_begin_and_end_at_a_line_and_all_of_it_is_measured() -> None:
    told: list[str] = []
    of = guest()
    keeper = Timekeeper(of, peer(), None, "", 0, measuring(told, "own"))
    with contextlib.suppress(GuestError), keeper.together(Line(told)), keeper.also(measuring(told, "beside")):
        keeper.time_job("idle", {}, 1.0)
        raise GuestError("what happens in the context does not stay")
    assert told == ["beside begins", "own begins", "start", "finish", "own ends", "beside ends"]
    together = RunRequest(job="idle", parameters={}, marks=None, pause_ns=5, delay_ns=77)
    assert [one for one in of.asked if isinstance(one, RunRequest)] == [together]
    told.clear()
    keeper.time_job("idle", {}, 1.0)
    assert told == ["own begins", "own ends"]
    assert of.asked[31] == RunRequest(job="idle", parameters={}, marks=None, pause_ns=PAUSE_NS)


def test_a_job_outside_the_guest_is_timed_without_a_pause_and_without_a_guests_clock() -> None:
    told: list[str] = []
    of = guest()
    found = time_outside(of, "program", {"argv": ["true"]}, 9.0, measuring(told, "own"))
    assert of.asked[10] == RunRequest(job="program", parameters={"argv": ["true"]}, marks=None, pause_ns=0)
    assert of.deadlines[10] == 9.0
    assert told == ["own begins", "own ends"]
    assert (found.clock["method"], found.clock["guest"], found.problem) == ("channel", None, None)
    assert found.clock["marks"]["end_ns"] - found.clock["marks"]["start_ns"] == 1_500_000_000
    assert (found.result, found.check) == ({"digits": 3}, "23")


def test_a_path_is_awaited_until_an_echo_comes_back_or_two_minutes_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each echo takes a minute of this clock: the third would begin when the time is over."""
    assert MARKS is not None
    now = [1000.0]
    monkeypatch.setattr("virtoll.agent.timekeeper.time", SimpleNamespace(monotonic=lambda: now[0]))

    def peer_of(*answers: list[int]) -> Script:
        script, left = Script(), list(answers)

        def echo() -> dict[str, Any]:
            now[0] += 60
            return {"round_trip_ns": left.pop(0)}

        script.answers = {PathDelayRequest: echo}
        return script

    late = peer_of([], [9], [])
    await_path(late, MARKS)
    assert len(late.asked) == 2
    (asked,) = {(one.count, one.timeout_ns) for one in late.asked if isinstance(one, PathDelayRequest)}
    assert asked == (1, 250_000_000)
    never = peer_of([], [], [9])
    with pytest.raises(GuestError, match=f"^its link {MARKS.name} answered no echo within 120 s$"):
        await_path(never, MARKS)
    assert len(never.asked) == 2
