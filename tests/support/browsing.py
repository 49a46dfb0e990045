"""A page of a report in a real browser: Debian's headless Chromium, which is told what to do by Playwright.

Main type: `Visit`, an opened page with what it complained of and asked for. It waits for conditions, never for a time.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = "/usr/bin/chromium-headless-shell"  # of the Debian package of that name (tools/setup.py --dev)
AXE = Path(__file__).with_name("axe-core") / "axe.min.js"


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
