"""A bench without a network: what a workload is given whose guest is scripted and whose marks come over the channel."""

from __future__ import annotations

from typing import Any

from virtoll.agent.client import Caller
from virtoll.agent.timekeeper import Timekeeper
from virtoll.workloads.base import Bench


def channel_bench(guest: Caller, **given: Any) -> Bench:
    """The guest alone, with what else is ``given``; the rest is not there."""
    absent: dict[str, Any] = {"peer": None, "network": None, "generator_cpu": None, "sink_cpu": None, "hops": None}
    keeper = Timekeeper(guest, guest, None, "", 0)
    return Bench(guest=guest, timekeeper=keeper, tags=iter(()), **{**absent, **given})
