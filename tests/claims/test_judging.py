"""How a claim is judged, whatever it says: bounds, intervals, several platforms and tests, rates that are bounds.

The truth of each run is made up; what a claim asks for is written here as a user would write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.facts import Fact, assert_facts, missing_facts, refused
from tests.support.made_up_run import Made, made_up_run

from virtoll.claims import Judged, Outcome, judge_claims, parse_claims
from virtoll.errors import UsageError
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import Analysis, RunData, analyse

BASE: dict[str, dict[str, Any]] = {"native": {}, "native-again": {}}
SMALL = {"frame_size_bytes": 64}


def claim_on(test: str, *more: str) -> Any:
    """One claim with these tests, as YAML has them."""
    tests = "".join(f"    - {one}\n" for one in (test, *more))
    return parse_claims(f"- id: own\n  source: a test\n  says: something\n  tests:\n{tests}", "claims.yaml")


def judged(analysis: Analysis, test: str, *more: str) -> Judged:
    (found,) = judge_claims(analysis, claim_on(test, *more))
    return found


def builds_of(times: dict[str, float], **given: Any) -> RunData:
    """A kernel build of so many seconds on each platform."""
    platforms = BASE | {label: {} for label in times}
    measured = [Made(label, "kernel-compile", {}, value=seconds * 1e9, **given) for label, seconds in times.items()]
    return made_up_run(platforms, measured)


def builds(times: dict[str, float], **given: Any) -> Analysis:
    """What is known of such builds."""
    return analyse(builds_of(times, **given))


AS_FAST = "{says: builds as fast, workload: kernel-compile, against: baseline, share: {at_least: 0.9}}"


@pytest.mark.parametrize(
    ("seconds", "outcome"), [(10.0, Outcome.SUPPORTED), (30.0, Outcome.REFUTED), (11.1, Outcome.NOT_DECIDED)]
)
def test_an_interval_decides_only_where_it_leaves_no_doubt(seconds: float, outcome: Outcome) -> None:
    found = judged(builds({"native": 10.0, "runc": seconds}), AS_FAST)
    assert found.outcome is outcome
    (finding,) = found.tests[0].findings
    assert finding.estimate == pytest.approx(10.0 / seconds, rel=0.03)
    assert finding.interval is not None
    assert finding.interval.low < 10.0 / seconds < finding.interval.high
    assert finding.blocks == 5


def test_times_slower_is_of_time_and_share_of_performance() -> None:
    analysis = builds({"native": 10.0, "runc": 30.0})
    for asked, outcome in (
        ("times_slower: {at_least: 2.5}", Outcome.SUPPORTED),
        ("times_slower: {at_least: 4}", Outcome.REFUTED),
        ("share: {at_most: 0.4}", Outcome.SUPPORTED),
    ):
        assert judged(analysis, AS_FAST.replace("share: {at_least: 0.9}", asked)).outcome is outcome, asked


def test_one_platform_refutes_a_test_of_all_and_supports_one_of_any() -> None:
    analysis = builds({"native": 10.0, "runc": 10.0, "uml": 40.0})
    assert judged(analysis, AS_FAST).outcome is Outcome.REFUTED
    assert judged(analysis, AS_FAST.replace("says:", "holds_for: any, says:")).outcome is Outcome.SUPPORTED
    slow = builds({"native": 10.0, "uml": 40.0})
    any_is = AS_FAST.replace("says:", "holds_for: any, says:")
    assert judged(slow, any_is).outcome is Outcome.NOT_SEEN, "another platform may be one"
    assert judged(slow, any_is, AS_FAST).outcome is Outcome.REFUTED, "by its other part"


@pytest.mark.parametrize("load", [0.1, 3.0])
def test_an_unfit_host_decides_nothing(load: float) -> None:
    """Models do not use the host, whatever it does."""
    data = builds_of({"native": 10.0, "runc": 10.0, "uml": 40.0})
    data = replace(data, fitness=tuple(record.replace(load_1m=2 * load) for record in data.fitness))
    unfit = load > 1
    for test, outcome in ((AS_FAST, Outcome.REFUTED), (AS_FAST.replace("0.9", "0.1"), Outcome.SUPPORTED)):
        found = judged(analyse(data), test)
        assert found.outcome is (Outcome.NOT_DECIDED if unfit else outcome)
        assert (not missing_facts(found.tests[0].missing, "unfit")) == unfit
    platforms = tuple(entry.replace(family="model") for entry in data.manifest.platforms)
    simulated = replace(data, manifest=data.manifest.replace(platforms=platforms))
    assert judged(analyse(simulated), AS_FAST).outcome is Outcome.REFUTED


@pytest.mark.parametrize(("itself", "outcome"), [(10.2, Outcome.REFUTED), (12.0, Outcome.NOT_DECIDED)])
def test_a_host_that_differs_from_itself_decides_nothing_so_small(itself: float, outcome: Outcome) -> None:
    """A tenth less than native is asked for; a factor of four may be told all the same."""
    analysis = builds({"native": 10.0, "native-again": itself, "uml": 45.0})
    found = judged(analysis, AS_FAST)
    assert found.outcome is outcome
    if outcome is Outcome.NOT_DECIDED:
        assert_facts(found.tests[0].missing, "of itself", "compiling Linux")
    assert judged(analysis, AS_FAST.replace("0.9", "0.3")).outcome is Outcome.REFUTED


@pytest.mark.parametrize(("itself", "outcome"), [(10.2, Outcome.SUPPORTED), (12.0, Outcome.NOT_DECIDED)])
def test_a_direction_is_told_if_a_platform_differs_by_more_than_the_host(itself: float, outcome: Outcome) -> None:
    slower = AS_FAST.replace("share: {at_least: 0.9}", "share: {at_most: 1}")
    assert judged(builds({"native": 10.0, "native-again": itself, "runc": 11.0}), slower).outcome is outcome
    assert judged(builds({"native": 10.0, "native-again": itself, "uml": 40.0}), slower).outcome is Outcome.SUPPORTED


LARGE = FrameShape(frame_size_bytes=1504)
BY_A_LINK = (
    "{says: forwards as much, workload: forward, link_mbit_per_second: 1000, against: baseline, share: {at_least: 0.9}}"
)


def forwarded(rates: Sequence[float], **mbit_per_second: float) -> Analysis:
    """What each platform forwards at most of 1504-byte frames, on the wire, where these rates are offered."""
    sweep = {"sweep": "rates", "rates_mbit_per_second": list(rates), "frame_size_bytes": 1504}
    made = [
        Made(label, "forward", sweep, value=LARGE.frames_per_second(most)) for label, most in mbit_per_second.items()
    ]
    return analyse(made_up_run({label: {} for label in mbit_per_second}, made))


def test_what_is_said_of_a_link_is_judged_by_what_it_carries() -> None:
    """A container that forwards a third of the host's 4 Gbit/s forwards all that a link of 1 Gbit/s carries."""
    rates = (100, 500, 1000, 2000, 4000)
    found = judged(forwarded(rates, native=4000.0, netns=1300.0), BY_A_LINK)
    assert found.outcome is Outcome.SUPPORTED
    ((finding,), (faster,)) = found.tests[0].findings, found.tests[0].beyond
    assert finding.estimate == pytest.approx(1, rel=0.03)
    assert (faster.platform, faster.outcome) == ("netns", Outcome.REFUTED)
    assert faster.estimate == pytest.approx(1300 / 4000, rel=0.05)
    plain = judged(forwarded(rates, native=4000.0, netns=1300.0), BY_A_LINK.replace("link_mbit_per_second: 1000, ", ""))
    assert (plain.outcome, plain.tests[0].beyond) == (Outcome.REFUTED, ())


