"""One point of traffic as it was measured, with what stands beside it in the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from virtoll.agent.operations.traffic import TrafficReply


@dataclass(frozen=True)
class MeasuredPoint:
    """What was intended, what the agent answered, and what was read ``beside`` it; a rate of None is flat out."""

    intended_rate_frames_per_second: float | None
    duration_ns: int
    traffic: TrafficReply
    beside: Mapping[str, object] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The point as the run folder stores it: the answer as it came."""
        intended = {
            "intended_rate_frames_per_second": self.intended_rate_frames_per_second,
            "duration_ns": self.duration_ns,
        }
        return {**intended, **self.traffic.to_json(), **self.beside}
