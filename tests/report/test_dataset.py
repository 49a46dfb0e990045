"""The tables of a dataset: what the report has of the same run, with types that do not depend on the run."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from tests.support import synthetic_run
from tests.support.facts import refused
from tests.support.made_up_run import Made, made_up_run
from tests.support.repository import RECORDED

from virtoll.errors import RunFolderError, UsageError
from virtoll.report.build import load
from virtoll.report.csv_table import CsvTable
from virtoll.report.dataset.arrow import arrow_tables, as_kind, export, schema_of
from virtoll.report.dataset.rows import rows_of
from virtoll.report.dataset.tables import TABLES
from virtoll.report.report_input import ReportInput
from virtoll.report.table import ValueKind
from virtoll.report.tables import csv_tables
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import RunData, analyse

RUNS = RECORDED / "runs"
TRUTH = synthetic_run.Truth(
    costs=synthetic_run.REALISTIC,
    rounds=2,
    threads=(1, 2),
    weighed=True,
    wired=True,
    failures={("runc", "superpi", 1): "failed", ("netns", "masr", 0): "invalid"},
    unavailable={"qemu-tcg-e1000": "there is no QEMU"},
    caveats={"runc": ("nested xen", "nested: functional only")},
)
TYPES = {ValueKind.TEXT: str, ValueKind.COUNT: int, ValueKind.NUMBER: float, ValueKind.ANSWER: bool}


@pytest.fixture(scope="module")
def data() -> RunData:
    """A run with rounds, figures, failures, a platform that was not there, and one with a caveat."""
    return synthetic_run.run_data(TRUTH)


@pytest.fixture(scope="module")
def csv(data: RunData) -> dict[str, CsvTable]:
    """The report's tables of it."""
    return {table.name: table for table in csv_tables(ReportInput(analyse(data)))}


def beside_and_at_once() -> Iterable[RunData]:
    """Runs of other scenarios: guests beside the measured one, several at once, and one of traffic."""
    heavy = Condition("heavy")
    platforms: dict[str, dict[str, Any]] = {"native": {}, "netns": {}}
    alone = [Made(one, "superpi", {}, 3e7) for one in platforms]
    yield made_up_run(platforms, [*alone, Made("netns", "superpi", {}, 6e7, condition=heavy)], rounds=2)
    points = [ScalePoint(number, 1, 2**28) for number in (1, 3)]
    yield made_up_run(platforms, [Made(one, "superpi", {}, 3e7, scale=at) for one in platforms for at in points])
    yield made_up_run(platforms, [Made(one, "forward", {"sources": 2}, 3e5) for one in platforms])


def recorded(folder: Path) -> Iterable[RunData]:
    """Real runs: of containers, and of idle guests."""
    for packed in sorted(RUNS.glob("*.tar.xz")):
        with tarfile.open(packed) as archive:
            archive.extractall(folder)
        yield load(folder / packed.name.removesuffix(".tar.xz"))


def cells(data: RunData, name: str) -> list[dict[str, Any]]:
    """The rows of a table by their columns' names."""
    columns = TABLES[name].columns
    return [{column.name: column.value(row) for column in columns} for row in rows_of(data)[name]]


def wrong_values(name: str, rows: Iterable[dict[str, Any]]) -> list[str]:
    """What of these rows is not of its column's type, or missing where nothing may be."""
    found = []
    for one in TABLES[name].columns:
        for row in rows:
            value = row[one.name]
            if not (one.nullable if value is None else type(value) is TYPES[one.kind]):
                found.append(f"{name}.{one.name}: {value!r}")
    return found


def test_every_value_has_the_type_of_its_column(data: RunData, tmp_path: Path) -> None:
    seen: set[str] = set()
    for one in (data, *beside_and_at_once(), *recorded(tmp_path)):
        for name in TABLES:
            rows = cells(one, name)
            assert wrong_values(name, rows) == []
            seen |= {name} if rows else set()
    assert seen == set(TABLES)


def test_a_wrong_value_is_found(data: RunData) -> None:
    row = cells(data, "samples")[0]
    assert wrong_values("samples", [row | {"run": None}]) == ["samples.run: None"]
    assert wrong_values("samples", [row | {"trial": 1.0}]) == ["samples.trial: 1.0"]


def test_samples_are_the_cells_of_the_report(data: RunData, csv: dict[str, CsvTable]) -> None:
    """Each trial and metric, with a value or not, and with the same one."""
    names = ("trial", "block", "platform", "workload", "parameters", "metric", "unit", "status", "value", "caveat")
    expected = {tuple(row[name] for name in names) for row in csv["cells"].records()}
    rows = cells(data, "samples")
    samples = [tuple(row[name] for name in names) for row in rows]
    assert set(samples) == expected
    assert len(samples) == len(expected) > 500
    assert {row["status"] for row in rows} == {"ok", "failed", "invalid", "skipped"}
    for row in rows:
        assert (row["value"] is None) == (row["reason"] is not None), row


def test_points_are_those_of_the_report(data: RunData, csv: dict[str, CsvTable]) -> None:
    names = [one for one in csv["points"].header if one != "intended_rate_frames_per_second"]
    expected = [tuple(row[name] for name in names) for row in csv["points"].records()]
    points = cells(data, "points")
    made = [tuple(row[name] for name in names) for row in points if row["status"] == "ok"]
    assert sorted(made, key=repr) == sorted(((*one[:5], bool(one[5]), *one[6:]) for one in expected), key=repr)
    for row in points:
        assert row["offered_frames"] + row["unsent_frames"] == row["intended_frames"]
        assert row["flat_out"] == (row["intended_rate_frames_per_second"] is None)
    assert any(row["delay_p50_ns"] is not None for row in points)


