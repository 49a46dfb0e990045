"""Figures of the guests themselves: what their specifications hold is the analysis's, in words and in numbers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.made_up_run import Made, made_up_run
from tests.support.specifications import data_of, legend_of, panels_of

from virtoll import units
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.report.drawing import render
from virtoll.report.figures import FIGURES
from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.style import Specification, Width
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import Analysis, analyse

NESTED = "xen"
JOBS = {"native": 1.0, "netns": 1.1, NESTED: 6.0}


def of(name: str, analysis: Analysis, width: Width = Width.PAGE) -> Specification:
    """What a figure draws."""
    spec = FIGURES[name]
    assert isinstance(spec, FigureSpec)
    assert spec.why_not(analysis) is None
    return spec.draw(analysis, width)


def side_by_side(guests: Sequence[int], vcpus: Sequence[int]) -> Analysis:
    """A run with so many guests at once of so many virtual CPUs, whose CPU time was read; one platform is nested."""
    platforms: dict[str, dict[str, Any]] = {label: {} for label in JOBS}
    platforms[NESTED] = {"host": "nested xen", "caveat": FUNCTIONAL_ONLY}
    measured = [
        Made(label, "superpi", {}, 1e9 * cost * number / cpus, scale=ScalePoint(number, cpus, 128 << 20))
        for label, cost in JOBS.items()
        for number in guests
        for cpus in vcpus
        if (label, number) != (NESTED, max(guests)) or len(guests) == 1
    ]
    found = analyse(made_up_run(platforms, measured, blocks=3))
    rows = tuple(replace(row, cpu_ns=0.9 * row.each * row.point.vcpus) for row in found.at_once.rows)
    return replace(found, at_once=replace(found.at_once, rows=rows))


def test_guests_at_once_have_what_all_do_and_what_one_does() -> None:
    analysis = side_by_side((1, 2, 4), (1,))
    figure = of("guests-at-once", analysis)
    together, each = panels_of(figure)
    for panel, values in (
        (together, {(row.platform, row.point.guests): row.together for row in analysis.at_once.rows}),
        (each, {(row.platform, row.point.guests): row.each / 1e9 for row in analysis.at_once.rows}),
    ):
        told = {(one["platform"], one["place"]): one for one in panel["data"]["values"]}
        assert {key: one["value"] for key, one in told.items()} == pytest.approx(values, rel=1e-5)
        assert (NESTED, 4) not in told
        for one in told.values():
            assert one["workload"] == "superpi"
            assert ("caveat" in one) is (one["platform"] == NESTED)
    for row in analysis.at_once.rows:
        said = told[row.platform, row.point.guests]["said"]
        assert f"{row.point.label}, {row.task.label}: all together {units.rate(row.together or 0, 'jobs/s')}" in said
        assert f"one guest {units.nanoseconds(row.each)}, medians over {row.trials} trials" in said
    titles = [panel["layer"][0]["encoding"]["y"]["axis"]["title"] for panel in (together, each)]
    assert titles == ["all together, jobs/s", "one guest, s"]
    assert legend_of(figure) == ["native", "netns", f"{NESTED} †", f"† ×  {FUNCTIONAL_ONLY}"]
    (task,) = analysis.at_once.tasks
    assert figure["vconcat"][0]["title"] == [task.label]


def test_each_number_of_virtual_cpus_has_a_line_as_wide_as_in_the_legend() -> None:
    analysis = side_by_side((1, 2), (1, 2))
    figure = of("guests-at-once", analysis)
    widths = {
        f"{label} †" if label == NESTED else label: sorted({one["width"] for one in data_of(figure)}) for label in JOBS
    }
    assert all(len(own) == 2 for own in widths.values())
    told = {one["label"]: one.get("width") for one in figure["vconcat"][-1]["data"]["values"]}
    for label, (thin, thick) in widths.items():
        assert (told[f"{label}, 1 vCPU"], told[f"{label}, 2 vCPUs"]) == (thin, thick)
    lines = [one for one in panels_of(figure)[0]["layer"] if one["mark"]["type"] == "line"]
    assert lines[0]["encoding"]["detail"]["field"] == "width"


def test_over_virtual_cpus_are_the_value_and_the_time_of_the_hosts_cpus() -> None:
    analysis = side_by_side((1, 2), (1, 2))
    figure = of("over-vcpus", analysis)
    rows = {(row.platform, row.point.guests, row.point.vcpus): row for row in analysis.at_once.rows}
    panels, titles = panels_of(figure), [part.get("title") for part in figure["vconcat"][:-1]]
    label = analysis.at_once.tasks[0].label
    assert titles == [[label], [f"{label}, 2 guests"]]
    for guests, (value, cpu) in zip((1, 2), (panels[:2], panels[2:]), strict=True):
        for panel in (value, cpu):
            own = {(one["platform"], one["place"]): one for one in panel["data"]["values"]}
            assert set(own) == {(one, vcpus) for one, number, vcpus in rows if number == guests}
            for (platform, vcpus), one in own.items():
                row = rows[platform, guests, vcpus]
                shown = row.each if panel is value else row.cpu_ns or 0
                assert one["value"] == pytest.approx(shown / 1e9, rel=1e-5)
                assert f"one guest {units.nanoseconds(row.each)}" in one["said"]
                assert f"CPU time of a guest {units.nanoseconds(row.cpu_ns or 0)}" in one["said"]
    named = [panel["layer"][0]["encoding"]["y"] for panel in panels]
    assert [one["axis"]["title"] for one in named] == ["one guest, s", "host CPU time of a guest, s"] * 2
    assert all(one["scale"]["domain"][0] == 0 for one in named)
    assert f"{NESTED} †" in legend_of(figure)


def test_without_cpu_time_the_value_alone_is_drawn() -> None:
    analysis = side_by_side((1,), (1, 2))
    rows = tuple(replace(row, cpu_ns=None) for row in analysis.at_once.rows)
    unread = replace(analysis, at_once=replace(analysis.at_once, rows=rows))
    figure = of("over-vcpus", unread)
    assert len(panels_of(figure)) == 1
    assert not any("CPU time" in one["said"] for one in data_of(figure))


@pytest.mark.parametrize("name", ["guests-at-once", "over-vcpus"])
def test_the_sign_of_a_caveat_is_in_the_drawing(name: str) -> None:
    svg = render(name, FIGURES[name], side_by_side((1, 2), (1, 2))).svg
    assert f"{NESTED} †" in svg
    assert f"† ×  {FUNCTIONAL_ONLY}" in svg
