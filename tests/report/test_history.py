"""`virtoll history`: nights of one host with a change of known night and cause, and folders as they are found."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser
from tests.support.browsing import visit
from tests.support.commands import in_process
from tests.support.drawings import rendered
from tests.support.facts import assert_facts, assert_refused, missing_facts, refused
from tests.support.night_folders import PLAIN, night_name, write_night, write_nights
from tests.support.report_page import read_page, text_of
from tests.support.synthetic_records import busy_host

from virtoll.errors import UsageError
from virtoll.report.drawing import Drawing
from virtoll.report.figures.history import draw
from virtoll.report.figures.style import Width
from virtoll.report.history import history_document, history_lines, places, series_outcome
from virtoll.report.history_page import history_page
from virtoll.report.history_runs import Gathered, gather
from virtoll.stats.history import History, Kind, history_of

NIGHTS, CHANGED = 60, 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty nights: from the thirtieth on runc forwards 5 % less, since its package is another one."""
    return write_nights(tmp_path_factory.mktemp("nights"), NIGHTS, CHANGED, 1.05)


@pytest.fixture(scope="module")
def gathered(folder: Path) -> Gathered:
    return gather(list(folder.iterdir()))


@pytest.fixture(scope="module")
def history(gathered: Gathered) -> History:
    return history_of(gathered.runs)


def printed(history: History, gathered: Gathered) -> str:
    return "\n".join(history_lines(history, gathered))


def test_the_change_is_found_at_its_night_and_none_elsewhere(history: History) -> None:
    changed = [one for one in history.series if one.changes]
    assert {(one.of.platform, one.of.workload, one.of.kind) for one in changed} == {
        ("runc", "forward", Kind.SHARE),
        ("runc", "forward", Kind.OWN),
    }
    for one in changed:
        (told,) = one.changes or ()
        assert (told.before, told.after) == (CHANGED - 1, CHANGED)
        assert told.low <= 1 / 1.05 <= told.high < 1
    assert [len(one.runs) for one in history.series] == [NIGHTS] * len(history.series)


def test_what_the_two_runs_record_is_told_with_it(history: History, gathered: Gathered) -> None:
    (place,) = places(history)
    assert (place.before, place.after) == (night_name(29), night_name(30))
    ((between, (line,)),) = place.steps
    assert_facts(between, night_name(29), night_name(30))
    assert_facts(line, "runc", "1.1.5", "1.1.12")
    (change,) = (one for one in place.changes if one.series.of.kind is Kind.SHARE)
    assert_facts(change.line, "runc", "IPv4 forwarding 68 B", "5.3 %", "slower", "4.6", "6 %", "81.7 %", "77.8 %")
    lines = list(history_lines(history, gathered))
    assert any(change.line in one for one in lines)
    assert any(line in one for one in lines)


def test_a_change_with_a_busy_host_is_told_so_and_fails_nothing(folder: Path, tmp_path: Path) -> None:
    """From the change on the host had a load of 7 per CPU before the first trial."""
    shutil.copytree(folder, tmp_path / "nights")
    for night in range(CHANGED, NIGHTS):
        busy_host(tmp_path / "nights" / night_name(night))
    finished = in_process("history", tmp_path / "nights", "--platform", "runc", "--fail-if-slower")
    assert_refused(finished, "1 of 4", "unfit", code=4)
    lead, _, changes = finished.stdout.partition("\n\n")
    assert_facts(lead, "unfit", "30 of 60 runs", night_name(CHANGED))
    assert_facts(changes, "fitness", "degraded -> unfit", "1.1.12")


def test_without_a_change_and_without_a_recorded_cause_that_is_said(gathered: Gathered) -> None:
    quiet = history_of(gathered.runs[:CHANGED])
    assert not any(one.changes for one in quiet.series)
    assert_facts(printed(quiet, gathered), "no change", "5 %")
    same = gathered.runs[0].manifest.host
    runs = [replace(run, manifest=run.manifest.replace(host=same)) for run in gathered.runs]
    assert [place.steps for place in places(history_of(runs))] == [()]


