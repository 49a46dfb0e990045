"""What the instrument used, and what its counters change: readings few enough to reckon by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.by_hand import job, plain, task, trial
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.runfolder.overhead_records import Overhead, OverheadReading, OverheadSpan
from virtoll.runfolder.records import Manifest, PlatformEntry
from virtoll.stats.compare import Verdict
from virtoll.stats.overhead import OverheadUse, overhead_effects, overhead_uses
from virtoll.stats.values import Observation, Task
from virtoll.stats.verdicts import Rules

Agents = Mapping[str, tuple[int | None, int | None]]


def span(passed: int, controller: int = 0, children: int = 0, agents: Agents | None = None) -> OverheadSpan:
    """So much wall time, of which the controller, its children and each agent had so much of a CPU."""
    before = {role: first for role, (first, _) in (agents or {}).items()}
    after = {role: last for role, (_, last) in (agents or {}).items()}
    return OverheadSpan(
        OverheadReading(100, 1000, 2000, before),
        OverheadReading(100 + passed, 1000 + controller, 2000 + children, after),
    )


def cost(whole: int, *measured: OverheadSpan, counters: bool = True) -> dict[str, Any]:
    return {"overhead": Overhead(counters, span(whole), measured)}


def test_shares_are_of_the_time_between_request_and_answer() -> None:
    """(6 + 4 + 5) of 100 ns in two requests, 40 of 200, and 3 of 10: 0.15, 0.2 and 0.3 of a CPU.

    The agents: 20 + 5 of 100, and 1 of 10; those of traffic generate it, and are not counted.
    """
    both = {"generator": (7, 27), "sink": (50, 55)}
    trials = [
        job(1, 9, **cost(180, span(60, 6, 4, {"generator": (0, 15)}), span(40, 5, 0, {"generator": (3, 13)}))),
        trial(2, plain(1.0, 2), **cost(260, span(200, 10, 30, both))),
        job(4, 9, **cost(20, span(10, 9)), status="invalid"),
        job(5, 9),
        job(6, 9, **cost(99)),
        job(7, 9, **cost(99, span(0, 5))),
        job(8, 9, **cost(99, span(10, 9), counters=False)),
        job(3, 9, **cost(20, span(10, 3, 0, {"generator": (0, 1)}))),
    ]
    found = overhead_uses(trials)
    assert found is not None
    assert found.agents_share == pytest.approx((0.25 + 0.1) / 2)
    assert replace(found, agents_share=None) == OverheadUse(3, 0.2, 0.3, None, 60, 80)
    assert overhead_uses(trials, counters=False) == OverheadUse(1, 0.9, 0.9, None, 89, 89)
    assert overhead_uses(trials[3:7]) is None
    (one,) = (overhead_uses([job(1, 9, **cost(5, span(1, 2)))]),)
    assert one == OverheadUse(1, 2, 2, None, 4, 4), "of one ns"


@pytest.mark.parametrize(
    "agents",
    [{}, {"generator": (None, 5)}, {"generator": (5, None)}, {"generator": (0, 5), "sink": (1, None)}],
    ids=["none", "not before", "not after", "one of two"],
)
def test_agents_that_were_not_all_read_have_no_share(agents: Agents) -> None:
    found = overhead_uses(
        [job(1, 9, **cost(50, span(10, 5, agents={"generator": (0, 5)}), span(10, 5, agents=agents)))]
    )
    assert found is not None
    assert (found.share, found.agents_share) == (0.5, None)
    both = overhead_uses([job(1, 9, **cost(50, span(20, 0, agents={"generator": (0, 5), "sink": (1, 2)})))])
    assert both is not None
    assert both.agents_share == 0.3
    gone = span(20).replace(after=OverheadReading(120, 1000, 2000, {"new": 5}))
    late = overhead_uses([job(1, 9, **cost(50, gone))])
    assert late is not None
    assert late.agents_share is None, "an agent that was not there before"


DATA = run_data(Truth(REALISTIC, blocks=1)).manifest
JOB = task("job", "marks")
SECOND_JOB = task("other", "marks")


def entry(label: str, kind: str = "kind", *, counters: bool = True, **more: Any) -> PlatformEntry:
    unknown: dict[str, Any] = {"family": "model", "parameters": {}, "available": True, "reason": None, "version": None}
    return PlatformEntry(label=label, platform=kind, counters=counters, **unknown | more)


def manifest(*platforms: PlatformEntry, baseline: str | None = None) -> Manifest:
    return DATA.replace(platforms=platforms, baseline=baseline)


def values(platform: str, value: float, own: Task = JOB, blocks: Sequence[int] = (0, 1, 2)) -> list[Observation]:
    return [Observation(own, platform, 0, block, 0, value + 0.001 * block) for block in blocks]


def test_a_platform_without_counters_is_set_against_the_same_with_them() -> None:
    """Twice as long with counters: without them it does twice as much. Another host or setting is another platform."""
    asked = manifest(
        entry("there", "kind", host="box"),
        entry("set", "kind", parameters={"a": 1}),
        entry("another", "other"),
        entry("plain", "kind", counters=False),
        entry("with"),
        entry("twice"),
        entry("lonely", "third", counters=False),
        entry("set-plain", "kind", counters=False, parameters={"a": 1}),
    )
    observed = [
        *values("with", 20),
        *values("plain", 10),
        *values("there", 99),
        *values("set", 30),
        *values("set-plain", 30),
        *values("plain", 5, SECOND_JOB),
        *values("lonely", 5),
    ]
    effects = overhead_effects(asked, (JOB, SECOND_JOB), observed, {JOB: values("with", 999)}, Rules())
    assert [(one.platform, one.comparison.platform, one.comparison.task) for one in effects] == [
        ("with", "plain", JOB),
        ("set", "set-plain", JOB),
    ], "what was not measured on both sides is not there"
    first, second = (one.comparison for one in effects)
    assert first.share == pytest.approx(2, rel=1e-3)
    assert (first.verdict, second.verdict) == (Verdict.FASTER, Verdict.ALIKE)
    assert first.reason.endswith("2 comparisons"), "a family of its own"
    strict = overhead_effects(asked, (JOB,), observed, {}, Rules(level=1e-30, margin=0.99))
    assert {one.comparison.verdict for one in strict} <= {Verdict.UNKNOWN, Verdict.ALIKE}


def test_the_baselines_values_are_the_hosts() -> None:
    """With those of its control: sqrt(20 x 80) = 40, against 10."""
    asked = manifest(entry("base"), entry("plain", counters=False), baseline="base")
    observed = [*values("base", 20), *values("plain", 10)]
    host = {JOB: [*values("base", 20), *values("again", 80)]}
    (one,) = overhead_effects(asked, (JOB, SECOND_JOB), observed, host, Rules())
    assert one.platform == "base"
    assert one.comparison.share == pytest.approx(4, rel=1e-3)
