"""A small run whose values are known, and the same with one thing changed: what an analysis as a whole is tested on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from tests.support.made_up_run import Made, made_up_run

from virtoll.runfolder.campaign_records import HostRecord
from virtoll.runfolder.facts import Facts
from virtoll.runfolder.guest_records import Forwarding
from virtoll.runfolder.records import TrialRecord
from virtoll.stats.analysis import Analysis, RunData
from virtoll.stats.compare import Comparison
from virtoll.stats.values import Task

PLATFORMS: dict[str, dict[str, Any]] = {"netns": {}, "native": {}, "runc": {}, "native-again": {}}


@cache
def data() -> RunData:
    """Durations of 100 ms by the host, 130 by netns, and rates of 500 and 400 thousand frames/s; runc measured none."""
    values = (("native", 1e8, 5e5), ("native-again", 1e8, 5e5), ("netns", 1.3e8, 4e5))
    made = [
        one
        for label, duration, rate in values
        for one in (
            Made(label, "superpi", value=duration),
            Made(label, "forward", {"frame_size_bytes": 64}, value=rate),
        )
    ]
    return made_up_run(PLATFORMS, made, blocks=3, calibrated_rate=1e6)


def manifested(given: RunData | None = None, **changed: Any) -> RunData:
    given = given or data()
    return replace(given, manifest=given.manifest.replace(**changed))


def asked(**changed: Any) -> RunData:
    return manifested(experiment={**data().manifest.experiment, **changed})


def trials(change: Callable[[TrialRecord], TrialRecord | None], given: RunData | None = None) -> RunData:
    """The run whose trials are changed so; None: without it."""
    given = given or data()
    return replace(given, trials=tuple(one for one in map(change, given.trials) if one is not None))


def platforms(label: str, given: RunData | None = None, **changed: Any) -> RunData:
    """The run in which a platform's entry is another."""
    entries = (given or data()).manifest.platforms
    return manifested(given, platforms=tuple(one.replace(**changed) if one.label == label else one for one in entries))


def agents(given: RunData, platform: str) -> RunData:
    boots = tuple(
        one.replace(facts=(one.facts or Facts()).replace(agent_sha256="f" * 64)) if one.platform == platform else one
        for one in given.boots
    )
    return replace(given, boots=boots)


def task_of(analysis: Analysis, workload: str = "superpi") -> Task:
    return next(one for one in analysis.tasks if one.workload == workload)


def compared(analysis: Analysis, platform: str, workload: str = "superpi") -> Comparison:
    found = analysis.comparison(platform, task_of(analysis, workload))
    assert found is not None
    return found


def hosts_of(blocks: int) -> tuple[HostRecord, ...]:
    """One for each block."""
    return tuple(HostRecord(f"host-{at}", {"fingerprint": f"f{at}"}, (at,)) for at in range(blocks))


def forwarded_by(given: RunData, forwarding: Forwarding) -> RunData:
    return replace(given, boots=tuple(one.replace(forwarding=forwarding) for one in given.boots))


def as_much_refused(one: TrialRecord) -> TrialRecord:
    """Before all that was sent, as many frames again did not get in."""
    points = tuple(
        own.replace(sources=tuple(each.replace(refused_frames=each.offered_frames) for each in own.sources))
        for own in one.points or ()
    )
    return one.replace(points=points)
