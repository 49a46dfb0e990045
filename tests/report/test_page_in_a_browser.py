"""Pages of runs and studies in Chromium: they request nothing, complain of nothing, work by pointer and keyboard."""

import hashlib
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.support.browsing import Visit, assert_whole, assert_whole_without_scripts, visit
from tests.support.facts import assert_facts
from tests.support.made_up_folder import write_run
from tests.support.made_up_run import Made, made_up_run
from tests.support.synthetic_run import REALISTIC, Truth, write

from virtoll.report import browser as browser_files
from virtoll.report import build_report

MARKUP = "<img src=x onerror=console.log(1)>&'\""
LONG = "n" * 300
SEVERAL = {name: REALISTIC[name] for name in ("native", "native-again", "netns", "runc", "qemu-tcg-e1000")}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write(
        tmp_path_factory.mktemp("run") / "run", Truth(SEVERAL, wired=True, weighed=True, frame_sizes=(64, 1500))
    )
    return build_report(folder).path


@pytest.fixture(scope="module")
def marked_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    truth = Truth({"native": {}, MARKUP: {"cpu": 1.5}}, control=None, frame_sizes=(64,))
    return build_report(write(tmp_path_factory.mktemp("run") / "run", truth)).path


@pytest.fixture
def opened(browser: Browser, page: Path) -> Iterator[Visit]:
    with visit(browser, page) as here:
        yield here


def test_the_librarys_files_are_those_of_npm() -> None:
    folder = Path(browser_files.__file__).with_name("library")
    origins = tomllib.loads((folder / "ORIGINS.toml").read_text(encoding="utf-8"))
    assert {one.name for one in folder.glob("*.js")} == set(origins)
    for name, origin in origins.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == origin["sha256"], name
        assert origin["package"].split("@")[0] in browser_files.licences()


@pytest.mark.parametrize("width", [1100, 390])
def test_a_runs_page_is_whole_at_every_width_and_in_either_light(browser: Browser, page: Path, width: int) -> None:
    assert_whole(browser, page, "cost", width)


def test_without_scripts_nothing_of_a_run_is_lost_and_no_control_is_dead(browser: Browser, page: Path) -> None:
    assert_whole_without_scripts(browser, page, "#trials th[scope=row]")


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
        here.toggle("Platforms", MARKUP)
        assert MARKUP not in here.visible("#trials th[scope=row]")
        here.figure("cost")
        here.wait_for(MARKUP, drawing, drawn=False)
        assert here.page.locator(drawing).inner_text() != "", "why it is empty"
        assert (here.said, here.asked_for) == ([], [marked_up.as_uri()])


@pytest.mark.parametrize("touch", [False, True])
def test_a_pointer_and_a_finger_read_a_marks_value(browser: Browser, page: Path, touch: bool) -> None:
    with visit(browser, page, touch=touch) as here:
        here.draw_all()  # a figure that is drawn later may move others away from the pointer
        mark, tip = here.mark(here.figure("cost")), here.page.locator(".tip")
        if touch:
            mark.tap(force=True)
        else:
            mark.hover(force=True)
        tip.wait_for()
        assert "netns" in tip.inner_text()
        assert any(character.isdigit() for character in tip.inner_text())
        if touch:
            here.page.touchscreen.tap(5, 5)
        else:
            here.page.keyboard.press("Escape")
        tip.wait_for(state="hidden")


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
    assert "netns" in opened.drawn_platforms(drawing)
    assert "netns" in opened.visible("#trials th[scope=row]")
    opened.toggle("Platforms", "netns")
    opened.figure("cost")
    opened.wait_for("netns", drawing, drawn=False)
    assert "runc" in opened.drawn_platforms(drawing)
    assert "netns" not in opened.visible("#trials th[scope=row]")
    assert not any(head.startswith("netns") for head in opened.visible("table.cost thead th"))
    assert not any("netns" in place for place in opened.visible(".ranking .place"))
    assert_facts(opened.page.inner_text("aside summary"), f"{len(SEVERAL) - 1} of {len(SEVERAL)}")
    opened.toggle("Platforms", "all of the platforms")
    opened.figure("cost")
    opened.wait_for("netns", drawing, drawn=True)
    assert "netns" in opened.visible("#trials th[scope=row]")


def test_a_filter_by_workload_hides_its_rows(opened: Visit) -> None:
    before = opened.visible("table.cost tbody th")
    opened.toggle("Workloads", "superpi")
    after = opened.visible("table.cost tbody th")
    assert 0 < len(after) < len(before)
    assert {one for one in before if "Super Pi" not in one} == set(after)
    opened.toggle("Workloads", "none of the workloads")
    assert opened.visible("table.cost tbody th") == []


def test_the_choice_stays_when_the_page_is_read_again(opened: Visit) -> None:
    opened.toggle("Platforms", "runc")
    opened.page.reload()
    assert "runc" not in opened.visible("#trials th[scope=row]")
    opened.toggle("Platforms", "runc")
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
    assert opened.lit() == ["runc"]
    assert opened.page.locator(".ranking .place.lit").count() > 0
    opened.page.locator("#trials [data-platform=runc]").click()
    opened.page.locator("h1").hover()
    assert opened.lit() == ["runc"], "a click pins it"
    opened.page.keyboard.press("Escape")
    assert len(opened.lit()) > 1
    assert opened.page.locator("main .lit").count() == 0
    drawing = opened.figure("cost")
    opened.mark(drawing).hover(force=True)
    assert opened.lit() == ["netns"]
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
    opened.toggle("Colours", "dark")
    dark = opened.page.evaluate(paper)
    assert dark != light
    opened.page.reload()
    assert opened.page.evaluate(paper) == dark
    opened.toggle("Colours", "as the system")
    assert opened.page.evaluate(paper) == light


PAGE_HEADS = """() => [...document.styleSheets[0].cssRules].filter(one => one instanceof CSSPageRule)
    .flatMap(one => [...one.cssRules].map(each => each.style.content))"""


def test_print_has_the_run_and_the_host_on_each_page(opened: Visit, browser: Browser, tmp_path: Path) -> None:
    heads = opened.page.evaluate(PAGE_HEADS)
    run = opened.page.evaluate("JSON.parse(document.getElementById('page-facts').textContent).run")
    host = '"Synthetic CPU @ 2.50GHz, 2 CPUs, Debian GNU/Linux 12, Linux 6.1.0-56-amd64"'
    assert heads == [f'"Virtoll: {run}"', host, 'counter(page) " of " counter(pages)']
    data = made_up_run({"native": {}}, [Made("native", "superpi", value=1e9)])
    foreign = {**data.manifest.host, "cpu_model": f"</style>{MARKUP}\\"}
    write_run(tmp_path / "run", replace(data, manifest=data.manifest.replace(host=foreign)))
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
    opened.toggle("Platforms", "runc")
    opened.page.emulate_media(media="print")
    assert opened.page.locator("#figure-cost .static svg").is_visible()
    assert not opened.page.locator("#figure-cost .drawing").is_visible()
    assert opened.visible("aside, nav") == []
    assert "runc" in opened.visible("#trials th[scope=row]"), "a filter is of the screen"
