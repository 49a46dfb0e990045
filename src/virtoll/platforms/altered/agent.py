"""The agent of an altered guest: what it is asked reaches the real one, and some of its answers are changed.

Main type: ``AlteredAgent``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from virtoll.agent.client import Caller, ChannelMark
from virtoll.agent.operations.jobs import RunReply
from virtoll.agent.operations.network import NetworkReply, NetworkRequest
from virtoll.agent.request import Request
from virtoll.runfolder.record import Record
from virtoll.runfolder.records import GuestClock

Reply = TypeVar("Reply", bound=Record)


def _leave(request: NetworkRequest, reply: NetworkReply) -> None:
    """Nothing is done once the guest is configured."""
    del request, reply


@dataclass
class AlteredAgent:
    """A ``Caller``: durations by a wrong clock, and no forwarding by the kernel where a program takes its place.

    ``clock_rate``: how many times as fast; ``step_ns``: what every second job's end is later by. ``configured`` is
    called with what the guest's interfaces are called, when the guest would have been made a router and its kernel must
    not forward (``kernel_forwards``).
    """

    real: Caller
    clock_rate: float = 1.0
    step_ns: int = 0
    configured: Callable[[NetworkRequest, NetworkReply], None] = _leave
    kernel_forwards: bool = True
    _jobs: int = field(default=0)

    @property
    def channel_marks(self) -> deque[ChannelMark]:
        """The real agent's."""
        return self.real.channel_marks

    @channel_marks.setter
    def channel_marks(self, marks: deque[ChannelMark]) -> None:
        self.real.channel_marks = marks

    @property
    def ended(self) -> bool:
        """As the real one."""
        return self.real.ended

    def ask(self, request: Request[Reply], deadline_seconds: float = 60.0) -> Reply:
        """The real agent's reply, altered."""
        real_request = request.replace(ip_forward=False) if self._is_routing(request) else request
        reply = self.real.ask(real_request, deadline_seconds)
        if isinstance(reply, RunReply):
            altered = reply.replace(guest=self._by_wrong_clock(reply.guest))
            return request.read_reply(altered.to_json(), "an altered agent")
        if isinstance(request, NetworkRequest) and isinstance(reply, NetworkReply) and self._is_routing(request):
            self.configured(request, reply)
        return reply

    def close(self) -> None:
        """End the real session."""
        self.real.close()

    def _is_routing(self, request: Request[Any]) -> bool:
        return not self.kernel_forwards and isinstance(request, NetworkRequest) and bool(request.ip_forward)

    def _by_wrong_clock(self, times: GuestClock) -> GuestClock:
        self._jobs += 1
        stepped_ns = self.step_ns if self._jobs % 2 == 0 else 0

        def end(start_ns: int, end_ns: int) -> int:
            return start_ns + round((end_ns - start_ns) * self.clock_rate) + stepped_ns

        return times.replace(
            end_monotonic_ns=end(times.start_monotonic_ns, times.end_monotonic_ns),
            end_realtime_ns=end(times.start_realtime_ns, times.end_realtime_ns),
            pause_ns=round(times.pause_ns * self.clock_rate),
        )
