"""The columns of a report's tables: their order, and values of the kinds that they declare."""

from __future__ import annotations

import pytest
from tests.support import synthetic_run

from virtoll.report.report_input import ReportInput
from virtoll.report.row_tables import ROWS
from virtoll.report.table import SHARED, ValueKind
from virtoll.report.tables import TABLES, csv_tables
from virtoll.stats.analysis import analyse

TYPES: dict[ValueKind, tuple[type, ...]] = {
    ValueKind.TEXT: (str,),
    ValueKind.COUNT: (int,),
    ValueKind.NUMBER: (int, float),
    ValueKind.ANSWER: (bool, int),
}


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
    tables = list(csv_tables(ReportInput(analyse(synthetic_run.run_data(truth)))))
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


def test_no_shared_column_is_left_over() -> None:
    names = {column.name for table in (*TABLES.values(), *ROWS.values()) for column in table.columns}
    assert SHARED.keys() <= names
