"""A page of a report in a real browser: Debian's headless Chromium, which is told what to do by Playwright.

Main type: `Visit`, an opened page with what it complained of and asked for. It waits for conditions, never for a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, ElementHandle, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium-headless-shell"  # of the Debian package of that name (tools/setup.py --dev)
AXE = Path(__file__).with_name("axe-core") / "axe.min.js"

_SOME_MARK = """selector => [...document.querySelectorAll(selector + " svg *")].find(one => {
    if (one.__data__?.datum?.platform !== "netns" || !one.__data__.datum.said) return false;
    one.scrollIntoView({block: "center"});
    const {left, right, top, bottom} = one.getBoundingClientRect();
    return document.elementFromPoint((left + right) / 2, (top + bottom) / 2) === one;
})"""
_PLATFORMS_DRAWN = """selector => [...new Set([...document.querySelectorAll(selector + " svg *")].map(
    one => one.__data__?.datum).filter(one => one?.said && one.platform).map(one => one.platform))]"""
_LIT = """() => [...new Set([...document.querySelectorAll(".drawing svg *:not(g)")].filter(
    one => !one.classList.contains("back")).map(one => one.__data__?.datum?.platform).filter(Boolean))]"""


@dataclass
class Visit:
    """One page in a window of its own."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked_for: list[str] = field(default_factory=list)

    def figure(self, name: str) -> str:
        """A selector of the figure's drawing, once the figure is in view and drawn by the page's scripts."""
        self.page.locator(f"#figure-{name}").scroll_into_view_if_needed()
        self.page.wait_for_selector(f"#figure-{name}.drawn .drawing", state="attached")
        return f"#figure-{name} .drawing"

    def draw_all(self) -> list[str]:
        """Each figure that scripts draw is brought into view and waited for; their names."""
        names = self.page.eval_on_selector_all("figure:has(script.specification)", "all => all.map(one => one.id)")
        for name in names:
            self.figure(str(name).removeprefix("figure-"))
        return [str(name) for name in names]

    def violations(self, *rules: str) -> list[str]:
        """What axe has against the whole page as it is now, by these rules; none: by all of its own."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        options = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
        found: dict[str, Any] = self.page.evaluate("options => axe.run(document, options)", options)
        return [f"{one['id']}: {node['target']}" for one in found["violations"] for node in one["nodes"]]

    def toggle(self, group: str, name: str) -> None:
        """Press a button of the filter, which is opened before."""
        if not self.page.locator("aside details[open]").count():
            self.page.locator("aside summary").click()
        self.page.get_by_role("group", name=group).get_by_role("button", name=name, exact=True).click()

    def mark(self, drawing: str) -> ElementHandle:
        """A mark of netns that a pointer reaches, in view."""
        found = self.page.evaluate_handle(_SOME_MARK, drawing).as_element()
        assert found is not None
        return found

    def drawn_platforms(self, drawing: str) -> list[str]:
        """Whose marks a drawing has."""
        return [str(one) for one in self.page.evaluate(_PLATFORMS_DRAWN, drawing)]

    def wait_for(self, platform: str, drawing: str, *, drawn: bool) -> None:
        """Until the drawing has marks of the platform, or has none of them."""
        condition = f"([one, name, drawn]) => ({_PLATFORMS_DRAWN})(one).includes(name) === drawn"
        self.page.wait_for_function(condition, arg=[drawing, platform, drawn])

    def lit(self) -> list[str]:
        """The platforms whose marks are not in the background."""
        return [str(one) for one in self.page.evaluate(_LIT)]

    def visible(self, selector: str) -> list[str]:
        """The text of each element that can be seen, trimmed."""
        found = self.page.locator(selector).filter(visible=True).all_inner_texts()
        return [one.strip() for one in found]


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; as root in a container it has no sandbox of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visit(
    browser: Browser,
    page: Path,
    *,
    width: int = 1100,
    scheme: Literal["light", "dark"] = "light",
    scripts: bool = True,
    touch: bool = False,
) -> Iterator[Visit]:
    """The page in a window so wide, with or without scripts, of a machine with or without a touch screen."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts, has_touch=touch
    )
    opened = Visit(context.new_page())
    opened.page.on("console", lambda one: opened.said.append(f"{one.type}: {one.text}"))
    opened.page.on("pageerror", lambda one: opened.said.append(str(one)))
    opened.page.on("request", lambda one: opened.asked_for.append(one.url))
    try:
        opened.page.goto(page.as_uri())
        yield opened
    finally:
        context.close()


def assert_whole(browser: Browser, page: Path, figure: str, width: int) -> None:
    """At this width and in either light nothing is too wide, against a rule, complained of or loaded."""
    with visit(browser, page, width=width) as here:
        assert f"figure-{figure}" in here.draw_all()
        here.page.locator("aside summary").click()
        assert here.page.evaluate("document.documentElement.scrollWidth") <= width
        assert here.violations() == []
        here.page.emulate_media(color_scheme="dark")
        assert here.violations("color-contrast") == [], "nothing else depends on it"
        assert here.said == []
        assert here.asked_for == [page.as_uri()]


def assert_whole_without_scripts(browser: Browser, page: Path, heads: str) -> None:
    """Figures and names are there, `heads` among them, and nothing that scripts would have to answer."""
    with visit(browser, page, scripts=False) as here:
        figures = here.page.locator("figure:has(script.specification)").count()
        assert figures > 0
        assert here.page.locator("figure .static svg").filter(visible=True).count() >= figures
        assert here.page.locator("button, input, select, aside").count() == 0
        assert "netns" in here.page.locator(heads).all_text_contents()
        assert here.page.locator("figure:has(script.specification) .static svg text").count() > 0
