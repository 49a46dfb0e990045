"""PCI devices that are handed into a machine by VFIO: found fit, taken from their driver, given back to it.

Main type: ``PciBus``. What is taken is written into the lab's record first (``residue``), so that the janitor gives it
back when nobody else can. Source: Linux, Documentation/driver-api/vfio.rst and ABI/testing/sysfs-bus-pci.
"""

from __future__ import annotations

from pathlib import Path

from virtoll.errors import GuestError

PCI_ADDRESS = r"^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$"
_VFIO = "vfio-pci"
_NETWORK_CLASS, _BRIDGE_CLASS = "0x02", "0x06"


class PciBus:
    """The PCI bus as sysfs shows it below ``root``."""

    def __init__(self, root: Path = Path("/sys")) -> None:
        """Nothing is read yet."""
        self.bus = root / "bus" / "pci"

    def write(self, file: Path, text: str) -> None:
        """Tell the kernel."""
        file.write_text(text, encoding="ascii")

    def driver(self, address: str) -> str | None:
        """The name of the driver that has a device now."""
        link = self._device(address) / "driver"
        return link.resolve().name if link.exists() else None

    def refusal(self, addresses: tuple[str, ...]) -> str | None:
        """Why these devices cannot be handed into a machine together, and what to do; None: they can."""
        return next(filter(None, (self._refused(address, addresses) for address in addresses)), None)

    def take(self, address: str) -> None:
        """Bind a device to vfio-pci; ``GuestError`` where it does not take it."""
        if self.driver(address) == _VFIO:
            return
        device = self._device(address)
        try:
            self.write(device / "driver_override", _VFIO)
            if self.driver(address) is not None:
                self.write(device / "driver" / "unbind", address)
            self.write(self.bus / "drivers_probe", address)
        except OSError as error:
            raise GuestError(
                f"vfio: {address} could not be bound to {_VFIO} ({error.strerror}); run as root on the host itself"
            ) from error
        if self.driver(address) != _VFIO:
            raise GuestError(f"vfio: {_VFIO} did not take {address}; the kernel's log says why")

    def give_back(self, address: str, driver: str | None) -> None:
        """Bind a device to the driver that it was taken from; harmless when that has happened already."""
        device = self._device(address)
        if driver == _VFIO or not device.is_dir():
            return
        self.write(device / "driver_override", "\n")
        if self.driver(address) == _VFIO:
            self.write(device / "driver" / "unbind", address)
        if driver is not None and self.driver(address) is None:
            self.write(self.bus / "drivers" / driver / "bind", address)

    def _device(self, address: str) -> Path:
        return self.bus / "devices" / address

    def _refused(self, address: str, addresses: tuple[str, ...]) -> str | None:
        device = self._device(address)
        if not device.is_dir():
            return f"vfio: this machine has no PCI device {address}; 'lspci -D' lists those it has"
        if not self._class(address).startswith(_NETWORK_CLASS):
            return f"vfio: PCI device {address} is no NIC; 'lspci -D' says what it is"
        if not (device / "iommu_group").exists():
            return (
                f"vfio: PCI device {address} is in no IOMMU group; switch the IOMMU (VT-d, AMD-Vi) on in the firmware "
                "and the kernel (intel_iommu=on)"
            )
        if not (self.bus / "drivers" / _VFIO).is_dir():
            return f"vfio: this kernel has no driver {_VFIO}; 'modprobe {_VFIO}' loads it"
        for other in sorted(path.name for path in (device / "iommu_group" / "devices").iterdir()):
            in_use = self.driver(other) not in (None, _VFIO) and not self._class(other).startswith(_BRIDGE_CLASS)
            if other not in addresses and in_use:
                return (
                    f"vfio: {other} shares the IOMMU group of {address}; add it to 'vfio', "
                    "or use a NIC or VF with a group of its own"
                )
        return None

    def _class(self, address: str) -> str:
        file = self._device(address) / "class"
        return file.read_text(encoding="ascii").strip() if file.is_file() else ""
