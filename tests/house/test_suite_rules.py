"""Rules of the suite: lengths of modules and names, and private names of what is tested."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import Final

import pytest
from tests.support.repository import ROOT

MOST_LINES: Final = 500
MOST_LETTERS: Final = 70
STANDARD: Final = {"_exit", "_replace", "_asdict", "_fields"}
"""Public in spite of the underscore: of ``os`` and of named tuples."""
PRIVATE: Final = re.compile(r"\b_[a-zA-Z]\w*")


@pytest.fixture(scope="module")
def modules() -> dict[str, str]:
    """All Python files of the tests, by their paths from there."""
    folder = ROOT / "tests"
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))}


def test_no_module_is_longer_than_it_can_be_read(modules: dict[str, str]) -> None:
    assert {name: text.count("\n") for name, text in modules.items() if text.count("\n") > MOST_LINES} == {}


def test_names_of_tests_fit_a_line_of_the_report(modules: dict[str, str]) -> None:
    names = [name for text in modules.values() for name in re.findall(r"\bdef (test_\w+)", text)]
    assert [name for name in names if len(name) > MOST_LETTERS] == []


def test_a_private_name_of_what_is_tested_has_a_comment_that_says_why(modules: dict[str, str]) -> None:
    """On the line of its first use in a module, or right above it."""
    private = {name for path in (ROOT / "src").rglob("*.py") for name in PRIVATE.findall(path.read_text("utf-8"))}
    places = [line for name, text in modules.items() for line in uncommented(text, private - STANDARD, name)]
    assert places == []


@pytest.mark.parametrize(
    "text",
    [
        "from virtoll.plan import _hidden",
        "plan.now()\nplan._hidden()",
        "patch.setattr(plan, '_hidden', 1)",
        "patch.setattr('virtoll.plan._hidden', 1)",
        "plan._hidden()  # type: ignore[misc]",
        "plan._hidden()  # noqa: SLF001",
    ],
)
def test_a_private_name_without_a_comment_is_found(text: str) -> None:
    (found,) = uncommented(text, {"_hidden"}, "test_plan.py")
    assert found == f"test_plan.py:{text.count(chr(10)) + 1}: _hidden"


@pytest.mark.parametrize(
    "text",
    [
        "plan._hidden()  # nothing else tells the order",
        "# Nothing else tells the order.\nplan._hidden()\nplan._hidden()",
        "self._hidden()",
        "def _hidden(): ...\nmodule._hidden()",
        "from virtoll.plan import __version__",
        "row._other()",
        "from tools import plan\nplan._hidden()",
    ],
)
def test_a_name_with_a_comment_and_one_of_the_tests_own_are_allowed(text: str) -> None:
    assert uncommented(text, {"_hidden"}, "test_plan.py") == []


def uncommented(text: str, private: set[str], name: str) -> list[str]:
    """The first uses of private names in a module that have no comment."""
    if private.isdisjoint(PRIVATE.findall(text)):
        return []
    nodes = list(ast.walk(ast.parse(text)))
    others = {alias for node in nodes for alias in _programs(node)}
    uses = [(line, used) for node in nodes for used, line in _uses(node, others) if used in private]
    first = {used: line for line, used in sorted(uses, reverse=True)}
    if not first:
        return []
    commented = _commented_lines(text)
    unknown = sorted(first.keys() - {_defined_by(node) for node in nodes})
    return [f"{name}:{first[used]}: {used}" for used in unknown if not {first[used], first[used] - 1} & commented]


def _programs(node: ast.AST) -> list[str]:
    """What a node imports from the folders of programs, which are no part of the product."""
    match node:
        case ast.ImportFrom(module=str(module)) if module.startswith(("benches", "tools")):
            return [alias.asname or alias.name for alias in node.names]
        case _:
            return []


def _uses(node: ast.AST, others: set[str]) -> list[tuple[str, int]]:
    """Names that a node imports, reads from something else than ``self``, or patches, and their lines."""
    match node:
        case ast.ImportFrom():
            return [(alias.name, node.lineno) for alias in node.names]
        case ast.Attribute(value=ast.Name(id=owner)) if owner in {"self", "cls"} | others:
            return []
        case ast.Attribute():
            return [(node.attr, node.lineno)]
        case ast.Call(func=ast.Attribute(attr="setattr" | "delattr" | "object") | ast.Name(id="setattr" | "getattr")):
            texts = [value for value in node.args if isinstance(value, ast.Constant)]
            return [(str(value.value).rpartition(".")[2], value.lineno) for value in texts]
        case _:
            return []


def _defined_by(node: ast.AST) -> str | None:
    """The function, class, variable or attribute that a node defines."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return node.name
        case ast.Name(ctx=ast.Store()):
            return node.id
        case ast.Attribute(ctx=ast.Store()):
            return node.attr
        case _:
            return None


def _commented_lines(text: str) -> set[int]:
    """Lines with a comment that is meant for people."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    return {token.start[0] for token in comments if not token.string.startswith(("# type:", "# noqa", "# fmt:"))}
