"""Figures as specifications: their data are the analysis's, text stays text, and they are drawn alike each time."""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
import vl_convert
from tests.support.analyses import with_parts
from tests.support.drawings import drawn, files, render
from tests.support.facts import Command, assert_facts, missing_facts
from tests.support.specifications import assert_drawn, complaints, data_of, fields_without_data, legend_of, panels_of
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll import units
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.report import words
from virtoll.report.drawer import VEGA_LITE, in_light, shapes_once
from virtoll.report.drawing import Drawing, as_json, inline
from virtoll.report.figures import FIGURES, figures_of
from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.markers import OUTLINES, left_half, shape
from virtoll.report.figures.style import DARK, KNOWN, LIGHT, SPARE, Specification, Width, config, nice_log_ticks
from virtoll.report.report_input import ReportInput
from virtoll.runfolder.conditions import Condition
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.compare import DIFFERENT, Verdict
from virtoll.stats.intervals import ends, student
from virtoll.stats.neighbour_routers import NeighbourRouter
from virtoll.stats.scaling import Scaling, Step

MARKED = "<b>xen</b> & more"
RUN = Truth(
    REALISTIC | {MARKED: {"packet path": 300.0, "cpu": 40.0}},
    caveats={MARKED: ("nested xen", FUNCTIONAL_ONLY)},
    threads=(1, 2, 4),
    summary="mean-t95",
    weighed=True,
    frame_sizes=(64, 1500),
    rates_mbit_per_second=(10.0, 100.0, 1000.0),
    sources=(1, 3),
    margin=0.25,
)

OF_GUESTS = frozenset({"guests", "consolidation"})
"""Figures with values of guests whatever they work on."""


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    """With guests side by side and beside others, which the synthetic run has not."""
    found = analyse(run_data(RUN))
    return with_parts(found, scalings=scalings_of(found), neighbour_routers=routers_of(found))


def scalings_of(found: Analysis) -> tuple[Scaling, ...]:
    """Three sizes of two factors: one that costs much, and one whose third size has no ratio."""
    task = next(task for task in found.tasks if task.metric.source == "points")

    def step(platform: str, factor: str, size: int, rates: tuple[float, ...], ratios: tuple[float, ...]) -> Step:
        return Step(platform, task, factor, size, rates, ratios, shares=(), jain=None, load_ns=())

    made = []
    for place, platform in enumerate(found.platforms[:3] + found.platforms[-1:]):
        rate = 1e5 * (place + 1)
        near = [step(platform, "routers", size, (rate, 1.1 * rate), (1.0, 0.98)) for size in (1, 2)]
        none = step(platform, "routers", 4, (rate,), ())
        far = [step(platform, "routes", 10**size, (rate / 10**size,), (0.1**size,)) for size in (0, 1, 2)]
        made += [Scaling(platform, "routers", "", (*near, none)), Scaling(platform, "routes", "", tuple(far))]
    return tuple(made)


def routers_of(found: Analysis) -> tuple[NeighbourRouter, ...]:
    """Each platform beside two conditions, and beside one that forwards nothing."""
    task = next(task for task in found.tasks if task.metric.source == "points")
    shape = task.shape
    assert shape is not None
    conditions = [Condition("forward", rate_share=0.5), Condition("forward", rate_share=0.95), Condition("heavy")]
    change = student([-0.2, -0.25, -0.3])
    return tuple(
        NeighbourRouter(
            platform,
            task,
            shape,
            condition,
            3,
            alone=student([100.0]),
            with_neighbours=student([75.0]),
            change=change if place else student([-0.5]),
            into_other=None,
            out_of_other=None,
            caveat="nothing was lost" if place == 1 else None,
        )
        for condition in conditions
        for place, platform in enumerate(found.platforms)
    )


@pytest.fixture(scope="module")
def drawings(analysis: Analysis) -> dict[str, Drawing]:
    """Every figure of the run, drawn."""
    return {
        name: render(name, spec, analysis)
        for name, spec in figures_of(ReportInput(analysis)).items()
        if spec.why_not(analysis) is None
    }


def specification(name: str, analysis: Analysis, width: Width = Width.PAGE) -> Specification:
    """What a figure draws."""
    spec = figures_of(ReportInput(analysis))[name]
    assert isinstance(spec, FigureSpec)
    return spec.draw(analysis, width)


