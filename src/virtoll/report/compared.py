"""Two runs compared, in words: for the terminal, for a comment on a change, and for a program.

Main type: `Compared`; main functions: `compared_lines`, `compared_markdown`, `compared_document`, and the parts of the
page (`compared_page`). Must not: decide anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from virtoll import units
from virtoll.report import words
from virtoll.report.changes import change_lines
from virtoll.report.compared_table import compared_table
from virtoll.report.exchange.comment import comment_heads, comment_row, comment_text
from virtoll.report.fitness import fitness_document
from virtoll.report.gate import GateView
from virtoll.stats.analysis import Analysis
from virtoll.stats.between_runs import Between, Sample
from virtoll.stats.changes import Change
from virtoll.stats.compare import DIFFERENT, Comparison, Verdict
from virtoll.stats.fitness import HostFitness
from virtoll.stats.values import Task

if TYPE_CHECKING:
    from rich.console import RenderableType

SCHEMA: Final = "virtoll-compare"
VERSION: Final = 1
_STYLES: Final = {Verdict.SLOWER: "red", Verdict.FASTER: "green", Verdict.UNKNOWN: "dim", Verdict.NOT_MEASURED: "dim"}
_COUNTED: Final = (
    Verdict.SLOWER,
    Verdict.FASTER,
    Verdict.ALIKE,
    Verdict.UNKNOWN,
    Verdict.FUNCTIONAL,
    Verdict.NOT_MEASURED,
)
_MOST_CHANGES: Final = 12


@dataclass(frozen=True)
class Compared:
    """What is told together: `between` two sides with the names `first` and `second`, such as A and B.

    `changes`: what else differs by the manifests. `remarks`: what must be read first besides: unlikenesses that were to
    be ignored, and what of the folders is not as it was, which `damage` lists. `gate`: what `--fail-if-slower` asked;
    None: nothing.
    """

    between: Between
    first: str
    second: str
    changes: tuple[Change, ...]
    remarks: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    gate: GateView | None = None

    @property
    def title(self) -> str:
        """'B compared with A'."""
        return f"{self.second} compared with {self.first}"

    @property
    def sides(self) -> tuple[str, str]:
        """What each side is, in words."""
        if self.between.paired:
            manifest = self.between.first.data.manifest
            if manifest.against is not None and all(pair.builds for pair in self.between.pairs):
                settings = ", ".join(manifest.against.settings)
                return f"{_run_words(self.between.first)}, as its experiment says", f"the same run, against {settings}"
            firsts, seconds = zip(*((pair.first, pair.second) for pair in self.between.pairs), strict=True)
            return f"{', '.join(firsts)} of run {manifest.run}", f"{', '.join(seconds)} of the same run"
        return _run_words(self.between.first), _run_words(self.between.second)

    @property
    def hosts(self) -> list[str]:
        """How far each side's host can be believed, with its load: one line of a single run, else two."""
        runs = {f" of {self.first}": self.between.first, f" of {self.second}": self.between.second}
        if self.between.paired:
            runs = {"": self.between.first}
        return [f"Host{of}: {_fitness_words(run.fitness)}." for of, run in runs.items()]

    @property
    def how(self) -> str:
        """How both were measured, and what follows from it."""
        if self.between.paired:
            return (
                f"Paired: {self.first} and {self.second} ran in the same rounds, so that what the host did meanwhile "
                "met both."
            )
        lead = f"Unpaired: {self.first} and {self.second} were measured at two times."
        if self.between.by == "cost":
            bare = self.between.first.baseline
            lead += f" What is compared is each platform's share of {bare}'s performance in its own run."
        else:
            lead += " What changed on the host meanwhile is in the result."
        return (
            f"{lead} What a run has for itself, such as where its memory lay, is in the result: 'virtoll run "
            "EXPERIMENT --against SETTING' measures two builds in the same rounds."
        )

    @property
    def summary(self) -> str:
        """How many comparisons of primary metrics came to which verdict."""
        comparisons = _primary(self.between.comparisons)
        if not comparisons:
            return "Nothing that both have can be compared."
        counts = Counter(comparison.verdict for comparison in comparisons)
        verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _COUNTED if counts[verdict])
        return f"{words.counted(len(comparisons), 'comparison')} of primary metrics: {verdicts}."


