"""The timekeeper against scripted agents: what it stores, and the problem where a mark or an echo is missing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.agents import OperationAgent
from tests.support.facts import assert_facts, refused

from virtoll.agent.client import ChannelMark
from virtoll.agent.operations.jobs import MarkLink, RunRequest
from virtoll.agent.operations.timekeeping import MarksRequest, PathDelayRequest, TimekeeperStartRequest
from virtoll.agent.request import Request
from virtoll.agent.timekeeper import PAUSE_NS, Timekeeper, await_path, time_outside
from virtoll.errors import GuestError
from virtoll.lab.network import plan_links
from virtoll.runfolder.record import Record
from virtoll.runfolder.records import Marks, duration_ns

IDENTIFIER = 23
MARKS = plan_links(0).marks


class Peer(OperationAgent):
    """A peer that has seen both marks of ``guest`` 2 s apart, or fewer; with these round trips before and after."""

    def __init__(self, lost: int, step_ns: int, round_trips: tuple[list[int], list[int]]) -> None:
        delays = iter(round_trips)
        super().__init__(
            timekeeper_start={},
            path_delay=lambda _: {"round_trip_ns": next(delays), "lost": 0},
            marks=lambda _: self.seen(lost, step_ns),
        )
        self.guest = OperationAgent()

    def seen(self, lost: int, step_ns: int) -> dict[str, Any]:
        """The marks of the guest's last job."""
        first = next(link.first_sequence for asked in reversed(self.guest.asked) if (link := marks_of(asked)))
        offsets = ((0, 100, 7), (1, 2_000_000_100 + step_ns, 7 + step_ns))
        seen = [
            {
                "identifier": IDENTIFIER,
                "sequence": first + place,
                "received_realtime_ns": received,
                "realtime_minus_monotonic_ns": offset,
            }
            for place, received, offset in offsets
        ]
        return {"marks": seen[: 2 - lost], "missing": lost}


def guest(
    edges: tuple[str, ...] = ("start", "end"),
    step_ns: int = 0,
    pause_ns: int = 0,
    apart_ns: int = 1_500_000_000,
    took_ns: int = 1_000_000_000,
) -> OperationAgent:
    """A guest whose job takes ``took_ns`` by its own clock; its marks arrive over the channel so far apart."""

    def run(_: RunRequest) -> dict[str, Any]:
        for number, edge in enumerate(edges):
            realtime_ns = 10**18 + number * (apart_ns + step_ns)
            made.channel_marks.append(ChannelMark(edge, realtime_ns, 10**9 + number * apart_ns))
        clock = {"start_monotonic_ns": 5, "end_monotonic_ns": 5 + took_ns, "pause_ns": pause_ns}
        return {"guest": clock, "result": {"digits": 3}, "check": "23"}

    made = OperationAgent(run=run, clocks={})
    return made


def peer(lost: int = 0, step_ns: int = 0, round_trips: tuple[list[int], list[int]] = ([20, 30], [25, 40])) -> Peer:
    return Peer(lost, step_ns, round_trips)


def marks_of(request: Request[Record]) -> MarkLink | None:
    """Where the marks of a job were to go."""
    return request.marks if isinstance(request, RunRequest) else None


def timed(of: OperationAgent, by: Peer, *, link: bool = True) -> Any:
    by.guest = of
    keeper = Timekeeper(of, by, MARKS if link else None, "eth2", IDENTIFIER)
    return keeper.time_job("superpi", {"digits": 3}, 10.0)


def test_marks_on_the_link_are_what_counts() -> None:
    by = peer()
    job = timed(guest(), by)
    assert job.problem is None
    assert job.clock.method == "icmp"
    assert job.clock.marks == Marks(100, 2_000_000_100)
    assert job.clock.channel_marks is not None
    assert job.clock.channel_marks.end_ns - job.clock.channel_marks.start_ns == 1_500_000_000
    assert job.clock.realtime_step_ns == 0
    assert job.clock.path_delay_before_ns == (20, 30)
    assert job.clock.path_delay_after_ns == (25, 40)
    assert job.clock.error_estimate_ns == 500_000_000, "the marks differ by more than any round trip"
    assert job.clock.guest is not None
    assert job.clock.guest.end_monotonic_ns == 1_000_000_005
    assert (job.result, job.check) == ({"digits": 3}, "23")
    assert by.operations() == ["timekeeper-start", "path-delay", "marks", "path-delay"]


