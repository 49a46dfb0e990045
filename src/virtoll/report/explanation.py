"""Why it costs that: what observers counted, in sentences for the terminal and the page, as JSON and as CSV."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from virtoll import units
from virtoll.report.csv_table import CsvTable, Row, mean_cells
from virtoll.report.headline import CAVEAT_SIGN
from virtoll.report.rows import Shown, TableRow
from virtoll.runfolder.explain_records import COUNTERS, counter
from virtoll.stats.analysis import Analysis
from virtoll.stats.explanation import Counted, Explanation, explanations

TABLE = "explanation"
_MOST = 6  # differences of one workload and platform in the terminal; all are on the page and in explanation.csv
_MOST_OF_ITS_OWN = 2  # and of what the baseline has not
_ON_CPUS = "on the guest's CPUs"


def explained(analysis: Analysis) -> tuple[Explanation, ...]:
    """What was observed of the run."""
    return explanations(analysis.data.observed, analysis.tasks, analysis.platforms, analysis.data.manifest.baseline)


def explanation_lines(analysis: Analysis) -> list[str]:
    """For the terminal; whoever prints a line folds it."""
    found = explained(analysis)
    if not found:
        return ["no trial with observers on is stored"]
    baseline = analysis.data.manifest.baseline
    lines: list[str] = []
    for title in dict.fromkeys(one.title for one in found):
        own = [one for one in found if one.title == title]
        lines.append(
            f"{title}: what a {own[0].unit} makes this host do{f', compared with {baseline}' if baseline else ''}"
        )
        for one in own:
            lines += _platform_lines(analysis, one, baseline)
        lines.append("")
    missing = uncounted(found)
    if missing:
        lines += ["Not counted", *(f"  {text}" for text in missing), ""]
    return [*lines, _reading(found, baseline)]


def _platform_lines(analysis: Analysis, one: Explanation, baseline: str | None) -> list[str]:
    """The largest differences of one platform; of the baseline nothing but what was lost."""
    sign = f" {CAVEAT_SIGN}" if one.platform in analysis.caveats else ""
    told, left = [], 0
    if one.platform != baseline:
        compared = one.different or one.single
        told = [sentence(each, one, baseline) for each in compared[:_MOST]]
        told += [of_itself(each, one) for each in one.only_here[:_MOST_OF_ITS_OWN]]
        left = len(compared) + len(one.only_here) - len(told)
    if not told and one.open:
        told = [f"nothing that is certain to differ from {baseline}"]
    told += [f"trials gave nothing: {why}" for why in one.lost]
    if left > 0:
        told.append(f"{left} smaller {'one is' if left == 1 else 'ones are'} on the page")
    return [f"  {one.platform}{sign}: {text}" for text in told]


def _reading(found: Sequence[Explanation], baseline: str | None) -> str:
    trials = max(one.trials for one in found)
    lost = "Work for lost frames is included. " if any(one.unit == "frame" for one in found) else ""
    if baseline is None:
        return "This run has no baseline, so there are no differences: only what a platform's guests made the host do."
    if trials < 2:
        return "One trial each, so that no difference has an interval: 'virtoll explain --trials 3' adds trials."
    return (
        f"Differences of up to {trials} trials with observers on, whose 95 % intervals leave out zero: events, then "
        f"times, then bytes, the largest first. In brackets: the platform's value against {baseline}'s, their ratio, "
        f"and the interval of the difference. {lost}No trial with observers on is a result."
    )


def sentence(one: Counted, of: Explanation, baseline: str | None) -> str:
    """A difference in words: "2.1 context switches a frame more than native (2.2 against 0.1)"."""
    if one.difference is None or one.baseline is None:
        return of_itself(one, of)
    value, interval = one.difference.value, one.difference.interval
    which = "more" if value > 0 else "less"
    size = f"; {amount(one.name, interval.low)} to {amount(one.name, interval.high)}" if interval else ""
    both = f"{amount(one.name, one.each)} against {amount(one.name, one.baseline)}{_ratio(one)}{size}"
    return f"{amount(one.name, abs(value))} {named(one.name)} a {of.unit} {which} than {baseline} ({both})"


def _ratio(one: Counted) -> str:
    if not one.baseline or one.each <= 0:
        return ""
    return f", {units.significant(one.each / one.baseline)}×"


def of_itself(one: Counted, of: Explanation) -> str:
    """A counter that is compared with nothing: "35 translated blocks a job"."""
    return f"{amount(one.name, one.each)} {named(one.name)} a {of.unit}"


def amount(name: str, value: float) -> str:
    """A counter's value with its unit."""
    match counter(name)[0].unit:
        case "ns":
            return units.nanoseconds(value)
        case "bytes":
            return f"{units.count(value)} bytes" if abs(value) < 1000 else f"{units.count(value)}B"
        case _:
            return units.count(value)


