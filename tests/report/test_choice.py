"""Of a large run a figure draws the ends and the slowest, and says so; of a small one it draws all."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.support.drawings import render
from tests.support.facts import assert_facts
from tests.support.specifications import data_of, panels_of
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.report.figures import FIGURES
from virtoll.report.figures.choice import MOST_PANELS, MOST_ROWS
from virtoll.report.figures.style import Specification, Width
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.values import Task

LARGE = Truth(
    REALISTIC,
    frame_sizes=(64, 68, 504, 1500),
    egress=("one", "each"),
    threads=(1, 2, 4, 8),
    elements=(500_000, 1_000_000),
    margin=0.1,
)


@pytest.fixture(scope="module")
def large() -> Analysis:
    """More rows and panels than are drawn."""
    return analyse(run_data(LARGE))


def specification(name: str, analysis: Analysis) -> Specification:
    """What a figure draws on the page."""
    return FIGURES[name].draw(analysis, Width.PAGE)


def drawn_tasks(analysis: Analysis) -> list[Task]:
    """Those that *What it costs* has a row of, in order."""
    said = [one["said"] for one in data_of(specification("cost", analysis))]
    return [task for task in analysis.tasks if any(f", {task.label}: " in one for one in said)]


def of_metrics(tasks: list[Task]) -> dict[tuple[str, str], list[Task]]:
    """By metric of a workload."""
    found: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        found.setdefault((task.workload, task.metric.name), []).append(task)
    return found


def smallest_share(analysis: Analysis, task: Task) -> float:
    """Of any platform."""
    shares = (one.share for one in (*analysis.control, *analysis.comparisons) if one.task == task)
    return min(share for share in shares if share is not None)


def test_a_large_runs_cost_has_the_ends_and_what_is_slowest_of_each_metric(large: Analysis) -> None:
    drawn, every = of_metrics(drawn_tasks(large)), of_metrics(list(large.tasks))
    assert sum(map(len, every.values())) == len(large.tasks) > MOST_ROWS
    assert drawn.keys() == every.keys()
    for metric, tasks in every.items():
        slowest = min(tasks, key=lambda task: smallest_share(large, task))
        assert set(drawn[metric]) == {tasks[0], tasks[-1], slowest}
    count = sum(map(len, drawn.values()))
    caption = FIGURES["cost"].caption(large)
    assert_facts(caption, f"{count} of {len(large.tasks)}", "tables/comparisons.csv")


def test_a_slowest_one_anywhere_is_drawn(large: Analysis) -> None:
    tasks = of_metrics(list(large.tasks))["stream", "copy_rate"]
    for hidden in tasks[1:-1]:
        made = tuple(
            replace(one, share=0.001) if one.task == hidden and one.platform == "netns" else one
            for one in large.comparisons
        )
        assert hidden in drawn_tasks(replace(large, comparisons=made))


def test_a_platform_that_has_none_of_the_chosen_rows_gets_one(large: Analysis) -> None:
    only = of_metrics(list(large.tasks))["stream", "copy_rate"][2]
    kept = tuple(one for one in large.comparisons if one.platform != "runc" or one.task == only)
    found = replace(large, comparisons=tuple(replace(one, share=0.9) if one.task == only else one for one in kept))
    without = tuple(one for one in found.comparisons if one.platform != "runc")
    assert only not in drawn_tasks(replace(found, comparisons=without))
    assert only in drawn_tasks(found)


@pytest.mark.parametrize(("name", "table"), [("forwarding", "points"), ("throughput", "cells")])
def test_large_runs_panels_are_of_the_smallest_and_largest_frames(name: str, table: str, large: Analysis) -> None:
    panels = [one for one in panels_of(specification(name, large)) if "title" in one]
    titles = [one["title"]["text"] for one in panels]
    assert len(titles) == 4
    for size in (64, 1500):
        assert sum(f"{size} B" in title for title in titles) == 2
    sweeps = [task for task in large.tasks if task.metric.source == "points"]
    assert len(sweeps) == 8 > MOST_PANELS
    assert_facts(FIGURES[name].caption(large), "4 of 8", f"tables/{table}.csv")


@pytest.mark.parametrize("name", ["cost", "forwarding", "throughput"])
def test_a_small_runs_figures_have_all_and_say_nothing_of_a_choice(name: str) -> None:
    small = analyse(run_data(Truth(REALISTIC, frame_sizes=(64, 68, 504, 1004, 1500, 1504))))
    assert ".csv" not in FIGURES[name].caption(small)
    if name == "cost":
        assert drawn_tasks(small) == list(small.tasks)
    else:
        assert len([one for one in panels_of(specification(name, small)) if "title" in one]) == MOST_PANELS


def test_a_choice_is_drawn_and_is_the_browsers_too(large: Analysis) -> None:
    drawing = render("cost", FIGURES["cost"], large)
    rows = {one["row"] for one in data_of(json.loads(drawing.specification))}
    assert rows == set(range(len(drawn_tasks(large))))
    for task in drawn_tasks(large):
        assert task.label in drawing.page