@pytest.mark.parametrize("width", Width)
def test_cost_has_each_share_with_its_interval_and_its_verdict(width: Width, analysis: Analysis) -> None:
    shown = [one for one in (*analysis.control, *analysis.comparisons) if one.share is not None]
    cost = specification("cost", analysis, width)
    told = {(one["platform"], one["row"]): one for one in data_of(cost)}
    rows = {task: row for row, task in enumerate(task for task in analysis.tasks if any(c.task == task for c in shown))}
    assert len(told) == len(shown)
    for one in shown:
        datum = told[one.platform, rows[one.task]]
        assert one.share is not None
        assert datum["workload"] == one.task.workload
        look = "different" if one.verdict in DIFFERENT else "alike" if one.verdict is Verdict.ALIKE else "open"
        assert datum["look"] == look
        share, verdict = words.share(one.share, one.interval), words.said(one)
        assert_facts(datum["said"], *map(Command, (one.platform, one.task.label, share, verdict.head)))
        assert ("caveat" in datum) is (one.platform == MARKED)
        if one.interval is None:
            assert datum["value"] == pytest.approx(100 * one.share, rel=1e-5)
        else:
            assert_drawn(datum, one.share, one.interval, 1 / 100)
            assert "95 %" in datum["said"]
    labels = legend_of(cost)
    assert {"netns", f"{MARKED} †", "not known"} <= set(labels)
    assert any(missing_facts(label, "alike", "25 %") == [] for label in labels)
    assert f"† ×  {FUNCTIONAL_ONLY}" in labels


def test_throughput_has_each_value_and_says_what_is_a_lower_bound(analysis: Analysis) -> None:
    told = {
        (one["platform"], one["said"].partition(":")[0]): one for one in data_of(specification("throughput", analysis))
    }
    tasks = [task for task in analysis.tasks if task.metric.source == "points"]
    assert len(told) == len(tasks) * len(analysis.platforms)
    for task in tasks:
        for platform in analysis.platforms:
            datum, value = told[platform, f"{platform}, {task.label}"], analysis.estimates[platform, task]
            curve = analysis.curve(platform, task)
            assert_drawn(datum, value.value, value.interval)
            digits = 3 if platform == "native" else units.digits_within(value.value, *ends(value.interval))
            assert units.count(value.value, digits) in datum["beside"]
            assert ("≥" in datum["beside"]) is (curve is not None and curve.lossless)


def test_a_platform_that_was_not_measured_is_a_word_and_no_bar(analysis: Analysis) -> None:
    some = next(task for task in analysis.tasks if task.metric.source == "points")
    cells = {key: cell for key, cell in analysis.cells.items() if key != ("runc", some)}
    told = [one for one in data_of(specification("throughput", replace(analysis, cells=cells))) if "missing" in one]
    assert [(one["platform"], one["missing"], "value" in one) for one in told] == [("runc", "not measured", False)]


def test_forwarding_has_each_point_with_its_range(analysis: Analysis) -> None:
    told = [one for one in data_of(specification("forwarding", analysis)) if "platform" in one]
    points = [(curve, point) for curve in analysis.curves for point in curve.points if point.forwarded.median > 0]
    assert len(told) == len(points)
    found = {(one["platform"], one["offered"], one["value"]): one for one in told}
    for curve, point in points:
        offered, forwarded = (float(f"{one:.6g}") for one in (point.offered.median, point.forwarded.median))
        datum = found[curve.platform, offered, forwarded]
        assert (datum["low"], datum["high"]) == pytest.approx((point.forwarded.low, point.forwarded.high), rel=1e-5)
        assert (datum["from"], datum["to"]) == pytest.approx((point.offered.low, point.offered.high), rel=1e-5)
        assert ("flat" in datum) is (point.intended_rate is None)
        assert units.frame_rate(point.offered.median) in datum["said"]


