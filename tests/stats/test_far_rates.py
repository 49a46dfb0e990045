"""What being far costs is told of each platform that was near and far."""

from __future__ import annotations

import pytest
from tests.support.by_hand import task

from virtoll.runfolder.hand_over import Distance
from virtoll.stats.far_rates import far_rates
from virtoll.stats.values import Observation, Task

RATE = task("forward", "points", {"size": 64}, name="maximum_forwarding_rate", better="higher")
TIME = task("forward", "cpu_points", {"size": 64}, name="cpu_time", unit="ns", better="lower")
NEAR, FAR, CHANGED = Distance.NEAR, Distance.FAR, Distance.CHANGED


def observed(platform: str, of: Task, values: dict[Distance, tuple[float, ...]]) -> list[Observation]:
    """All in one block."""
    made = [(distance, value) for distance, own in values.items() for value in own]
    return [
        Observation(of, platform, place, 0, place, value, distance=distance)
        for place, (distance, value) in enumerate(made)
    ]


def test_each_platform_has_its_own_rates() -> None:
    native = observed("native", RATE, {NEAR: (1000.0, 1020.0, 1040.0), FAR: (680.0, 700.0), CHANGED: (900.0,)})
    runc = observed("runc", RATE, {NEAR: (340.0,), FAR: (300.0,)})
    steady = observed("netns", RATE, {NEAR: (350.0,)})
    first, second = far_rates([*native, *runc, *steady])
    assert (first.platform, first.near, first.far) == ("native", 1020.0, 690.0)
    assert (first.near_trials, first.far_trials, first.changed_trials, first.left_out) == (3, 2, 1, 3)
    assert first.share == pytest.approx(690 / 1020)
    assert first.explained is not None
    assert 0.98 < first.explained < 1
    assert (second.platform, second.explained) == ("runc", 1.0)
    assert second.share == pytest.approx(300 / 340)


def test_cpu_time_that_grows_is_less_performance() -> None:
    (found,) = far_rates(observed("native", TIME, {NEAR: (1000.0,), FAR: (1250.0,)}))
    assert found.share == pytest.approx(0.8)


def test_what_was_never_near_is_left_in() -> None:
    (found,) = far_rates(observed("qemu", RATE, {FAR: (20.0, 21.0)}))
    assert (found.near, found.share, found.left_out, found.explained) == (None, None, 0, None)