@pytest.mark.parametrize(
    ("rates", "netns", "outcome"),
    [
        ((100, 500, 1000, 4000), 600.0, Outcome.REFUTED),
        ((100, 500), 3000.0, Outcome.NOT_DECIDED),
        ((100, 500), 300.0, Outcome.REFUTED),
        ((2000, 4000), 3000.0, Outcome.NOT_MEASURED),
    ],
    ids=["less than the link", "too little was offered", "less than little", "all was more than the link"],
)
def test_a_link_is_not_judged_by_more_or_less_than_it_carries(
    rates: Sequence[float], netns: float, outcome: Outcome
) -> None:
    found = judged(forwarded(rates, native=4000.0, netns=netns), BY_A_LINK)
    assert found.outcome is outcome
    if outcome is Outcome.NOT_MEASURED:
        assert_facts(found.tests[0].missing, "forward", "link", 1000)


def test_one_block_has_no_interval_and_a_missing_workload_no_finding() -> None:
    found = judged(builds({"native": 10.0, "runc": 10.0}, blocks=1), AS_FAST)
    assert found.outcome is Outcome.NOT_DECIDED
    assert_facts(found.tests[0].findings[0].reason, "one block")
    lacking = judged(builds({"native": 10.0, "runc": 10.0}), AS_FAST.replace("kernel-compile", "bzip2"))
    assert lacking.outcome is Outcome.NOT_MEASURED
    assert_facts(lacking.tests[0].missing, "bzip2")


