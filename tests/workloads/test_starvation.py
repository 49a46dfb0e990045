"""A point at which the instrument had no CPU is measured again, and is no result if it never had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.support.agents import OperationAgent, recorded_reply
from tests.support.facts import assert_facts
from tests.support.made_up_points import Rates, made_up_point

from virtoll.agent.client import Request, TrafficAgents
from virtoll.runfolder.record import Record
from virtoll.runfolder.traffic_records import Cpu, Point, TrafficReply
from virtoll.system import locks
from virtoll.workloads.starvation import RequireCpu, cpu_share, retaken, starved, why_no_result
from virtoll.workloads.traffic import FrameParameters, Lane, TrafficStream, send

POINT_MS = 200
MS = 1_000_000


def point(
    *threads: tuple[int, int | None],
    cores: Sequence[int | None] = (),
    sink: tuple[int, int | None] = (0, None),
    sink_core: int | None = None,
    sink_backend: str = "tpacket",
) -> Point:
    """One point; threads that ran and waited for so many ms, each of one source."""
    made = made_up_point(64, POINT_MS * MS, None, [Rates(1000, 1000)] * len(threads))
    sources = [
        source.replace(cpu_ns=ran * MS, waited_ns=None if waited is None else waited * MS, thread=source.source)
        for source, (ran, waited) in zip(made.sources, threads, strict=True)
    ]
    ran, waited = sink
    cpu = Cpu(
        generator_cores=tuple(cores) or (None,) * len(threads),
        sink_cpu_ns=ran * MS,
        sink_waited_ns=None if waited is None else waited * MS,
        sink_core=sink_core,
    )
    return made.replace(sources=tuple(sources), cpu=cpu, sink=made.sink.replace(backend=sink_backend))


@pytest.mark.parametrize(
    ("measured", "share"),
    [
        (point((200, 0)), 1.0),
        (point((8, 192)), 0.04),
        (point((8, 792)), 0.01),  # it began late and sent for longer
        (point((100, 50)), 0.75),  # it slept for the rest
        (point((200, None)), None),
        (point((100, 100), (100, 100), cores=(1, 1)), 1.0),  # they had it in turns
        (point((100, 140), (60, 180), cores=(1, 1)), 1 - 80 / 240),
        (point((100, 100), (100, 100), cores=(1, 2)), 0.5),
        (point((190, 10), sink=(10, 190), cores=(1,), sink_core=1), 1.0),
        (point((200, 0), sink=(20, 60), cores=(1,), sink_core=0), 0.7),
        (point((200, 0), sink=(20, 60), cores=(1,), sink_core=0, sink_backend="xdp"), 1.0),  # its kernel counts
        (point((185, 15), sink=(10, 60), cores=(1,), sink_core=1, sink_backend="xdp"), 1 - 5 / 200),
    ],
)
def test_the_share_of_its_cpu_that_the_instrument_had(measured: Point, share: float | None) -> None:
    assert cpu_share(measured) == (None if share is None else pytest.approx(share))


def test_sources_of_one_thread_count_it_once() -> None:
    of_two = point((150, 50), (150, 50), cores=(1, 1))
    of_one = of_two.replace(sources=tuple(source.replace(thread=0) for source in of_two.sources))
    assert cpu_share(of_two) == 1.0
    assert cpu_share(of_one) == pytest.approx(0.75)


def test_what_guests_send_is_theirs() -> None:
    assert cpu_share(point((8, 192)).replace(guests_cpu=(Cpu(),))) is None


@pytest.mark.parametrize(("ran", "is_result"), [(191, True), (190, True), (189, False)])
def test_it_needs_95_percent(ran: int, *, is_result: bool) -> None:
    measured = point((ran, POINT_MS - ran))
    assert (starved(measured) is None) is is_result
    assert (why_no_result([point((200, 0)), measured]) is None) is is_result


def test_the_reason_says_what_the_instrument_had_and_needs() -> None:
    assert_facts(why_no_result([point((8, 192))]) or "", "4%", "95%", "CPU")


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it waited before it measured again, in s."""
    waited: list[float] = []
    monkeypatch.setattr("virtoll.workloads.starvation.time.sleep", waited.append)
    return waited


def in_turn(*points: Point) -> Callable[[RequireCpu], Point]:
    """Measures these, one after the other."""
    following = iter(points)

    def measure(require_cpu: RequireCpu) -> Point:
        point = next(following)
        require_cpu(point)
        return point

    return measure


def test_a_point_with_its_cpu_is_measured_once() -> None:
    fed = point((200, 0))
    assert retaken(in_turn(fed)) == fed


def test_a_point_without_it_is_measured_again_and_its_share_is_kept() -> None:
    fed = point((200, 0))
    taken = retaken(in_turn(point((8, 192)), point((100, 100)), fed))
    assert taken == fed.replace(discarded_cpu_shares=(0.04, 0.5))


def test_after_three_more_the_last_one_is_kept_as_it_is(pauses: list[float]) -> None:
    shares = (8, 20, 40, 60)
    taken = retaken(in_turn(*(point((ran, POINT_MS - ran)) for ran in shares)))
    assert taken.discarded_cpu_shares == (0.04, 0.1, 0.2)
    assert starved(taken) is not None
    assert pauses == [0.1, 0.2, 0.4]


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