def test_a_host_that_becomes_slower_as_a_whole_is_in_own_values_alone(tmp_path: Path) -> None:
    for night in range(24):
        slower = 1.1 if night >= 12 else 1.0
        costs = {
            name: {kind: own.get(kind, 1.0) * slower for kind in ("packet path", "cpu", "kernel", "memory")}
            for name, own in PLAIN.items()
        }
        write_night(tmp_path, night, costs, {"kernel": "6.1.0-57-amd64" if slower > 1 else "6.1.0-56-amd64"})
    found = gather(list(tmp_path.iterdir()))
    assert len(found.runs) == 24
    history = history_of(found.runs)
    assert {one.of.kind for one in history.series if one.changes} == {Kind.OWN}
    assert "native" in {one.of.platform for one in history.series if one.changes}
    assert_facts(printed(history, found), "kernel", "6.1.0-56-amd64", "6.1.0-57-amd64")
    assert history.slower_since == ()


def test_a_platform_that_came_late_is_not_known_yet(tmp_path: Path) -> None:
    for night in range(18):
        costs = dict(PLAIN) if night >= 12 else {name: own for name, own in PLAIN.items() if name != "netns"}
        write_night(tmp_path, night, costs)
    found = gather(list(tmp_path.iterdir()))
    late = [one for one in history_of(found.runs).series if one.of.platform == "netns"]
    assert late
    for one in late:
        assert_facts(series_outcome(one), "not known", 6, one.needed)
    assert_facts(printed(history_of(found.runs), found), "8 series", 6, late[0].needed)


