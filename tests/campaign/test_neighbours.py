"""Guests beside the measured one, as models: asked for, planned, proven to have run, and found in the matrix."""

from __future__ import annotations

import csv
import re
import statistics
from collections import Counter
from dataclasses import replace
from itertools import groupby, product
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaign.test_pipeline import StopAfter, run
from tests.support import experiments
from tests.support.commands import virtoll
from tests.support.experiments import fake

from virtoll.campaign.neighbours import Neighbours
from virtoll.campaign.pinning import Pinning
from virtoll.campaign.pipeline import measure, resume
from virtoll.campaign.preview import catalogue, plan_of
from virtoll.campaign.progress import SilentProgress
from virtoll.campaign.requirements import bytes_of, memory_at_once, why_impossible
from virtoll.errors import GuestCannot, UsageError
from virtoll.experiment.parse import parse_experiment
from virtoll.experiment.selection import Selection
from virtoll.report.build import build_report, load
from virtoll.report.isolation import control_line
from virtoll.runfolder.conditions import ALONE, Condition, Progress
from virtoll.runfolder.guest_records import Forwarding
from virtoll.runfolder.store import RunFolder
from virtoll.stats.analysis import analyse
from virtoll.stats.bounds import NOT_PINNED, against_lower_bounds
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.isolation import SENDER_BOUND
from virtoll.stats.values import forwarded_rate
from virtoll.workloads.loads import PROGRAM_LOADS, Place, gone_still

if TYPE_CHECKING:
    from virtoll.campaign.live_guest import LiveGuest
    from virtoll.campaign.session import RunSession
    from virtoll.stats.values import Task

SECOND = 1_000_000_000
MIB = 2**20
JOB = [{"workload": "superpi", "digits": 1000}]
TESTBED = {
    "generator": {"host": {"ssh": "left"}, "interfaces": ["eth1"]},
    "sink": {"host": {"ssh": "left"}, "interfaces": ["eth2"]},
    "hypervisor": {"host": "local", "interfaces": ["eth3", "eth4"]},
}
OVER_SSH = {
    "generator": {"host": "local", "interfaces": ["eth1"]},
    "sink": {"host": "local", "interfaces": ["eth2"]},
    "hypervisor": {"host": {"ssh": "box"}, "interfaces": ["eth3", "eth4"]},
}
NICS_BESIDE = {"generator": "eth5", "sink": "eth6", "hypervisor": ["eth7", "eth8"]}


def neighbours(**changed: Any) -> dict[str, Any]:
    """The keys of an experiment with one guest beside, loaded lightly."""
    return {"scenario": "neighbours", "neighbours": ["light"], "workloads": JOB, **changed}


def refusal(**changed: Any) -> str:
    with pytest.raises(UsageError) as refused:
        experiments.parsed(**neighbours(**changed))
    return str(refused.value)


