#!/usr/bin/env python3
"""Writes some messages of `src/virtoll` in other words, and counts the tests that fail: they hold prose.

`python -m tools.mutants.rewording --sample 50 --seed 1` draws texts of five words and more, puts
other words in the place of common ones in a copy of the repository, has `make tables` write what is generated from
them, and runs the tests outside labs there (or those of `--tests`).
Names, numbers and what is put into a text stay, so a test of facts passes.
Prints each change and each test that failed. Exit codes: 0, 1 where more than `--most` failed.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.mutants.changes import Change, changed, is_fault, lot
from tools.mutants.trees import ROOT, SHORT, make_tree, pytest_in, write_tables

SOURCE: Final = ROOT / "src" / "virtoll"
LEAST_WORDS: Final = 5
OTHERS: Final = {
    "is": "happens to be",
    "are": "happen to be",
    "was": "has been",
    "were": "have been",
    "the": "that very",
    "a": "some",
    "has": "possesses",
    "have": "possess",
    "cannot": "is unable to",
    "must": "is obliged to",
    "of": "belonging to",
    "and": "as well as",
    "or": "or else",
    "not": "by no means",
    "no": "not any",
    "for": "on behalf of",
    "to": "in order to",
    "with": "together with",
    "by": "by means of",
}
_CODE: Final = re.compile(r"(\{[^{}]*\}(?: of \{[^{}]*\})?|\d+ of \d+)")
_WORD: Final = re.compile(r"(?<![\w'\"./<>{}=-])(" + "|".join(OTHERS) + r")(?![\w'\"./<>{}=-])")


def reworded(text: str) -> str:
    """The text with other words in the place of common ones; code in braces and ``{a} of {b}``, a figure, stay."""
    parts = _CODE.split(text)
    parts[::2] = [_WORD.sub(lambda match: OTHERS[match[1]], part) for part in parts[::2]]
    return "".join(parts)


def rewordings_of(file: str, source: str) -> list[Change]:
    """Each message of a file with other words. ``file``: its path from ``src/virtoll``.

    A raw text (``r"..."``) is a pattern or a script, and no message.
    """
    tree = ast.parse(source)
    lengths = [0]
    for line in source.splitlines(keepends=True):
        lengths.append(lengths[-1] + len(line.encode()))
    changes = []
    for node in _texts(tree):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = lengths[node.lineno - 1] + node.col_offset
        end = lengths[node.end_lineno - 1] + node.end_col_offset
        before = source.encode()[start:end].decode()
        if before.startswith("r"):
            continue
        after = reworded(before)
        if after != before and len(re.findall(r"[a-z]{2,}", _CODE.sub("", before))) >= LEAST_WORDS:
            lines = (node.lineno, node.end_lineno)
            changes.append(Change(file, file, lines, start, end, after, before=before, after=after))
    return changes


def _texts(tree: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Texts that are no docstrings."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            yield node
        else:
            yield from _texts(node)


def drawn(every: list[Change], sources: dict[str, str], seed: int, sample: int) -> list[Change]:
    """So many of the changes by lot."""
    order = sorted(every, key=lambda change: lot(change, seed))
    faults = (change for change in order if is_fault(sources[change.file], change))
    return list(itertools.islice(faults, sample))


def main() -> int:
    """Draw, change, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=50, help="how many messages (default: 50)")
    parser.add_argument("--seed", type=int, default=1, help="which messages are drawn (default: 1)")
    parser.add_argument("--most", type=int, default=5, help="how many tests may fail (default: 5)")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="folders or modules (default: all outside labs)")
    asked = parser.parse_args()
    sources = {str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    every = [change for file, source in sources.items() for change in rewordings_of(file, source)]
    chosen = drawn(every, sources, asked.seed, asked.sample)
    tree = make_tree("reworded")
    for change in sorted(chosen, key=lambda change: -change.start):  # from the end, so that places stay
        file: Path = tree / "src" / "virtoll" / change.file
        file.write_text(changed(file.read_text(encoding="utf-8"), change), encoding="utf-8")
        print(f"{change.file}:{change.lines[0]}\n- {change.before}\n+ {change.after}")
    short = f"not inside and {SHORT}"
    write_tables(tree)
    done = pytest_in(tree, ["-rfE", "--numprocesses=3", "--dist=worksteal", "-m", short, *asked.tests])
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", done.stdout, re.MULTILINE)
    print(f"\n{len(chosen)} messages of {len(every)} in other words; {len(failed)} tests failed")
    print("\n".join(sorted(failed)))
    print("\n".join(line for line in done.stdout.splitlines() if line.startswith("E  ")))
    print(done.stdout.splitlines()[-1] if done.stdout else done.stderr)
    return 1 if len(failed) > asked.most else 0


if __name__ == "__main__":
    sys.exit(main())
