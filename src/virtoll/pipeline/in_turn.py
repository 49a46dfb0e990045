"""Later rounds of one workload in several guests at once: each is measured for a burst, in turn with the others.

What a host does to one of them within a second it then does to all (duet benchmarking, Bulej et al. 2020). The first
trial of a round measures all guests whose trials follow in it; these take what was measured of theirs.
Main function: ``measured_in_turn``.

Bulej, L., Horky, V., Tuma, P., Farquet, F., Prokopec, A. (2020): Duet benchmarking: improving measurement accuracy in
the cloud. ICPE '20, 100-107.
"""

from __future__ import annotations

from collections.abc import Iterator

from virtoll.experiment.plan import Trial
from virtoll.pipeline.fleet import Fleet
from virtoll.pipeline.live_guest import LiveGuest, running
from virtoll.pipeline.session import RunSession
from virtoll.runfolder.frame_shape import MOST_SOURCES
from virtoll.workloads import workload_of
from virtoll.workloads.base import Bench, Measurement


def measured_in_turn(
    trial: Trial, live: LiveGuest, bench: Bench, fleet: Fleet, session: RunSession
) -> Measurement | None:
    """What a later round measures of this guest; None: it is measured by itself."""
    waiting = live.in_turn.pop(trial.number, None)
    if waiting is not None:
        return waiting
    if not _takes_turns(trial, live, bench):
        return None
    taking: list[tuple[int, LiveGuest, Bench]] = []
    for number, other in _following(trial, fleet):
        its_bench = other.bench(session.pinning, session.tags)
        if other.site is live.site and len(taking) + 1 < MOST_SOURCES and _takes_turns(trial, other, its_bench):
            taking.append((number, other, its_bench))
    if not taking:
        return None
    guests = [other for _, other, _ in taking]
    # One that fails is named, and costs this trial; it is found dead at its own.
    with running(guests, who=lambda number: f"the guest of {guests[number - 1].label} that took turns with it"):
        measured = workload_of(trial.workload).measure_in_turn([bench, *(its_bench for _, _, its_bench in taking)])
    for (number, other, _), measurement in zip(taking, measured[1:], strict=True):
        other.in_turn[number] = measurement
    return measured[0]


def _following(trial: Trial, fleet: Fleet) -> Iterator[tuple[int, LiveGuest]]:
    """The guests that are up of the trials that follow in the same round, each once, and the number of its trial."""
    seen = {trial.platform.label}
    for other in fleet.block:
        label = other.platform.label
        if other.number <= trial.number or label in seen or not _is_of_round(other, trial):
            continue
        seen.add(label)
        for guest in fleet.up(label):
            yield other.number, guest


def _is_of_round(other: Trial, trial: Trial) -> bool:
    return other.later and (other.workload, other.round, other.block) == (trial.workload, trial.round, trial.block)


def _takes_turns(trial: Trial, live: LiveGuest, bench: Bench) -> bool:
    first = live.first_rounds.get(trial.workload)
    return first is not None and workload_of(trial.workload).takes_turns(bench, first)
