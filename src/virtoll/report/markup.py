"""Writers of text that a paper takes over: Markdown as GitHub reads it, and LaTeX that compiles by itself.

`markdown_text` and `latex_text` make any text stand as it is; `markdown_table` and `latex_table` write an
`ExportTable`. The LaTeX needs `booktabs` alone and works with pdfTeX, XeTeX and LuaTeX.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache

from virtoll.report.export_tables import ExportGroup, ExportRow, ExportTable
from virtoll.report.table import Column, ValueKind
from virtoll.system.printable import printable

_LINES_OF_A_FLOAT = 44  # more fit no page
_WIDE_LETTERS = 32  # of a line, in a column whose cells may take several
_RULES = {ValueKind.NUMBER: "---:"}
_ALIGNED = {ValueKind.NUMBER: "r", ValueKind.SENTENCE: r"p{0.23\linewidth}"}  # of the text's width
_APART = "\x00"  # between two letters that TeX would make one of
_LATEX = {
    _APART: "{}",
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": "{}`{}",
    "\u00a0": "~",
    "×": r"$\times$",
    "−": "$-$",
    "–": "--",
    "—": "---",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "∞": r"$\infty$",
    "†": r"$\dagger$",
    "µ": r"$\mu$",
    "μ": r"$\mu$",
    "…": r"\ldots{}",
    "’": "'",
    "“": "``",
    "”": "''",
}
_ACCENTS = {
    "\u0300": "`",
    "\u0301": "'",
    "\u0302": "^",
    "\u0303": "~",
    "\u0308": '"',
    "\u030a": "r",
    "\u030c": "v",
    "\u0327": "c",
}
# A number and its unit stay on one line, a thin space apart.
_UNIT = re.compile(
    r"(?<=\d) (?=(?:%|×|[nµmk]?s|min|[KMGT]iB|[kMG]?B|[kMG]?(?:frames|bit|B)/s|[kMG]|ppm|CPUs?|Hz)(?![\w/]))"
)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|~#])")


def markdown_text(text: str) -> str:
    """Any text as Markdown that shows it as it is, on one line; what would steer a terminal is written out."""
    return _MARKDOWN.sub(r"\\\1", printable(" ".join(text.split())).replace("&", "&amp;"))


def latex_text(text: str) -> str:
    """Any text as LaTeX that prints it as it is, on one line; a letter beyond Europe's is named by its number."""
    plain = re.sub(r"(?<![^\s(])-(?=\d)", "−", " ".join(text.replace(_APART, " ").split()))
    plain = re.sub(r"([-,'])(?=\1)", rf"\1{_APART}", plain)
    return r"\,".join("".join(map(_letter, part)) for part in _UNIT.split(plain))


@cache
def _letter(letter: str) -> str:
    if letter in _LATEX:
        return _LATEX[letter]
    if " " <= letter <= "~":
        return letter
    apart = unicodedata.normalize("NFD", letter)
    plain, mark = apart[:1], apart[1:]
    if mark in _ACCENTS and plain.isascii() and plain.isalpha():
        return rf"\{_ACCENTS[mark]}{{{plain}}}"
    return f"[U+{ord(letter):04X}]"


def markdown_table(table: ExportTable) -> str:
    """The table with its caption above and its notes below; a group's head stands in each of its rows."""
    lines = [f"**{markdown_text(table.caption)}**", "", _line([table.head, *(column.name for column in table.columns)])]
    lines.append(f"| --- | {' | '.join(_RULES.get(column.kind, '---') for column in table.columns)} |")
    for group in table.groups:
        lines += [_line([group.head, *(column.value(row) for column in table.columns)]) for row in group.rows]
    for note in table.notes:
        lines += ["", markdown_text(note)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"


def latex_table(table: ExportTable) -> str:
    """The table as floats over both columns, each with caption, label (`tab:virtoll-NAME`) and the notes below.

    A group's head has a line to itself, over its rows.
    """
    parts = list(_parts(table))
    head = "% Needs \\usepackage{booktabs}. Made by 'virtoll report'; made anew each time.\n"
    return head + "\n".join(_float(table, part, number, len(parts)) for number, part in enumerate(parts, 1))


def _parts(table: ExportTable) -> Iterator[list[ExportGroup]]:
    """Groups in order, as many as fit a page; one that is larger has a page to itself."""
    part: list[ExportGroup] = []
    for group in table.groups:
        if part and sum(_lines(table, each) for each in (*part, group)) > _LINES_OF_A_FLOAT:
            yield part
            part = []
        part.append(group)
    if part:
        yield part


def _lines(table: ExportTable, group: ExportGroup) -> int:
    """How many lines it takes, about: as many as its last cells."""
    last = table.columns[-1]
    return 1 + sum(-(-len(last.value(row)) // _WIDE_LETTERS) for row in group.rows)


def _float(table: ExportTable, groups: Sequence[ExportGroup], number: int, of: int) -> str:
    several = f" ({number} of {of})" if of > 1 else ""
    label = f"tab:virtoll-{table.name.replace('_', '-')}" + (f"-{number}" if number > 1 else "")
    columns = table.columns
    body = "\n\\addlinespace\n".join("\n".join(_latex_rows(group, columns)) for group in groups)
    heads = [f"{table.head}, {columns[0].name}", *(column.name for column in columns[1:])]
    notes = " ".join(map(latex_text, table.notes))
    return rf"""\begin{{table*}}[tbp]
\centering\footnotesize\setlength{{\tabcolsep}}{{4pt}}
\caption{{{latex_text(table.caption + several)}}}\label{{{label}}}
\begin{{tabular}}{{@{{}}{"".join(_ALIGNED.get(column.kind, "l") for column in columns)}@{{}}}}
\toprule
{" & ".join(map(latex_text, heads))} \tabularnewline
\midrule
{body}
\bottomrule
\end{{tabular}}
\par\smallskip\begin{{minipage}}{{\linewidth}}\scriptsize\raggedright {notes}\end{{minipage}}
\end{{table*}}
"""


def _latex_rows(group: ExportGroup, columns: Sequence[Column[ExportRow]]) -> Iterator[str]:
    yield rf"\multicolumn{{{len(columns)}}}{{@{{}}l}}{{\itshape {latex_text(group.head)}}} \tabularnewline"
    for row in group.rows:
        cells = []
        for column in columns:
            text = latex_text(column.value(row))
            cells.append(rf"\raggedright {text}" if text and column.kind is ValueKind.SENTENCE else text)
        yield r"\quad " + " & ".join(cells) + r" \tabularnewline"
