"""A page of a report as a tree: its parts by id, the text that a reader sees, and its tables' cells.

Main function: `read_page`. The order in which elements close is checked while the page is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder

from virtoll.claims import then_and_now
from virtoll.report.build import ledger_of
from virtoll.report.page import render_page
from virtoll.report.report_input import ReportInput
from virtoll.stats.analysis import Analysis

_VOID = frozenset({"meta", "br", "img", "link", "hr", "input"})
_UNSEEN = frozenset({"script", "style", "title"})


class Page:
    """The whole page."""

    def __init__(self, root: Element) -> None:
        self.root = root

    @property
    def ids(self) -> list[str]:
        """Every id, in order."""
        return [one.attrib["id"] for one in self.root.iter() if "id" in one.attrib]

    @property
    def tags(self) -> list[str]:
        """The kind of each element, in order."""
        return [one.tag for one in self.root.iter()]

    @property
    def text(self) -> str:
        """All that a reader sees."""
        return text_of(self.root)

    def values(self, *attributes: str) -> list[str]:
        """What these attributes of all elements hold."""
        return [text for one in self.root.iter() for name, text in one.attrib.items() if name in attributes]

    def part(self, identifier: str) -> Element:
        """The element with this id."""
        return next(one for one in self.root.iter() if one.get("id") == identifier)

    def text_at(self, identifier: str) -> str:
        """The text of the element with this id."""
        return text_of(self.part(identifier))

    def of_class(self, *names: str) -> list[Element]:
        """The elements with each of these classes."""
        return [one for one in self.root.iter() if set(names) <= set(one.get("class", "").split())]


def read_page(page: Path | str) -> Page:
    """Read a file, or the text itself."""
    reader = _Reader()
    reader.feed(page.read_text(encoding="utf-8") if isinstance(page, Path) else page)
    reader.close()
    assert reader.open == [], "elements that nothing closes"
    return Page(reader.tree.close())


def page_of(analysis: Analysis) -> Page:
    """The page of a run without its figures, whose drawing takes longest."""
    return read_page(render_page(ReportInput(analysis, ledger_of(analysis), then_and_now(analysis)), {}))


def text_of(element: Element) -> str:
    """What a reader sees of an element, with one space between words."""
    return " ".join(" ".join(_texts(element)).split())


def texts_of(element: Element) -> list[str]:
    """Each run of text in it, scripts left out."""
    return [" ".join(one.split()) for one in _texts(element)]


def rows_of(table: Element) -> list[list[str]]:
    """The text of each cell, row by row, the head first."""
    return [[text_of(cell) for cell in row if cell.tag in ("th", "td")] for row in table.iter("tr")]


def columns_of(table: Element, *heads: str) -> list[tuple[str, ...]]:
    """The rows' cells below these heads; a head is found by its beginning."""
    first, *rows = rows_of(table)
    places = [next(place for place, one in enumerate(first) if one.startswith(head)) for head in heads]
    return [tuple(row[place] for place in places) for row in rows]


def _texts(element: Element) -> Iterator[str]:
    if element.tag not in _UNSEEN:
        yield element.text or ""
        for child in element:
            yield from _texts(child)
            yield child.tail or ""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tree = TreeBuilder()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tree.start(tag, {name: value or "" for name, value in attrs})
        if tag in _VOID:
            self.tree.end(tag)
        else:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag
        self.tree.end(tag)

    def handle_data(self, data: str) -> None:
        self.tree.data(data)
