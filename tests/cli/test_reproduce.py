"""``virtoll reproduce``: an experiment is measured once, resumed where it was cut off, and on one page with others."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import virtoll
from tests.support.experiments import fake
from tests.support.model_runs import StopAfter

from virtoll.campaign.pipeline import measure
from virtoll.campaign.preview import catalogue
from virtoll.experiment.parse import load_experiment
from virtoll.runfolder.store import RunFolder

STUDY = "schlosser2011"
MODELS: dict[str, Any] = {
    "platforms": [fake("model"), fake("model-again", seed=2), fake("slow", cost=3.0, seed=3)],
    "baseline": "model",
    "control": "model-again",
    "blocks": 2,
    "study": STUDY,
}
JOBS = [{"workload": "superpi", "digits": 1000}]
FRAMES = [{"workload": "forward", "frame_size_bytes": 1504}]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Two experiments of models that name the study."""
    return (
        experiments.write(tmp_path, name="jobs", workloads=JOBS, **MODELS),
        experiments.write(tmp_path, name="frames", workloads=FRAMES, **MODELS),
    )


def reproduce(into: Path, *arguments: str | Path) -> Any:
    return virtoll("reproduce", STUDY, "--into", into, *arguments)


def given(files: tuple[Path, Path]) -> list[str | Path]:
    return [word for file in files for word in ("--experiment", file)]


def records(folder: Path) -> bytes:
    return (folder / "trials.jsonl").read_bytes()


def test_each_experiment_is_measured_once_and_one_page_has_them_all(tmp_path: Path, files: tuple[Path, Path]) -> None:
    into = tmp_path / "all"
    first = reproduce(into, *given(files))
    assert first.returncode == 0, first.stderr
    before = [records(into / name) for name in ("jobs", "frames")]
    page = (into / "report" / "index.html").read_text(encoding="utf-8")
    assert 'href="../../jobs/report/index.html"' not in page
    assert 'href="../jobs/report/index.html"' in page
    assert 'href="../frames/report/index.html"' in page
    assert f"report: {into / 'report' / 'index.html'}" in first.stdout
    again = reproduce(into, *given(files))
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("is finished, and not measured again") == 2
    assert [records(into / name) for name in ("jobs", "frames")] == before


def test_what_a_kill_cut_off_is_resumed_and_no_finished_trial_is_lost(tmp_path: Path, files: tuple[Path, Path]) -> None:
    """A kill leaves the state ``running`` and at most half a record at the end."""
    into = tmp_path / "all"
    with pytest.raises(KeyboardInterrupt):
        measure(load_experiment(files[0], catalogue()), into / "jobs", ["virtoll"], StopAfter(3))
    kept = records(into / "jobs")
    assert kept.count(b"\n") == 3
    with (into / "jobs" / "trials.jsonl").open("ab") as file:
        file.write(b'{"trial": 3, "blo')
    finished = reproduce(into, *given(files))
    assert finished.returncode == 0, finished.stderr
    assert records(into / "jobs").startswith(kept)
    assert {RunFolder.open(into / name).state().state for name in ("jobs", "frames")} == {"complete"}


def test_what_cannot_be_resumed_ends_it_and_what_is_finished_stays(tmp_path: Path, files: tuple[Path, Path]) -> None:
    into = tmp_path / "all"
    with pytest.raises(KeyboardInterrupt):
        measure(load_experiment(files[1], catalogue()), into / "frames", ["virtoll"], StopAfter(3))
    manifest = into / "frames" / "manifest.json"
    document = json.loads(manifest.read_text(encoding="utf-8"))
    document["host"]["fingerprint"] = "0" * 64
    manifest.write_text(json.dumps(document), encoding="utf-8")
    refused = reproduce(into, *given(files))
    assert refused.returncode == 2
    assert "1 of 2 experiments are finished; the same command takes the rest" in refused.stderr
    assert "run frames was begun on another host or kernel" in refused.stderr
    assert RunFolder.open(into / "jobs").state().state == "complete"


