"""``virtoll query``, ``export --parquet`` and the tables of Python: what is read, what is kept, and what is refused."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import typer.testing
from tests.support.commands import environment
from tests.support.facts import assert_facts, refused
from tests.support.made_up_folder import write_run
from tests.support.made_up_run import Made, made_up_run
from tests.support.repository import ROOT

import virtoll
from virtoll.api.dataset import gather
from virtoll.cli import app
from virtoll.errors import UsageError
from virtoll.report.dataset import kept as kept_module
from virtoll.report.dataset.query import Sources, query
from virtoll.report.dataset.tables import TABLES
from virtoll.runfolder.sums import write_sums

NAMES = ("20261126T120000Z-one-1a2b", "20261126T130000Z-two-1a2b")
COUNTED = "select run, count(value) as n from samples group by run order by run"


def write(folder: Path, name: str, value: float = 3e7) -> Path:
    """A run of two platforms and three blocks."""
    made = [Made(one, "superpi", {}, value * factor) for one, factor in (("native", 1), ("runc", 2))]
    data = made_up_run({"native": {}, "runc": {}}, made, blocks=3)
    return write_run(folder / name, replace(data, manifest=data.manifest.replace(run=name)))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs and what is kept of them, which nobody changes."""
    folder = tmp_path_factory.mktemp("measured")
    for name in NAMES:
        write(folder / "runs", name)
    return folder


