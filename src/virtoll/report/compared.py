"""Two runs compared, in words: for the terminal, for a comment on a change, and for a program.

Main type: `Compared`; main functions: `compared_lines`, `compared_markdown`, `compared_document`, and the parts of the
page (`compared_page`). Must not: decide anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from virtoll import units
from virtoll.report import words
from virtoll.report.changes import change_lines
from virtoll.report.compared_table import compared_table
from virtoll.report.exchange.comment import comment_heads, comment_row, comment_text
from virtoll.report.gate import GateView, measured_words
from virtoll.stats.analysis import Analysis
from virtoll.stats.between_runs import Between, Sample
from virtoll.stats.changes import Change
from virtoll.stats.compare import DIFFERENT, Comparison, Verdict
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

    `changes`: what else differs by the manifests. `told`: what must be read first besides: unlikenesses that were to be
    ignored, and what of the folders is not as it was, which `damage` lists. `gate`: what `--fail-if-slower` asked;
    None: nothing.
    """

    between: Between
    first: str
    second: str
    changes: tuple[Change, ...]
    told: tuple[str, ...] = ()
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
            if manifest.against is not None and all(one.builds for one in self.between.pairs):
                settings = ", ".join(manifest.against.settings)
                return f"{_run_words(self.between.first)}, as its experiment says", f"the same run, against {settings}"
            firsts, seconds = zip(*((one.first, one.second) for one in self.between.pairs), strict=True)
            return f"{', '.join(firsts)} of run {manifest.run}", f"{', '.join(seconds)} of the same run"
        return _run_words(self.between.first), _run_words(self.between.second)

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
        own = [one for one in self.between.comparisons if one.task.metric.primary]
        counts = [(verdict, sum(one.verdict is verdict for one in own)) for verdict in _COUNTED]
        told = ", ".join(f"{count} {verdict}" for verdict, count in counts if count)
        noun = "comparison" if len(own) == 1 else "comparisons"
        return f"{len(own)} {noun} of primary metrics: {told}." if own else "Nothing that both have can be compared."


def _run_words(analysis: Analysis) -> str:
    manifest = analysis.data.manifest
    asked = manifest.experiment.get("name")
    begun = units.moment(manifest.created_realtime_ns)
    name = f"{asked}, run {manifest.run}" if asked else f"run {manifest.run}"
    return f"{name}, begun {begun}, {words.blocks_words(analysis)}"


def cautions(compared: Compared) -> list[str]:
    """What must be read before any number, a sentence each."""
    found = [*compared.told]
    for name, one in ((compared.first, compared.between.first), (compared.second, compared.between.second)):
        state = one.data.state
        if state.state != "complete" and not (compared.between.paired and name == compared.second):
            run = one.data.manifest.run
            found.append(f"Run {run} is not complete ({state.state}): this rests on what it has measured so far.")
    if compared.between.alarms:
        tasks = ", ".join(f"{one.task.label} ({words.said(one).text})" for one in compared.between.alarms)
        found.append(
            f"Do not trust this comparison: the A/A control differs in {tasks}, which chance alone does in one of a "
            "hundred."
        )
    return found


