"""NICs that dom0 hands into a guest by `xl`: found fit, made assignable, given back to the driver that had them.

Main types: ``refusal`` and ``assignable``. All through ``GuestHost``: dom0 may be another machine. Who has a device is
dom0's kernel's word, in sysfs; `xl` itself notes the driver that it takes a device from. Source: xl(1), xl-pci-
configuration(5).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from virtoll.errors import GuestError
from virtoll.hosts.base import GuestHost
from virtoll.platforms.process_guest import GuestRemains

_BUS = Path("/sys/bus/pci")
_BACKEND = "pciback"
_NETWORK_CLASS = "0x02"


def refusal(host: GuestHost, addresses: Sequence[str], kind: str, capabilities: Sequence[str]) -> str | None:
    """Why these devices cannot be handed into a guest of type ``kind``, and what to do; None: they can."""
    if not addresses:
        return None
    if f"{kind}_directio" not in capabilities:
        return (
            f"vfio: Xen on {host.name} has no IOMMU for guests of type {kind}, without which xl hands in no device; "
            "switch it on in the firmware (VT-d, AMD-Vi) and in Xen (iommu=1)"
        )
    if not _there(host, _BUS / "drivers" / _BACKEND):
        return f"vfio: dom0's kernel on {host.name} has no driver {_BACKEND}; 'modprobe xen-pciback' loads it there"
    for address in addresses:
        device = _BUS / "devices" / address
        if not _there(host, device):
            return f"vfio: {host.name} has no PCI device {address}; 'lspci -D' lists those it has"
        if not host.read(device / "class").decode().startswith(_NETWORK_CLASS):
            return f"vfio: PCI device {address} of {host.name} is no NIC; 'lspci -D' says what it is"
    return None


@contextlib.contextmanager
def assignable(host: GuestHost, address: str) -> Iterator[None]:
    """A device that a domain can be given; afterwards its driver has it again, also should the controller die.

    One that its owner has made assignable stays so.
    """
    before = _driver(host, address)
    if before == _BACKEND:
        yield
        return
    give_back = ["xl", "pci-assignable-remove", "-r", address]
    withdraw = host.guard(give_back)
    try:
        host.run(["xl", "pci-assignable-add", address], "vfio")
        yield
    finally:
        if _driver(host, address) != before:
            with contextlib.suppress(GuestError):  # what it could not do is seen by who has the device
                host.run(give_back, "vfio")
        if (now := _driver(host, address)) != before:
            raise GuestRemains(
                f"PCI device {address} of {host.name} is at {now or 'no driver'} and not back at "
                f"{before or 'no driver'}: '{' '.join(give_back)}' there, once no domain has it"
            )
        withdraw()


def _driver(host: GuestHost, address: str) -> str | None:
    """The driver that has the device, None where none has it."""
    link = _BUS / "devices" / address / "driver"
    if not _there(host, link):
        return None
    return Path(host.run(["readlink", str(link)], "vfio").strip()).name


def _there(host: GuestHost, path: Path) -> bool:
    try:
        host.run(["test", "-e", str(path)], "vfio")
    except GuestError:
        return False
    return True
