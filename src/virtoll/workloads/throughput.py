"""throughput: at which rate does the guest, as an IP router, lose nothing (NDR), and at most a small share (PDR)?

A trial is a search by MLRsearch (``loss_ratio_search.py``) between a least rate and what the generator can offer flat
out. Three points at a share of the PDR come after it, for the delay. The path, the books and the hops are those of
``forward``. A point is so long that the queues on the way cannot hide 1 % of its rate, up to a stated limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from virtoll.runfolder.traffic_records import Point, SourceCounts
from virtoll.workloads.base import Bench, Measurement, Metric, Needs, Workload
from virtoll.workloads.forward import point_between_hops, stream_through
from virtoll.workloads.loss_ratio_search import Bound, Counted, Goal, GoalBounds, search
from virtoll.workloads.router import routing
from virtoll.workloads.starvation import why_no_result
from virtoll.workloads.sweep import frame_totals
from virtoll.workloads.traffic import FrameParameters

DELAY_SHARES = (0.1, 0.5, 0.9)
_HIDDEN_SHARE = 0.01
# For estimates only: trials of a search (models: 11; real guests: up to 30), and what each takes besides its traffic.
_TRIALS, _BESIDES_SECONDS = 20, 0.4


class ThroughputParameters(FrameParameters):
    """The goals: nothing lost (NDR) and ``partial_drop_ratio`` (PDR), both by the same exceed ratio and width.

    Rates are sums over both directions, where ``directions`` has both; each direction is given half.
    A trial takes ``trial_seconds``, and ``queue_frames / (0.01 rate)`` where that is longer, but never more than
    ``longest_trial_seconds``. Trials of ``sum_seconds`` decide about a rate, those of ``search_seconds`` end a search.
    """

    sources: Literal[1] = 1
    destinations: Literal[1] = 1
    egress: Literal["one"] = "one"
    partial_drop_ratio: float = Field(
        default=0.005, gt=0, lt=1, description="share of frames that may be lost at the PDR"
    )
    exceed_ratio: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="share of a rate's trials that may lose more, and the rate still be a lower bound",
    )
    relative_width: float = Field(
        default=0.02, gt=0, lt=1, description="how far the two bounds of a found rate may be apart, as a share"
    )
    trial_seconds: float = Field(default=1.0, ge=0.05, description="length of a trial, in s")
    sum_seconds: float = Field(
        default=5.0, gt=0, description="trials of this length together decide about a rate, in s"
    )
    longest_trial_seconds: float = Field(default=10.0, gt=0, description="length of a trial at most, in s")
    queue_frames: int = Field(
        default=1256, ge=0, description="frames that queues of the path hold; slow rates are tried longer for them"
    )
    search_seconds: float = Field(default=120.0, gt=0, description="trials of this length together end a search, in s")
    least_rate_frames_per_second: float = Field(
        default=1000.0, gt=0, description="rate at which a search gives up, in frames/s"
    )

    @model_validator(mode="after")
    def _lengths_agree(self) -> Self:
        if not self.trial_seconds <= min(self.sum_seconds, self.longest_trial_seconds):
            raise ValueError("trial_seconds is at most sum_seconds and longest_trial_seconds; give a smaller one")
        return self

    def goals(self) -> tuple[Goal, Goal]:
        """NDR and PDR."""
        shared = (self.exceed_ratio, self.relative_width, self.trial_seconds, self.sum_seconds)
        return Goal("ndr", 0.0, *shared), Goal("pdr", self.partial_drop_ratio, *shared)

    def seconds_at(self, rate: float) -> float:
        """How long a trial at this rate is, for queues of so many frames to hide at most 1 % of it."""
        enough = self.queue_frames / (_HIDDEN_SHARE * rate)
        return min(self.longest_trial_seconds, max(self.trial_seconds, enough))


class Throughput(Workload[ThroughputParameters]):
    """NDR, PDR and the delay below them."""

    name: ClassVar[str] = "throughput"
    title: ClassVar[str] = "IP forwarding without loss"
    about: ClassVar[str] = "highest rates without loss, and their delay"
    origin: ClassVar[str] = "RFC 2544, MLRsearch"
    resource: ClassVar[str] = "packet path"
    loads_peer: ClassVar[bool] = True
    parameter_model = ThroughputParameters
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("pdr", "frames/s", "higher", "figures"),
        Metric("ndr", "frames/s", "higher", "figures"),
    )

    def needs(self) -> Needs:
        """The largest frame's MTU."""
        return Needs(mtu_bytes=self.parameters.mtu_bytes)

    def estimate_seconds(self, slowdown: float) -> float:
        """So many trials of a search; queues make them longer where the CPU is slow."""
        parameters = self.parameters
        seconds = parameters.seconds_at(1e6 / max(slowdown, 1.0))
        searched = min(parameters.search_seconds, _TRIALS * seconds)
        return searched + len(DELAY_SHARES) * parameters.trial_seconds + _TRIALS * _BESIDES_SECONDS

    def warm_up_seconds(self, slowdown: float) -> float:
        """One point."""
        del slowdown
        return self.parameters.trial_seconds + _BESIDES_SECONDS

    def warm_up(self, bench: Bench) -> Measurement:
        """The point flat out."""
        with routing(bench, self.parameters):
            points = [self._point(bench, None, self.parameters.trial_seconds)]
        return Measurement(points=points, problem=why_no_result(points))

    def measure(self, bench: Bench) -> Measurement:
        """Flat out, the search, and the points for the delay; every point is kept as the agent answered it."""
        parameters = self.parameters
        with routing(bench, parameters):
            points = [self._point(bench, None, parameters.trial_seconds)]
            apart = bench.receives_apart
            ceiling = _offered_rate(points[0], apart=apart)
            if ceiling <= parameters.least_rate_frames_per_second:
                problem = f"the generator offered {ceiling:.0f} frames/s flat out, which is not above the least rate"
                return Measurement(points=points, problem=problem)

            def trial(load: float, seconds: float) -> Counted:
                del seconds  # seconds_at is never below it
                length = parameters.seconds_at(load)
                points.append(self._point(bench, load, length))
                return _counted(points[-1], load, length, apart=apart)

            loads = (parameters.least_rate_frames_per_second, ceiling)
            outcomes = search(parameters.goals(), loads, parameters.search_seconds, trial)
            searched = len(points)
            pdr = outcomes[1].conditional_throughput
            shares = () if pdr is None else DELAY_SHARES
            points += [self._point(bench, share * (pdr or 0), parameters.trial_seconds) for share in shares]
        result = {
            "figures": {outcome.goal.name: outcome.conditional_throughput for outcome in reversed(outcomes)},
            "ceiling_frames_per_second": ceiling,
            "queue_frames": parameters.queue_frames,
            "goals": [_goal_record(outcome, points) for outcome in outcomes],
            "delays": [{"share_of_pdr": share, "point": point} for point, share in enumerate(shares, searched)],
        }
        return Measurement(result=result, points=points, problem=why_no_result(points))

    def _point(self, bench: Bench, rate: float | None, seconds: float) -> Point:
        """At this rate of all streams together, or flat out."""
        parameters = self.parameters
        stream_rate = None if rate is None else rate / parameters.streams
        return point_between_hops(bench, stream_through(bench, parameters), parameters, int(seconds * 1e9), stream_rate)


