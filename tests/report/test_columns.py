"""The described columns are those of the tables that the code makes, each table of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from tests.support import synthetic_run
from tests.support.repository import ROOT

from virtoll.report.columns import ROWS, TABLES, Described
from virtoll.report.table import SHARED, Table, ValueKind
from virtoll.report.tables import csv_tables
from virtoll.stats.analysis import analyse

CODE = ROOT / "src" / "virtoll" / "report"
COMPUTED = {"outcome_of_"}
"""Parts of names that the code puts together: the outcome of each run."""
COMPUTED = {"lower", "upper", "frames_per_second", "trial_ns", "trials"}
"""Parts of names that the code puts together: both bounds of a search."""

TYPES: dict[ValueKind, tuple[type, ...]] = {
    ValueKind.TEXT: (str,),
    ValueKind.COUNT: (int,),
    ValueKind.NUMBER: (int, float),
    ValueKind.ANSWER: (bool, int),
}


def constants(node: ast.AST) -> set[str]:
    """The text constants of an expression."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) else set()
    return {one for child in ast.iter_child_nodes(node) for one in constants(child)}


def made_in_code() -> Iterator[tuple[str, set[str]]]:
    """Each table's name, and the columns that its header spells out, wherever the code makes one."""
    for path in sorted(CODE.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))]
        named = {
            (id(scope), target.id): constants(node.value)
            for scope in scopes
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for scope in scopes[1:]:
            for call in ast.walk(scope):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "CsvTable":
                    name, header = call.args[:2]
                    names = [one.id for one in ast.walk(header) if isinstance(one, ast.Name)]
                    spelt = constants(header)
                    for one in names:
                        spelt |= named.get((id(scope), one)) or named.get((id(tree), one), set())
                    if isinstance(name, ast.Constant):
                        yield str(name.value), spelt


def test_each_table_of_the_code_is_described() -> None:
    made = list(made_in_code())
    assert {name for name, _ in made} == {name for name, table in TABLES.items() if isinstance(table, Described)}
    for name, spelt in made:
        described = {one.name for one in TABLES[name].columns}
        unsaid = {one for one in spelt - described - COMPUTED if re.fullmatch(r"[a-z_]+", one)}
        assert unsaid == set(), name


@pytest.mark.parametrize("sources", [(1,), (1, 2)])
def test_a_table_has_its_described_columns_in_their_order(sources: tuple[int, ...]) -> None:
    truth = synthetic_run.Truth(
        costs=synthetic_run.REALISTIC,
        rates_mbit_per_second=(10, 100),
        sources=sources,
        summary="median-drop-first",
        threads=(1, 2, 4),
        weighed=True,
        wired=True,
    )
    tables = list(csv_tables(analyse(synthetic_run.run_data(truth))))
    made = {table.name: table.header for table in tables}
    labels = made.pop("equivalence")[2:]
    assert set(labels) >= {"native", "runc"}
    assert len(made) > 10
    for name, header in made.items():
        described = tuple(
            one.name for one in TABLES[name].columns if one.name != "harness_ns" or "harness_ns" in header
        )
        assert header == described, name
    wrong = [
        f"{table.name}: {one.name} is {value!r}, no {one.kind}"
        for table in tables
        for row in table.rows
        for one, value in zip(TABLES[table.name].columns, row, strict=False)
        if table.header[: len(TABLES[table.name].header)] == TABLES[table.name].header
        and value is not None
        and not isinstance(value, TYPES[one.kind])
    ]
    assert wrong == []


def test_no_description_is_left_over() -> None:
    tables = [table for table in (*TABLES.values(), *ROWS.values()) if isinstance(table, Described)]
    for table in tables:
        assert table.own.keys() <= set(table.names), table.row
    used = {name for table in tables for name in table.names if name not in table.own}
    typed = {column.name for table in TABLES.values() if isinstance(table, Table) for column in table.columns}
    assert used <= SHARED.keys() <= used | typed
