"""`points.csv`: the books of every point; `listed_rates.csv`, `sources.csv`: sweeps over a list; `pause_frames.csv`.

`far_rates.csv`: what was forwarded while CPUs were near each other, and while they were far.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import (
    Column,
    Row,
    Table,
    caveat,
    count,
    mean,
    number,
    of_hand_over,
    of_task,
    shared,
    text,
    whole,
)
from virtoll.stats.far_rates import FarRate, far_rates
from virtoll.stats.listed_rates import Accumulated, ListedCurve, ListedPoint
from virtoll.stats.pause_frames import PauseCount, pause_counts
from virtoll.stats.sweeps import PointValue


@dataclass(frozen=True)
class ListedRate:
    """A platform's sweep over a list, and a point of it."""

    curve: ListedCurve
    point: ListedPoint


def _listed_of(source: ReportInput) -> Iterable[ListedRate]:
    for curve in source.analysis.listed_rates.curves:
        for point in curve.points:
            yield ListedRate(curve, point)


def _frames(name: str, meaning: str, value: Callable[[Row], int | None]) -> Column[Row]:
    return whole(name, "frames", meaning, value)


def _of_sweep(sweep: Callable[[Row], ListedCurve | Accumulated]) -> tuple[Column[Row], ...]:
    """Of each row's sweep: the platform, its task and its frames."""
    return (
        shared("platform", lambda row: sweep(row).platform),
        shared("workload", lambda row: sweep(row).task.workload),
        shared("parameters", lambda row: sweep(row).task.parameters),
        shared("frame_size_bytes", lambda row: sweep(row).shape.frame_size_bytes),
        shared("sources", lambda row: sweep(row).shape.sources),
    )


def _itself(sweep: Accumulated) -> Accumulated:
    return sweep


BOOKS: Final[tuple[Column[PointValue], ...]] = (
    whole("duration_ns", "ns", "for how long it was to be sent", lambda point: point.duration_ns),
    number(
        "offered_rate_frames_per_second",
        "frames/s",
        "the rate that was really sent",
        lambda point: point.offered_rate,
    ),
    number(
        "forwarded_rate_frames_per_second",
        "frames/s",
        "the rate that arrived, first to last arrival",
        lambda point: point.forwarded_rate,
    ),
    _frames("intended_frames", "offered + unsent", lambda point: point.intended_frames),
    _frames("offered_frames", "sent; forwarded + lost", lambda point: point.offered_frames),
    _frames("unsent_frames", "that the generator was too late for", lambda point: point.unsent_frames),
    _frames("forwarded_frames", "that arrived, each once", lambda point: point.forwarded_frames),
    _frames("lost_frames", "that never arrived", lambda point: point.lost_frames),
    _frames("duplicate_frames", "that arrived once more", lambda point: point.duplicate_frames),
    _frames("reordered_frames", "that arrived after one with a larger number", lambda point: point.reordered_frames),
    _frames("foreign_frames", "at the sink that are no test frames", lambda point: point.foreign_frames),
    _frames("late_trial_frames", "of an earlier trial", lambda point: point.late_trial_frames),
    _frames(
        "forged_frames",
        "with a wrong tag, in no other count; empty: frames had no tags",
        lambda point: point.forged_frames,
    ),
    _frames(
        "kernel_dropped_frames",
        "that the sink's kernel dropped in front of it",
        lambda point: point.kernel_dropped_frames,
    ),
    *of_hand_over(lambda point: point.hand_over),
)
"""Of a point what was sent and what arrived: a dataset has most of it as well."""