def asked_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands read the runs of this folder, and keep tables in it."""
    monkeypatch.setenv("VIRTOLL_RUNS", str(folder / "runs"))
    monkeypatch.setenv("VIRTOLL_CACHE", str(folder / "cache"))


@pytest.fixture(autouse=True)
def place(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test asks the runs that nobody changes, in an empty folder."""
    asked_of(measured, monkeypatch)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def runs(measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the two runs in the test's folder, of which nothing is kept yet."""
    shutil.copytree(measured / "runs", tmp_path / "runs")
    asked_of(tmp_path, monkeypatch)
    return tmp_path / "runs"


def virtoll_query(*words: str) -> tuple[str, str]:
    """What the command says, and what on the standard error; its error is raised."""
    done = typer.testing.CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout, done.stderr


def asked(*words: str) -> list[dict[str, Any]]:
    """The rows of an answer."""
    rows: list[dict[str, Any]] = json.loads(virtoll_query("query", *words, "--json")[0])
    return rows


def test_all_runs_of_the_runs_folder_are_asked() -> None:
    assert asked(COUNTED) == [{"run": name, "n": 6} for name in NAMES]
    assert asked("select count(*) as n from points") == [{"n": 0}]
    assert asked("select sum(guests) as n from boots") == [{"n": 12}]
    assert asked("select state, kernel is not null as known from runs") == [{"state": "complete", "known": True}] * 2


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("named", ["latest", NAMES[1], f"runs/{NAMES[1]}"])
def test_a_run_is_asked_alone(named: str) -> None:
    assert asked(COUNTED, named) == [{"run": NAMES[1], "n": 6}]


def test_a_run_that_is_named_twice_or_copied_counts_once(runs: Path) -> None:
    shutil.copytree(runs / NAMES[0], runs.parent / "copies" / "copy")
    out, said = virtoll_query("query", COUNTED, "runs", NAMES[0], "copies", "--json")
    assert json.loads(out) == [{"run": name, "n": 6} for name in NAMES]
    (line,) = said.splitlines()
    assert_facts(line, runs.parent / "copies" / "copy", NAMES[0])


def test_an_answer_as_table_csv_json_and_parquet() -> None:
    sql = "select platform, value, reason, warm_up from samples order by run, trial limit 2"
    rows = asked(sql)
    table, _ = virtoll_query("query", sql)
    assert table.splitlines()[0].split() == ["platform", "value", "reason", "warm", "up"]
    read = list(csv.DictReader(io.StringIO(virtoll_query("query", sql, "--csv")[0])))
    assert read == [{**row, "value": str(row["value"]), "reason": "", "warm_up": "false"} for row in rows]
    virtoll_query("query", sql, "--parquet", "answer.parquet")
    assert parquet.read_table("answer.parquet").to_pylist() == rows
    with refused("--csv", "--json", error=UsageError):
        virtoll_query("query", sql, "--csv", "--json")
    with refused("nowhere/answer.parquet"):
        virtoll_query("query", sql, "--parquet", "nowhere/answer.parquet")


def test_a_table_for_a_person_is_cut_and_says_so() -> None:
    out, said = virtoll_query("query", "from range(1000)")
    assert len(out.splitlines()) == 201
    assert_facts(said, 200, "--csv", "--json", "--parquet FILE")
    assert len(asked("from range(1000)")) == 1000


def test_columns_of_one_name_are_told_apart_and_odd_values_are_json() -> None:
    sql = "select 1 as a, 2 as a, 'nan'::double as b, 1.5::decimal(4, 1) as c, date '2026-11-27' as d, [1, null] as e"
    assert asked(sql) == [{"a": 1, "a_2": 2, "b": None, "c": 1.5, "d": "2026-11-27", "e": [1, None]}]


def test_what_is_kept_is_read_once_and_the_runs_are_not_touched(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def state() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(runs.rglob("*"))}

    before = state()
    first = asked(COUNTED)
    assert state() == before

    def read_again(run: Path) -> Any:
        raise AssertionError(f"{run} is read again")

    monkeypatch.setattr(kept_module, "load", read_again)
    assert asked(COUNTED) == first
    (runs / NAMES[0] / "commands.jsonl").write_text("", encoding="ascii")  # no table is made of it
    assert asked(COUNTED) == first
    write_sums(runs / NAMES[1])
    os.utime(runs / NAMES[1] / "trials.jsonl")
    with pytest.raises(AssertionError, match=f"{NAMES[1]} is read again"):
        asked(COUNTED)


def test_a_run_that_changed_is_read_again(runs: Path) -> None:
    assert asked(COUNTED)[0] == {"run": NAMES[0], "n": 6}
    trials = runs / NAMES[0] / "trials.jsonl"
    trials.write_bytes(b"".join(trials.read_bytes().splitlines(keepends=True)[:-1]))
    write_sums(trials.parent)
    assert asked(COUNTED)[0] == {"run": NAMES[0], "n": 5}
    there = sorted(path.name for path in (runs.parent / "cache" / "dataset").glob(f"{NAMES[0]}-*"))
    assert len(there) == 2, "somebody may still read the old one"


def test_what_is_old_is_removed_when_its_run_is_read_again(runs: Path) -> None:
    home = runs.parent / "cache" / "dataset"
    asked(COUNTED)
    (killed := home / ".new-killed").mkdir()
    (fresh := home / ".new-under-way").mkdir()
    lock = os.open(fresh, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for path in (*home.glob(f"{NAMES[0]}-*"), *home.glob(f"{NAMES[1]}-*")):
        os.utime(path, (0, 0))
    with (runs / NAMES[0] / "trials.jsonl").open("ab") as trials:
        trials.write(b'{"torn')
    write_sums(runs / NAMES[0])
    assert asked(COUNTED)[0] == {"run": NAMES[0], "n": 6}
    assert not killed.exists()
    assert fresh.exists(), "a process holds it"
    os.close(lock)
    assert [len(list(home.glob(f"{name}-*"))) for name in NAMES] == [1, 1]


def test_of_two_that_read_a_run_at_once_one_takes_the_others(runs: Path) -> None:
    kept = kept_module.Kept(runs.parent / "cache" / "dataset")
    place = kept.place_of(runs / NAMES[0])
    kept.make(runs / NAMES[0], place)
    inodes = {path.name: path.stat().st_ino for path in place.iterdir()}
    kept.make(runs / NAMES[0], place)
    assert {path.name: path.stat().st_ino for path in place.iterdir()} == inodes
    assert {path.name for path in kept.home.iterdir()} == {place.name}


def test_tables_are_made_anew_if_a_file_changes_though_another_is_missing(runs: Path) -> None:
    kept, run = kept_module.Kept(runs.parent / "cache" / "dataset"), runs / NAMES[0]
    (run / kept_module.READ[-2]).unlink(missing_ok=True)
    before = kept.place_of(run)
    (run / kept_module.READ[-1]).write_text("{}", encoding="ascii")
    assert kept.place_of(run) != before


def test_a_cache_that_cannot_be_written_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (runs.parent / "file").touch()
    monkeypatch.setenv("VIRTOLL_CACHE", str(runs.parent / "file"))
    with refused(runs.parent / "file" / "dataset", "VIRTOLL_CACHE"):
        asked(COUNTED)


def test_clean_removes_what_is_kept(runs: Path) -> None:
    asked(COUNTED)
    virtoll_query("clean", "--cache")
    assert not (runs.parent / "cache" / "dataset").exists()
    assert asked(COUNTED)


def test_a_damaged_run_is_named_and_the_others_are_asked(runs: Path) -> None:
    trials = runs / NAMES[0] / "trials.jsonl"
    trials.write_bytes(trials.read_bytes().replace(b'"status":"ok"', b'"status":"great"', 1))
    write_sums(trials.parent)
    out, said = virtoll_query("query", COUNTED, "--csv")
    assert out == f"run,n\n{NAMES[1]},6\n"
    (line,) = said.splitlines()
    assert_facts(line, NAMES[0], trials, "line 1", "status")
    with pytest.warns(UserWarning, match=NAMES[0]):
        assert len(virtoll.load_all().table("samples")) == 6
    (runs / NAMES[1] / "manifest.json").write_text("{", encoding="ascii")
    with refused(NAMES[1], error=UsageError):
        asked(COUNTED)


def test_a_run_that_changed_since_it_ended_is_left_out_each_time(runs: Path) -> None:
    """In a table of many runs nobody would see a note. What no table is made of may be missing."""
    trials = runs / NAMES[0] / "trials.jsonl"
    trials.write_bytes(trials.read_bytes().replace(b'"attempt":1', b'"attempt":2', 1))
    (runs / NAMES[1] / "fitness.jsonl").unlink()
    for _ in range(2):
        out, said = virtoll_query("query", COUNTED, "--csv")
        assert out == f"run,n\n{NAMES[1]},6\n"
        assert_facts(said, NAMES[0], trials.parent)
        assert NAMES[1] not in said


def test_where_there_is_no_run_the_place_is_named(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused("'none'", runs, error=UsageError):
        asked(COUNTED, "none")
    monkeypatch.setenv("VIRTOLL_RUNS", "nowhere")
    for ask in (lambda: asked(COUNTED), virtoll.load_all):
        with refused(runs.parent / "nowhere", "export", error=UsageError):
            ask()


@pytest.mark.parametrize(
    ("sql", "facts"),
    [
        ("selec 1", ("Parser Error", '"selec"', "docs/dataset.md")),
        ("select valeu from samples", ("Binder Error", '"valeu"')),
        ("from sample", ("Catalog Error", "sample", '"samples')),
        ("select error('no')", ("Invalid Input Error: no",)),
        *((sql, ("one statement",)) for sql in ("", "select 1; select 2", "copy samples to 'stolen.csv'")),
        *((sql, ("one statement",)) for sql in ("create table mine as from samples", "attach 'other.db'")),
        *((sql, ("one statement",)) for sql in ("set threads = 1", "install httpfs")),
        ("select * from read_text('/etc/hostname')", ("Permission Error", '"/etc/hostname"')),
        ("from '/etc/hostname'", ()),
        ("from glob('/etc/*')", ("Permission Error", '"/etc/*"')),
        ("from SQL_OF_OURS", ("Catalog Error", "SQL_OF_OURS")),
    ],
)
def test_a_statement_reads_the_tables_and_does_nothing_else(
    measured: Path, tmp_path: Path, sql: str, facts: tuple[str, ...]
) -> None:
    SQL_OF_OURS = pa.table({"a": [1]})  # noqa: F841, N806 - what DuckDB takes for a table, where it may
    before = set((measured / "runs").rglob("*"))
    with refused("SQL", *facts, error=UsageError):
        asked(sql, NAMES[0])
    assert set((measured / "runs").rglob("*")) == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "sql",
    [
        "from samples",
        "describe samples",
        "show tables",
        "pivot samples on platform using count(*)",
        "explain from runs",
    ],
)
def test_every_way_to_read_is_taken(sql: str) -> None:
    assert asked(sql, NAMES[0])


@pytest.mark.usefixtures("runs")
def test_an_export_is_asked_as_the_runs_are() -> None:
    expected = asked(COUNTED)
    for name in NAMES:
        out, _ = virtoll_query("export", name, "--parquet", "--output", "dataset")
        assert out.splitlines() == [f"dataset/{table}/{name}.parquet" for table in TABLES]
    assert asked(COUNTED, "dataset") == expected
    assert len(virtoll.load_all("dataset").table("samples", as_="pandas")) == 12
    Path("dataset").rename("first")
    shutil.copytree("first", "second")
    out, said = virtoll_query("query", COUNTED, "first", "second", NAMES[0], "--json")
    assert json.loads(out) == expected
    left_out: list[tuple[str | Path, ...]] = [
        ("first", NAMES[0], Path("runs", NAMES[0]).absolute()),
        ("second", NAMES[0], "first"),
        ("second", NAMES[1], "first"),
    ]
    for line, facts in zip(said.splitlines(), left_out, strict=True):
        assert_facts(line, *facts)


def test_an_export_of_another_version_is_refused() -> None:
    virtoll_query("export", NAMES[0], "--format", "parquet", "--output", "dataset")
    path = Path("dataset") / "samples" / f"{NAMES[0]}.parquet"
    later = parquet.read_table(path).replace_schema_metadata({"virtoll.dataset": "2"})
    parquet.write_table(later, path)
    with refused(path.name, "version 2", 1, "export", error=UsageError):
        asked(COUNTED, "dataset")
    parquet.write_table(later.replace_schema_metadata(None), path)
    with refused(path.name, "tables", error=UsageError):
        asked(COUNTED, "dataset")


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["--parquet"], ("--output FOLDER", "parquet")),
        (["--parquet", "--output", "file"], ("--output file", "folder")),
        (["--parquet", "--format", "junit"], ("--parquet", "--format parquet", "--format junit")),
        (["--parquet", "--fail-if", "runc:superpi slowdown<2x"], ("--fail-if", "parquet")),
        ([], ("--format", "junit")),
        (["--format", "xml"], ("--format xml", "junit")),
    ],
)
def test_an_export_with_unfit_options_is_refused(words: list[str], facts: tuple[str, ...]) -> None:
    Path("file").touch()
    with refused(*facts, error=UsageError):
        virtoll_query("export", "latest", *words)


