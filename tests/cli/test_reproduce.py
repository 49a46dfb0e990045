"""``virtoll reproduce``: an experiment is measured once, resumed where it was cut off, and on one page with others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import in_process
from tests.support.experiments import fake
from tests.support.facts import assert_facts, assert_refused, missing_facts
from tests.support.model_runs import StopAfter

from virtoll.experiment.parse import load_experiment
from virtoll.pipeline.execution import measure
from virtoll.pipeline.preview import catalogue
from virtoll.pipeline.progress import SilentProgress
from virtoll.runfolder.store import RunFolder

pytestmark = pytest.mark.usefixtures("undrawn")
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
    return in_process("reproduce", STUDY, "--into", into, *arguments)


def given(files: tuple[Path, Path]) -> list[str | Path]:
    return [word for file in files for word in ("--experiment", file)]


def measured(file: Path, into: Path, progress: SilentProgress | None = None) -> None:
    """A run of an experiment of models, which needs no lab."""
    measure(load_experiment(file, catalogue()), into, ["virtoll"], progress or SilentProgress())


def records(folder: Path) -> bytes:
    return (folder / "trials.jsonl").read_bytes()


def test_each_is_measured_once_or_resumed_and_one_page_has_them_all(tmp_path: Path, files: tuple[Path, Path]) -> None:
    """A kill leaves the state ``running`` and at most half a record at the end; no finished trial is lost."""
    into = tmp_path / "all"
    with pytest.raises(KeyboardInterrupt):
        measured(files[0], into / "jobs", StopAfter(3))
    kept = records(into / "jobs")
    assert kept.count(b"\n") == 3
    with (into / "jobs" / "trials.jsonl").open("ab") as file:
        file.write(b'{"trial": 3, "blo')
    first = reproduce(into, *given(files))
    assert first.returncode == 0, first.stderr
    before = [records(into / name) for name in ("jobs", "frames")]
    assert before[0].startswith(kept)
    assert {RunFolder.open(into / name).state().state for name in ("jobs", "frames")} == {"complete"}
    page = (into / "report" / "index.html").read_text(encoding="utf-8")
    assert 'href="../../jobs/report/index.html"' not in page
    assert 'href="../jobs/report/index.html"' in page
    assert 'href="../frames/report/index.html"' in page
    assert f"report: {into / 'report' / 'index.html'}" in first.stdout
    again = reproduce(into, *given(files))
    assert again.returncode == 0, again.stderr
    assert_facts(again.stderr, into / "jobs", into / "frames")
    assert [records(into / name) for name in ("jobs", "frames")] == before


def test_what_cannot_be_resumed_ends_it_and_what_is_finished_stays(tmp_path: Path, files: tuple[Path, Path]) -> None:
    into = tmp_path / "all"
    with pytest.raises(KeyboardInterrupt):
        measured(files[1], into / "frames", StopAfter(3))
    manifest = into / "frames" / "manifest.json"
    document = json.loads(manifest.read_text(encoding="utf-8"))
    document["host"]["fingerprint"] = "0" * 64
    manifest.write_text(json.dumps(document), encoding="utf-8")
    assert_refused(reproduce(into, *given(files)), "1 of 2 experiments", "frames", "host")
    assert RunFolder.open(into / "jobs").state().state == "complete"


def test_a_page_is_made_of_runs_that_are_there_and_measures_nothing(tmp_path: Path, files: tuple[Path, Path]) -> None:
    with pytest.raises(KeyboardInterrupt):
        measured(files[0], tmp_path / "runs" / "jobs", StopAfter(3))
    before = records(tmp_path / "runs" / "jobs")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "report").symlink_to(tmp_path / "elsewhere")
    made = in_process("reproduce", STUDY, "--from", tmp_path / "runs", "--into", tmp_path / "page", "--json")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "elsewhere" / "index.html").is_file()
    document = json.loads(made.stdout)
    assert [(one["run"], one["state"]) for one in document["runs"]] == [("jobs", "interrupted")]
    assert document["missing"] == ["schlosser2011", "schlosser2011-neighbours"]
    cautions = [text for text in document["cautions"] if text.startswith("jobs: ")]
    assert any(not missing_facts(text, "model", "model-again", "slow") for text in cautions)
    assert any(not missing_facts(text, "interrupted") for text in cautions)
    assert (tmp_path / "page" / "report" / "tables" / "claims.csv").is_file()
    assert records(tmp_path / "runs" / "jobs") == before
    assert not (tmp_path / "runs" / "jobs" / "report").exists()


def test_a_copy_of_a_run_is_no_second_run(tmp_path: Path, files: tuple[Path, Path]) -> None:
    measured(files[0], tmp_path / "jobs")
    shutil.copytree(tmp_path / "jobs", tmp_path / "copy")
    twice = reproduce(tmp_path / "page", "--from", tmp_path / "jobs", "--from", tmp_path / "copy")
    assert_refused(twice, tmp_path / "jobs", tmp_path / "copy")
    assert not (tmp_path / "page").exists()
    measured(files[0], tmp_path / "later" / "jobs")
    made = reproduce(
        tmp_path / "page", *("--from", tmp_path / "jobs") * 2, "--from", tmp_path / "later" / "jobs", "--json"
    )
    assert made.returncode == 0, made.stderr
    assert len(json.loads(made.stdout)["runs"]) == 2, "a folder given twice is read once, and a name is no run"


def test_what_was_chosen_is_taken_of_each_experiment_that_has_it(tmp_path: Path, files: tuple[Path, Path]) -> None:
    made = reproduce(tmp_path / "all", *given(files), "--workload", "forward", "--platform", "slow")
    assert made.returncode == 0, made.stderr
    assert_facts(made.stderr, "jobs")
    assert not (tmp_path / "all" / "jobs").exists()
    assert (tmp_path / "all" / "frames" / "manifest.json").is_file()
    other = reproduce(tmp_path / "all", *given(files), "--workload", "forward")
    assert_refused(other, tmp_path / "all" / "frames", "--into")


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["nobody2020"], ("'nobody2020'", "schlosser2011", "mattos2012", "suresh2014", "camargos2008")),
        ([STUDY, "--from", "nowhere"], ("'nowhere'",)),
        ([STUDY, "--from", "a", "--size", "paper"], ("--from", "--size")),
        ([STUDY, "--json"], ("--json", "--from")),
        ([STUDY, "--experiment", "mattos2012"], ("mattos2012", "'study'", "study: schlosser2011")),
        ([STUDY, "--experiment", "quick"], ("quick", "'study'", "study: schlosser2011")),
        ([STUDY, "--experiment", STUDY, "--experiment", STUDY], ("name",)),
        ([STUDY, "--workload", "bzip2"], ("--workload", "'bzip2'", "schlosser2011", "forward")),
        ([STUDY, "--size", "huge"], ("'huge'", "quick", "paper")),
    ],
)
def test_bad_input_is_refused_and_nothing_is_made(arguments: list[str], facts: tuple[str, ...], tmp_path: Path) -> None:
    finished = in_process("reproduce", *arguments, runs=tmp_path)
    assert_refused(finished, *facts)
    assert finished.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
