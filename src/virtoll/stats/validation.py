"""What one run shows of each platform, apart from any speed: that it started, forwarded, was timed, and where. Pure.

Main type: `PlatformValidation`, read off boots and trials. The validation of a platform with a caveat is as good as any
other's, because nothing here is a cost.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from virtoll.runfolder.records import BootRecord, PlatformEntry, TrialRecord
from virtoll.stats.analysis import Analysis
from virtoll.stats.guests import Quantity, quantity, readiness
from virtoll.stats.summaries import median_of_known
from virtoll.stats.sweeps import PointValue

_MODEL = "model"


@dataclass(frozen=True)
class Forwarded:
    """Paced points up to `rate` frames/s: of `offered` frames `lost` were lost.

    `rate` is what was offered, whatever was intended: the least of the points of one intended rate, the largest of
    these. With a loss it is the lowest rate, and `clean` of its `points` (one a frame size and trial) lost nothing.
    """

    rate: float
    offered: int
    lost: int
    points: int
    clean: int


@dataclass(frozen=True)
class PlatformValidation:
    """One platform of one run. `where`: on what it ran, in words; `marks`: trials timed outside, by the marks' path.

    `error_estimate_ns`: the median of these trials' estimates; `ready` is in ns. None: the run has nothing of it.
    """

    platform: str
    kind: str
    version: str | None
    where: str
    caveat: str | None
    why_not: str | None
    boots: Mapping[str, int]
    trials: Mapping[str, int]
    ready: Quantity | None
    forwarded: Forwarded | None
    marks: Mapping[str, int]
    error_estimate_ns: float | None


def validations_of(analysis: Analysis) -> tuple[PlatformValidation, ...]:
    """A row for each platform that the run's experiment names, in its order."""
    manifest = analysis.data.manifest
    rows = []
    for entry in manifest.platforms:
        boots = [boot for boot in analysis.data.boots if boot.platform == entry.label]
        trials = [trial for trial in analysis.data.trials if trial.platform == entry.label]
        marks, estimate = _marks(trials)
        caveat = analysis.caveats.get(entry.label)
        rows.append(
            PlatformValidation(
                platform=entry.label,
                kind=entry.platform,
                version=entry.version,
                where=_where(entry, caveat),
                caveat=caveat,
                why_not=None if entry.available else entry.reason,
                boots=Counter(boot.status for boot in boots),
                trials=MappingProxyType({key: count for key, count in analysis.statuses[entry.label].items() if count}),
                ready=_ready(boots),
                forwarded=_forwarded([point for point in analysis.points if point.platform == entry.label]),
                marks=marks,
                error_estimate_ns=estimate,
            )
        )
    return tuple(rows)


def _where(entry: PlatformEntry, caveat: str | None) -> str:
    if entry.family == _MODEL:
        return _MODEL
    host = entry.host or "this machine"
    return f"real, {host}" if caveat is None else host


def _ready(boots: Sequence[BootRecord]) -> Quantity | None:
    alone = [boot for boot in boots if boot.instance == 0]  # those beside it were started on a busier host
    ways = {boot.block: way for boot in alone if (way := readiness(boot)) is not None}
    return quantity(way.total for way in ways.values())


def _forwarded(points: Sequence[PointValue]) -> Forwarded | None:
    """Up to the highest rate at and below which no point of any frame size or block lost a frame."""
    rates: dict[float, list[PointValue]] = {}
    for point in points:
        if point.intended_rate is not None and point.offered_frames and point.offered_rate is not None:
            rates.setdefault(point.intended_rate, []).append(point)
    best, offered, count, reached = None, 0, 0, 0.0
    for intended in sorted(rates):
        points = rates[intended]
        sent = sum(point.offered_frames for point in points)
        lost = sum(point.lost_frames for point in points)
        rate = min(point.offered_rate for point in points if point.offered_rate is not None)
        if lost:
            clean = sum(not point.lost_frames for point in points)
            return best or Forwarded(rate, sent, lost, len(points), clean)
        offered, count, reached = offered + sent, count + len(points), max(reached, rate)
        best = Forwarded(reached, offered, 0, count, count)
    return best


def _marks(trials: Sequence[TrialRecord]) -> tuple[Counter[str], float | None]:
    clocks = [trial.clock for trial in trials if trial.status == "ok" and trial.clock and trial.clock.marks]
    estimate = median_of_known(clock.error_estimate_ns for clock in clocks)
    return Counter(str(clock.method) for clock in clocks), estimate
