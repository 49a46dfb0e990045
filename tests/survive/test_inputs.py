"""Hostile input, in short: a few cases of each part of ``benches/survive/inputs.py``, and what it found.

The cases run in a process of its own, which forks for each command.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from benches.survive.inputs import PARTS, injected, readings
from benches.survive.made_archives import TRICKS, Parts, made, parts_of
from tests.support import experiments
from tests.support.commands import DEADLINE_SECONDS, environment
from tests.support.facts import assert_facts, refused
from tests.support.made_up_folder import write_small_run
from tests.support.repository import ROOT

from virtoll.cli import output
from virtoll.errors import GuestError, RunFolderError, UsageError
from virtoll.experiment.parse import parse_experiment
from virtoll.hosts.undo import Undo
from virtoll.lab import captured
from virtoll.lab.commands import ConnectedHost
from virtoll.lab.debug import LOGGER
from virtoll.pipeline.preview import catalogue
from virtoll.report import build_report
from virtoll.report.csv_table import CsvTable
from virtoll.report.dataset.query import Sources, query
from virtoll.report.methods import Methods
from virtoll.runfolder import jsonlines
from virtoll.runfolder.opened import open_file, read_whole
from virtoll.runfolder.overview import overview
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import SUMS, differences
from virtoll.runfolder.unpacking import unpack
from virtoll.runfolder.yaml_file import read_text, read_yaml

pytestmark = pytest.mark.slow
CASES = 8
KINDS = {"experiment", "folder", "archive", "command line", "file"}
FORMULA_WITH_MARKUP = '=HYPERLINK("<script>alert(1)</script>","y")'
LARGE_BYTES = 10 * 10**9  # a file of holes, which takes no room


@pytest.mark.timeout(DEADLINE_SECONDS)
def test_a_few_cases_of_each_part() -> None:
    chosen = [word for part in PARTS for word in ("--part", part)]
    ended = subprocess.run(
        [sys.executable, "benches/survive", "inputs", *chosen, "--seed", "20", "--count", str(CASES)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = re.findall(r"^\| ([a-z ]+): [^|]+ \| (\d+) ", ended.stdout, re.MULTILINE)
    cases = Counter({kind: 0 for kind, _ in rows})
    for kind, count in rows:
        cases[kind] += int(count)
    assert cases.keys() == KINDS
    assert all(count >= CASES for count in cases.values()), cases


def test_each_thing_that_is_no_file_is_read_and_in_the_long_form_by_all() -> None:
    things = [Path(name) for name in ("empty.yaml", "folder.yaml", "pipe.yaml", "zero.yaml")]
    short = readings(things, CASES)
    assert {file for file, _ in short} == {*things}
    kinds = {kind for _, kind in short}
    assert {kind for file, kind in short if file.name == "zero.yaml"} == kinds
    assert len(readings(things, 1000)) == len(things) * len(kinds)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_run(tmp_path_factory.mktemp("inputs") / "run")


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


@pytest.mark.parametrize("key", ["a[0]", "int", "float", "x["])
@pytest.mark.parametrize("where", ["", "guest."])
def test_a_key_that_reads_as_the_name_of_a_type_is_reported_as_a_key(key: str, where: str) -> None:
    text = experiments.text(**({"guest": {key: 1}} if where else {key: 1}))
    with pytest.raises(UsageError) as raised:
        parse_experiment(text, experiments.FILE, catalogue())
    assert_facts(str(raised.value), f"'{where}{key}'")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("!!bool maybe", "bool"),
        ("!!bool ''", "bool"),
        ("!!int ''", "int"),
        ("!!int '-'", "int"),
        ("!!float '+'", "float"),
        (f"!!float '{':'.join(['1'] * 300)}'", "float"),
    ],
)
def test_a_value_that_does_not_fit_its_tag_is_reported_with_its_line(value: str, kind: str) -> None:
    with pytest.raises(UsageError) as raised:
        read_yaml(f"a: {value}\n", "mine")
    assert_facts(str(raised.value), "mine", "line 1", kind)


NO_FILES: dict[str, Callable[[Path], None]] = {
    "FIFO": os.mkfifo,
    "folder": Path.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path),
}


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("file", ["manifest.json", "state.json", "trials.jsonl"])
def test_what_is_no_file_is_neither_awaited_nor_read(run: Path, kind: str, file: str) -> None:
    (run / file).unlink()
    NO_FILES[kind](run / file)
    with pytest.raises(RunFolderError, match=re.escape(str(run))):
        RunFolder.open(run).read_every_record()
    with pytest.raises(RunFolderError, match=re.escape(str(run))):
        overview(run)
    with refused(run / file, error=UsageError):
        read_text(run / file)


@pytest.mark.parametrize("kind", NO_FILES)
def test_digests_that_are_no_file_are_damage(run: Path, kind: str) -> None:
    (run / SUMS).unlink()
    NO_FILES[kind](run / SUMS)
    (told,) = differences(run) or ()
    assert_facts(told, SUMS)


@pytest.mark.parametrize("file", ["manifest.json", "state.json", SUMS])
def test_a_file_with_holes_is_not_read_into_memory(run: Path, file: str) -> None:
    os.truncate(run / file, LARGE_BYTES)
    with pytest.raises(OSError, match=file) as raised:
        read_whole(run / file)
    assert raised.value.errno == errno.EFBIG
    if file != SUMS:
        with pytest.raises(RunFolderError, match=re.escape(str(run))):
            RunFolder.open(run).state()


def test_a_line_of_gigabytes_is_refused_by_its_number(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "MOST_LINE_BYTES", 1 << 20)
    trials = run / "trials.jsonl"
    lines = trials.read_bytes().count(b"\n")
    os.truncate(trials, LARGE_BYTES)
    with refused("trials.jsonl", f"line {lines + 1}", "1 MiB", error=RunFolderError):
        RunFolder.open(run).trials()
    with refused(trials, "last line", "1 MiB", error=RunFolderError):
        RunFolder.open(run).repair()
    assert trials.stat().st_size == LARGE_BYTES


def test_of_a_long_file_only_the_end_is_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonlines, "MOST_LINE_BYTES", 100)
    file, lines = tmp_path / "x.jsonl", b'{"a":1}\n' * 500
    file.write_bytes(lines + b'{"a":')
    assert jsonlines.repair(file) == 5
    assert file.read_bytes() == lines
    assert jsonlines.repair(file) == 0


@pytest.mark.parametrize("deep", [b"[" * 200_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000])
@pytest.mark.parametrize("file", ["manifest.json", "state.json"])
def test_json_that_is_nested_without_end_is_damage(run: Path, deep: bytes, file: str) -> None:
    (run / file).write_bytes(deep)
    for read in (overview, lambda path: RunFolder.open(path).state()):
        with pytest.raises(RunFolderError, match=file):
            read(run)


def test_a_key_that_is_pythons_own_is_damage(run: Path) -> None:
    trials = run / "trials.jsonl"
    lines = trials.read_bytes().splitlines()
    lines[2] = json.dumps({**json.loads(lines[2]), "__class__": "x"}).encode()
    trials.write_bytes(b"\n".join(lines) + b"\n")
    with refused("trials.jsonl", "line 3", error=RunFolderError):
        RunFolder.open(run).trials()


def test_digests_of_files_elsewhere_are_damage_and_nothing_there_is_read(run: Path) -> None:
    text = (run / SUMS).read_text(encoding="utf-8")
    (run / SUMS).write_text(f"{text}{'0' * 64}  ../../etc/passwd\n{'0' * 64}  /etc/passwd\n", encoding="utf-8")
    last = text.count("\n") + 2
    for said, line in zip(differences(run) or (), (last - 1, last), strict=True):
        assert_facts(said, SUMS, f"line {line}")


def test_a_digest_of_a_name_that_no_path_has_is_damage_and_not_shown_whole(run: Path) -> None:
    text = (run / SUMS).read_text(encoding="utf-8")
    (run / SUMS).write_text(f"{text}{'0' * 64}  {'[' * 100_000}\n{'0' * 64}  {'x' * 300}\n", encoding="utf-8")
    line = text.count("\n") + 1
    damaged, unread = differences(run) or ()
    assert_facts(damaged, SUMS, f"line {line}")
    assert "[" * 100 not in damaged
    assert_facts(unread, "x" * 300, "File name too long")


def test_records_that_make_no_sense_together_are_reported_without_digests(run: Path) -> None:
    """Who forges a run makes its digests anew, or leaves them out."""
    (run / SUMS).unlink()
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["created_realtime_ns"] = 10**25
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(RunFolderError, match=re.escape(str(run))):
        build_report(run, run / "report")


def _relabelled(run: Path, label: str) -> None:
    (run / SUMS).unlink()
    for file in run.glob("*.json*"):
        file.write_bytes(file.read_bytes().replace(b'"runc"', json.dumps(label).encode()))


def test_a_label_that_is_a_text_is_no_label(run: Path) -> None:
    _relabelled(run, "x" * 100_000)
    with refused("manifest.json", "label", error=RunFolderError):
        RunFolder.open(run)


def test_a_label_is_text_in_pages_figures_and_tables(run: Path) -> None:
    _relabelled(run, FORMULA_WITH_MARKUP)
    build_report(run, run / "report")
    assert injected(run) == []


def test_no_cell_of_a_csv_file_is_a_formula() -> None:
    table = CsvTable("x", ("=a", "b"), (("=1+1", -5), ("@x", "-5.5e3"), ("-x", "+5"), ("\tx", None)))
    assert table.text() == "'=a,b\n'=1+1,-5\n'@x,-5.5e3\n'-x,+5\n'\\tx,\n"
    assert table.records()[0] == {"=a": "=1+1", "b": -5}


STEERS = "\x1b[2J\x9b31m\u202ex"
WRITTEN_OUT = "\\x1b[2J\\x9b31m\\u202ex"


def test_what_is_printed_steers_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output.new_console(to_stderr=False).print(STEERS)
    output.new_console(to_stderr=True).print(STEERS)
    output.say(STEERS)
    output.show_table([{"name": STEERS}])
    told = capsys.readouterr()
    assert told.out.count(WRITTEN_OUT) == 3
    assert WRITTEN_OUT in told.err
    assert CsvTable("x", (STEERS,), ((STEERS,),)).text() == f"{WRITTEN_OUT}\n{WRITTEN_OUT}\n"
    assert CsvTable("x", ("a",), ((STEERS,),)).records() == [{"a": STEERS}]
    methods = Methods((), f"{STEERS}\n{STEERS}")
    for text in (methods.latex(), methods.markdown()):
        assert f"{WRITTEN_OUT} {WRITTEN_OUT}" in text
        assert STEERS not in text
    output.write_out(STEERS)
    assert capsys.readouterr().out == STEERS, "a program reads it as it is"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.write_out(STEERS)
    assert capsys.readouterr().out == WRITTEN_OUT


def test_of_a_message_without_end_both_ends_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    output.say_on_stderr(f"state.json: {'x' * 100_000}: its end\nmore")
    first, second = capsys.readouterr().err.splitlines()
    assert (first[:13], first[-9:], second) == ("state.json: x", ": its end", "more")
    assert_facts(first, 96021)
    assert len(first) < 4100
    output.say_on_stderr("x" * 4000)
    assert capsys.readouterr().err == "x" * 4000 + "\n"


def test_the_log_steers_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr("sys.stderr", said)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logging.getLogger(LOGGER), "level", logging.NOTSET)
    output.log_to_stderr()
    logging.getLogger(LOGGER).debug("a host said %s", STEERS)
    assert f"a host said {WRITTEN_OUT}" in said.getvalue()


DIRECT = "(format parquet, use_tmp_file false)"
STATEMENTS = (
    "copy (select 1 as x) to '{file}'",
    "explain copy (select 1 as x) to '{file}'",
    "explain analyze copy (select 1 as x) to '{file}' " + DIRECT,
    "explain (analyze) copy (select 1 as x) to '{file}' " + DIRECT,
    "/* */ explain analyze copy (select 1 as x) to '{file}' " + DIRECT,
    "explain analyze create table x as select 1",
    "select * from read_text('/etc/passwd')",
    "select * from glob('/etc/*')",
)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_query_reads_its_tables_and_changes_nothing(tmp_path: Path, statement: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = tmp_path / "runs.parquet"
    pq.write_table(pa.table({"run": ["a"]}), file)
    before = file.read_bytes()
    sources = Sources({"runs": [str(file)]})
    with pytest.raises(UsageError, match="SQL"):
        list(query(statement.format(file=file), sources).rows())
    assert file.read_bytes() == before
    assert list(query("explain analyze select * from runs", sources).rows())


@pytest.fixture(scope="module")
def parts(whole: Path) -> Parts:
    return parts_of(whole)


UNSAFE = ("deep name", "long name", "long part", "headers of headers", "through a link", "symbolic link", "far above")


@pytest.mark.parametrize("trick", UNSAFE)
def test_an_archive_with_a_trick_is_refused(parts: Parts, tmp_path: Path, trick: str) -> None:
    assert trick in TRICKS
    archive, into = tmp_path / "x.virtoll.tar.zst", tmp_path / "into"
    archive.write_bytes(made(parts, trick, 1))
    into.mkdir()
    with pytest.raises(UsageError, match=re.escape(str(archive))):
        unpack(archive, into)
    assert not any(one.is_symlink() for one in into.rglob("*"))


def test_a_packed_run_that_is_no_file_is_not_awaited(tmp_path: Path) -> None:
    archive = tmp_path / "x.virtoll.tar.zst"
    os.mkfifo(archive)
    with refused(archive, error=UsageError):
        unpack(archive, tmp_path)


def test_a_program_may_say_as_much_as_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "MOST_OUTPUT_BYTES", 1 << 20)
    here = ConnectedHost()
    assert here.output(["head", "-c", "1048576", "/dev/zero"], "test") == bytes(1 << 20)
    with refused("cat /dev/zero", "MiB", error=GuestError):
        here.output(["cat", "/dev/zero"], "test")
    assert here.output(["cat"], "test", stdin=bytes(1 << 20)) == bytes(1 << 20)
    assert here.output(["true"], "test", stdin=bytes(1 << 20)) == b""
    with pytest.raises(GuestError, match="3: x") as raised:
        here.output(["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 3"], "test")
    assert len(str(raised.value)) < 1000


def test_complaints_of_a_host_are_passed_on_and_steer_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    script = "printf '\\033[2Jhello\\n' >&2; head -c 1000000 /dev/zero | tr '\\0' x >&2"
    with subprocess.Popen(["sh", "-c", script], stderr=subprocess.PIPE) as process:
        captured.passed_on("ssh alpha", process).join()
    told = capsys.readouterr().err
    assert told.startswith("ssh alpha: \\x1b[2Jhello\n")
    assert len(told) < 200_000


@pytest.mark.parametrize("said", [b"x" * 60_000, b"no line end", b""])
def test_an_undo_that_says_something_else_is_given_up(said: bytes) -> None:
    reader, theirs = os.pipe()
    os.write(theirs, said)
    os.close(theirs)
    abandoned: list[bool] = []
    undo = Undo("ssh far", os.fdopen(reader, "rb", buffering=0), io.BytesIO(), lambda: abandoned.append(True))
    with refused("ssh far", "agent", error=GuestError):
        undo.guard(["true"])
    assert abandoned == [True]


def test_only_a_regular_file_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    with open_file(tmp_path / "link") as file:
        assert file.read() == b"x"
    for what in ("/dev/null", "/dev/zero"):
        with pytest.raises(OSError, match=what) as raised:
            open_file(Path(what))
        assert raised.value.errno == errno.EINVAL


@pytest.mark.parametrize("number", ["0x" + "f" * 20_000, "0o" + "7" * 5000, "9" * 4000, "-" + "9" * 400])
@pytest.mark.parametrize("key", ["guest", "blocks", "name"])
def test_a_number_that_python_cannot_print_is_reported(tmp_path: Path, number: str, key: str) -> None:
    text = experiments.text(**{key: "HERE"}).replace("HERE", number)
    with pytest.raises(UsageError) as raised:
        parse_experiment(text, tmp_path / "x.yaml", catalogue())
    assert_facts(str(raised.value), "x.yaml", "line", "1024 bits")


MANY = {
    "unknown keys": "".join(f"k{number}: 1\n" for number in range(2000)),
    "keys twice": "k: 1\n" * 2000,
    "numbers that are none": "k: [" + "!!int x, " * 2000 + "]\n",
}


@pytest.mark.parametrize("kind", MANY)
def test_of_very_many_mistakes_some_are_reported(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_experiment(experiments.text() + MANY[kind], tmp_path / "x.yaml", catalogue())
    assert 1 <= len(raised.value.problems) <= 200
