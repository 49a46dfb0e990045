"""What a large run's page leaves out is in a file beside it, and what is looked up is what a scan finds."""

import dataclasses
import math
import random
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.analyses import with_parts
from tests.support.drawings import render
from tests.support.facts import Command, assert_facts, refused
from tests.support.report_page import Page, page_of
from tests.support.report_tables import csv_rows
from tests.support.specifications import data_of, panels_of
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.errors import RunFolderError
from virtoll.report.drawing import inline
from virtoll.report.figures import FIGURES, figures_of
from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.style import Width
from virtoll.report.report_input import ReportInput
from virtoll.report.sections.evidence.order_figure import MOST_MARKERS
from virtoll.runfolder import jsonlines
from virtoll.runfolder.records import PlannedTrial
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.drift import OrderedValue
from virtoll.stats.values import TasksOf, canonical

MOST_LINES = 200  # of a list on the page
SMALL = Truth(
    REALISTIC,
    frame_sizes=(64,),
    threads=(1, 2),
    failures={("runc", "masr", 1): "failed", ("netns", "superpi", 0): "invalid"},
    unavailable={"qemu-tcg-e1000": "there is no QEMU here"},
)


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    """Of a run with trials of every kind of end."""
    return analyse(run_data(SMALL))


def plan_on(page: Page, planned: Sequence[PlannedTrial]) -> tuple[list[str], list[str]]:
    """The lines of the list that begins with the first planned trial, and the links below it."""
    first = {planned[0].platform, planned[0].workload}
    for details in page.part("record").iter("details"):
        lines = [line for pre in details.iter("pre") for line in (pre.text or "").split("\n") if line]
        if lines and first <= set(re.findall(r"[\w-]+", lines[0])):
            return lines, [one.get("href", "") for one in details.iter("a")]
    raise AssertionError("the page has no plan")


def test_a_long_plan_is_cut_on_the_page_and_whole_in_its_file() -> None:
    jobs: dict[str, dict[str, float]] = {"native": {}, "native-again": {}, "netns": {}}
    analysis = analyse(run_data(Truth(jobs, blocks=30, frame_sizes=(64,), stop_after=60)))
    planned = analysis.data.manifest.plan.trials
    lines, links = plan_on(page_of(analysis), planned)
    assert len(lines) == MOST_LINES < len(planned)
    assert links == ["tables/plan.csv"]
    columns = ("trial", "platform", "workload", "parameters")
    assert [tuple(row[column] for column in columns) for row in csv_rows(analysis, "plan")] == [
        (str(one.trial), one.platform, one.workload, canonical(one.parameters)) for one in planned
    ]


def test_a_short_plan_is_whole_on_the_page(analysis: Analysis) -> None:
    planned = analysis.data.manifest.plan.trials
    lines, links = plan_on(page_of(analysis), planned)
    assert (len(lines), links) == (len(planned), [])
    commands = csv_rows(analysis, "commands")
    assert shlex.split(commands[0]["command"]) == ["qemu-system-x86_64", "-append", "console=ttyS0 <quiet> & more"]
    assert len(commands) == len(analysis.data.commands)


def test_a_lookup_gives_what_a_scan_gives(analysis: Analysis) -> None:
    of = TasksOf(analysis.tasks)
    for trial in analysis.data.every_trial:
        assert list(of(trial)) == [task for task in analysis.tasks if task.is_of(trial)]
    both = (*analysis.comparisons, *analysis.control)
    for platform in (*analysis.platforms, "none"):
        for task in analysis.tasks:
            assert analysis.comparison(platform, task) is next(
                (one for one in both if (one.platform, one.task) == (platform, task)), None
            )
            wanted = platform, task.parameters
            assert analysis.curve(platform, task) is next(
                (one for one in analysis.curves if (one.platform, one.parameters) == wanted), None
            )


def test_why_a_cell_is_empty_is_what_its_trials_say(analysis: Analysis) -> None:
    reasons = {(one.platform, one.task.workload): one.reason for one in analysis.comparisons if one.share is None}
    assert {platform for platform, _ in reasons} == {"qemu-tcg-e1000"}
    (reason,) = set(reasons.values())
    assert_facts(reason, "qemu-tcg-e1000", Command(SMALL.unavailable["qemu-tcg-e1000"]))
    failing = analyse(run_data(dataclasses.replace(SMALL, failures={("runc", "masr", n): "failed" for n in range(3)})))
    told = {(one.platform, one.task.workload): one.reason for one in failing.comparisons if one.share is None}
    (recorded,) = {one.reason for one in failing.data.trials if one.status == "failed"}
    assert_facts(told["runc", "masr"], "runc", "failed", Command(recorded))


@pytest.mark.parametrize("two", [({"a": 1}, {"a": 1.0}), ({"a": 1}, {"a": True}), ({"a": "1"}, {"a": 1})])
def test_parameters_that_only_seem_equal_have_texts_of_their_own(two: tuple[dict[str, object], ...]) -> None:
    for _ in range(2):
        assert len({canonical(one) for one in two}) == 2
    assert canonical({"b": [1], "a": "é"}) == canonical({"a": "é", "b": [1]}) == '{"a": "é", "b": [1]}'


