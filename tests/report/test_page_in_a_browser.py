"""Pages of runs and studies in Chromium: they request nothing, complain of nothing, work by pointer and keyboard."""

import hashlib
import html
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from tests.support.browsing import Visit, chromium, visit
from tests.support.made_up_folder import write_run
from tests.support.made_up_run import Made, made_up_run
from tests.support.synthetic_run import REALISTIC, Truth, write

from virtoll.report import browser as browser_files
from virtoll.report import build_report, build_reproduction

MARKUP = "<img src=x onerror=console.log(1)>&'\""
LONG = "n" * 300
SEVERAL = {name: REALISTIC[name] for name in ("native", "native-again", "netns", "runc", "qemu-tcg-e1000")}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write(
        tmp_path_factory.mktemp("run") / "run", Truth(SEVERAL, wired=True, weighed=True, frame_sizes=(64, 1500))
    )
    return build_report(folder).path


@dataclass(frozen=True)
class Kind:
    """A page of one kind: where it is, a figure of it, and the heads of a table's rows of which some are netns's."""

    path: Path
    figure: str
    heads: str


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
        write_run(folder / name, replace(data, manifest=replace(data.manifest, created_realtime_ns=when)))
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


@pytest.fixture(params=["run", "study"])
def either(request: pytest.FixtureRequest) -> Kind:
    """The page of a run, and that of a study."""
    path = request.getfixturevalue("page" if request.param == "run" else "study")
    if request.param == "run":
        return Kind(path, "cost", "#trials th[scope=row]")
    return Kind(path, "figure-3-1", "#figures details td.of")


@pytest.fixture(scope="module")
def marked_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    truth = Truth({"native": {}, MARKUP: {"cpu": 1.5}}, control=None, frame_sizes=(64,))
    return build_report(write(tmp_path_factory.mktemp("run") / "run", truth)).path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Visit]:
    with visit(browser, page) as here:
        yield here


def toggle(here: Visit, group: str, name: str) -> None:
    """Presses a button of the filter, which is opened before."""
    if not here.page.locator("aside details[open]").count():
        here.page.locator("aside summary").click()
    here.page.get_by_role("group", name=group).get_by_role("button", name=name, exact=True).click()


def test_the_librarys_files_are_those_of_npm() -> None:
    folder = Path(browser_files.__file__).with_name("library")
    origins = tomllib.loads((folder / "ORIGINS.toml").read_text(encoding="utf-8"))
    assert {one.name for one in folder.glob("*.js")} == set(origins)
    for name, origin in origins.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == origin["sha256"], name
        assert origin["package"].split("@")[0] in browser_files.licences()


@pytest.mark.parametrize("width", [1100, 390])
def test_it_is_whole_at_every_width_and_in_either_light(browser: Browser, either: Kind, width: int) -> None:
    with visit(browser, either.path, width=width) as here:
        assert f"figure-{either.figure}" in here.draw_all()
        here.page.locator("aside summary").click()
        assert here.page.evaluate("document.documentElement.scrollWidth") <= width
        assert here.violations() == []
        here.page.emulate_media(color_scheme="dark")
        assert here.violations("color-contrast") == [], "nothing else depends on it"
        assert here.said == []
        assert here.asked_for == [either.path.as_uri()]


def test_a_narrow_page_has_narrow_figures_where_they_can_be_read(browser: Browser, page: Path) -> None:
    with visit(browser, page, width=390) as here:
        narrow = here.page.eval_on_selector_all("figure:has([data-width=column])", "all => all.map(one => one.id)")
        assert {"figure-cost", "figure-forwarding", "figure-throughput"} <= set(narrow)
        for name in narrow:
            plate = here.page.locator(f"#{name} .plate")
            here.figure(str(name).removeprefix("figure-"))
            assert plate.evaluate("one => one.scrollWidth <= one.clientWidth"), name


