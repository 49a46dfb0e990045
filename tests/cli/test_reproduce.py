"""``virtoll reproduce``: an experiment is measured once, resumed where it was cut off, and on one page with others."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.support import experiments
from tests.support.commands import in_process
from tests.support.experiments import fake
from tests.support.facts import assert_facts, assert_refused, missing_facts, refused
from tests.support.model_runs import StopAfter

from virtoll.cli import reproduce_plan
from virtoll.cli.reproduce_plan import Ahead, plan_document, plan_lines
from virtoll.experiment.parse import load_experiment
from virtoll.pipeline.execution import extend, measure
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


def blocks_in(folder: Path) -> int:
    return max(trial.block for trial in RunFolder.open(folder).trials()) + 1


def experiments_of(plan: Any) -> list[dict[str, Any]]:
    assert plan.returncode == 0, plan.stderr
    listed: list[dict[str, Any]] = json.loads(plan.stdout)["experiments"]
    return listed


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


def test_more_blocks_are_added_later_and_what_was_cut_off_goes_on(tmp_path: Path, files: tuple[Path, Path]) -> None:
    into = tmp_path / "all"
    with pytest.raises(KeyboardInterrupt):
        measured(files[0], into / "jobs", StopAfter(3))
    kept = records(into / "jobs")
    more = reproduce(into, *given(files), "--blocks", "3")
    assert more.returncode == 0, more.stderr
    assert_facts(more.stderr, "jobs is resumed: 3", "2 blocks", "to 3")
    assert records(into / "jobs").startswith(kept)
    assert {blocks_in(into / name) for name in ("jobs", "frames")} == {3}
    before = [records(into / name) for name in ("jobs", "frames")]
    for later in ([], ["--blocks", "3"], ["--blocks", "2"]):
        again = reproduce(into, *given(files), *later)
        assert again.returncode == 0, again.stderr
        assert [records(into / name) for name in ("jobs", "frames")] == before


def test_an_extension_that_was_cut_off_goes_on(tmp_path: Path, files: tuple[Path, Path]) -> None:
    into = tmp_path / "all"
    measured(files[0], into / "jobs")
    with pytest.raises(KeyboardInterrupt):
        extend(into / "jobs", 4, ["virtoll"], StopAfter(2))
    RunFolder.open(into / "jobs").set_state("interrupted", "ended by the user")
    fewer = reproduce(into, *given(files), "--blocks", "3")
    assert_refused(fewer, into / "jobs", "4 blocks", "--blocks 4")
    planned = json.loads(reproduce(into, *given(files), "--plan", "--json").stdout)
    assert [(one["experiment"], one["state"], one["blocks"]) for one in planned["experiments"]] == [
        ("jobs", "interrupted", 4),
        ("frames", "new", 2),
    ]
    made = reproduce(into, *given(files))
    assert made.returncode == 0, made.stderr
    assert {name: blocks_in(into / name) for name in ("jobs", "frames")} == {"jobs": 4, "frames": 2}


@pytest.mark.parametrize("left", [(), ("evidence",), ("manifest.json", "evidence")])
def test_who_is_killed_at_the_very_beginning_begins_again(
    tmp_path: Path, files: tuple[Path, Path], left: tuple[str, ...]
) -> None:
    """Before the manifest, or before the state and the first trial."""
    into = tmp_path / "all"
    measured(files[0], into / "jobs")
    for path in (into / "jobs").iterdir():
        if path.name not in left and path.is_file():
            path.unlink()
    again = reproduce(into, *given(files))
    assert again.returncode == 0, again.stderr
    assert {RunFolder.open(into / name).state().state for name in ("jobs", "frames")} == {"complete"}
    assert blocks_in(into / "jobs") == 2


def test_until_decided_ends_at_a_look_and_is_not_measured_again(tmp_path: Path, files: tuple[Path, Path]) -> None:
    into = tmp_path / "all"
    made = reproduce(into, *given(files), "--until", "decided")
    assert made.returncode == 0, made.stderr
    assert RunFolder.open(into / "jobs").looks()
    before = records(into / "jobs")
    again = reproduce(into, *given(files), "--until", "decided")
    assert again.returncode == 0, again.stderr
    assert records(into / "jobs") == before
    assert_refused(reproduce(into, *given(files)), into / "jobs", "--into")
    assert_refused(reproduce(into, *given(files), "--until", "decided", "--blocks", "4"), into / "jobs", "--into")


def test_a_plan_says_what_is_ahead_and_measures_nothing(tmp_path: Path, files: tuple[Path, Path]) -> None:
    into = tmp_path / "all"
    measured(files[0], into / "jobs")
    before = records(into / "jobs")
    shown = reproduce(into, *given(files), "--plan")
    assert shown.returncode == 0, shown.stderr
    assert_facts(shown.stdout, "jobs: finished", into / "jobs", "frames: ", "2 blocks", f"{STUDY}, 2 experiments")
    assert [folder.name for folder in into.iterdir()] == ["jobs"]
    assert records(into / "jobs") == before
    narrow = reproduce(into, *given(files), "--plan", "--json", "--workload", "forward")
    assert [one["experiment"] for one in experiments_of(narrow)] == ["frames"]


def test_a_plan_names_what_cannot_run_here(tmp_path: Path) -> None:
    bare = experiments.write(
        tmp_path,
        name="wide",
        study=STUDY,
        platforms=[fake("model")],
        baseline="model",
        workloads=[{"workload": "superpi", "digits": 1000}, {"workload": "stream", "threads": 64}],
    )
    (wide,) = experiments_of(reproduce(tmp_path, "--experiment", bare, "--plan", "--json"))
    assert any(missing_facts(line, "stream", "model", "64 CPUs") == [] for line in wide["skipped"])
    here = Ahead(load_experiment(bare, catalogue()), tmp_path / "wide")
    lines = list(plan_lines(STUDY, [here], [{"xen": "there is no Xen"}]))
    assert any(missing_facts(line, "xen", "there is no Xen") == [] for line in lines)
    document: dict[str, Any] = plan_document(STUDY, [here], [{"xen": "there is no Xen"}])
    assert document["experiments"][0]["cannot_run"] == {"xen": "there is no Xen"}


def test_days_of_work_are_begun_only_by_who_says_so(
    tmp_path: Path, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce_plan, "ASKED_FROM_SECONDS", -1.0)
    into = tmp_path / "all"
    assert_refused(reproduce(into, *given(files)), STUDY, "--yes", "--plan")
    assert not into.exists()
    for stream in ("stdin", "stderr"):
        monkeypatch.setattr(getattr(sys, stream), "isatty", lambda: True, raising=False)
    answers = []
    monkeypatch.setattr(typer, "confirm", lambda question, **_: answers.append(question))
    whole = [Ahead(load_experiment(file, catalogue()), into / file.stem) for file in files]
    with refused("nothing was started"):
        reproduce_plan.ask_before_days(STUDY, whole, agreed=False)
    monkeypatch.setattr(typer, "confirm", lambda *_, **_options: True)
    reproduce_plan.ask_before_days(STUDY, whole, agreed=False)
    assert [STUDY in question for question in answers] == [True]
    assert reproduce(into, *given(files), "--yes").returncode == 0


def test_a_papers_size_is_asked_about_before_anything_starts(tmp_path: Path) -> None:
    finished = in_process("reproduce", "suresh2014", "--size", "full", "--platform", "runsc", runs=tmp_path)
    assert_refused(finished, "suresh2014", "days", "--yes")
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_is_older_than_its_run_is_made_anew(tmp_path: Path, files: tuple[Path, Path]) -> None:
    """Whoever is killed between the last trial and the page has the page of before."""
    into = tmp_path / "all"
    assert reproduce(into, *given(files)).returncode == 0
    page = into / "jobs" / "report" / "index.html"
    page.write_text("of before", encoding="utf-8")
    os.utime(page, ns=(0, 0))
    assert reproduce(into, *given(files)).returncode == 0
    assert page.read_text(encoding="utf-8") != "of before"


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["nobody2020"], ("'nobody2020'", "schlosser2011", "mattos2012", "suresh2014", "camargos2008")),
        ([STUDY, "--from", "nowhere"], ("'nowhere'",)),
        ([STUDY, "--from", "a", "--size", "paper"], ("--from", "--size")),
        ([STUDY, "--from", "a", "--blocks", "4"], ("--from", "--size")),
        ([STUDY, "--from", "a", "--plan"], ("--from", "--size")),
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
