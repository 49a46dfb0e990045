"""Figures of the guests themselves: what their specifications hold is the analysis's, in words and in numbers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from tests.support.analyses import with_parts
from tests.support.drawings import files, render
from tests.support.facts import Command, assert_facts
from tests.support.made_up_run import Made, made_up_run
from tests.support.specifications import assert_drawn, complaints, data_of, fields_without_data, legend_of, panels_of
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll import units
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.report import words
from virtoll.report.figures import FIGURES
from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.style import Specification, Width
from virtoll.report.sections.clock.figure import MOST_MARKERS
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


@pytest.fixture(scope="module")
def weighed() -> Analysis:
    """Of a run whose guests were weighed, with series of consolidation; one platform is nested."""
    costs = REALISTIC | {NESTED: {"packet path": 300.0, "cpu": 40.0}}
    caveats: dict[str, tuple[str, str | None]] = {NESTED: ("nested xen", FUNCTIONAL_ONLY)}
    truth = Truth(costs, weighed=True, frame_sizes=(68,), caveats=caveats, clock_error={NESTED: 0.01})
    return analyse(run_data(truth))


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
    return with_parts(found, at_once=replace(found.at_once, rows=rows))


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
        text = told[row.platform, row.point.guests]["said"]
        assert_facts(text, Command(row.point.label), Command(row.task.label), f"{row.trials} trials")
        assert_facts(text, units.rate(row.together or 0, "jobs/s"), units.nanoseconds(row.each))
    titles = [panel["layer"][0]["encoding"]["y"]["axis"]["title"] for panel in (together, each)]
    assert [title.rpartition(", ")[2] for title in titles] == ["jobs/s", "s"]
    below = [panel["layer"][0]["encoding"]["x"]["axis"]["title"] for panel in (together, each)]
    assert below == ["guests at once"] * 2
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
                assert_facts(one["said"], units.nanoseconds(row.each), "CPU", units.nanoseconds(row.cpu_ns or 0))
    named = [panel["layer"][0]["encoding"]["y"] for panel in panels]
    assert ["CPU" in one["axis"]["title"] for one in named] == [False, True] * 2
    assert all(one["axis"]["title"].endswith(", s") for one in named)
    assert all(one["scale"]["domain"][0] == 0 for one in named)
    assert f"{NESTED} †" in legend_of(figure)


def test_without_cpu_time_the_value_alone_is_drawn() -> None:
    analysis = side_by_side((1,), (1, 2))
    rows = tuple(replace(row, cpu_ns=None) for row in analysis.at_once.rows)
    unread = with_parts(analysis, at_once=replace(analysis.at_once, rows=rows))
    figure = of("over-vcpus", unread)
    assert len(panels_of(figure)) == 1
    assert not any("CPU" in one["said"].partition(": ")[2] for one in data_of(figure))


@pytest.mark.parametrize("name", ["guests-at-once", "over-vcpus"])
def test_the_sign_of_a_caveat_is_in_the_drawing(name: str) -> None:
    svg = render(name, FIGURES[name], side_by_side((1, 2), (1, 2))).svg
    assert f"{NESTED} †" in svg
    assert f"† ×  {FUNCTIONAL_ONLY}" in svg


def test_consolidation_has_both_measures_after_each_guest(weighed: Analysis) -> None:
    figure = of("consolidation", weighed)
    told = {(one["platform"], one["guests"]): one for one in data_of(figure)}
    assert len(told) == sum(len(one.steps) for one in weighed.consolidations) > 0
    for series in weighed.consolidations:
        first = series.steps[0].available_before_bytes
        for step in series.steps:
            datum = told[series.platform, step.guests]
            assert first is not None
            assert step.available_bytes is not None
            assert step.processes_bytes is not None
            gone = first - step.available_bytes
            assert datum["value"] == pytest.approx(gone / 2**20, rel=1e-5)
            assert datum["held"] == pytest.approx(step.processes_bytes / 2**20, rel=1e-5)
            assert_facts(datum["said"], units.size(gone), "less", units.size(step.processes_bytes))
    (panel,) = panels_of(figure)
    assert_facts(panel["title"]["text"], "markers", "available memory", "lines", "processes")
    assert legend_of(figure) == [one.platform for one in weighed.consolidations]


def consolidated(weighed: Analysis, first: Sequence[int | None], **changed: Any) -> Analysis:
    """With other available memory after the first guests of the first series."""
    one, *others = weighed.consolidations
    steps = [step.replace(available_bytes=free) for step, free in zip(one.steps, first, strict=False)]
    steps += [step.replace(**changed) for step in one.steps[len(first) :]]
    return with_parts(weighed, consolidations=(replace(one, steps=tuple(steps)), *others))


def test_memory_that_came_back_is_below_zero(weighed: Analysis) -> None:
    free = weighed.consolidations[0].steps[0].available_before_bytes or 0
    figure = of("consolidation", consolidated(weighed, [free + (5 << 20), None]))
    more, unread = data_of(figure)[:2]
    assert more["value"] == -5
    assert_facts(more["said"], "5 MiB", "more")
    assert "value" not in unread
    assert "available" not in unread["said"]
    low, high = panels_of(figure)[0]["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert low < -5 < 90 < high


def test_platforms_whose_guests_take_far_apart_have_a_logarithmic_axis(weighed: Analysis) -> None:
    far = consolidated(weighed, [], available_bytes=1 << 20)
    axes = [panels_of(of("consolidation", one))[0]["layer"][0]["encoding"]["y"] for one in (weighed, far)]
    assert ["type" in one["scale"] for one in axes] == [False, True]
    free = weighed.consolidations[0].steps[0].available_before_bytes or 0
    back = consolidated(weighed, [free + (5 << 20)], available_bytes=1 << 20)
    upright = panels_of(of("consolidation", back))[0]["layer"][0]["encoding"]["y"]
    assert "type" in upright["scale"], "the last of each decides"
    assert min(upright["scale"]["domain"]) > 0


def test_a_nested_platforms_series_has_crosses_and_the_sign(weighed: Analysis) -> None:
    platform = weighed.consolidations[0].platform
    nested = replace(weighed, caveats={platform: FUNCTIONAL_ONLY})
    assert all(("caveat" in one) is (one["platform"] == platform) for one in data_of(of("consolidation", nested)))
    assert legend_of(of("consolidation", nested))[-1] == f"† ×  {FUNCTIONAL_ONLY}"
    svgs = [render("consolidation", FIGURES["consolidation"], one).svg for one in (weighed, nested)]
    assert [f"{platform} †" in svg for svg in svgs] == [False, True]
    crosses = svgs[1].count("<path") - svgs[0].count("<path")
    assert crosses == len(weighed.consolidations[0].steps) + 1, "one a guest, and a box in the legend"


def test_a_guests_way_is_in_its_parts_from_the_panels_begin(weighed: Analysis) -> None:
    ready = panels_of(of("guests", weighed))[0]
    begin = ready["layer"][0]["encoding"]["x"]["scale"]["domain"][0]
    for place, row in enumerate(weighed.guests):
        own = [one for one in ready["data"]["values"] if one["row"] == place]
        assert row.ready is not None
        assert row.spawn is not None
        assert {one["platform"] for one in own} == {row.platform}
        assert [one["part"] for one in own] == ["spawn", "kernel", "init"][:: 1 if row.kernel else 2]
        assert own[0]["from"] == begin
        assert all(one["from"] == before["to"] for before, one in pairwise(own))
        assert own[-1]["to"] == pytest.approx(row.ready.median / 1e6, rel=0.01), "parts' medians add up"
        assert_drawn(own[-1], row.ready.median, row.ready.interval, 1e6)
        assert_facts(own[0]["said"], f"spawn {units.nanoseconds(row.spawn.median)}")
        assert all(("open" in one) is (row.platform == NESTED) for one in own)
    assert {"low", "high"} <= {
        ends[end]["field"] for layer in ready["layer"] for ends in [layer["encoding"]] for end in ("x", "x2")
    }


def test_a_way_of_which_no_part_is_known_is_hollow(weighed: Analysis) -> None:
    unseen = tuple(replace(row, spawn=None, kernel=None, init=None) for row in weighed.guests)
    figure = of("guests", with_parts(weighed, guests=unseen))
    told = panels_of(figure)[0]["data"]["values"]
    assert [one["platform"] for one in told] == [row.platform for row in unseen]
    assert all(one["open"] for one in told)
    assert not any("spawn" in one["said"] or "init" in one["said"] for one in told)
    assert legend_of(figure) == [f"† ×  {FUNCTIONAL_ONLY}"]
    assert legend_of(of("guests", weighed))[:3] == ["spawn", "kernel", "init"]


def test_the_guests_caption_has_the_coverage_that_was_reached(weighed: Analysis) -> None:
    found = {row.ready.interval.coverage for row in weighed.guests if row.ready is not None and row.ready.interval}
    (coverage,) = found
    assert_facts(FIGURES["guests"].caption(weighed), f"{100 * coverage:g} %", "n = 3", "95 %")
    texts = [one["said"] for one in data_of(of("guests", weighed)) if "low" in one and "workload" not in one]
    assert texts
    for text in texts:
        assert_facts(text, units.percent(coverage))


def test_memory_is_idle_and_after_work(weighed: Analysis) -> None:
    memory = panels_of(of("guests", weighed))[1]
    told = {(one["row"], one["within"]): one for one in memory["data"]["values"]}
    assert len(told) == 2 * len(weighed.guests)
    for place, row in enumerate(weighed.guests):
        for within, (part, when) in enumerate(((row.idle, "idle"), (row.worked, "after work"))):
            assert part is not None
            one = told[place, within]
            assert_drawn(one, part.median, part.interval, 2**20)
            assert_facts(one["said"], when, units.size(round(part.median)))
            assert ("caveat" in one) is (row.platform == NESTED)


def test_cpu_time_is_a_multiple_of_the_baselines_and_cut_at_three(weighed: Analysis) -> None:
    shown = [use for use in weighed.host_cpu if use.ratio is not None]
    wide = next(use for use in shown if use.interval is not None)
    assert wide.interval is not None
    far = replace(wide, interval=replace(wide.interval, low=1e-6, high=1e6))
    found = with_parts(weighed, host_cpu=tuple(far if use is wide else use for use in weighed.host_cpu))
    processor = panels_of(of("guests", found))[2]
    tasks = list(dict.fromkeys(use.task for use in shown))
    rows = {row.platform: place for place, row in enumerate(weighed.guests)}
    told = {(one["row"], one["within"]): one for one in processor["data"]["values"]}
    assert len(told) == len(shown)
    for use in shown:
        one = told[rows[use.platform], tasks.index(use.task)]
        assert use.ratio is not None
        assert (one["platform"], one["workload"]) == (use.platform, use.task.workload)
        assert one["value"] == pytest.approx(use.ratio, rel=1e-5)
        factor = words.estimate(use.ratio, (far if use is wide else use).interval, "times")
        assert_facts(one["said"], Command(use.task.label), factor, "native's")
    cut = told[rows[wide.platform], tasks.index(wide.task)]
    assert (cut["low"], cut["high"]) == (1e-6, 1e6)
    assert (cut["from"], cut["to"]) == pytest.approx((cut["value"] / 3, cut["value"] * 3), rel=1e-4)


def test_what_was_not_read_of_guests_is_said(weighed: Analysis) -> None:
    unread = tuple(replace(row, idle=None, worked=None) for row in weighed.guests)
    titles = [
        panel["title"]["text"] for panel in panels_of(of("guests", with_parts(weighed, guests=unread, host_cpu=())))
    ]
    assert [bool(title) for title in titles] == [False, True, True]


def test_a_line_of_reference_is_drawn_once(weighed: Analysis) -> None:
    panel = panels_of(of("guests", weighed))[2]
    (rule,) = (one for one in panel["layer"] if one["encoding"].get("x", {}).get("datum") == 1)
    assert len(rule["data"]["values"]) == 1


def readings_of(analysis: Analysis) -> dict[str, list[dict[str, Any]]]:
    """The data of trials of the clocks' figure by platform."""
    found: dict[str, list[dict[str, Any]]] = {clock.platform: [] for clock in analysis.clocks}
    for one in data_of(of("clock", analysis)):
        if "value" in one:
            found[one["platform"]].append(dict(one))
    return found