def test_a_list_of_values_makes_a_condition_of_each() -> None:
    asked = ["idle", {"load": ["light", "heavy"], "affinity": ["shared", "apart"]}, {"load": "idle", "guests": 2}]
    found = [one.label for one in experiments.parsed(**neighbours(neighbours=asked)).conditions]
    assert found == [
        "idle guest, same CPUs",
        "light load, same CPUs",
        "light load, other CPUs",
        "heavy load, same CPUs",
        "heavy load, other CPUs",
        "2 x idle guest, same CPUs",
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"neighbours": None}, "key 'neighbours': is missing; add loads, such as [idle, light, heavy]"),
        ({"scenario": None}, "key 'neighbours': needs 'scenario: neighbours'"),
        ({"neighbours": ["busy"]}, "key 'neighbours[0].load': "),
        ({"neighbours": ["forward"]}, "'forward' needs 'rate_share', such as [0.5, 0.95]"),
        ({"neighbours": [{"load": "forward", "rate_share": 1.5}]}, "key 'neighbours[0].rate_share': "),
        ({"neighbours": [{"load": "idle", "rate_share": 0.5}]}, "'rate_share' is for 'load: forward', not for 'idle'"),
        ({"neighbours": [{"load": "network-flood", "guests": 2}]}, "one guest at most is sent traffic to"),
        ({"neighbours": [{"load": "idle", "platform": "xen"}]}, "'xen' is not among the platforms; allowed: native, "),
        ({"neighbours": ["idle", {"load": "idle", "guests": 1}]}, "'idle guest, same CPUs' is there twice"),
        ({"neighbours": [{"load": "light", "cpus": 3}]}, "key 'neighbours[0].cpus': not known; allowed keys: load, "),
        ({"guest": {"image": "tiny"}}, "the load light runs a program that is in the image full"),
        (
            {"scenario": None, "neighbours": None, "testbed": TESTBED | {"neighbour": NICS_BESIDE}},
            "key 'testbed.neighbour': needs 'scenario: neighbours'; set it, or leave the key out",
        ),
        (
            {
                "testbed": TESTBED | {"neighbour": NICS_BESIDE},
                "neighbours": [{"load": "forward", "rate_share": 0.5, "guests": 2}],
            },
            "key 'neighbours[0]': one guest at most is sent traffic to ('load: forward'); leave 'guests' out",
        ),
        (
            {"platforms": [{"platform": "ssh", "destination": "box"}], "baseline": "ssh"},
            "key 'platforms[0]': its guest is there already, and no other is started beside it; take ssh out",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(changed: dict[str, Any], said: str) -> None:
    assert said in refusal(**changed)


def test_a_guest_is_alone_first_in_the_middle_and_last_of_each_round() -> None:
    """All conditions of a platform stand between its own entries alone, seconds apart."""
    asked = neighbours(neighbours=["idle", "light", "heavy"], blocks=2, rounds=2)
    experiment = experiments.parsed(**asked)
    plan = plan_of(experiment)
    assert plan == plan_of(experiment)
    measured = [trial for trial in plan.trials if not trial.warm_up]
    assert all(trial.condition is None for trial in plan.trials if trial.warm_up)
    groups = [list(group) for _, group in groupby(measured, lambda one: (one.block, one.round, one.platform.label))]
    assert len(groups) == 2 * 2 * 2
    for group in groups:
        conditions = [trial.condition for trial in group]
        assert [place for place, one in enumerate(conditions) if one is None] == [0, 3, 5]
        assert {one.label for one in conditions if one} == {one.label for one in experiment.conditions}
    assert len({tuple(trial.condition for trial in group) for group in groups}) > 1, "always in the same order"


def test_the_control_is_measured_alone() -> None:
    """It is there for what is compared between platforms: once a round."""
    asked = neighbours(platforms=["native", "native-again", "netns"], blocks=3, rounds=2)
    trials = [one for one in plan_of(experiments.parsed(**asked)).trials if one.platform.label == "native-again"]
    assert all(one.condition is None for one in trials)
    assert Counter(one.warm_up for one in trials) == {True: 3, False: 3 * 2}


def test_in_the_papers_order_each_condition_is_repeated_in_a_row() -> None:
    experiment = experiments.parsed(**neighbours(order="paper", blocks=2))
    conditions = [trial.condition for trial in plan_of(experiment).trials]
    assert [one and one.load for one in conditions] == [None, None, "light", "light"] * 2


@pytest.mark.parametrize(
    ("allowed", "apart"), [((0,), None), ((0, 1), (1,)), ((0, 1, 2), (1,)), ((0, 1, 2, 3), (1,)), ((4, 5, 6, 7), (5,))]
)
def test_guests_apart_have_cpus_of_their_own_or_the_idle_generators(
    allowed: tuple[int, ...], apart: tuple[int, ...] | None
) -> None:
    pinning = Pinning((allowed[0],), allowed[-1], allowed[-2 if len(allowed) > 2 else -1])
    if len(allowed) == 1:
        pinning = Pinning((), None, None)
    assert pinning.beside("apart", 1, allowed) == apart
    assert pinning.beside("shared", 1, allowed) == pinning.guest_cpus
    assert pinning.beside("unpinned", 1, allowed) == ()


def test_where_traffic_needs_the_only_other_cpu_no_guest_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    asked = neighbours(
        neighbours=[{"load": "light", "affinity": ["shared", "apart"]}],
        workloads=[{"workload": "forward", "frame_size_bytes": 64}, "superpi"],
    )
    experiment = experiments.parsed(**asked)
    skipped = {
        (trial.workload.workload, trial.condition.affinity)
        for trial in plan_of(experiment).trials
        if why_impossible(trial, experiment) and trial.condition
    }
    assert skipped == {("forward", "apart")}


def reasons(**changed: Any) -> dict[tuple[str, str], str | None]:
    """Why no trial with guests beside can be, by its platform and condition; None: it can."""
    experiment = experiments.parsed(**neighbours(**changed))
    return {
        (trial.platform.label, trial.condition.label): why_impossible(trial, experiment)
        for trial in plan_of(experiment).trials
        if trial.condition is not None
    }


def test_guests_beside_are_on_the_measured_ones_host() -> None:
    """There a load is a program: the NICs that lead there are the measured guest's."""
    found = reasons(
        platforms=["native", "netns", {"platform": "xen", "host": "nested:xen"}],
        neighbours=["light", {"load": "idle", "platform": "netns"}, "network-flood"],
    )
    possible = {(label, words.split(",")[0]) for (label, words), reason in found.items() if reason is None}
    assert possible == {
        ("native", "light load"),
        ("netns", "light load"),
        ("xen-nested", "light load"),
        ("native", "idle guest"),
        ("netns", "idle guest"),
        ("native", "network flood"),
        ("netns", "network flood"),
    }
    elsewhere = found["xen-nested", "idle guest, in netns, same CPUs"]
    assert (elsewhere or "").startswith("guests of netns are on this machine, which is not beside xen-nested; name a ")
    flooded = found["xen-nested", "network flood, same CPUs"]
    assert (flooded or "").startswith("the load network-flood needs NICs of its own on nested xen, where those that ")


@pytest.mark.parametrize("nics", [None, NICS_BESIDE], ids=["none", "its-own"])
def test_over_ssh_a_guest_beside_forwards_by_nics_of_its_own(nics: dict[str, Any] | None) -> None:
    """Without any those loads alone are skipped, and the reason says how to have them."""
    found = reasons(
        testbed=OVER_SSH | {"neighbour": nics},
        guest={"marks": "channel"},
        platforms=["native", "qemu-tcg"],
        neighbours=["light", {"load": "idle", "guests": 2}, {"load": "forward", "rate_share": 0.5}, "network-flood"],
    )
    assert len(found) == 2 * 4
    refused = {words.split(",")[0]: reason for (_, words), reason in found.items() if reason is not None}
    assert set(refused) == (set() if nics else {"forwarding at 50 %", "network flood"})
    for reason in refused.values():
        assert "needs NICs of its own on ssh box" in reason
        assert reason.endswith("; name two in 'testbed.neighbour', or take loads that are programs")


def test_behind_a_testbeds_nics_there_are_guests_beside_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator's CPU is another host's, so that two CPUs here are enough for guests apart beside traffic."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    wanted = ["network-flood", {"load": "light", "affinity": "apart"}]
    found = reasons(testbed=TESTBED, platforms=["netns"], baseline="netns", neighbours=wanted, workloads=["forward"])
    assert set(found.values()) == {None}


def test_nics_that_are_handed_in_whole_have_one_guest() -> None:
    handed = {"platform": "qemu-kvm", "attachment": "passthrough", "vfio": ["0000:03:00.0", "0000:04:00.0"]}
    (found,) = reasons(testbed=TESTBED, platforms=[{**handed, "label": "whole"}], baseline="whole").values()
    assert (found or "").startswith("whole is handed its NICs whole ('vfio'), and there is one of each; name another")


def test_the_plan_counts_the_guests_beside(tmp_path: Path) -> None:
    asked = neighbours(neighbours=["idle", {"load": "light", "guests": 3}, {"load": "idle", "memory": "64MiB"}])
    experiment = experiments.parsed(**asked)
    sizes = memory_at_once(plan_of(experiment), experiment)
    assert sizes == {256 * MIB: 2 * (1 + 3), 64 * MIB: 2}
    assert bytes_of(sizes) == 8 * 256 * MIB + 2 * 64 * MIB
    said = virtoll("plan", str(experiments.write(tmp_path, **asked)), "--trials").stdout
    assert "beside 3 x light load, same CPUs" in said
    assert "memory: up to 10 guests at once (2.12 GiB of " in said


@pytest.mark.parametrize(("gib", "fit"), [(4.7, 15), (4.8, None), (0.6, 0)])
def test_guests_beside_that_the_host_has_no_memory_for_are_skipped(
    monkeypatch: pytest.MonkeyPatch, gib: float, fit: int | None
) -> None:
    """16 of 256 MiB beside one of 256 MiB, and 512 MiB that the host keeps: 4.75 GiB."""
    monkeypatch.setattr("virtoll.campaign.requirements.available_bytes", lambda: int(gib * 2**30))
    found = reasons(platforms=["netns"], baseline="netns", neighbours=[{"load": "idle", "guests": 16}])
    (said,) = found.values()
    if fit is None:
        assert said is None
    else:
        assert (said or "").startswith("16 guests of 256 MiB beside it are more than this host has memory for: it has ")
        assert f"which are {fit} of them with the measured guest and 512 MiB for itself" in (said or "")


class _Data:
    """A data directory in memory."""

    volume = SimpleNamespace(on_disk=False, file_system="tmpfs")


@pytest.mark.parametrize(
    ("data", "no_data", "said"),
    [
        (None, "/var/tmp has no room for it", "has no data directory for its load: /var/tmp has no room for it"),
        (_Data(), None, "has its data directory in memory (/var/tmp is a tmpfs): its load reaches no disk"),
    ],
)
def test_a_load_of_the_disk_that_would_be_in_memory_is_no_load(
    data: _Data | None, no_data: str | None, said: str
) -> None:
    """Else it would write to the guest's memory, and the disk would be told to be well isolated."""
    live = cast("LiveGuest", SimpleNamespace(data=data, no_data=no_data))
    beside = Neighbours(cast("RunSession", None), cast("RunFolder", None), SilentProgress())
    condition = Condition("disk")
    with pytest.raises(GuestCannot) as refused, beside.loaded((live,), condition):
        pass
    assert str(refused.value) == f"{condition.guest(1)} {said}"


def test_a_guest_beside_that_never_starts_is_tried_as_often_as_is_said(tmp_path: Path) -> None:
    """Three times in a block, like the measured one; the first of three is well, and is started anew each time."""
    folder = run(
        tmp_path / "run",
        **neighbours(
            platforms=[fake("model"), fake("bad", failure="never-ready", failing_instance=2)],
            neighbours=[{"load": "light", "platform": "bad", "guests": 2}],
            blocks=1,
            rounds=4,
        ),
    )
    beside = [trial for trial in folder.trials() if trial.condition is not None]
    starts = [boot.status for boot in folder.boots() if boot.platform == "bad" and boot.instance == 2]
    assert starts.count("failed") == 3
    why = r"guest 2 of 2 beside it \(.*\) failed: it could not be started: beside-bad/0/\d was not ready, as its"
    tried = [trial for trial in beside if re.match(why, trial.reason or "")]
    given_up = [trial for trial in beside if "failed 3 times in this block, and is not tried" in (trial.reason or "")]
    assert len(tried) == 3
    assert len(tried) + len(given_up) == len(beside)


def test_a_rate_against_what_the_sender_could_is_slower_or_not_known() -> None:
    """Alone nothing was lost, so the guest may do more: beside others it is slower by at least so much, or unknown."""
    task = cast("Task", "forward")
    told = [
        Comparison("netns", task, verdict, share=share, margin=0.05, at_least=1.1)
        for verdict, share in ((Verdict.ALIKE, 0.99), (Verdict.FASTER, 1.2), (Verdict.SLOWER, 0.7))
    ]
    found = against_lower_bounds(told, {("netns", task)})
    assert [one.verdict for one in found] == [Verdict.UNKNOWN, Verdict.UNKNOWN, Verdict.SLOWER]
    assert [(one.margin, one.at_least) for one in found[:2]] == [(None, None)] * 2
    assert "lost nothing flat out or reached the generator's limit" in found[0].reason
    assert against_lower_bounds(told, {("runc", task)}) == told
    assert against_lower_bounds(told, {("native", task)}, "native")[0].verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(("memory", "each"), [(64 * MIB, 8 * MIB), (256 * MIB, 32 * MIB), (4096 * MIB, 256 * MIB)])
def test_the_papers_heavy_load_fits_a_small_guest(memory: int, each: int) -> None:
    argv = PROGRAM_LOADS["heavy"].argv(Place(memory, 1, "/tmp"))
    assert argv == ("stress", "--cpu", "8", "--vm", "4", "--vm-bytes", str(each))


def reading(second: float, cpu: float) -> Progress:
    return Progress(monotonic_ns=int(second * SECOND), cpu_ns=int(cpu * SECOND), processes=1)


@given(
    st.lists(st.tuples(st.floats(0.01, 0.9), st.floats(0.01, 1)), min_size=8, max_size=40),
    st.floats(0, 0.9),
)
def test_a_load_whose_time_grows_ran_through(steps: list[tuple[float, float]], begin: float) -> None:
    second = cpu = 0.0
    samples = [reading(0, 0)]
    for passed, used in steps:
        second, cpu = second + passed, cpu + used
        samples.append(reading(second, cpu))
    window = int(begin * second * SECOND), int(second * SECOND)
    assert gone_still(samples, window) is None


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        ([], "there are no readings of its CPU time before and after the trial"),
        ([reading(0, 0), reading(1, 1)], "there are no readings of its CPU time before and after the trial"),
        ([reading(2, 1), reading(6, 2)], "there are no readings of its CPU time before and after the trial"),
        ([reading(0, 1), reading(6, 1)], "it used no CPU time during the trial"),
        (
            [reading(0, 0), reading(1.5, 1), reading(3.7, 1), reading(4, 1), reading(6, 2)],
            "it used no CPU time for 2.5 s of the trial",
        ),
        ([reading(0, 0), reading(1, 1), reading(2.5, 1), reading(3, 2), reading(4.5, 2), reading(6, 3)], None),
    ],
)
def test_a_load_that_stood_still_is_told(samples: list[Progress], said: str | None) -> None:
    assert gone_still(samples, (SECOND, 5 * SECOND)) == said


