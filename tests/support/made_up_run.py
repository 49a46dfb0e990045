"""A made-up run of any workload: a test says what each platform measures of it, and gets what analysis takes.

Main type: `Made`, one platform with one workload and one set of parameters. `made_up_run` gives a run whose plan,
records and parameters are as real ones have them. What is not given is not there: a metric without a value is a gap.
Not made: the CPU time of a frame (`cpu_per_frame`), the searches of `throughput` and what guests cost their host.
"""

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.made_up_points import calibrated_at
from tests.support.made_up_trials import Made, Planned, boots_of, entry_of, named, trial_of
from tests.support.synthetic_records import EPOCH_NS, boot, fitness, instrument, platform

from virtoll.experiment.plan import _around, _shuffled  # so that a made-up run has the order of a real plan
from virtoll.pipeline.manifest import metric_records
from virtoll.platforms import EVERY_PLATFORM
from virtoll.runfolder.records import BootRecord, FitnessRecord, Manifest, State, TrialRecord
from virtoll.runfolder.scale import GroupRecord, ScalePoint
from virtoll.runfolder.store import parse_record
from virtoll.runfolder.traffic_records import CalibrationRecord
from virtoll.stats.analysis import RunData
from virtoll.workloads.base import DURATION
from virtoll.workloads.sweep import SweepParameters
from virtoll.workloads.traffic import FrameParameters

__all__ = ["Made", "made_up_run"]

_LIMIT = 4.0  # what the generator offers flat out, by the largest value, where it is not calibrated


def made_up_run(
    platforms: Mapping[str, Mapping[str, Any]],
    measured: Sequence[Made],
    *,
    baseline: str | None = "native",
    blocks: int = 5,
    rounds: int = 1,
    seed: int = 1,
    calibrated_rate: float | None = None,
    experiment: Mapping[str, Any] | None = None,
) -> RunData:
    """The run in which that was measured.

    `platforms`: by label what its entry in the manifest has; `platform` (the kind; the label), `family`, `parameters`,
    `host` and `caveat` (none) may be left out. A kind that is the A/A control of the baseline's is the run's control.
    `calibrated_rate`: frames/s of generator and sink with nothing between, for each shape of frames; None: not
    calibrated. `experiment`: further keys of the manifest's, such as `study`.
    `ValueError`: what is asked for does not fit together, or a sweep does not come to its `value`.
    """
    entries = {label: _entry(label, given) for label, given in platforms.items()}
    _refuse(measured, entries, baseline, blocks)
    control = _control(entries, baseline)
    planned = _plan(measured, baseline, control, blocks, rounds, seed)
    limit = calibrated_rate or _LIMIT * max((one.value for one in measured if one.streams), default=1.0)
    where = {label: {key: entry[key] for key in ("host", "caveat")} for label, entry in entries.items()}
    trials: list[TrialRecord] = []
    for number, one in enumerate(planned):
        begins = trials[-1].ended_realtime_ns if trials else None
        trials.append(trial_of(number, one, begins or EPOCH_NS, limit=limit, where=where[one.made.platform]))
    boots, groups = _starts(planned, entries)
    manifest = {
        **instrument(None),
        "run": "20261121T001500Z-made-up-1a2b",
        "experiment": _experiment(measured, blocks, rounds, seed) | dict(experiment or {}),
        "command": ["virtoll", "run", "made-up"],
        "baseline": baseline,
        "control": control,
        "platforms": list(entries.values()),
        "metrics": [one.to_json() for one in metric_records(dict.fromkeys(one.workload for one in measured))],
        "plan": {
            "seed": seed,
            "estimated_seconds": None,
            "trials": list(itertools.starmap(entry_of, enumerate(planned))),
        },
    }
    return RunData(
        manifest=parse_record(Manifest, manifest),
        state=State("complete", None),
        trials=tuple(one for one in trials if one.condition is None and one.scale is None),
        with_neighbours=tuple(one for one in trials if one.condition is not None),
        at_once=tuple(one for one in trials if one.scale is not None),
        groups=groups,
        boots=boots,
        commands=(),
        fitness=tuple(parse_record(FitnessRecord, fitness(after)) for after in range(0, len(trials) + 1, 4)),
        calibrations=_calibrations(measured, calibrated_rate),
    )