def test_every_rate_of_a_list_has_both_of_its_intervals(analysis: Analysis) -> None:
    told = {
        (one["platform"], one["said"].partition(", mean")[0]): one
        for one in data_of(specification("listed_rates", analysis))
        if "value" in one
    }
    drawn = 0
    for panel, task in zip(
        panels_of(specification("listed_rates", analysis)),
        dict.fromkeys(one.task for one in analysis.listed_rates.curves),
        strict=True,
    ):
        data = [one for one in panel["data"]["values"] if "value" in one]
        for curve in (one for one in analysis.listed_rates.curves if one.task == task):
            own = [one for one in data if one["platform"] == curve.platform]
            listed = sum(point.target_mbit_per_second is not None for point in curve.points)
            assert sum("flat" not in one for one in own) == listed
            for datum, point in zip(own, curve.points, strict=False):
                assert_drawn(datum, point.forwarded.value, point.forwarded.interval)
                assert point.offered.interval is not None
                assert datum["offered"] == pytest.approx(point.offered.value, rel=1e-5)
                assert datum["offered_to"] == pytest.approx(point.offered.interval.high, rel=1e-5)
                assert 0 <= datum["forwarded_from"] <= datum["value"] <= datum["forwarded_to"]
                assert ("caveat" in datum) is (curve.platform == MARKED)
                assert words.estimate(point.forwarded.value, point.forwarded.interval, "Mbit/s") in datum["said"]
                drawn += 1
    assert drawn == len(told)
    labels = legend_of(specification("listed_rates", analysis))
    assert f"{MARKED} †" in labels
    assert any("FRMOL" in label for label in labels)


def test_both_intervals_of_a_point_are_drawn(analysis: Analysis) -> None:
    """One layer draws them: two lines for each point, and none where a run has one block."""
    lines, rules = [], []
    for found in (analysis, analyse(run_data(replace(RUN, blocks=1)))):
        figure = specification("listed_rates", found)
        layers = [one for panel in panels_of(figure) for one in panel["layer"]]
        rules.append(sum(one["mark"]["type"] == "rule" for one in layers))
        lines.append(vl_convert.vegalite_to_svg(figure, vl_version=VEGA_LITE).count("<line"))
    assert rules == [4, 0]
    points = sum("low" in one for one in data_of(specification("listed_rates", analysis)))
    assert lines[0] - lines[1] >= 2 * points - len(analysis.platforms)


def test_groups_of_bars_have_means_with_their_t_intervals(analysis: Analysis) -> None:
    sources = panels_of(specification("sources", analysis))
    assert [panel["title"] for panel in sources] == ["64 B frames", "1500 B frames"]
    told = {(one["said"].partition(":")[0]): one for one in data_of(specification("sources", analysis))}
    assert len(told) == len(analysis.listed_rates.accumulated)
    for one in analysis.listed_rates.accumulated:
        name = f"{one.platform} †" if one.platform == MARKED else one.platform
        many = "1 source" if one.shape.sources == 1 else f"{one.shape.sources} sources at once"
        datum = told[f"{name}, {one.shape.frame_size_bytes} B frames, {many}"]
        assert (datum["kind"], datum["platform"]) == (str(one.shape.sources), one.platform)
        assert_drawn(datum, one.rate.value, one.rate.interval)
        assert "95 %" in datum["said"]
        assert ("caveat" in datum) is (one.platform == MARKED)
    beside = panels_of(specification("routers_beside", analysis))
    assert len(beside) == 2
    for panel, rate in zip(beside, ("50 %", "95 %"), strict=True):
        assert_facts(panel["title"], rate, "same CPUs")
    for panel in beside:
        first, second = panel["data"]["values"][:2]
        assert (first["value"], "low" in first, second["value"]) == (50, False, 75)
        assert second["low"] < 75 < second["high"]
        assert_facts(second["said"], "3 blocks", "nothing was lost")
        assert panel["layer"][0]["encoding"]["y"]["datum"] == 100
    assert f"† ×  {FUNCTIONAL_ONLY}" in legend_of(specification("routers_beside", analysis))


def test_bars_of_a_kind_have_the_same_place_in_each_group(analysis: Analysis) -> None:
    for panel in panels_of(specification("sources", analysis)):
        ticks = panel["encoding"]["x"]["axis"]["values"]
        assert len(ticks) == len(analysis.platforms)
        for kind in ("1", "3"):
            places = [one["place"] for one in panel["data"]["values"] if one["kind"] == kind]
            assert {round(place - tick, 6) for place, tick in zip(places, ticks, strict=True)} == {
                -0.5 if kind == "1" else 0.5
            }


