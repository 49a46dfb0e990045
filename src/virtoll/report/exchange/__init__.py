"""A run for other programs: what their dashboards and checks read, as docs/gate.md lists it.

`FORMATS` has a writer for each format, from `Exchanged` to the text of a file. What has no result is left out or
skipped with its reason, and is never zero. Must not: compute a statistic, or touch the disk.
"""

from collections.abc import Callable, Mapping
from typing import Final

from virtoll.report.exchange.benchmarks import bencher, bigger_is_better, smaller_is_better
from virtoll.report.exchange.comment import comment
from virtoll.report.exchange.junit import junit
from virtoll.report.exchange.openmetrics import openmetrics
from virtoll.report.exchange.values import Exchanged

__all__ = ["FORMATS", "Exchanged"]

FORMATS: Final[Mapping[str, Callable[[Exchanged], str]]] = {
    "junit": junit,
    "markdown": comment,
    "github-action-benchmark-smaller": smaller_is_better,
    "github-action-benchmark-bigger": bigger_is_better,
    "bencher": bencher,
    "openmetrics": openmetrics,
}
