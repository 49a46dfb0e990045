"""``virtoll explain`` on models: what is injected is found, and nothing of it is ever taken for a result."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import virtoll
from tests.support.documented import undocumented_keys
from tests.support.experiments import fake
from tests.support.facts import Command, Fact, assert_facts, assert_refused, missing_facts, refused
from tests.support.model_runs import StopAfter, measured

from virtoll.errors import StorageError, UsageError
from virtoll.experiment.selection import EVERYTHING, Selection
from virtoll.pipeline.explain import ExplainRequest, explain
from virtoll.pipeline.progress import SilentProgress
from virtoll.report import report_document
from virtoll.report.build import build_report, load_analysis
from virtoll.report.sections.explanation.page import explanation_lines
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import SUMS, differences
from virtoll.stats.explanation import explanations

BLOCKS, MORE = 23, 97  # what two models say that they translate for a job or a frame
CELLS = 6  # three platforms, two workloads


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended, with a report; the models differ by what they translate."""
    into = tmp_path_factory.mktemp("explain") / "run"
    experiment = experiments.parsed(
        platforms=[
            fake("model", translated_blocks=BLOCKS),
            fake("slow", translated_blocks=MORE, cost=2),
            fake("plain"),
        ],
        workloads=[{"workload": "superpi", "digits": 1000}, {"workload": "forward", "frame_size_bytes": 64}],
        baseline="model",
        blocks=2,
    )
    build_report(measured(experiment, into).path)
    return into


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def explained(run: Path, selection: Selection = EVERYTHING, repetitions: int = 3) -> RunFolder:
    explain(RunFolder.open(run), ExplainRequest(selection, repetitions), SilentProgress())
    return RunFolder.open(run).explanations


def digests(run: Path) -> dict[str, str]:
    """Of every file but those of explanations and of the report."""
    files = (path for path in sorted(run.rglob("*")) if path.is_file())
    names = {path.relative_to(run).as_posix(): path for path in files}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in names.items()
        if name.split("/")[0] not in ("explain", "report")
    }


def test_what_the_models_do_is_found_per_job_and_per_frame(run: Path) -> None:
    observed = explained(run).observed()
    assert len(observed) == 3 * CELLS
    assert {one.status for one in observed} == {"ok"}
    analysis = load_analysis(run)
    found = explanations(analysis.data.observed, analysis.tasks, analysis.platforms, "model")
    slow = {one.unit: one.different for one in found if one.platform == "slow"}
    assert set(slow) == {"job", "frame"}
    for (one,) in slow.values():
        assert (one.name, one.each, one.baseline) == ("translated_blocks", MORE, BLOCKS)
        assert one.difference is not None
        assert one.difference.value == MORE - BLOCKS
    assert all(not (one.different or one.only_here) for one in found if one.platform == "plain"), "it counts nothing"


def test_terminal_and_documents_have_the_differences(run: Path) -> None:
    """And docs/report-json.md names every key of the report's document."""
    assert report_document(load_analysis(run), (), run, run / "index.html", ())["explanations"] == []
    shown = virtoll("explain", run, changed={"COLUMNS": "80"})
    assert shown.returncode == 0, shown.stderr
    facts = ("slow", "74.0 translated blocks a", "97.0", "23.0", "4.22×")
    assert_facts(shown.stdout, *facts, "a job", "a frame", "model", "host")
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert "observed" in shown.stderr
    assert not re.search(r"\d+(\.\d+)? [µmn]s\b", shown.stderr), "no duration of a trial with observers on"
    again = virtoll("explain", run, "--json")
    assert again.stderr == "", "nothing is left to be measured"
    document = json.loads(again.stdout)
    assert document["baseline"] == "model"
    sentences = [text for one in document["explanations"] for text in one["sentences"]]
    assert any(not missing_facts(text, *facts[:2], "frame", "model") for text in sentences)

    analysis = load_analysis(run)
    report = json.loads(json.dumps(report_document(analysis, (), run, run / "index.html", ())))
    assert report["explanations"] == document["explanations"]
    slow = [one for one in report["explanations"] if one["platform"] == "slow"]
    assert [one["different"][0]["difference"]["value"] for one in slow] == [MORE - BLOCKS] * 2
    (host,) = (one["reason"] for one in slow[0]["uncounted"] if one["counter"] == "host")
    assert_facts(host, "process")
    assert undocumented_keys(report) == set()


