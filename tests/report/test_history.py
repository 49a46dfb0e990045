"""`virtoll history`: nights of one host with a change of known night and cause, and folders as they are found."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from tests.support.browsing import chromium, visit
from tests.support.commands import virtoll
from tests.support.drawings import rendered
from tests.support.night_folders import PLAIN, night_name, write_night, write_nights

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


def text_of(history: History, gathered: Gathered) -> str:
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
    assert place.steps == ((f"{night_name(29)} and {night_name(30)}", ("package runc: 1.1.5 -> 1.1.12",)),)
    told = text_of(history, gathered)
    assert "runc, IPv4 forwarding 68 B: 5.3 % slower (4.6 to 6 %), 81.7 % -> 77.8 %" in told
    assert "package runc: 1.1.5 -> 1.1.12" in told


def test_without_a_change_and_without_a_recorded_cause_that_is_said(gathered: Gathered) -> None:
    quiet = history_of(gathered.runs[:CHANGED])
    assert not any(one.changes for one in quiet.series)
    assert "no change; by chance alone any is told in at most 5 % of histories" in text_of(quiet, gathered)
    same = gathered.runs[0].manifest.host
    runs = [replace(run, manifest=replace(run.manifest, host=same)) for run in gathered.runs]
    assert "changed there: nothing that the two manifests record" in text_of(history_of(runs), gathered)


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
    assert "host's kernel: 6.1.0-56-amd64 -> 6.1.0-57-amd64" in text_of(history, found)
    assert history.slower_since == ()


def test_a_platform_that_came_late_is_not_known_yet(tmp_path: Path) -> None:
    for night in range(18):
        costs = dict(PLAIN) if night >= 12 else {name: own for name, own in PLAIN.items() if name != "netns"}
        write_night(tmp_path, night, costs)
    found = gather(list(tmp_path.iterdir()))
    late = [one for one in history_of(found.runs).series if one.of.platform == "netns"]
    assert late
    assert {series_outcome(one) for one in late} == {f"not known: 6 runs, {late[0].needed} needed"}
    assert "not known: 8 series with 6 of the" in text_of(history_of(found.runs), found)


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
    left_out = "\n".join(found.left_out)
    assert len(found.left_out) == 5
    assert f"{tmp_path / night_name(4)} was interrupted, and only a complete run counts" in left_out
    assert f"{broken}/manifest.json is damaged" in left_out
    assert f"{damaged} is not as it was when its run ended: trials.jsonl" in left_out
    assert "1 run of 1 other host: values of two hosts are never in one series" in left_out
    assert "is the same run as" in left_out
    (other / "SHA256SUMS").unlink()  # they are of the manifest as it was
    newest = gather(list(tmp_path.iterdir()))
    assert (newest.experiment, len(newest.runs)) == ("else", 1)
    assert any("other experiments (quick): --experiment takes one" in one for one in newest.left_out)
    assert len(gather(list(tmp_path.iterdir()), "quick").runs) == 4
    with pytest.raises(UsageError, match=r"--experiment none: none of the \d+ runs is of it; there are: else, quick"):
        gather(list(tmp_path.iterdir()), "none")
    with pytest.raises(UsageError, match="a history needs complete runs, and there is none"):
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
    assert "Since night-30" in page_text
    assert "5.3\u00a0% slower" in page_text
    assert "package runc: 1.1.5 -&gt; 1.1.12" in page_text
    assert page_text.count("<svg ") >= 4
    assert 'href="figures/' not in page_text


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_the_page_can_be_read_in_a_browser(
    page_text: str, tmp_path: Path, scheme: Literal["light", "dark"], width: int
) -> None:
    page = tmp_path / "history.html"
    page.write_text(page_text, encoding="utf-8")
    with chromium() as browser, visit(browser, page, width=width, scheme=scheme) as opened:
        assert opened.violations() == []
        assert opened.said == []
        assert opened.asked_for == [page.as_uri()]
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width
        assert "5.3\u00a0% slower" in opened.visible("#changes td.slower b")


def test_a_figure_has_a_panel_for_each_platform_and_a_line_at_the_change(history: History) -> None:
    own = [one for one in history.series if one.of.workload == "forward"]
    drawing: Drawing = rendered("history", lambda width: draw(history, own, width))
    for text in (">native<", ">netns<", ">runc<", "share of the baseline", "2026-11-21"):
        assert text in drawing.page, text
    panels = [part for part in draw(history, own, Width.PAGE)["vconcat"] if part.get("title")]
    drawn = [json.dumps(layer["encoding"]) for panel in panels for layer in panel["layer"]]
    assert sum(f'"datum": {CHANGED + 0.5}' in one for one in drawn) == 2  # of the share and of the own value


def test_the_command_line(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "history.html"
    told = virtoll("history", "--output", page, "--platform", "runc", "--workload", "forward", runs=folder)
    assert (told.returncode, told.stderr) == (0, "")
    assert "since night-30 (the run before it: night-29)" in told.stdout
    assert f"page: {page}" in told.stdout
    assert page.read_text(encoding="utf-8").endswith("</html>\n")
    slower = virtoll("history", folder, "--platform", "runc", "--fail-if-slower")
    assert slower.returncode == 3
    assert "1 of 4 series of shares are slower since their last change" in slower.stderr


def test_exit_codes_and_sentences_for_what_cannot_be(folder: Path, tmp_path: Path) -> None:
    recent = virtoll("history", folder, "--last", "20", "--fail-if-slower", "--json")
    assert (recent.returncode, recent.stderr) == (0, "")
    assert len(json.loads(recent.stdout)["runs"]) == 20
    few = virtoll("history", folder, "--last", "4", "--fail-if-slower")
    assert few.returncode == 4
    assert "no share of the baseline has enough runs" in few.stderr
    wrong = virtoll("history", folder, "--platform", "rnuc", "--last", "1")
    assert wrong.returncode == 2
    assert "--platform 'rnuc' is in none of the runs; choose from: native, netns, runc" in wrong.stderr
    nothing = virtoll("history", runs=tmp_path / "none")
    assert nothing.returncode == 2
    assert "'virtoll run' makes one" in nothing.stderr
    unwritable = virtoll("history", folder, "--last", "1", "--output", tmp_path / "no" / "history.html")
    assert unwritable.returncode == 1
    assert "Give another file." in unwritable.stderr
