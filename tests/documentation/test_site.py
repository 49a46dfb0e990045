"""The documentation's site: built without a warning, every page is in it, and it needs nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.support.browsing import chromium, visit
from tests.support.commands import environment
from tests.support.repository import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md"))
_FROM_STYLE = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")


class Tags(HTMLParser):
    """The attributes of every tag of a page, in its order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it."""
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def asked_for(page: str) -> Iterator[str]:
    """What a browser fetches for this page of HTML: all but where a reader may go."""
    for tag, given in Tags(page).found:
        yield from (given[name] for name in ("src", "srcset", "data", "poster") if name in given)
        if tag == "link":
            yield given.get("href", "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make docs` makes it; links, anchors and pages that nothing lists are warnings, and so errors."""
    folder = tmp_path_factory.mktemp("site")
    options = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(folder / "doctrees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(DOCS), str(folder / "html")],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), "add a new page to a toctree of docs/index.md"
    return folder / "html"


def test_every_page_is_listed_beside_each_page(site: Path) -> None:
    """The list is the same on all pages: from the first one a reader gets anywhere."""
    tags = Tags((site / "index.html").read_text(encoding="utf-8")).found
    listed = {given.get("href", "") for tag, given in tags if tag == "a"}
    assert [page for page in PAGES if page != "index" and f"{page}.html" not in listed] == []


def test_the_site_asks_for_nothing_from_elsewhere(site: Path) -> None:
    pages = {path: asked_for(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    styles = {
        path: (one or other for one, other in _FROM_STYLE.findall(path.read_text(encoding="utf-8")))
        for path in site.rglob("*.css")
    }
    assert len(pages) >= len(PAGES)
    assert styles
    elsewhere = [
        f"{path.relative_to(site)}: {one}"
        for path, wanted in {**pages, **styles}.items()
        for one in wanted
        if re.match(r"(https?:)?//", one)
    ]
    assert elsewhere == []


def test_what_would_be_fetched_is_found() -> None:
    page = '<a href="https://a.org"></a><img src="https://b.org/x.png"><link rel=stylesheet href="//c.org/x.css">'
    assert list(asked_for(page)) == ["https://b.org/x.png", "//c.org/x.css"]
    assert _FROM_STYLE.findall("@import 'x.css'; a {src: url(\"y.woff\")}") == [("", "x.css"), ("y.woff", "")]


def test_a_page_is_found_from_a_folder_without_a_server(site: Path) -> None:
    """By the field of each page, and without a complaint of the browser."""
    with chromium() as browser, visit(browser, site / "index.html", width=1280) as opened:
        field = opened.page.locator("input[name=q]").first
        field.fill("consolidation ratio")
        field.press("Enter")
        results = opened.page.locator("#search-results ul.search a")  # which come one after the other
        results.filter(has_text="Glossary").first.wait_for()
        assert opened.said == []
        assert [one for one in opened.asked_for if not one.startswith(("file:", "data:"))] == []