def test_nothing_of_it_is_a_result(run: Path) -> None:
    """Page, figures and tables are the same byte for byte, but for the section of its own."""
    before, whole = digests(run), build_report(run, run.parent / "before")
    explained(run)
    assert digests(run) == before
    after = build_report(run, run.parent / "after")
    files = {path.relative_to(run.parent / "before") for path in (run.parent / "before").rglob("*") if path.is_file()}
    new = {path.relative_to(run.parent / "after") for path in (run.parent / "after").rglob("*") if path.is_file()}
    assert new - files == {Path("tables/explanation.csv")}
    for name in files - {Path("index.html"), Path(SUMS)}:
        one, other = (run.parent / which / name for which in ("before", "after"))
        assert _undated(one.read_bytes()) == _undated(other.read_bytes()), name
    page = after.path.read_text(encoding="utf-8")
    assert page.count('<section id="explanation" ') == 1
    page = re.sub(r'<section id="explanation" .*?</section>\n', "", page, flags=re.DOTALL)
    page = page.replace('<li><a href="#explanation">Why</a></li>\n', "")
    assert page == whole.path.read_text(encoding="utf-8")
    assert after.ledger == whole.ledger


def _undated(content: bytes) -> bytes:
    return re.sub(rb"/CreationDate \([^)]*\)|/ID \[[^]]*\]", b"", content)


def test_the_pages_section_names_markup_as_text(run: Path) -> None:
    folder = explained(run)
    text = (folder.path / "observed.jsonl").read_text(encoding="utf-8")
    (folder.path / "observed.jsonl").write_text(text.replace("whose own counters", "<b>whose</b>"), encoding="utf-8")
    page = build_report(run).path.read_text(encoding="utf-8")
    section = page[page.index('<section id="explanation" ') :].partition("</section>")[0]
    assert "&lt;b&gt;whose&lt;/b&gt;" in section
    assert "translated blocks" in section


def test_a_finished_run_stays_whole_and_a_changed_explanation_is_noticed(run: Path) -> None:
    folder = explained(run)
    assert differences(run) == ()
    assert (folder.path / SUMS).exists()
    file = folder.path / "observed.jsonl"
    content = file.read_bytes()
    file.write_bytes(content[:500] + bytes([content[500] ^ 1]) + content[501:])
    (difference,) = differences(run) or ()
    assert_facts(difference, "explain/observed.jsonl")
    assert virtoll("verify", run).returncode == 1
    file.write_bytes(content)
    RunFolder.open(run).set_state("complete", None)  # as a resumed run ends
    assert "explain" not in (run / SUMS).read_text(encoding="utf-8")
    assert differences(run) == ()


