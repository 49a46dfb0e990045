"""``virtoll compare``: runs, or platforms of a run, against each other; and whether one became slower.

What a word of the command line names is decided here (`_Operand`); what is said is in ``report.compared``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from virtoll.api.folders import find_run
from virtoll.cli import complete, options
from virtoll.cli.output import (
    Json,
    Quiet,
    columns,
    console,
    is_quiet,
    print_json,
    say_in_columns,
    say_page,
    show_page,
    write_out,
)
from virtoll.errors import ThresholdMissed, ThresholdNotTold, UsageError

if TYPE_CHECKING:
    from virtoll.report import Analysis, GateView
    from virtoll.report.compared import Compared
    from virtoll.stats.between_runs import Between, By, Unlike
    from virtoll.stats.compare import Pair

_KINDS: tuple[Unlike, ...] = ("host", "agent", "unit")
_MOST = 26  # runs, each of which has a letter


# What an unlikeness is called where manifests tell what changed.
_HEADS: dict[Unlike, tuple[str, ...]] = {
    "host": ("machine", "host's kernel", "CPU model", "number of CPUs", "hypervisor", "mitigation"),
    "agent": ("agent's version", "agent's build"),
    "unit": (),
}
_MOST_NAMED = 3


@dataclass(frozen=True)
class _CompareOptions:
    """What of the runs is to be compared, how, and in spite of what."""

    by: By | None
    ignored: frozenset[Unlike]
    platforms: tuple[str, ...]
    workloads: tuple[str, ...]

    @property
    def chosen(self) -> bool:
        return bool(self.platforms or self.workloads)


@dataclass(frozen=True)
class _Operand:
    """A run, or a platform of it by its label (None: the whole run); ``text``: as it was given."""

    text: str
    folder: Path
    label: str | None


@dataclass(frozen=True)
class _Side:
    """An operand with its run's analysis, and the letter that stands for it."""

    operand: _Operand
    analysis: Analysis
    name: str


OperandsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="A [B]...",
        help="Runs, or platforms as RUN:LABEL (LABEL alone: of the latest run). The first is compared with each "
        "other; a run of two builds (--against) by itself.",
        autocompletion=complete.runs,
    ),
]
_BY: Final = "Of two runs: the share of the baseline's performance (the default), or the values themselves."
ByOption = Annotated[str | None, typer.Option("--by", metavar="cost|values", help=_BY)]