def test_the_pause_after_the_start_mark_is_stored_and_comes_off() -> None:
    """As a share: the guest's clock runs at half the speed of the outside one."""
    job = timed(guest(pause_ns=10_000_000), peer())
    assert job.clock.guest.pause_ns == 10_000_000
    assert duration_ns(job.clock) == 1_980_000_000


@pytest.mark.parametrize(
    ("reported_ms", "excess_ms", "valid"),
    [(0, 0, True), (10, 0, True), (11, 0, True), (12, 1, True), (80, 69, True), (180, 169, True), (230, 219, False)],
)
@pytest.mark.parametrize("link", [True, False])
def test_a_pause_beyond_the_request_is_an_error_and_at_most_a_tenth(
    reported_ms: int, excess_ms: int, valid: bool, link: bool
) -> None:
    """Marks 2 s apart: the pause may be 10 ms, the round trip and 1 ms long."""
    pause_ns = reported_ms * 1_000_000
    of = guest(pause_ns=pause_ns, apart_ns=2_000_000_000, took_ns=2_000_000_000)
    job = timed(of, peer(), link=link)
    assert (job.problem is None) is valid
    if not valid:
        assert_facts(job.problem, "pause", f"{reported_ms} ms", "10 ms")
    assert duration_ns(job.clock) == 2_000_000_000 - pause_ns
    if link:  # by the channel the round trips are those of this process
        assert excess_ms * 1_000_000 <= job.clock.error_estimate_ns <= excess_ms * 1_000_000 + 100


def test_a_busy_host_that_wakes_a_guest_late_costs_no_short_job() -> None:
    """Its 49 ms are in the error; what is longer is no sleep of a guest that is well."""
    late = timed(guest(pause_ns=60_000_000, apart_ns=100_000_000, took_ns=100_000_000), peer(), link=False)
    assert late.problem is None
    assert late.clock.error_estimate_ns >= 40_000_000
    longer = timed(guest(pause_ns=80_000_000, apart_ns=100_000_000, took_ns=100_000_000), peer(), link=False)
    assert_facts(longer.problem, "pause", "80 ms", "10 ms")


def test_a_pause_is_compared_by_the_outside_clock() -> None:
    """The guest's clock tells a third of the time: its 200 ms are 600 ms outside, of a job of 1.4 s."""
    job = timed(guest(pause_ns=200_000_000, apart_ns=2_000_000_000, took_ns=666_666_666), peer())
    assert_facts(job.problem, "pause", "200 ms")
    right = timed(guest(pause_ns=200_000_000, apart_ns=20_000_000_000, took_ns=20_000_000_000), peer(), link=False)
    assert right.problem is None, "the same of a longer job"
    assert right.clock.error_estimate_ns >= 189_000_000


@pytest.mark.parametrize("took_ns", [0, 5_000_000])
def test_a_pause_longer_than_all_of_the_guests_time_is_no_duration(took_ns: int) -> None:
    job = timed(guest(pause_ns=10_000_000, apart_ns=2_000_000_000, took_ns=took_ns), peer())
    assert (job.problem is None) is (took_ns == 0), "without a guest's clock nothing is taken off"
    assert duration_ns(job.clock) == (2_000_000_000 if took_ns == 0 else -2_000_000_000)


def test_the_pause_of_guests_at_once_is_the_barriers() -> None:
    of = guest(pause_ns=6_000_000_000, apart_ns=8_000_000_000, took_ns=8_000_000_000)
    keeper = Timekeeper(of, peer(), None, "", 0)
    line = Line([])
    line.pause_ns = 6_000_000_000
    with keeper.together(line):
        assert keeper.time_job("idle", {}, 1.0).problem is None
    assert_facts(str(keeper.time_job("idle", {}, 1.0).problem), "pause", "6000 ms")


