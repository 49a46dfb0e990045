"""KVM's exits by reason, of the guest's own machine: debugfs, one folder a machine (``PID-DESCRIPTOR``).

Source: the kernel's ``kvm_create_vm_debugfs``; the number in the name is the host's own of the process that made it.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from virtoll.errors import GuestError
from virtoll.host.guest_usage import pids_of
from virtoll.host.observe.base import CounterObserver
from virtoll.host.observe.file_systems import kernel_file_system
from virtoll.host.observe.host_proc import host_pid
from virtoll.host.readings import read_numbers

_VM = "anon_inode:kvm-vm"


class KvmExits(CounterObserver):
    """Needs root, and the host's /proc to know its machine by."""

    name: ClassVar[str] = "KVM exits"
    counts: ClassVar[tuple[str, ...]] = ("kvm",)
    _folders: tuple[Path, ...] = ()

    def applies(self) -> bool:
        """Where one of the guest's processes holds a machine of KVM."""
        return bool(self._machines())

    def available(self) -> str | None:
        """Where debugfs can be mounted and has its machine's folder."""
        host_proc = self.watched.host_proc
        if host_proc is None:
            return "the lab was not given the host's own /proc, and by its numbers alone KVM knows its machines"
        try:
            debugfs = kernel_file_system("debugfs", self.watched)
        except GuestError as error:
            return str(error)
        numbers = [host_pid(host_proc, pid) for pid in self._machines()]
        self._folders = tuple(folder for number in numbers for folder in sorted((debugfs / "kvm").glob(f"{number}-*")))
        return None if self._folders else f"{debugfs}/kvm has no folder of its machine"

    def read(self) -> dict[str, int]:
        """Sums over its machines."""
        counts: dict[str, int] = {}
        for folder in self._folders:
            for name, count in exits(folder).items():
                counts[name] = counts.get(name, 0) + count
        return counts

    def _machines(self) -> list[int]:
        pids = {pid for guest in self.watched.processes for pid in pids_of(guest)}
        return [pid for pid in sorted(pids) if self._holds_machine(pid)]

    def _holds_machine(self, pid: int) -> bool:
        folder = self.watched.proc / str(pid) / "fd"
        try:
            return any(str(entry.readlink()) == _VM for entry in folder.iterdir())
        except OSError:
            return False


def exits(folder: Path) -> dict[str, int]:
    """The counts of one machine's folder that are of exits: ``kvm:exits`` is of all of them.

    x86 names them ``io_exits``, Arm ``wfi_exit_stat`` and ``mmio_exit_kernel``.
    """
    counts = {}
    for file in sorted({*folder.glob("*exits"), *folder.glob("*_exit_*")}):
        numbers = read_numbers([file])
        if numbers is not None:
            counts[f"kvm:{file.name.replace('_', ' ')}"] = numbers[0]
    return counts
