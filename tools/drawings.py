#!/usr/bin/env python3
"""Draws the pictures of docs/explanation, as SVG with plain text in it.

`.venv/bin/python tools/drawings.py` writes each of `DRAWINGS` to `docs/images/explanation/`. What they show is made up
and says so; verdicts and their words are those of the package, by its own functions. It measures nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Final

from virtoll.report.words import said
from virtoll.runfolder.records import MetricRecord
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.hops import HOSTS_OWN, Owner, Segment
from virtoll.stats.values import Task
from virtoll.stats.verdicts import Rules, decide

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "docs" / "images" / "explanation"
FONT: Final = "Liberation Sans, Arimo, Arial, Helvetica, Nimbus Sans, sans-serif"
INK, GREY, PALE = "#1a1a1a", "#6b6b6b", "#ececec"
BLUE, ORANGE, GREEN = "#0b62a8", "#b84a00", "#1f5f3a"
COLOURS: Final = {Verdict.SLOWER: ORANGE, Verdict.ALIKE: GREEN, Verdict.UNKNOWN: BLUE}


@dataclass
class Drawing:
    """An SVG of a size in pixels, which is what it was given in order."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def line(self, start: tuple[float, float], end: tuple[float, float], colour: str = GREY, width: float = 1) -> None:
        """A straight line."""
        (x1, y1), (x2, y2) = start, end
        self.parts.append(
            f'<path d="M{x1:.1f},{y1:.1f}L{x2:.1f},{y2:.1f}" stroke="{colour}" stroke-width="{width:g}" fill="none"/>'
        )

    def arrow(self, start: tuple[float, float], end: tuple[float, float], colour: str = GREY) -> None:
        """A line with a head at its end."""
        self.line(start, end, colour, 1.5)
        (x1, y1), (x2, y2) = start, end
        angle = math.atan2(y2 - y1, x2 - x1)
        wings = [(x2 - 7 * math.cos(angle + turn), y2 - 7 * math.sin(angle + turn)) for turn in (-0.45, 0.45)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in ((x2, y2), *wings))
        self.parts.append(f'<polygon points="{points}" fill="{colour}"/>')

    def box(self, corner: tuple[float, float], size: tuple[float, float], fill: str, edge: str = "none") -> None:
        """A rectangle by its upper left corner."""
        (x, y), (width, height) = corner, size
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" stroke="{edge}"/>'
        )

    def dot(self, at: tuple[float, float], colour: str, radius: float = 3) -> None:
        """A filled circle."""
        self.parts.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="{radius:g}" fill="{colour}"/>')

    def text(self, at: tuple[float, float], words: str, colour: str = INK, anchor: str = "start") -> None:
        """One line of text; ``anchor``: start, middle or end."""
        self.parts.append(
            f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" fill="{colour}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def written(self) -> str:
        """The whole file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" role="img" '
            f'viewBox="0 0 {self.width} {self.height}" font-family="{FONT}" font-size="13">'
        )
        plate = '<rect width="100%" height="100%" fill="#ffffff"/>'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", plate, *self.parts, "</svg>"]) + "\n"


# Nine blocks' deviations, whose mean is 0 and whose standard deviation is 1.
_NINE: Final = tuple(value / math.sqrt(7.5) for value in (-2, 3, -1, 4, -4, 1, -3, 2, 0))
_METRIC: Final = MetricRecord("superpi", "duration", "ns", "lower", "marks", title="Super Pi", resource="CPU")


def made_up(name: str, factor: float, noise: float) -> Comparison:
    """A platform whose jobs take `factor` times as long as the baseline's; `noise`: the SD of blocks."""
    pairs = tuple((block, math.exp(-math.log(factor) + noise * own)) for block, own in enumerate(_NINE))
    return Comparison(name, Task("superpi", _METRIC, "{}", ""), Verdict.UNKNOWN, pairs, 1 / factor)


@dataclass(frozen=True)
class Axis:
    """Shares on a logarithmic axis from `left` to `right`, in pixels."""

    left: float = 180
    right: float = 550
    low: float = 1 / 2.6
    high: float = 1.35

    def at(self, share: float) -> float:
        """The place of a share."""
        part = math.log(share / self.low) / math.log(self.high / self.low)
        return self.left + part * (self.right - self.left)


_TICKS: Final = (
    (1 / 2, "2 times slower"),
    (1 / 1.5, "1.5 times"),
    (1 / 1.25, "25 %"),
    (1, "native"),
    (1.25, "25 % faster"),
)


def rows(title: str, told: Sequence[tuple[str, Comparison]], note: str) -> Drawing:
    """A row for each comparison: its blocks, both intervals, and what is said of it."""
    axis, top, step = Axis(), 44, 44
    bottom = top + step * len(told)
    drawing = Drawing(880, bottom + 74, title)
    drawing.text((14, 22), title)
    drawing.box((axis.at(1 / 1.1), top - 8), (axis.at(1.1) - axis.at(1 / 1.1), bottom - top + 8), PALE)
    for share, words in _TICKS:
        drawing.line((axis.at(share), top - 8), (axis.at(share), bottom + 4), INK if share == 1 else "#cccccc")
        drawing.text((axis.at(share), bottom + 20), words, GREY, "middle")
    for place, (name, one) in enumerate(told):
        y = top + step * place + 18
        colour = COLOURS[one.verdict]
        drawing.text((14, y + 4), name)
        assert one.interval is not None
        assert one.simultaneous is not None
        assert one.share is not None
        drawing.line((axis.at(one.simultaneous.low), y), (axis.at(one.simultaneous.high), y), colour, 1.5)
        drawing.line((axis.at(one.interval.low), y), (axis.at(one.interval.high), y), colour, 6)
        drawing.line((axis.at(one.share), y - 8), (axis.at(one.share), y + 8), INK, 2)
        for _, share in one.pairs:
            drawing.dot((axis.at(share), y + 14), GREY, 1.8)
        drawing.text((570, y + 4), said(one).text, colour)
    drawing.text((14, bottom + 42), "dots: nine blocks · stroke: their mean · bar: 95 % interval by itself", GREY)
    drawing.text((14, bottom + 60), f"line: interval that holds with all others of the run · {note}", GREY)
    return drawing


def verdicts() -> Drawing:
    """The four things that are said of a comparison."""
    given = [made_up(*one) for one in (("A", 1.8, 0.10), ("B", 1.04, 0.02), ("C", 1.01, 0.05), ("D", 1.10, 0.16))]
    told, _ = decide(given, [], Rules())
    return rows("Four platforms, made up", [(one.platform, one) for one in told], "grey: within 10 %")


def noise() -> Drawing:
    """The same platform on a quiet host and on a noisy one, each with its A/A control."""
    told: list[tuple[str, Comparison]] = []
    for host, spread in (("quiet host", 0.04), ("noisy host", 0.28)):
        compared, control = decide([made_up("runc", 1.2, spread)], [made_up("native-again", 1.01, spread)], Rules())
        told += [(f"{host}: {one.platform}", one) for one in (*control, *compared)]
    return rows("A container that is 20 % slower, on two hosts, made up", told, "grey: within 10 %")


def correction() -> Drawing:
    """The same comparison as one of 1, 10 and 100."""
    told = []
    for size in (1, 10, 100):
        others = [made_up(f"other {number}", 1.0, 0.15) for number in range(size - 1)]
        (first, *_), _ = decide([made_up("runc", 1.2, 0.15), *others], [], Rules())
        told.append(("the only comparison" if size == 1 else f"one of {size}", first))
    return rows("One container, 20 % slower, made up", told, "grey: within 10 %")


def _slope(time: float) -> float:
    """How long the host's job takes, in ms, as the made-up host grows slower from time 0 to 1."""
    return 100 * (1 + 0.4 * time)


def blocks() -> Drawing:
    """The same drifting host, measured platform after platform and in blocks."""
    drawing = Drawing(880, 292, "A host that becomes slower, measured in two orders")
    for left, words in ((60, "one platform after the other"), (480, "in blocks")):
        drawing.text((left, 24), words)
        drawing.line((left, 200), (left + 340, 200))
        drawing.line((left, 200), (left, 44))
        drawing.text((left + 340, 218), "time", GREY, "end")
        for milliseconds in (100, 150):
            y = 200 - (milliseconds - 80) * 1.6
            drawing.text((left - 6, y + 4), f"{milliseconds}", GREY, "end")
            drawing.line((left, y), (left + 340, y), PALE)
    drawing.text((14, 42), "ms", GREY)
    order = ["native"] * 6 + ["runc"] * 6
    pairs = [name for block in range(6) for name in (("native", "runc") if block % 2 else ("runc", "native"))]
    for left, names in ((60, order), (480, pairs)):
        values: dict[str, list[float]] = {"native": [], "runc": []}
        for place, name in enumerate(names):
            value = _slope(place / 11) * (1.1 if name == "runc" else 1)
            values[name].append(value)
            drawing.dot((left + 20 + place * 27, 200 - (value - 80) * 1.6), ORANGE if name == "runc" else BLUE, 5)
        ratios = [runc / native for native, runc in zip(values["native"], values["runc"], strict=True)]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        drawing.text((left, 244), f"measured: runc {100 * (mean - 1):.0f} % slower; the truth: 10 %")
    drawing.dot((68, 270), BLUE, 5)
    drawing.text((80, 274), "native")
    drawing.dot((148, 270), ORANGE, 5)
    drawing.text((160, 274), "runc")
    drawing.text((866, 274), "made up: the host's own job takes 40 % longer at the end", GREY, "end")
    return drawing


def outside_clock() -> Drawing:
    """A job's two marks on the guest's time line and on the peer's."""
    drawing = Drawing(880, 236, "A job, timed by marks outside the guest")
    for y, name in ((70, "guest"), (150, "network peer")):
        drawing.text((14, y + 4), name)
        drawing.line((120, y), (840, y))
    drawing.box((250, 56), (420, 28), PALE, GREY)
    drawing.text((460, 75), "job", INK, "middle")
    drawing.text((216, 48), "pause", GREY, "middle")
    for start, words, anchor in ((180, "start mark", "middle"), (690, "end mark", "middle")):
        drawing.arrow((start, 70), (start + 24, 148), ORANGE)
        drawing.text((start, 48 if start == 690 else 30), words, ORANGE, anchor)
        drawing.dot((start + 24, 150), ORANGE, 4)
    drawing.line((204, 164), (204, 182), ORANGE)
    drawing.line((714, 164), (714, 182), ORANGE)
    drawing.arrow((459, 173), (206, 173), ORANGE)
    drawing.arrow((459, 173), (712, 173), ORANGE)
    drawing.text((459, 196), "duration: between two stamps of one kernel, less the pause", ORANGE, "middle")
    drawing.text(
        (14, 224), "The guest's clock is read too: how far it differs is a result, and corrects nothing.", GREY
    )
    return drawing


def lost_frames() -> Drawing:
    """The books of one point, made up, and what two neighbours' counters tell."""
    drawing = Drawing(880, 240, "Where frames are lost: what one station counted and the next did not")
    stations = (
        ("generator", "sent", 1000),
        ("guest's link", "received", 1000),
        ("guest, in", "received", 960),
        ("guest, out", "sent", 910),
        ("sink's link", "received", 910),
        ("sink", "received", 907),
    )
    between = (Segment.ENTRY_RING, Segment.PORT, Segment.GUEST, Segment.ATTACHMENT_OUT, Segment.SINK_RING)
    for place, (name, counted, frames) in enumerate(stations):
        left = 14 + place * 148
        drawing.box((left, 40), (108, 58), PALE, GREY)
        drawing.text((left + 54, 63), name, INK, "middle")
        drawing.text((left + 54, 85), f"{counted} {frames}", GREY, "middle")
        if place == len(between):
            break
        drawing.arrow((left + 110, 69), (left + 145, 69))
        lost = frames - stations[place + 1][2]
        if lost:
            middle = left + 128
            drawing.arrow((middle, 72), (middle, 118), ORANGE)
            drawing.text((middle, 135), f"{lost} lost", ORANGE, "middle")
            drawing.text((middle, 153), between[place], GREY, "middle")
            owner = Owner.HOST if between[place] in HOSTS_OWN else "the platform's"
            drawing.text((middle, 171), owner, INK, "middle")
    drawing.text((14, 24), "One point, 1000 frames, made up")
    lost = stations[0][2] - stations[-1][2]
    drawing.text((14, 204), f"The books: offered 1000 = forwarded {stations[-1][2]} + lost {lost}.")
    drawing.text((14, 224), "Losses at the generator, in the sink's ring and in the sink are the host's own.", GREY)
    return drawing


DRAWINGS: Final[dict[str, Callable[[], Drawing]]] = {
    "blocks.svg": blocks,
    "correction.svg": correction,
    "lost-frames.svg": lost_frames,
    "noise.svg": noise,
    "outside-clock.svg": outside_clock,
    "verdicts.svg": verdicts,
}


def main() -> None:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (FOLDER / name).write_text(draw().written(), encoding="utf-8")


if __name__ == "__main__":
    main()