def test_a_known_interference_is_found_and_its_absence_too(tmp_path: Path) -> None:
    """Half as much again for each loaded guest beside it; nothing by an idle one; alone against alone is alike."""
    folder = run(
        tmp_path / "run",
        **neighbours(
            platforms=[fake("model", interference=0.5), fake("other")],
            neighbours=["idle", "light", {"load": "heavy", "guests": 2}],
            blocks=4,
            rounds=3,
            workloads=[*JOB, {"workload": "forward", "frame_size_bytes": 64, "cpu_milliseconds": 0}],
        ),
    )
    analysis = analyse(load(folder.path))
    found = analysis.isolation
    assert [one.label for one in found.conditions] == [
        "idle guest, same CPUs",
        "light load, same CPUs",
        "2 x heavy load, same CPUs",
    ]
    expected = {"idle guest, same CPUs": 1.0, "light load, same CPUs": 1 / 1.5, "2 x heavy load, same CPUs": 0.5}
    for one in found.comparisons:
        assert one.share is not None
        wanted = expected[one.condition or ""] if one.platform == "model" else 1.0
        assert one.share == pytest.approx(wanted, rel=0.03), one
        assert one.verdict is (Verdict.ALIKE if wanted == 1.0 else Verdict.SLOWER), one
    assert found.family == len(found.comparisons) == 2 * 2 * 3
    assert {one.verdict for one in found.control} == {Verdict.ALIKE}
    assert control_line(analysis).startswith("The guest alone against itself (A/A): ")
    # What is compared between platforms is both of them alone.
    assert analysis.comparison("other", analysis.tasks[0]).share == pytest.approx(1.0, rel=0.03)  # type: ignore[union-attr]