def test_a_part_without_values_leaves_a_claim_open_unless_another_refutes() -> None:
    other = AS_FAST.replace("kernel-compile", "bzip2")
    assert judged(builds({"native": 10.0, "runc": 10.0}), AS_FAST, other).outcome is Outcome.NOT_DECIDED
    assert judged(builds({"native": 10.0, "runc": 40.0}), AS_FAST, other).outcome is Outcome.REFUTED
    assert judged(builds({"native": 10.0, "runc": 10.0}), other, other).outcome is Outcome.NOT_MEASURED


def test_a_platform_that_is_functional_only_is_shown_and_decides_nothing() -> None:
    platforms = {**BASE, "xen": {"platform": "xen", "caveat": FUNCTIONAL_ONLY}}
    measured = [Made("native", "superpi", {}, value=1e9), Made("xen", "superpi", {}, value=50e9)]
    found = judged(analyse(made_up_run(platforms, measured)), AS_FAST.replace("kernel-compile", "superpi"))
    assert found.outcome is Outcome.NOT_MEASURED
    (finding,) = found.tests[0].findings
    assert finding.functional
    assert finding.estimate == pytest.approx(0.02, rel=0.05)


def test_what_is_compared_differs_in_nothing_but_what_is_named() -> None:
    """Of three numbers of jobs each is compared with one job alone, and not with another size of the build."""
    times = {("quick", 1): 10.0, ("quick", 4): 5.0, ("paper", 1): 100.0}
    measured = [
        Made(label, "kernel-compile", {"size": size, "jobs": jobs}, value=seconds * 1e9)
        for label in ("native", "runc")
        for (size, jobs), seconds in times.items()
    ]
    analysis = analyse(made_up_run(BASE | {"runc": {}}, measured))
    test = (
        "{says: gains, workload: kernel-compile, where: {jobs: {at_least: 2}}, against: {where: {jobs: 1}}, "
        "share: {at_least: 1.5}}"
    )
    found = judged(analysis, test)
    assert found.outcome is Outcome.SUPPORTED
    assert [one.estimate for one in found.tests[0].findings] == [pytest.approx(2.0, rel=0.03)]
    per_job = judged(analysis, test.replace("says:", "per: jobs, says:").replace("at_least: 1.5", "at_least: 0.9"))
    assert per_job.outcome is Outcome.REFUTED, "a quarter of the speed for each of four jobs is half of what one has"


EACH = (
    "{says: gains, workload: kernel-compile, where: {jobs: {each: [2, 4]}}, against: {where: {jobs: 1}}, "
    "share: {at_least: 1.2}}"
)


def assert_lacks(text: str, *facts: Fact) -> None:
    """What a test lacks has these facts, and is empty where there are none."""
    assert bool(text) == bool(facts)
    assert_facts(text, *facts)


