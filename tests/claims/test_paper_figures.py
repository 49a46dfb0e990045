"""The papers' figures: each named one is in the list, its numbers exist, and a run's values stand at their places."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.made_up_run import Made, made_up_run

from virtoll.claims.paper_figures import (
    Mark,
    PaperFigure,
    Part,
    figures_of_study,
    marks_of,
    paper_figures,
    printed_of,
    rows_of,
)
from virtoll.claims.published_rows import questions
from virtoll.reference.published import load_study, published_values, study_names
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.guest_records import CpuReading, CpuSpan, HostCpu, ProcessTime
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import Analysis, analyse
from virtoll.workloads import WORKLOADS

NAMED = {
    "schlosser2011": {"figure": ["3", "4", "5"], "table": ["1", "2", "3"]},
    "mattos2012": {"figure": ["5", "6", "7", "8", "9(a)", "9(b)"], "table": []},
    "suresh2014": {"figure": ["2", "3", "4", "5"], "table": ["1", "2", "3", "4"]},
    "camargos2008": {"figure": ["3", "4", "5", "6", "7", "8", "9", "10", "11", "12"], "table": ["4"]},
}
BASE: dict[str, dict[str, Any]] = {"native": {}, "native-again": {}}


def figure(study: str, kind: str, number: str) -> PaperFigure:
    (one,) = (one for one in figures_of_study(study) if (one.kind, one.number) == (kind, number))
    return one


def measured(figure: PaperFigure, analysis: Analysis, part: int = 0) -> tuple[Part, tuple[Mark, ...]]:
    return figure.parts[part], marks_of(figure, analysis)[part]


def run(made: list[Made], **changed: Any) -> Analysis:
    labels = dict.fromkeys(one.platform for one in made)
    return analyse(made_up_run(BASE | {label: {} for label in labels}, made, **changed))


def test_every_figure_and_table_of_results_is_in_the_list() -> None:
    for study in study_names():
        own = figures_of_study(study)
        assert {kind: [one.number for one in own if one.kind == kind] for kind in ("figure", "table")} == NAMED[
            study
        ], study
    assert {one.title_words for one in paper_figures() if one.why_not} == {"Figure 9(a)", "Table 4"}


def test_the_published_numbers_of_each_part_exist_and_are_drawn() -> None:
    for one in paper_figures():
        for part in one.parts:
            for selected in part.rows:
                assert any(row.paper == one.paper and selected.holds(row) for row in published_values()), (one, part)
            assert bool(part.rows) == bool(printed_of(one, part, ())), (one.paper, one.number, part.shows)
            if part.rows and not part.share and one.kind == "figure":
                asked = {printed.question.now.against for printed in printed_of(one, part, ())}
                assert asked == {"baseline"}, "a share of native has a place among values, since native has"


def test_a_part_compares_what_its_printed_numbers_compare() -> None:
    """So no two places of a page say different things of one number."""
    for one in paper_figures():
        for part in one.parts:
            for printed in printed_of(one, part, ()):
                now, where = printed.question.now, (one.paper, one.number, part.shows)
                assert set(part.now.workloads) & set(now.workloads), where
                assert (part.now.metric, part.now.reading) == (now.metric, now.reading), where
                assert part.now.link_mbit_per_second == now.link_mbit_per_second, where
                if part.share:
                    assert part.now.against == now.against, where


def test_a_figures_platforms_are_the_papers() -> None:
    for one in paper_figures():
        study = load_study(one.paper)
        assert set(one.platforms) <= {study.baseline, *(platform.key for platform in study.platforms)}, one.number


def test_every_printed_number_that_can_be_measured_is_in_a_part() -> None:
    """What the running text says of no figure has none: forkwait, netperf, tables of routes."""
    drawn = {id(row) for one in paper_figures() for part in one.parts for row in rows_of(one, part)}
    left = {
        (question.paper, value.source)
        for question in questions()
        for value, _ in question.then.values
        if id(value) not in drawn
    }
    assert left == {("mattos2012", "Section V"), ("suresh2014", "Section 4.3.1"), ("suresh2014", "Section 4.4.4")}


def test_what_is_asked_of_a_run_are_workloads_and_their_parameters() -> None:
    others = {"guests", "vcpus", "neighbour_load", "neighbour_guests", "neighbour_affinity", "neighbour_rate_share"}
    for one in paper_figures():
        for part in one.parts:
            named = part.now.workload
            workloads = [named] if isinstance(named, str) else named or []
            assert workloads
            for workload in workloads:
                known = {*WORKLOADS[workload].parameter_model.model_fields, *others}
                asked = {*part.now.where, *part.panel, *([part.x] if part.x else [])}
                assert asked <= known, (one.paper, one.number, workload)
                metrics = {metric.name for metric in WORKLOADS[workload].metrics}
                assert part.now.metric is None or part.now.metric in metrics, (one.paper, one.number, workload)


def test_a_share_stands_at_its_place_next_to_the_papers() -> None:
    """Table 2 of Suresh: KVM has 97.2 % of native's copy with 4 threads; values here are in their own unit."""
    rates = {"native": 1e10, "kvm": 5e9}
    made = [
        Made(label, "stream", {"threads": 4}, value=1e9, figures={f"{one}_rate": rate for one in KERNELS})
        for label, rate in rates.items()
    ]
    analysis = analyse(made_up_run(BASE | {"kvm": {"platform": "qemu-kvm"}}, made))
    table = figure("suresh2014", "table", "2")
    part, marks = measured(table, analysis)
    native, mark = marks
    assert (native.platform, native.of_baseline, mark.of_baseline) == ("native", True, False)
    assert (mark.platform, mark.x, mark.unit, mark.blocks) == ("kvm", 4, "bytes/s", 5)
    assert mark.value == pytest.approx(5e9, rel=0.03)
    assert mark.low is not None
    assert mark.high is not None
    assert mark.low < mark.value < mark.high
    printed = {(one.platform, one.x): one.question.then.low for one in printed_of(table, part, marks)}
    assert printed["KVM", 4] == pytest.approx(11429.1 / 12476.7)
    assert printed["KVM", 8] == pytest.approx(10724.1 / 12061.8)
    assert len(printed) == 6


