"""What the kernel itself has counted: a CPU quota's periods, those in which it held a group back, processes' CPU time.

A share of wall time says as much of who else is on the CPU as of the guest; these numbers do not.
Sources: the kernel's ``scheduler/sched-bwc.rst``, ``cgroup-v2.rst`` and ``scheduler/sched-stats.rst``.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from virtoll.lab import cgroups, residue
from virtoll.runfolder.records import TrialRecord

_HEAVIEST = {"cpu.shares": "262144", "cpu.weight": "10000"}  # of cgroup v1 and v2


@dataclass(frozen=True)
class Bandwidth:
    """Counts since the group was made; periods are only counted while something in it wants to run."""

    periods: int
    throttled_periods: int
    used_ns: int


@dataclass(frozen=True)
class QuotaGroup:
    """The cgroup that holds a guest to its quota: ``quota_ns`` of CPU time in each ``period_ns``."""

    folder: Path
    usage: Path
    quota_ns: int
    period_ns: int

    def read(self) -> Bandwidth:
        """Its counters now."""
        rows = (line.split() for line in (self.folder / "cpu.stat").read_text(encoding="ascii").splitlines())
        found = {name: int(value) for name, value in rows}
        used_ns = found["usage_usec"] * 1000 if "usage_usec" in found else int(self.usage.read_text(encoding="ascii"))
        return Bandwidth(found["nr_periods"], found["nr_throttled"], used_ns)

    @property
    def of_a_lab(self) -> bool:
        """Whether a lab made it."""
        return _is_a_labs(self.folder)

    def prefer(self) -> None:
        """Let nothing but its quota keep it from a CPU: the largest weight there is, at each level of the lab's."""
        for folder in (self.folder, *self.folder.parents):
            if not _is_a_labs(folder):
                break
            for name, value in _HEAVIEST.items():
                with contextlib.suppress(OSError):
                    if (folder / name).exists():
                        (folder / name).write_text(value, encoding="ascii")


def _is_a_labs(folder: Path) -> bool:
    return any(residue.LAB_ID.match(part) for part in folder.parts)


def quota_group(pids: Iterable[int]) -> QuotaGroup:
    """The one group with a quota that threads of these processes are in, at whatever level it was set."""
    layout = cgroups.detect()
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                # The tests themselves may run in a group with a quota: what is asked for is below the lab's.
                found |= {group for group in _groups(thread, layout) if group is not None and group.of_a_lab}
    assert len(found) == 1, f"groups with a quota: {found}"
    return found.pop()


def _groups(thread: Path, layout: cgroups.Layout) -> set[QuotaGroup | None]:
    memberships = (thread / "cgroup").read_text(encoding="ascii")
    folder = cgroups.folder_of(memberships, "cpu", layout)
    assert folder is not None
    root = layout.controllers["cpu"]
    return {_with_quota(place, root, layout) for place in (folder, *folder.parents) if place.is_relative_to(root)}


def _with_quota(folder: Path, root: Path, layout: cgroups.Layout) -> QuotaGroup | None:
    with contextlib.suppress(OSError):
        if layout.is_v2("cpu"):
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            quota, period = ((folder / name).read_text(encoding="ascii").strip() for name in files)
        if quota not in ("max", "-1"):
            usage = layout.controllers["cpuacct"] / folder.relative_to(root) / "cpuacct.usage"
            return QuotaGroup(folder, usage, int(quota) * 1000, int(period) * 1000)
    return None


def cpu_time_ns(pids: Iterable[int]) -> int:
    """CPU time that all threads of these processes have used; those that have ended meanwhile are left out."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(OSError):
                    total += int((thread / "schedstat").read_text(encoding="ascii").split()[0])
    return total


def work_beside(cpus: Iterable[int], cpu_seconds: float) -> None:
    """Use so much CPU time on these CPUs: whoever else wants one of them has got about as much of it by then."""
    wanted, allowed = set(cpus), os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, wanted or allowed)
        end = time.thread_time() + cpu_seconds
        while time.thread_time() < end:
            pass
    finally:
        os.sched_setaffinity(0, allowed)


def shares_nics(trial: TrialRecord) -> bool:
    """Whether what the guest beside was sent left by the measured guest's NICs, by what these have sent around points.

    A kernel sends some frames of its own there (IPv6); of the load's it would be more than half of those due meanwhile.
    """
    (load,) = [one.traffic for one in trial.neighbours if one.traffic is not None]
    strange, due = 0, 0.0
    for point in trial.points or ():
        offered = {one.source: one.offered_frames for one in point.sources}
        due += (load.intended_rate_frames_per_second or 0) * point.duration_ns / 1e9
        for hop in point.hops or ():
            if hop.role == "generator" and hop.source is not None and hop.before is not None and hop.after is not None:
                left = hop.after.get("tx_packets", 0) - hop.before.get("tx_packets", 0)
                strange += left - offered[hop.source]
    assert due > 100, "too few frames to tell"
    return strange > due / 2