@pytest.mark.parametrize(
    ("seconds", "outcome", "lacks"),
    [
        ({1: 10.0, 2: 6.0, 4: 4.0}, Outcome.SUPPORTED, ()),
        ({1: 10.0, 2: 6.0}, Outcome.NOT_DECIDED, ("jobs 4",)),
        ({1: 10.0, 4: 4.0, 8: 3.0}, Outcome.NOT_DECIDED, ("jobs 2",)),
        ({1: 10.0, 2: 10.0}, Outcome.REFUTED, ()),
        ({1: 10.0, 8: 3.0}, Outcome.NOT_MEASURED, ("kernel-compile", "jobs", 2, 4)),
        ({2: 6.0, 4: 4.0}, Outcome.NOT_MEASURED, ("kernel-compile", "jobs 1")),
    ],
)
def test_each_of_several_values_must_be_measured_where_a_test_says_so(
    seconds: dict[int, float], outcome: Outcome, lacks: tuple[Fact, ...]
) -> None:
    measured = [Made("runc", "kernel-compile", {"jobs": jobs}, value=1e9 * one) for jobs, one in seconds.items()]
    analysis = analyse(made_up_run(BASE | {"runc": {}}, measured))
    found = judged(analysis, EACH)
    assert (found.outcome, found.tests[0].outcome) == (outcome, outcome)
    assert_lacks(found.tests[0].missing, *lacks)
    any_counts = judged(analysis, EACH.replace("{each: [2, 4]}", "[2, 4]"))
    assert any_counts.outcome is (outcome if outcome is not Outcome.NOT_DECIDED else Outcome.SUPPORTED)


@pytest.mark.parametrize(
    ("netns", "runc", "outcome", "lacks"),
    [
        ({1: 10.0, 2: 6.0, 4: 4.0}, {1: 10.0, 2: 6.0, 4: 4.0}, Outcome.SUPPORTED, ()),
        ({1: 10.0, 2: 6.0}, {1: 10.0, 4: 4.0}, Outcome.NOT_DECIDED, ("jobs 4", "netns")),
        ({1: 10.0, 2: 10.0}, {1: 10.0, 2: 6.0, 4: 4.0}, Outcome.REFUTED, ()),
    ],
)
def test_each_platform_must_have_each_value_where_a_test_is_of_all(
    netns: dict[int, float], runc: dict[int, float], outcome: Outcome, lacks: tuple[Fact, ...]
) -> None:
    measured = [
        Made(label, "kernel-compile", {"jobs": jobs}, value=1e9 * seconds)
        for label, times in {"netns": netns, "runc": runc}.items()
        for jobs, seconds in times.items()
    ]
    analysis = analyse(made_up_run(BASE | {"netns": {}, "runc": {}}, measured))
    found = judged(analysis, EACH)
    assert found.outcome is outcome
    assert_lacks(found.tests[0].missing, *lacks)
    assert judged(analysis, EACH.replace("says:", "holds_for: any, says:")).outcome is Outcome.SUPPORTED


@pytest.mark.parametrize(
    ("asked", "facts"),
    [
        ("reading: neighbour-delivered", ("forward", "neighbour")),
        ("where: {frame_size_bytes: [504, 500]}", ("forward", "frame size bytes", 504, 500)),
        ("where: {frame_size_bytes: {at_least: 500}}", ("forward", "frame size bytes", 500)),
        ("where: {frame_size_bytes: 68, sources: 2}", ("forward", "frame size bytes 68", "sources 2")),
        ("where: {vlan: 0}, platforms: {family: emulated}", ("forward", "platform")),
        ("where: {}, metric: cpu_per_frame", ("forward", "cpu per frame")),
    ],
)
def test_what_a_run_lacks_for_a_test_is_named(asked: str, facts: tuple[Fact, ...]) -> None:
    measured = [
        Made("netns", "forward", {"frame_size_bytes": 68}, value=1e5),
        Made("netns", "forward", {"frame_size_bytes": 128, "sources": 2}, value=1e5),
    ]
    test = f"{{says: forwards, workload: forward, {asked}, value: {{at_least: 1, unit: frames/s}}}}"
    found = judged(analyse(made_up_run(BASE | {"netns": {}}, measured)), test)
    assert found.outcome is Outcome.NOT_MEASURED
    assert_facts(found.tests[0].missing, *facts)


