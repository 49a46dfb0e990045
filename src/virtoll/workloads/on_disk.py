"""Workloads whose files lie in the data directory: what they share.

The directory is empty when a trial begins (the harness sees to it). What a workload makes ready there is written back
and taken out of the page caches before the start mark: it is then read from the disk. The state that was reached is
stored as ``result.state``. Main type: ``DiskWorkload``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from virtoll.errors import GuestCannot
from virtoll.workloads.base import Bench, Metric, Needs, P_co
from virtoll.workloads.programs import ProgramWorkload, attempt, run

PROBE_BYTES = 2**20
RATE = Metric("bytes_per_second", "B/s", "higher", "figures")
OPERATIONS = Metric("operations_per_second", "1/s", "higher", "figures")


class DiskWorkload(ProgramWorkload[P_co]):
    """A program that works on files in the data directory."""

    @abstractmethod
    def data_bytes(self) -> int:
        """How much it writes there at most, all in all; 0: it touches no disk."""

    def needs(self) -> Needs:
        """Room on a disk."""
        return Needs(data_bytes=self.data_bytes())

    def settle(self, bench: Bench) -> dict[str, Any] | None:
        """Everything on the disk, nothing of it in a page cache; None for what touches no disk."""
        return bench.data_state(True) if self.data_bytes() else None


def require_direct(bench: Bench) -> None:
    """Find out by trying whether O_DIRECT goes past the page cache; ``GuestCannot`` says how it does not.

    Some take the flag and ignore it (gVisor): then what was written by it is in the page cache afterwards.
    """
    file = f"{bench.data.path}/virtoll-direct"
    write = ["dd", "if=/dev/zero", f"of={file}", f"bs={PROBE_BYTES}", "count=1", "oflag=direct", "status=none"]
    program = attempt(bench.guest, write)
    if program.status != 0:
        why = (program.complaints.strip().splitlines() or ["no message"])[-1]
        raise GuestCannot(f"this guest opens no file with O_DIRECT on {bench.data.file_system}: {why}")
    state = bench.data_state(False)
    run(bench.guest, ["rm", file])
    in_guest = state.get("resident_in_guest_bytes")
    resident = state.get("resident_on_host_bytes") if in_guest is None else in_guest
    if resident:
        raise GuestCannot(
            f"this guest takes O_DIRECT and ignores it: of {PROBE_BYTES} bytes written with it {resident} are in the "
            "page cache; leave 'direct' out"
        )