def test_other_hosts_experiments_and_broken_folders_are_named_and_left_out(folder: Path, tmp_path: Path) -> None:
    for night in range(3):
        shutil.copytree(folder / night_name(night), tmp_path / night_name(night))
    shutil.copytree(folder / night_name(0), tmp_path / "copy")
    write_night(tmp_path, 3, host={"hostname_hash": "f" * 16, "fingerprint": "f" * 64})
    write_night(tmp_path, 4, truth={"state": "interrupted"})
    broken = write_night(tmp_path, 5)
    (broken / "manifest.json").write_text('{"run": ', encoding="utf-8")
    damaged = write_night(tmp_path, 6)
    (damaged / "trials.jsonl").write_text("{}\n", encoding="utf-8")
    write_night(tmp_path, 7, host={"kernel": "another"})
    other = write_night(tmp_path, 2_000)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["experiment"]["name"] = "else"
    (other / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    found = gather([one for one in sorted(tmp_path.iterdir()) if one != other])
    assert [run.name for run in found.runs] == [night_name(night) for night in (0, 1, 2, 7)]
    facts: list[tuple[str | Path, ...]] = [
        (tmp_path / night_name(4), "interrupted"),
        (broken / "manifest.json", "damaged"),
        (damaged, "trials.jsonl"),
        ("1 run", "1 other host"),
        (tmp_path / "copy", tmp_path / night_name(0)),
    ]
    assert len(found.left_out) == len(facts)
    for reason in facts:
        assert any(missing_facts(line, *reason) == [] for line in found.left_out), reason
    (other / "SHA256SUMS").unlink()  # they are of the manifest as it was
    newest = gather(list(tmp_path.iterdir()))
    assert (newest.experiment, len(newest.runs)) == ("else", 1)
    assert any(missing_facts(one, "quick", "--experiment") == [] for one in newest.left_out)
    assert len(gather(list(tmp_path.iterdir()), "quick").runs) == 4
    with refused("--experiment none", "else, quick", error=UsageError):
        gather(list(tmp_path.iterdir()), "none")
    with refused("complete", error=UsageError):
        gather([tmp_path / night_name(4)])


def test_the_document_has_runs_series_and_steps(history: History, gathered: Gathered) -> None:
    document = json.loads(json.dumps(history_document(history, gathered)))
    assert [one["run"] for one in document["runs"]][:2] == [night_name(0), night_name(1)]
    series = next(
        one
        for one in document["series"]
        if (one["platform"], one["kind"]) == ("runc", "share of the baseline") and one["changes"]
    )
    assert series["changes"][0]["first_after"] == night_name(CHANGED)
    assert series["changes"][0]["steps"][0]["changes"] == [
        {"what": "package runc", "before": "1.1.5", "after": "1.1.12"}
    ]
    assert [one["last"] for one in series["stretches"]] == [night_name(29), night_name(59)]
    assert document["steps"][0]["to"] == night_name(CHANGED)


@pytest.fixture(scope="module")
def page_text(history: History, gathered: Gathered) -> str:
    return history_page(history, gathered, rendered)


def test_the_page_has_every_change_with_its_figure_and_is_one_file(page_text: str) -> None:
    page = read_page(page_text)
    changes = page.part("changes")
    assert "night-30" in " ".join(text_of(one) for one in changes.iter("h3"))
    assert_facts(text_of(changes), "5.3 %", "slower", "runc", "1.1.5", "1.1.12")
    assert page.tags.count("svg") >= 4
    assert [one for one in page.values("href") if not one.startswith("#")] == []


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_the_page_can_be_read_in_a_browser(
    page_text: str, browser: Browser, tmp_path: Path, scheme: Literal["light", "dark"], width: int
) -> None:
    page = tmp_path / "history.html"
    page.write_text(page_text, encoding="utf-8")
    with visit(browser, page, width=width, scheme=scheme) as opened:
        assert opened.violations() == []
        assert opened.said == []
        assert opened.asked_for == [page.as_uri()]
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width
        assert any("5.3\u00a0%" in one for one in opened.visible("#changes td.slower b"))


def test_a_figure_has_a_panel_for_each_platform_and_a_line_at_the_change(history: History) -> None:
    own = [one for one in history.series if one.of.workload == "forward"]
    drawing: Drawing = rendered("history", lambda width: draw(history, own, width))
    for text in (">native<", ">netns<", ">runc<", str(Kind.SHARE), "2026-11-21"):
        assert text in drawing.page, text
    panels = [part for part in draw(history, own, Width.PAGE)["vconcat"] if part.get("title")]
    drawn = [json.dumps(layer["encoding"]) for panel in panels for layer in panel["layer"]]
    assert sum(f'"datum": {CHANGED + 0.5}' in one for one in drawn) == 2  # of the share and of the own value


def test_the_command_line(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "history.html"
    told = in_process("history", "--output", page, "--platform", "runc", "--workload", "forward", runs=folder)
    assert (told.returncode, told.stderr) == (0, "")
    assert_facts(told.stdout, night_name(30), night_name(29), page)
    assert page.read_text(encoding="utf-8").endswith("</html>\n")
    slower = in_process("history", folder, "--platform", "runc", "--fail-if-slower")
    assert_refused(slower, "1 of 4", code=3)


def test_exit_codes_for_what_cannot_be_told(folder: Path, tmp_path: Path) -> None:
    recent = in_process("history", folder, "--last", "20", "--fail-if-slower", "--json")
    assert (recent.returncode, recent.stderr) == (0, "")
    assert len(json.loads(recent.stdout)["runs"]) == 20
    assert_refused(in_process("history", folder, "--last", "4", "--fail-if-slower"), code=4)
    wrong = in_process("history", folder, "--platform", "rnuc", "--last", "1")
    assert_refused(wrong, "--platform 'rnuc'", "native, netns, runc")
    assert_refused(in_process("history", runs=tmp_path / "none"), "'virtoll run'")
    page = tmp_path / "no" / "history.html"
    assert_refused(in_process("history", folder, "--last", "1", "--output", page), page, code=1)
