"""What the guests of a synthetic run hold and use: known sizes, times and slopes, as the records of a run folder."""

from __future__ import annotations

import random
from typing import Any

MIB = 2**20


def add_start(boot: dict[str, Any], *, machine: bool) -> dict[str, Any]:
    """A boot record whose agent tells its clock: of 2.1 s a machine's kernel takes 1.2 s and the agent 0.3 s."""
    ready = boot["ready_monotonic_ns"]
    clock = (1_150_000_000, 1_200_000_000, 1_450_000_000) if machine else (ready - 50_000, ready - 50_000, ready - 1000)
    reported = dict(zip(("started_monotonic_ns", "started_boottime_ns", "ready_monotonic_ns"), clock, strict=True))
    facts = {
        **boot["facts"],
        "boot_id": "inside" if machine else "outside",
        "scheduler_tick_hz": 250,
        "files_sha256": "f" * 64,
        "cpu_quota": None,
        "memory_installed_bytes": None,
    }
    return {**boot, "facts": facts, "agent_clock": reported, "host_boot_id": "outside"}


def footprints(boot: dict[str, Any], *, machine: bool) -> list[dict[str, Any]]:
    """Idle and after work: a machine holds 250 and then 290 MiB and 1 MiB of page tables, others 1 MiB and 40 KiB."""
    found = []
    for when, more in (("idle", 0), ("after-work", 40 if machine else 0)):
        process = _process(
            7, "qemu" if machine else "init", (250 + more if machine else 1) * MIB, MIB if machine else 40 << 10
        )
        engine = boot["platform"] == "runc"
        found.append(
            {
                "boot": boot["boot"],
                "platform": boot["platform"],
                "block": boot["block"],
                "when": when,
                "monotonic_ns": 1,
                "processes": [process],
                "shared": {"dockerd": [_process(9, "dockerd", 60 * MIB, MIB)]} if engine else {},
                "charged_bytes": 5 * MIB if engine else None,
                "files_bytes": 4096,
            }
        )
    return found


def host_cpu(trial: dict[str, Any], cost: float, dice: random.Random) -> dict[str, Any] | None:
    """200 ms of CPU time natively, times the cost; None for a trial that did not end."""
    if trial["status"] == "failed" or trial["started_realtime_ns"] is None:
        return None
    used = int(200e6 * cost * (1 + 0.02 * dice.random()))
    return {"before": _reading(10**9, 0), "after": _reading(10**9 + used // 2, used - used // 2)}


def consolidation_steps(
    platform: str, guests: int, available: int, processes: int, noise: float
) -> list[dict[str, Any]]:
    """A series in which each guest takes so many bytes by either measure, with noise between steps, and its end."""
    dice, left = random.Random(platform), [20 * 2**30]
    for number in range(1, guests + 1):
        left.append(left[0] - int(number * available + noise * available * dice.uniform(-1, 1)))
    budget = {"memory_bytes": guests * available, "guests": 1000}
    common = {
        "platform": platform,
        "monotonic_ns": 1,
        "shared_bytes": 0,
        "swap_out_pages": 0,
        "budget": budget,
        "evidence": [],
    }
    steps = [
        {
            **common,
            "step": number,
            "status": "ok",
            "reason": None,
            "guests": number,
            "available_before_bytes": left[number - 1],
            "available_bytes": left[number],
            "processes_bytes": number * processes,
            "spawn_monotonic_ns": 1,
            "ready_monotonic_ns": 2,
        }
        for number in range(1, guests + 1)
    ]
    end = {
        **common,
        "step": guests + 1,
        "status": "stopped",
        "reason": f"the budget of {guests * available // MIB} MiB is gone",
        "guests": guests,
        "available_before_bytes": left[-1],
        "available_bytes": left[-1],
        "processes_bytes": guests * processes,
        "spawn_monotonic_ns": None,
        "ready_monotonic_ns": None,
    }
    return [*steps, end]


def _process(pid: int, name: str, held: int, tables: int) -> dict[str, Any]:
    return {
        "pid": pid,
        "name": name,
        "threads": 1,
        "rss_bytes": held,
        "pss_bytes": held,
        "pss_anonymous_bytes": held,
        "pss_file_bytes": 0,
        "pss_shared_bytes": 0,
        "swap_pss_bytes": 0,
        "page_tables_bytes": tables,
    }


def _reading(own: int, children: int) -> dict[str, Any]:
    process = {
        "pid": 7,
        "started_ticks": 1,
        "name": "init",
        "cpu_ns": own,
        "user_ns": own,
        "system_ns": 0,
        "children_user_ns": children,
        "children_system_ns": 0,
    }
    return {"monotonic_ns": own, "processes": [process], "shared": {}}