@pytest.mark.parametrize("width", Width)
def test_clocks_have_each_trials_error_and_the_platforms_median(width: Width, weighed: Analysis) -> None:
    figure = of("clock", weighed, width)
    told = readings_of(weighed)
    rows = {one["platform"]: one for one in data_of(figure) if "median" in one}
    assert list(rows) == [clock.platform for clock in weighed.clocks]
    for place, clock in enumerate(weighed.clocks):
        band, own = rows[clock.platform], told[clock.platform]
        assert band["median"] == pytest.approx(clock.median * 1e6, rel=1e-5)
        assert (band["from"], band["to"]) == pytest.approx((-clock.estimate * 1e6, clock.estimate * 1e6), rel=1e-5)
        assert clock.words in band["said"]
        assert [one["value"] for one in own] == pytest.approx([one.error * 1e6 for one in clock.readings], rel=1e-3)
        assert [one["workload"] for one in own] == [one.workload for one in clock.readings]
        assert ["within" in one for one in own] == [one.within for one in clock.readings]
        for one, reading in zip(own, clock.readings, strict=True):
            error = units.parts_per_million(reading.error)
            assert_facts(one["said"], reading.workload, f"trial {reading.trial}", error)
            assert abs(one["y"] - place) < 0.3
            assert ("caveat" in one) is (clock.platform == NESTED)
    assert legend_of(figure) == [f"† ×  {FUNCTIONAL_ONLY}"]
    assert_facts(FIGURES["clock"].caption(weighed), sum(map(len, told.values())))