def many(analysis: Analysis, count: int, **changed: Any) -> Analysis:
    """The analysis with so many values in the order of the trials."""
    dice, first = random.Random(1), analysis.order[0]
    order = tuple(
        OrderedValue(
            first.observation._replace(platform=dice.choice(analysis.platforms), position=place),
            math.exp(dice.gauss(0, 0.01)),
            outlier=place % 100 == 0,
        )
        for place in range(count)
    )
    return with_parts(analysis, order=order, **changed)


def ends_of_paths(svg: str) -> list[int]:
    """How many dots each path of a drawing has, where it has several."""
    found = (path.count("Z") for path in re.findall(r' d="((?:M[^MLZ"]*Z)+)"', svg))
    return [dots for dots in found if dots > 1]


def test_thousands_of_values_are_dots_and_fewer_are_markers(analysis: Analysis) -> None:
    few, more = many(analysis, MOST_MARKERS), many(analysis, MOST_MARKERS + 1)
    drawn = render("order", FIGURES["order"], few), render("order", FIGURES["order"], more)
    assert ends_of_paths(drawn[0].svg) == []
    assert sum(ends_of_paths(drawn[1].svg)) == MOST_MARKERS + 1
    assert len(drawn[1].svg) < len(drawn[0].svg) / 2
    assert len(drawn[1].specification or "") < len(drawn[0].specification or "") / 2
    assert len(drawn[1].pdf) < len(drawn[0].pdf) * 2


def test_dots_have_every_value_with_its_place_and_outliers_their_words(analysis: Analysis) -> None:
    found = many(analysis, MOST_MARKERS + 1, caveats={"runc": "no result"})
    spec = FIGURES["order"]
    assert isinstance(spec, FigureSpec)
    specification = spec.draw(found, Width.PAGE)
    panel, data = panels_of(specification)[0], data_of(specification)
    dots, outliers = [one for one in data if "outlier" not in one], [one for one in data if "outlier" in one]
    drawn = [
        (one["platform"], float(x), float(y))
        for one in dots
        for x, y in re.findall(r"M([\d.]+),([\d.]+)h0", one["dots"])
    ]
    own = [(one.observation, one) for one in found.order]
    (left, right), (low, high) = (panel["encoding"][channel]["scale"]["domain"] for channel in "xy")
    for (of, one), (platform, x, y) in zip(own, sorted(drawn, key=lambda dot: dot[1]), strict=True):
        assert platform == of.platform
        assert x == pytest.approx((of.position - left) / (right - left) * panel["width"], abs=0.06)
        kept = min(max(100 * one.relative, low), high)
        assert y == pytest.approx((high - kept) / (high - low) * panel["height"], abs=0.06)
    assert [(one["platform"], one["position"]) for one in outliers] == [
        (of.platform, of.position) for of, one in own if one.outlier
    ]
    assert all("outlier" in one["said"] for one in outliers)
    assert {one["platform"] for one in dots if "caveat" in one} == {"runc"}
    # Those of a platform with a caveat are open: a light dot is on each.
    runc = sum(one.observation.platform == "runc" for one in found.order)
    assert sum(ends_of_paths(render("order", spec, found).svg)) == len(found.order) + runc


def test_the_drawing_on_the_page_has_all_that_the_file_has(analysis: Analysis) -> None:
    for name, spec in figures_of(ReportInput(analysis)).items():
        if spec.why_not(analysis) is not None:
            continue
        drawing = render(name, spec, analysis)
        small = inline(drawing, "a figure")
        identifiers = re.findall(r'\bid="([^"]+)"', small)
        referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', small))
        assert len(identifiers) == len(set(identifiers)), name
        assert referred <= set(identifiers), name
        assert all(one.startswith(f"{name}-") for one in identifiers), name
        shown = re.sub(r"<defs><path id.*?</defs>", "", small)  # an outline that comes often is defined once
        assert shown.count("<path") + shown.count("<use") == drawing.svg.count("<path"), name


def test_lines_are_read_one_by_one_and_a_torn_one_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    for text, expected in (
        (b"", []),
        (b'{"a": 1}', []),
        (b'{"a": 1}\n', [(1, b'{"a": 1}')]),
        (b'{"a": 1}\n{"a"', [(1, b'{"a": 1}')]),
        (b'{"a": 1}\n{"a"\n', [(1, b'{"a": 1}')]),
        (b'{"a"\n{"a": 2}\n', [(1, b'{"a"'), (2, b'{"a": 2}')]),
        (b'{"a": 1}\n{"a"\n{"a', [(1, b'{"a": 1}')]),
        (b"\0\0\n", []),
    ):
        file.write_bytes(text)
        assert list(jsonlines.read(file)) == expected, text
    with refused(tmp_path, error=RunFolderError):
        list(jsonlines.read(tmp_path))


def test_a_task_is_not_of_a_trial_with_other_parameters(analysis: Analysis) -> None:
    trial = next(one for one in analysis.data.trials if one.workload == "masr")
    other = trial.replace(parameters={**trial.parameters, "size_bytes": 1})
    of = TasksOf(analysis.tasks)
    assert [task.workload for task in of(trial)] == ["masr"]
    assert list(of(other)) == []