def named(name: str) -> str:
    """A counter in the words that follow its value, with whose it is where that is not the guest's."""
    entry, kind = counter(name)
    return f"{entry.words(kind)} {_ON_CPUS}" if entry.whose == "CPUs" else entry.words(kind)


def uncounted(found: Sequence[Explanation]) -> list[str]:
    """What could not be counted, of which platforms, and why, a line a reason."""
    by_reason: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for one in found:
        for name, why in one.uncounted.items():
            names, platforms = by_reason.setdefault(why, ({}, {}))
            names[_counters_of(name)] = None
            platforms[one.platform] = None
    every = dict.fromkeys(one.platform for one in found)
    told = []
    for why, (names, platforms) in by_reason.items():
        of = "" if platforms.keys() == every.keys() else f" ({', '.join(platforms)})"
        told.append(f"{', '.join(names)}{of}: {why}")
    return told


def _counters_of(name: str) -> str:
    """A counter in words, or all of an observer by its own name."""
    if name not in COUNTERS:
        return name
    entry = COUNTERS[name]
    return entry.plural.format(kind="").strip().removeprefix("of ")


def explanation_document(analysis: Analysis) -> dict[str, Any]:
    """All of it for a program."""
    return {
        "run": analysis.data.manifest.run,
        "baseline": analysis.data.manifest.baseline,
        "explanations": explanation_records(analysis),
    }


def explanation_records(analysis: Analysis) -> list[dict[str, Any]]:
    """What was observed of each workload on each platform, for a program; none where nothing was observed."""
    return [
        {
            **asdict(one),
            "uncounted": [{"counter": name, "reason": why} for name, why in one.uncounted.items()],
            "caveat": analysis.caveats.get(one.platform),
            "sentences": _sentences(analysis, one),
        }
        for one in explained(analysis)
    ]


def _sentences(analysis: Analysis, one: Explanation) -> list[str]:
    baseline = analysis.data.manifest.baseline
    told = [sentence(each, one, baseline) for each in (*one.different, *one.single)]
    return [f"{one.platform}: {text}" for text in (*told, *(of_itself(each, one) for each in one.only_here))]


def explanation_context(analysis: Analysis) -> dict[str, Any] | None:
    """What the template prints; None where nothing was observed."""
    found = explained(analysis)
    if not found:
        return None
    baseline = analysis.data.manifest.baseline
    return {
        "parts": [
            {
                "title": title,
                "unit": own[0].unit,
                "largest": [(one.platform, sentence(one.different[0], one, baseline)) for one in own if one.different],
                "rows": [row for one in own for row in _rows(one, baseline)],
                "lost": [(one.platform, why) for one in own for why in one.lost],
            }
            for title in dict.fromkeys(one.title for one in found)
            if (own := [one for one in found if one.title == title])
        ],
        "uncounted": uncounted(found),
        "trials": max(one.trials for one in found),
        "table": TABLE,
    }


def _rows(one: Explanation, baseline: str | None) -> list[TableRow]:
    """A row for each counter that differs: the platform, by how much, both values, the interval; none of the baseline.

    Those whose difference may be zero are in `explanation.csv`.
    """
    if one.platform == baseline:
        return []
    rows = []
    for each in (*one.different, *one.single, *one.only_here):
        difference = each.difference
        interval = difference.interval if difference else None
        within = f"{amount(each.name, interval.low)} to {amount(each.name, interval.high)}" if interval else "–"
        shown = (
            Shown(_counted_thing(each.name), kind="text"),
            Shown("–" if difference is None else amount(each.name, difference.value)),
            Shown(amount(each.name, each.each)),
            Shown("–" if each.baseline is None else amount(each.name, each.baseline)),
            Shown(within),
        )
        if difference is None or difference.value:
            rows.append(TableRow(one.platform, shown))
    return rows


def _counted_thing(name: str) -> str:
    """A counter in words that follow no number."""
    return named(name).removeprefix("of ")


def explanation_tables(analysis: Analysis) -> tuple[CsvTable, ...]:
    """A row for each counter of each workload and platform, the baseline's too; none where nothing was observed."""
    found = explained(analysis)
    if not found:
        return ()
    header = (
        "platform",
        "workload",
        "parameters",
        "counter",
        "whose",
        "unit",
        "per",
        "value",
        "baseline_value",
        "difference_mean",
        "difference_low",
        "difference_high",
        "trials",
        "caveat",
    )
    rows: list[Row] = []
    for one in found:
        for each in (*one.different, *one.single, *one.open, *one.only_here):
            entry, kind = counter(each.name)
            rows.append(
                (
                    one.platform,
                    one.workload,
                    one.parameters,
                    entry.words(kind),
                    entry.whose,
                    entry.unit or "events",
                    one.unit,
                    each.each,
                    each.baseline,
                    *mean_cells(each.difference),
                    each.trials,
                    analysis.caveats.get(one.platform),
                )
            )
    return (CsvTable(TABLE, header, tuple(rows)),)