def test_a_narrow_page_shows_a_measured_platform_beside_each_workload(browser: Browser, page: Path) -> None:
    with visit(browser, page, width=390) as here:
        heads = here.page.locator("table.cost thead th")
        assert heads.nth(2).inner_text().startswith("netns")
        assert heads.last.inner_text().startswith("native-again"), "the A/A control is no platform that one asks for"
        measured = heads.nth(2).bounding_box()
        assert measured is not None
        assert measured["x"] + measured["width"] <= 390
        scrolled = here.page.locator(".scroll:has(table.cost)")
        before = here.page.locator("table.cost tbody th").first.bounding_box()
        scrolled.evaluate("one => one.scrollLeft = one.scrollWidth")
        assert here.page.locator("table.cost tbody th").first.bounding_box() == before, "the workload stays in view"
        last = heads.last.bounding_box()
        assert last is not None
        assert last["x"] + last["width"] <= 390


def test_a_long_name_makes_no_page_wider(browser: Browser, tmp_path: Path) -> None:
    truth = Truth({"native": {}, LONG: {"cpu": 1.5}}, control=None, frame_sizes=(64,))
    page = build_report(write(tmp_path / "run", truth)).path
    for width in (1100, 390):
        with visit(browser, page, width=width) as here:
            here.page.locator(".filter summary").click()
            here.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            assert LONG in here.page.inner_text("dl.verdicts")
            assert here.page.evaluate("document.documentElement.scrollWidth") <= width


def test_markup_in_a_name_is_text(browser: Browser, marked_up: Path) -> None:
    with visit(browser, marked_up) as here:
        drawing = here.figure("cost")
        here.draw_all()
        assert MARKUP in here.visible("#trials th[scope=row]")
        assert here.page.locator("img").count() == 0
        toggle(here, "Platforms", MARKUP)
        assert MARKUP not in here.visible("#trials th[scope=row]")
        here.figure("cost")
        words = "The filter leaves out everything that this figure shows."
        here.page.locator(drawing).get_by_text(words, exact=True).wait_for()
        assert here.page.locator(drawing).inner_text() == words
        assert (here.said, here.asked_for) == ([], [marked_up.as_uri()])


def test_a_mark_says_its_value_and_interval(opened: Visit) -> None:
    opened.draw_all()  # a figure that is drawn later may move others away from the pointer
    drawing = opened.figure("cost")
    mark = opened.page.evaluate_handle(SOME_MARK, drawing).as_element()
    assert mark is not None
    mark.hover(force=True)
    said = opened.page.locator(".tip")
    assert said.is_visible()
    assert "netns" in said.inner_text()
    assert any(character.isdigit() for character in said.inner_text())
    opened.page.keyboard.press("Escape")
    assert not said.is_visible()


def test_a_finger_reads_a_marks_value(browser: Browser, page: Path) -> None:
    with visit(browser, page, touch=True) as here:
        here.draw_all()
        mark = here.page.evaluate_handle(SOME_MARK, here.figure("cost")).as_element()
        assert mark is not None
        box = mark.bounding_box()
        assert box is not None
        here.page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        here.page.locator(".tip").wait_for()
        assert "netns" in here.page.locator(".tip").inner_text()
        here.page.touchscreen.tap(5, 5)
        here.page.locator(".tip").wait_for(state="hidden")


SOME_MARK = """selector => [...document.querySelectorAll(selector + " svg *")].find(one => {
    if (one.__data__?.datum?.platform !== "netns" || !one.__data__.datum.said) return false;
    one.scrollIntoView({block: "center"});
    const {left, right, top, bottom} = one.getBoundingClientRect();
    return document.elementFromPoint((left + right) / 2, (top + bottom) / 2) === one;
})"""
PLATFORMS_DRAWN = """selector => [...new Set([...document.querySelectorAll(selector + " svg *")].map(
    one => one.__data__?.datum).filter(one => one?.said && one.platform).map(one => one.platform))]"""
LIT = """() => [...new Set([...document.querySelectorAll(".drawing svg *:not(g)")].filter(
    one => !one.classList.contains("back")).map(one => one.__data__?.datum?.platform).filter(Boolean))]"""


