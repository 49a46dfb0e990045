"""The plan: pure, the same for the same seed, each block holds each cell exactly once."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import experiments

from virtoll.experiment.model import Experiment
from virtoll.experiment.plan import Plan, estimate_seconds, make_plan
from virtoll.run.preview import estimate

PLATFORMS = ["native", "native-again", "netns", "runc", "qemu-tcg", "qemu-kvm"]
SIZES = [64, 500, 1000, 1500]


def experiment(platforms: int, sizes: int, blocks: int, seed: int) -> Experiment:
    return experiments.parsed(
        platforms=PLATFORMS[:platforms],
        workloads=["superpi", {"workload": "forward", "frame_size_bytes": SIZES[:sizes]}],
        blocks=blocks,
        seed=seed,
    )


def order(plan: Plan) -> list[tuple[int, str, str]]:
    return [(t.block, t.platform.label, str(t.workload.parameters)) for t in plan.trials]


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**63 - 1))
def test_each_block_holds_each_cell_exactly_once(platforms: int, sizes: int, blocks: int, seed: int) -> None:
    asked = experiment(platforms, sizes, blocks, seed)
    plan = make_plan(asked)
    cells = {(p, w) for p in asked.platforms for w in asked.workloads}
    assert [trial.number for trial in plan.trials] == list(range(blocks * len(cells)))
    assert len(plan.blocks()) == blocks
    for number, block in enumerate(plan.blocks()):
        assert {trial.block for trial in block} == {number}
        assert len(block) == len(cells)
        assert {(trial.platform, trial.workload) for trial in block} == cells
    assert [trial for block in plan.blocks() for trial in block] == list(plan.trials)


@given(st.integers(0, 2**63 - 1))
def test_the_same_seed_gives_the_same_plan(seed: int) -> None:
    assert make_plan(experiment(4, 4, 3, seed)) == make_plan(experiment(4, 4, 3, seed))


@given(st.integers(0, 2**62 - 1), st.integers(1, 2**62))
def test_another_seed_gives_another_order(seed: int, step: int) -> None:
    one, other = make_plan(experiment(6, 4, 3, seed)), make_plan(experiment(6, 4, 3, seed + step))
    assert order(one) != order(other)
    assert sorted(order(one)) == sorted(order(other))


def test_blocks_have_different_orders() -> None:
    orders = {
        tuple(str(trial.platform.label) for trial in block) for block in make_plan(experiment(6, 4, 5, 1)).blocks()
    }
    assert len(orders) == 5


def test_the_order_is_the_same_on_any_python() -> None:
    """A fixed answer: a run that was begun with one version of Python is resumed with another.

    Of the parameters only what tells the cells apart is listed: a workload may be given more of them.
    """
    listed = "\n".join(
        f"{t.block} {t.platform.label} {t.workload.workload} {getattr(t.workload.parameters, 'frame_size_bytes', '')}"
        for t in make_plan(experiment(6, 4, 3, 20080407)).trials
    )
    assert hashlib.sha256(listed.encode()).hexdigest()[:16] == "9dd35f997424c044"


def test_the_estimate_counts_each_trial_and_one_start_of_each_platform_a_block() -> None:
    plan = make_plan(experiment(3, 2, 4, 1))
    assert estimate_seconds(plan, lambda _: 1.0, lambda _: 100.0) == pytest.approx(3 * 3 * 4 + 100 * 3 * 4)
    assert estimate_seconds(Plan(1, ()), lambda _: 1.0, lambda _: 100.0) == 0


def test_a_slow_platform_is_estimated_slower() -> None:
    def minutes(platform: str) -> float:
        return estimate(make_plan(experiments.parsed(platforms=[platform], baseline=platform)))

    assert minutes("qemu-tcg") > minutes("native") > 0
