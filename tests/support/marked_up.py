"""Markdown and LaTeX as a report writes them, read back: cells of tables, text as shown, and whether TeX takes it."""

import re


def markdown_rows(text: str) -> list[list[str]]:
    """The cells of a Markdown table as a reader sees them, the head first."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |")) for line in lines]
    return [[shown(cell) for cell in row] for number, row in enumerate(rows) if number != 1]


def shown(markdown: str) -> str:
    return re.sub(r"\\([\\`*_{}\[\]<>|~#])", r"\1", markdown).replace("&amp;", "&")


def latex_rows(text: str) -> list[list[str]]:
    """The cells of each row of a LaTeX table, as written, the first of them the head of the row's group."""
    head, found = "", []
    for line in text.splitlines():
        group = re.fullmatch(r"\\multicolumn\{\d+\}\{@\{\}l\}\{\\itshape (.*)\} \\tabularnewline", line)
        if group is not None:
            head = group[1]
        elif line.startswith(r"\quad "):
            cells = line.removeprefix(r"\quad ").removesuffix(r" \tabularnewline")
            found.append([head, *re.split(r"(?<!\\) & ", cells)])
    return found


def compiles(text: str) -> bool:
    """What TeX would stumble over: braces and environments are balanced, all is ASCII, no special letter is bare."""
    code = re.sub(r"(?m)^%.*\n", "", text)
    opened = re.findall(r"\\(begin|end)\{([a-z*]+)\}", code)
    stack: list[str] = []
    for kind, environment in opened:
        if kind == "begin":
            stack.append(environment)
        elif not stack or stack.pop() != environment:
            return False
    plain = re.sub(r"\\[{}$&#_%]|\\[\"~^](?=\{)|~", "", code)
    depth = 0
    for letter in plain:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth < 0:
            return False
    return (
        not stack and depth == 0 and code.isascii() and plain.count("$") % 2 == 0 and not set('#_%^<>|"') & set(plain)
    )
