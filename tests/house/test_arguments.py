"""A call names its arguments where there are many: at most six by position (ruff's PLR0917 holds the definitions)."""

from __future__ import annotations

import ast

from tests.support.repository import ROOT

FILES = sorted(path for room in ("src", "tools", "benches", "tests") for path in (ROOT / room).rglob("*.py"))
MOST = 6
LISTS = {"struct.pack", "TypeVar"}  # of the standard library, whose arguments are a list


class LongCalls:
    """Calls with more arguments by position; a starred one counts once.

    A function that takes any number of arguments, a command line most often, may be called with any number. No tree is
    kept: Python's garbage collector would look through all of them again and again.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.take_a_list = set(LISTS)

    def read(self, source: str, file: str) -> None:
        """Add the functions and the long calls of a file."""
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and len(node.args) > MOST:
                self.calls.append((f"{file}:{node.lineno}", ast.unparse(node.func)))
            elif isinstance(node, ast.FunctionDef) and node.args.vararg is not None:
                self.take_a_list.add(node.name)

    def wrong(self) -> list[str]:
        """As ``file:line: function``."""
        names = self.take_a_list
        return [f"{place}: {name}" for place, name in self.calls if not {name, name.split(".")[-1]} & names]


def test_no_call_has_more_than_six_arguments_by_position() -> None:
    calls = LongCalls()
    for path in FILES:
        calls.read(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    assert calls.wrong() == []


def test_such_a_call_is_found() -> None:
    calls = LongCalls()
    calls.read("Row(1, 2, 3, 4, 5, 6, *more)\nRow(1, 2, 3, 4, 5, 6, seventh=7)\nrun('a', 'b', 1, 2, 3, 4, 5)\n", "x")
    calls.read("def run(*argv):\n    struct.pack('7B', 1, 2, 3, 4, 5, 6, 7)\n", "y")
    assert calls.wrong() == ["x:1: Row"]
