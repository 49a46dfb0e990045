"""What an experiment's scenario adds: guests beside the measured one, or how many guests do the same at once.

Every complaint names file and key, and is a ``UsageError``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from virtoll.experiment.complaints import validated, wrong
from virtoll.experiment.entries import combinations
from virtoll.experiment.file import ExperimentFile, NeighboursEntry
from virtoll.experiment.model import PlatformChoice, Scale
from virtoll.runfolder.conditions import Condition


def conditions_of(parsed: ExperimentFile, platforms: Sequence[PlatformChoice], path: Path) -> tuple[Condition, ...]:
    """What the guests beside the measured one do, each condition once; empty in the scenario ``dedicated``."""
    if parsed.scenario != "neighbours":
        if parsed.neighbours is not None:
            raise wrong(path, "neighbours", "needs 'scenario: neighbours'; set it, or leave the key out")
        if parsed.testbed is not None and parsed.testbed.neighbour is not None:
            raise wrong(path, "testbed.neighbour", "needs 'scenario: neighbours'; set it, or leave the key out")
        return ()
    if not parsed.neighbours:
        raise wrong(path, "neighbours", "is missing; add loads, such as [idle, light, heavy]")
    for place, choice in enumerate(platforms):
        if choice.parameters.pre_provisioned:
            raise wrong(
                path,
                f"platforms[{place}]",
                f"its guest is there already, and no other is started beside it; "
                f"take {choice.label} out, or set 'scenario: dedicated'",
            )
    labels = [choice.label for choice in platforms]
    conditions: list[Condition] = []
    for place, entry in enumerate(parsed.neighbours):
        where = f"neighbours[{place}]"
        written = {"load": entry} if isinstance(entry, str) else dict(entry)
        for combination in combinations(written, NeighboursEntry, where, path):
            condition = validated(NeighboursEntry, combination, path, where).condition
            if condition.platform is not None and condition.platform not in labels:
                raise wrong(
                    path,
                    f"{where}.platform",
                    f"{condition.platform!r} is not among the platforms; allowed: {', '.join(labels)}",
                )
            if condition in conditions:
                raise wrong(path, f"{where}", f"'{condition.label}' is there twice; leave one out")
            conditions.append(condition)
    return tuple(conditions)


def scale_of(parsed: ExperimentFile, platforms: Sequence[PlatformChoice], path: Path) -> Scale | None:
    """How many guests do the same at once; None in another scenario than ``scale``."""
    entry = parsed.scale
    if parsed.scenario != "scale":
        if entry is not None:
            raise wrong(path, "scale", "needs 'scenario: scale'; set it, or leave the key out")
        return None
    if entry is None:
        raise wrong(path, "scale", "is missing; add numbers of guests, such as {guests: [1, 2, 4, 8]}")
    _refuse_elsewhere(parsed, platforms, path)
    labels = [choice.label for choice in platforms]
    unknown = [label for label in entry.most if label not in labels]
    if unknown:
        raise wrong(path, "scale.most", f"{unknown[0]!r} is not among the platforms; allowed: {', '.join(labels)}")
    scale = Scale(entry.points(parsed.guest), entry.most, entry.overcommit, entry.affinity)
    nothing = [label for label in labels if not scale.points_of(label)]
    if nothing:
        raise wrong(
            path,
            "scale.most",
            f"no number of 'scale.guests' is so small for {nothing[0]}; raise it, or take the platform out",
        )
    return scale


def _refuse_elsewhere(parsed: ExperimentFile, platforms: Sequence[PlatformChoice], path: Path) -> None:
    """Guests that do the same at once are all on this machine."""
    which = "guests that do the same at once"
    if parsed.testbed is not None:
        raise wrong(
            path,
            "testbed",
            f"{which} have links of their own, on this machine alone; leave it out, or set 'scenario: dedicated'",
        )
    for place, choice in enumerate(platforms):
        if choice.host is not None or choice.parameters.pre_provisioned:
            raise wrong(
                path,
                f"platforms[{place}]",
                f"{which} are started on this machine; take {choice.label} out, or set 'scenario: dedicated'",
            )
