"""The small faults that somebody could make in a file of Python: one expression or statement changed.

A comparison is turned or its bound moved, an operator replaced, a condition negated, a branch left out, a number or a
word changed, two arguments or two fields swapped, an argument or a call left out. Prose, docstrings, annotations,
assertions, decorators, imports and protocols are left alone: nobody calls a change of these a fault of behaviour.
Main functions: `changes_of`, `is_fault`, `changed`, `lot`, `runs_at_import`.
"""

from __future__ import annotations

import ast
import copy
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_LEFT_ALONE: Final = (ast.Assert, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
_Node = TypeVar("_Node", bound=ast.AST)
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Change:
    """Bytes ``start`` to ``end`` of a file become ``text``; ``lines``: the first and the last line, from 1."""

    file: str
    where: str
    lines: tuple[int, int]
    start: int
    end: int
    text: str
    before: str
    after: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from others, whatever else is edited."""
        return self.where, self.before, self.after


def changed(source: str, change: Change) -> str:
    """The file with the change."""
    raw = source.encode()
    return (raw[: change.start] + change.text.encode() + raw[change.end :]).decode()


def is_fault(source: str, change: Change) -> bool:
    """Whether the file with the change is Python, and another program than without it."""
    try:
        return ast.dump(ast.parse(changed(source, change))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def changes_of(file: str, source: str) -> list[Change]:
    """All changes of a file of ``src/virtoll``, in the order of its text. ``file``: its path from there."""
    tree = ast.parse(source)
    finder = _Finder(file, source)
    finder.visit(tree, None)
    return sorted(set(finder.changes), key=lambda change: (change.start, change.end, change.text))


class _Finder:
    """Walks a tree with what is around each node."""

    def __init__(self, file: str, source: str) -> None:
        self.file, self.source = file, source
        self.changes: list[Change] = []
        self._raw = source.encode()
        self._lines = source.splitlines()
        lengths = [len(line.encode()) for line in source.splitlines(keepends=True)]
        self._line_starts = list(itertools.accumulate(lengths, initial=0))
        self._names: list[str] = []
        self._text: ast.JoinedStr | None = None  # positions in a formatted text are wrong before Python 3.12
        self._fields: list[dict[str, list[str]]] = [{}]

    def visit(self, node: ast.AST, parent: ast.AST | None) -> None:
        """The node's own changes, then those of what is in it."""
        if isinstance(node, _LEFT_ALONE) or _is_docstring(node, parent) or _is_protocol(node):
            return
        named = isinstance(node, (*_FUNCTIONS, ast.ClassDef))
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            self._names.append(node.name)
            self._fields.append(_fields_in(node))
        for new in _replacements(node, parent, self._fields[-1], in_text=self._text is not None):
            self._add(node, new)
        outer = self._text
        if isinstance(node, ast.JoinedStr) and outer is None:
            self._text = node
        for child in _children(node):
            self.visit(child, node)
        self._text = outer
        if named:
            self._names.pop()
            self._fields.pop()

    def _add(self, node: ast.AST, new: ast.AST) -> None:
        place, text = node, ast.unparse(new)
        if self._text is not None:
            place, text = self._text, ast.unparse(_with_replaced(self._text, node, new))
        elif isinstance(node, ast.expr) and not isinstance(node, (ast.Constant, ast.Attribute, ast.Call)):
            text = f"({text})"
        assert isinstance(place, (ast.expr, ast.stmt))
        assert place.end_lineno is not None
        assert place.end_col_offset is not None
        first, last = place.lineno, place.end_lineno
        start = self._line_starts[first - 1] + place.col_offset
        end = self._line_starts[last - 1] + place.end_col_offset
        where = ".".join(["virtoll", *self.file.removesuffix(".py").split("/"), *self._names])
        head = self._raw[self._line_starts[first - 1] : start].decode()
        tail = self._raw[end : self._line_starts[last]].decode()
        before = _on_one_line("\n".join(self._lines[first - 1 : last]))
        after = _on_one_line(head + text + tail)
        self.changes.append(Change(self.file, where, (first, last), start, end, text, before=before, after=after))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What of a node may be changed: no annotation, no decorator, no format specification."""
    skipped = {"annotation", "returns", "decorator_list", "type_params", "format_spec", "bases", "type"}
    for name, value in ast.iter_fields(node):
        if name in skipped or (isinstance(node, ast.keyword) and node.arg in {"help", "metavar"}):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _replacements(
    node: ast.AST, parent: ast.AST | None, fields: dict[str, list[str]], *, in_text: bool
) -> Iterator[ast.AST]:
    """The nodes that may stand in the place of this one."""
    if isinstance(node, ast.expr) and _is_condition(node, parent):
        yield ast.UnaryOp(ast.Not(), node)
        yield ast.Constant(isinstance(parent, ast.comprehension))  # the filter or the branch is left out
    if isinstance(node, ast.Constant):
        yield from _constants(node, parent, in_text=in_text)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Attribute) and not _is_called(node, parent):
        yield from _other_field(node, fields)
    else:
        yield from _operations(node)


def _operations(node: ast.AST) -> Iterator[ast.AST]:
    """Comparisons, operators, negations and jumps, each turned into another."""
    match node:
        case ast.BoolOp():
            yield _but(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
            rest = node.values[:-1]
            yield rest[0] if len(rest) == 1 else _but(node, values=rest)
        case ast.Compare(ops=[operator]):
            yield _but(node, ops=[_COMPARISONS[type(operator)]()])
        case ast.BinOp() | ast.AugAssign() if type(node.op) in _OPERATORS:
            yield _but(node, op=_OPERATORS[type(node.op)]())
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.IfExp():
            yield _but(node, body=node.orelse, orelse=node.body)
        case ast.Break() | ast.Continue():
            yield ast.Continue() if isinstance(node, ast.Break) else ast.Break()
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case _:
            pass


def _other_field(node: ast.Attribute, fields: dict[str, list[str]]) -> Iterator[ast.AST]:
    """Another attribute of the same variable that the function reads."""
    if isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
        others = fields.get(node.value.id, [])
        if node.attr in others and len(others) > 1:
            yield _but(node, attr=others[(others.index(node.attr) + 1) % len(others)])


def lot(change: Change, seed: int) -> float:
    """From 0 to 1, by which changes are drawn: a change keeps it whatever else is written in any file."""
    return random.Random(f"{seed} {change.key}").random()


def runs_at_import(source: str, change: Change) -> bool:
    """Whether the change is of what runs as the module is imported, and so of no function's body."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, _FUNCTIONS))
    return not any(node.body[0].lineno <= change.lines[0] <= (node.end_lineno or 0) for node in functions)


def _is_condition(node: ast.expr, parent: ast.AST | None) -> bool:
    """Whether it decides on a branch or a filter."""
    if isinstance(parent, ast.comprehension):
        return node in parent.ifs
    return isinstance(parent, (ast.If, ast.While)) and node is parent.test


def _constants(node: ast.Constant, parent: ast.AST | None, *, in_text: bool) -> Iterator[ast.AST]:
    """Numbers and truth values, and words that are names of something."""
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield ast.Constant(value + 1)
    elif isinstance(value, float):
        yield ast.Constant(value * 2 if value else 1.0)
    elif isinstance(value, str) and value.isidentifier() and not in_text and not isinstance(parent, ast.Expr):
        yield ast.Constant(f"{value}_x")


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    """Two arguments swapped, and each named one left out."""
    for place, (left, right) in enumerate(zip(node.args, node.args[1:], strict=False)):
        if not isinstance(left, ast.Starred) and not isinstance(right, ast.Starred):
            yield _but(node, args=[*node.args[:place], right, left, *node.args[place + 2 :]])
    for keyword in node.keywords:
        if keyword.arg is not None and keyword.arg not in {"help", "metavar", "encoding", "strict"}:
            yield _but(node, keywords=[other for other in node.keywords if other is not keyword])


def _on_one_line(text: str) -> str:
    return " ".join(line.strip() for line in text.splitlines())


def _fields_in(function: ast.AST) -> dict[str, list[str]]:
    """By the name of a variable: the attributes of it that are read and not called."""
    fields: dict[str, set[str]] = {}
    called = {id(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and id(node) not in called:
            fields.setdefault(node.value.id, set()).add(node.attr)
    return {base: sorted(names) for base, names in fields.items()}


def _is_called(node: ast.AST, parent: ast.AST | None) -> bool:
    return isinstance(parent, ast.Call) and parent.func is node


def _is_docstring(node: ast.AST, parent: ast.AST | None) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(parent, (ast.Module, ast.ClassDef, *_FUNCTIONS))


def _is_protocol(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)


def _but(node: _Node, **fields: object) -> _Node:
    """The same node with other fields."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _with_replaced(whole: ast.JoinedStr, node: ast.AST, new: ast.AST) -> ast.AST:
    """A copy of the text in which ``new`` stands in the place of ``node``."""

    class Replaced(ast.NodeTransformer):
        def visit(self, seen: ast.AST) -> ast.AST:
            return new if seen is node else super().generic_visit(_but(seen))

    return Replaced().visit(whole)