def test_a_router_that_works_on_the_senders_core_has_no_verdict_beside_others(tmp_path: Path) -> None:
    """The load takes a guest's CPU, and its frames are forwarded on another."""
    folder = run(
        tmp_path / "run",
        **neighbours(
            platforms=[fake("model", interference=0.5)],
            blocks=3,
            workloads=[*JOB, {"workload": "forward", "frame_size_bytes": 64, "cpu_milliseconds": 0}],
        ),
    )
    data = load(folder.path)
    nowhere = Forwarding(None, None, "threads are not to be had")
    boots = tuple(replace(boot, forwarding=nowhere) for boot in data.boots)
    found = {one.task.workload: one for one in analyse(replace(data, boots=boots)).isolation.comparisons}
    assert found["superpi"].verdict is Verdict.SLOWER
    assert (found["forward"].verdict, found["forward"].caveat) == (Verdict.UNKNOWN, NOT_PINNED)


def test_where_nothing_was_lost_a_rate_is_the_senders(tmp_path: Path) -> None:
    """A model that forwards all that its generator can send: what a load takes from it cannot be seen."""
    folder = run(
        tmp_path / "run",
        **neighbours(
            platforms=[fake("model", cost=0.1, interference=0.5)],
            blocks=3,
            workloads=[*JOB, {"workload": "forward", "frame_size_bytes": 64, "cpu_milliseconds": 0}],
        ),
    )
    found = {one.task.workload: one for one in analyse(load(folder.path)).isolation.comparisons}
    assert found["superpi"].verdict is Verdict.SLOWER
    assert (found["forward"].verdict, found["forward"].caveat) == (Verdict.UNKNOWN, SENDER_BOUND)
    assert found["forward"].p_value is None


