"""The fake platform's packet path: a router of known cost that loses frames at a known place, with counters that show
it.

Main types: ``FakeWire`` (the interfaces of the model and what has passed them). Part of ``fake``, not a platform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from virtoll.agent.client import Answer

LostAt = Literal["guest", "generator", "sink-ring", "sink", "unlocated"]
LINK_DELAY_NS = 20_000
_FRAME_NANOSECONDS, _BYTE_NANOSECONDS = 900.0, 0.2
_GENERATOR_FRAMES_PER_SECOND = 2_000_000.0
_STATISTICS = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped")
_BOOKS = {"foreign_frames": 0, "late_trial_frames": 0, "kernel_dropped_frames": 0, "drained": True}
_GENERATOR_CPU = {"generator_user_ns": 0, "generator_system_ns": 0}
_SINK_CPU = {"sink_user_ns": 0, "sink_system_ns": 0}


@dataclass
class FakeWire:
    """``loss`` is the share that is lost besides what comes too fast; ``lost_at`` the place where all of it is."""

    cost: float
    loss: float
    lost_at: LostAt
    unbalanced: bool
    guest_interfaces: dict[str, str] = field(default_factory=dict)
    _passed: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    _open: dict[str, Any] = field(default_factory=dict)

    def learn(self, interfaces: Sequence[dict[str, Any]]) -> None:
        """Remember what the guest's interfaces are called, by MAC address and by their neighbour's IP address."""
        for number, entry in enumerate(interfaces):
            name = self.guest_interfaces.setdefault(entry["mac"], f"eth{number}")
            for one in (entry, *entry.get("vlans", ())):
                for neighbour in one.get("neighbours", ()):
                    self.guest_interfaces[neighbour["address"]] = name

    def counters(self, where: str, interfaces: Sequence[str]) -> Answer:
        """The agent's ``counters`` for the peer or the guest."""
        reported: list[Answer] = [
            {
                "name": name,
                "statistics": dict(self._at(where, name)),
                "queue_disciplines": [],
                "driver_statistics": None,
            }
            for name in interfaces
        ]
        return {"interfaces": reported, "softnet": None, "snmp": None, "snmp6": None, "processors": []}

    def traffic(self, fields: dict[str, Any], now_ns: int, spread: float) -> Answer:
        """Each frame costs a + b x size nanoseconds; what comes faster than that is lost."""
        size, duration = fields["frame_size_bytes"], fields["duration_ns"]
        capacity = self._capacity(size, spread)
        sources, sinks = [], []
        share = len(fields["sources"])
        for number, source in enumerate(fields["sources"]):
            wanted = source["rate_frames_per_second"]
            flat_out = _GENERATOR_FRAMES_PER_SECOND / share * duration / 1e9
            intended = int(flat_out if wanted is None else wanted * duration / 1e9)
            offered = min(intended, int(flat_out))
            forwarded = int(min(offered, capacity / share * duration / 1e9) * (1 - self.loss))
            self._count(source, fields["sink"]["interfaces"][0], offered, forwarded)
            sources.append(_source(number, intended, offered, now_ns, duration))
            sinks.append(self._arrived(number, offered, forwarded, now_ns, duration))
        return {
            "backend": "model",
            "frame_size_bytes": size,
            "sources": sources,
            "sink": {"per_source": sinks, **_BOOKS},
            "cpu": {**_GENERATOR_CPU, **_SINK_CPU},
        }

    def send(self, fields: dict[str, Any], now_ns: int, spread: float) -> Answer:
        """The agent's ``send``: the guest's own generator, which is no faster than its router."""
        size, duration = fields["frame_size_bytes"], fields["duration_ns"]
        most = int(self._capacity(size, spread) * duration / 1e9)
        wanted = fields["sources"][0]["rate_frames_per_second"]
        intended = most if wanted is None else int(wanted * duration / 1e9)
        source = _source(0, intended, min(intended, most), now_ns, duration)
        return {"backend": "model", "frame_size_bytes": size, "sources": [source], "cpu": dict(_GENERATOR_CPU)}

    def open_sink(self, fields: dict[str, Any]) -> None:
        """The agent's ``sink-open``; ``sink-close`` is one of nothing."""
        self._open = fields

    def close_sink(self, reported: Sequence[dict[str, Any]], now_ns: int) -> Answer:
        """The agent's ``sink-finish``: what was sent arrives, but for the model's own loss."""
        sinks = []
        for number, one in enumerate(reported):
            offered = one["offered_frames"]
            forwarded = int(offered * (1 - self.loss))
            sinks.append(self._arrived(number, offered, forwarded, now_ns, self._open["duration_ns"]))
        return {"sink": {"per_source": sinks, **_BOOKS}, "interfaces": [], "cpu": dict(_SINK_CPU)}

    def _capacity(self, size: int, spread: float) -> float:
        return 1e9 / ((_FRAME_NANOSECONDS + _BYTE_NANOSECONDS * size) * self.cost * spread)

    def _arrived(self, number: int, offered: int, forwarded: int, now_ns: int, duration: int) -> Answer:
        return {
            "source": number,
            "forwarded_frames": forwarded,
            "duplicate_frames": 0,
            "reordered_frames": 0,
            "lost_frames": offered - forwarded + int(self.unbalanced),
            "delay_ns": None,
            "first_received_monotonic_ns": now_ns + LINK_DELAY_NS if forwarded else None,
            "last_received_monotonic_ns": now_ns + LINK_DELAY_NS + duration if forwarded else None,
        }

    def _count(self, source: dict[str, Any], sink: str, offered: int, forwarded: int) -> None:
        """Let the frames pass the interfaces on their way; where ``lost_at`` says so, fewer pass."""
        before, after = (
            self.guest_interfaces.get(source[key], "") for key in ("destination_mac", "destination_address")
        )
        sent = forwarded if self.lost_at == "generator" else offered
        routed = forwarded if self.lost_at in ("generator", "guest", "unlocated") else offered
        taken = offered if self.lost_at == "sink" else forwarded
        for where, name, counter, frames in (
            ("peer", source["interface"], "tx_packets", sent),
            ("guest", before, "rx_packets", sent),
            ("guest", after, "tx_packets", min(routed, taken)),
            ("guest", after, "tx_dropped", max(0, routed - taken)),
            ("peer", sink, "rx_packets", taken),
        ):
            self._at(where, name)[counter] += frames

    def _at(self, where: str, name: str) -> dict[str, int]:
        return self._passed.setdefault((where, name), dict.fromkeys(_STATISTICS, 0))


def _source(number: int, intended: int, offered: int, now_ns: int, duration: int) -> Answer:
    return {
        "source": number,
        "intended_frames": intended,
        "offered_frames": offered,
        "unsent_frames": intended - offered,
        "start_monotonic_ns": now_ns,
        "end_monotonic_ns": now_ns + duration,
        "late_ns_max": 0,
        "batch_frames": 1,
    }
