"""A history in words: lines for a terminal, the same places for the page, and a document for a program. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.changes import NOTHING, change_lines
from virtoll.report.history_runs import Gathered
from virtoll.stats.history import History, Kind, RunOfHistory, Series, Step, Told

_NAMED = 3  # of a longer list


@dataclass(frozen=True)
class ChangeView:
    """One change of one series: 'runc, IP forwarding 64 B', '5.1 % slower', its interval, the levels around it.

    `where`: where else it may be, empty where that is certain. `kind`: a class of the page's, by the direction.
    """

    platform: str
    task: str
    workload: str
    of: Kind
    size: str
    interval: str
    levels: str
    where: str
    kind: str

    @property
    def line(self) -> str:
        """All of it."""
        own = ", own value" if self.of is Kind.OWN else ""
        where = f"; {self.where}" if self.where else ""
        return f"{self.platform}, {self.task}{own}: {self.size} ({self.interval}), {self.levels}{where}"


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


def lead(found: History, gathered: Gathered) -> str:
    """What was looked at, in one sentence."""
    first, last, count = found.runs[0], found.runs[-1], len(found.runs)
    span = f", {moment(first)[:10]} to {moment(last)[:10]}" if count > 1 else ""
    return (
        f"{gathered.experiment}: {count} run{'' if count == 1 else 's'} of one host{span}; {_series(len(found.series))}"
    )


def outcome(found: History) -> str:
    """How many changes there are, in one sentence."""
    changes = sum(len(one.changes or ()) for one in found.series)
    if not any(one.changes is not None for one in found.series):
        return "not known whether anything changed: no series has enough runs"
    count = "no change" if not changes else "1 change" if changes == 1 else f"{changes} changes"
    percent = f"{100 * found.level:g} %"
    return f"{count}; by chance alone any is told in at most {percent} of histories, for each kind of series"


def places(found: History) -> list[PlaceView]:
    """Where something changed, oldest first; shares before own values."""
    by_place: dict[int, list[tuple[Series, Told]]] = {}
    for one in found.series:
        for told in one.changes or ():
            by_place.setdefault(told.after, []).append((one, told))
    return [_place(found, after, own) for after, own in sorted(by_place.items(), key=lambda entry: entry[0])]


def _place(found: History, after: int, own: Sequence[tuple[Series, Told]]) -> PlaceView:
    steps: dict[int, Step] = {}
    for _, told in own:
        steps |= {step.after: step for step in found.steps_of(told)}
    ordered = sorted(own, key=lambda entry: entry[0].of.kind is Kind.OWN)
    return PlaceView(
        before=found.runs[after - 1].name,
        after=found.runs[after].name,
        changes=tuple(_change(found, one, told) for one, told in ordered),
        steps=tuple(
            (f"{found.runs[place - 1].name} and {found.runs[place].name}", change_lines(step.changes))
            for place, step in sorted(steps.items())
        ),
    )


def _change(found: History, one: Series, told: Told) -> ChangeView:
    number = next(place for place, other in enumerate(one.changes or ()) if other is told)
    before, after = (_level(one, one.stretches[number + side].level) for side in (0, 1))
    where = ""
    if (told.earliest, told.latest) != (told.before, told.after):
        where = f"it may be anywhere from {found.runs[told.earliest].name} to {found.runs[told.latest].name}"
    return ChangeView(
        platform=one.of.platform,
        task=one.task.label,
        workload=one.of.workload,
        of=one.of.kind,
        size=words.factor(told.factor),
        interval=_interval(told),
        levels=f"{before} -> {after}",
        where=where,
        kind="slower" if told.factor < 1 else "faster",
    )


def _interval(told: Told) -> str:
    """Of a change that is one for certain its ends alone: '4.6 to 6 %'; else what it may be."""
    text = words.apart(told.low, told.high)
    ends = text.split(" to ")
    for direction in (" slower", " faster"):
        if all(one.endswith(direction) for one in ends):
            sizes = [one.removesuffix(direction) for one in ends]
            return words.joined(*(sizes if told.factor > 1 else sizes[::-1])) if len(sizes) > 1 else sizes[0]
    return text


def _level(one: Series, level: float) -> str:
    """A share in percent with a digit more than elsewhere, since changes are small; a value in its unit."""
    return f"{units.significant(100 * level)} %" if one.of.kind is Kind.SHARE else units.value(level, one.of.unit)


def series_level(one: Series) -> str:
    """Where the series is now: the level of its last stretch."""
    return _level(one, one.stretches[-1].level)


def series_outcome(one: Series) -> str:
    """What was found of one: 'no change', '2 changes', 'not known: 4 runs, 14 needed'."""
    if one.changes is None:
        return f"not known: {len(one.runs)} run{'' if len(one.runs) == 1 else 's'}, {one.needed} needed"
    count = len(one.changes)
    return "no change" if not count else f"{count} change{'' if count == 1 else 's'}"


def remarks(found: History, gathered: Gathered) -> list[str]:
    """What a reader has to know beside the changes, a sentence each: what is not known, doubts, runs left out."""
    told = []
    unknown = [one for one in found.series if one.changes is None]
    if unknown:
        fewest, needed = min(len(one.runs) for one in unknown), max(one.needed for one in unknown)
        most = max(len(one.runs) for one in unknown)
        have = f"{fewest}" if fewest == most else f"{fewest} to {most}"
        told.append(f"not known: {_series(len(unknown))} with {have} of the {needed} runs that telling a change needs")
    alike = [one for one in found.series if one.changes and one.alike]
    if alike:
        told.append(
            f"less sure than it looks: neighbouring runs resemble each other in {_names(alike)}; false alarms are then "
            "more frequent (docs/statistics.md)"
        )
    return [*told, *(f"left out: {one}" for one in gathered.left_out)]


def _series(count: int) -> str:
    return "1 series" if count == 1 else f"{count} series"


def _names(series: Sequence[Series]) -> str:
    names = list(dict.fromkeys(f"{one.of.platform}, {one.task.label}" for one in series))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{'; '.join(names[:_NAMED])}{more}"


def history_lines(found: History, gathered: Gathered) -> Iterator[str]:
    """What a terminal shows."""
    yield lead(found, gathered)
    yield outcome(found)
    for place in places(found):
        yield ""
        yield f"since {place.after} (the run before it: {place.before})"
        for one in place.changes:
            yield f"  {one.line}"
        for between, lines in place.steps:
            yield f"  changed between {between}:"
            yield from (f"    {line}" for line in lines)
        if not place.steps:
            yield f"  changed there: {NOTHING}"
    told = remarks(found, gathered)
    if told:
        yield ""
        yield from told


def history_document(found: History, gathered: Gathered) -> dict[str, Any]:
    """The same for a program: runs by their ids, values as they are."""
    return {
        "experiment": gathered.experiment,
        "level": found.level,
        "runs": [
            {
                "run": run.name,
                "folder": str(folder),
                "created_realtime_ns": run.manifest.created_realtime_ns,
                "virtoll": run.manifest.virtoll,
                "host": run.manifest.host["fingerprint"],
            }
            for run, folder in zip(found.runs, gathered.folders, strict=True)
        ],
        "series": [_series_record(found, one) for one in found.series],
        "steps": [_step_record(found, one) for one in found.steps],
        "left_out": list(gathered.left_out),
    }


def _series_record(found: History, one: Series) -> dict[str, Any]:
    names = [run.name for run in found.runs]
    return {
        "kind": str(one.of.kind),
        **{key: value for key, value in asdict(one.of).items() if key != "kind"},
        "task": one.task.label,
        "primary": one.task.metric.primary,
        "better": "higher" if one.of.kind is Kind.SHARE else one.task.metric.better,
        "runs": [names[place] for place in one.runs],
        "values": list(one.values),
        "runs_needed": one.needed,
        "correlation": one.correlation,
        "alike": one.alike,
        "stretches": [
            {"first": names[each.first], "last": names[each.last], "median": each.level} for each in one.stretches
        ],
        "changes": None if one.changes is None else [_told_record(found, told) for told in one.changes],
    }


def _told_record(found: History, told: Told) -> dict[str, Any]:
    names = [run.name for run in found.runs]
    return {
        "last_before": names[told.before],
        "first_after": names[told.after],
        "not_before": names[told.earliest],
        "not_after": names[told.latest],
        "factor": told.factor,
        "low": told.low,
        "high": told.high,
        "p_adjusted": told.p_adjusted,
        "steps": [_step_record(found, one) for one in found.steps_of(told)],
    }


def _step_record(found: History, step: Step) -> dict[str, Any]:
    return {
        "from": found.runs[step.after - 1].name,
        "to": found.runs[step.after].name,
        "changes": [asdict(one) for one in step.changes],
    }