def test_a_value_that_only_a_functional_platform_has_is_not_measured() -> None:
    nested = {"platform": "xen", "host": "nested xen", "caveat": FUNCTIONAL_ONLY}
    times = {"runc": {1: 10.0, 2: 6.0}, "xen": {1: 20.0, 2: 12.0, 4: 8.0}}
    measured = [
        Made(label, "kernel-compile", {"jobs": jobs}, value=1e9 * one)
        for label, seconds in times.items()
        for jobs, one in seconds.items()
    ]
    found = judged(analyse(made_up_run(BASE | {"runc": {}, "xen": nested}, measured)), EACH)
    assert found.outcome is Outcome.NOT_DECIDED
    assert_facts(found.tests[0].missing, "jobs 4")


def test_as_many_jobs_as_virtual_cpus_are_that_many() -> None:
    """The size is that of all guests, or that of guests at once."""
    test = (
        "{says: is as fast, workload: kernel-compile, where: {jobs: {at_least: 4}}, against: baseline, "
        "share: {at_least: 0.9}}"
    )
    for vcpus, outcome in ((2, Outcome.NOT_MEASURED), (4, Outcome.SUPPORTED)):
        measured = [Made(label, "kernel-compile", {"jobs": "vcpus"}, value=1e10) for label in ("native", "runc")]
        size = {"guest": {"vcpus": vcpus, "memory_bytes": 2 << 30, "marks": "icmp"}}
        assert judged(analyse(made_up_run(BASE | {"runc": {}}, measured, experiment=size)), test).outcome is outcome
        held = [replace(one, scale=ScalePoint(1, vcpus, 2 << 30)) for one in measured]
        assert judged(analyse(made_up_run({"native": {}, "runc": {}}, held)), test).outcome is outcome


@pytest.mark.parametrize(("where", "against"), [("4", "1"), ("most", "least")])
def test_jobs_that_are_as_many_as_virtual_cpus_follow_from_these(where: str, against: str) -> None:
    """Over virtual CPUs they are no second difference; two jobs whatever the guest has are another build."""
    seconds = {("vcpus", 1): 10.0, ("vcpus", 2): 5.5, ("vcpus", 4): 3.0, (2, 1): 10.0, (2, 4): 9.0}
    measured = [
        Made(label, "kernel-compile", {"jobs": jobs}, value=1e9 * one, scale=ScalePoint(1, vcpus, 1 << 30))
        for label in ("native", "runc")
        for (jobs, vcpus), one in seconds.items()
    ]
    test = (
        f"{{says: gains, workload: kernel-compile, where: {{vcpus: {where}}}, "
        f"against: {{where: {{vcpus: {against}}}}}, share: {{at_least: 1}}}}"
    )
    found = judged(analyse(made_up_run({"native": {}, "runc": {}}, measured)), test)
    estimates = sorted(one.estimate or 0.0 for one in found.tests[0].findings)
    assert estimates == pytest.approx([10 / 9, 10 / 3], rel=0.03)


def test_platforms_of_the_same_product_differ_in_what_is_named_alone() -> None:
    test = (
        "{says: forwards more, workload: forward, platforms: {nic: para-virtualised}, "
        "against: {platforms: {nic: emulated}, same_product: true}, share: {at_least: 1}}"
    )
    kinds: dict[str, dict[str, Any]] = {
        "virtio": {},
        "e1000": {"nic": "e1000"},
        "e1000-disk": {"nic": "e1000", "disk": "nvme"},
    }

    def compared(*labels: str, host: str = "this machine") -> Judged:
        platforms = {label: {"platform": "qemu-tcg", "parameters": kinds[label]} for label in labels}
        platforms[labels[-1]]["host"] = host
        measured = [Made(label, "forward", SMALL, 2e5 if label == "virtio" else 1e5) for label in labels]
        return judged(analyse(made_up_run(BASE | platforms, measured)), test)

    assert compared("virtio", "e1000").outcome is Outcome.SUPPORTED
    for other in (compared("virtio", "e1000-disk"), compared("virtio", "e1000", host="another machine")):
        assert other.outcome is Outcome.NOT_MEASURED
        assert_facts(other.tests[0].missing, "compared")
    assert len(compared("virtio", "e1000", "e1000-disk").tests[0].findings) == 1


