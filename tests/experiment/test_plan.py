"""The plan: pure, the same for the same seed; blocks hold workloads, these hold rounds, and each platform its own."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import experiments
from tests.support.facts import refused

from virtoll.errors import UsageError
from virtoll.experiment.model import Experiment, PlatformChoice, WorkloadChoice
from virtoll.experiment.plan import Plan, Trial, TrialSeconds, count_trials, estimate_seconds, make_plan
from virtoll.pipeline.preview import estimate, plan_of, trial_seconds

PLATFORMS = ["native", "native-again", "netns", "runc", "qemu-tcg", "qemu-kvm"]
SIZES = [64, 500, 1000, 1500]


def experiment(platforms: int, sizes: int, blocks: int, seed: int, **changed: Any) -> Experiment:
    return experiments.parsed(
        platforms=PLATFORMS[:platforms],
        workloads=["superpi", {"workload": "forward", "frame_size_bytes": SIZES[:sizes]}],
        blocks=blocks,
        seed=seed,
        **changed,
    )


def quick(_: object, __: object) -> TrialSeconds:
    return TrialSeconds(0.2)


def slow_emulator(platform: PlatformChoice, _: object) -> TrialSeconds:
    """Three rounds of it fit into the time that a block gives, and none of what is still slower."""
    return TrialSeconds({"qemu-tcg": 0.9, "qemu-kvm": 20.0}.get(platform.platform, 0.2))


def shorter_later(platform: PlatformChoice, _: object) -> TrialSeconds:
    """Later rounds take a fifth of the first; of the emulator's no second one fits into the time of a block."""
    return TrialSeconds(3.4, 0.5) if platform.platform == "qemu-tcg" else TrialSeconds(1.0, 0.2)


def in_turn(_: object, __: object) -> TrialSeconds:
    return TrialSeconds(1.0, 0.2, in_turn=True)


def no_time_for_the_control(platform: PlatformChoice, _: object) -> TrialSeconds:
    return TrialSeconds(1.5 if platform.label == "native-again" else 0.1)


def order(plan: Plan) -> list[tuple[int, str, str]]:
    return [(t.block, t.platform.label, str(t.workload.parameters)) for t in plan.trials]


def workloads(block: Sequence[Trial]) -> list[tuple[WorkloadChoice, list[Trial]]]:
    """The workloads of a block in the order of their trials, each with these."""
    return [(workload, list(own)) for workload, own in groupby(block, lambda trial: trial.workload)]


def test_an_experiment_has_at_most_a_million_trials() -> None:
    assert count_trials(experiment(4, 4, 50_000, 1, rounds=1)) == 1_000_000, "4 platforms, 5 workloads"
    with refused("'blocks'", 50001, "1000020 trials", 1000000, error=UsageError):
        experiment(4, 4, 50_001, 1, rounds=1)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**63 - 1))
def test_with_one_round_each_block_holds_each_cell_exactly_once(
    platforms: int, sizes: int, blocks: int, seed: int
) -> None:
    asked = experiment(platforms, sizes, blocks, seed)
    plan = make_plan(asked, quick)
    cells = {(p, w) for p in asked.platforms for w in asked.workloads}
    assert [trial.number for trial in plan.trials] == list(range(blocks * len(cells)))
    assert not any(trial.warm_up or trial.round for trial in plan.trials)
    assert len(plan.blocks()) == blocks
    for number, block in enumerate(plan.blocks()):
        assert {trial.block for trial in block} == {number}
        assert len(block) == len(cells)
        assert {(trial.platform, trial.workload) for trial in block} == cells
    assert [trial for block in plan.blocks() for trial in block] == list(plan.trials)


def test_a_long_job_has_one_round_with_the_host_around_each_platform() -> None:
    plan = make_plan(experiment(6, 1, 4, 7, rounds=5), lambda *_: TrialSeconds(20.0))
    places = set()
    for block in plan.blocks():
        for _, trials in workloads(block):
            seen = [trial.platform.label for trial in trials]
            assert set(seen[::2]) == {"native"}
            assert sorted(seen[1::2]) == sorted(PLATFORMS[1:])
            places.add(seen.index("native-again"))
    assert len(places) > 1, "the control at any place"


