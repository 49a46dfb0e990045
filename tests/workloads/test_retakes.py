"""Disturbed points are measured again, and points of several runs on a host one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.agents import OperationAgent, recorded_reply
from tests.support.hand_overs import span
from tests.support.starved_points import POINT_MS, point

from virtoll.agent.client import TrafficAgents
from virtoll.agent.request import Request
from virtoll.runfolder.record import Record
from virtoll.runfolder.traffic_records import Discarded, Point, TrafficReply
from virtoll.system import locks
from virtoll.workloads.retakes import RequireCalm, retaken
from virtoll.workloads.starvation import starved, why_no_result
from virtoll.workloads.traffic import FrameParameters, Lane, TrafficStream, send


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it waited before it measured again, in s."""
    waited: list[float] = []
    monkeypatch.setattr("virtoll.workloads.retakes.time.sleep", waited.append)
    return waited


def in_turn(*points: Point) -> Callable[[RequireCalm], Point]:
    """Measures these, one after the other."""
    following = iter(points)

    def measure(require_calm: RequireCalm) -> Point:
        point = next(following)
        require_calm(point)
        return point

    return measure


def test_a_point_with_its_cpu_is_measured_once() -> None:
    fed = point((200, 0))
    assert retaken(in_turn(fed)) == fed


def test_a_point_without_it_is_measured_again_and_its_share_is_kept() -> None:
    fed = point((200, 0))
    taken = retaken(in_turn(point((8, 192)), point((100, 100)), fed))
    assert taken == fed.replace(discarded=(Discarded(0.04, None), Discarded(0.5, None)))


def test_after_three_more_the_last_one_is_kept_as_it_is(pauses: list[float]) -> None:
    shares = (8, 20, 40, 60)
    taken = retaken(in_turn(*(point((ran, POINT_MS - ran)) for ran in shares)))
    assert [discarded.cpu_share for discarded in taken.discarded] == [0.04, 0.1, 0.2]
    assert starved(taken) is not None
    assert pauses == [0.1, 0.2, 0.4]


def test_a_point_whose_cpus_were_moved_meanwhile_is_measured_again() -> None:
    near, moved = point((200, 0)), point((200, 0)).replace(hand_over=span([52], [330]))
    near = near.replace(hand_over=span([52], [55]))
    far = near.replace(hand_over=span([330], [320]))
    unknown = near.replace(hand_over=span([None], [330]))
    assert retaken(in_turn(moved, near)) == near.replace(discarded=(Discarded(1.0, moved=True),))
    for steady in (near, far, unknown):
        assert retaken(in_turn(steady)) == steady


def test_a_point_whose_cpus_move_each_time_is_a_result_all_the_same() -> None:
    moved = point((200, 0)).replace(hand_over=span([330], [52]))
    taken = retaken(in_turn(moved, moved, moved, moved))
    assert [discarded.moved for discarded in taken.discarded] == [True] * 3
    assert why_no_result([taken]) is None


def test_one_generator_on_a_host_sends_at_a_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(locks, "OF_ALL_USERS", str(tmp_path))

    def sent(_: Request[Record]) -> TrafficReply:
        with locks.turn(0.0) as is_free:
            assert not is_free
        return TrafficReply.from_json(recorded_reply("traffic"))

    lane = Lane("eth1", "02:00:00:00:00:01", "02:00:00:00:00:02", "10.1.0.1", "10.2.0.1")
    stream = TrafficStream((lane,), ("eth1",), None, None)
    agent = OperationAgent(traffic=sent)
    send(TrafficAgents.of_one(agent), stream, FrameParameters(), 1, 1_000_000, None)
    assert agent.operations() == ["traffic"]
    with locks.turn(0.0) as is_free:
        assert is_free
