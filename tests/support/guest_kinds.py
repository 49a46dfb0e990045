"""The kinds of guests that tests start: their platforms and parameters, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Kind:
    """A kind of guest that starts on a host without KVM: its platform, its parameters, and what is known of it.

    ``kernel``: whose kernel it says it has: the host's, the image's, or another. ``slow``: instructions are translated.
    ``bounded``: it dies when it uses more memory than it was given. ``grouped``: it is in a cgroup below the lab's.
    ``root``: the file system of its root, where that is on a disk.
    ``ipv6`` and ``vlans``: whether it can be configured so; None: as the host's kernel can.
    ``variant``: differs from another kind in a device alone, so that what does not depend on it is not tried twice.
    ``serial``: its channel is an emulated UART, which costs much for each byte.
    ``extended``: tried in the long form of the suite alone: another kind goes the same way through the product.
    ``host``: where it is, as an experiment names it; None: this machine.
    ``ready_seconds``: how long its start is waited for.
    """

    platform: str
    parameters: dict[str, Any] = field(default_factory=dict)
    kernel: Literal["host", "image", "other"] = "host"
    attachment: str = "bridge"
    slow: bool = False
    bounded: bool = True
    grouped: bool = False
    ipv6: bool = True
    vlans: bool | None = None
    variant: bool = False
    root: str | None = None
    serial: bool = False
    extended: bool = False
    host: str | None = None
    ready_seconds: float = 600.0


def machine(platform: str, parameters: dict[str, Any] | None = None, **known: Any) -> Kind:
    """A machine that runs the image's kernel, whose instructions are translated."""
    return Kind(platform, parameters or {}, kernel="image", vlans=True, slow=True, **known)


def _other_kernel(platform: str, parameters: dict[str, Any] | None = None, **known: Any) -> Kind:
    return Kind(platform, parameters or {}, kernel="other", ipv6=False, vlans=False, **known)


def _xen(parameters: dict[str, Any], host: str = "nested:xen", **known: Any) -> Kind:
    return machine("xen", parameters, host=host, **known)