def notes(compared: Compared) -> list[str]:
    """What is to be known of the whole comparison, a sentence or two each."""
    between = compared.between
    found = [compared.how]
    bare = [one for one in between.host if one.share is not None and one.task.metric.primary]
    if bare:
        shares = [one.share for one in bare if one.share is not None]
        line = f"The host itself in {compared.second}: {words.between(min(shares), max(shares))} of {compared.first}."
        changed = [one for one in bare if one.verdict in DIFFERENT]
        if changed:
            tasks = ", ".join(f"{one.task.label} ({words.said(one).text})" for one in changed)
            line += f" It differs in {tasks}; the platforms' shares are made in each run, so that this falls out."
        found.append(line)
    limits = [one.smallest for one in between.comparisons if one.smallest is not None and one.task.metric.primary]
    if limits:
        low, high = words.smallest(min(limits)), words.smallest(max(limits))
        found.append(
            "In four of five such comparisons a difference is found that is a factor of "
            f"{words.joined(low, high)} or more. Not known does not mean no difference: more blocks would decide."
        )
    alone = [
        f"only {name} has {', '.join(labels)}"
        for name, labels in (
            (compared.first, between.alone_in_first),
            (compared.second, between.alone_in_second),
        )
        if labels and between.whole
    ]
    if alone:
        found.append(f"Not compared: {'; '.join(alone)}.")
    if any(one.data.beside or one.data.at_once for one in (between.first, between.second)):
        found.append("Guests beside others, and several at once, are not compared: each run's report has them.")
    size = sum(one.p_value is not None and one.task.metric.primary for one in between.comparisons)
    if size:
        found.append(
            f"Verdicts are corrected (Holm) over {size} comparison{'' if size == 1 else 's'} of primary metrics; the "
            f"chance that any difference among them is false is at most {words.amount(between.level)}."
        )
    return found


def shown_tasks(between: Between) -> list[Task]:
    """The tasks of primary metrics, and the others in which something differs."""
    different = {one.task for one in between.comparisons if one.verdict in DIFFERENT}
    return [task for task in between.tasks if task.metric.primary or task in different]


def of_task(between: Between, task: Task) -> list[Comparison]:
    """The comparisons of a task, in the order of the pairs."""
    return [one for one in between.comparisons if one.task == task]


def sample_words(sample: Sample, unit: str) -> str:
    """'30 ms (97 %)': median, and the share of the baseline's performance; a dash where nothing was measured."""
    if sample.cell is None:
        return "–"
    value = words.estimate(sample.cell.median, sample.cell.interval, unit)
    return f"{value} ({words.share(sample.share)})" if sample.share is not None else value


def row_words(compared: Compared, one: Comparison) -> tuple[str, str, str]:
    """Both sides, and what is said of the second against the first."""
    first, second = compared.between.samples(one)
    unit = one.task.metric.unit
    said = words.said(one).text
    if one.verdict is Verdict.NOT_MEASURED and one.reason:
        said = f"{said} ({one.reason})"
    return sample_words(first, unit), sample_words(second, unit), said