def compare(
    operands: OperandsArgument,
    *,
    by: ByOption = None,
    despite: Annotated[
        list[str] | None,
        typer.Option("--despite", metavar="host|agent|unit", help="Compare although these differ. Repeatable."),
    ] = None,
    platform: Annotated[
        list[str] | None, typer.Option("--platform", metavar="LABEL", help="Of runs these platforms alone. Repeatable.")
    ] = None,
    workload: Annotated[
        list[str] | None, typer.Option("--workload", metavar="NAME", help="These workloads alone. Repeatable.")
    ] = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option("--fail-if-slower", metavar="LIMIT", help="Exit with 3 where it is slower by more, such as 5%."),
    ] = None,
    allow_unknown: options.AllowUnknown = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, as a comment on a change.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FOLDER", help="Write a page with both sides, figures and tables there."),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare runs, or platforms of a run.

    With --fail-if-slower the exit code is 0 where nothing is slower by more, 3 where something is, and 4 where it is
    not known.
    """
    del quiet
    from virtoll.report.compared import compared_document, compared_markdown

    if markdown and as_json:
        raise UsageError("--markdown and --json are two forms of one answer; leave one out")
    if open_page and output is None:
        raise UsageError("--open opens the page that --output writes; give --output FOLDER")
    limit = _limit(fail_if_slower)
    request = _CompareOptions(_by(by), _ignored(despite or []), tuple(platform or ()), tuple(workload or ()))
    comparisons = _told(_operands(operands), request)
    if limit is not None and fail_if_slower is not None:
        comparisons = [_judged(comparison, limit, fail_if_slower) for comparison in comparisons]
    page = _page(comparisons, output, open_page) if output is not None else None
    if as_json:
        print_json(compared_document(comparisons))
    elif markdown:
        write_out(compared_markdown(comparisons))
    else:
        _say(comparisons, page)
    leave_by(comparisons, allow_unknown)


def _say(comparisons: Sequence[Compared], page: Path | None) -> None:
    """The comparisons for a person, and where their page is."""
    from virtoll.report.compared import compared_lines

    for number, comparison in enumerate(comparisons if not is_quiet() else ()):
        for part in ([""] if number else []) + compared_lines(comparison, columns()):
            console().print(part, width=columns())
        if comparison.gate is not None:
            for line in _gate_lines(comparison.gate):
                say_in_columns(line)
    if page is not None:
        say_page("" if is_quiet() else "page: ", page)


def _limit(text: str | None) -> float | None:
    from virtoll.advise.slower import slower_limit

    if text is None:
        return None
    try:
        return slower_limit(text)
    except ValueError as error:
        raise UsageError(f"--fail-if-slower {error}") from error


def _ignored(despite: Sequence[str]) -> frozenset[Unlike]:
    for kind in despite:
        if kind not in _KINDS:
            raise UsageError(f"--despite {kind}: not known; choose of: {', '.join(_KINDS)}")
    return frozenset(kind for kind in _KINDS if kind in despite)


def _by(text: str | None) -> By | None:
    ways: Mapping[str, Literal["cost", "values"]] = {"cost": "cost", "values": "values"}
    if text is not None and text not in ways:
        raise UsageError(f"--by {text}: not known; choose one of: {', '.join(ways)}")
    return ways[text] if text is not None else None


def _operands(texts: Sequence[str]) -> list[_Operand]:
    """What is to be compared; ``UsageError`` where that is nothing, or runs and platforms are mixed."""
    operands = [_operand(text) for text in texts]
    if len({operand.label is None for operand in operands}) > 1:
        whole = next(operand.text for operand in operands if operand.label is None)
        label = next(operand.text for operand in operands if operand.label is not None)
        raise UsageError(f"{whole} is a run and {label} a platform; compare runs with runs, or platforms as RUN:LABEL")
    if len(operands) == 1 and operands[0].label is not None:
        raise UsageError(f"{texts[0]} alone: give a second platform to compare it with")
    if len(operands) > _MOST:
        raise UsageError(f"{len(operands)} runs at once are too many; 'virtoll history' is for a series of runs")
    seen: set[tuple[Path, str | None]] = set()
    for operand in operands:
        if (operand.folder, operand.label) in seen:
            raise UsageError(f"{operand.text} is there twice; give two that differ")
        seen.add((operand.folder, operand.label))
    return operands


def _operand(text: str) -> _Operand:
    """A run, a platform of a run, or one of the latest run."""
    try:
        return _Operand(text, find_run(text), None)
    except UsageError as error:
        if Path(text).exists():
            raise
        name, colon, label = text.rpartition(":")
        folder = _folder_of(name if colon else "latest")
        if folder is None:
            raise
        known = _labels(folder)
        if label in known:
            return _Operand(text, folder, label)
        if colon:
            raise UsageError(f"{text}: run {folder.name} has no platform {label}; it has {', '.join(known)}") from error
        raise UsageError(
            f"{text} is neither a run nor a platform of the latest run, {folder.name}, which has {', '.join(known)}; "
            "see 'virtoll list runs', or give a platform as RUN:LABEL"
        ) from error


def _folder_of(name: str) -> Path | None:
    try:
        return find_run(name)
    except UsageError:
        return None


def _labels(folder: Path) -> list[str]:
    from virtoll.runfolder.store import RunFolder

    return [platform.label for platform in RunFolder.open(folder).manifest.platforms]


def _told(operands: Sequence[_Operand], request: _CompareOptions) -> list[Compared]:
    """Each comparison, with what must be told beside it."""
    from virtoll.report import load_analysis

    analyses = {operand.folder: load_analysis(operand.folder) for operand in operands}
    sides = [_Side(operand, analyses[operand.folder], chr(ord("A") + place)) for place, operand in enumerate(operands)]
    if len(sides) == 1:
        return [_of_two_builds(sides[0], request)]
    first, *others = sides
    if first.operand.label is not None and request.platforms:
        raise UsageError("--platform chooses among the platforms of runs; leave it out, or give whole runs")
    return [_of_two(first, other, request, len(others)) for other in others]


def _of_two_builds(side: _Side, request: _CompareOptions) -> Compared:
    """A run of two builds, each platform's second against its first."""
    from virtoll.stats.between_runs import side_by_side
    from virtoll.stats.compare import Pair

    manifest = side.analysis.data.manifest
    if manifest.against is None:
        raise UsageError(
            f"{side.operand.text} is one run, of one build; give a second run to compare it with, or measure two "
            "builds by 'virtoll run EXPERIMENT --against SETTING'"
        )
    pairs = [Pair(*labels, builds=True) for labels in manifest.against.pairs]
    _refuse_unknown(request.platforms, [pair.first for pair in pairs], "--platform")
    pairs = [pair for pair in pairs if not request.platforms or pair.first in request.platforms]
    _refuse_unplanned([side.analysis], request)
    between = side_by_side(side.analysis, pairs, workloads=request.workloads)
    return _compared(replace(between, whole=not request.chosen), side, replace(side, name="B"), ())


