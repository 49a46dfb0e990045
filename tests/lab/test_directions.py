"""Both directions at once through a real guest, by every generator and sink: each interface sends and counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support import guests
from tests.support.guests import Connected

from virtoll.pipeline.session import RunSession
from virtoll.workloads.forward import Forward, ForwardParameters
from virtoll.workloads.throughput import Throughput
from virtoll.workloads.traffic import unbalanced

INSIDE_LAB = "frames"
pytestmark = [pytest.mark.lab]

RATE = 5000.0  # frames/s of each direction


@pytest.fixture(scope="module")
def live(run_session: RunSession) -> Iterator[Connected]:
    started = guests.start("netns", run_session)
    yield started
    started.guest.stop()


@pytest.mark.parametrize("sink", ["xdp", "tpacket"])
@pytest.mark.parametrize("backend", ["live-frames", "af-xdp", "af-packet"])
def test_every_frame_arrives_at_the_other_end_and_at_no_other(live: Connected, backend: str, sink: str) -> None:
    """A sink must not count what its own interface sends: not as forwarded, and not twice."""
    wanted = ForwardParameters.model_validate({"directions": "both", "backend": backend, "sink": sink})
    point = Forward(wanted).point(live.bench, RATE)
    assert unbalanced([point]) is None
    assert len(point.sources) == len(point.sink.per_source) == 2
    for sent, arrived in zip(point.sources, point.sink.per_source, strict=True):
        assert arrived.forwarded_frames == sent.offered_frames > 0
        assert arrived.duplicate_frames == arrived.reordered_frames == 0


def test_flat_out_the_books_of_both_directions_balance(live: Connected) -> None:
    measured = guests.measured(
        Forward(ForwardParameters(directions="both", point_milliseconds=200)), lambda: live.bench
    )
    assert measured.problem is None
    assert measured.points is not None
    assert measured.points[-1].intended_rate_frames_per_second is None
    assert all(one.forwarded_frames for one in measured.points[-1].sink.per_source)
    for metered in measured.cpu_points or ():
        assert len(metered.sources) == 2


def test_the_search_gives_each_direction_half_of_the_load(live: Connected) -> None:
    asked = {"directions": "both", "trial_seconds": 0.1, "sum_seconds": 0.2, "search_seconds": 0.5}
    measured = guests.measured(Throughput.with_parameters(asked), lambda: live.bench)
    assert measured.problem is None
    assert measured.result is not None
    assert measured.points is not None
    for goal in measured.result["goals"]:
        for bound in filter(None, (goal["lower"], goal["upper"])):
            rates = [measured.points[number].intended_rate_frames_per_second for number in bound["points"]]
            assert rates == [bound["rate_frames_per_second"] / 2] * len(rates)
