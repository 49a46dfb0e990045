"""Runs whose records hold numbers that no clock and no counter has: one sentence, and all other runs are as before."""

from __future__ import annotations

import errno
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import VIRTOLL, environment, virtoll
from tests.support.facts import Fact, assert_facts, assert_refused
from tests.support.made_up_folder import write_small_run

from virtoll.runfolder import opened
from virtoll.runfolder.sums import SUMS

NO_TIMES = ("1" + "0" * 25, "253402300800000000000", "9223372036854775808", "-1", "1e400", "NaN", "1.5", "true", '"1"')


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_run(tmp_path_factory.mktemp("whole") / "sound")


@pytest.fixture
def runs(whole: Path, tmp_path: Path) -> Path:
    """A folder of two runs: one is sound, and ``odd`` is changed by a test."""
    for name in ("sound", "odd"):
        shutil.copytree(whole, tmp_path / name)
    (tmp_path / "odd" / SUMS).unlink()
    return tmp_path


def with_time(run: Path, number: str) -> None:
    manifest = run / "manifest.json"
    text = re.sub(r'("created_realtime_ns": )\d+', rf"\g<1>{number}", manifest.read_text(encoding="utf-8"), count=1)
    manifest.write_text(text, encoding="utf-8")


def change(run: Path, file: str, changed: Callable[[dict[str, Any]], None]) -> None:
    """Change each record of a file."""
    records = [json.loads(line) for line in (run / file).read_text(encoding="utf-8").splitlines()]
    for one in records:
        changed(one)
    (run / file).write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")


def assert_one_line(result: subprocess.CompletedProcess[str], *facts: Fact) -> None:
    """It printed one line alone, with these facts."""
    assert_refused(result, *facts)
    assert (result.stdout, result.stderr.count("\n")) == ("", 1)


@pytest.mark.parametrize("number", NO_TIMES)
def test_an_impossible_time_costs_its_run_alone(runs: Path, number: str) -> None:
    with_time(runs / "odd", number)
    rows = {one["run"]: one for one in json.loads(virtoll("list", "runs", "--json", runs=runs).stdout)}
    assert rows["sound"]["state"] == "complete"
    assert rows["odd"]["state"].startswith("damaged")
    assert_facts(rows["odd"]["state"], f"{runs}/odd/manifest.json")
    latest = virtoll("verify", "latest", runs=runs)
    assert (latest.returncode, latest.stdout.startswith(f"{runs}/sound ")) == (0, True)
    assert_one_line(
        virtoll("export", "odd", "--format", "junit", runs=runs),
        f"{runs}/odd/manifest.json",
        *([] if number == "NaN" else ["created_realtime_ns"]),  # which is no JSON
    )


def test_commands_for_several_runs_name_the_one_with_such_a_time(runs: Path) -> None:
    with_time(runs / "odd", NO_TIMES[0])
    assert_one_line(virtoll("compare", "sound", "odd", runs=runs), f"{runs}/odd/manifest.json", "created_realtime_ns")
    history = virtoll("history", "sound", "odd", runs=runs)
    assert history.returncode == 0
    assert_facts(history.stdout, f"{runs}/odd/manifest.json")


@pytest.mark.parametrize(
    "command",
    [
        ["report"],
        ["claims"],
        ["compare", "sound"],
        ["export", "--format", "junit"],
        ["advise", "--need", "superpi duration<3s"],
        ["gate", "--fail-if", "runc:superpi slowdown>1.5x"],
        ["validation"],
        ["query", "select count(*) from samples"],
    ],
    ids=lambda words: words[0],
)
def test_arithmetic_on_impossible_numbers_ends_in_a_refusal(runs: Path, command: Sequence[str]) -> None:
    def late(record: dict[str, Any]) -> None:
        if record["clock"] is not None:
            record["clock"]["marks"]["end_ns"] = 10**400

    change(runs / "odd", "trials.jsonl", late)
    assert_one_line(virtoll(*command, "odd", runs=runs), f"{runs}/odd", "OverflowError")


def test_what_fails_after_the_reading_names_the_runs_that_were_read(runs: Path) -> None:
    """Whichever command it is: no command has to know it."""
    read = "from virtoll.runfolder.store import RunFolder; from virtoll.runfolder.damage import damage_of"
    asked = f"[RunFolder.open(Path(one)) for one in {[str(runs / 'sound'), str(runs / 'odd')]}]"
    script = f"from pathlib import Path; {read}; print(damage_of(ZeroDivisionError())); {asked}; "
    script += "print(damage_of(RuntimeError())); print(damage_of(ZeroDivisionError('division')))"
    result = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, check=True)
    *none, last = result.stdout.decode().splitlines()
    assert none == ["None", "None"]
    assert_facts(last, runs / "sound", runs / "odd", "ZeroDivisionError")


def test_a_point_without_a_length_is_named_by_its_line(runs: Path) -> None:
    def short(record: dict[str, Any]) -> None:
        for point in record["points"] or ():
            point["duration_ns"] = 0

    change(runs / "odd", "trials.jsonl", short)
    assert_one_line(virtoll("report", "odd", runs=runs), runs / "odd" / "trials.jsonl", "line 4", "duration_ns")


def test_a_small_file_takes_little_memory(runs: Path) -> None:
    """By the limit on a process's addresses, below what the largest manifest would take."""
    result = subprocess.run(
        ["prlimit", f"--as={opened.MOST_BYTES}", *VIRTOLL, "list", "runs", "--json"],
        env=environment(VIRTOLL_RUNS=str(runs), MALLOC_ARENA_MAX="1"),
        capture_output=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert {one["state"] for one in json.loads(result.stdout)} == {"complete"}


def test_a_lack_of_memory_is_reported_in_one_line(runs: Path) -> None:
    """A manifest of holes, as large as is allowed, in a process that may have no more than that."""
    with (runs / "odd" / "manifest.json").open("r+b") as file:
        file.truncate(opened.MOST_BYTES)
    result = subprocess.run(
        ["prlimit", f"--as={opened.MOST_BYTES}", *VIRTOLL, "report", runs / "odd"],
        env=environment(MALLOC_ARENA_MAX="1"),
        capture_output=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr.count(b"\n")) == (1, b"", 1)
    assert b"memory" in result.stderr


def test_a_file_that_has_more_than_its_size_says_is_read_whole() -> None:
    """The kernel's own files have the size 0."""
    assert opened.read_whole(Path("/proc/self/status")).endswith(b"\n")
    with pytest.raises(OSError, match=rf"^\[Errno {errno.EFBIG}\]"):
        opened.read_whole(Path("/proc/self/status"), 20)