def test_routers_beside_others_are_in_the_papers_form(tmp_path: Path) -> None:
    """Means over blocks in Mbit/s on the wire, counted once more here from the records."""
    folder = run(
        tmp_path / "run",
        **neighbours(
            platforms=[fake("model", interference=0.5)],
            neighbours=["idle", "heavy", {"load": "forward", "rate_share": [0.5, 0.95]}],
            blocks=2,
            rounds=2,
            workloads=[
                {"workload": "forward", "frame_size_bytes": [64, 1500], "cpu_milliseconds": 0},
                {"workload": "throughput", "frame_size_bytes": 64},
                *JOB,
            ],
        ),
    )
    rows = analyse(load(folder.path)).routers_beside
    labels = [
        "idle guest, same CPUs",
        "heavy load, same CPUs",
        "forwarding at 50 %, same CPUs",
        "forwarding at 95 %, same CPUs",
    ]
    assert [(one.condition.label, one.task.size) for one in rows] == list(product(labels, ("64 B", "1500 B")))
    for one in rows:
        assert one.blocks == 2
        assert one.change.value == pytest.approx(0.0 if one.condition.load == "idle" else -1 / 3, abs=0.02)
        assert one.beside.value == pytest.approx(one.alone.value * (1 + one.change.value), rel=0.02)
        assert (one.into_other is None) == (one.out_of_other is None) == (one.condition.load != "forward")
        maximum, bits = statistics.median(each.maximum_frames_per_second for each in folder.maxima()), 8 * (64 + 20)
        if one.into_other is not None and one.condition.rate_share is not None:
            assert one.into_other.value == pytest.approx(one.condition.rate_share * maximum * bits / 1e6, rel=0.05)
        own: dict[int, list[float]] = {}
        for trial in folder.latest_trials():
            if (
                trial.condition == one.condition
                and trial.parameters.get("frame_size_bytes") == one.shape.frame_size_bytes
            ):
                for beside in trial.neighbours:
                    if beside.traffic is not None:
                        rate = forwarded_rate(beside.traffic)
                        assert rate is not None
                        own.setdefault(trial.block, []).append(rate * bits / 1e6)
        if one.out_of_other is not None:
            assert one.out_of_other.value == pytest.approx(statistics.fmean(map(statistics.fmean, own.values())))
    build_report(folder.path)
    page = (folder.path / "report" / "index.html").read_text(encoding="utf-8")
    assert "64 B frames beside heavy load, same CPUs" in page
    assert 'id="figure-routers_beside"' in page
    with (folder.path / "report" / "tables" / "routers_beside.csv").open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["out_of_other_mean_mbit_per_second"] != "" for row in table] == [False] * 4 + [True] * 4


