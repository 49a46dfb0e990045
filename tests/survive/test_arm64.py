"""The short form of the part *arm64*, which needs an emulator: what is told of tests and steps; what is left out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from benches.survive import arm64, arm64_inside
from benches.survive.arm64_root import READ_BY_TESTS, Step
from tests.support.facts import assert_facts, assert_refused
from tests.support.repository import ROOT

from virtoll.experiment.parse import parse_experiment
from virtoll.pipeline.preview import catalogue

SAID = """\
running 3 tests
test one ... ok
test two::three ... FAILED
test four ... ignored

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s
"""


def test_a_failed_test_is_reported_by_name() -> None:
    row = arm64._tests_row("tests of `x`", "somewhere", SAID, 2.4)
    assert_facts(str(row), "tests of `x`", "somewhere", "1 passed", "1 failed", "1 ignored", "2 s")
    assert row.wrong == ["failed: two::three"]


def test_a_program_without_a_result_is_reported() -> None:
    assert len(arm64._tests_row("tests of `x`", "somewhere", "Segmentation fault", 1.0).wrong) == 1


def test_what_user_emulation_cannot_do_is_a_test_program_of_ours() -> None:
    there = {path.stem for path in ROOT.glob("crates/*/tests/*.rs")}
    assert set(arm64.NOT_UNDER_USER_EMULATION) <= there
    for name in {path.stem for path in ROOT.glob("crates/agent/tests/*.rs")} - {"fuzz_checks"}:
        assert name in arm64.NOT_UNDER_USER_EMULATION, f"{name} starts the agent, which takes arm64's kernel"


def test_the_machine_has_the_files_that_test_programs_read() -> None:
    sources = [path.read_text(encoding="utf-8") for path in ROOT.glob("crates/*/tests/**/*.rs")]
    folders = re.findall(r'join\("\.\./\.\./([\w/]+)"\)', "".join(sources))
    assert {"tests/recorded/protocol", "fuzz/seeds"} <= set(folders)
    for folder in folders:
        assert any(Path(folder).is_relative_to(read) for read in READ_BY_TESTS), folder


def test_what_an_emulator_may_be_too_slow_for_is_a_test_of_ours() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("crates/**/*.rs"))
    for name in (*arm64.MAY_FAIL_IN_THE_MACHINE, *arm64.UNITS_NOT_UNDER_USER_EMULATION):
        assert f"fn {name.rpartition('::')[2]}(" in sources


def test_only_what_is_named_may_fail_in_the_machine(tmp_path: Path) -> None:
    step = Step("test-packet_path-0123", ("x",), 1)
    slow = next(iter(arm64.MAY_FAIL_IN_THE_MACHINE))
    for name, wrong in ((slow, []), ("another", ["failed: another"])):
        (tmp_path / f"{step.name}.txt").write_text(SAID.replace("two::three", name), encoding="utf-8")
        row = arm64._step_row(step, {"name": step.name, "code": 101, "seconds": 3.0}, tmp_path, "there")
        assert row.wrong == wrong
        assert (slow in row.result) == (name == slow)


def test_the_machines_steps_are_run_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the program that is the machine's, on files of this test's own."""
    monkeypatch.setattr(arm64_inside, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(arm64_inside, "STEPS", tmp_path / "steps.json")
    monkeypatch.setattr(arm64_inside, "LEFT", tmp_path / "left.tar")
    steps = [
        {"name": "good", "argv": ["echo", "hello"], "seconds": 60, "folder": str(tmp_path)},
        {"name": "bad", "argv": ["sh", "-c", "echo why; exit 1"], "seconds": 60, "folder": str(tmp_path)},
        {"name": "missing", "argv": ["/no/such/program"], "seconds": 60, "folder": str(tmp_path)},
        {"name": "endless", "argv": ["sleep", "inf"], "seconds": 0, "folder": str(tmp_path)},
    ]
    (tmp_path / "steps.json").write_text(json.dumps(steps), encoding="utf-8")
    console = tmp_path / "console.txt"
    with console.open("w", encoding="utf-8") as said:
        monkeypatch.setattr(sys, "stdout", said)
        arm64_inside.main()
    ended = {one["name"]: one["code"] for one in arm64._told(console) if "code" in one}
    assert ended == {"good": 0, "bad": 1, "missing": 127, "endless": None}
    lines = console.read_text(encoding="utf-8").splitlines()
    assert "why" in lines, "the words of a failed step stay where a machine that was ended leaves nothing else"
    assert "hello" not in lines
    with tarfile.open(tmp_path / "left.tar") as archive:
        assert archive.extractfile("results/good.txt").read() == b"hello\n"  # type: ignore[union-attr]


def test_the_last_words_of_a_failed_step_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = Step("test-stdio-0123", ("x",), 1)
    (tmp_path / f"{step.name}.txt").write_text(f"{SAID}thread panicked: why\n", encoding="utf-8")
    arm64._step_row(step, {"name": step.name, "code": 101, "seconds": 3.0}, tmp_path, "there")
    assert "thread panicked: why" in capsys.readouterr().err


def test_a_step_that_must_work_and_did_not_is_wrong(tmp_path: Path) -> None:
    step = Step("run", ("true",), 1)
    assert arm64._step_row(step, {"name": "run", "code": 0, "seconds": 3.0}, tmp_path, "there").wrong == []
    assert arm64._step_row(step, {"name": "run", "code": 1, "seconds": 3.0}, tmp_path, "there").wrong
    assert len(arm64._step_row(step, None, tmp_path, "there").wrong) == 1


def test_an_unknown_part_is_refused() -> None:
    command = [sys.executable, str(ROOT / "benches/survive"), "arm64", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert_refused(done, "'nothing'", *arm64.PARTS)


def built(*names: str) -> arm64.Built:
    return arm64.Built(Path("agent"), tuple(Path(f"{name}-0123abcd") for name in names), Path("agent"))


def test_steps_are_named_as_a_test_program_is() -> None:
    steps = list(arm64._steps(built("packet_path", "virtoll_wire"), ["frames"]))
    assert [arm64.step_name(one) for one in steps][-4:] == ["run", "verify", "packet_path", "virtoll_wire"]
    assert steps[-1].argv[-1] == "frames"


def test_a_test_program_runs_in_the_folder_of_its_crate() -> None:
    """That of one source, and that of a folder of sources."""
    folders = {arm64.step_name(one): Path(one.folder).name for one in arm64._steps(built("packet_path", "pure"))}
    assert (folders["packet_path"], folders["pure"]) == ("agent", "wire")


def test_a_step_that_does_not_exist_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="'nothing'"):
        arm64.machine(built(), tmp_path, "max", arm64.Asked(steps=["nothing"]))
    assert list(tmp_path.iterdir()) == []


def test_the_experiment_of_the_machine_is_right_with_two_platforms() -> None:
    asked = arm64.Asked(platforms=["native", "netns"])
    parsed = parse_experiment(asked.experiment(), Path("arm64.yaml"), catalogue())
    assert [one.label for one in parsed.platforms] == ["native", "netns"]