def test_a_page_is_made_of_runs_that_are_there_and_measures_nothing(tmp_path: Path, files: tuple[Path, Path]) -> None:
    with pytest.raises(KeyboardInterrupt):
        measure(load_experiment(files[0], catalogue()), tmp_path / "runs" / "jobs", ["virtoll"], StopAfter(3))
    before = records(tmp_path / "runs" / "jobs")
    made = virtoll("reproduce", STUDY, "--from", tmp_path / "runs", "--into", tmp_path / "page", "--json")
    assert made.returncode == 0, made.stderr
    document = json.loads(made.stdout)
    assert [(one["run"], one["state"]) for one in document["runs"]] == [("jobs", "interrupted")]
    assert document["missing"] == ["schlosser2011", "schlosser2011-neighbours"]
    assert any("jobs: model, model-again, slow: a model, of which nothing" in text for text in document["cautions"])
    assert any("jobs: it is not complete (interrupted: it was killed)" in text for text in document["cautions"])
    assert (tmp_path / "page" / "report" / "tables" / "claims.csv").is_file()
    assert records(tmp_path / "runs" / "jobs") == before
    assert not (tmp_path / "runs" / "jobs" / "report").exists()


def test_a_copy_of_a_run_is_no_second_run(tmp_path: Path, files: tuple[Path, Path]) -> None:
    assert virtoll("run", files[0], "--into", tmp_path / "jobs").returncode == 0
    shutil.copytree(tmp_path / "jobs", tmp_path / "copy")
    refused = reproduce(tmp_path / "page", "--from", tmp_path / "jobs", "--from", tmp_path / "copy")
    assert refused.returncode == 2
    assert re.search(r"/jobs and \S+/copy are the same run; leave one of them out\n$", refused.stderr)
    assert not (tmp_path / "page").exists()
    assert virtoll("run", files[0], "--into", tmp_path / "later" / "jobs").returncode == 0
    made = reproduce(
        tmp_path / "page", *("--from", tmp_path / "jobs") * 2, "--from", tmp_path / "later" / "jobs", "--json"
    )
    assert made.returncode == 0, made.stderr
    assert len(json.loads(made.stdout)["runs"]) == 2, "a folder given twice is read once, and a name is no run"


def test_what_was_chosen_is_taken_of_each_experiment_that_has_it(tmp_path: Path, files: tuple[Path, Path]) -> None:
    made = reproduce(tmp_path / "all", *given(files), "--workload", "forward", "--platform", "slow")
    assert made.returncode == 0, made.stderr
    assert "jobs is left out: it has nothing of what was chosen" in made.stderr
    assert not (tmp_path / "all" / "jobs").exists()
    assert (tmp_path / "all" / "frames" / "manifest.json").is_file()
    other = reproduce(tmp_path / "all", *given(files), "--workload", "forward")
    assert other.returncode == 2
    assert "holds a run of another file, size or choice; give another folder with --into" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["nobody2020"],
            "study 'nobody2020' is not known; choose one of: schlosser2011, mattos2012, suresh2014, camargos2008",
        ),
        ([STUDY, "--from", "nowhere"], "no run 'nowhere' in "),
        ([STUDY, "--from", "a", "--size", "paper"], "--from measures nothing, so leave out --size"),
        ([STUDY, "--json"], "--json needs --from"),
        (
            [STUDY, "--experiment", "mattos2012"],
            "mattos2012: its key 'study' is mattos2012; give 'study: schlosser2011'",
        ),
        ([STUDY, "--experiment", "quick"], "quick: its key 'study' is not there; give 'study: schlosser2011'"),
        ([STUDY, "--experiment", STUDY, "--experiment", STUDY], "two of the experiments have one name"),
        ([STUDY, "--workload", "bzip2"], "--workload 'bzip2' is in no experiment of schlosser2011; allowed: forward"),
        ([STUDY, "--size", "huge"], "there is no size 'huge'; allowed: quick, paper"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    refused = virtoll("reproduce", *arguments, runs=tmp_path)
    assert refused.returncode == 2
    assert complaint in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