def compared_lines(compared: Compared, width: int) -> list[RenderableType]:
    """For a terminal: both sides, what must be read first, a table for each task, and what else differs."""
    from rich.cells import cell_len
    from rich.table import Table

    from virtoll.report.terminal import text

    shown: list[RenderableType] = [text(f"{compared.title}: {compared.summary}", "bold")]
    shown += [
        text(f"{name}: {words_}", "dim")
        for name, words_ in zip((compared.first, compared.second), compared.sides, strict=True)
    ]
    shown += [text(line, "bold") for line in cautions(compared)]
    rows = {
        task: [_cells(compared, one) for one in of_task(compared.between, task)]
        for task in shown_tasks(compared.between)
    }
    every = [("", compared.first, "", compared.second, "", ""), *(cells for own in rows.values() for cells, _ in own)]
    widths = [max(cell_len(cells[place]) for cells in every) for place in range(5)]
    widths[0] = min(widths[0], width // 3)
    for number, (task, own) in enumerate(rows.items()):
        table = Table(box=None, padding=(0, 0, 0, 2), pad_edge=True, header_style="dim", show_header=number == 0)
        for place, head in enumerate(every[0][:5]):
            table.add_column(head, justify="right" if place else "left", overflow="fold", width=widths[place])
        table.add_column(f"{compared.second} is", overflow="fold")
        for cells, verdict in own:
            table.add_row(*map(text, cells[:5]), text(cells[5], _STYLES.get(verdict, "")))
        shown += [text(""), text(task.label, "bold"), table]
    shown += [text(""), *map(text, notes(compared))]
    lines = change_lines(compared.changes)
    if not compared.between.paired:
        shown += [text(""), text("What else differs", "bold"), *(text(f"  {line}") for line in lines[:_MOST_CHANGES])]
        if len(lines) > _MOST_CHANGES:
            shown.append(text(f"  and {len(lines) - _MOST_CHANGES} more: --json and the page have all"))
    return shown


def _cells(compared: Compared, one: Comparison) -> tuple[tuple[str, ...], Verdict]:
    """Platform, both medians with the shares of the baseline's performance, what is said; and the verdict."""
    unit = one.task.metric.unit
    cells = [one.platform]
    for sample in compared.between.samples(one):
        cell = sample.cell
        cells.append("–" if cell is None else words.estimate(cell.median, cell.interval, unit))
        cells.append("" if sample.share is None or cell is None else words.share(sample.share))
    return (*cells, row_words(compared, one)[2]), one.verdict


def compared_markdown(told: Sequence[Compared]) -> str:
    """A comment on a change: what is asked for, what differs, all of it folded, and how it was measured."""
    lines: list[str] = []
    for compared in told:
        lines += ["", *_markdown_of(compared)] if lines else _markdown_of(compared)
    return "\n".join(lines) + "\n"


def _markdown_of(compared: Compared) -> Iterator[str]:
    yield f"### {comment_text(compared.title)}: {comment_text(compared.summary)}"
    for name, said in zip((compared.first, compared.second), compared.sides, strict=True):
        yield from ("", f"{comment_text(name)}: {comment_text(said)}")
    for line in cautions(compared):
        yield from ("", f"**{comment_text(line)}**")
    if compared.gate is not None:
        yield from ("", f"**{comment_text(compared.gate.words)}**")
        open_checks = [one for one in compared.gate.checks if one.outcome != "met"]
        if open_checks:
            yield from ("", *comment_heads(["outcome", "measured", "why"]))
            for check in open_checks:
                yield comment_row([check.outcome, measured_words(check), "; ".join(check.rest)])
    different = [one for one in compared.between.comparisons if one.verdict in DIFFERENT]
    rest = [one for one in compared.between.comparisons if one.task.metric.primary and one.verdict not in DIFFERENT]
    if different:
        yield from ("", *_markdown_table(compared, different))
    if rest:
        summary = "What does not differ, or is not known"
        yield from (
            "",
            f"<details><summary>{summary}</summary>",
            "",
            *_markdown_table(compared, rest),
            "",
            "</details>",
        )
    for line in notes(compared):
        yield from ("", comment_text(line))
    if not compared.between.paired:
        changes = [f"- {comment_text(line)}" for line in change_lines(compared.changes)]
        yield from ("", "<details><summary>What else differs</summary>", "", *changes, "", "</details>")


def _markdown_table(compared: Compared, rows: Sequence[Comparison]) -> Iterator[str]:
    yield from comment_heads(["workload", "platform", compared.first, compared.second, f"{compared.second} is"])
    for one in rows:
        yield comment_row([one.task.label, one.platform, *row_words(compared, one)])


def compared_document(told: Sequence[Compared]) -> dict[str, Any]:
    """All of it for a program; what is missing is null and never zero."""
    return {"schema": SCHEMA, "version": VERSION, "comparisons": [_document_of(one) for one in told]}


def _document_of(compared: Compared) -> dict[str, Any]:
    between = compared.between
    sides = zip(("first", "second"), (compared.first, compared.second), (between.first, between.second), strict=True)
    return {
        **{
            key: {
                "name": name,
                "run": one.data.manifest.run,
                "created_realtime_ns": one.data.manifest.created_realtime_ns,
                "state": one.data.state.state,
                "virtoll": one.data.manifest.virtoll,
                "host_fingerprint": one.data.manifest.host.get("fingerprint"),
            }
            for key, name, one in sides
        },
        "paired": between.paired,
        "by": between.by,
        "level": between.level,
        "cautions": cautions(compared),
        "notes": notes(compared),
        "changes": [{"what": one.what, "before": one.before, "after": one.after} for one in compared.changes],
        "rows": compared_table(between).records(),
        "gate": None if compared.gate is None else dict(compared.gate.document),
    }
