"""The figures of several parts: bars as a paper draws them, and values over a parameter. What is handed to the drawing
is the tables' numbers, and no run makes a figure that nobody can read."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.support.analyses import with_parts
from tests.support.drawings import render
from tests.support.facts import assert_facts
from tests.support.report_page import page_of
from tests.support.report_tables import csv_rows
from tests.support.specifications import assert_drawn, panels_of
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.report import words
from virtoll.report.figures import FIGURES, figures_of
from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.style import Specification, Width
from virtoll.report.report_input import ReportInput
from virtoll.report.sections.parameters.figure import Upright
from virtoll.runfolder.conditions import ALONE
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.over_parameters import ParameterPoint

LONG = "a-platform-with-a-label-that-nobody-would-call-short-or-even-reasonable"
TWELVE = {"native": {}, **{f"platform-{number}": {"cpu": 1.0 + number, "memory": 2.0} for number in range(11)}}
FAILED = {("netns", workload, block): "failed" for workload in ("masr", "stream") for block in range(3)}
GONE = Truth(
    REALISTIC | {"gone": {}},
    summary="mean-sd",
    unavailable={"gone": "no such thing"},
    failures=FAILED,
    threads=(1, 2, 4),
)


def parts(analysis: Analysis, series: str) -> dict[str, FigureSpec]:
    return {name: spec for name, spec in figures_of(ReportInput(analysis)).items() if name.startswith(f"{series}-")}


def panels(analysis: Analysis, series: str, width: Width = Width.PAGE) -> list[Specification]:
    """Those of every part, in order; the legend is no panel."""
    drawn = [spec.draw(analysis, width) for spec in parts(analysis, series).values()]
    return [panel for one in drawn for panel in panels_of(one)]


def bars(panel: Specification) -> dict[str, dict[str, Any]]:
    """A panel's data of bars by platform."""
    return {one["platform"]: one for one in panel["data"]["values"] if "value" in one}


def axis(panel: Specification, channel: str) -> Specification:
    """The definition of an axis, from the layer that has it first."""
    found = (one["encoding"][channel] for one in panel["layer"] if "axis" in (one["encoding"].get(channel) or {}))
    return cast("Specification", next(found))


@pytest.mark.parametrize("summary", ["mean-t95", "mean-sd", "median-drop-first"])
def test_bars_show_what_the_table_of_the_papers_summary_holds(summary: str) -> None:
    """Values in the unit of the axis; of a paper that draws shares, percent of the baseline."""
    analysis = analyse(run_data(replace(GONE, summary=summary)))
    table = csv_rows(analysis, "paper_summary")
    rows = {(row["platform"], row["workload"], row["parameters"], row["metric"]): row for row in table}
    shown = panels(analysis, "bars")
    assert len(shown) == len(analysis.paper.drawn) == 4 + 3 + 6, (
        "STREAM's two rates at each of three numbers of threads"
    )
    for panel, (task, _) in zip(shown, analysis.paper.drawn, strict=True):
        shown_bars, across = bars(panel), axis(panel, "x")
        unit = across["axis"]["title"].partition(",")[0]
        for platform in analysis.platforms:
            row = rows.get((platform, task.workload, task.parameters, task.metric.name))
            assert (platform in shown_bars) is (row is not None)
            if row is None:
                continue
            if summary == "median-drop-first":
                assert unit == "% of native"
                value = 100 * float(row["share_of_baseline"])
            else:
                scale = {"s": 1e9, "ms": 1e6, "µs": 1e3, "GB/s": 1e9, "kframes/s": 1e3}[unit]
                value = float(row["centre"]) / scale
            assert shown_bars[platform]["value"] == pytest.approx(value, rel=1e-5)
            assert platform in shown_bars[platform]["said"]
        first, last = across["scale"]["domain"]
        assert first == 0
        assert last > max(one["value"] for one in shown_bars.values())


@pytest.mark.parametrize(("low", "logarithmic"), [(0.0, False), (0.02, True), (5.0, True)])
def test_an_axis_that_does_not_begin_at_zero_is_logarithmic(low: float, logarithmic: bool) -> None:
    assert Upright(1.0, "GB/s", low, 9.0).logarithmic is logarithmic


def test_whiskers_end_where_the_summary_does() -> None:
    analysis = analyse(run_data(Truth(REALISTIC, summary="mean-sd")))
    task, _ = analysis.paper.drawn[0]
    own = next(row for row in analysis.paper.rows if (row.platform, row.task) == ("native", task)).summary
    bar = bars(panels(analysis, "bars")[0])["native"]
    ends = (own.low or 0) / 1e3, (own.high or 0) / 1e3
    assert (bar["low"], bar["high"]) == pytest.approx(ends, rel=1e-5)
    assert (bar["from"], bar["to"]) == (bar["low"], bar["high"])