def test_a_bucket_needs_an_extension_that_is_never_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is installed, as in a home that is empty."""
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with refused("httpfs", "DuckDB", error=UsageError):
        asked(COUNTED, "s3://bucket/dataset")
    assert list((tmp_path / "home").rglob("*.duckdb_extension")) == []


def test_a_path_with_quotes_is_a_path(runs: Path) -> None:
    shutil.copytree(runs / NAMES[0], runs.parent / "it's" / "a 'run'")
    (path := runs.parent / "it's").rename(runs.parent / "o'clock")
    monkey = gather([str(path.with_name("o'clock"))], lambda _: None)
    assert list(query(COUNTED, monkey.sources).rows()) == [(NAMES[0], 6)]
    virtoll_query("export", NAMES[0], "--parquet", "--output", "d'export")
    assert asked(COUNTED, "d'export") == [{"run": NAMES[0], "n": 6}]


def test_tables_of_python_are_those_of_the_query() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, both = virtoll.load(NAMES[0]), virtoll.load(*NAMES)
        assert isinstance(one, virtoll.Run)
        for name in ("samples", "points", "boots", "runs"):
            own = one.table(name)
            together = both.table(name)
            assert together.schema.equals(own.schema, check_metadata=True)
            assert together.slice(0, len(own)).equals(own)
        assert both.query(COUNTED).to_pylist() == asked(COUNTED)
        assert both.query(COUNTED, as_="polars").rows() == [(name, 6) for name in NAMES]
        assert one.table("samples", as_="pandas")["value"].dtype.name == "Float64"
    assert repr(both) == f"virtoll.load_all({NAMES[0]!r}, {NAMES[1]!r})"
    for loaded in (one, both):
        with refused("'trials'", "samples", "points", "boots", "runs", error=UsageError):
            loaded.table("trials")  # type: ignore[call-overload]
    with refused("'none'", error=UsageError):
        virtoll.load(NAMES[0], "none")


@pytest.mark.parametrize(
    ("missing", "ask"),
    [
        ("duckdb", lambda: virtoll.load_all().query(COUNTED)),
        ("pyarrow", lambda: virtoll.load("latest").table("runs")),
        ("pandas", lambda: virtoll.load("latest").table("runs", as_="pandas")),
        ("polars", lambda: virtoll.load("latest").table("runs", as_="polars")),
    ],
)
def test_a_missing_package_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, missing: str, ask: Callable[[], object]
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with refused(missing, "make setup-dev", error=UsageError):
        ask()


def test_settings_and_files_are_locked() -> None:
    """Were another kind of statement to come through, it would still change nothing."""
    answer = query("select 1 as one", Sources({}))
    connection = answer._connection  # what nothing but the query itself reaches
    for sql in ("set enable_external_access = true", "set threads = 1", "copy (select 1) to 'file.csv'", "load httpfs"):
        with pytest.raises(Exception, match=r"locked|disabled"):
            connection.execute(sql)


def test_the_notebook_answers_what_it_shows(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "notebook.py"), "--check"],
        env=environment(VIRTOLL_CACHE=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), "run 'tools/notebook.py'"
    notebook = json.loads((ROOT / "docs" / "notebooks" / "dataset.ipynb").read_text(encoding="utf-8"))
    outputs = [one for cell in notebook["cells"] for one in cell.get("outputs", [])]
    assert any("image/svg+xml" in one.get("data", {}) for one in outputs)