def _of_two(first: _Side, second: _Side, request: _CompareOptions, shared: int) -> Compared:
    """Two runs, or two platforms, which are paired where both are of one run."""
    from virtoll.stats.between_runs import between_runs, side_by_side
    from virtoll.stats.compare import Pair

    _refuse_unplanned([first.analysis, second.analysis], request)
    labels = first.operand.label, second.operand.label
    pairs: Sequence[Pair] = [Pair(labels[0], labels[1])] if labels[0] is not None and labels[1] is not None else []
    if pairs and first.operand.folder == second.operand.folder:
        if request.by == "cost":
            raise UsageError("--by cost is for two runs; two platforms of one run are compared round by round")
        between = side_by_side(first.analysis, pairs, shared, workloads=request.workloads)
        return _compared(between, first, second, ())
    sentences = _refuse_unlike(first, second, request.ignored)
    by = _way(first, second, request.by)
    if not pairs:
        pairs = _common_pairs(first, second, by, request.platforms)
    if by == "cost" and first.analysis.baseline in [label for pair in pairs for label in (pair.first, pair.second)]:
        raise UsageError(
            f"{first.analysis.baseline} is what the others are measured by; give --by values to compare it as well"
        )
    between = between_runs(first.analysis, second.analysis, pairs, by, shared, workloads=request.workloads)
    whole = labels == (None, None) and not request.chosen
    return _compared(replace(between, whole=whole), first, second, sentences)


def _way(first: _Side, second: _Side, by: By | None) -> By:
    """By what two runs are compared: as asked for, else by cost if they have it."""
    from virtoll.stats.between_runs import why_no_cost

    no_cost = why_no_cost(first.analysis, second.analysis)
    if by == "cost" and no_cost is not None:
        raise UsageError(f"--by cost: {no_cost}; give --by values")
    return by or ("cost" if no_cost is None else "values")


def _common_pairs(first: _Side, second: _Side, by: By, platforms: Sequence[str]) -> list[Pair]:
    """The platforms that two runs have in common, or those of them that were chosen."""
    from virtoll.stats.between_runs import common_pairs

    common = common_pairs(first.analysis, second.analysis, by)
    _refuse_unknown(platforms, [pair.second for pair in common], "--platform")
    pairs = [pair for pair in common if not platforms or pair.second in platforms]
    if not pairs:
        raise UsageError(
            f"{first.operand.text} and {second.operand.text} have no platform in common to compare; give two "
            "platforms as RUN:LABEL"
        )
    return pairs


def _refuse_unplanned(analyses: Sequence[Analysis], request: _CompareOptions) -> None:
    """UsageError for a workload that no run has."""
    known = dict.fromkeys(task.workload for analysis in analyses for task in analysis.tasks)
    _refuse_unknown(request.workloads, list(known), "--workload")


