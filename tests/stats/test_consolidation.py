"""Series of idle guests, by hand: which steps count, what each guest took, how many fit into a GiB, why it ended."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from tests.support.facts import assert_facts

from virtoll.runfolder.guest_records import ConsolidationRecord
from virtoll.stats.consolidation import Consolidation, Slope, consolidations
from virtoll.stats.intervals import Estimate, Interval

GIB = 2**30


def record(
    step: int,
    available: tuple[int | None, int | None] = (None, None),
    held: int | None = None,
    *,
    platform: str = "p",
    status: Literal["ok", "failed", "stopped"] = "ok",
    reason: str | None = None,
    guests: int | None = None,
) -> ConsolidationRecord:
    """One step; the host's memory that is available before and after it, and what all processes hold after it."""
    none: dict[str, Any] = dict.fromkeys(
        ("shared_bytes", "swap_out_pages", "spawn_monotonic_ns", "ready_monotonic_ns", "budget")
    )
    return ConsolidationRecord(
        platform=platform,
        step=step,
        status=status,
        reason=reason,
        guests=step if guests is None else guests,
        monotonic_ns=0,
        available_before_bytes=available[0],
        available_bytes=available[1],
        processes_bytes=held,
        evidence=(),
        **none,
    )


def told(*records: ConsolidationRecord) -> Consolidation:
    (found,) = consolidations(records)
    return found


def test_a_guest_takes_what_each_start_took() -> None:
    """Of available memory 30, 10 and 20; of processes 8, 4 and 6: means of 20 and 6, and t_{0.975, 2} = 4.3027."""
    found = told(
        record(1, (1000, 970), 8),
        record(2, (980, 970), 12),
        record(3, (960, 940), 18),
        record(4, (900, 900), 99, status="stopped", reason="memory is short", guests=3),
    )
    assert (found.platform, found.guests, found.reason) == ("p", 3, "memory is short")
    assert [one.step for one in found.steps] == [1, 2, 3]
    for slope, mean, half in ((found.available, 20, 4.3027 * 10 / 3**0.5), (found.processes, 6, 4.3027 * 2 / 3**0.5)):
        assert slope is not None
        assert slope.bytes_per_guest.value == mean
        assert slope.bytes_per_guest.interval is not None
        assert slope.bytes_per_guest.interval.high - mean == pytest.approx(half, rel=1e-4)


def test_a_series_that_was_begun_anew_is_the_last_one() -> None:
    found = told(
        record(1, (100, 10), 90),
        record(2, status="failed", reason="the guest ended"),
        record(1, (100, 95), 5),
        record(2, (95, 90), 10),
    )
    assert [one.available_bytes for one in found.steps] == [95, 90]
    assert found.guests == 2
    assert_facts(found.reason, "series", "end")
    assert found.available is not None
    assert found.available.bytes_per_guest.value == 5


def test_the_last_reason_is_told_and_that_none_was_stored() -> None:
    failed, stopped = (record(2, status=status, reason=status) for status in ("failed", "stopped"))
    assert told(record(1), failed, stopped).reason == "stopped"
    assert_facts(told(record(1), record(2, status="failed")).reason, "no reason")
    refused = told(record(1, status="failed", reason="no KVM", guests=0))
    assert refused == Consolidation("p", 0, "no KVM", (), None, None)
    begun = record(2, (30, 20), 5)
    assert told(begun).steps == (begun,), "a folder without its first step"


def test_with_a_step_whose_memory_nobody_read_there_is_no_slope() -> None:
    for available in ((None, 5), (5, None)):
        assert told(record(1, (9, 5), 3), record(2, available, 4)).available is None
    assert told(record(1, (9, 5), None), record(2, (5, 3), 4)).processes is None
    assert told(record(1, (9, 5), 3), record(2, (5, 3), None)).processes is None


def test_each_platform_has_a_row_in_the_order_measured() -> None:
    found = consolidations([record(1, platform="q"), record(1, platform="p"), record(2, platform="q")])
    assert [(one.platform, one.guests) for one in found] == [("q", 2), ("p", 1)]


@pytest.mark.parametrize(
    ("value", "ends", "guests"),
    [
        (GIB / 8, (GIB / 16, GIB / 4), (8, 4, 16)),
        (GIB / 8, (0.0, GIB / 4), (8, 4, None)),
        (GIB / 8, (-1.0, GIB / 4), (8, 4, None)),
        (GIB / 8, None, (8, None, None)),
        (1.0, (0.5, 2.0), (GIB, GIB / 2, 2 * GIB)),
        (0.0, (-1.0, 1.0), None),
        (-5.0, None, None),
    ],
)
def test_guests_in_a_gib(
    value: float, ends: tuple[float, float] | None, guests: tuple[float, float | None, float | None] | None
) -> None:
    interval = None if ends is None else Interval(*ends, 0.95, "Student t")
    assert Slope(Estimate(value, interval)).guests_per_gib == guests
