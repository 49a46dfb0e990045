"""Trials of forwarding without a router: a peer whose frames arrive as a rate says, and benches with links for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.support.agents import OperationAgent
from tests.support.made_up_points import SINK, Ends, Rates, made_up_reply
from tests.support.workload_trials import ProgramGuest, trial_bench

from virtoll.agent.client import Caller
from virtoll.agent.operations.traffic import TrafficRequest
from virtoll.agent.path_counters import HopReader
from virtoll.lab.network import GuestNetwork, plan_links
from virtoll.runfolder.traffic_records import TrafficReply
from virtoll.workloads.base import Bench

GENERATOR = 1_000_000.0
"""Frames/s that each source can offer."""


def forwarding(forwarded: Callable[[float], float] | float = GENERATOR) -> OperationAgent:
    """A peer of whose frames so many a second of each source arrive, at most or as a function of what is offered."""
    rate_of = forwarded if callable(forwarded) else lambda offered: min(offered, forwarded)

    def traffic(request: TrafficRequest) -> TrafficReply:
        rate = request.sources[0].rate_frames_per_second
        offered = min(GENERATOR, GENERATOR if rate is None else rate)
        rates = [Rates(offered, rate_of(offered))] * len(request.sources)
        return made_up_reply(
            request.frame_size_bytes, request.duration_ns, rate, tuple(rates), Ends("packet", SINK, shared=False)
        )

    return OperationAgent(traffic=traffic, counters={}, network={}, path_delay={"round_trip_ns": [1]})


def forwarding_bench(
    peer: Caller,
    guest: Caller | None = None,
    *others: Bench,
    number: int = 0,
    shared: bool = False,
    reads_hops: bool = False,
    links: dict[str, Any] | None = None,
    **given: Any,
) -> Bench:
    """Guest ``number``, with ``others`` of its platform; ``links``: what is unusual of its links.

    ``shared``: with a link to the NIC that all guests share.
    """
    guest = guest or ProgramGuest()
    network = GuestNetwork(tuple(replace(link, **(links or {})) for link in plan_links(number, shared=shared).links))
    names = {link.guest_mac: f"eth{place}" for place, link in enumerate(network.links)}
    hops = HopReader(peer, guest, None, network, names, enabled=reads_hops)
    bench = trial_bench(guest, peer, network=network, hops=hops, co_located=others, **given)
    return replace(bench, tags=itertools.count(1))
