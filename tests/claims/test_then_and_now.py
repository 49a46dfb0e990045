"""Then and now: each published number has its place, shares are the papers', a run's stand beside the right ones."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from tests.support.facts import assert_facts, missing_facts
from tests.support.made_up_run import Made, made_up_run

from virtoll.claims.published_rows import Question, questions, rows_file, why_not_comparable
from virtoll.claims.then_and_now import Correspondence, PublishedAnswer, ThenAndNow, standing_for, then_and_now
from virtoll.experiment.parse import find_experiment, load_experiment
from virtoll.experiment.selection import Selection
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.pipeline.preview import catalogue
from virtoll.reference.published import load_study, published_values, study_names
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import analyse

Platforms = Mapping[str, Mapping[str, Any]]
KVM: Mapping[str, Any] = {"platform": "qemu-kvm"}
EMULATED_NIC: Mapping[str, Any] = {"platform": "qemu-kvm", "parameters": {"nic": "e1000"}}
PLATFORMS: Platforms = {"native": {}, "kvm": KVM}
SMALL = {"frame_size_bytes": 68}
LARGE = {"frame_size_bytes": 1504}
MAXIMUM = ("maximum", "64 B", "one source")


def _run(platforms: Platforms, measured: Sequence[Made], **changed: Any) -> ThenAndNow:
    return then_and_now(analyse(made_up_run(platforms, measured, **changed)))


def _shortest(questions: Iterable[Question], platform: str, facts: Sequence[str]) -> Question:
    """The one about no more than these facts."""
    about = [one for one in questions if one.platform == platform and not missing_facts(one.what, *facts)]
    return min(about, key=lambda one: len(one.what))


def _beside(found: ThenAndNow, platform: str, *facts: str) -> PublishedAnswer:
    question = _shortest([row.question for row in found.rows], platform, facts)
    (one,) = (row for row in found.rows if row.question is question)
    return one


def _asked(paper: str, platform: str, *facts: str, source: str = "") -> Question:
    return _shortest([one for one in questions() if one.paper == paper and source in one.source], platform, facts)


def _operation(platform: str, operation: str, nanoseconds: float) -> Made:
    figures = {"operation_time": nanoseconds}
    return Made(platform, "kernel-operations", {"operation": operation}, value=nanoseconds * 1e6, figures=figures)


def test_every_published_number_is_mapped_or_has_a_reason_and_never_both() -> None:
    places: dict[str, dict[int, int]] = {name: {} for name in study_names()}
    for row in published_values():
        mapped = [one for one in rows_file().mapped if one.paper == row.paper and one.rows.holds(row)]
        reasons = [one for one in rows_file().not_comparable if one.paper == row.paper and one.rows.holds(row)]
        assert len(mapped) + len(reasons) == 1, (row.paper, row.source, row.platform, row.scenario, row.metric)
        assert bool(reasons) == (why_not_comparable(row) is not None)
        places[row.paper][len(mapped)] = places[row.paper].get(len(mapped), 0) + 1
    assert places == {
        "schlosser2011": {1: 172, 0: 19},
        "mattos2012": {1: 11, 0: 9},
        "suresh2014": {1: 83, 0: 40},
        "camargos2008": {1: 10, 0: 21},
    }
    asked = [value for one in questions() for value, _ in one.then.values]
    assert len(asked) == len({id(value) for value in asked}) == 276
    entries = [(one.paper, one.rows) for one in rows_file().mapped]
    entries += [(one.paper, one.rows) for one in rows_file().not_comparable]
    for paper, selected in entries:
        assert any(one.paper == paper and selected.holds(one) for one in published_values()), (paper, selected)


def test_what_is_mapped_can_be_measured_on_a_platform_that_the_study_has() -> None:
    for one in questions():
        study = load_study(one.paper)
        assert one.platform == study.baseline or study.platform(one.platform).ours, one
        assert one.now.workload is not None
        assert "{" not in one.what


@pytest.mark.parametrize(
    ("paper", "platform", "facts", "source", "share"),
    [
        ("suresh2014", "kvm", ("read",), "Table 1", 0.1031 / 0.1056),  # 97.6 %
        ("suresh2014", "virtualbox", ("pipe",), "Table 1", 3.4782 / 16.4372),
        ("suresh2014", "kvm", ("STREAM", "triad", "2 threads"), "Table 2", 10190.0 / 13363.9),
        ("suresh2014", "virtualbox", ("40 000 processes",), "4.3.1", 94 / 624),
        ("suresh2014", "virtualbox", ("40 000 processes", "KVM's"), "4.3.1", 1 / 2.69),
        ("suresh2014", "kvm", ("TCP", "100 Mbit/s"), "4.4.4", 93.08 / 95.13),
        ("suresh2014", "kvm", ("OLTP", "8 threads", "high"), "Table 3", 82.81 / 531.56),
        ("suresh2014", "kvm", ("rendering",), "Table 4", 830 / 817),
        ("suresh2014", "virtualbox", ("rendering", "high"), "Table 4", 878 / 1530),
        ("schlosser2011", "openvz", ("64 B", "heavy"), "Table 1", 1 - 0.182),
        ("schlosser2011", "openvz", ("second guest", "95 %", "64 B"), "Table 3", 62.7 / 124.4),
        ("schlosser2011", "raw", ("3 sources", "500 B"), "Figure 4", 3.0),
        ("schlosser2011", "vmware-vmxnet3", ("second guest", "95 %", "64 B"), "Figure 5", 0.8),
        ("mattos2012", "xen-bridge", ("64 B",), "Figure 9(b)", 150 / 750),
        ("mattos2012", "xen", ("4 routers", "130 kframes/s"), "Figure 8(b)", 0.7),
        ("camargos2008", "kvm", ("dbench",), "Figure 5", 0.3),
        ("camargos2008", "virtualbox", ("OLTP", "16 guests", "together"), "Figure 10(a)", 2.0),
    ],
)
def test_shares_are_those_of_the_printed_numbers(
    paper: str, platform: str, facts: tuple[str, ...], source: str, share: float
) -> None:
    then = _asked(paper, platform, *facts, source=source).then
    assert then.low == then.high == pytest.approx(share)


def test_several_numbers_of_one_thing_are_a_range_and_words_have_no_share() -> None:
    kvm = _asked("schlosser2011", "kvm", *MAXIMUM).then
    assert kvm.low == pytest.approx(37.1 / 153.1)
    assert kvm.high == pytest.approx(72.1 / 274.9)
    assert len(kvm.values) == 8
    large = _asked("schlosser2011", "virtualbox", "maximum", "1500 B", "one source").then
    assert (large.low, large.values) == (None, ())
    same = _asked("schlosser2011", "xen", "maximum", "1500 B", "one source").then
    assert_facts(large.words, "raw")
    assert_facts(same.words, "raw")
    assert large.words != same.words


def test_a_relation_and_a_note_travel_along() -> None:
    assert _asked("camargos2008", "xen", "dbench").then.relation == "at_most"
    assert _asked("camargos2008", "kvm", "OLTP").then.relation == "about"
    assert _asked("schlosser2011", "openvz", "small frames", "busy").then.relation == "at_most"
    assert _asked("mattos2012", "xen-router", "64 B").then.relation == "about", "a bound of a bound"
    assert _asked("suresh2014", "kvm", "read").then.relation == "equal"
    (note,) = _asked("suresh2014", "kvm", "STREAM", "copy", "2 threads").then.notes
    assert note.startswith("contradiction: ")
    assert_facts(note, "83 %")
    (note,) = _asked("schlosser2011", "kvm", "64 B", "heavy").then.notes
    assert note.startswith("uncertain: ")
    of_raw = " ".join(_asked("schlosser2011", "xen", *MAXIMUM).then.notes)
    assert_facts(of_raw, "contradiction", "1.80", "Table 2")
    assert _asked("suresh2014", "kvm", "rendering", "idle").then.notes == (), "only its own"


def test_a_latency_twice_as_long_is_half_of_the_performance() -> None:
    measured = [_operation("native", "read", 100.0), _operation("kvm", "read", 200.0)]
    found = _run(PLATFORMS, measured)
    (row,) = found.rows
    assert (row.study.name, row.question.source, row.question.what) == ("suresh2014", "Table 1", "read")
    (now,) = row.nows
    assert now.standing is Correspondence.PRODUCT
    assert now.ratio.estimate == pytest.approx(0.5, rel=0.02)
    assert now.ratio.interval is not None
    assert now.ratio.interval.low < 0.5 < now.ratio.interval.high
    assert (now.ratio.against, now.ratio.blocks) == ("native", 5)


def test_a_bandwidth_is_the_rate_of_that_kernel_by_as_many_threads() -> None:
    rates = {"copy_rate": 1e9, "scale_rate": 2e9, "add_rate": 3e9, "triad_rate": 4e9}
    half = {name: rate / 2 for name, rate in rates.items()} | {"triad_rate": 1e9}
    measured = [
        Made("native", "stream", {"threads": 2}, figures=rates),
        Made("kvm", "stream", {"threads": 2}, figures=half),
        Made("native", "stream", {"threads": 1}, figures=rates),
        Made("kvm", "stream", {"threads": 1}, figures=rates),
    ]
    found = _run(PLATFORMS, measured)
    for row, kernel in zip(found.rows, ("copy", "scale", "add", "triad"), strict=True):
        assert_facts(row.question.what, "STREAM", kernel, "2 threads")
    assert [row.nows[0].ratio.estimate for row in found.rows] == pytest.approx([0.5, 0.5, 0.5, 0.25], rel=0.02)


def test_a_rate_of_frames_stands_next_to_the_papers_maximum() -> None:
    platforms: Platforms = {"native": {}, "virtio": KVM, "emulated": {**EMULATED_NIC, "stands_for": "KVM (kvm-72)"}}
    measured = [
        Made("native", "forward", SMALL, value=1e6),
        Made("virtio", "forward", SMALL, value=2e5),
        Made("emulated", "forward", SMALL, value=1e5),
    ]
    row = _beside(_run(platforms, measured), "kvm", *MAXIMUM)
    (now,) = row.nows
    assert now.ratio.platform == "virtio"
    assert now.ratio.estimate == pytest.approx(0.2, rel=0.05)
    # The emulated NIC, whatever it stands for, is not what the paper's maximum is of.
    alone = _run({"native": {}, "emulated": platforms["emulated"]}, [measured[0], measured[2]])
    assert [one.question.platform for one in alone.rows if one.study.name == "schlosser2011"] == []


def test_a_bound_of_the_generators_opens_the_interval() -> None:
    measured = [Made("native", "forward", SMALL, value=1e6, lossless=True), Made("kvm", "forward", SMALL, value=2e5)]
    found = _run(PLATFORMS, measured, calibrated_rate=1e6)
    ratio = _beside(found, "kvm", *MAXIMUM).nows[0].ratio
    assert ratio.interval is not None
    assert (ratio.interval.low, ratio.interval.high < 0.3) == (0.0, True)
    assert_facts(ratio.reason, "bound")


def test_a_change_next_to_a_busy_guest_is_of_the_guest_on_other_cpus() -> None:
    beside = {affinity: Condition("heavy", affinity=affinity) for affinity in ("apart", "shared")}
    measured = [
        Made("native", "forward", SMALL, value=1e6),
        Made("kvm", "forward", SMALL, value=4e5),
        Made("kvm", "forward", SMALL, value=3e5, condition=beside["apart"]),
        Made("kvm", "forward", SMALL, value=1e5, condition=beside["shared"]),
    ]
    row = _beside(_run(PLATFORMS, measured), "kvm", "64 B", "heavy")
    assert row.question.then.low == pytest.approx(0.996)
    (now,) = row.nows
    assert now.ratio.estimate == pytest.approx(0.75, rel=0.05)
    assert now.ratio.against == "alone"
    assert_facts(now.ratio.under, "heavy", "other CPUs")


def test_what_the_second_guest_forwards_is_a_share_of_what_it_was_offered() -> None:
    forwarding = Condition("forward", affinity="apart", rate_share=0.95)
    platforms: Platforms = {"native": {}, "netns": {}}
    measured = [
        Made("native", "forward", SMALL, value=1e6),
        Made("netns", "forward", SMALL, value=9e5),
        Made("netns", "forward", SMALL, value=5e5, condition=forwarding, neighbour=(8e5, 6e5)),
    ]
    row = _beside(_run(platforms, measured), "openvz", "second guest", "95 %", "64 B")
    assert row.question.source == "Table 3"
    (now,) = row.nows
    assert now.standing is Correspondence.SUCCESSOR
    assert now.ratio.estimate == pytest.approx(0.75, rel=0.02)
    assert now.ratio.unit == "share"


def test_neighbours_of_a_database_and_of_a_rendering_are_two_guests() -> None:
    busy, one_busy = Condition("heavy", guests=2), Condition("heavy")
    measured = [
        Made("native", "povray", value=1e9),
        Made("kvm", "povray", value=1e9),
        Made("kvm", "povray", value=2e9, condition=busy),
        Made("kvm", "povray", value=1.5e9, condition=one_busy),
    ]
    found = _run(PLATFORMS, measured)
    alone, beside = found.rows
    assert_facts(alone.question.what, "rendering")
    assert_facts(beside.question.what, "rendering", "high")
    assert [row.nows[0].ratio.estimate for row in found.rows] == pytest.approx([1.0, 0.5], rel=0.03)
    assert [len(row.nows) for row in found.rows] == [1, 1]


def test_the_total_of_several_guests_stands_next_to_a_papers_total() -> None:
    def point(guests: int) -> ScalePoint:
        return ScalePoint(guests, 1, 256 << 20)

    served = {"latency_average": 1e7, "latency_p95": 1e7, "latency_p99": 1e7}
    platforms: Platforms = {"native": {}, "virtualbox": {}, "vserver": {}}
    measured = [
        Made(label, "mariadb-oltp", value=1e9, figures=served | {"transactions_per_second": rate}, scale=point(guests))
        for label, rates in (("virtualbox", {8: 50.0, 16: 50.0}), ("vserver", {2: 100.0, 8: 12.5}))
        for guests, rate in rates.items()
    ]
    found = _run(platforms, measured)
    together = _beside(found, "virtualbox", "OLTP", "16 guests", "8 guests'", "together")
    each = _beside(found, "virtualbox", "OLTP", "each of 16", "each of 8")
    fewer = _beside(found, "vserver", "OLTP", "8 guests", "2 guests'", "together")
    estimates = [row.nows[0].ratio.estimate for row in (together, each, fewer)]
    assert estimates == pytest.approx([2.0, 1.0, 0.5], rel=0.05)
    assert [row.question.then.low for row in (together, each, fewer)] == [2.0, 1.0, 1.0]


def test_the_bare_host_stands_next_to_the_papers() -> None:
    several = LARGE | {"sources": 2, "egress": "each"}
    measured = [
        Made("native", "forward", LARGE | {"egress": "each"}, value=6e4),
        Made("native", "forward", several, value=9e4),
    ]
    row = _beside(_run({"native": {}}, measured), "raw", "2 sources", "1500 B")
    assert row.platform is None
    (now,) = row.nows
    assert now.standing is Correspondence.BARE_HOST
    assert now.ratio.estimate == pytest.approx(1.5, rel=0.05)


def test_only_the_nearest_stands_next_to_a_papers_platform() -> None:
    """The product itself; else its successors; else what the experiment says stands for it. gVisor and UML never do."""
    uml = {"stands_for": "Xen 3.1 (a guest's kernel that is changed for what it runs on)"}
    platforms: Platforms = {"native": {}, "runc": {}, "openvz": {}, "runsc": {}, "uml": uml}
    measured = [
        Made(label, "mariadb-oltp", figures={"transactions_per_second": 100.0 + 10 * number})
        for number, label in enumerate(platforms)
    ] + [Made(label, "dbench", value=1e6) for label in platforms]
    found = _run(platforms, measured)
    places = {
        (row.question.platform, row.question.what): [(now.ratio.platform, now.standing) for now in row.nows]
        for row in found.rows
    }
    assert places == {
        ("openvz", "dbench"): [("openvz", Correspondence.PRODUCT)],
        ("openvz", "OLTP"): [("openvz", Correspondence.PRODUCT)],
        ("xen", "dbench"): [("uml", Correspondence.IN_PLACE)],
    }
    without = {label: given for label, given in platforms.items() if label != "openvz"}
    found = _run(without, [one for one in measured if one.platform != "openvz"])
    (row,) = (one for one in found.rows if (one.question.platform, one.question.what) == ("openvz", "OLTP"))
    assert [(now.ratio.platform, now.standing) for now in row.nows] == [("runc", Correspondence.SUCCESSOR)]
    plain = _run({"native": {}, "uml": {}, "runsc": {}}, [one for one in measured if one.platform in ("native", "uml")])
    assert plain.rows == ()


def test_one_block_has_a_share_and_no_interval_and_a_nested_host_a_mark() -> None:
    nested: Platforms = {"xen": {"host": "nested xen", "caveat": FUNCTIONAL_ONLY}, "native": {}}
    measured = [Made("native", "dbench", value=1e6), Made("xen", "dbench", value=1e4)]
    (row,) = _run(nested, measured, blocks=1).rows
    (now,) = row.nows
    assert (now.ratio.functional, now.ratio.interval) == (True, None)
    assert now.ratio.estimate == pytest.approx(0.01, rel=0.05)


def test_without_a_baseline_or_a_value_there_is_no_row() -> None:
    alone = [Made("kvm", "dbench", value=1e6)]
    assert _run({"kvm": KVM}, alone, baseline=None).rows == ()
    assert _run(PLATFORMS, [Made("native", "superpi"), Made("kvm", "superpi")]).rows == ()


def test_the_named_studys_other_numbers_are_counted_by_reason() -> None:
    measured = [Made("native", "dbench", value=1e6), Made("kvm", "dbench", value=2e5)]
    found = _run(PLATFORMS, measured, experiment={"study": "camargos2008"})
    assert found.study is load_study("camargos2008")
    own = [one for one in published_values() if one.paper == "camargos2008"]
    assert sum(found.untold.values()) + len(found.rows) == len(own)
    for fact, number in {"Xen": 1, "mariadb-oltp": 1, "memory": 7}.items():
        assert [count for reason, count in found.untold.items() if not missing_facts(reason, fact)] == [number], fact
    assert _run(PLATFORMS, measured).untold == {}


@pytest.mark.parametrize("preset", [preset for name in study_names() for preset in load_study(name).presets])
@pytest.mark.parametrize("size", ["quick", "paper"])
def test_what_a_preset_has_in_a_products_place_names_it_as_its_study_does(preset: str, size: str) -> None:
    experiment = load_experiment(find_experiment(preset), catalogue(), Selection(size=size))
    assert experiment.study is not None
    assert preset.startswith(experiment.study)
    study = load_study(experiment.study)
    for one in experiment.platforms:
        if one.stands_for not in (None, "QEMU without the module"):
            assert any(platform.written in (one.stands_for or "") for platform in study.platforms), one.stands_for


def test_a_legend_says_what_is_not_the_papers_own() -> None:
    named = {standing: standing.short for standing in Correspondence if standing.short}
    assert set(named) == {Correspondence.SUCCESSOR, Correspondence.IN_PLACE}
    assert len(set(named.values())) == 2


def test_standing_is_by_what_a_platform_is_whatever_its_label() -> None:
    server = {"server": "esxi.example", "password_from": "env:PASSWORD", "datastore": "store", "uplinks": ["vmnic1"]}
    platforms: Platforms = {
        "native": {},
        "a": {"platform": "esxi", "parameters": {"nic": "e1000", **server}},
        "b": {"platform": "xen", "parameters": {"type": "hvm"}},
        "c": {"platform": "xen"},
    }
    manifest = made_up_run(platforms, [Made("native", "superpi")]).manifest
    study = load_study("schlosser2011")
    assert standing_for(study.platform("vmware-e1000"), manifest) == {"a": Correspondence.PRODUCT}
    assert standing_for(study.platform("vmware-vmxnet3"), manifest) == {}
    assert standing_for(study.platform("xen"), manifest) == {"c": Correspondence.PRODUCT}