POINTS: Final = Table[PointValue](
    "points",
    "a point of a sweep: the books of its frames",
    lambda source: source.analysis.points,
    (
        shared("trial", lambda point: point.trial),
        shared("block", lambda point: point.block + 1),
        shared("platform", lambda point: point.platform),
        shared("frame_size_bytes", lambda point: point.frame_size_bytes),
        shared("point", lambda point: point.place),
        shared("flat_out", lambda point: int(point.flat_out)),
        number(
            "intended_rate_frames_per_second",
            "frames/s",
            "the rate that was asked for; empty: flat out",
            lambda point: point.intended_rate,
        ),
        *BOOKS,
        number("loss_share", "share", "lost / offered", lambda point: point.loss),
        caveat(lambda point: point.platform),
    ),
)

LISTED_RATES: Final = Table[ListedRate](
    "listed_rates",
    "a platform and a rate of a list",
    _listed_of,
    (
        *_of_sweep(lambda rate: rate.curve),
        number(
            "target_mbit_per_second",
            "Mbit/s",
            "the rate of the list, of all sources; empty: flat out",
            lambda rate: rate.point.target_mbit_per_second,
        ),
        shared("flat_out", lambda rate: int(rate.point.target_mbit_per_second is None)),
        shared("blocks", lambda rate: rate.point.blocks),
        *mean("offered", "what was sent", lambda rate: rate.point.offered),
        *mean("forwarded", "what arrived", lambda rate: rate.point.forwarded),
        caveat(lambda rate: rate.curve.platform),
    ),
    optional=True,
)

SOURCES: Final = Table[Accumulated](
    "sources",
    "a platform and a number of sources",
    lambda source: source.analysis.listed_rates.accumulated,
    (
        *_of_sweep(_itself),
        shared("blocks", lambda sweep: sweep.blocks),
        *mean("forwarded_at_most", "the maximum of the sweep", lambda sweep: sweep.rate),
        caveat(lambda sweep: sweep.platform),
    ),
    optional=True,
)

PAUSE_FRAMES: Final = Table[PauseCount](
    "pause_frames",
    "an interface and point, where its driver counts pause frames",
    lambda source: pause_counts(source.analysis.tasks, source.analysis.data.trials),
    (
        shared("trial", lambda pause: pause.trial),
        shared("block", lambda pause: pause.block + 1),
        shared("platform", lambda pause: pause.platform),
        shared("workload", lambda pause: pause.task.workload),
        shared("parameters", lambda pause: pause.task.parameters),
        shared("point", lambda pause: pause.point),
        shared("flat_out", lambda pause: int(pause.flat_out)),
        text("role", "generator, sink or the guest's", lambda pause: pause.role),
        text("where", "the agent that read its counters", lambda pause: pause.where),
        text("interface", "the interface's name", lambda pause: pause.interface),
        count("source", "the traffic source whose way it is on", lambda pause: pause.source),
        _frames("received_frames", "pause frames that it received", lambda pause: pause.received_frames),
        _frames("sent_frames", "pause frames that it sent", lambda pause: pause.sent_frames),
        caveat(lambda pause: pause.platform),
    ),
    optional=True,
)

FAR_RATES: Final = Table[FarRate](
    "far_rates",
    "a platform and task that was measured while CPUs were far from each other",
    lambda source: far_rates(source.analysis.observations),
    (
        shared("platform", lambda row: row.platform),
        *of_task(lambda row: row.task),
        number("near_median", "`unit`", "the median of trials near", lambda row: row.near),
        number("far_median", "`unit`", "the median of trials far", lambda row: row.far),
        number("far_share", "share", "performance far, relative to near", lambda row: row.share),
        count("near_trials", "trials whose value was measured near", lambda row: row.near_trials),
        count("far_trials", "trials whose value was measured far", lambda row: row.far_trials),
        count("changed_trials", "trials meanwhile which the distance changed", lambda row: row.changed_trials),
        count("left_out", "trials in no median, and in no verdict on what is near", lambda row: row.left_out),
        number(
            "explained_share",
            "share",
            "of the variance of the logarithm between trials, by the distance",
            lambda row: row.explained,
        ),
        caveat(lambda row: row.platform),
    ),
    optional=True,
)
