"""How often and how long the guest's cgroup was kept from its CPUs by a quota: ``cpu.stat`` of cgroup v1 or v2.

Sources: the kernel's ``cgroup-v2.rst`` (``throttled_usec``) and ``scheduler/sched-bwc.rst`` (``throttled_time``, ns).
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from virtoll.errors import GuestError
from virtoll.host.guest_usage import pids_of
from virtoll.host.observe.base import CounterObserver
from virtoll.host.readings import read_table
from virtoll.lab.cgroups import detect, folder_of, limits_of, memberships_of


class Throttling(CounterObserver):
    """Needs no right; only of a guest with a quota."""

    name: ClassVar[str] = "throttling"
    counts: ClassVar[tuple[str, ...]] = ("throttled_periods", "throttled_ns")

    def applies(self) -> bool:
        """Where some group of the guest has a quota."""
        try:
            return any(limits_of(membership).cpu_quota is not None for membership in self._memberships())
        except GuestError:
            return True  # then it says why it cannot be told

    def available(self) -> str | None:
        """Where the file is there and counts."""
        try:
            folders = self._folders()
        except GuestError as error:
            return str(error)
        if not folders:
            return "no cgroup controller 'cpu' on this host"
        unread = [folder for folder in folders if not throttled(folder)]
        return f"{unread[0]}/cpu.stat has no count of throttled periods" if unread else None

    def read(self) -> dict[str, int]:
        """Sums over the groups that the guest's processes are in."""
        counters: dict[str, int] = {}
        for folder in self._folders():
            for name, count in throttled(folder).items():
                counters[name] = counters.get(name, 0) + count
        return counters

    def _memberships(self) -> set[str]:
        pids = {pid for guest in self.watched.processes for pid in pids_of(guest)}
        return {memberships_of(pid) for pid in pids}

    def _folders(self) -> set[Path]:
        layout = detect()
        return {
            place for membership in self._memberships() if (place := folder_of(membership, "cpu", layout)) is not None
        }


def throttled(folder: Path) -> dict[str, int]:
    """The counters of one group's folder, of either version; empty where it has none."""
    table = read_table(folder / "cpu.stat")
    counters = {"throttled_periods": table["nr_throttled"]} if "nr_throttled" in table else {}
    if "throttled_usec" in table:
        counters["throttled_ns"] = table["throttled_usec"] * 1000
    elif "throttled_time" in table:
        counters["throttled_ns"] = table["throttled_time"]
    return counters
