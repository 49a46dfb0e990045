"""Pages of studies in Chromium: they are filtered by platform, workload and outcome, and sorted below their heads."""

import html
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from tests.support.browsing import Visit, assert_whole, assert_whole_without_scripts, visit
from tests.support.facts import assert_facts
from tests.support.made_up_folder import write_run
from tests.support.made_up_run import Made, made_up_run

from virtoll.report import browser as browser_files
from virtoll.report import build_reproduction

MARKUP = "<img src=x onerror=console.log(1)>&'\""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two runs that repeat a study."""
    folder = tmp_path_factory.mktemp("study")
    runs = {"one": {"native": 1e6, "netns": 1e6}, MARKUP[:4]: {"native": 1e6, "netns": 3e5}}
    for when, (name, rates) in enumerate(runs.items(), 1):
        measured = [
            Made(label, "forward", {"frame_size_bytes": 1504}, value=rate, flat_out=rate * 0.99)
            for label, rate in rates.items()
        ]
        experiment = {"name": "schlosser2011", "study": "schlosser2011", "question": MARKUP}
        labels: dict[str, dict[str, object]] = {"native": {}, "native-again": {}, "netns": {}}
        data = made_up_run(labels, measured, calibrated_rate=1e7, experiment=experiment)
        write_run(folder / name, replace(data, manifest=data.manifest.replace(created_realtime_ns=when)))
    return build_reproduction("schlosser2011", [folder / "one", folder / MARKUP[:4]], folder / "report").page


def _shown(workload: str, cost: float) -> float:
    """Of its primary metric: a rate falls, and rendering is faster in all guests."""
    return {"stream": 1 / cost, "povray": 1 / cost}.get(workload, cost)


@pytest.fixture(scope="module")
def suresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run that repeats a study by several workloads; two platforms stand for one of the paper's."""
    folder = tmp_path_factory.mktemp("suresh")
    costs = {"native": 1.0, "qemu-kvm": 1.1, "kvm-again": 1.2, "virtualbox": 1.4, "runc": 1.01}
    kinds: dict[str, dict[str, Any]] = {"povray": {}, "stream": {"threads": 2}, "kernel-operations": {}}
    measured = [
        Made(label, workload, parameters, value=1e9 * _shown(workload, cost))
        for label, cost in costs.items()
        for workload, parameters in kinds.items()
    ]
    own: dict[str, dict[str, object]] = {"kvm-again": {"platform": "qemu-kvm"}}
    platforms = {label: own.get(label, {}) for label in ("native", "native-again", *costs)}
    experiment = {"name": "suresh2014", "study": "suresh2014", "question": "?"}
    write_run(folder / "run", made_up_run(platforms, measured, experiment=experiment))
    return build_reproduction("suresh2014", [folder / "run"], folder / "report").page


@pytest.mark.parametrize("width", [1100, 390])
def test_a_studys_page_is_whole_at_every_width_and_in_either_light(browser: Browser, study: Path, width: int) -> None:
    assert_whole(browser, study, "figure-3-1", width)


def test_without_scripts_nothing_of_a_study_is_lost_and_no_control_is_dead(browser: Browser, study: Path) -> None:
    assert_whole_without_scripts(browser, study, "#figures details td.of")


def test_a_studys_page_has_the_library_once_and_lets_nothing_else_run(study: Path) -> None:
    text = study.read_text(encoding="utf-8")
    assert f'http-equiv="Content-Security-Policy" content="{browser_files.policy()}"' in html.unescape(text)
    for one in browser_files.library():
        assert text.count(one) == 1


def test_a_studys_page_filters_and_lights_a_platform(browser: Browser, study: Path) -> None:
    values = "#figures details td.of"
    with visit(browser, study) as here:
        here.draw_all()
        drawing = here.figure("figure-3-1")
        here.page.locator("#figure-3 details summary").first.click()
        assert {"native", "netns"} >= set(here.visible(values)) > set()
        here.page.focus(drawing)
        here.page.keyboard.press("ArrowRight")
        assert any(character.isdigit() for character in here.page.inner_text(".unseen"))
        here.page.locator(f"{values} [data-platform=netns]").first.hover()
        assert here.lit() == ["netns"]
        assert "netns" in here.page.locator("#figures tr.lit").first.inner_text()
        here.page.keyboard.press("Escape")
        assert "netns" in here.drawn_platforms(drawing)
        here.toggle("Platforms", "netns")
        here.figure("figure-3-1")
        here.wait_for("netns", drawing, drawn=False)
        assert "netns" not in here.visible(values)
        here.page.locator("#claims thead button").first.focus()
        here.page.keyboard.press("Enter")
        claims = here.visible("#claims > .scroll tbody th")
        assert claims == sorted(claims)


