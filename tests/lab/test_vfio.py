"""PCI devices by a tree of files of the test's own, with a kernel that answers as sysfs does: no such NIC is needed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.support.facts import assert_facts, refused

from virtoll.errors import GuestError
from virtoll.lab import residue
from virtoll.lab.vfio import PciBus

NIC, SECOND, BRIDGE, DISK = "0000:01:00.0", "0000:01:00.1", "0000:00:01.0", "0000:02:00.0"


class Kernel(PciBus):
    """Binds and unbinds as the kernel does when sysfs is written to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.drivers: dict[str, str] = {}
        self.stubborn = False
        for name in ("vfio-pci", "igb", "nvme", "pcieport"):
            (self.bus / "drivers" / name).mkdir(parents=True)
        for address, kind, driver, group in (
            (NIC, "0x020000", "igb", 7),
            (SECOND, "0x020000", "igb", 8),
            (BRIDGE, "0x060400", "pcieport", 7),
            (DISK, "0x010802", "nvme", 9),
        ):
            device = self.bus / "devices" / address
            device.mkdir(parents=True)
            (device / "class").write_text(f"{kind}\n")
            members = root / "kernel" / "iommu_groups" / str(group) / "devices"
            members.mkdir(parents=True, exist_ok=True)
            (members / address).symlink_to(device)
            (device / "iommu_group").symlink_to(members.parent)
            self.drivers[address] = driver
            self.bind(address, driver)

    def bind(self, address: str, driver: str) -> None:
        (self.bus / "devices" / address / "driver").symlink_to(self.bus / "drivers" / driver)

    def write(self, file: Path, text: str) -> None:
        if file.name == "unbind":
            (self.bus / "devices" / text / "driver").unlink()
        elif file.name == "drivers_probe":
            override = (self.bus / "devices" / text / "driver_override").read_text().strip()
            if not self.stubborn:
                self.bind(text, override or self.drivers[text])
        elif file.name == "bind":
            self.bind(text, file.parent.name)
        else:
            super().write(file, text)


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path / "sys")


def test_a_nic_is_taken_and_given_back(kernel: Kernel) -> None:
    assert kernel.refusal((NIC, SECOND)) is None
    kernel.take(NIC)
    kernel.take(NIC)
    assert [kernel.driver(one) for one in (NIC, SECOND)] == ["vfio-pci", "igb"]
    kernel.give_back(NIC, "igb")
    kernel.give_back(NIC, "igb")
    assert kernel.driver(NIC) == "igb"
    assert (kernel.bus / "devices" / NIC / "driver_override").read_text() == "\n", "later drivers are free to take it"


def test_a_nic_without_a_driver_stays_without(kernel: Kernel) -> None:
    kernel.write(kernel.bus / "devices" / NIC / "driver" / "unbind", NIC)
    kernel.take(NIC)
    kernel.give_back(NIC, None)
    assert kernel.driver(NIC) is None


def test_one_that_was_vfios_before_stays_so(kernel: Kernel) -> None:
    kernel.take(NIC)
    kernel.give_back(NIC, "vfio-pci")
    assert kernel.driver(NIC) == "vfio-pci"


def test_what_is_missing_is_named(kernel: Kernel, tmp_path: Path) -> None:
    def assert_reason(addresses: tuple[str, ...], *facts: str) -> None:
        assert_facts(kernel.refusal(addresses) or "", "vfio", *facts)

    assert_reason((NIC, "0000:09:00.0"), "0000:09:00.0", "lspci -D")
    assert_reason((DISK,), DISK, "NIC")
    (kernel.bus / "devices" / SECOND / "iommu_group").unlink()
    assert_reason((SECOND,), SECOND, "IOMMU group")
    (tmp_path / "sys/kernel/iommu_groups/7/devices" / DISK).symlink_to(kernel.bus / "devices" / DISK)
    assert_reason((NIC,), DISK, NIC, "IOMMU group")
    (kernel.bus / "drivers" / "vfio-pci").rmdir()
    assert_reason((NIC,), "modprobe vfio-pci")


def test_a_bridge_may_share_the_iommu_group_and_a_second_nic_is_named(kernel: Kernel, tmp_path: Path) -> None:
    members = tmp_path / "sys/kernel/iommu_groups/7/devices"
    (members / SECOND).symlink_to(kernel.bus / "devices" / SECOND)
    assert kernel.refusal((NIC, SECOND)) is None
    assert_facts(str(kernel.refusal((NIC,))), SECOND, NIC, "'vfio'")


def test_a_device_that_is_not_taken_is_an_error(kernel: Kernel) -> None:
    kernel.stubborn = True
    with refused("vfio-pci", NIC, error=GuestError):
        kernel.take(NIC)
    kernel.give_back(NIC, "igb")
    assert kernel.driver(NIC) == "igb"


def test_a_device_that_this_machine_lacks_is_named_and_nothing_raised() -> None:
    assert_facts(PciBus().refusal(("ffff:ff:1f.7",)) or "", "ffff:ff:1f.7", "lspci -D")


@pytest.mark.usefixtures("state")
def test_a_dead_labs_devices_are_given_back_by_its_record(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after kill -9: noted, taken, and nobody left but the janitor. What was noted first was the host's own."""
    record, lock = residue.create_record()
    folder = os.open(record.folder, os.O_RDONLY | os.O_DIRECTORY)
    monkeypatch.setenv(residue.RECORD_VARIABLE, str(folder))
    for address in (NIC, SECOND):
        residue.note_device(address, kernel.driver(address))
        kernel.take(address)
    residue.note_device(NIC, kernel.driver(NIC))
    with (record.folder / "vfio.jsonl").open("a") as stream:
        stream.write(json.dumps({"address": DISK})[:-4])
    os.close(folder)
    os.close(lock)
    removed = residue.sweep(record, kernel)
    assert len(removed) == 2
    for text, address in zip(removed, (NIC, SECOND), strict=True):
        assert_facts(text, address, "igb")
    assert [kernel.driver(one) for one in (NIC, SECOND, DISK)] == ["igb", "igb", "nvme"]
    assert not record.folder.exists()


def test_without_a_record_nothing_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(residue.RECORD_VARIABLE, raising=False)
    with refused("vfio", "record", error=GuestError):
        residue.note_device(NIC, "igb")