@pytest.mark.parametrize("link", [True, False])
def test_the_last_start_mark_counts(link: bool) -> None:
    """A guest that woke up late marks and pauses once more."""
    edges = ("start", "start", "end")
    by = peer()

    def again(_: MarksRequest) -> dict[str, Any]:
        start, end = by.seen(0, 0)["marks"]
        return {"marks": [start, {**start, "received_realtime_ns": 400}, end], "missing": 0}

    by.answers["marks"] = again
    job = timed(guest(edges=edges), by, link=link)
    assert job.problem is None
    assert duration_ns(job.clock) == (1_999_999_700 if link else 1_500_000_000)


def test_a_mark_names_its_link_and_each_job_has_sequences_of_its_own() -> None:
    of = guest()
    by = peer()
    by.guest = of
    by.answers["path_delay"] = {"round_trip_ns": [1]}
    keeper = Timekeeper(of, by, MARKS, "eth2", IDENTIFIER)
    seen = []
    for jobs in (2, 3):
        for _ in range(jobs):
            assert keeper.time_job("idle", {}, 1.0).problem is None
            marks = marks_of(of.asked[-1])
            assert marks is not None
            seen.append(marks.first_sequence)
        keeper._sequence = 0xFFFA  # private: 32 765 jobs later
    assert seen == [2, 4, 0xFFFC, 0, 2], "16 bits, in pairs"
    assert MARKS is not None
    assert marks is not None
    assert (marks.interface, marks.identifier) == ("eth2", IDENTIFIER)
    assert (marks.source, marks.target) == (MARKS.guest_address, MARKS.peer_address)
    assert marks.target_mac == MARKS.peer_mac


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_mark_is_a_problem_and_no_duration(lost: int) -> None:
    job = timed(guest(), peer(lost=lost))
    assert job.clock.marks is None
    assert_facts(job.problem, "mark", "duration")


@pytest.mark.parametrize("round_trips", [([], [1]), ([1], []), ([], [])])
def test_a_path_that_does_not_answer_is_a_problem(round_trips: tuple[list[int], list[int]]) -> None:
    job = timed(guest(), peer(round_trips=round_trips))
    assert_facts(job.problem, "echo", "error")
    assert job.clock.error_estimate_ns == (500_000_000 if any(round_trips) else None)


@pytest.mark.parametrize(("step", "stored"), [(0, 0), (999_999, 0), (1_000_000, 1_000_000), (-(10**9), -(10**9))])
def test_a_step_of_the_outside_clock_is_stored(step: int, stored: int) -> None:
    assert timed(guest(), peer(step_ns=step)).clock.realtime_step_ns == stored
    assert timed(guest(step_ns=step), peer(), link=False).clock.realtime_step_ns == stored


def test_without_a_link_the_channel_does() -> None:
    by = peer()
    before = time.monotonic_ns()
    job = timed(guest(), by, link=False)
    assert job.problem is None
    assert job.clock.method == "channel"
    assert job.clock.marks == job.clock.channel_marks
    assert job.clock.marks.end_ns - job.clock.marks.start_ns == 1_500_000_000
    delays = job.clock.path_delay_before_ns + job.clock.path_delay_after_ns
    assert all(0 < delay <= time.monotonic_ns() - before for delay in delays)
    assert job.clock.error_estimate_ns == max(delays)
    assert by.asked == []


@pytest.mark.parametrize("edges", [(), ("start",), ("end",)])
def test_without_both_marks_on_the_channel_there_is_no_duration(edges: tuple[str, ...]) -> None:
    job = timed(guest(edges=edges), peer(), link=False)
    assert job.clock.marks is None
    assert_facts(job.problem, "mark", "duration")


