"""Routers beside others in the papers' form, on rates whose Mbit/s are round: 64-byte frames have 672 bits on the wire.

At 1 000 000 frames/s that is 672 Mbit/s (64 bytes, and 20 of preamble, delimiter and gap).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.by_hand import point, sink, source, task, trial

from virtoll.runfolder.conditions import ALONE, Condition, NeighbourRecord
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.isolation import Isolation
from virtoll.stats.neighbour_routers import NeighbourRouter, neighbour_routers
from virtoll.stats.summaries import CellSummary, summarise
from virtoll.stats.values import Observation, Task

SIZE = {"frame_size_bytes": 64}
ROUTER = task("forward", "points", SIZE, name="maximum_forwarding_rate")
LARGE = task("forward", "points", {"frame_size_bytes": 1500}, name="maximum_forwarding_rate")
SENDER = task("transmit", "points", SIZE, name="transmission_rate")
FOUND = task("throughput", "figures", SIZE, name="ndr", better="higher")
SHAPELESS = task("forward", "points", {}, name="maximum_forwarding_rate")
IDLE, FLOOD = Condition("idle"), Condition("network-flood")
MEGA = 1e6  # frames/s


def cell(own: Task, platform: str, *values: tuple[int, float]) -> CellSummary:
    """Of (block, millions of frames/s)."""
    return summarise(
        [Observation(own, platform, at, block, at, MEGA * rate) for at, (block, rate) in enumerate(values)]
    )


def matrix(cells: dict[tuple[str, Task, str], CellSummary], **caveats: str) -> Isolation:
    """All that was measured beside others, in the order given; `caveats` by condition's load."""
    conditions = tuple(one for one in (FLOOD, IDLE) if any(label == one.label for _, _, label in cells))
    compared = [
        Comparison(platform, own, Verdict.UNKNOWN, condition=one.label, caveat=caveats.get(one.load.partition("-")[0]))
        for platform, own, label in cells
        for one in conditions
        if label == one.label
    ]
    return Isolation(conditions=conditions, comparisons=tuple(compared), cells=cells)


def other(rate: float, *, lost: int = 0, size: int = 64) -> Point:
    """A guest that was sent so many frames in a second, and lost some of them."""
    sent = round(rate)
    steps = {"first_sent_monotonic_ns": 0, "last_sent_monotonic_ns": 1_000_000_000}
    own = point(rate, [source(intended=sent + 1, **steps)], [sink(forwarded=sent + 1 - lost, lost=lost)])
    return own.replace(frame_size_bytes=size)


def beside(number: int, block: int, *others: Point | None, condition: Condition = FLOOD, **more: Any) -> TrialRecord:
    records = tuple(NeighbourRecord("q/0/2", "q", (), (0, 1), traffic=one) for one in others)
    given: dict[str, Any] = {"parameters": SIZE, "points": (), "size": None} | more
    return trial(number, block=block, condition=condition, neighbours=records, **given)


def only(rows: Sequence[NeighbourRouter]) -> NeighbourRouter:
    (one,) = rows
    return one


def test_means_are_over_blocks_that_have_both_in_mbit_on_the_wire() -> None:
    """Alone 2 (of 1 and 3) and 4 million frames/s, beside 1 and 3: 0.5 and 0.75 of it, 37.5 % less on average."""
    cells = {
        ("p", ROUTER, ALONE): cell(ROUTER, "p", (0, 1), (0, 3), (1, 4), (2, 9)),
        ("p", ROUTER, FLOOD.label): cell(ROUTER, "p", (1, 3), (0, 1), (3, 9)),
    }
    row = only(neighbour_routers(matrix(cells, network="nothing was lost"), [], ("p",)))
    assert (row.platform, row.task, row.condition, row.blocks) == ("p", ROUTER, FLOOD, 2)
    assert row.shape == FrameShape(frame_size_bytes=64)
    assert (row.alone.value, row.with_neighbours.value) == (3 * 672, 2 * 672)
    assert row.change.value == pytest.approx(-0.375)
    # Student's t of two values: 12.7062 times half their difference.
    assert row.change.interval is not None
    assert row.change.interval.high == pytest.approx(-0.375 + 12.7062 * 0.125, rel=1e-5)
    assert row.alone.interval is not None
    assert row.alone.interval.low == pytest.approx(672 * (3 - 12.7062), rel=1e-5)
    assert (row.into_other, row.out_of_other, row.caveat) == (None, None, "nothing was lost")


def test_what_the_other_guest_was_sent_and_forwarded_is_of_its_own_frames() -> None:
    """Of 1500-byte frames, 12 160 bits: 100 000 frames/s are 1216 Mbit/s. Block 0 has 100 and 200 thousand, block 1 50.

    Trials of another condition, platform or size, or that cannot be believed, are not among them.
    """
    cells = {
        ("p", ROUTER, ALONE): cell(ROUTER, "p", (0, 1), (1, 1)),
        ("p", ROUTER, FLOOD.label): cell(ROUTER, "p", (0, 1), (1, 1)),
    }
    wrong = other(7e5)
    single = point(1.0, [source(intended=1)], [sink(forwarded=1)])
    trials = [
        beside(1, 0, other(1e5, lost=50_000, size=1500), None),
        beside(2, 0, other(2e5, size=1500)),
        beside(3, 1, other(5e4, lost=10_000, size=1500), single),
        beside(4, 1, wrong, condition=IDLE),
        beside(5, 1, wrong, platform="q"),
        beside(6, 1, wrong, status="invalid"),
        beside(7, 1, wrong, parameters={"frame_size_bytes": 1500}),
    ]
    row = only(neighbour_routers(matrix(cells), trials, ("p",)))
    assert row.into_other is not None
    assert row.out_of_other is not None
    assert row.into_other.value == pytest.approx(0.012160 * (150_000 + 50_000) / 2)
    assert row.out_of_other.value == pytest.approx(0.012160 * (125_000 + 40_000) / 2)
    assert row.into_other.interval is not None
    assert row.caveat is None


def test_rows_are_by_condition_frames_and_platform_with_both_rates() -> None:
    """No rate of guests that send, no figure of a search, and none without a shape of frames is among them."""
    tasks = (LARGE, ROUTER, SENDER, FOUND, SHAPELESS)
    cells = {
        (platform, own, label): cell(own, platform, (0, 1))
        for platform in ("p", "q")
        for own in tasks
        for label in (ALONE, IDLE.label, FLOOD.label)
    }
    del cells["p", ROUTER, ALONE]
    cells["q", LARGE, ALONE] = cell(LARGE, "q", (9, 1))
    rows = neighbour_routers(matrix(cells), [], ("q", "p", "gone"))
    assert [(row.condition, row.task, row.platform) for row in rows] == [
        (FLOOD, LARGE, "p"),
        (FLOOD, ROUTER, "q"),
        (IDLE, LARGE, "p"),
        (IDLE, ROUTER, "q"),
    ]
    assert only([row for row in rows if row.task == LARGE and row.condition == IDLE]).alone.value == 12_160
    assert neighbour_routers(Isolation(), [], ("p",)) == ()