def test_the_keyboard_reads_a_figures_values(opened: Visit) -> None:
    drawing = opened.figure("cost")
    opened.page.focus(drawing)
    opened.page.keyboard.press("ArrowRight")
    first = opened.page.inner_text(".unseen")
    opened.page.keyboard.press("ArrowRight")
    second = opened.page.inner_text(".unseen")
    assert first != second
    opened.page.keyboard.press("End")
    opened.page.keyboard.press("ArrowDown")
    last = opened.page.inner_text(".unseen")
    opened.page.keyboard.press("Home")
    assert opened.page.inner_text(".unseen") == first != last
    opened.page.keyboard.press("ArrowRight")
    assert opened.visible(".tip") == [second]


def test_a_filter_hides_a_platform_in_tables_and_figures(opened: Visit) -> None:
    drawing = opened.figure("cost")
    assert "netns" in opened.page.evaluate(PLATFORMS_DRAWN, drawing)
    assert "netns" in opened.visible("#trials th[scope=row]")
    toggle(opened, "Platforms", "netns")
    opened.figure("cost")
    opened.page.wait_for_function(f"one => !({PLATFORMS_DRAWN})(one).includes('netns')", arg=drawing)
    assert "runc" in opened.page.evaluate(PLATFORMS_DRAWN, drawing)
    assert "netns" not in opened.visible("#trials th[scope=row]")
    assert not any(head.startswith("netns") for head in opened.visible("table.cost thead th"))
    assert not any("netns" in place for place in opened.visible(".ranking .place"))
    assert f"{len(SEVERAL) - 1} of {len(SEVERAL)} platforms" in opened.page.inner_text("aside summary")
    toggle(opened, "Platforms", "all of the platforms")
    opened.figure("cost")
    opened.page.wait_for_function(f"one => ({PLATFORMS_DRAWN})(one).includes('netns')", arg=drawing)
    assert "netns" in opened.visible("#trials th[scope=row]")


def test_a_filter_by_workload_hides_its_rows(opened: Visit) -> None:
    before = opened.visible("table.cost tbody th")
    toggle(opened, "Workloads", "superpi")
    after = opened.visible("table.cost tbody th")
    assert 0 < len(after) < len(before)
    assert {one for one in before if "Super Pi" not in one} == set(after)
    toggle(opened, "Workloads", "none of the workloads")
    assert opened.visible("table.cost tbody th") == []


def test_the_choice_stays_when_the_page_is_read_again(opened: Visit) -> None:
    toggle(opened, "Platforms", "runc")
    opened.page.reload()
    assert "runc" not in opened.visible("#trials th[scope=row]")
    toggle(opened, "Platforms", "runc")
    assert "runc" in opened.visible("#trials th[scope=row]")


def test_a_column_sorts_its_table_by_numbers_with_missing_ones_last(opened: Visit) -> None:
    opened.draw_all()  # one that is drawn later may move the button away between the press and the release
    rows = "#guests h2 ~ .scroll:not(h3 ~ .scroll) tbody tr"
    original = opened.visible(f"{rows} th")
    column = opened.page.get_by_role("button", name="ready", exact=True)
    column.click()
    assert opened.page.locator("th[aria-sort=ascending]").inner_text().startswith("ready")
    values = _times(opened, rows)
    assert values == sorted(values)
    column.click()
    assert _times(opened, rows) == values[::-1]
    column.click()
    assert opened.visible(f"{rows} th") == original
    assert opened.page.locator("[aria-sort]").count() == 0
    opened.page.get_by_role("button", name="kernel", exact=True).click()
    kernels = opened.page.eval_on_selector_all(f"{rows} td:nth-child(4)", "all => all.map(one => one.innerText)")
    told = [one for one in kernels if one != "–"]
    assert kernels == told + ["–"] * (len(kernels) - len(told))
    assert 0 < len(told) < len(kernels)


def test_verdicts_are_sorted_by_the_share_that_they_are_of(opened: Visit) -> None:
    opened.draw_all()
    column = "table.cost tbody td:nth-child(3)"
    opened.page.locator("table.cost thead button").nth(2).click()
    shares = opened.page.eval_on_selector_all(column, "all => all.map(one => Number(one.dataset.value))")
    assert len(set(shares)) > 2
    assert shares == sorted(shares)


