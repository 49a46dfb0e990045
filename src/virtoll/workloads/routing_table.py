"""Gives the guest a routing table for as long as it is measured with one: loaded by its agent, timed from outside.

The table is a model (``crates/wire/src/routes.rs``): guest and generator make the same one from its size and a seed.
Main type: ``LoadedTable``, what is stored of it. It knows no platform. A guest whose kernel takes no routes, or that
has a way out of its own which a table would cover, answers ``unsupported``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from virtoll.agent.operations.jobs import RunRequest
from virtoll.errors import AgentError, GuestCannot
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.runfolder.records import Check
from virtoll.workloads.base import Bench
from virtoll.workloads.traffic import Table

JOB = "routing-table"
# Of the kernel's table, counted by it for a million routes, and of the agent's list of what is to be taken away again.
_BYTES_A_ROUTE, _AGENT_BYTES_A_ROUTE = 150, 40
_BYTES_BESIDES = 96 * 2**20  # a small guest's kernel, its agent and its packet buffers
# For estimates and deadlines: what loading and taking away again take on a bare host.
_SECONDS_A_ROUTE = 6e-6
_DEADLINE_BASE_SECONDS, _DEADLINE_SECONDS_A_ROUTE = 60.0, 1e-3


@dataclass(frozen=True)
class LoadedTable:
    """``record``: size, seed, outside clock of loading, what the guest reported.

    ``problem``: why it is not believed.
    """

    record: dict[str, Any]
    check: Check
    problem: str | None


def table_memory_bytes(routes: int) -> int:
    """What a guest must have to hold such a table, all in all."""
    return _BYTES_BESIDES + routes * (_BYTES_A_ROUTE + _AGENT_BYTES_A_ROUTE)


def table_seconds(routes: int, slowdown: float) -> float:
    """About how long it takes to load a table and to take it away, in seconds."""
    return routes * _SECONDS_A_ROUTE * slowdown


@contextlib.contextmanager
def routing_table(bench: Bench, table: Table | None, shape: FrameShape) -> Iterator[LoadedTable | None]:
    """The guest has the table within the context and none after it; None where none is wanted.

    ``shape``: its routes lead to the sink's address for such frames, in their VLAN.

    A guest that fails within is lost; where its namespace outlives it, the next table begins with taking this one away.
    """
    if table is None:
        yield None
        return
    if bench.network.attachment == "routed":
        raise GuestCannot("its links are routed, and their routers know no table: use routes 0, or attachment bridge")
    loaded = _load(bench, table, bench.network.sink.ends(4, tagged=shape.tagged).peer)
    try:
        yield loaded
    except AgentError:
        # The guest is well, so it must go on as it was before.
        _take_away(bench, table)
        raise
    _take_away(bench, table)


def _load(bench: Bench, table: Table, gateway: str) -> LoadedTable:
    parameters = {"routes": table.routes, "seed": table.seed, "via": gateway}
    timed = bench.timekeeper.time_job(JOB, parameters, _deadline_seconds(table))
    right = timed.check == str(table.routes)
    problem = timed.problem
    if not right:
        problem = f"the guest's kernel has {timed.check} routes of the table instead of {table.routes}"
    return LoadedTable(
        {
            "routes": table.routes,
            "seed": table.seed,
            "gateway": gateway,
            "clock": timed.clock.to_json(),
            "loaded": timed.result,
        },
        Check(timed.check, str(table.routes), right),
        problem,
    )


def _take_away(bench: Bench, table: Table) -> None:
    reply = bench.guest.ask(RunRequest(job=JOB, parameters={"routes": 0}, marks=None), _deadline_seconds(table))
    bench.guest.channel_marks.clear()
    if reply.check != "0":
        raise AgentError("system", f"the guest's kernel kept {reply.check} routes of a table that was taken away")


def _deadline_seconds(table: Table) -> float:
    return _DEADLINE_BASE_SECONDS + _DEADLINE_SECONDS_A_ROUTE * table.routes
