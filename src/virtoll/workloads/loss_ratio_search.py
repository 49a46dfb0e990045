"""The search for the highest load at which no more than a goal's share is lost (draft-ietf-bmwg-mlrsearch).

An adapter around the library MLRsearch of FD.io CSIT. Main types: ``Goal``, ``Counted`` (one trial), ``GoalBounds``
(both bounds of a goal). The search never knows what it drives: it asks for a load and a length, and gets counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Ended = Literal["width", "generator-bound", "least-rate", "time-limit"]


@dataclass(frozen=True)
class Goal:
    """A load is a lower bound where at most ``exceed_ratio`` of its trials' time lost more than ``loss_ratio``.

    ``sum_seconds``: the trials' time that decides about a load; ``relative_width``: the interval's, of its upper bound.
    """

    name: str
    loss_ratio: float
    exceed_ratio: float
    relative_width: float
    trial_seconds: float
    sum_seconds: float


@dataclass(frozen=True)
class Counted:
    """One trial: its load in frames/s, its real length, and its frames; unsent ones (intended - offered) are bad."""

    load: float
    seconds: float
    intended: int
    offered: int
    forwarded: int

    @property
    def lost_share(self) -> float:
        """Lost frames of those intended, without the unsent."""
        return (self.offered - self.forwarded) / self.intended if self.intended else 0.0


@dataclass(frozen=True)
class Bound:
    """A load in frames/s with its trials, as their places in the order of the search."""

    load: float
    trials: tuple[int, ...]


@dataclass(frozen=True)
class GoalBounds:
    """One goal's bounds, and its conditional throughput in frames/s: what the lower bound forwards at the least.

    ``ended``: ``width`` (both bounds are known, and near enough); ``generator-bound`` (no upper bound: nothing that the
    goal forbids was lost at the highest load, or frames were unsent above the lower bound); ``least-rate`` (no lower
    bound: even the smallest load lost more); ``time-limit``.
    """

    goal: Goal
    ended: Ended
    lower: Bound | None
    upper: Bound | None
    conditional_throughput: float | None


class _OutOfTimeError(Exception):
    """The search's time is over."""


@dataclass
class _Measurer:
    """What the library drives: it counts the trials, and stops where the time is over."""

    trial: Callable[[float, float], Counted]
    limit_seconds: float
    made: list[Counted] = field(default_factory=list)

    def measure(self, intended_duration: float, intended_load: float) -> Any:
        """One trial, which may be longer than asked for; it counts by its real length."""
        if sum(trial.seconds for trial in self.made) >= self.limit_seconds:
            raise _OutOfTimeError
        counted = self.trial(intended_load, intended_duration)
        self.made.append(counted)
        from MLRsearch import MeasurementResult

        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=counted.offered,
            forwarding_count=counted.forwarded,
            intended_count=counted.intended,
            duration_with_overheads=counted.seconds,
        )


def search(
    goals: Sequence[Goal], loads: tuple[float, float], limit_seconds: float, trial: Callable[[float, float], Counted]
) -> tuple[GoalBounds, ...]:
    """Search between the least and the largest load, in frames/s, for all goals at once.

    ``trial`` is given a load and the least length in seconds. ``limit_seconds`` is of traffic: no trial begins after
    it.
    """
    from MLRsearch import Config, MultipleLossRatioSearch

    targets = {goal: _library_goal(goal) for goal in goals}
    config = Config(
        goals=list(targets.values()),
        max_load=loads[1],
        min_load=loads[0],
        search_duration_max=1e9,  # the measurer ends it
        warmup_duration=None,
    )
    controller = MultipleLossRatioSearch(config=config)
    measurer = _Measurer(trial, limit_seconds)
    in_time = True
    try:
        controller.search(measurer=measurer)
    except _OutOfTimeError:
        in_time = False
    return tuple(_found(goal, controller, target, measurer.made, in_time=in_time) for goal, target in targets.items())


def _library_goal(goal: Goal) -> Any:
    from MLRsearch import SearchGoal

    return SearchGoal(
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        relative_width=goal.relative_width,
        initial_trial_duration=goal.trial_seconds,
        final_trial_duration=goal.trial_seconds,
        duration_sum=goal.sum_seconds,
        preceding_targets=2,
        expansion_coefficient=2,
        fail_fast=False,
    )


def _found(goal: Goal, controller: Any, target: Any, made: Sequence[Counted], *, in_time: bool) -> GoalBounds:
    bounds = controller.database.get_relevant_bounds(target=controller.scaling.goal_to_final_target[target])
    lower, upper = _bound(bounds.clo, made), _bound(bounds.chi, made)
    conditional = None
    if bounds.clo is not None:
        (stat,) = bounds.clo.target_to_stat.values()
        conditional = float(bounds.clo) * (1.0 - stat.pessimistic_loss_ratio)
    ended: Ended = "time-limit"
    if upper is not None and not _lost_too_much(goal, [made[number] for number in upper.trials]):
        ended, upper = "generator-bound", None
    elif lower and upper and upper.load - lower.load <= goal.relative_width * upper.load * (1 + 1e-9):
        ended = "width"
    elif in_time:
        ended = "generator-bound" if upper is None else "least-rate"
    return GoalBounds(goal, ended, lower, upper, conditional)


def _bound(stats: Any, made: Sequence[Counted]) -> Bound | None:
    if stats is None:
        return None
    load = float(stats)
    return Bound(load, tuple(number for number, trial in enumerate(made) if trial.load == load))


def _lost_too_much(goal: Goal, trials: Sequence[Counted]) -> bool:
    """Whether the load is above the goal by what was lost alone; else unsent frames bound it, and so the generator."""
    lost = sum(trial.seconds for trial in trials if trial.lost_share > goal.loss_ratio)
    return lost > goal.exceed_ratio * sum(trial.seconds for trial in trials)