def test_sizes_have_their_medians_and_the_range_over_blocks(analysis: Analysis) -> None:
    routes, of_none, routers, of_one = panels_of(specification("scaling", analysis))
    first = [one for one in routers["data"]["values"] if one["platform"] == "native"]
    assert [(one["place"], one.get("low"), one["value"], one.get("high")) for one in first] == [
        (1, 1e5, 1.05e5, 1.1e5),
        (2, 1e5, 1.05e5, 1.1e5),
        (4, 1e5, 1e5, 1e5),
    ]
    assert_facts(first[0]["said"], "native", "64 B", "1 source", "105 kframes/s", "100 to 110 kframes/s", "2 blocks")
    shares = [one for one in of_one["data"]["values"] if one["platform"] == "native"]
    assert [(one["place"], one.get("low"), one["value"]) for one in shares] == [
        (1, 98, 99),
        (2, 98, 99),
        (4, None, None),
    ]
    assert [one["value"] for one in of_none["data"]["values"][:3]] == [100, 10, 1]
    scales = [panel["layer"][0]["encoding"]["y"]["scale"].get("type") for panel in (routes, routers)]
    assert scales == ["log", None], "logarithmic where rates are far apart, else from zero"
    assert routes["layer"][0]["encoding"]["x"]["scale"]["type"] == "symlog"
    assert f"{MARKED} †" in legend_of(specification("scaling", analysis))


def test_the_order_has_each_value_and_what_is_far_out_in_words(analysis: Analysis) -> None:
    some = [replace(one, relative=1 + place % 5 / 100, outlier=False) for place, one in enumerate(analysis.order)]
    some[3], some[4] = replace(some[3], relative=9.0, outlier=True), replace(some[4], relative=7.0)
    found = with_parts(analysis, order=tuple(some))
    made = specification("order", found)
    told = data_of(made)
    assert [(one["position"], one["value"]) for one in told] == [
        (one.observation.position, pytest.approx(100 * one.relative)) for one in some
    ]
    assert [one["position"] for one in told if "900 %" in one["said"]] == [told[3]["position"]]
    written = [one["data"]["values"] for one in made["vconcat"][0]["layer"] if one["mark"]["type"] == "text"]
    assert {one["text"] for one in written[0]} == {"block 1", "block 2", "block 3", "700 to 900 %"}
    assert {"native", f"{MARKED} †"} <= set(legend_of(made))
    assert any("outlier" in label for label in legend_of(made))


@pytest.mark.parametrize("width", Width)
def test_what_is_drawn_is_in_the_data(width: Width, analysis: Analysis, drawings: dict[str, Drawing]) -> None:
    assert [name for name in drawings if fields_without_data(specification(name, analysis, width))] == []


def test_a_figure_is_the_same_each_time(analysis: Analysis, drawings: dict[str, Drawing]) -> None:
    specs = figures_of(ReportInput(analysis))
    assert {"cost", "forwarding", "throughput", "bars-1", "curves-stream-threads", "order"} <= set(drawings)
    assert {"sources", "scaling", "listed_rates", "routers_beside", "clock", "guests", "consolidation"} <= set(drawings)
    numbered = [name for name, drawing in drawings.items() if " id=" in drawing.page]
    assert numbered, "the converter counts on, from drawing to drawing"
    for name in {"order", *numbered}:
        assert files(render(name, specs[name], analysis)) == files(drawings[name]), name


def test_markup_in_a_platforms_name_stays_text(drawings: dict[str, Drawing]) -> None:
    for name, drawing in drawings.items():
        for svg in (drawing.svg, inline(drawing, "a figure")):
            texts = ["".join(one.itertext()) for one in ET.fromstring(svg).iter() if one.tag.endswith("text")]
            assert any(text.startswith(MARKED) for text in texts) or name == "consolidation", name
        assert drawing.specification is not None
        assert not set("<>&") & set(drawing.specification), name
        assert MARKED in drawing.specification.encode().decode("unicode_escape") or name == "consolidation", name


def test_what_belongs_to_a_platform_says_so_in_words(drawings: dict[str, Drawing]) -> None:
    """What a pointer, a filter and a highlight need; and nothing of theirs is in it yet."""
    for name, drawing in drawings.items():
        found = json.loads(drawing.specification or "")
        assert not {"config", "params"} & found.keys(), name
        for datum in data_of(found):
            if datum.get("value") is not None:
                of_a_workload = set() if name in OF_GUESTS else {"workload"}
                assert {"platform", "said"} | of_a_workload <= datum.keys(), name
                assert str(datum["platform"]) in str(datum["said"]), name


