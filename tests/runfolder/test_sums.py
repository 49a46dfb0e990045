"""A finished run folder tells what was changed in it; one that goes on has nothing to tell."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.commands import in_process
from tests.support.experiments import fake
from tests.support.facts import assert_facts, assert_refused

from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import EXPLANATIONS, SUMS, differences, unchecked, write_sums

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two models that ended."""
    base = tmp_path_factory.mktemp("sums")
    file = experiments.write(base, platforms=[fake("model"), fake("other")], baseline="model", blocks=2)
    assert in_process("run", file, "--into", base / "run").returncode == 0
    return base / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_a_finished_run_is_whole_and_stays_so_when_reported(run: Path) -> None:
    verified = in_process("verify", run)
    assert verified.returncode == 0
    assert_facts(verified.stdout, run)
    assert in_process("report", run).returncode == 0
    assert in_process("verify", run).returncode == 0
    assert json.loads(in_process("verify", run, "--json").stdout) == {"run": str(run), "whole": True, "differences": []}


def test_the_file_is_one_that_sha256sum_checks(run: Path) -> None:
    checked = subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=run, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_any_bit_that_is_flipped_is_noticed(run: Path) -> None:
    """In any file, the digests' own among them: some bits of each, at places drawn with a seed."""
    dice = random.Random(15)
    files = [path for path in run.rglob("*") if path.is_file() and "report" not in path.relative_to(run).parts]
    assert {path.name for path in files} >= {"manifest.json", "trials.jsonl", "state.json", SUMS}
    for path in files:
        whole = path.read_bytes()
        for _ in range(40 if path.name == SUMS else 5):
            place, bit = dice.randrange(len(whole)), 1 << dice.randrange(8)
            path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
            assert differences(run), f"{path.name}, byte {place}, bit {bit}"
        path.write_bytes(whole)
    assert differences(run) == ()


def test_a_change_is_named_by_command_and_page(run: Path) -> None:
    trials = run / "trials.jsonl"
    trials.write_text(trials.read_text(encoding="utf-8").replace('"attempt":1', '"attempt":2', 1), encoding="utf-8")
    (run / "fitness.jsonl").unlink()
    (run / "looks.jsonl").write_text("")
    verified = in_process("verify", run)
    assert verified.returncode == 1
    changes = verified.stdout.splitlines()
    assert [change.partition(": ")[0] for change in changes] == ["fitness.jsonl", "trials.jsonl", "looks.jsonl"]
    assert len({change.partition(": ")[2] for change in changes}) == 3, "gone, changed and new"
    assert_facts(changes[0], "missing")
    assert_facts(changes[1], "changed")
    reported = in_process("report", run)
    assert reported.returncode == 0
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    assert_facts(reported.stdout, changes[0])
    assert_facts(page, *changes[:2])


def test_advice_names_what_was_changed_in_a_folder(run: Path) -> None:
    trials = run / "trials.jsonl"
    trials.write_text(trials.read_text(encoding="utf-8").replace('"attempt":1', '"attempt":2', 1), encoding="utf-8")
    advised = in_process("advise", run, "--need", "superpi duration<1s")
    assert advised.returncode == 0
    assert_facts(advised.stderr, "trials.jsonl", "changed")


@pytest.mark.parametrize("place", ["evidence/trials.jsonl", "explaim/observed.jsonl"])
def test_records_that_were_put_into_a_folder_are_noticed(run: Path, place: str) -> None:
    (run / place).parent.mkdir(exist_ok=True)
    (run / place).write_text("{}\n")
    (change,) = differences(run) or ()
    assert_facts(change, place)


def test_what_has_no_digests_is_named_by_command_and_page(run: Path) -> None:
    (run / EXPLANATIONS).mkdir()
    (run / EXPLANATIONS / "observed.jsonl").write_text("")
    verified = in_process("verify", run)
    assert verified.returncode == 0
    assert_facts(verified.stderr, f"{EXPLANATIONS}/", SUMS)
    write_sums(run / EXPLANATIONS)
    assert unchecked(run) == ()
    (run / SUMS).unlink()
    assert in_process("verify", run).returncode == 2
    assert in_process("report", run).returncode == 0
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    assert_facts(page, SUMS)


def test_a_run_that_goes_on_has_no_digests(run: Path) -> None:
    folder = RunFolder.open(run)
    folder.set_state("running", None)
    assert_refused(in_process("verify", run), run, SUMS)
    folder.set_state("complete", None)
    assert differences(run) == ()


def test_a_folder_that_was_cut_short_is_noticed(run: Path) -> None:
    text = (run / SUMS).read_text(encoding="utf-8")
    (run / SUMS).write_text(text[:-1], encoding="utf-8")
    (change,) = differences(run) or ()
    assert_facts(change, SUMS, "missing")
    write_sums(run)
    assert differences(run) == ()