@given(st.integers(3, 6), st.integers(2, 7), st.integers(1, 3), st.integers(0, 2**63 - 1))
def test_a_workload_is_warmed_up_and_then_run_in_rounds(platforms: int, rounds: int, blocks: int, seed: int) -> None:
    """In a round each platform stands once, and the host first, in the middle and last."""
    asked = experiment(platforms, 2, blocks, seed, rounds=rounds)
    labels = {one.label for one in asked.platforms}
    plan = make_plan(asked, quick)
    assert [trial.number for trial in plan.trials] == list(range(len(plan.trials)))
    for block in plan.blocks():
        own = workloads(block)
        assert {workload for workload, _ in own} == set(asked.workloads)
        assert len(own) == len(asked.workloads), "a workload's trials stand together"
        for _, trials in own:
            before = [trial for trial in trials if trial.warm_up]
            assert trials[: len(before)] == before
            assert sorted(trial.platform.label for trial in before) == sorted(labels)
            taken = [(n, list(part)) for n, part in groupby(trials[len(before) :], lambda trial: trial.round)]
            assert [number for number, _ in taken] == list(range(rounds))
            for _, part in taken:
                seen = [trial.platform.label for trial in part]
                assert (seen[0], seen[-1]) == ("native", "native")
                assert 0 < seen.index("native-again") < len(seen) - 1
                assert sorted(seen) == sorted([*labels, "native"])


def test_the_host_stands_three_times_in_a_round_without_a_control() -> None:
    asked = experiments.parsed(platforms=["netns", "native", "runc", "uml"], rounds=2, blocks=1)
    rounds = [t.platform.label for t in make_plan(asked, quick).trials if not t.warm_up]
    for own in (rounds[:6], rounds[6:]):
        assert [own[0], own[3], own[5]] == ["native"] * 3
        assert sorted(own) == ["native", "native", "native", "netns", "runc", "uml"]


def test_a_host_alone_runs_once_a_round() -> None:
    asked = experiments.parsed(platforms=["native", "native-again"], rounds=3, blocks=1)
    labels = [t.platform.label for t in make_plan(asked, quick).trials if not t.warm_up]
    assert sorted(labels) == ["native"] * 3 + ["native-again"] * 3


def test_what_is_slow_takes_part_in_fewer_rounds_and_the_host_in_all() -> None:
    """A trial that is longer than a block gives is its own warm-up."""
    plan = make_plan(experiment(6, 1, 4, 7, rounds=5), slow_emulator)
    for block in plan.blocks():
        for _, trials in workloads(block):
            rounds = Counter(trial.platform.label for trial in trials if not trial.warm_up)
            warm_ups = {trial.platform.label for trial in trials if trial.warm_up}
            assert rounds == {"native": 10, "native-again": 5, "netns": 5, "runc": 5, "qemu-tcg": 3, "qemu-kvm": 1}
            assert warm_ups == {"native", "native-again", "netns", "runc", "qemu-tcg"}
    slow = {t.round for t in plan.trials if t.platform.label == "qemu-kvm"}
    assert len(slow) > 1, "which round it is is drawn anew"


def test_short_later_rounds_fill_the_time_of_whole_ones() -> None:
    plan = make_plan(experiment(5, 1, 2, 7, rounds=3), shorter_later)
    for block in plan.blocks():
        for _, trials in workloads(block):
            rounds = Counter(trial.platform.label for trial in trials if not trial.warm_up)
            whole = Counter(trial.platform.label for trial in trials if not (trial.warm_up or trial.later))
            assert rounds == {"native": 22, "native-again": 11, "netns": 11, "runc": 11, "qemu-tcg": 1}
            assert whole == {"native": 2, "native-again": 1, "netns": 1, "runc": 1, "qemu-tcg": 1}
            assert {trial.round for trial in trials if trial.platform.label == "netns" and not trial.later} == {0}


