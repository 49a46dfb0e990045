"""A history in words: lines for a terminal, the same places for the page, and a document for a program. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.changes import NOTHING, change_lines
from virtoll.report.history_runs import Gathered
from virtoll.stats.history import History, Kind, RunOfHistory, Series, SeriesChange, Step, Stretch

_NAMED = 3  # of a longer list


@dataclass(frozen=True)
class ChangeView:
    """One change of one series: 'runc, IP forwarding 64 B', '5.1 % slower', its interval, the levels around it.

    `where`: where else it may be, empty where that is certain. `kind`: a class of the page's, by the direction.
    """

    series: Series
    size: str
    interval: str
    levels: str
    where: str
    kind: str

    @property
    def line(self) -> str:
        """All of it."""
        kind = ", own value" if self.series.of.kind is Kind.OWN else ""
        where = f"; {self.where}" if self.where else ""
        lead = f"{self.series.of.platform}, {self.series.task.label}{kind}"
        return f"{lead}: {self.size} ({self.interval}), {self.levels}{where}"


@dataclass(frozen=True)
class PlaceView:
    """All changes after one run: it and the one before, with what changed there, each step with its two runs."""

    before: str
    after: str
    changes: tuple[ChangeView, ...]
    steps: tuple[tuple[str, tuple[str, ...]], ...]


def moment(run: RunOfHistory) -> str:
    """When it began: '2026-11-21 00:15' (UTC)."""
    return units.moment(run.manifest.created_realtime_ns).removesuffix(" UTC")


def lead(history: History, gathered: Gathered) -> str:
    """What was looked at, in one sentence."""
    first, last, count = history.runs[0], history.runs[-1], len(history.runs)
    span = f", {moment(first)[:10]} to {moment(last)[:10]}" if count > 1 else ""
    runs = f"{words.counted(count, 'run')} of one host{span}"
    return f"{gathered.experiment}: {runs}; {_series(len(history.series))}"


def outcome(history: History) -> str:
    """How many changes there are, in one sentence."""
    changes = sum(len(series.changes or ()) for series in history.series)
    if not any(series.changes is not None for series in history.series):
        return "not known whether anything changed: no series has enough runs"
    count = words.counted(changes, "change") if changes else "no change"
    percent = f"{100 * history.level:g} %"
    return f"{count}; by chance alone any is told in at most {percent} of histories, for each kind of series"


def places(history: History) -> list[PlaceView]:
    """Where something changed, oldest first; shares before own values."""
    by_place: dict[int, list[tuple[Series, SeriesChange]]] = {}
    for series in history.series:
        for change in series.changes or ():
            by_place.setdefault(change.after, []).append((series, change))
    return [_place(history, after, changes) for after, changes in sorted(by_place.items(), key=lambda entry: entry[0])]


def _place(history: History, after: int, changes: Sequence[tuple[Series, SeriesChange]]) -> PlaceView:
    steps: dict[int, Step] = {}
    for _, change in changes:
        steps |= {step.after: step for step in history.steps_of(change)}
    ordered = sorted(changes, key=lambda entry: entry[0].of.kind is Kind.OWN)
    names = [run.name for run in history.runs]
    lines = [
        (f"{names[place - 1]} and {names[place]}", change_lines(step.changes)) for place, step in sorted(steps.items())
    ]
    views = (_change(history, series, change) for series, change in ordered)
    return PlaceView(names[after - 1], names[after], tuple(views), tuple(lines))


def _change(history: History, series: Series, change: SeriesChange) -> ChangeView:
    number = next(place for place, other in enumerate(series.changes or ()) if other is change)
    before, after = (_level(series, series.stretches[number + side].level) for side in (0, 1))
    where = ""
    if (change.earliest, change.latest) != (change.before, change.after):
        where = f"it may be anywhere from {history.runs[change.earliest].name} to {history.runs[change.latest].name}"
    return ChangeView(
        series,
        size=words.factor(change.factor),
        interval=_interval(change),
        levels=f"{before} -> {after}",
        where=where,
        kind="slower" if change.factor < 1 else "faster",
    )


def _interval(change: SeriesChange) -> str:
    """Of a change that is one for certain its ends alone: '4.6 to 6 %'; else what it may be."""
    text = words.apart(change.low, change.high)
    ends = text.split(" to ")
    for direction in (" slower", " faster"):
        if all(end.endswith(direction) for end in ends):
            sizes = [end.removesuffix(direction) for end in ends]
            low, high = sizes[0], sizes[-1]
            return words.joined(low, high) if change.factor > 1 else words.joined(high, low)
    return text


def _level(series: Series, level: float) -> str:
    """A share in percent with a digit more than elsewhere, since changes are small; a value in its unit."""
    return f"{units.significant(100 * level)} %" if series.of.kind is Kind.SHARE else units.value(level, series.of.unit)


def series_level(series: Series) -> str:
    """Where the series is now: the level of its last stretch."""
    return _level(series, series.stretches[-1].level)


def series_outcome(series: Series) -> str:
    """What was found of one: 'no change', '2 changes', 'not known: 4 runs, 14 needed'."""
    if series.changes is None:
        return f"not known: {words.counted(len(series.runs), 'run')}, {series.needed} needed"
    return words.counted(len(series.changes), "change") if series.changes else "no change"


def host_remarks(history: History) -> list[str]:
    """In which runs the host was unfit, in one sentence, before any change; none if it was in no run."""
    unfit = [run.name for run in history.runs if run.unfit]
    if not unfit:
        return []
    count = f"{len(unfit)} of {words.counted(len(history.runs), 'run')}"
    names = words.first_of(unfit, _NAMED, ", ")
    return [f"the host was unfit in {count} ({names}): its load may be what changed there"]


def remarks(history: History, gathered: Gathered) -> list[str]:
    """What a reader has to know beside the changes, a sentence each: what is not known, doubts, runs left out."""
    sentences = []
    unknown = [series for series in history.series if series.changes is None]
    if unknown:
        counts = sorted(len(series.runs) for series in unknown)
        have = words.joined(str(counts[0]), str(counts[-1]))
        needed = max(series.needed for series in unknown)
        sentences.append(
            f"not known: {_series(len(unknown))} with {have} of the {needed} runs that telling a change needs"
        )
    alike = [series for series in history.series if series.changes and series.alike]
    if alike:
        sentences.append(
            f"less sure than it looks: neighbouring runs resemble each other in {_names(alike)}; false alarms are then "
            "more frequent (docs/statistics.md)"
        )
    return [*sentences, *(f"left out: {line}" for line in gathered.left_out)]


def _series(count: int) -> str:
    return "1 series" if count == 1 else f"{count} series"


def _names(series: Sequence[Series]) -> str:
    names = dict.fromkeys(f"{entry.of.platform}, {entry.task.label}" for entry in series)
    return words.first_of(list(names), _NAMED, "; ")


def history_lines(history: History, gathered: Gathered) -> Iterator[str]:
    """What a terminal shows."""
    yield lead(history, gathered)
    yield outcome(history)
    yield from host_remarks(history)
    for place in places(history):
        yield ""
        yield f"since {place.after} (the run before it: {place.before})"
        for change in place.changes:
            yield f"  {change.line}"
        for between, lines in place.steps:
            yield f"  changed between {between}:"
            yield from (f"    {line}" for line in lines)
        if not place.steps:
            yield f"  changed there: {NOTHING}"
    sentences = remarks(history, gathered)
    if sentences:
        yield ""
        yield from sentences


def history_document(history: History, gathered: Gathered) -> dict[str, Any]:
    """The same for a program: runs by their ids, values as they are."""
    return {
        "experiment": gathered.experiment,
        "level": history.level,
        "runs": list(map(_run_record, history.runs, gathered.folders)),
        "series": list(map(partial(_series_record, history), history.series)),
        "steps": list(map(partial(_step_record, history), history.steps)),
        "left_out": list(gathered.left_out),
    }


def _run_record(run: RunOfHistory, folder: Path) -> dict[str, object]:
    return {
        "run": run.name,
        "folder": str(folder),
        "created_realtime_ns": run.manifest.created_realtime_ns,
        "virtoll": run.manifest.virtoll,
        "fitness": str(run.fitness),
        "host": run.manifest.host["fingerprint"],
    }


def _series_record(history: History, series: Series) -> dict[str, Any]:
    names = [run.name for run in history.runs]
    changes = None
    if series.changes is not None:
        changes = list(map(partial(_change_record, history), series.changes))
    better = series.task.metric.better
    if series.of.kind is Kind.SHARE:
        better = "higher"
    return {
        **asdict(series.of),
        "kind": str(series.of.kind),
        "task": series.task.label,
        "primary": series.task.metric.primary,
        "better": better,
        "runs": [names[place] for place in series.runs],
        "values": list(series.values),
        "runs_needed": series.needed,
        "correlation": series.correlation,
        "alike": series.alike,
        "stretches": list(map(partial(_stretch_record, names), series.stretches)),
        "changes": changes,
    }


def _stretch_record(names: Sequence[str], stretch: Stretch) -> dict[str, object]:
    return {"first": names[stretch.first], "last": names[stretch.last], "median": stretch.level}


def _change_record(history: History, change: SeriesChange) -> dict[str, Any]:
    names = [run.name for run in history.runs]
    return {
        "last_before": names[change.before],
        "first_after": names[change.after],
        "not_before": names[change.earliest],
        "not_after": names[change.latest],
        "factor": change.factor,
        "low": change.low,
        "high": change.high,
        "p_adjusted": change.p_adjusted,
        "steps": list(map(partial(_step_record, history), history.steps_of(change))),
    }


def _step_record(history: History, step: Step) -> dict[str, Any]:
    return {
        "from": history.runs[step.after - 1].name,
        "to": history.runs[step.after].name,
        "changes": list(map(asdict, step.changes)),
    }
