"""Markdown for a comment on a change: question, thresholds, the ranking as the terminal has it, and the host.

No letter of a name is markup: pipes, HTML and mentions stand as they are.
"""

from collections.abc import Iterator, Sequence

from virtoll.report.answer import extent_line, notes, places_line, title_line
from virtoll.report.exchange.values import Exchanged, one_line
from virtoll.report.gate import GateView
from virtoll.report.headline import caveat_line, host_line
from virtoll.report.markup import markdown_text
from virtoll.report.terminal import ranked_rows


def comment(exchanged: Exchanged) -> str:
    """The whole comment."""
    analysis = exchanged.analysis
    lines = [f"### {comment_text(title_line(analysis))}"]
    for note in notes(analysis, exchanged.damage):
        lines += ["", f"**{comment_text(note)}**"]
    lines += _gate(exchanged.gate) if exchanged.gate is not None else ()
    rows = ranked_rows(analysis)
    if rows:
        lines += ["", *comment_heads(["workload", "place", "platform", "value", "performance"])]
        for row in rows:
            for entry in row.platforms:
                lines.append(comment_row([row.task, entry.place, entry.platform, entry.value, entry.words]))
            lines += [comment_row([row.task, "", others, "", ""]) for others in row.others]
    elif analysis.at_once.points:
        lines += ["", "Several guests at once were measured: the report has them."]
    for line in (places_line(rows), caveat_line(analysis), host_line(analysis), extent_line(analysis)):
        if line:
            lines += ["", comment_text(line)]
    return "\n".join(lines) + "\n"


def _gate(gate: GateView) -> Iterator[str]:
    yield from ("", f"**{comment_text(gate.words)}**")
    for doubt in gate.doubts:
        yield from ("", f"Cannot tell: {comment_text(doubt)}")
    if gate.checks:
        yield from ("", *comment_heads(["outcome", "threshold", "measured", "evidence"]))
    for check in gate.checks:
        yield comment_row([check.outcome, check.threshold, check.measured, "; ".join(check.rest)])


def comment_heads(heads: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return [comment_row(heads), f"|{' --- |' * len(heads)}"]


def comment_row(cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(comment_text, cells))} |"


def comment_text(text: str) -> str:
    """A text on one line, of which no letter is markup or names a user."""
    return markdown_text(one_line(text)).replace("@", "&#64;")