def _times(here: Visit, rows: str) -> list[float]:
    """The second column, in ns."""
    texts = here.page.eval_on_selector_all(f"{rows} td:nth-child(2)", "all => all.map(one => one.firstChild.data)")
    scales = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
    return [float(number) * scales[unit] for number, unit in (one.split() for one in texts)]


def test_a_lit_platform_is_lit_everywhere(opened: Visit) -> None:
    opened.draw_all()
    opened.page.locator("#trials [data-platform=runc]").hover()
    assert opened.page.evaluate(LIT) == ["runc"]
    assert opened.page.locator(".ranking .place.lit").count() > 0
    opened.page.locator("#trials [data-platform=runc]").click()
    opened.page.locator("h1").hover()
    assert opened.page.evaluate(LIT) == ["runc"], "a click pins it"
    opened.page.keyboard.press("Escape")
    assert len(opened.page.evaluate(LIT)) > 1
    assert opened.page.locator("main .lit").count() == 0
    drawing = opened.figure("cost")
    mark = opened.page.evaluate_handle(SOME_MARK, drawing).as_element()
    assert mark is not None
    mark.hover(force=True)
    assert opened.page.evaluate(LIT) == ["netns"]
    assert opened.page.locator("#trials tr.lit").inner_text().startswith("netns")


def test_the_keyboard_alone_filters_sorts_and_lights(opened: Visit) -> None:
    opened.page.focus("aside summary")
    opened.page.keyboard.press("Enter")
    opened.page.keyboard.press("Tab")
    opened.page.keyboard.press("Tab")
    name = opened.page.evaluate("document.activeElement.dataset.platform")
    assert name in SEVERAL
    assert opened.page.locator(f"#trials tr.lit [data-platform='{name}']").count() == 1
    opened.page.keyboard.press("Space")
    assert name not in opened.visible("#trials th[scope=row]")
    opened.page.keyboard.press("Space")
    assert name in opened.visible("#trials th[scope=row]")
    opened.page.locator("#trials thead button").first.focus()
    opened.page.keyboard.press("Enter")
    rows = opened.visible("#trials tbody th")
    assert rows == sorted(rows)


def test_colours_can_be_chosen(opened: Visit) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light = opened.page.evaluate(paper)
    toggle(opened, "Colours", "dark")
    dark = opened.page.evaluate(paper)
    assert dark != light
    opened.page.reload()
    assert opened.page.evaluate(paper) == dark
    toggle(opened, "Colours", "as the system")
    assert opened.page.evaluate(paper) == light


def test_without_scripts_nothing_is_lost_and_no_control_is_dead(browser: Browser, either: Kind) -> None:
    with visit(browser, either.path, scripts=False) as here:
        figures = here.page.locator("figure:has(script.specification)").count()
        assert figures > 0
        assert here.page.locator("figure .static svg").filter(visible=True).count() >= figures
        assert here.page.locator("button, input, select, aside").count() == 0
        assert "netns" in here.page.locator(either.heads).all_text_contents()
        assert here.page.locator("figure:has(script.specification) .static svg text").count() > 0


def test_a_studys_page_has_the_library_once_and_lets_nothing_else_run(study: Path) -> None:
    text = study.read_text(encoding="utf-8")
    assert f'http-equiv="Content-Security-Policy" content="{browser_files.policy()}"' in html.unescape(text)
    for one in browser_files.library():
        assert text.count(one) == 1