def test_a_missing_value_is_a_word_and_no_bar() -> None:
    analysis = analyse(run_data(GONE))
    for panel, (task, _) in zip(panels(analysis, "bars"), analysis.paper.drawn, strict=True):
        there = {one["platform"]: one["missing"] for one in panel["data"]["values"] if "missing" in one}
        assert there["gone"] == "not available"
        failed = task.workload in ("masr", "stream")
        assert (there.get("netns") == "failed") is failed
        assert bars(panel).keys() == set(analysis.platforms) - there.keys()
        assert any(one["encoding"].get("text") == {"field": "missing"} for one in panel["layer"])


def test_a_panel_whose_baseline_has_no_value_has_its_own_unit() -> None:
    failures = {("native", "masr", block): "failed" for block in range(3)}
    analysis = analyse(run_data(Truth(REALISTIC, summary="median-drop-first", failures=failures)))
    units = {
        task.workload: axis(panel, "x")["axis"]["title"]
        for panel, (task, _) in zip(panels(analysis, "bars"), analysis.paper.drawn, strict=True)
    }
    assert_facts(units["masr"], "ms", "lower")
    assert_facts(units["superpi"], "% of native", "higher")
    ((_, spec),) = parts(analysis, "bars").items()
    assert_facts(spec.caption(analysis), "unit", "native")


def test_without_a_summary_or_a_value_there_are_no_bars() -> None:
    assert parts(analyse(run_data(Truth(REALISTIC))), "bars") == {}
    assert parts(analyse(run_data(Truth(REALISTIC, summary="mean-sd", all_fail=True))), "bars") == {}


SHAPES = {
    "one value": Truth({"native": {}}, blocks=1, control=None, threads=(1, 2, 4)),
    "identical values": Truth(
        {"native": {}, "same": {}}, control=None, noise=0.0, frame_sizes=(64,), threads=(1, 2, 3)
    ),
    "long labels": Truth({"native": {}, LONG: {}, f"{LONG}-too": {"memory": 900.0}}, control=None, threads=(1, 2, 4)),
    "twelve platforms": Truth(TWELVE, control=None, threads=(1, 2, 4), elements=(10, 20), noise=0.5, blocks=2),
    "many values": Truth(REALISTIC, threads=tuple(range(1, 14))),
    "no baseline": Truth(REALISTIC, baseline=None, control=None, threads=(1, 2, 4)),
}


