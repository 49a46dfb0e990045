"""The table of the platforms' evidence: from records whose truth is known, and from the tests' own XML."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.by_hand import SECOND, clock, job, point, sink, source, trial
from tests.support.facts import assert_facts, refused
from tests.support.synthetic_run import Truth, run_data

from virtoll.errors import UsageError
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.report import read_tests, validation_table
from virtoll.stats.analysis import analyse
from virtoll.stats.sweeps import point_values
from virtoll.stats.validation import Forwarded, PlatformValidation, validations_of

COSTS: dict[str, dict[str, float]] = {"native": {}, "netns": {}, "xen": {"packet path": 400.0}, "qemu-kvm": {}}
TESTS = """<testsuites><testsuite>
<testcase classname="tests.platforms.test_guests" name="test_it_is_ready[netns]"/>
<testcase classname="tests.platforms.test_guests" name="test_it_dies[netns]"><skipped message="why"/></testcase>
<testcase classname="tests.platforms.test_guests" name="test_it_is_ready[netns-cgroup]"/>
<testcase classname="tests.platforms.test_guests" name="test_without_a_kind"/>
<testcase classname="tests.platforms.test_guests" name="test_the_jobs_give_right_answers[netns-superpi]"/>
<testcase classname="tests.platforms.test_guests" name="test_the_jobs_give_right_answers[netns-cgroup-superpi]"/>
<testcase classname="tests.platforms.test_nested_guests" name="test_it_is_ready[nested-xen-pv]"/>
<testcase classname="tests.platforms.test_nested_guests" name="test_it_dies[nested-xen-pv]"><failure/></testcase>
<testcase classname="tests.platforms.test_openvz" name="test_it_starts[one]"/>
<testcase classname="tests.report.test_report" name="test_a_page[whole]"/>
</testsuite></testsuites>"""


def rows(**changed: Any) -> dict[str, PlatformValidation]:
    given: dict[str, Any] = {
        "control": None,
        "caveats": {"xen": ("nested xen", FUNCTIONAL_ONLY)},
        "unavailable": {"qemu-kvm": "there is no /dev/kvm"},
    }
    return {one.platform: one for one in validations_of(analyse(run_data(Truth(COSTS, **{**given, **changed}))))}


def test_evidence_is_read_off_boots_and_trials() -> None:
    found = rows(failures={("netns", "superpi", 1): "failed"})
    netns = found["netns"]
    assert netns.boots == {"ok": 3}
    assert netns.trials == {"ok": 20, "failed": 1}
    assert netns.ready is not None
    assert netns.ready.median == 9_000_000
    assert netns.marks == {"icmp": 8}
    assert netns.where == "real, this machine"
    assert found["qemu-kvm"].why_not == "there is no /dev/kvm"
    assert found["qemu-kvm"].ready is None
    assert found["xen"].where == "nested xen"
    assert found["xen"].caveat == FUNCTIONAL_ONLY


def test_tests_count_for_the_kind_in_their_brackets_or_for_their_module() -> None:
    kinds = {one.kind: one for one in read_tests(TESTS, "tests.xml")}
    assert_facts(kinds["netns"].words, "2 passed", "1 skipped", "netns")
    assert_facts(kinds["netns-cgroup"].words, "2 passed", "netns-cgroup")
    assert list(kinds) == ["netns", "netns-cgroup", "nested-xen-pv", "openvz", "report"]
    assert_facts(kinds["nested-xen-pv"].words, "1 passed", "1 failed", "nested-xen-pv")
    assert kinds["nested-xen-pv"].nested
    assert kinds["openvz"].outcomes["passed"] == 1


def test_the_table_brands_counts_and_leaves_nobody_out() -> None:
    analysis = analyse(run_data(Truth(COSTS, control=None, caveats={"xen": ("nested xen", FUNCTIONAL_ONLY)})))
    lines = validation_table(
        [analysis], read_tests(TESTS, "tests.xml"), {"netns": "real", "openvz": "mock", "uml": "real"}
    )
    table = {line.split("|")[1].strip(): line for line in lines[2:]}
    assert list(table) == ["native", "netns", "xen", "qemu-kvm", "netns-cgroup", "openvz", "uml"]
    assert f"*{FUNCTIONAL_ONLY}*" in table["xen"]
    assert "(nested-xen-pv)" in table["xen"]
    assert_facts(table["netns"], "2 passed", "1 skipped")
    assert_facts(table["openvz"], "never run", "1 passed")
    assert_facts(table["uml"], "none")
    assert len({line.count("|") for line in lines}) == 1


def test_what_is_no_junit_xml_is_one_sentence() -> None:
    with refused("tests.xml", "JUnit", error=UsageError):
        read_tests("no", "tests.xml")


def test_a_row_has_its_own_entrys_words_and_its_clocks_median_estimate() -> None:
    """Estimates of 3, 9 and 5 ns; one clock lacks one, one trial lacks marks, and one is invalid."""
    analysis = analyse(run_data(Truth({"native": {}, "netns": {}}, control=None)))
    first, second = analysis.data.manifest.platforms
    entries = (
        first.replace(version="7.2", reason="of another time", host=None),
        second.replace(family="model", available=False, reason="not here"),
    )
    timed = [
        job(number, 5, platform="native", clock=clock(5, error_estimate_ns=one))
        for number, one in enumerate((3, 9, None, 5))
    ]
    timed += [job(7, None, platform="native"), job(8, 1, platform="native", status="invalid")]
    timed += [job(9, 1, platform="native", clock=clock(5, error_estimate_ns=99).replace(marks=None))]
    manifest = analysis.data.manifest.replace(platforms=entries)
    changed = replace(analysis, data=replace(analysis.data, manifest=manifest, trials=tuple(timed)))
    native, netns = validations_of(changed)
    assert (native.platform, native.version, native.where, native.why_not) == (
        "native",
        "7.2",
        "real, this machine",
        None,
    )
    assert (native.marks, native.error_estimate_ns) == ({"icmp": 4}, 5)
    assert (netns.where, netns.why_not, netns.error_estimate_ns) == ("model", "not here", None)


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([], None),
        ([(10.0, 0.5, 2, 0)], Forwarded(0.5, 2, 0, 1, 1)),
        ([(20.0, 8.0, 9, 0), (10.0, 4.0, 5, 0), (10.0, 2.0, 3, 0)], Forwarded(8.0, 17, 0, 3, 3)),
        ([(10.0, 4.0, 5, 0), (20.0, 3.0, 4, 0), (40.0, 9.0, 10, 1)], Forwarded(4.0, 9, 0, 2, 2)),
        ([(10.0, 4.0, 5, 2), (10.0, 2.0, 3, 0), (20.0, 8.0, 9, 0)], Forwarded(2.0, 8, 2, 2, 1)),
        ([(None, 4.0, 5, 5), (10.0, 2.0, 3, 0)], Forwarded(2.0, 3, 0, 1, 1)),
        ([(5.0, 0.0, 1, 1), (10.0, 2.0, 3, 0)], Forwarded(2.0, 3, 0, 1, 1)),
    ],
    ids=["none", "half a frame a second", "all", "up to a loss", "the lowest lost", "paced alone", "without a rate"],
)
def test_frames_are_added_up_to_the_first_loss(
    points: list[tuple[float | None, float, int, int]], expected: Forwarded | None
) -> None:
    """Of (intended, offered rate, frames offered, frames lost); by the rate that was intended."""
    made = [
        point(
            intended,
            [
                source(
                    intended=sent,
                    first_sent_monotonic_ns=0,
                    last_sent_monotonic_ns=round((sent - 1) * SECOND / (rate or 1)),
                )
            ],
            [sink(forwarded=sent - lost, lost=lost)],
        )
        for intended, rate, sent, lost in points
    ]
    analysis = analyse(run_data(Truth({"native": {}}, control=None, blocks=1)))
    (row,) = validations_of(replace(analysis, points=point_values([trial(1, *made, platform="native")])))
    assert row.forwarded == expected