def test_each_guest_beside_is_in_the_record_with_what_it_did(tmp_path: Path) -> None:
    folder = run(
        tmp_path / "run",
        **neighbours(
            platforms=[fake("model"), fake("other")],
            neighbours=[
                "idle",
                {"load": "heavy", "guests": 2, "platform": "other"},
                {"load": "forward", "rate_share": [0.5, 0.95]},
            ],
            blocks=1,
        ),
    )
    trials = [trial for trial in folder.latest_trials() if trial.platform == "model"]
    assert all(trial.status == "ok" and not trial.neighbours for trial in trials if trial.condition is None)
    beside = {trial.condition: trial.neighbours for trial in trials if trial.condition is not None}
    boots = {boot.boot for boot in folder.boots()}
    assert all(one.boot in boots for own in beside.values() for one in own)
    assert [len(own) for own in beside.values()] == [one.guests for one in beside]
    idle, heavy = beside[Condition("idle")], beside[Condition("heavy", guests=2, platform="other")]
    assert [(one.platform, one.argv) for one in idle] == [("model", ())]
    assert {one.platform for one in heavy} == {"other"}
    assert all(one.argv[:2] == ("stress", "--cpu") and one.progress for one in heavy)
    for share in (0.5, 0.95):
        (one,) = beside[Condition("forward", rate_share=share)]
        assert one.traffic is not None
        assert one.maximum_frames_per_second is not None
        assert one.traffic.intended_rate_frames_per_second == pytest.approx(share * one.maximum_frames_per_second)
        (sent,), (arrived,) = one.traffic.sources, one.traffic.sink.per_source
        assert sent.offered_frames == arrived.forwarded_frames + arrived.lost_frames > 0
    maxima = [one for one in folder.maxima() if one.platform == "model"]
    assert len(maxima) == 1, "found more than once in a boot"
    assert maxima[0].maximum_frames_per_second == pytest.approx(
        max(
            sum(one.forwarded_frames for one in point.sink.per_source) * 1e9 / point.duration_ns
            for point in maxima[0].points
        )
    )