def test_a_builds_cpu_use_is_drawn_by_cores_where_it_was_read() -> None:
    """Figure 3 of Suresh: of one guest with as many jobs as virtual CPUs, half a CPU of each of them."""
    builds = [
        Made("netns", "kernel-compile", {"jobs": "vcpus"}, value=1e10, scale=ScalePoint(1, vcpus, 2**29))
        for vcpus in (1, 2)
    ]
    data = made_up_run(BASE | {"netns": {}}, builds)
    build = figure("suresh2014", "figure", "3")
    assert measured(build, analyse(data), 1)[1] == (), "nothing is read as zero"
    part, marks = measured(build, analyse(replace(data, at_once=tuple(map(with_cpu_use, data.at_once)))), 1)
    assert not part.share
    assert {(mark.platform, mark.x, mark.unit, mark.workload) for mark in marks} == {
        ("netns", 1, "CPUs", "kernel-compile"),
        ("netns", 2, "CPUs", "kernel-compile"),
    }
    assert [mark.value for mark in sorted(marks, key=lambda mark: float(mark.x or 0))] == pytest.approx([0.5, 1.0])


IDLE = ProcessTime(
    pid=7, started_ticks=1, name="init", cpu_ns=0, user_ns=0, system_ns=0, children_user_ns=0, children_system_ns=0
)


def with_cpu_use(trial: TrialRecord) -> TrialRecord:
    """The same, with half of each virtual CPU used for 10 s."""
    assert trial.scale is not None
    used = int(5e9 * trial.scale.vcpus)
    first, last = (CpuReading(at, (IDLE.replace(cpu_ns=ns),), {}) for at, ns in ((0, 0), (10**10, used)))
    cpu = HostCpu(first, last, (CpuSpan(first, last),))
    return trial.replace(members=tuple(one.replace(host_cpu=cpu) for one in trial.members))


KERNELS = ("copy", "scale", "add", "triad")