def test_what_was_observed_before_a_kill_is_kept(run: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        explain(RunFolder.open(run), ExplainRequest(EVERYTHING, 2), StopAfter(5))
    folder = RunFolder.open(run).explanations
    kept = folder.observed()
    assert len(kept) == 5
    assert differences(run) == (), "the run itself is whole; what was begun has no digests yet"
    with (folder.path / "observed.jsonl").open("ab") as file:
        file.write(b'{"platform":"torn')
    assert len(explained(run, repetitions=2).observed()) == 2 * CELLS
    assert folder.observed()[:5] == kept
    boots = [boot.boot for boot in folder.boots()]
    assert len(boots) == len(set(boots)), "a start of a later session has a name of its own"


def test_a_full_disk_ends_with_the_remedy(run: Path) -> None:
    """No file may grow, so that nothing can be written."""
    ended = virtoll("explain", run, way=["prlimit", "--fsize=0", "--"])
    assert_refused(ended, Command(f"virtoll explain {run}"), code=StorageError.exit_code)
    assert "resume" not in ended.stderr


def test_more_trials_are_added_and_a_choice_keeps_the_baseline(run: Path) -> None:
    chosen = Selection(platforms=("slow",), workloads=("superpi",))
    observed = explained(run, chosen, 1).observed()
    assert [(one.platform, one.workload) for one in observed] == [("model", "superpi"), ("slow", "superpi")]
    text = "\n".join(explanation_lines(load_analysis(run)))
    assert_facts(text, "slow", "74.0 translated blocks", "model", "97.0", "23.0", "4.22×)", "interval")
    assert len(explained(run, chosen, 2).observed()) == 4
    assert len(explained(run, Selection(only=("plain:*",)), 1).observed()) == 4 + 3


def altered(run: Path, **keys: Any) -> None:
    """Replace keys of the manifest."""
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    (run / "manifest.json").write_text(json.dumps({**manifest, **keys}), encoding="utf-8")


def give_slow(run: Path, parameters: str) -> None:
    """Give the platform 'slow' further lines of parameters in the run's experiment."""
    experiment = RunFolder.open(run).manifest.experiment
    text = experiment["text"].replace("label: slow", f"label: slow{parameters}")
    altered(run, experiment={**experiment, "text": text})


def test_a_platform_that_is_missing_today_loses_its_trials_alone(run: Path) -> None:
    """As a product that was removed since."""
    give_slow(run, "\n  failure: unavailable")
    observed = explained(run, repetitions=1).observed()
    assert {(one.platform, one.status) for one in observed} == {("model", "ok"), ("slow", "skipped"), ("plain", "ok")}
    lines = explanation_lines(load_analysis(run))
    assert any(not missing_facts(line, "slow", "'failure: none'") for line in lines)


def test_a_guest_that_dies_loses_its_trials_alone(run: Path) -> None:
    give_slow(run, "\n  failure: dies\n  dies_at_job: 1")
    observed = explained(run, repetitions=1).observed()
    lost = [one for one in observed if one.status != "ok"]
    assert [(one.platform, one.workload, one.status, one.spans) for one in lost] == [("slow", "superpi", "failed", ())]
    assert lost[0].evidence
    assert all((run / "explain" / path).exists() for path in lost[0].evidence)


def assert_not_explained(run: Path, *facts: Fact, selection: Selection = EVERYTHING) -> None:
    """It is refused with these facts."""
    with refused(*facts, error=UsageError):
        explain(RunFolder.open(run), ExplainRequest(selection, 1), SilentProgress())


def test_a_run_of_another_host_is_refused(run: Path) -> None:
    altered(run, host={**RunFolder.open(run).manifest.host, "fingerprint": "0" * 64})
    assert_not_explained(run, "run", "host", "kernel", "explain")
    assert not (run / "explain").exists()


def test_bad_choices_are_refused(run: Path) -> None:
    assert_not_explained(run, "--platform", "'nobody'", selection=Selection(platforms=("nobody",)))
    assert_refused(virtoll("explain", run, "--only", "slow"), "--only", "PLATFORM:WORKLOAD")
    RunFolder.open(run).set_state("interrupted", "ended by the user")
    assert_not_explained(run, Command(f"virtoll resume {run}"))


def test_guests_that_are_measured_many_at_once_are_refused(tmp_path: Path) -> None:
    experiment = experiments.parsed(
        platforms=[fake("model")], scenario="scale", scale={"guests": [2]}, baseline="model", blocks=1
    )
    assert_not_explained(measured(experiment, tmp_path / "run").path, "scale")


def test_a_run_without_explanations_has_one_line(finished: Path) -> None:
    analysis = load_analysis(finished)
    assert len(explanation_lines(analysis)) == 1
    assert analysis.data.observed == ()
