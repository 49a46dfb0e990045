"""Markdown for a comment on a change: question, thresholds, the ranking as the terminal has it, and the host.

No letter of a name is markup: pipes, HTML and mentions stand as they are.
"""

from collections.abc import Iterator, Sequence

from virtoll.report.answer import PLACES, extent_line, notes, title_line
from virtoll.report.exchange.values import Exchanged, one_line
from virtoll.report.gate import GateView, measured_words
from virtoll.report.headline import caveat_line, host_line
from virtoll.report.markup import markdown_text
from virtoll.report.terminal import ranked_rows


def comment(given: Exchanged) -> str:
    """The whole comment."""
    analysis = given.analysis
    lines = [f"### {_text(title_line(analysis))}"]
    for note in notes(analysis, given.damage):
        lines += ["", f"**{_text(note)}**"]
    lines += _gate(given.gate) if given.gate is not None else ()
    rows = ranked_rows(analysis)
    if rows:
        lines += ["", *_table(["workload", "place", "platform", "median", "performance"])]
        for row in rows:
            for one in row.platforms:
                lines.append(_row([row.task, one.place, one.platform, one.median, one.words]))
            lines += [_row([row.task, "", others, "", ""]) for others in row.others]
    elif analysis.at_once.points:
        lines += ["", "Several guests at once were measured: the report has them."]
    ends = [
        PLACES if any(" to " in one.place for row in rows for one in row.platforms) else "",
        caveat_line(analysis),
        host_line(analysis),
        extent_line(analysis),
    ]
    return "\n".join(lines + [part for line in ends if line for part in ("", _text(line))]) + "\n"


def _gate(gate: GateView) -> Iterator[str]:
    yield from ("", f"**{_text(gate.words)}**")
    for doubt in gate.doubts:
        yield from ("", f"Cannot tell: {_text(doubt)}")
    if gate.checks:
        yield from ("", *_table(["outcome", "threshold", "measured", "evidence"]))
    for one in gate.checks:
        yield _row([one.outcome, one.threshold, measured_words(one), "; ".join(one.rest)])


def _table(heads: Sequence[str]) -> list[str]:
    return [_row(heads), f"|{' --- |' * len(heads)}"]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_text, cells))} |"


def _text(text: str) -> str:
    return markdown_text(one_line(text)).replace("@", "&#64;")