def _primary(comparisons: Iterable[Comparison]) -> list[Comparison]:
    return [comparison for comparison in comparisons if comparison.task.metric.primary]


def _run_words(analysis: Analysis) -> str:
    manifest = analysis.data.manifest
    experiment = manifest.experiment.get("name")
    begun = units.moment(manifest.created_realtime_ns)
    name = f"{experiment}, run {manifest.run}" if experiment else f"run {manifest.run}"
    return f"{name}, begun {begun}, {words.blocks_words(analysis)}"


def _fitness_words(fitness: HostFitness) -> str:
    load = "its load was not recorded"
    if fitness.load is not None:
        load = f"load per CPU {units.significant(fitness.load)}"
    return "; ".join((f"{fitness.level}, {load}", *fitness.reasons))


def cautions(compared: Compared) -> list[str]:
    """What must be read before any number, a sentence each."""
    between = compared.between
    sentences = []
    for unfit in between.unfit:
        name = compared.first if unfit is between.first else compared.second
        sentences.append(
            f"The host of {name} was unfit: what looks like a platform's cost may be that of the host's other load. "
            "Measure again on a quiet host, or both builds in one run with --against."
        )
    sentences += compared.remarks
    for analysis in (between.first,) if between.paired else (between.first, between.second):
        state = analysis.data.state.state
        if state != "complete":
            run = analysis.data.manifest.run
            sentences.append(f"Run {run} is not complete ({state}): this rests on what it has measured so far.")
    if between.alarms:
        tasks = ", ".join(map(words.task_verdict, between.alarms))
        sentences.append(
            f"Do not trust this comparison: the A/A control differs in {tasks}, which chance alone does in one of a "
            "hundred."
        )
    return sentences


def notes(compared: Compared) -> list[str]:
    """What is to be known of the whole comparison, a sentence or two each."""
    primary = _primary(compared.between.comparisons)
    return [
        compared.how,
        *_host_note(compared),
        *_detectable_note(primary),
        *_left_out_notes(compared),
        *_family_note(primary, compared.between.level),
    ]


def _host_note(compared: Compared) -> Iterator[str]:
    bare = _primary(compared.between.host)
    shares = words.shares(bare)
    if shares:
        line = f"The host itself in {compared.second}: {words.between(min(shares), max(shares))} of {compared.first}."
        changed = [comparison for comparison in bare if comparison.verdict in DIFFERENT]
        if changed:
            tasks = ", ".join(map(words.task_verdict, changed))
            line += f" It differs in {tasks}; the platforms' shares are made in each run, so that this falls out."
        yield line


def _detectable_note(primary: Iterable[Comparison]) -> Iterator[str]:
    limits = [comparison.smallest for comparison in primary if comparison.smallest is not None]
    if limits:
        yield (
            "In four of five such comparisons a difference is found that is a factor of "
            f"{words.smallest_between(limits)} or more. Not known does not mean no difference: more blocks would "
            "decide."
        )


def _left_out_notes(compared: Compared) -> Iterator[str]:
    between = compared.between
    alone = []
    for name, labels in ((compared.first, between.alone_in_first), (compared.second, between.alone_in_second)):
        if labels and between.whole:
            alone.append(f"only {name} has {', '.join(labels)}")
    if alone:
        yield f"Not compared: {'; '.join(alone)}."
    if any(analysis.data.with_neighbours or analysis.data.at_once for analysis in (between.first, between.second)):
        yield "Guests beside others, and several at once, are not compared: each run's report has them."