KINDS: dict[str, Kind] = {
    "native": Kind("native", attachment="veth", bounded=False),
    "native-again": Kind("native-again", attachment="veth", bounded=False, variant=True),
    "netns": Kind("netns", bounded=False),
    "netns-cgroup": Kind("netns", {"limits": "cgroup"}, grouped=True),
    "runc": Kind("runc", grouped=True),
    "crun": Kind("crun", grouped=True),
    "runsc-systrap": _other_kernel("runsc", {"gvisor_platform": "systrap"}, grouped=True),
    "runsc-ptrace": _other_kernel("runsc", {"gvisor_platform": "ptrace"}, grouped=True, extended=True),
    "nspawn": Kind("nspawn", grouped=True),
    "lxc": Kind("lxc", grouped=True),
    "podman": Kind("podman", grouped=True),
    "podman-crun": Kind("podman", {"runtime": "crun"}, grouped=True, extended=True),
    "docker": Kind("docker", grouped=True),
    "uml-raw": _other_kernel("uml"),
    "uml-tap": _other_kernel("uml", {"transport": "tap"}, variant=True),
    "qemu-tcg": machine("qemu-tcg", {"nic": "virtio-net"}),
    "qemu-tcg-e1000": machine("qemu-tcg", {"nic": "e1000"}, variant=True),
    "qemu-tcg-rtl8139": machine("qemu-tcg", {"nic": "rtl8139"}, variant=True, extended=True),
    "qemu-tcg-vmxnet3": machine("qemu-tcg", {"nic": "vmxnet3"}, variant=True, extended=True),
    "qemu-tcg-disk": machine("qemu-tcg", {"disk": "virtio-blk", "root": "disk"}, variant=True, root="ext4"),
    "qemu-tcg-ide": machine(
        "qemu-tcg", {"machine": "pc", "disk": "ide", "root": "disk", "filesystem": "erofs"}, variant=True, root="erofs"
    ),
    "qemu-tcg-nvme": machine(
        "qemu-tcg", {"disk": "nvme", "root": "disk", "cache": "none"}, variant=True, extended=True, root="ext4"
    ),
    "qemu-tcg-serial": machine("qemu-tcg", {"channel": "serial"}, variant=True),
    "libvirt": machine("libvirt"),
    "libvirt-system": machine(
        "libvirt",
        {"uri": "qemu:///system", "channel": "serial", "nic": "e1000"},
        grouped=True,
        variant=True,
        serial=True,
    ),
    "libvirt-lxc": Kind("libvirt", {"uri": "lxc:///system"}, grouped=True),
}
# The same guests by another attachment: only what goes over their links is tried again.
ATTACHED: dict[str, Kind] = {
    f"{name}-{attachment}": replace(
        KINDS[name],
        parameters={**KINDS[name].parameters, "attachment": attachment},
        attachment=attachment,
        variant=True,
        extended=name not in {"netns", "runsc-systrap", "qemu-tcg"},  # those have three ways to be given an interface
    )
    for name, attachments in (
        ("netns", ("routed", "macvtap", "passthrough")),
        ("runc", ("routed", "macvtap", "passthrough")),
        ("runsc-systrap", ("routed", "macvtap", "passthrough")),
        ("nspawn", ("passthrough",)),
        ("lxc", ("routed",)),
        ("podman", ("macvtap",)),
        ("docker", ("passthrough",)),
        ("qemu-tcg", ("routed", "macvtap")),
    )
    for attachment in attachments
}
# Guests on hosts that are emulated for ``make test-nested``. What ``make test`` knows of them: a machine on
# another host (``test_machines_elsewhere.py``), what Xen's driver asks of dom0 (``test_xen*.py``), what the hosts are
# made of (``tests/nested``), and that KVM's boots (tests/lab/test_held_nested_hosts.py).
NESTED: dict[str, Kind] = {
    "nested-kvm": machine("qemu-kvm", host="nested:kvm"),
    "nested-kvm-vhost": machine("qemu-kvm", {"vhost": "on"}, host="nested:kvm", variant=True),
    "nested-xen-pv": _xen({"type": "pv"}),
    "nested-xen-pv-routed": _xen({"type": "pv", "attachment": "routed"}, attachment="routed", variant=True),
    # The second and the fifth of its NICs: the first source's and the first sink's.
    "nested-xen-pv-passthrough": _xen(
        {"type": "pv", "attachment": "passthrough", "vfio": ["0000:00:03.0", "0000:00:06.0"]},
        host="nested:xen-pci",
        attachment="passthrough",
        variant=True,
    ),
    "nested-virtualbox": machine("virtualbox", host="nested:virtualbox", serial=True),
    "nested-xen-pv-disk": _xen({"type": "pv", "root": "disk"}, variant=True),
    "nested-xen-pvh": _xen({"type": "pvh"}),
    # Its firmware reads kernel and initramfs byte by byte from the device model, which is emulated as well.
    **{
        f"nested-xen-hvm{suffix}": _xen(
            {"type": "hvm", "nic": nic}, host="nested:xen-hvm", variant=bool(suffix), ready_seconds=1200.0
        )
        for suffix, nic in (("", "netfront"), ("-e1000", "e1000"), ("-rtl8139", "rtl8139"))
    },
}
# Machines that differ in several devices at once from the one with all tests; what is routed is IPv4 without tags.
SEVERAL: dict[str, Kind] = {
    "qemu-tcg-old": machine(
        "qemu-tcg",
        {"machine": "pc", "nic": "e1000", "attachment": "macvtap"}
        | {"disk": "ide", "root": "disk", "filesystem": "erofs"},
        attachment="macvtap",
        variant=True,
        root="erofs",
    ),
    "qemu-tcg-new": Kind(
        "qemu-tcg",
        {"channel": "serial", "attachment": "routed", "disk": "virtio-blk", "root": "disk"},
        kernel="image",
        attachment="routed",
        slow=True,
        serial=True,
        ipv6=False,
        vlans=False,
        variant=True,
        root="ext4",
    ),
}
# Machines that differ in the device of their data directory's disk.
DATA_DISKS: dict[str, Kind] = {
    "qemu-tcg-data-ide": machine("qemu-tcg", {"machine": "pc", "data_disk": "ide"}),
    "qemu-tcg-data-ahci": machine("qemu-tcg", {"data_disk": "ahci", "disk": "ahci", "root": "disk"}, root="ext4"),
    "qemu-tcg-data-nvme": machine("qemu-tcg", {"data_disk": "nvme", "disk": "nvme", "root": "disk"}, root="ext4"),
}
ADDED: dict[str, Kind] = {}
"""Kinds of a module of tests, whose parameters are known only when it runs."""


def known_kinds() -> dict[str, Kind]:
    """All of them."""
    return {**KINDS, **ATTACHED, **NESTED, **SEVERAL, **DATA_DISKS, **ADDED}


@contextmanager
def added(kinds: Mapping[str, Kind]) -> Iterator[None]:
    """Guests of these kinds, by their names, can be started too."""
    ADDED.update(kinds)
    try:
        yield
    finally:
        for name in kinds:
            del ADDED[name]