def test_a_studys_page_filters_by_workload(browser: Browser, suresh: Path) -> None:
    with visit(browser, suresh) as here:
        claims, figures = "#claims > .scroll tbody th", "#figures > section > h3"
        before = here.visible(claims), here.visible(figures), here.visible("#then-and-now tbody th[scope=row]")
        assert all(before)
        here.toggle("Workloads", "povray")
        after = here.visible(claims), here.visible(figures), here.visible("#then-and-now tbody th[scope=row]")
        for some, fewer in zip(before, after, strict=True):
            assert set(fewer) < set(some)
        assert not any("rendering" in title for title in after[1])
        assert_facts(here.page.inner_text("aside summary"), "6 platforms", "2 of 3")
        here.toggle("Workloads", "povray")
        assert here.visible(claims) == before[0]
        assert (here.said, here.asked_for) == ([], [suresh.as_uri()])


def test_claims_are_filtered_by_their_outcome(browser: Browser, suresh: Path) -> None:
    with visit(browser, suresh) as here:
        outcomes = "#claims > .scroll tbody td:nth-child(3)"
        told = here.page.eval_on_selector_all(outcomes, "all => all.map(one => one.firstChild.data)")
        assert len(set(told)) > 1
        here.toggle("Claims", told[0])
        assert not any(one.startswith(told[0]) for one in here.visible(outcomes))
        assert len(here.visible(outcomes)) == len(told) - told.count(told[0])
        here.toggle("Claims", told[0])
        assert len(here.visible(outcomes)) == len(told)


SPANNING = "#then-and-now table.beside tbody:has([rowspan='2'])"


def test_a_table_whose_cells_span_rows_is_sorted_below_its_heads(browser: Browser, suresh: Path) -> None:
    with visit(browser, suresh) as here:
        here.page.evaluate("one => document.querySelector(one).id = 'spanning'", SPANNING)
        body = here.page.locator("#spanning")
        made = body.locator("> tr").evaluate_all("all => all.map(one => one.outerHTML)")
        column = here.page.locator("#then-and-now table.beside thead button").last
        column.focus()
        here.page.keyboard.press("Enter")
        assert here.page.locator("#then-and-now th[aria-sort=ascending]").inner_text().startswith("now")
        shares = _shares(here)
        assert len(set(shares)) > 1
        assert shares == sorted(shares)
        heads = here.page.locator("#then-and-now table.beside tbody > tr:first-child > th[scope=rowgroup]")
        assert heads.count() == here.page.locator("#then-and-now table.beside tbody").count(), "heads stay above"
        assert body.locator("tr:not(:has([scope=rowgroup])) > th[scope=row]").count() == len(shares), "all have one"
        assert body.locator("[rowspan]:not([rowspan='1'])").count() == 0
        assert here.violations() == []
        here.page.keyboard.press("Enter")
        assert _shares(here) == shares[::-1]
        here.page.keyboard.press("Enter")
        assert here.page.locator("#then-and-now [aria-sort]").count() == 0
        assert body.locator("> tr").evaluate_all("all => all.map(one => one.outerHTML)") == made, "as it was"


def _shares(here: Visit) -> list[float]:
    shares = "#spanning td:last-child"
    texts = here.page.eval_on_selector_all(shares, "all => all.map(one => one.firstChild.textContent)")
    return [float(one.replace("\xa0", " ").split()[0]) for one in texts]


def test_a_row_that_carried_a_cell_of_several_can_be_left_out(browser: Browser, suresh: Path) -> None:
    with visit(browser, suresh) as here:
        labels = "#then-and-now td.of"
        names = here.visible(labels)
        first = names[0].splitlines()[0]
        what = here.visible("#then-and-now tbody th[scope=row]")
        here.toggle("Platforms", first)
        left = here.visible(labels)
        assert left == [one for one in names if one.splitlines()[0] != first]
        assert 0 < len(left) == len(here.visible("#then-and-now tbody th[scope=row]"))
        here.toggle("Platforms", first)
        assert here.visible(labels) == names
        assert here.visible("#then-and-now tbody th[scope=row]") == what
