"""A run folder that is damaged: one line names the file, and the line in it where there is one; nothing is written.

Commands run here as a person's do, by `virtoll.cli.main`, and as a process in `tests/runfolder/test_sums.py`.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.commands import in_process
from tests.support.facts import Fact, assert_facts, assert_refused
from tests.support.made_up_folder import LABELS, write_run, write_small_run
from tests.support.made_up_run import Made, made_up_run

from virtoll.runfolder.scale import ScalePoint
from virtoll.runfolder.sums import SUMS

RECORDS = ("boots.jsonl", "calibration.jsonl", "fitness.jsonl", "trials.jsonl")
FILES = ("manifest.json", "state.json", *RECORDS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_run(tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def contents(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def refused(told: CompletedProcess[str], *named: Fact) -> None:
    """In one line, which names all of these."""
    assert_refused(told, *named)
    assert told.stdout == ""
    assert told.stderr.startswith("virtoll: ")
    assert told.stderr.count("\n") == 1


def _without(key: str) -> Callable[[bytes], bytes]:
    def change(line: bytes) -> bytes:
        record = json.loads(line)
        del record[key]
        return json.dumps(record).encode()

    return change


def _with(key: str, value: object) -> Callable[[bytes], bytes]:
    return lambda line: json.dumps({**json.loads(line), key: value}).encode()


BAD_LINES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda line: line[: len(line) // 2],
    "empty": lambda line: line[:0],
    "no UTF-8": lambda line: line.replace(b'"', b'"\xff', 1),
    "no JSON": lambda line: line.replace(b":", b";", 1),
    "a list": lambda line: b"[" + line + b"]",
    "zeroes": lambda line: b"\0" * len(line),
}
MISSING = {"trials": "block", "boots": "platform", "fitness": "monotonic_ns", "calibration": "when"}
WRONG = {
    "trials": ("repeats", 0),
    "boots": ("facts", {"cpu_flags": "fpu"}),
    "fitness": ("monotonic_ns", "7"),
    "calibration": ("when", 3),
}


@pytest.mark.parametrize("file", RECORDS)
@pytest.mark.parametrize("kind", [*BAD_LINES, "missing key", "wrong type"])
def test_a_damaged_line_is_named_by_its_number(run: Path, file: str, kind: str) -> None:
    stem = file.partition(".")[0]
    key, value = WRONG[stem]
    changes = {**BAD_LINES, "missing key": _without(MISSING[stem]), "wrong type": _with(key, value)}
    lines = (run / file).read_bytes().splitlines()
    lines[1] = changes[kind](lines[1])
    (run / file).write_bytes(b"\n".join([*lines, lines[0]]) + b"\n")
    before = contents(run)
    named = [MISSING[stem]] if kind == "missing key" else [key] if kind == "wrong type" else []
    refused(in_process("claims", run), f"{run}/{file}, line 2", *named)
    assert contents(run) == before


@pytest.mark.parametrize("file", ["manifest.json", "state.json"])
@pytest.mark.parametrize("kind", [*BAD_LINES, "missing key", "wrong type"])
def test_a_damaged_file_is_named(run: Path, file: str, kind: str) -> None:
    key = {"manifest.json": "platforms", "state.json": "state"}[file]
    changes = {**BAD_LINES, "missing key": _without(key), "wrong type": _with(key, 3)}
    (run / file).write_bytes(changes[kind]((run / file).read_bytes()))
    before = contents(run)
    refused(in_process("report", run), f"{run}/{file}", *([key] if kind in ("missing key", "wrong type") else []))
    assert contents(run) == before


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", ["folder", "link to itself"])
def test_what_cannot_be_read_in_the_place_of_a_file_is_named(run: Path, file: str, kind: str) -> None:
    """The link, because root reads what its permission forbids."""
    (run / file).unlink()
    if kind == "link to itself":
        (run / file).symlink_to(file)
    else:
        (run / file).mkdir()
    refused(in_process("claims", run), str(run), file)
    if kind == "folder" and file != "manifest.json":
        told = in_process("verify", run)
        assert (told.returncode, told.stdout.partition(":")[0], told.stdout.count("\n")) == (1, file, 1)


def test_digests_that_cannot_be_read_are_damage(run: Path) -> None:
    (run / SUMS).unlink()
    (run / SUMS).mkdir()
    told = in_process("verify", run)
    assert told.returncode == 1
    assert_facts(told.stdout, SUMS, "Is a directory")


@pytest.mark.parametrize("file", RECORDS)
def test_a_file_that_is_gone_is_told(run: Path, file: str) -> None:
    (run / file).unlink()
    assert in_process("verify", run).stdout.startswith(f"{file}: ")
    told = in_process("claims", run)
    assert told.returncode == 0
    assert told.stderr.count("\n") == 1
    assert_facts(told.stderr, file)


def test_a_line_that_is_there_twice_is_told(run: Path) -> None:
    """The latest record of a trial counts, as after a resume: only the digests tell."""
    trials = (run / "trials.jsonl").read_bytes()
    (run / "trials.jsonl").write_bytes(trials + trials.splitlines(keepends=True)[0])
    assert in_process("verify", run).stdout.startswith("trials.jsonl: ")
    assert_facts(in_process("claims", run).stderr, "trials.jsonl")


def _records(run: Path, file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / file).read_text(encoding="utf-8").splitlines()]


def _write(run: Path, file: str, records: list[dict[str, Any]]) -> None:
    (run / file).write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")


@pytest.mark.parametrize("change", [{"trial": 99}, {"platform": "runc"}, {"workload": "masr"}, {"block": 7}])
def test_a_trial_of_another_run_is_refused(run: Path, change: dict[str, object]) -> None:
    """Records of two hosts put together: the plan of the one does not have the trials of the other."""
    trials = _records(run, "trials.jsonl")
    place = next(number for number, one in enumerate(trials) if one["platform"] == "native")
    trials[place] |= change
    _write(run, "trials.jsonl", trials)
    refused(
        in_process("report", run),
        f"trials.jsonl, line {place + 1}",
        trials[place]["trial"],
        "manifest.json",
    )


def test_a_start_of_a_platform_that_the_run_has_not_is_refused(run: Path) -> None:
    boots = _records(run, "boots.jsonl")
    boots[2]["platform"] = "xen"
    _write(run, "boots.jsonl", boots)
    refused(in_process("claims", run), "boots.jsonl, line 3", "platform", "'xen'", "manifest.json")


@pytest.mark.parametrize("key", ["baseline", "control"])
def test_a_manifest_that_contradicts_itself_is_refused(run: Path, key: str) -> None:
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    (run / "manifest.json").write_text(json.dumps({**manifest, key: "xen"}), encoding="utf-8")
    refused(in_process("report", run), f"{run}/manifest.json", f"{key}:", "'xen'")


def test_records_that_no_longer_agree_are_damage_by_the_digests(run: Path) -> None:
    """Each line is one that a run may have, and together they make no sense."""
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["image"]["tools"] = {"wanted": [["fio"]], "packages": {}}
    del manifest["metrics"][0]
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    told = in_process("claims", run)
    assert told.returncode in (0, 2)
    assert "manifest.json" in told.stderr


Mutation = Callable[[bytes, float], bytes]


def _flipped(data: bytes, place: float) -> bytes:
    bit = int(place * 8 * len(data))
    return data[: bit // 8] + bytes([data[bit // 8] ^ (1 << bit % 8)]) + data[bit // 8 + 1 :]


def _cut(data: bytes, place: float) -> bytes:
    return data[: int(place * len(data))]


def _without_a_line(data: bytes, place: float) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[int(place * len(lines))]
    return b"".join(lines)


@given(
    file=st.sampled_from(FILES),
    change=st.sampled_from([_flipped, _cut, _without_a_line]),
    place=st.floats(min_value=0, max_value=1, exclude_max=True),
)
@settings(max_examples=50, derandomize=True, database=None)
def test_whatever_is_flipped_or_cut_is_noticed_and_named(
    whole: Path, file: str, change: Mutation, place: float
) -> None:
    data = (whole / file).read_bytes()
    damaged = change(data, place)
    (whole / file).write_bytes(damaged)
    try:
        before = contents(whole)
        verified = in_process("verify", whole)
        if damaged != data:
            assert verified.returncode in (1, 2), "2: not even a manifest, or a state that is none"
            assert file in verified.stdout + verified.stderr
        told = in_process("claims", whole)
        if told.returncode == 0:
            assert damaged == data or file in told.stderr
        else:
            refused(told, file)
            in_a_line = file.endswith(".jsonl") and f"{whole}/" in told.stderr  # else digests tell, of the folder
            assert not in_a_line or re.search(rf"{file}, line \d+", told.stderr), told.stderr
        assert contents(whole) == before
    finally:
        (whole / file).write_bytes(data)


def _places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from _places(one, (*path, key))


def _set(value: object, path: tuple[str | int, ...], new: object) -> object:
    """A JSON value with another one at a place."""
    if not path:
        return new
    if isinstance(value, dict):
        return {key: _set(one, path[1:], new) if key == path[0] else one for key, one in value.items()}
    assert isinstance(value, list)
    return [_set(one, path[1:], new) if place == path[0] else one for place, one in enumerate(value)]


def test_a_value_of_another_kind_is_never_a_traceback(whole: Path) -> None:
    """At places drawn with a seed: valid JSON that no Virtoll wrote."""
    dice = random.Random(15)
    for number in range(60):
        file = FILES[number % len(FILES)]
        data = (whole / file).read_bytes()
        lines = data.splitlines() if file in RECORDS else [data]
        line = dice.randrange(len(lines))
        record = json.loads(lines[line])
        place = dice.choice(list(_places(record)))
        lines[line] = json.dumps(
            _set(record, place, dice.choice([None, "x", 0, -5, 1.5, [], {}, True, 10**30]))
        ).encode()
        (whole / file).write_bytes(b"\n".join(lines) + b"\n")
        try:
            told = in_process("claims", whole)
            assert told.returncode in (0, 2)
            assert file in told.stderr or json.loads(lines[line]) == record
            assert told.stderr.count("\n") <= 1
        finally:
            (whole / file).write_bytes(data)


def test_a_run_of_guests_at_once_is_checked_too(tmp_path: Path) -> None:
    points = [ScalePoint(count, 1, 128 << 20) for count in (1, 2)]
    made = [Made(label, "superpi", value=1e8, scale=point) for label in LABELS for point in points]
    run = write_run(tmp_path / "run", made_up_run({label: {} for label in LABELS}, made, blocks=2))
    groups = _records(run, "groups.jsonl")
    groups[1]["platform"] = "xen"
    _write(run, "groups.jsonl", groups)
    refused(in_process("report", run), "groups.jsonl, line 2", "platform", "'xen'")
