"""What a test says of one platform and workload, and the records of trials that measured it so.

Main types: `Made` (what is measured) and `Planned` (one trial of it). The run around them is `made_up_run`.
"""

import functools
import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.made_up_points import Path, Rates, made_up_point, used
from tests.support.synthetic_records import clock, trial_line

from virtoll.experiment.model import Parameters
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.scale import ScalePoint
from virtoll.runfolder.store import parse_record
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.values import canonical, maximum_forwarded_rate
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import DURATION, Metric
from virtoll.workloads.sweep import SweepParameters, sweep
from virtoll.workloads.transmitters import TransmittersParameters
from virtoll.workloads.virtual_routers import VirtualRoutersParameters

_RIGHT = {"value": "made up", "expected": "made up", "ok": True}
_NOTHING: dict[str, Any] = {"clock": None, "result": None, "check": None}
_NEIGHBOUR_FRAME_BYTES, _NEIGHBOUR_NS, _BESIDES_NS = 64, 1_000_000_000, 500_000_000
_NEAR = 1e-4  # relative: how near to its value the largest rate of a sweep is


@dataclass(frozen=True)
class Made:
    """What one platform measures of one workload with one set of parameters, in every block.

    `platform`: its label. `parameters`: those given; the rest are the workload's own. `value`: of the primary metric,
    in its unit. `figures`: of its further metrics, by name; `duration` (ns) is the job's where `value` is not.
    `condition`: what its neighbours do, None: alone; `neighbour`: what each that forwards is offered and forwards,
    frames/s. `scale`: so many guests at once, each of which measures this; None: one guest.
    For what sends frames: `flat_out` is forwarded of the generator's limit (None: as much as `value`, with frames
    lost); `lossless`: the generator sends no more than `value`, and all of it arrives; `by_source`: the share of each
    source, or of each guest that sends or forwards, in `value`; none: even.
    `clock_error`: relative, of the guest's clock; it is found where durations differ, and needs a `spread`. `spread`:
    SD of the log of the values from trial to trial, and from guest to guest of several at once. `blocks`: it is
    measured in the first so many; None: in all.
    """

    platform: str
    workload: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    value: float = 1e9
    figures: Mapping[str, float] = field(default_factory=dict)
    condition: Condition | None = None
    neighbour: tuple[float, float] | None = None
    scale: ScalePoint | None = None
    flat_out: float | None = None
    lossless: bool = False
    by_source: tuple[float, ...] = ()
    clock_error: float = 0.0
    spread: float = 0.01
    blocks: int | None = None

    @functools.cached_property
    def wanted(self) -> Parameters:
        """All of the workload's parameters; pydantic's `ValidationError` where those given are not allowed."""
        return WORKLOADS[self.workload].parameter_model.model_validate(dict(self.parameters))

    @functools.cached_property
    def recorded(self) -> dict[str, Any]:
        """The same as records have them."""
        return self.wanted.model_dump(mode="json")

    @functools.cached_property
    def task(self) -> tuple[str, str]:
        """Workload and parameters: what is equal there is compared."""
        return self.workload, canonical(self.recorded)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The workload's, the primary one first."""
        return WORKLOADS[self.workload].metrics

    @property
    def primary(self) -> Metric:
        """What `value` is of."""
        return WORKLOADS[self.workload].metrics[0]

    @property
    def duration_ns(self) -> float | None:
        """Of the job; None: none is given."""
        return self.value if self.primary.source == "marks" else self.figures.get(DURATION.name)

    @property
    def streams(self) -> int:
        """How many streams of frames its points have; 0: it sends none."""
        wanted = self.wanted
        if isinstance(wanted, TransmittersParameters):
            return wanted.transmitters
        return wanted.streams * wanted.guests if isinstance(wanted, SweepParameters) else 0

    @property
    def shares(self) -> tuple[float, ...]:
        """Of each stream in `value`."""
        return self.by_source or (1 / self.streams,) * self.streams


@dataclass(frozen=True)
class Planned:
    """One trial to be made of a run with this `seed`; `entry`: which of several of its round it is, from 0."""

    seed: int
    made: Made
    block: int
    round: int
    entry: int = 0

    def slowness(self, guest: int = 0) -> float:
        """By which factor one of its guests is slower than its `Made` says: its own draw, whatever else the run has."""
        made, when = self.made, (self.block, self.round, self.entry, guest)
        what = (self.seed, made.platform, *made.task, made.condition, made.scale, *when)
        return math.exp(random.Random(repr(what)).gauss(0, made.spread))


def trial_of(number: int, planned: Planned, started: int, *, limit: float, where: dict[str, Any]) -> TrialRecord:
    """The record of the run's trial of this number, which starts at `started` (ns).

    `limit`: what the generator offers flat out, frames/s. `where`: `host` and `caveat` of its platform. `ValueError`:
    the largest rate of its points is not the value that they were made of.
    """
    made, guests = planned.made, planned.made.scale.guests if planned.made.scale else 1
    slowness = [planned.slowness(guest) for guest in range(guests)]
    points = _points(made, slowness[0], limit)
    dice = random.Random(f"{planned.seed} {number}")
    did = [_job(made, one, started, dice) for one in slowness]
    length_ns = sum(one.duration_ns for one in points) or round((made.duration_ns or 0) * max(slowness))
    ended = started + length_ns + _BESIDES_NS
    names = boots_of(made, planned.block)
    members = zip(names, did, strict=True) if made.scale else ()
    line = trial_line(
        entry_of(number, planned),
        names[0],
        (started, ended),
        **(_NOTHING if made.scale else did[0]),
        points=[one.to_json() for one in points] or None,
        neighbours=[_neighbour(made, name, (started, ended)) for name in names[1:]] if made.condition else [],
        members=[{"boot": name, "problem": None, **one} for name, one in members],
        **where,
    )
    return _checked(parse_record(TrialRecord, line), planned)


