"""The modules of each Rust crate have no cycle: siblings at every level of the module tree use each other one way.

A path `crate::a::b::Item` in `a::c` is an edge from `c` to `b`, below their common ancestor `a`. A module and those
below it are one unit, so that a path to an ancestor or a descendant is no edge. Test modules are not looked at.
"""

from __future__ import annotations

import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tests.support.repository import ROOT

CRATES = ROOT / "crates"

Module = tuple[str, ...]

_NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\(?:[^u]|u\{\w+\})|[^\\'])'""", re.DOTALL
)
_TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{")
_PATH = re.compile(r"\b(crate|super)\s*::\s*")
_REEXPORT = re.compile(r"\bpub(?:\([^)]*\))? use (\w+)::([^;]+);")


def _code(text: str) -> str:
    """A file's text without comments, literals and test modules."""
    code = _NOT_CODE.sub('""', text)
    while (begin := _TESTS.search(code)) is not None:
        depth, at = 1, begin.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(code[at], 0)
            at += 1
        code = code[: begin.start()] + code[at:]
    return code


def _leaves(code: str, at: int) -> tuple[list[Module], int]:
    """The paths of a use tree that begins at `at`, and where it ends."""
    if code[at] == "{":
        leaves: list[Module] = []
        at += 1
        while True:
            at += len(code[at:]) - len(code[at:].lstrip(" \n,"))
            if code[at] == "}":
                return leaves, at + 1
            inner, at = _leaves(code, at)
            leaves += inner
    word = re.compile(r"\w+|\*").match(code, at)
    if word is None:
        return [()], at
    at = word.end()
    if alias := re.compile(r"\s+as\s+\w+").match(code, at):
        at = alias.end()
    colons = re.compile(r"\s*::\s*").match(code, at)
    if colons is None:
        return [(word.group(),)], at
    rest, at = _leaves(code, colons.end())
    return [(word.group(), *leaf) for leaf in rest], at


def _names(path: Path, source: Path) -> Module:
    parts = path.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] in {"lib", "main", "mod"} else parts


def _used(module: Module, code: str) -> set[Module]:
    """The paths that a module names, from the crate's root on."""
    used = set()
    for found in _PATH.finditer(code):
        base = () if found.group(1) == "crate" else module[:-1]
        for leaf in _leaves(code, found.end())[0]:
            path = (*base, *leaf)
            while "super" in path:
                place = path.index("super")
                path = path[: max(place - 1, 0)] + path[place + 1 :]
            used.add(path)
    return used


def edges(source: Path) -> dict[Module, dict[str, set[str]]]:
    """By parent module: which of its children uses which others, for a crate's `src` folder."""
    codes = {_names(path, source): _code(path.read_text(encoding="utf-8")) for path in sorted(source.rglob("*.rs"))}
    reexports = {
        (*module, leaf[-1]): (*module, found.group(1), *leaf)
        for module, code in codes.items()
        for found in _REEXPORT.finditer(code)
        for leaf in _leaves(found.group(2), 0)[0]
        if (*module, found.group(1)) in codes
    }
    uses: dict[Module, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module, code in codes.items():
        for path in _used(module, code):
            target = reexports.get(path, path)
            while target not in codes:
                target = target[:-1]
            shared = next((n for n, (a, b) in enumerate(zip(module, target, strict=False)) if a != b), None)
            if shared is not None:
                uses[module[:shared]][module[shared]].add(target[shared])
    return uses


def cycles(source: Path) -> list[str]:
    """A cycle for each parent module that has one."""
    found = []
    for parent, graph in edges(source).items():
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as cycle:
            found.append("::".join(["crate", *parent]) + ": " + " <- ".join(cycle.args[1]))
    return found


@pytest.mark.parametrize("crate", sorted(path.name for path in CRATES.iterdir() if (path / "src").is_dir()))
def test_modules_of_a_crate_have_no_cycle(crate: str) -> None:
    assert cycles(CRATES / crate / "src") == []


def _write(source: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return source


ONE_WAY = {
    "lib.rs": "pub mod low;\npub mod high;\npub use low::Thing;\n",
    "low.rs": "//! See [`crate::high`].\npub struct Thing; // crate::high\n"
    "#[cfg(test)]\nmod tests {\n    use crate::high::{make};\n}\n",
    "high.rs": "use crate::Thing;\nmod first;\nmod second;\n",
    "high/first.rs": "use super::second::{self, Part};\nuse crate::low;\n",
    "high/second.rs": 'const WORDS: &str = "use super::first;";\nuse super::HIGH;\n',
}


def test_one_way_use_is_no_cycle(tmp_path: Path) -> None:
    source = _write(tmp_path, ONE_WAY)
    assert cycles(source) == []
    assert edges(source) == {(): {"high": {"low"}}, ("high",): {"first": {"second"}}}


@pytest.mark.parametrize(
    ("name", "line", "cycle"),
    [
        ("low.rs", "use crate::high::make;", "crate: "),
        ("low.rs", "use crate::{high::{first::One, second}, other};", "crate: "),
        ("low.rs", "impl Plain for crate::high::Data {}", "crate: "),
        ("low.rs", "use super::high;", "crate: "),
        ("high/second.rs", "use super::first;", "crate::high: "),
        ("high/second.rs", "use super::{HIGH, first::One};", "crate::high: "),
        ("high/second.rs", "use crate::high::first;", "crate::high: "),
    ],
)
def test_a_use_in_the_other_direction_is_a_cycle(tmp_path: Path, name: str, line: str, cycle: str) -> None:
    source = _write(tmp_path, ONE_WAY | {name: f"{ONE_WAY[name]}{line}\n"})
    found = cycles(source)
    assert len(found) == 1
    assert found[0].startswith(cycle)