def test_colours_are_a_pages_in_it_and_plain_in_a_file(drawings: dict[str, Drawing]) -> None:
    for name, drawing in drawings.items():
        assert "currentColor" in drawing.page, name
        assert set(re.findall(r"var\((--figure-\w+),", drawing.page)) <= DARK.keys(), name
        assert not re.search(r"<[^>]*(?:currentColor|var\()", drawing.svg), name
        assert not re.search(r"<[^>]*var\(--figure-\w+,", inline(drawing, "a figure")), name
    assert LIGHT.keys() == DARK.keys()
    assert set(re.findall(r"var\((--figure-\w+),", as_json(config(Width.PAGE)))) <= DARK.keys()
    paints = {style.paint for style in (*KNOWN.values(), *SPARE)}
    assert all(one == "currentColor" or re.match(r"var\((--figure-\w+),", one) for one in paints)


def test_outlines_that_are_written_once_are_drawn_alike(analysis: Analysis) -> None:
    spec = FIGURES["cost"]
    assert isinstance(spec, FigureSpec)
    whole = drawn(spec.draw(analysis, Width.PAGE), Width.PAGE)
    once = shapes_once(whole)
    assert len(once) < len(whole)
    assert vl_convert.svg_to_png(in_light(once)) == vl_convert.svg_to_png(in_light(whole))


def test_an_alike_marker_is_half_filled(analysis: Analysis) -> None:
    """A small shape more for each verdict that is turned into it."""
    spec = FIGURES["cost"]
    found = {
        verdict: replace(
            analysis,
            comparisons=tuple(replace(one, verdict=verdict) for one in analysis.comparisons),
            control=tuple(replace(one, verdict=verdict) for one in analysis.control),
        )
        for verdict in (Verdict.UNKNOWN, Verdict.ALIKE)
    }
    unknown, alike = (re.findall(r'<path[^>]* d="([^"]*)"', render("cost", spec, one).svg) for one in found.values())
    halves = list(alike)
    for path in unknown:
        halves.remove(path)
    assert len(halves) == sum(one.share is not None for one in (*analysis.comparisons, *analysis.control))
    assert not set(halves) & set(unknown)
    for path in halves:
        assert max(float(x) for x, _ in re.findall(r"(-?[\d.]+),(-?[\d.]+)", path)) <= 0


def test_the_converter_has_nothing_to_warn_of(
    analysis: Analysis, drawings: dict[str, Drawing], capfd: pytest.CaptureFixture[str]
) -> None:
    for name in drawings:
        assert complaints(specification(name, analysis), capfd) == [], name


def test_a_logarithmic_axis_has_few_ticks() -> None:
    assert nice_log_ticks(1, 100) == [1, 2, 5, 10, 20, 50, 100]
    assert nice_log_ticks(0.5, 5e5) == [1, 10, 100, 1e3, 1e4, 1e5]


def test_every_marker_has_an_outline_and_a_left_half() -> None:
    used = {style.marker for style in (*KNOWN.values(), *SPARE)}
    assert used <= OUTLINES.keys()
    assert len({shape(marker) for marker in used}) == len(used)
    for marker in used:
        places = [float(one) for one in re.findall(r"[ML](-?[\d.]+(?:e-\d+)?),", left_half(marker))]
        assert max(places) <= 0 < max(x for x, _ in OUTLINES[marker])
        assert min(places) == pytest.approx(min(x for x, _ in OUTLINES[marker]), abs=0.01)


def test_an_interval_that_goes_beyond_the_axis_ends_there_with_an_arrow(analysis: Analysis) -> None:
    some = next(one for one in analysis.comparisons if one.interval is not None)
    assert some.interval is not None
    wide = replace(some, interval=replace(some.interval, low=1e-9, high=1e9))
    others = tuple(wide if one is some else one for one in analysis.comparisons)
    spec = FIGURES["cost"]
    assert isinstance(spec, FigureSpec)
    found = replace(analysis, comparisons=others)
    (datum,) = (one for one in data_of(spec.draw(found, Width.PAGE)) if one.get("high", 0) > 1e9)
    assert datum["low"] < datum["from"] < datum["value"] < datum["to"] < datum["high"]
    closed = 'Z"'  # of a shape's outline; a straight line has none
    assert render("cost", spec, found).svg.count(closed) == render("cost", spec, analysis).svg.count(closed) + 2
