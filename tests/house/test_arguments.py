"""A call names its arguments where there are many: at most six by position (ruff's PLR0917 holds the definitions)."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tests.support.repository import ROOT

FILES = sorted(path for room in ("src", "tools", "benches", "tests") for path in (ROOT / room).rglob("*.py"))
MOST = 6
LISTS = {"struct.pack", "TypeVar"}  # of the standard library, whose arguments are a list


def takes_a_list(trees: Iterable[ast.Module]) -> set[str]:
    """Names of functions that take any number of arguments: a command line, most of them."""
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {function.name for function in functions if function.args.vararg is not None}


def long_calls(tree: ast.Module, lists: set[str]) -> list[str]:
    """Calls with more arguments by position, as ``line: function``; a starred one counts once."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > MOST)
    named = ((node.lineno, ast.unparse(node.func)) for node in calls)
    return [f"{line}: {name}" for line, name in named if name not in LISTS and name.split(".")[-1] not in lists]


def test_no_call_has_more_than_six_arguments_by_position() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
    lists = takes_a_list(trees.values())
    assert [f"{path.relative_to(ROOT)}:{one}" for path, tree in trees.items() for one in long_calls(tree, lists)] == []


def test_such_a_call_is_found() -> None:
    tree = ast.parse("Row(1, 2, 3, 4, 5, 6, *more)\nRow(1, 2, 3, 4, 5, 6, seventh=7)\nrun('a', 'b', 1, 2, 3, 4, 5)\n")
    assert long_calls(tree, {"run"}) == ["1: Row"]