@pytest.mark.parametrize(
    ("where", "against", "ratio"), [("least", "most", 0.5), ("most", "least", 2.0), ("{at_least: 1}", "next", 0.7)]
)
def test_least_most_and_next_are_of_what_was_measured(where: str, against: str, ratio: float) -> None:
    rates = {1: 1e6, 2: 1.4e6, 8: 2e6}
    measured = [
        Made(label, "stream", {"threads": threads}, value=1e9 / rate * 1e6, figures={"copy_rate": rate})
        for label in ("native", "runc")
        for threads, rate in rates.items()
    ]
    test = (
        f"{{says: grows, workload: stream, metric: copy_rate, where: {{threads: {where}}}, "
        f"against: {{where: {{threads: {against}}}}}, share: {{at_least: 0.1}}}}"
    )
    found = judged(analyse(made_up_run(BASE | {"runc": {}}, measured)), test)
    estimates = sorted(one.estimate or 0.0 for one in found.tests[0].findings)
    expected = [ratio] if against != "next" else [1.0 / 1.4, 1.4 / 2.0]
    assert estimates == pytest.approx(sorted(expected), rel=0.03)


def forwarding(rates: dict[str, tuple[float, bool]], limit: float | None = None) -> Analysis:
    """What each platform forwards, and whether it loses nothing flat out."""
    measured = [
        Made(label, "forward", SMALL, value=rate, lossless=lossless) for label, (rate, lossless) in rates.items()
    ]
    return analyse(made_up_run(BASE | {label: {} for label in rates}, measured, calibrated_rate=limit))


def test_a_rate_that_is_a_lower_bound_decides_one_way_only() -> None:
    """Native lost nothing, so that it may forward more: netns has at most this share of it, and may have less."""
    analysis = forwarding({"native": (500e3, True), "netns": (495e3, False)})
    test = "{says: forwards as much, workload: forward, against: baseline, share: {at_least: 0.9}}"
    assert judged(analysis, test).outcome is Outcome.NOT_DECIDED
    (finding,) = judged(analysis, test).tests[0].findings
    assert finding.interval is not None
    assert finding.interval.low == 0.0
    assert_facts(finding.reason, "bound")
    assert judged(analysis, test.replace("at_least: 0.9", "at_most: 1.2")).outcome is Outcome.SUPPORTED
    slow = forwarding({"native": (500e3, True), "netns": (100e3, False)})
    assert judged(slow, test).outcome is Outcome.REFUTED, "however much more native may do"
    both = forwarding({"native": (500e3, True), "netns": (500e3, True)})
    assert judged(both, test).outcome is Outcome.NOT_DECIDED
    assert judged(both, test.replace("at_least: 0.9", "at_most: 1.2")).outcome is Outcome.NOT_DECIDED


def test_a_value_is_asked_for_in_a_unit_of_its_own() -> None:
    measured = [Made(label, "superpi", {}, value=20e6) for label in ("native", "runc")]
    analysis = analyse(made_up_run(BASE | {"runc": {}}, measured))
    for value, outcome in (
        ("{at_most: 25, unit: ms}", Outcome.SUPPORTED),
        ("{at_most: 0.025, unit: s}", Outcome.SUPPORTED),
        ("{at_most: 15000, unit: us}", Outcome.REFUTED),
        ("{at_least: 10, at_most: 30, unit: ms}", Outcome.SUPPORTED),
    ):
        test = f"{{says: is quick, workload: superpi, platforms: {{label: runc}}, value: {value}}}"
        assert judged(analysis, test).outcome is outcome, value
    with refused("own", "'is quick'", "ns", "'frames/s'", "ms", error=UsageError):
        judged(analysis, "{says: is quick, workload: superpi, value: {at_most: 25, unit: frames/s}}")