def test_a_platform_that_only_guests_beside_have_is_started_for_them(tmp_path: Path) -> None:
    """A filter leaves it without trials of its own; where it is not there, those beside it are skipped."""
    asked = neighbours(
        platforms=[fake("model"), fake("other"), fake("absent", failure="unavailable")],
        baseline="model",
        neighbours=[{"load": "idle", "platform": ["other", "absent"]}],
        blocks=1,
    )
    chosen = parse_experiment(experiments.text(**asked), experiments.FILE, catalogue(), Selection(platforms=("model",)))
    measure(chosen, tmp_path / "run", ["virtoll"], SilentProgress())
    folder = RunFolder.open(tmp_path / "run")
    found = {
        (one.platform, one.condition and one.condition.platform, one.status, one.reason) for one in folder.trials()
    }
    reason = "the guests beside it cannot be there: the model's parameters say that it is unavailable"
    assert found == {
        ("model", None, "ok", None),
        ("model", "other", "ok", None),
        ("model", "absent", "skipped", f"{reason}; set 'failure: none'"),
    }


@pytest.mark.parametrize(
    ("failure", "status", "said"),
    [
        ("load-ends", "invalid", "was not loaded throughout: stress ended before the trial did: the model's load ends"),
        ("load-stands-still", "invalid", "was not loaded throughout: it used no CPU time during the trial"),
        ("dies-under-load", "failed", "failed: the fake guest died under its load"),
        ("never-ready", "failed", "failed: it could not be started: beside-bad/0"),
        ("too-small", "invalid", None),
    ],
)
def test_a_guest_beside_that_fails_costs_its_own_trials_and_is_named(
    tmp_path: Path, failure: str, status: str, said: str | None
) -> None:
    """The measured guest is well: its other trials, and its own boot, go on."""
    folder = run(
        tmp_path / "run",
        **neighbours(
            platforms=[fake("model"), fake("bad", failure=failure)],
            neighbours=["idle", {"load": "light", "platform": "bad"}],
            blocks=1,
            rounds=2,
        ),
    )
    own = [trial for trial in folder.latest_trials() if trial.platform == "model" and not trial.warm_up]
    beside_bad = [trial for trial in own if trial.condition == Condition("light", platform="bad")]
    assert Counter(trial.status for trial in own if trial not in beside_bad) == {"ok": 2 * 4}
    assert {trial.status for trial in beside_bad} == {status}
    expected = f"the guest beside it (light load, in bad, same CPUs) {said}"
    if said is None:
        expected = "a guest beside it is not what was asked for: memory: asked 256 MiB, inside 1 MiB"
    assert all(expected in (one.reason or "") for one in beside_bad), {one.reason for one in beside_bad}
    assert [boot.status for boot in folder.boots() if boot.platform == "model" and boot.instance == 0] == ["ok"]
    if failure == "dies-under-load":
        assert all(trial.evidence for trial in beside_bad), "what the guest said last is lost"
    analysis = analyse(load(folder.path))
    why = [one.reason for one in analysis.isolation.comparisons if one.verdict is Verdict.NOT_MEASURED]
    assert any(expected in reason for reason in why), why


