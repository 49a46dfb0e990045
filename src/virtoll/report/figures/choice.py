"""Which of many rows or panels a figure draws: as many as can be read. Its caption says what is left out, and where
all of it is.

Rows are ends: the first and the last set of parameters, chosen before anything was measured, and the one that costs
most, so that nothing larger is left out. Panels are ends of the frame size.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from virtoll.report.rows import grouped
from virtoll.stats.compare import Comparison
from virtoll.stats.values import Task

MOST_ROWS: Final = 24
MOST_PANELS: Final = 6


def chosen_rows(rows: Mapping[Task, Mapping[str, Comparison]]) -> list[Task]:
    """All, or of more than `MOST_ROWS` three of each metric of a workload: the first, the last, and the slowest.

    The slowest is where the smallest share of any platform is. A platform that has a share in none of these has its
    first. `rows`: tasks in order, each with what has a share.
    """
    if len(rows) <= MOST_ROWS:
        return list(rows)
    by_metric = grouped(rows, lambda task: (task.workload, task.metric.name))
    kept: set[Task] = set()
    for tasks in by_metric.values():
        slowest = min(tasks, key=lambda task: min(comparison.share or 0.0 for comparison in rows[task].values()))
        kept |= {tasks[0], tasks[-1], slowest}
    seen = {platform for task in kept for platform in rows[task]}
    for task, row in rows.items():
        if not row.keys() <= seen:
            kept.add(task)
            seen |= row.keys()
    return [task for task in rows if task in kept]


def rows_left_out(drawn: int, of: int, table: str) -> str:
    """What of the rows is not drawn, for captions; nothing where all are."""
    if drawn == of:
        return ""
    return (
        f" {drawn} of {of} rows are drawn: of each metric of a workload its first and its last set of parameters, and "
        f"the one at which a platform is slowest. {table} has all."
    )


def chosen_panels(tasks: Sequence[Task]) -> list[Task]:
    """All, or of more than `MOST_PANELS` those of the smallest and the largest frames, for all else that is asked."""
    if len(tasks) <= MOST_PANELS:
        return list(tasks)
    by_rest: dict[tuple[str, ...], list[tuple[int, Task]]] = {}
    for task in tasks:
        rest = json.loads(task.parameters)
        size = rest.pop("frame_size_bytes", 0)
        by_rest.setdefault((task.workload, task.metric.name, json.dumps(rest)), []).append((size, task))
    kept = {find(by_size, key=lambda sized: sized[0])[1] for by_size in by_rest.values() for find in (min, max)}
    return [task for task in tasks if task in kept]


def panels_left_out(drawn: int, of: int, table: str) -> str:
    """What of the panels is not drawn, for captions; nothing where all are."""
    if drawn == of:
        return ""
    return f" {drawn} of {of} panels are drawn: those of the smallest and of the largest frames. {table} has all."