def _entry(label: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A platform's entry in the manifest, with its driver's family and parameters."""
    driver = EVERY_PLATFORM[given.get("platform", label)]
    parameters = driver.parameter_model.model_validate(given.get("parameters", {})).model_dump(mode="json")
    own = {"platform": driver.name, "parameters": parameters}
    return platform(label, **{"family": driver.family, "version": "made up", **given, **own})


def _control(entries: Mapping[str, Mapping[str, Any]], baseline: str | None) -> str | None:
    """The label of the baseline's A/A control, if there is one."""
    if baseline is None:
        return None
    kind = entries[baseline]["platform"]
    found = [label for label, one in entries.items() if EVERY_PLATFORM[one["platform"]].control_of == kind]
    return found[0] if found else None


def _experiment(measured: Sequence[Made], blocks: int, rounds: int, seed: int) -> dict[str, Any]:
    """The experiment as a manifest has it."""
    conditions = dict.fromkeys(one.condition.label for one in measured if one.condition is not None)
    points = dict.fromkeys(one.scale for one in measured if one.scale is not None)
    return {
        "name": "made-up",
        "question": "What do claims say of a run whose truth is known?",
        "file": "experiments/made-up.yaml",
        "text": "name: made-up\n",
        "scenario": "neighbours" if conditions else "scale" if points else "dedicated",
        "conditions": list(conditions),
        "scale": [one.to_json() for one in points] or None,
        "blocks": blocks,
        "rounds": rounds,
        "looks": None,
        "seed": seed,
        "study": None,
        "size": "quick",
        "order": "randomised",
        "boot": "block",
        "summary": None,
        "margin": 0.1,
        "guest": {"vcpus": 1, "memory_bytes": 268435456, "marks": "icmp"},
    }


def _refuse(measured: Sequence[Made], entries: Mapping[str, object], baseline: str | None, blocks: int) -> None:
    """`ValueError` for what no run can hold."""
    seen: set[object] = set()
    if baseline is not None and baseline not in entries:
        raise ValueError(f"the baseline {baseline!r} is not among the platforms; add it, or give baseline None")
    if len({one.scale is None for one in measured}) > 1 or any(one.scale and one.condition for one in measured):
        raise ValueError("in a run with several guests at once all is measured so; make two runs")
    for one in measured:
        key = (one.platform, *one.task, one.condition, one.scale)
        if key in seen:
            raise ValueError(f"{one.platform} has {one.workload} twice with the same parameters")
        seen.add(key)
        problem = _problem(one, entries, blocks)
        if problem is not None:
            raise ValueError(f"{one.platform}, {one.workload}: {problem}")
    for one in measured:
        if one.condition is not None and (one.platform, *one.task, None, None) not in seen:
            raise ValueError(f"{one.platform}, {one.workload}: there is nothing of the guest alone")


def _problem(one: Made, entries: Mapping[str, object], blocks: int) -> str | None:
    """What does not fit together in one of them."""
    made = {metric.name for metric in one.metrics[1:] if metric.source == "figures"} | {DURATION.name}
    unknown = [name for name in one.figures if name not in made or name == one.primary.name or one.streams]
    labels = {one.platform, one.condition.platform if one.condition else None} - {None}
    swept = isinstance(one.wanted, SweepParameters)
    if not labels <= entries.keys():
        return "its platform, or that of the guests beside it, is not among the platforms"
    if unknown:
        return f"{unknown[0]!r} is none of its further metrics that are made"
    if one.blocks is not None and one.blocks > blocks:
        return "it has more blocks than the run"
    if one.neighbour is not None and one.condition is None:
        return "a neighbour's frames need 'beside'"
    if one.flat_out is not None and (one.flat_out > one.value or one.lossless or not swept):
        return "flat_out is at most the value, and of a sweep that loses frames"
    if one.by_source and (len(one.by_source) != one.streams or not math.isclose(sum(one.by_source), 1)):
        return f"by_source needs {one.streams} shares whose sum is 1"
    if one.scale is not None:
        return _problem_at_once(one)
    return None


def _problem_at_once(one: Made) -> str | None:
    """What is missing of one of several guests."""
    if one.duration_ns is None:
        return "several guests at once do jobs, and the duration of this one is not given"
    return None


def _plan(
    measured: Sequence[Made], baseline: str | None, control: str | None, blocks: int, rounds: int, seed: int
) -> list[Planned]:
    """The trials in order, as `experiment.plan` has those of each scenario."""
    dice, planned = random.Random(seed), []
    for block in range(blocks):
        present = [one for one in measured if one.blocks is None or block < one.blocks]
        if any(one.scale is not None for one in measured):
            groups = list(dict.fromkeys((one.scale, one.platform) for one in present))
            for group in _shuffled(dice, groups):
                own = [one for one in present if (one.scale, one.platform) == group]
                planned += [Planned(seed, one, block, turn) for one in _shuffled(dice, own) for turn in range(rounds)]
            continue
        for task in _shuffled(dice, list(dict.fromkeys(one.task for one in present))):
            own = [one for one in present if one.task == task]
            for turn in range(rounds):
                in_turn = _round(own, baseline, control, rounds, dice)
                planned += [
                    Planned(seed, one, block, turn, sum(one is other for other in in_turn[:place]))
                    for place, one in enumerate(in_turn)
                ]
    return planned


def _round(
    own: Sequence[Made], baseline: str | None, control: str | None, rounds: int, dice: random.Random
) -> list[Made]:
    """One round of one task: the host's entries around the others', or a guest alone around its conditions."""
    alone = {one.platform: one for one in own if one.condition is None}
    if any(one.condition is not None for one in own):
        found: list[Made] = []
        for platform in _shuffled(dice, list(alone)):
            conditions = [one for one in own if one.platform == platform and one.condition is not None]
            found += _around((alone[platform],), _shuffled(dice, conditions))
        return found
    if rounds == 1:
        return _shuffled(dice, list(alone.values()))
    host = [alone[label] for label in (baseline, control) if label is not None and label in alone]
    return _around(host, _shuffled(dice, [one for one in alone.values() if one not in host]))


def _starts(
    planned: Sequence[Planned], entries: Mapping[str, Mapping[str, Any]]
) -> tuple[tuple[BootRecord, ...], tuple[GroupRecord, ...]]:
    """Every guest's start, and those of several at the same time."""
    boots: dict[tuple[str, ScalePoint | None], dict[str, Any]] = {}
    groups: dict[tuple[str, int, ScalePoint], GroupRecord] = {}
    for one in planned:
        scale, names = one.made.scale, boots_of(one.made, one.block)
        for name in names:
            label, instance = named(name)
            entry = entries[label]
            boots.setdefault(
                (name, scale),
                boot(label, one.block, machine=entry["family"] not in ("native", "os-level"))
                | {"boot": name, "mismatches": [], "instance": instance}
                | {"scale": scale.to_json() if scale else None, "host": entry["host"], "caveat": entry["caveat"]},
            )
        if scale is not None:
            groups.setdefault((one.made.platform, one.block, scale), _group(one, scale, tuple(names)))
    return tuple(parse_record(BootRecord, one) for one in boots.values()), tuple(groups.values())


def _group(planned: Planned, scale: ScalePoint, names: tuple[str, ...]) -> GroupRecord:
    return GroupRecord(
        platform=planned.made.platform,
        block=planned.block,
        scale=scale,
        status="ok",
        reason=None,
        boots=names,
        began_monotonic_ns=0,
        up_monotonic_ns=3_000_000_000,
        available_before_bytes=20 << 30,
        available_idle_bytes=(20 << 30) - scale.guests * scale.memory_bytes // 2,
    )


def _calibrations(measured: Sequence[Made], rate: float | None) -> tuple[CalibrationRecord, ...]:
    """Begin and end for each shape of frames that a generator sends; none without a rate."""
    if rate is None:
        return ()
    wanted = [one.wanted for one in measured]
    shapes = dict.fromkeys(one.shape() for one in wanted if isinstance(one, FrameParameters))
    lines = (line for shape in shapes for line in calibrated_at(shape.model_dump(mode="json"), rate))
    return tuple(parse_record(CalibrationRecord, line) for line in lines)
