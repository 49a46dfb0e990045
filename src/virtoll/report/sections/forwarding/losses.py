"""Lost frames by place and by point, and pause frames, as rows of text for the page.

No numbers are computed here: they come from `stats/wire.py`, `stats/sweeps.py` and `stats/pause_frames.py`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from virtoll import units
from virtoll.report.rows import Shown, TableRow, grouped, in_order
from virtoll.stats.analysis import Analysis
from virtoll.stats.hops import Owner
from virtoll.stats.pause_frames import PauseRow, pause_counts, pause_rows
from virtoll.stats.sweeps import CurvePoint, PointValue
from virtoll.stats.wire import LossRow

_BY: Final = {
    Owner.PLATFORM: "by the platform",
    Owner.HOST: "by the host itself",
    Owner.UNLOCATED: "at an unknown place",
}


def loss_values(analysis: Analysis) -> dict[str, Any]:
    """What the template prints of losses and pauses."""
    rows = in_order(analysis, analysis.losses)
    with_loss = [row for row in rows if row.lost_frames]
    pauses = pause_rows(pause_counts(analysis.tasks, analysis.data.trials))
    return {
        "located": list(map(_loss_row, with_loss)),
        "lossless_rows": len(rows) - len(with_loss),
        "summary": _loss_summary([row for row in rows if row.platform not in analysis.caveats]),
        "pauses": list(map(_pause_row, in_order(analysis, pauses))),
        "points": list(_point_rows(analysis)),
    }


def _share(part: int, whole: int) -> str:
    return units.percent(part / whole) if whole else "–"


def _loss_row(row: LossRow) -> TableRow:
    places = "; ".join(
        f"{place}: {count}" for place, count in sorted(row.by_segment.items(), key=lambda item: -item[1])
    )
    reported = "; ".join(row.counters.values())
    cells = [
        Shown(row.task.size, "flat out" if row.flat_out else "paced, all rates"),
        Shown(str(row.offered_frames)),
        Shown(str(row.lost_frames), _share(row.lost_frames, row.offered_frames)),
    ]
    for owner in Owner:
        frames = row.by_owner.get(owner, 0)
        kind = "warn" if frames and owner is not Owner.PLATFORM else ""
        cells.append(Shown(str(frames), _share(frames, row.offered_frames) if frames else "", kind))
    return TableRow(row.platform, (*cells, Shown(places, hint=reported)))


def _loss_summary(rows: Sequence[LossRow]) -> str:
    """One sentence over all paced points of platforms without a caveat: whose the losses were."""
    lost = offered = 0
    owners = dict.fromkeys(Owner, 0)
    for row in rows:
        if not row.flat_out:
            lost, offered = lost + row.lost_frames, offered + row.offered_frames
            for owner, frames in row.by_owner.items():
                owners[owner] += frames
    if not offered:
        return ""
    reported = ", ".join(f"{_share(frames, lost)} {_BY[owner]}" for owner, frames in owners.items() if frames)
    shares = f"; of these, {reported}" if lost else ""
    return f"At paced rates {lost} of {offered} frames were lost ({_share(lost, offered)}){shares}."


def _pause_row(row: PauseRow) -> TableRow:
    return TableRow(
        row.platform,
        (
            Shown(row.task.size, "flat out" if row.flat_out else "paced, all rates"),
            Shown(row.interface, row.where),
            _frames(row.received_frames),
            _frames(row.sent_frames),
            Shown(str(row.points)),
        ),
    )


def _frames(count: int | None) -> Shown:
    return Shown("–", hint="its driver does not count them", kind="missing") if count is None else Shown(str(count))


def _point_rows(analysis: Analysis) -> Iterator[TableRow]:
    """A row for each rate of each sweep."""
    sizes = {task.parameters: task.size for task in analysis.tasks}
    measured = grouped(analysis.points, lambda value: (value.platform, value.parameters, value.intended_rate))
    for curve in analysis.curves:
        size = sizes.get(curve.parameters, f"{curve.frame_size_bytes} B")
        for point in curve.points:
            values = measured[curve.platform, curve.parameters, point.intended_rate]
            yield TableRow(curve.platform, (Shown(size), *_point_cells(point, values)))


def _point_cells(point: CurvePoint, values: Sequence[PointValue]) -> tuple[Shown, ...]:
    """Of a rate: its median over blocks, and the counts of all `values` together."""
    rate, loss = point.intended_rate, point.loss
    between = f"{units.percent(loss.low)} to {units.percent(loss.high)}"
    unsent = sum(value.unsent_frames for value in values)
    repeated = sum(value.duplicate_frames + value.reordered_frames for value in values)
    foreign = sum(value.foreign_frames + value.late_trial_frames for value in values)
    forged = _known_sum([value.forged_frames for value in values])
    texts = (units.count(point.offered.median), units.count(point.forwarded.median))
    counts = (unsent, repeated, foreign, forged, point.blocks)
    return (
        Shown("flat out" if rate is None else units.count(rate)),
        *map(Shown, texts),
        Shown(units.percent(loss.median), between),
        *(Shown(str(count)) for count in counts),
    )


def _known_sum(counts: Sequence[int | None]) -> str:
    known = [count for count in counts if count is not None]
    return str(sum(known)) if known else "–"
