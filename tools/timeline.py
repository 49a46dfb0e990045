#!/usr/bin/env python3
"""Draws when each test ran and prints where the time went, from the files that `make test` writes.

`.venv/bin/python tools/timeline.py` reads `build/timeline/*.jsonl` (a line for each phase of each test) and writes
`build/timeline/timeline.svg`: a row for each worker and each place for a lab, a bar for each test module, coloured by
room.
It prints a table of rooms and one of the modules that took longest: elapsed seconds and CPU seconds.
A test's CPU seconds are those of its process and of the children that it waited for.
Exit codes: 0, 2 where there is nothing to read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from virtoll.report.drawer import converter

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "build" / "timeline"
LONGEST: Final = 40


@dataclass(frozen=True)
class Phase:
    """One phase of one test: `start` and `stop` in seconds since the epoch."""

    test: str
    phase: str
    outcome: str
    start: float
    stop: float
    cpu_seconds: float
    lane: str

    @property
    def module(self) -> str:
        """As `report/test_page.py`."""
        return self.test.partition("::")[0].removeprefix("tests/")

    @property
    def room(self) -> str:
        """The folder of `tests/`."""
        return self.module.partition("/")[0]


@dataclass
class Bar:
    """All that one lane did for one module without a pause in between."""

    lane: str
    module: str
    start: float
    stop: float


def phases_of(files: Iterable[Path]) -> list[Phase]:
    """All phases of these files, by their start."""
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return sorted((Phase(**json.loads(line)) for line in lines), key=lambda phase: phase.start)


def bars_of(phases: Sequence[Phase]) -> list[Bar]:
    """The phases of one lane and module are one bar, unless another module came between."""
    last: dict[str, Bar] = {}
    bars: list[Bar] = []
    for phase in phases:
        bar = last.get(phase.lane)
        if bar is None or bar.module != phase.module:
            bar = last[phase.lane] = Bar(phase.lane, phase.module, phase.start, phase.stop)
            bars.append(bar)
        bar.stop = max(bar.stop, phase.stop)
    return bars


def in_rows(bars: Sequence[Bar]) -> list[Bar]:
    """Labs come and go: each lab gets the first row that is free when it starts. Workers keep their own."""
    span: dict[str, tuple[float, float]] = {}
    for bar in bars:
        if bar.lane.startswith("lab "):
            start, stop = span.get(bar.lane, (bar.start, bar.stop))
            span[bar.lane] = (min(start, bar.start), max(stop, bar.stop))
    free_from: list[float] = []
    rows: dict[str, str] = {}
    for lane, (start, stop) in sorted(span.items(), key=lambda entry: entry[1]):
        row = next((number for number, free in enumerate(free_from) if free <= start), len(free_from))
        free_from[row : row + 1] = [stop]
        rows[lane] = f"labs {row + 1}"
    return [Bar(rows.get(bar.lane, bar.lane), bar.module, bar.start, bar.stop) for bar in bars]


def drawing_of(bars: Sequence[Bar]) -> str:
    """An SVG of what ran when."""
    begin = min(bar.start for bar in bars)
    values = [
        {
            "row": bar.lane,
            "room": bar.module.partition("/")[0],
            "start": round((bar.start - begin) / 60, 4),
            "stop": round((bar.stop - begin) / 60, 4),
        }
        for bar in bars
    ]
    specification: Mapping[str, Any] = {
        "data": {"values": values},
        "mark": {"type": "bar", "stroke": "white", "strokeWidth": 0.3},
        "width": 1000,
        "height": {"step": 26},
        "encoding": {
            "x": {"field": "start", "type": "quantitative", "title": "minutes"},
            "x2": {"field": "stop"},
            "y": {"field": "row", "type": "nominal", "title": None},
            "color": {"field": "room", "type": "nominal", "scale": {"scheme": "tableau20"}},
        },
    }
    return str(converter().vegalite_to_svg(specification, config={"font": "Liberation Sans"}))


def table_of(title: str, groups: Mapping[str, Sequence[Phase]], most: int) -> str:
    """The groups that took longest, as Markdown."""
    rows = []
    for name, phases in groups.items():
        elapsed = sum(phase.stop - phase.start for phase in phases)
        used = sum(phase.cpu_seconds for phase in phases)
        rows.append((elapsed, used, len({phase.test for phase in phases}), name))
    lines = [f"| {title} | tests | elapsed s | CPU s |", "| --- | ---: | ---: | ---: |"]
    lines += [
        f"| {name} | {tests} | {elapsed:.0f} | {used:.0f} |" for elapsed, used, tests, name in sorted(rows)[::-1][:most]
    ]
    elapsed, used = sum(row[0] for row in rows), sum(row[1] for row in rows)
    lines.append(f"| all | {sum(row[2] for row in rows)} | {elapsed:.0f} | {used:.0f} |")
    return "\n".join(lines)


def main() -> int:
    """Draw and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    folder: Path = parser.parse_args().folder
    phases = phases_of(sorted(folder.glob("*.jsonl")))
    if not phases:
        print(f"{folder} has no timeline: run 'make test'", file=sys.stderr)
        return 2
    by_room: defaultdict[str, list[Phase]] = defaultdict(list)
    by_module: defaultdict[str, list[Phase]] = defaultdict(list)
    for phase in phases:
        by_room[phase.room].append(phase)
        by_module[phase.module].append(phase)
    picture = folder / "timeline.svg"
    picture.write_text(drawing_of(in_rows(bars_of(phases))), encoding="utf-8")
    print(table_of("room", by_room, len(by_room)))
    print()
    print(table_of("module", by_module, LONGEST))
    print(f"\n{(phases[-1].stop - phases[0].start) / 60:.1f} minutes; {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