def test_a_guest_next_to_a_load_is_compared_with_the_guest_alone() -> None:
    heavy, idle = Condition("heavy"), Condition("idle")
    measured = [Made("native", "povray", {}, value=1e9)]
    for condition, seconds in ((None, 1.0), (idle, 1.01), (heavy, 1.7)):
        measured.append(Made("runc", "povray", {}, value=seconds * 1e9, condition=condition))
    analysis = analyse(made_up_run({"native": {}, "runc": {}}, measured))
    test = (
        "{says: renders, workload: povray, where: {neighbour_load: heavy}, "
        "against: {where: {neighbour_load: nothing}}, times_slower: {at_least: 1.5}}"
    )
    found = judged(analysis, test)
    assert found.outcome is Outcome.SUPPORTED
    (finding,) = found.tests[0].findings
    assert finding.against == "alone"
    assert_facts(finding.under, "heavy", "same CPUs")
    assert judged(analysis, test.replace("heavy", "idle")).outcome is Outcome.REFUTED
    of_two = judged(analysis, test.replace("neighbour_load: heavy", "neighbour_load: heavy, neighbour_guests: 2"))
    assert of_two.outcome is Outcome.NOT_MEASURED


def test_guests_at_once_are_compared_at_the_same_number_and_summed() -> None:
    """Four guests that take twice as long each do twice the work of one together."""
    measured = [
        Made(label, "kernel-compile", {}, value=seconds * 1e9, scale=ScalePoint(guests, 1, memory << 20))
        for label in ("native", "runc")
        for guests, seconds, memory in ((1, 10.0, 512), (4, 20.0, 128))
    ]
    analysis = analyse(made_up_run({"native": {}, "runc": {}}, measured))
    alike = judged(analysis, AS_FAST.replace("against:", "where: {guests: [1, 4]}, against:"))
    assert alike.outcome is Outcome.SUPPORTED
    assert [one.under for one in alike.tests[0].findings] == ["1 guest", "4 guests"]
    together = (
        "{says: does more, workload: kernel-compile, where: {guests: 4}, against: {where: {guests: 1}}, "
        "together: true, share: {at_least: 1.5}}"
    )
    found = judged(analysis, together)
    assert found.outcome is Outcome.SUPPORTED
    assert found.tests[0].findings[0].estimate == pytest.approx(2.0, rel=0.03)


def test_of_many_platforms_one_that_misses_by_chance_does_not_refute() -> None:
    """Intervals that refute are simultaneous: with more platforms each is wider, and none is narrower."""
    test = "{says: is, workload: kernel-compile, where: {jobs: 1}, value: {at_most: 20, unit: s}}"
    names = ("runc", "crun", "netns", "nspawn", "uml", "lxc")
    few = judged(builds({"native": 10.0, "runc": 10.0}), test)
    many = judged(builds({"native": 10.0} | dict.fromkeys(names, 10.0)), test)
    (alone,) = few.tests[0].findings
    same = next(one for one in many.tests[0].findings if one.platform == "runc")
    assert alone.interval == same.interval
    assert alone.simultaneous is not None
    assert same.simultaneous is not None
    assert alone.simultaneous.coverage == pytest.approx(0.95)
    assert same.simultaneous.coverage == pytest.approx(1 - 0.05 / 6)
    assert same.simultaneous.low < alone.simultaneous.low


def test_a_word_such_as_off_stays_one() -> None:
    (claim,) = claim_on(AS_FAST.replace("against:", "platforms: {parameters: {vhost: 'off', queues: 1}}, against:"))
    assert claim.tests[0].platforms.parameters == {"vhost": "off", "queues": 1}
    assert type(claim.tests[0].platforms.parameters["queues"]) is int