def _family_note(primary: Iterable[Comparison], level: float) -> Iterator[str]:
    size = sum(comparison.p_value is not None for comparison in primary)
    if size:
        yield (
            f"Verdicts are corrected (Holm) over {words.counted(size, 'comparison')} of primary metrics; the "
            f"chance that any difference among them is false is at most {words.amount(level)}."
        )


def shown_tasks(between: Between) -> list[Task]:
    """The tasks of primary metrics, and the others in which something differs."""
    different = {comparison.task for comparison in between.comparisons if comparison.verdict in DIFFERENT}
    return [task for task in between.tasks if task.metric.primary or task in different]


def of_task(between: Between, task: Task) -> list[Comparison]:
    """The comparisons of a task, in the order of the pairs."""
    return [comparison for comparison in between.comparisons if comparison.task == task]


def sample_words(sample: Sample, unit: str) -> str:
    """'30 ms (97 %)': value, and the share of the baseline's performance; a dash where nothing was measured."""
    value, share = _sample_parts(sample, unit)
    return f"{value} ({share})" if share else value


def _sample_parts(sample: Sample, unit: str) -> tuple[str, str]:
    """Value and share; the latter is empty where there is none."""
    if sample.value is None:
        return "–", ""
    share = "" if sample.share is None else words.share(sample.share)
    return words.estimate(sample.value.value, sample.value.interval, unit), share


def row_words(compared: Compared, comparison: Comparison) -> tuple[str, str, str]:
    """Both sides, and what is said of the second against the first."""
    first, second = compared.between.samples(comparison)
    unit = comparison.task.metric.unit
    sentence = words.said(comparison).text
    if comparison.verdict is Verdict.NOT_MEASURED and comparison.reason:
        sentence = f"{sentence} ({comparison.reason})"
    return sample_words(first, unit), sample_words(second, unit), sentence


def compared_lines(compared: Compared, width: int) -> list[RenderableType]:
    """For a terminal: the hosts, what must be read first, both sides, a table for each task, and what else differs."""
    from rich.cells import cell_len
    from rich.table import Table

    from virtoll.report.terminal import text

    shown: list[RenderableType] = list(map(text, compared.hosts))
    shown += [text(line, "bold") for line in cautions(compared)]
    shown.append(text(f"{compared.title}: {compared.summary}", "bold"))
    for name, side in zip((compared.first, compared.second), compared.sides, strict=True):
        shown.append(text(f"{name}: {side}", "dim"))
    rows = {}
    heads = ("", compared.first, "", compared.second, "")
    widths = list(map(cell_len, heads))
    for task in shown_tasks(compared.between):
        rows[task] = [_cells(compared, comparison) for comparison in of_task(compared.between, task)]
        for cells, _ in rows[task]:
            widths = [max(known, cell_len(cell)) for known, cell in zip(widths, cells[:5], strict=True)]
    widths[0] = min(widths[0], width // 3)
    for task, task_rows in rows.items():
        is_first = task is next(iter(rows))
        table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=True, header_style="dim", show_header=is_first)
        for place, head in enumerate(heads):
            table.add_column(head, justify="right" if place else "left", overflow="fold", width=widths[place])
        table.add_column(f"{compared.second} is", overflow="fold")
        for cells, verdict in task_rows:
            table.add_row(*map(text, cells[:5]), text(cells[5], _STYLES.get(verdict, "")))
        shown += [text(""), text(task.label, "bold"), table]
    shown += [text(""), *map(text, notes(compared))]
    lines = change_lines(compared.changes)
    if not compared.between.paired:
        shown += [text(""), text("What else differs", "bold"), *(text(f"  {line}") for line in lines[:_MOST_CHANGES])]
        if len(lines) > _MOST_CHANGES:
            shown.append(text(f"  and {len(lines) - _MOST_CHANGES} more: --json and the page have all"))
    return shown