def test_a_measured_guest_that_fails_leaves_no_load_behind(tmp_path: Path) -> None:
    """A load that went on would be in the next trial."""
    folder = run(
        tmp_path / "run",
        **neighbours(platforms=[fake("model", failure="dies", dies_at_job=6, interference=9.0)], blocks=1, rounds=3),
    )
    alone = [one for one in folder.latest_trials() if one.condition is None and one.status == "ok" and not one.warm_up]
    took = [one.clock.guest.user_cpu_ns for one in alone if one.clock and one.clock.guest]
    assert len(took) > 3
    assert max(took) < 2 * min(took), "it was loaded while it was alone"


def test_a_run_that_is_interrupted_goes_on_at_its_first_unfinished_trial(tmp_path: Path) -> None:
    asked = neighbours(platforms=[fake("model", interference=0.5)], neighbours=["idle", "light"], blocks=2)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", StopAfter(7), **asked)
    resume(tmp_path / "run", SilentProgress())
    folder = RunFolder.open(tmp_path / "run")
    planned = [(one.trial, one.condition) for one in folder.manifest.plan.trials]
    assert [(one.trial, one.condition) for one in folder.latest_trials()] == planned
    assert Counter(one.trial for one in folder.trials()) == dict.fromkeys((number for number, _ in planned), 1)


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run of models with every kind of load, and its folder."""
    folder = tmp_path_factory.mktemp("neighbours") / "run"
    run(
        folder,
        **neighbours(
            platforms=[fake("model", interference=0.5), fake("other")],
            neighbours=["idle", "light", {"load": "forward", "rate_share": 0.95}],
            blocks=3,
        ),
    )
    build_report(folder)
    return folder / "report"


def test_the_page_has_the_matrix_and_what_the_guests_beside_did(reported: Path) -> None:
    page = (reported / "index.html").read_text(encoding="utf-8")
    assert 'href="#isolation"' in page
    section = page[page.index('id="isolation"') : page.index('id="clock"')]
    for words in ("light load, same CPUs", "forwarding at 95", "What the guests beside did", " slower", "alike"):
        assert words in section, words
    assert (reported / "figures" / "isolation.svg").exists()


def test_the_tables_hold_every_cell_and_every_load(reported: Path) -> None:
    rows = (reported / "tables" / "isolation.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + 2 * (3 + 1)
    assert sum(f",{ALONE}," in row for row in rows) == 2
    uses = (reported / "tables" / "neighbours.csv").read_text(encoding="utf-8")
    assert uses.count("forwarding at 95 %, same CPUs") == 2


def test_the_terminal_shows_the_matrix(tmp_path: Path) -> None:
    asked = neighbours(platforms=[fake("model", interference=0.5)], baseline="model", blocks=2)
    said = virtoll("run", str(experiments.write(tmp_path, **asked)), runs=tmp_path / "runs").stdout
    table = said[said.index("Super Pi 1000 digits beside") :]
    assert re.search(r"light load, same CPUs +\S+ slower", table), table
    assert "The guest alone against itself (A/A): " in " ".join(table.split())


def test_a_run_without_neighbours_has_no_such_section(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", platforms=[fake("model")], workloads=JOB)
    build_report(folder.path)
    assert 'id="isolation"' not in (folder.path / "report" / "index.html").read_text(encoding="utf-8")
    assert not (folder.path / "report" / "tables" / "isolation.csv").exists()