@pytest.mark.parametrize("step", [0, 10**9, -(10**9)])
@pytest.mark.parametrize("apart", [0, 5_000_000])
def test_marks_that_the_channel_brings_together_are_no_duration(step: int, apart: int) -> None:
    """The channel was not read for longer than the job took; beside marks of the link it makes the error large.

    A little apart where the second comes in the next read: less than the guest slept between them.
    """
    job = timed(guest(apart_ns=apart, step_ns=step, pause_ns=10_000_000), peer(), link=False)
    assert_facts(job.problem, "both marks", "duration")
    assert job.clock.channel_marks is not None, "what arrived is stored"
    beside = timed(guest(apart_ns=apart, step_ns=step), peer())
    assert beside.problem is None
    assert beside.clock.error_estimate_ns == 2_000_000_000 - apart
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
    job = timed(of, peer(), link=False)
    assert (job.clock.marks, job.clock.realtime_step_ns) == (None, 0)
    assert timed(guest(), peer(lost=1)).clock.realtime_step_ns == 0


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
def test_the_error_is_the_largest_round_trip_or_the_marks_difference(
    channel: dict[str, Any], lost: int, round_trips: tuple[list[int], list[int]], estimate: int
) -> None:
    job = timed(guest(**channel), peer(lost=lost, round_trips=round_trips))
    assert job.clock.error_estimate_ns == estimate


class Line:
    """A start line that writes down what it was asked."""

    pause_ns = 5

    def __init__(self, events: list[str]) -> None:
        self.events = events

    def start(self) -> int:
        self.events.append("start")
        return 77

    def finish(self) -> None:
        self.events.append("finish")


def measuring(events: list[str], name: str) -> Callable[[], contextlib.AbstractContextManager[None]]:
    @contextlib.contextmanager
    def own() -> Iterator[None]:
        events.append(f"{name} begins")
        yield
        events.append(f"{name} ends")

    return own


def test_guests_at_once_begin_and_end_at_a_line_and_all_of_it_is_measured() -> None:
    events: list[str] = []
    of = guest()
    keeper = Timekeeper(of, peer(), None, "", 0, measuring(events, "own"))
    with contextlib.suppress(GuestError), keeper.together(Line(events)), keeper.also(measuring(events, "beside")):
        keeper.time_job("idle", {}, 1.0)
        raise GuestError("what happens in the context does not stay")
    assert events == ["beside begins", "own begins", "start", "finish", "own ends", "beside ends"]
    together = RunRequest(job="idle", parameters={}, marks=None, pause_ns=5, delay_ns=77)
    assert [one for one in of.asked if isinstance(one, RunRequest)] == [together]
    events.clear()
    keeper.time_job("idle", {}, 1.0)
    assert events == ["own begins", "own ends"]
    assert of.asked[31] == RunRequest(job="idle", parameters={}, marks=None, pause_ns=PAUSE_NS)


def test_a_job_outside_the_guest_has_no_pause_and_no_guests_clock() -> None:
    events: list[str] = []
    of = guest()
    job = time_outside(of, "program", {"argv": ["true"]}, 9.0, measuring(events, "own"))
    assert of.asked[10] == RunRequest(job="program", parameters={"argv": ["true"]}, marks=None, pause_ns=0)
    assert of.deadlines[10] == 9.0
    assert events == ["own begins", "own ends"]
    assert (job.clock.method, job.clock.guest, job.problem) == ("channel", None, None)
    assert job.clock.marks is not None
    assert job.clock.marks.end_ns - job.clock.marks.start_ns == 1_500_000_000
    assert (job.result, job.check) == ({"digits": 3}, "23")


def test_a_path_is_awaited_until_an_echo_or_for_two_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each echo takes a minute of this clock: the third would begin when the time is over."""
    assert MARKS is not None
    now = [1000.0]
    monkeypatch.setattr("virtoll.agent.timekeeper.time", SimpleNamespace(monotonic=lambda: now[0]))

    def peer_of(*answers: list[int]) -> OperationAgent:
        left = list(answers)

        def echo(_: PathDelayRequest) -> dict[str, Any]:
            now[0] += 60
            return {"round_trip_ns": left.pop(0)}

        return OperationAgent(path_delay=echo)

    late = peer_of([], [9], [])
    await_path(late, MARKS)
    assert len(late.asked) == 2
    (asked,) = {(one.count, one.timeout_ns) for one in late.asked if isinstance(one, PathDelayRequest)}
    assert asked == (1, 250_000_000)
    never = peer_of([], [], [9])
    with refused(MARKS.name, "120 s", error=GuestError):
        await_path(never, MARKS)
    assert len(never.asked) == 2