def _cells(compared: Compared, comparison: Comparison) -> tuple[tuple[str, ...], Verdict]:
    """Platform, both values with the shares of the baseline's performance, what is said; and the verdict."""
    unit = comparison.task.metric.unit
    cells = [comparison.platform]
    for sample in compared.between.samples(comparison):
        cells += _sample_parts(sample, unit)
    return (*cells, row_words(compared, comparison)[2]), comparison.verdict


def compared_markdown(comparisons: Sequence[Compared]) -> str:
    """A comment on a change: what is asked for, what differs, all of it folded, and how it was measured."""
    return "\n\n".join("\n".join(_markdown_of(compared)) for compared in comparisons) + "\n"


def _markdown_of(compared: Compared) -> Iterator[str]:
    yield f"### {comment_text(compared.title)}: {comment_text(compared.summary)}"
    for line in compared.hosts:
        yield from ("", comment_text(line))
    for name, side in zip((compared.first, compared.second), compared.sides, strict=True):
        yield from ("", f"{comment_text(name)}: {comment_text(side)}")
    for line in cautions(compared):
        yield from ("", f"**{comment_text(line)}**")
    if compared.gate is not None:
        yield from ("", f"**{comment_text(compared.gate.words)}**")
        yield from _markdown_checks(compared.gate)
    different = [comparison for comparison in compared.between.comparisons if comparison.verdict in DIFFERENT]
    primary = _primary(compared.between.comparisons)
    rest = [comparison for comparison in primary if comparison.verdict not in DIFFERENT]
    if different:
        yield from ("", *_markdown_table(compared, different))
    if rest:
        yield from _folded("What does not differ, or is not known", _markdown_table(compared, rest))
    for line in notes(compared):
        yield from ("", comment_text(line))
    if not compared.between.paired:
        changes = change_lines(compared.changes)
        yield from _folded("What else differs", (f"- {comment_text(line)}" for line in changes))


def _folded(summary: str, lines: Iterable[str]) -> Iterator[str]:
    yield from ("", f"<details><summary>{summary}</summary>", "", *lines, "", "</details>")


def _markdown_checks(gate: GateView) -> Iterator[str]:
    """The thresholds that are not met."""
    open_checks = [check for check in gate.checks if check.outcome != "met"]
    if open_checks:
        yield from ("", *comment_heads(["outcome", "measured", "why"]))
    for check in open_checks:
        yield comment_row([check.outcome, check.measured, "; ".join(check.rest)])


def _markdown_table(compared: Compared, rows: Sequence[Comparison]) -> Iterator[str]:
    yield from comment_heads(["workload", "platform", compared.first, compared.second, f"{compared.second} is"])
    for comparison in rows:
        yield comment_row([comparison.task.label, comparison.platform, *row_words(compared, comparison)])


def compared_document(comparisons: Sequence[Compared]) -> dict[str, Any]:
    """All of it for a program; what is missing is null and never zero."""
    return {"schema": SCHEMA, "version": VERSION, "comparisons": list(map(_document_of, comparisons))}


def _document_of(compared: Compared) -> dict[str, Any]:
    between = compared.between
    return {
        "first": _side_document(compared.first, between.first),
        "second": _side_document(compared.second, between.second),
        "paired": between.paired,
        "by": between.by,
        "level": between.level,
        "cautions": cautions(compared),
        "notes": notes(compared),
        "changes": [
            {"what": change.what, "before": change.before, "after": change.after} for change in compared.changes
        ],
        "rows": compared_table(between).records(),
        "gate": compared.gate and dict(compared.gate.document),
    }


def _side_document(name: str, analysis: Analysis) -> dict[str, object]:
    manifest = analysis.data.manifest
    return {
        "name": name,
        "run": manifest.run,
        "created_realtime_ns": manifest.created_realtime_ns,
        "state": analysis.data.state.state,
        "virtoll": manifest.virtoll,
        "host_fingerprint": manifest.host.get("fingerprint"),
        "fitness": fitness_document(analysis),
    }