@pytest.mark.parametrize("summary", ["mean-t95", "median-drop-first"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_of_any_shape_is_drawn_whole_and_fits_a_page(shape: str, summary: str) -> None:
    """Every platform is named in each part, nothing is wider than the figure, and nothing is higher than a page."""
    analysis = analyse(run_data(replace(SHAPES[shape], summary=summary)))
    found = parts(analysis, "bars") | parts(analysis, "curves")
    assert ("bars-1" in found) is (shape != "one value" or summary == "mean-t95"), "one value, and it is dropped"
    assert "curves-stream-threads" in found
    for name, spec in found.items():
        svg = render(name, spec, analysis).svg
        (width,), (height,) = (re.findall(rf'<svg[^>]* {side}="([\d.]+)"', svg) for side in ("width", "height"))
        assert float(width) == pytest.approx(Width.PAGE.pixels)
        assert float(height) <= 11 * 96
        shown = "".join(re.findall(r"<(?:text|tspan)[^>]*>([^<]*)", svg))
        assert [one for one in analysis.platforms if one not in shown] == []


def test_a_curve_is_the_medians_over_the_parameter_with_their_intervals() -> None:
    analysis = analyse(run_data(Truth(REALISTIC, threads=(1, 2, 4, 8))))
    ((name, spec),) = parts(analysis, "curves").items()
    assert (name, spec.title) == ("curves-stream-threads", "stream over threads")
    shown = panels(analysis, "curves")
    for panel, one in zip(shown, analysis.over_parameters, strict=True):
        scale = {"copy_rate": 1e9, "latency_p99": 1e6}[one.metric.name]
        data = panel["data"]["values"]
        assert list(dict.fromkeys(point["platform"] for point in data)) == list(analysis.platforms)
        for curve in one.curves:
            own = [point for point in data if point["platform"] == curve.platform]
            cells = [point.cell for point in curve.points if point.cell is not None]
            assert [point["place"] for point in own] == [1, 2, 4, 8]
            for point, cell in zip(own, cells, strict=True):
                assert_drawn(point, cell.median, cell.interval, scale)
                assert words.estimate(cell.median, cell.interval, one.metric.unit) in point["said"]
        across = axis(panel, "x")["axis"]
        assert across["values"] == [1, 2, 4, 8]
        assert across["labelExpr"].startswith('["1", "2", "4", "8"]')
    named = {" ".join(axis(panel, "y")["axis"]["title"]) for panel in shown}
    assert named == {"copy rate, GB/s", "latency p99, ms"}


def test_a_run_that_sweeps_nothing_has_no_curves_and_no_section() -> None:
    analysis = analyse(run_data(Truth(REALISTIC, threads=(1, 2))))
    assert parts(analysis, "curves") == {}
    assert set(figures_of(ReportInput(analysis))) == set(FIGURES)
    assert csv_rows(analysis, "curves") == []
    assert "parameters" not in page_of(analysis).ids


def test_the_table_of_curves_has_a_row_for_each_place_that_has_a_value() -> None:
    analysis = analyse(run_data(replace(GONE, failures={("runc", "stream", 0): "failed"}, blocks=1)))
    rows = csv_rows(analysis, "curves")
    assert {row["platform"] for row in rows} == set(REALISTIC) - {"runc"}
    assert {(row["parameter"], row["value"]) for row in rows} == {("threads", f"{one}.0") for one in (1, 2, 4)}
    assert len(rows) == 2 * 3 * (len(REALISTIC) - 1)
    (spec,) = parts(analysis, "curves").values()
    assert_facts(spec.caption(analysis), "runc, gone")


def test_a_line_has_a_gap_where_a_value_is_missing() -> None:
    analysis = analyse(run_data(Truth({"native": {}}, control=None, threads=(1, 2, 4))))
    found = analysis.over_parameters[0]
    (curve,) = found.curves
    first, second, third = curve.points
    holed = replace(found, curves=(replace(curve, points=(first, ParameterPoint(second.value, None), third)),))
    (panel,) = panels(with_parts(analysis, over_parameters=(holed,)), "curves")
    assert [point["value"] is None for point in panel["data"]["values"]] == [False, True, False]
    (spec,) = parts(with_parts(analysis, over_parameters=(holed,)), "curves").values()
    svg = render("curve", spec, with_parts(analysis, over_parameters=(holed,))).svg
    drawn = re.findall(r'<path d="(M[^"]*)"[^>]*stroke-width="1.5"', svg)
    assert any(one.count("M") == 2 for one in drawn), drawn


def test_conditions_are_columns_with_one_axis_and_metrics_are_rows() -> None:
    """As Suresh's Figure 5: the guest alone, and beside three loads."""
    analysis = analyse(run_data(Truth(REALISTIC, threads=(1, 2, 4))))
    loads = [ALONE, "2 x idle guest", "2 x light load", "2 x heavy load"]
    both = [replace(one, condition=load) for one, load in itertools.product(analysis.over_parameters, loads)]
    found = with_parts(analysis, over_parameters=tuple(both))
    (spec,) = parts(found, "curves").values()
    shown = panels_of(spec.draw(found, Width.PAGE))
    assert [" ".join(panel["title"]) for panel in shown] == [ALONE, *(f"beside {load}" for load in loads[1:])] * 2
    assert [axis(panel, "y")["axis"]["labels"] for panel in shown] == [True, False, False, False] * 2
    assert [axis(panel, "y")["axis"]["title"] is not None for panel in shown] == [True, False, False, False] * 2
    assert len({tuple(axis(panel, "y")["scale"]["domain"]) for panel in shown}) == 2
    assert_facts(spec.caption(found), "condition")


def test_a_parameter_that_begins_at_zero_keeps_its_zero() -> None:
    analysis = analyse(run_data(Truth({"native": {}}, control=None, threads=(1, 2, 4))))
    found = analysis.over_parameters[0]
    (curve,) = found.curves
    values = (0.0, 16384.0, 65536.0)
    points = tuple(replace(point, value=value) for point, value in zip(curve.points, values, strict=True))
    sized = replace(found, parameter="working_set_bytes", values=values, curves=(replace(curve, points=points),))
    (panel,) = panels(with_parts(analysis, over_parameters=(sized,)), "curves")
    across = axis(panel, "x")
    assert across["axis"]["labelExpr"].startswith(json.dumps(["0 B", "16 KiB", "64 KiB"]))
    assert across["axis"]["title"] == "working set"
    assert across["scale"]["domain"] == [0, 65536]


@pytest.mark.parametrize(
    ("key", "value", "title", "place"),
    [
        ("threads", 8, "threads", "8"),
        ("rate_requests_per_second", 1600, "requests/s", "1600"),
        ("link_rate_bits_per_second", 100e6, "link rate, bit/s", "100 M"),
        ("working_set_bytes", 16384, "working set", "16 KiB"),
        ("delay_ns", 2e6, "delay", "2.00 ms"),
        ("processes", 40_000, "processes", "40 k"),
    ],
)
def test_a_parameter_is_named_with_its_unit(key: str, value: float, title: str, place: str) -> None:
    assert (words.parameter_axis(key), words.parameter_place(key, value)) == (title, place)