def test_the_host_is_there_once_in_rounds_in_which_guests_take_turns() -> None:
    plan = make_plan(experiment(5, 2, 3, 7, rounds=3), in_turn)
    places = set()
    for block in plan.blocks():
        for _, trials in workloads(block):
            rounds = groupby((trial for trial in trials if not trial.warm_up), lambda trial: trial.round)
            for number, of_round in rounds:
                labels = [trial.platform.label for trial in of_round]
                assert labels.count("native") == (2 if number == 0 else 1)
                assert len(labels) == 6 if number == 0 else 5
                if number:
                    places.add(labels.index("native"))
    assert len(places) == 5, "at any place"


def test_no_platform_runs_in_a_round_without_the_host() -> None:
    plan = make_plan(experiment(4, 1, 2, 7, rounds=5), no_time_for_the_control)
    rounds = {(t.block, t.workload, t.round) for t in plan.trials if t.platform.label == "netns"}
    assert {number for _, _, number in rounds} == {0, 1}
    for block, workload, number in rounds:
        own = [t.platform.label for t in plan.trials if (t.block, t.workload, t.round) == (block, workload, number)]
        assert {"native", "native-again"} <= set(own)


@given(st.integers(0, 2**63 - 1), st.integers(1, 5))
def test_the_same_seed_gives_the_same_plan(seed: int, rounds: int) -> None:
    one, other = experiment(4, 4, 3, seed, rounds=rounds), experiment(4, 4, 3, seed, rounds=rounds)
    assert make_plan(one, quick) == make_plan(other, quick)


@given(st.integers(0, 2**62 - 1), st.integers(1, 2**62))
def test_another_seed_gives_another_order(seed: int, step: int) -> None:
    one, other = make_plan(experiment(6, 4, 3, seed), quick), make_plan(experiment(6, 4, 3, seed + step), quick)
    assert order(one) != order(other)
    assert sorted(order(one)) == sorted(order(other))


def test_blocks_have_different_orders() -> None:
    plan = make_plan(experiment(6, 4, 5, 1), quick)
    assert len({tuple(str(trial.platform.label) for trial in block) for block in plan.blocks()}) == 5


def test_the_order_is_the_same_on_any_python() -> None:
    """A fixed answer: a run that was begun with one version of Python is resumed with another.

    Of the parameters only what tells the cells apart is listed: a workload may be given more of them.
    """
    listed = "\n".join(
        f"{t.block} {t.round} {t.warm_up} {t.platform.label} {t.workload.workload} "
        f"{getattr(t.workload.parameters, 'frame_size_bytes', '')}"
        for t in make_plan(experiment(6, 4, 3, 20080407, rounds=2), slow_emulator).trials
    )
    assert hashlib.sha256(listed.encode()).hexdigest()[:16] == "ebd2cdfea6b78fe3"


def test_the_estimate_counts_trials_and_a_start_of_each_platform_a_block() -> None:
    plan = make_plan(experiment(3, 2, 4, 1), quick)
    assert estimate_seconds(plan, lambda _: 1.0, lambda _: 100.0) == pytest.approx(3 * 3 * 4 + 100 * 3 * 4)
    assert estimate_seconds(Plan(1, ()), lambda _: 1.0, lambda _: 100.0) == 0


def test_what_its_kernel_does_is_estimated_by_a_slowdown_of_its_own() -> None:
    """User-mode Linux computes as its host does; each system call of its processes is two switches there."""
    asked = experiments.parsed(
        platforms=["native", "netns", "uml"],
        workloads=[{"workload": "superpi", "digits": 1_000_000}, {"workload": "forkwait", "processes": 10_000}],
    )
    native, netns, uml = ([trial_seconds(Trial(0, 0, p, w)) for w in asked.workloads] for p in asked.platforms)
    assert netns == native
    computes, calls = (slow / fast for slow, fast in zip(uml, native, strict=True))
    assert calls > 1.5 * computes > 1.5


def test_a_slow_platform_is_estimated_slower() -> None:
    def seconds(platform: str) -> float:
        return estimate(plan_of(experiments.parsed(platforms=[platform], baseline=platform)))

    assert seconds("qemu-tcg") > seconds("native") > 0
