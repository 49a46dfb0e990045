"""`scale.csv`: a row a platform, task and number of guests; `groups.csv`: how they came up, and their memory."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Table, count, number, of_comparison, of_task, shared, text
from virtoll.stats.compare import Comparison
from virtoll.stats.guests_at_once import GroupRow, ScaleRow


@dataclass(frozen=True)
class ComparedRow:
    """What guests at once did, and its comparison with as many processes of the host; None of the host itself."""

    measured: ScaleRow
    comparison: Comparison | None


def _rows_of(source: ReportInput) -> Iterable[ComparedRow] | None:
    at_once = source.analysis.at_once
    if not at_once.points:
        return None
    return (ComparedRow(row, at_once.comparison(row.platform, row.task, row.point)) for row in at_once.rows)


def _groups_of(source: ReportInput) -> Iterable[GroupRow] | None:
    at_once = source.analysis.at_once
    return at_once.groups if at_once.points else None


def _together_unit(row: ComparedRow) -> str | None:
    return None if row.measured.together is None else row.measured.together_unit


ROWS: Final = Table[ComparedRow](
    "scale",
    "a platform, task and number of guests at once",
    _rows_of,
    (
        shared("platform", lambda row: row.measured.platform),
        shared("guests", lambda row: row.measured.point.guests),
        shared("vcpus", lambda row: row.measured.point.vcpus),
        shared("memory_bytes", lambda row: row.measured.point.memory_bytes),
        *of_task(lambda row: row.measured.task),
        shared("trials", lambda row: row.measured.trials),
        number(
            "each",
            "`unit`",
            "one guest's value: the baseline's median, and of others that times their ratio",
            lambda row: row.measured.each,
        ),
        number("together", "`together_unit`", "what all do together", lambda row: row.measured.together),
        text("together_unit", "the unit of it", _together_unit),
        number(
            "speedup",
            "factor",
            "together, against one guest of that size in the same block",
            lambda row: row.measured.speedup,
        ),
        shared("jain", lambda row: row.measured.jain),
        number(
            "slowest_to_fastest",
            "factor",
            "how many times slower the slowest guest is than the fastest",
            lambda row: row.measured.slowest,
        ),
        number(
            "skew_share",
            "share",
            "from the first job's begin to the last one's, of the shortest job",
            lambda row: row.measured.skew,
        ),
        number(
            "finished_ns",
            "ns",
            "from the first job's begin to the last one's end",
            lambda row: row.measured.finished_ns,
        ),
        number(
            "cpu_ns_per_guest", "ns", "CPU time of a guest's processes on the host", lambda row: row.measured.cpu_ns
        ),
        number(
            "share",
            "share",
            "performance relative to as many processes of the host",
            lambda row: row.comparison and row.comparison.share,
        ),
        *of_comparison(
            "low high times_slower pairs p_adjusted verdict at_least margin smallest_detectable_factor reason caveat",
            lambda row: row.comparison,
        ),
    ),
)

GROUPS: Final = Table[GroupRow](
    "groups",
    "a platform and number of guests that were started at the same time",
    _groups_of,
    (
        shared("platform", lambda group: group.platform),
        shared("guests", lambda group: group.point.guests),
        shared("vcpus", lambda group: group.point.vcpus),
        shared("memory_bytes", lambda group: group.point.memory_bytes),
        count("starts", "how often they were started", lambda group: group.starts),
        count("failed", "of these, how often not all came up", lambda group: group.failed),
        number("fastest_start_ns", "ns", "the first guest's time to ready", lambda group: group.first_ns),
        number("slowest_start_ns", "ns", "the last one's", lambda group: group.last_ns),
        number("all_up_ns", "ns", "from the first start asked for until all could be used", lambda group: group.up_ns),
        number("held_bytes_per_guest", "bytes", "what a guest's own processes hold", lambda group: group.held_bytes),
        number(
            "taken_bytes_per_guest",
            "bytes",
            "what the host has less, for each guest; it may be negative",
            lambda group: group.taken_bytes,
        ),
    ),
)