def test_clocks_axis_has_its_zero_and_says_its_scale(weighed: Analysis) -> None:
    found = {width: panels_of(of("clock", weighed, width))[0] for width in Width}
    axes = {width: panel["layer"][0]["encoding"]["x"] for width, panel in found.items()}
    for one in axes.values():
        assert one["scale"]["type"] == "symlog"
        low, high = one["scale"]["domain"]
        assert low == -high
        assert 0 in one["axis"]["values"]
    assert len(axes[Width.COLUMN]["axis"]["values"]) == 3
    assert_facts(" ".join(axes[Width.COLUMN]["axis"]["title"]), "guest − outside", "/ outside")
    svg = render("clock", FIGURES["clock"], weighed).svg
    shown = " ".join(re.findall(r"<(?:text|tspan)[^>]*>([^<]*)", svg))
    assert_facts(shown, "slow", "fast")


def test_trials_by_thousands_share_markers_of_which_none_is_lost(weighed: Analysis) -> None:
    first, *others = weighed.clocks
    count, dice = MOST_MARKERS + 1, Random(1)
    readings = tuple(
        replace(first.readings[0], trial=number, guest_ns=first.readings[0].outside_ns + round(dice.gauss(0, 5000)))
        for number in range(count)
    )
    many = with_parts(weighed, clocks=(replace(first, readings=readings), *others))
    told = readings_of(many)[first.platform]
    assert len(told) < count / 3
    stand_for = [re.search(r", (?:(\d+) trials|trial \d+): ", one["said"]) for one in told]
    assert sum(int(found[1] or 1) for found in stand_for if found is not None) == count
    assert max(one["size"] for one in told) > 2 * min(one["size"] for one in told)
    errors = [reading.error * 1e6 for reading in readings]
    assert min(errors) == pytest.approx(min(one["value"] for one in told), rel=0.1)
    assert max(errors) == pytest.approx(max(one["value"] for one in told), rel=0.1)
    captions = [FIGURES["clock"].caption(one).split(". ") for one in (weighed, many)]
    assert len(captions[1]) == len(captions[0]) + 1, "that trials share one"
    assert len(render("clock", FIGURES["clock"], many).svg) < 100_000


AT_ONCE = ("guests-at-once", "over-vcpus")
"""The figures that no run of `test_specifications` has."""


@pytest.mark.parametrize("name", AT_ONCE)
def test_the_converter_has_nothing_to_warn_of_and_draws_alike(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    analysis = side_by_side((1, 2), (1, 2))
    assert complaints(of(name, analysis), capfd) == []
    assert fields_without_data(of(name, analysis)) == set()
    assert files(render(name, FIGURES[name], analysis)) == files(render(name, FIGURES[name], analysis))


@pytest.mark.parametrize("name", AT_ONCE)
def test_whatever_a_pointer_finds_is_in_words(name: str) -> None:
    analysis = side_by_side((1, 2), (1, 2))
    for datum in data_of(of(name, analysis)):
        assert datum["platform"] in analysis.platforms
        assert datum["said"].startswith(datum["platform"])