def _refuse_unknown(names: Sequence[str], known: Sequence[str], option: str) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"{option} {name}: there is none to compare; there are {', '.join(known) or 'none'}")


def _refuse_unlike(first: _Side, second: _Side, ignored: frozenset[Unlike]) -> tuple[str, ...]:
    """Each unlikeness that the user asked to be ignored, in words; ``UsageError`` for one that was not."""
    from virtoll.report.changes import change_lines
    from virtoll.stats.between_runs import unlike_runs
    from virtoll.stats.changes import what_changed

    unlike = unlike_runs(first.analysis, second.analysis)
    for kind, reason in unlike.items():
        if kind not in ignored:
            changed = what_changed(first.analysis.data.manifest, second.analysis.data.manifest)
            telling = [change for change in changed if change.what.startswith(_HEADS[kind])]
            which = f" ({'; '.join(change_lines(telling[:_MOST_NAMED]))})" if telling else ""
            raise UsageError(
                f"{first.operand.text} and {second.operand.text}: {reason}{which}; give --despite {kind} to compare "
                "them all the same"
            )
    return tuple(f"Compared in spite of another {kind}: {reason}." for kind, reason in unlike.items())


def _compared(between: Between, first: _Side, second: _Side, sentences: tuple[str, ...]) -> Compared:
    from virtoll.report import damage_line
    from virtoll.report.compared import Compared
    from virtoll.runfolder.sums import differences
    from virtoll.stats.changes import what_changed

    manifests = first.analysis.data.manifest, second.analysis.data.manifest
    lines: list[str] = []
    damage: list[str] = []
    for folder in dict.fromkeys((first.operand.folder, second.operand.folder)):
        files = differences(folder)
        if files:
            lines.append(f"{folder.name}: {damage_line(files)}")
            damage += files
    return Compared(
        between=between,
        first=first.name,
        second=second.name,
        changes=() if between.paired else what_changed(*manifests),
        remarks=(*lines, *sentences),
        damage=tuple(damage),
    )


def _judged(comparison: Compared, limit: float, text: str) -> Compared:
    from virtoll.advise.slower import judge_slower
    from virtoll.report import gate_view

    return replace(comparison, gate=gate_view(judge_slower(comparison.between, limit, text, comparison.damage)))


def _page(comparisons: Sequence[Compared], output: Path, open_page: bool) -> Path:
    from virtoll.report.compared_page import build_comparison

    page = build_comparison(comparisons, output.absolute())
    if open_page:
        show_page(page)
    return page


def _gate_lines(gate: GateView) -> Iterator[str]:
    """The outcome, what is missed with its numbers, and what cannot be told by its reason."""
    from virtoll.report.words import first_of

    yield ""
    yield gate.words
    unknown: dict[str, list[str]] = {}
    for check in gate.checks:
        if check.outcome == "missed":
            yield f"  missed: {'; '.join((check.measured, *check.rest))}"
        elif check.outcome != "met":
            unknown.setdefault(check.rest[-1] if check.rest else "", []).append(f"{check.platform}, {check.task}")
    for reason, names in unknown.items():
        yield f"  cannot tell: {first_of(names, _MOST_NAMED, '; ', last='; and')}: {reason}"
    yield from (f"  cannot tell: {doubt}" for doubt in gate.doubts)


def leave_by(comparisons: Sequence[Compared], allow_unknown: bool) -> None:
    """End with 3 where something is slower by more than asked, with 4 where that is not known and not allowed."""
    gates = [comparison.gate for comparison in comparisons if comparison.gate is not None]
    outcomes = [check.outcome for gate in gates for check in gate.checks]
    missed, unknown = outcomes.count("missed"), outcomes.count("cannot tell")
    if missed:
        raise ThresholdMissed(f"{missed} of {len(outcomes)} comparisons are slower by more than was allowed")
    if any(gate.outcome == "cannot tell" for gate in gates) and not allow_unknown:
        what = f"of {unknown} of {len(outcomes)} comparisons" if unknown else "because the runs are doubtful"
        raise ThresholdNotTold(
            f"not known {what} whether they are slower by more than was allowed; measure more blocks, or give "
            "--allow-unknown"
        )