def entry_of(number: int, planned: Planned) -> dict[str, Any]:
    """The trial as the plan has it."""
    made = planned.made
    return {
        "trial": number,
        "block": planned.block,
        "round": planned.round,
        "platform": made.platform,
        "workload": made.workload,
        "parameters": made.recorded,
        "condition": made.condition.to_json() if made.condition else None,
        "scale": made.scale.to_json() if made.scale else None,
    }


def boots_of(made: Made, block: int) -> list[str]:
    """The guests of a trial by the names of their starts: the measured one, then those with it or beside it."""
    label = made.platform
    if made.condition is None:
        more = made.scale.guests - 1 if made.scale else 0
    else:
        label, more = made.condition.platform or label, made.condition.guests
    return [f"{made.platform}/{block}", *(f"{label}/{block}/{number + 2}" for number in range(more))]


def named(boot: str) -> tuple[str, int]:
    """The label of a start's platform, which may have a slash, and which of its guests it is, from 0."""
    found = re.fullmatch(r"(.+?)/\d+(?:/(\d+))?", boot, re.DOTALL)
    assert found is not None, boot
    return found[1], int(found[2]) - 1 if found[2] else 0


def _job(made: Made, slowness: float, started: int, dice: random.Random) -> dict[str, Any]:
    """Clock, result and check of one guest: the marks are as far apart as the job is long."""
    if made.streams:
        return dict(_NOTHING)
    values = {**made.figures, made.primary.name: made.value}
    figures = {
        metric.name: value * slowness if metric.better == "lower" else value / slowness
        for metric in made.metrics
        if metric.source == "figures" and (value := values.get(metric.name)) is not None
    }
    readings = None
    if made.duration_ns is not None:
        readings = clock(started, round(made.duration_ns * slowness), made.clock_error, dice, late_share=0.0)
    return {"clock": readings, "result": {"figures": figures} if figures else {}, "check": _RIGHT}


def _points(made: Made, slowness: float, limit: float) -> list[Point]:
    """The points of what sends frames, in the order of a real sweep; none for a job."""
    wanted, parameters, value = made.wanted, made.recorded, made.value / slowness
    flat_out = None if made.flat_out is None else made.flat_out / slowness
    backend, sink = used(parameters)
    if isinstance(wanted, TransmittersParameters):
        rate = wanted.rate_frames_per_second or None
        stored = {
            "shared_link": wanted.nic == "shared",
            "shared_cpus": wanted.transmitters > 1 and wanted.affinity != "apart",
        }
        path = Path(value, value, value, value, made.shares, lossless=True)
        size, length = wanted.frame_size_bytes, wanted.duration_ns
        return [made_up_point(size, length, rate, path.rates(rate), backend=backend, sink=sink, stored=stored)]
    if not isinstance(wanted, SweepParameters):
        return []
    listed = [rate * made.streams for rate in wanted.listed_rates if rate * made.streams >= value]
    knee = max(value * wanted.rate_factor, *listed[:1], 0.0)
    path = Path.of(value, flat_out, limit, knee, made.shares)
    if made.lossless:
        path = Path(value, value, value, value, made.shares, lossless=True)

    def point(rate: float | None) -> Point:
        rates = path.rates(rate)
        return made_up_point(wanted.frame_size_bytes, wanted.point_ns, rate, rates, backend=backend, sink=sink)

    if isinstance(wanted, VirtualRoutersParameters) and wanted.router_rate:
        return [point(wanted.router_rate)]
    return sweep(wanted, point)


def _checked(trial: TrialRecord, planned: Planned) -> TrialRecord:
    """The record; `ValueError` where its largest rate is not the value that it was made of."""
    if trial.points is not None:
        rate, value = maximum_forwarded_rate(trial.points), planned.made.value / planned.slowness()
        if rate is None or not math.isclose(rate, value, rel_tol=_NEAR):
            raise ValueError(
                f"{trial.platform}, {trial.workload}: its points come to {rate} frames/s and not to {value:.6g}; "
                "no rate that they offer does, so give another value, or other rates"
            )
    return trial


def _neighbour(made: Made, name: str, window: tuple[int, int]) -> dict[str, Any]:
    """What one guest beside did: nothing, unless it forwards."""
    record: dict[str, Any] = {"boot": name, "platform": named(name)[0], "cpus": [0], "window": list(window)}
    if made.neighbour is None or made.condition is None:
        return record
    offered, forwarded = made.neighbour
    point = made_up_point(_NEIGHBOUR_FRAME_BYTES, _NEIGHBOUR_NS, offered, [Rates(offered, forwarded)])
    most = offered / made.condition.rate_share if made.condition.rate_share else None
    return record | {"traffic": point.to_json(), "maximum_frames_per_second": most}