def test_a_number_stands_at_each_place_that_it_is_about() -> None:
    """Schlosser's text has OpenVZ forward 1500 bytes as raw, from one to three sources; ours are of 1504 with FCS."""
    made = [
        Made(label, "forward", {"frame_size_bytes": size, "sources": sources, "egress": "each"}, value=rate)
        for label, rate in {"native": 1e6, "netns": 9e5}.items()
        for size in (68, 1504)
        for sources in (1, 3)
    ]
    found = figure("schlosser2011", "figure", "4")
    part, marks = measured(found, run(made, calibrated_rate=1e8))
    assert {(mark.panel, mark.x) for mark in marks} == {((size,), n) for size in (68, 1504) for n in (1, 3)}
    printed = printed_of(found, part, marks)
    assert {(one.platform, one.panel, one.x) for one in printed} == {("OpenVZ", (1504,), 1), ("OpenVZ", (1504,), 3)}
    alone = printed_of(found, part, ())
    assert [(one.platform, one.panel, one.x) for one in alone] == [("OpenVZ", (1504,), 1)]


def test_a_neighbour_of_other_cpus_stands_in_a_panel_of_its_own() -> None:
    shared, apart = (Condition("heavy", guests=1, affinity=one) for one in ("shared", "apart"))
    made = [Made("native", "forward", {"frame_size_bytes": 68}, value=1e6)]
    made += [Made("uml", "forward", {"frame_size_bytes": 68}, value=5e5)]
    made += [
        Made("uml", "forward", {"frame_size_bytes": 68}, value=5e5 * share, condition=one)
        for one, share in ((shared, 0.4), (apart, 0.9))
    ]
    part, marks = measured(figure("schlosser2011", "table", "1"), run(made, calibrated_rate=1e8))
    assert {mark.panel: round(mark.value, 1) for mark in marks} == {("heavy", "shared"): 0.4, ("heavy", "apart"): 0.9}
    assert part.panel == ["neighbour_load", "neighbour_affinity"]


def test_values_in_their_own_unit_have_the_bare_host_among_them() -> None:
    """Figure 10(a) of Camargos: what n machines do together, which is n times what each does."""
    made = [
        Made(
            label,
            "mariadb-oltp",
            {"server": "own"},
            scale=ScalePoint(n, 1, 2**28),
            figures={
                "transactions_per_second": rate / n,
                "latency_average": 1e6,
                "latency_p95": 1e6,
                "latency_p99": 1e6,
            },
        )
        for label, rate in {"native": 800.0, "runc": 600.0}.items()
        for n in (1, 2)
    ]
    part, marks = measured(figure("camargos2008", "figure", "10"), run(made))
    assert not part.share
    found = {(mark.platform, mark.x): mark.value for mark in marks}
    assert found == pytest.approx(
        {("native", 1): 800.0, ("native", 2): 800.0, ("runc", 1): 600.0, ("runc", 2): 600.0}, rel=0.03
    )
    assert {mark.unit for mark in marks} == {"transactions/s"}


def test_a_sweep_over_listed_rates_is_a_curve_as_far_as_the_list_goes() -> None:
    given = {"frame_size_bytes": 1504, "sweep": "rates", "rates_mbit_per_second": [100, 1000]}
    made = [Made(label, "forward", given, value=rate) for label, rate in {"native": 1e5, "netns": 5e4}.items()]
    part, marks = measured(figure("schlosser2011", "figure", "3"), run(made, calibrated_rate=1e6))
    own = [mark for mark in marks if mark.platform == "netns"]
    assert part.over == "rates"
    assert {mark.panel for mark in marks} == {(1504,)}
    assert [mark.unit for mark in own] == ["Mbit/s"] * 2, "without what was sent flat out, beyond the list"
    assert own[0].x == pytest.approx(100, rel=0.02)


def test_a_run_that_measured_nothing_of_a_figure_has_no_value_in_it() -> None:
    made = [Made(label, "superpi", {"digits": 1000}, value=1e9) for label in ("native", "runc")]
    for one in paper_figures():
        found = marks_of(one, run(made))
        if (one.paper, one.number) == ("mattos2012", "5"):
            assert [len(marks) for marks in found] == [2, 0]
        else:
            assert not any(found), (one.paper, one.number)