def test_a_studys_page_filters_and_lights_a_platform_and_tells_its_values(browser: Browser, study: Path) -> None:
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
        assert here.page.evaluate(LIT) == ["netns"]
        assert "netns" in here.page.locator("#figures tr.lit").first.inner_text()
        here.page.keyboard.press("Escape")
        assert "netns" in here.page.evaluate(PLATFORMS_DRAWN, drawing)
        toggle(here, "Platforms", "netns")
        here.figure("figure-3-1")
        here.page.wait_for_function(f"one => !({PLATFORMS_DRAWN})(one).includes('netns')", arg=drawing)
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
        toggle(here, "Workloads", "povray")
        after = here.visible(claims), here.visible(figures), here.visible("#then-and-now tbody th[scope=row]")
        for some, fewer in zip(before, after, strict=True):
            assert set(fewer) < set(some)
        assert not any("rendering" in title for title in after[1])
        assert here.page.inner_text("aside summary").startswith("Filter: all 6 platforms, 2 of 3 workloads, all ")
        toggle(here, "Workloads", "povray")
        assert here.visible(claims) == before[0]
        assert (here.said, here.asked_for) == ([], [suresh.as_uri()])


def test_claims_are_filtered_by_their_outcome(browser: Browser, suresh: Path) -> None:
    with visit(browser, suresh) as here:
        outcomes = "#claims > .scroll tbody td:nth-child(3)"
        told = here.page.eval_on_selector_all(outcomes, "all => all.map(one => one.firstChild.data)")
        assert len(set(told)) > 1
        toggle(here, "Claims", told[0])
        assert not any(one.startswith(told[0]) for one in here.visible(outcomes))
        assert len(here.visible(outcomes)) == len(told) - told.count(told[0])
        toggle(here, "Claims", told[0])
        assert len(here.visible(outcomes)) == len(told)


SPANNING = "#then-and-now table.beside tbody:has([rowspan='2'])"


def test_a_table_whose_cells_span_rows_is_sorted_below_each_of_its_heads(browser: Browser, suresh: Path) -> None:
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
        toggle(here, "Platforms", first)
        left = here.visible(labels)
        assert left == [one for one in names if one.splitlines()[0] != first]
        assert 0 < len(left) == len(here.visible("#then-and-now tbody th[scope=row]"))
        toggle(here, "Platforms", first)
        assert here.visible(labels) == names
        assert here.visible("#then-and-now tbody th[scope=row]") == what


PAGE_HEADS = """() => [...document.styleSheets[0].cssRules].filter(one => one instanceof CSSPageRule)
    .flatMap(one => [...one.cssRules].map(each => each.style.content))"""


def test_print_has_the_run_and_the_host_on_each_page(opened: Visit, browser: Browser, tmp_path: Path) -> None:
    heads = opened.page.evaluate(PAGE_HEADS)
    run = opened.page.evaluate("JSON.parse(document.getElementById('page-facts').textContent).run")
    host = '"Synthetic CPU @ 2.50GHz, 2 CPUs, Debian GNU/Linux 12, Linux 6.1.0-56-amd64"'
    assert heads == [f'"Virtoll: {run}"', host, 'counter(page) " of " counter(pages)']
    data = made_up_run({"native": {}}, [Made("native", "superpi", value=1e9)])
    foreign = {**data.manifest.host, "cpu_model": f"</style>{MARKUP}\\"}
    write_run(tmp_path / "run", replace(data, manifest=replace(data.manifest, host=foreign)))
    with visit(browser, build_report(tmp_path / "run").path) as here:
        text = str(here.page.evaluate(PAGE_HEADS)[1])
        assert text.replace('\\"', '"').startswith(f'"</style>{MARKUP}\\')
        assert (here.page.locator("img").count(), here.said) == (0, [])


def test_print_has_no_dead_heads_and_the_medians(opened: Visit) -> None:
    medians = opened.page.locator("#cost details.printed tbody td").first
    assert not medians.is_visible()
    opened.page.emulate_media(media="print")
    assert medians.is_visible()
    assert opened.page.locator("details:not([open], .printed)").filter(visible=True).count() == 0
    assert opened.visible("#record pre") == []


def test_print_shows_everything_as_it_was_made(opened: Visit) -> None:
    opened.figure("cost")
    toggle(opened, "Platforms", "runc")
    opened.page.emulate_media(media="print")
    assert opened.page.locator("#figure-cost .static svg").is_visible()
    assert not opened.page.locator("#figure-cost .drawing").is_visible()
    assert opened.visible("aside, nav") == []
    assert "runc" in opened.visible("#trials th[scope=row]"), "a filter is of the screen"