def test_boots_are_the_starts_of_the_report(data: RunData, csv: dict[str, CsvTable]) -> None:
    header = csv["guests"].header
    assert "idle_bytes" in header
    expected = [tuple(row[name] for name in header) for row in csv["guests"].records()]
    assert [tuple(row[name] for name in header) for row in cells(data, "boots")] == expected


def test_a_run_is_one_row(data: RunData) -> None:
    (row,) = cells(data, "runs")
    ended = {status: sum(one.status == status for one in data.trials) for status in ("ok", "failed", "skipped")}
    assert (row["run"], row["state"], row["baseline"]) == (data.manifest.run, "complete", "native")
    assert row["planned_trials"] == row["ended_trials"] == len(data.trials)
    assert row["ok_trials"] == ended["ok"] < len(data.trials)


def test_a_warm_up_is_there_and_marked(data: RunData) -> None:
    first, *others = data.trials
    warmed = replace(data, trials=tuple(others), warm_ups=(first.replace(warm_up=True),))
    marked = [row["trial"] for row in cells(warmed, "samples") if row["warm_up"]]
    assert set(marked) == {first.trial}
    assert len(rows_of(warmed)["samples"]) == len(rows_of(data)["samples"])


def test_guests_beside_and_guests_at_once_are_told_apart() -> None:
    beside, at_once, traffic = beside_and_at_once()
    assert {row["condition"] for row in cells(beside, "samples")} == {None, "heavy load, same CPUs"}
    samples = cells(at_once, "samples")
    of_three = [row for row in samples if row["guests"] == 3]
    assert len(of_three) == 3 * len({row["trial"] for row in of_three})
    assert {(row["guests"], row["guest"]) for row in samples} == {(1, 1), (3, 1), (3, 2), (3, 3)}
    assert len({row["boot"] for row in of_three if row["platform"] == "netns" and row["block"] == 1}) == 3
    assert all(row["value"] == pytest.approx(3e7, rel=0.2) for row in samples)
    points = cells(traffic, "points")
    assert {row["sources"] for row in points} == {2}
    assert {row["delay_p50_ns"] for row in points} == {None}, "quantiles of two sources cannot be put together"


def test_a_number_that_fits_into_no_column_is_told(data: RunData) -> None:
    first, *others = data.trials
    damaged = replace(data, trials=(first.replace(started_realtime_ns=2**70), *others))
    with refused("started_realtime_ns", "samples", "int64", error=RunFolderError):
        arrow_tables(damaged)


def test_a_parquet_file_says_what_it_holds(data: RunData, tmp_path: Path) -> None:
    written = export(data, tmp_path)
    assert [path.relative_to(tmp_path) for path in written] == [
        Path(name) / f"{data.manifest.run}.parquet" for name in TABLES
    ]
    for name, path in zip(TABLES, written, strict=True):
        file = parquet.ParquetFile(path)
        assert file.schema_arrow.equals(schema_of(name), check_metadata=True)
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"
        assert file.schema_arrow.metadata[b"virtoll.dataset"] == b"1"
        assert file.read().equals(arrow_tables(data)[name])
    assert sorted(one.name for one in tmp_path.rglob("*.parquet")) == [f"{data.manifest.run}.parquet"] * 4


def test_a_unit_is_in_the_name_or_beside_it() -> None:
    ends = {"ns": "_ns", "bytes": "_bytes", "frames": "_frames", "frames/s": "_frames_per_second", "share": "_share"}
    for name in TABLES:
        for one in TABLES[name].columns:
            unit = schema_of(name).field(one.name).metadata[b"unit"].decode()
            assert unit in {"", "`unit`"} or one.name.endswith(ends[unit]), one
            assert unit == one.unit or one.kind is ValueKind.ANSWER
            assert one.meaning


def test_a_run_without_anything_has_every_table(data: RunData) -> None:
    empty = replace(data, trials=(), boots=(), footprints=())
    tables = arrow_tables(empty)
    assert {name: len(table) for name, table in tables.items()} == {"samples": 0, "points": 0, "boots": 0, "runs": 1}
    for name, table in tables.items():
        assert table.schema.equals(schema_of(name))


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_what_is_missing_is_missing_in_every_kind_of_table(data: RunData, kind: Any) -> None:
    table = arrow_tables(data)["samples"]
    made = as_kind(table, kind)
    missing = table["value"].null_count
    assert 0 < missing < len(table)
    if kind == "pandas":
        assert int(made["value"].isna().sum()) == missing
        assert {str(one) for one in made.dtypes} == {"string", "Int64", "Float64", "boolean"}
        assert as_kind(pa.table({"n": [1, None]}), kind)["n"].sum() == 1
    elif kind == "polars":
        assert made["value"].null_count() == missing
        assert str(made.schema["block"]) == "Int64"
    else:
        assert made is table


def test_another_kind_of_table_is_refused(data: RunData) -> None:
    with refused("as_='excel'", "arrow", "pandas", "polars", error=UsageError):
        as_kind(arrow_tables(data)["runs"], "excel")  # type: ignore[arg-type]
