"""Which differences a run would find, by family of platforms."""

from __future__ import annotations

from virtoll.runfolder.records import MetricRecord
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.detectable import Detectable, detectable
from virtoll.stats.values import Task

METRIC = MetricRecord("w", "duration", "ns", "lower", "marks", title="a job", resource="cpu")
OTHER = METRIC.replace(name="rate")


def told_of(platform: str, smallest: float | None, metric: MetricRecord = METRIC, size: str = "") -> Comparison:
    return Comparison(platform, Task("w", metric, "{}", size), Verdict.UNKNOWN, smallest=smallest)


def test_one_row_for_each_family_and_metric_in_order_of_appearance() -> None:
    """The median of three counts; what was not tested is in no row."""
    comparisons = [
        told_of("qemu", None, OTHER),
        told_of("runc", 1.02),
        told_of("qemu", 1.5),
        told_of("netns", 1.01),
        told_of("runc", 1.10, size="64 B"),
        told_of("runc", 1.3, OTHER),
    ]
    families = {"runc": "os-level", "netns": "os-level", "qemu": "full"}
    assert detectable(comparisons, families) == (
        Detectable("os-level", METRIC, 1.02, 1.01, 1.10, 3),
        Detectable("full", METRIC, 1.5, 1.5, 1.5, 1),
        Detectable("os-level", OTHER, 1.3, 1.3, 1.3, 1),
    )
    assert detectable([], {}) == ()