def _offered_rate(point: Point, *, apart: bool) -> float:
    """Frames/s that left the generator, over the time that its thread ran."""
    return sum(
        _given(source, apart=apart) * 1e9 / (source.end_monotonic_ns - source.start_monotonic_ns)
        for source in point.sources
    )


def _counted(point: Point, load: float, seconds: float, *, apart: bool) -> Counted:
    intended, _, forwarded = frame_totals(point)
    offered = sum(_given(source, apart=apart) for source in point.sources)
    return Counted(load, seconds, intended, offered, forwarded)


def _given(source: SourceCounts, *, apart: bool) -> int:
    """Frames that the sender had for the guest: what the guest's own full queue refused is lost, not unsent."""
    return source.offered_frames + (source.refused_frames or 0) * apart


def _goal_record(outcome: GoalBounds, points: Sequence[Point]) -> dict[str, Any]:
    goal = outcome.goal
    return {
        "name": goal.name,
        "loss_ratio": goal.loss_ratio,
        "exceed_ratio": goal.exceed_ratio,
        "relative_width": goal.relative_width,
        "sum_seconds": goal.sum_seconds,
        "ended": outcome.ended,
        "lower": _bound_record(outcome.lower, points),
        "upper": _bound_record(outcome.upper, points),
        "conditional_throughput_frames_per_second": outcome.conditional_throughput,
    }


def _bound_record(bound: Bound | None, points: Sequence[Point]) -> dict[str, Any] | None:
    """The bound, the length of each of its trials, and their places among the trial's points, the first flat out."""
    if bound is None:
        return None
    numbers = [number + 1 for number in bound.trials]
    return {"rate_frames_per_second": bound.load, "trial_ns": points[numbers[0]].duration_ns, "points": numbers}
