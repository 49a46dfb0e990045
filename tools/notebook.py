#!/usr/bin/env python3
"""Runs the documentation's notebooks and stores what their cells answer: no server of Jupyter's is needed for it.

`.venv/bin/python tools/notebook.py` runs each notebook of docs/notebooks from its first cell to its last, in one
namespace and in an empty folder, and writes their outputs. With `--check` it changes nothing and names the cells whose
answer is another one now. A cell answers what it prints, and what its last expression is: a picture where that has
`_repr_svg_`, as Jupyter shows it.
Exit codes: 0 the outputs are as stored or were written, 1 one differs (`--check`) or a cell failed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from virtoll.report.drawer import converter

ROOT: Final = Path(__file__).resolve().parent.parent
NOTEBOOKS: Final = ROOT / "docs" / "notebooks"


class CellFailed(Exception):
    """A cell raised an error."""


@contextlib.contextmanager
def elsewhere() -> Iterator[None]:
    """In an empty folder."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def lines(text: str) -> list[str]:
    """A text as notebooks store it."""
    return text.splitlines(keepends=True)


def answer(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """The outputs of one cell, which is run in these names; ``CellFailed``."""
    tree, printed = ast.parse(source), io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value = None
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102 - our own notebook
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)  # noqa: S307
    except Exception as error:
        raise CellFailed(f"cell {number}: {traceback.format_exc().strip().splitlines()[-1]}") from error
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        picture = getattr(value, "_repr_svg_", None)
        data = {"image/svg+xml": lines(picture())} if picture else {"text/plain": lines(repr(value))}
        found.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return found


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """The same notebook with the outputs of now; ``CellFailed``."""
    converter()  # the pictures are those of a host without fonts of its own
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, number = [], 0
    with elsewhere():
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                made = answer("".join(cell["source"]), names, number)
                cells.append({**cell, "execution_count": number, "outputs": made})
            else:
                cells.append(cell)
    return {**notebook, "cells": cells}


def main(arguments: list[str] | None = None) -> int:
    """Write or check the outputs; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if an output differs")
    check: bool = parser.parse_args(arguments).check
    wrong = False
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        stored = json.loads(path.read_text(encoding="utf-8"))
        try:
            made = run(stored)
        except CellFailed as error:
            print(f"notebook: {path.relative_to(ROOT)}, {error}", file=sys.stderr)
            wrong = True
            continue
        if check:
            for number, (old, new) in enumerate(zip(stored["cells"], made["cells"], strict=True), 1):
                if old != new:
                    print(f"notebook: {path.relative_to(ROOT)}: the output of cell {number} differs", file=sys.stderr)
                    wrong = True
        elif made != stored:
            path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(f"notebook: {path.relative_to(ROOT)} written")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
