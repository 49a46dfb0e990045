"""This host's processors by name, and what hypervisor they are lent by.

Processors of Arm name themselves by numbers (MIDR_EL1: implementer, part, variant, revision), and have no flag that
says that they are a virtual machine's. There the firmware says so: the device tree, or SMBIOS (DSP0134, table 0, bit 4
of the second extension byte), as systemd-detect-virt reads it. Part numbers: Linux, arch/arm64/include/asm/cputype.h;
Arm's technical reference manuals. Must not: start a program.
"""

from __future__ import annotations

from pathlib import Path

from virtoll.host.readings import read_text

CLOCK_SOURCES = Path("sys/devices/system/clocksource/clocksource0")
_HYPERVISOR_CLOCKS = {
    "kvm-clock": "kvm",
    "xen": "xen",
    "hyperv_clocksource_tsc_page": "hyperv",
    "hyperv_clocksource_msr": "hyperv",
}
_IMPLEMENTERS = {
    0x41: "Arm",
    0x42: "Broadcom",
    0x43: "Cavium",
    0x46: "Fujitsu",
    0x48: "HiSilicon",
    0x4E: "NVIDIA",
    0x51: "Qualcomm",
    0x61: "Apple",
    0x6D: "Microsoft",
    0xC0: "Ampere",
}
_PARTS = {
    (0x41, 0xD03): "Cortex-A53",
    (0x41, 0xD04): "Cortex-A35",
    (0x41, 0xD05): "Cortex-A55",
    (0x41, 0xD07): "Cortex-A57",
    (0x41, 0xD08): "Cortex-A72",
    (0x41, 0xD09): "Cortex-A73",
    (0x41, 0xD0A): "Cortex-A75",
    (0x41, 0xD0B): "Cortex-A76",
    (0x41, 0xD0C): "Neoverse-N1",
    (0x41, 0xD0D): "Cortex-A77",
    (0x41, 0xD40): "Neoverse-V1",
    (0x41, 0xD41): "Cortex-A78",
    (0x41, 0xD44): "Cortex-X1",
    (0x41, 0xD46): "Cortex-A510",
    (0x41, 0xD47): "Cortex-A710",
    (0x41, 0xD48): "Cortex-X2",
    (0x41, 0xD49): "Neoverse-N2",
    (0x41, 0xD4A): "Neoverse-E1",
    (0x41, 0xD4D): "Cortex-A715",
    (0x41, 0xD4E): "Cortex-X3",
    (0x41, 0xD4F): "Neoverse-V2",
    (0x41, 0xD80): "Cortex-A520",
    (0x41, 0xD81): "Cortex-A720",
    (0x41, 0xD82): "Cortex-X4",
    (0x41, 0xD84): "Neoverse-V3",
    (0x41, 0xD8E): "Neoverse-N3",
    (0x43, 0x0A1): "ThunderX",
    (0x43, 0x0AF): "ThunderX2",
    (0x46, 0x001): "A64FX",
    (0x48, 0xD01): "Kunpeng-920",
    (0x51, 0xC00): "Falkor",
    (0x6D, 0xD49): "Azure Cobalt 100",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1a",
}
_TREE = Path("proc/device-tree")
_DMI = Path("sys/class/dmi/id")
_BIOS_TABLE = Path("sys/firmware/dmi/entries/0-0/raw")
_IS_VIRTUAL_AT, _IS_VIRTUAL = 19, 1 << 4
_VIRTUAL_VENDORS = (
    "Alibaba Cloud",
    "Apple Virtualization",
    "BHYVE",
    "Bochs",
    "Google Compute Engine",
    "Hetzner",
    "KVM",
    "KubeVirt",
    "OpenStack",
    "Parallels",
    "QEMU",
    "VMware",
    "Virtual Machine",
    "VirtualBox",
    "Xen",
    "innotek GmbH",
)
"""How a virtual machine's vendor or product begins; Amazon's are told by their kind: its metal ones are none."""


def cpu_field(root: Path, field: str) -> str | None:
    """A field of the first processor in /proc/cpuinfo."""
    return next(iter(_fields(root, field)), None)


def cpu_model(root: Path) -> str | None:
    """As the kernel names it, or by Arm's numbers; of several kinds each once, in the order of their first CPUs.

    For example ``Arm Cortex-A55 r2p0 and Arm Cortex-A76 r4p0``.
    """
    named = cpu_field(root, "model name")
    if named:
        return named
    numbers = [_fields(root, f"CPU {field}") for field in ("implementer", "part", "variant", "revision")]
    kinds = dict.fromkeys(zip(*numbers, strict=False))
    try:
        return " and ".join(_arm_name(*(int(value, 0) for value in kind)) for kind in kinds) or None
    except ValueError:
        return None


def hypervisor(root: Path) -> str | None:
    """What this host itself runs under, from the most to the least telling source; None on bare metal."""
    named = read_text(root / "sys/hypervisor/type")
    if named:
        return named
    flags = cpu_field(root, "flags")
    if flags is None:
        return _by_firmware(root)
    if "hypervisor" not in flags.split():
        return None
    for clock in (read_text(root / CLOCK_SOURCES / "available_clocksource") or "").split():
        if clock in _HYPERVISOR_CLOCKS:
            return _HYPERVISOR_CLOCKS[clock]
    return read_text(root / _DMI / "sys_vendor") or "unknown"


def _fields(root: Path, field: str) -> list[str]:
    """That field of each processor."""
    lines = (line.partition(":") for line in (read_text(root / "proc/cpuinfo") or "").splitlines())
    return [value.strip() for name, _, value in lines if name.strip() == field]


def _arm_name(implementer: int, part: int, variant: int, revision: int) -> str:
    maker = _IMPLEMENTERS.get(implementer, f"implementer {implementer:#x}")
    return f"{maker} {_PARTS.get((implementer, part), f'part {part:#x}')} r{variant}p{revision}"


def _by_firmware(root: Path) -> str | None:
    """By the device tree, by SMBIOS's own word, or by the vendor's name."""
    below = (read_text(root / _TREE / "hypervisor/compatible") or "").strip("\0")
    if below:
        return "kvm" if below.startswith("linux,kvm") else below.partition(",")[0]
    if "linux,dummy-virt" in (read_text(root / _TREE / "compatible") or "").split("\0"):
        return "QEMU"
    vendor, product = (read_text(root / _DMI / name) or "" for name in ("sys_vendor", "product_name"))
    if _says_virtual(root):
        return vendor or "unknown"
    if vendor == "Amazon EC2":
        return None if ".metal" in product else vendor
    return next((name for name in (vendor, product) if name.startswith(_VIRTUAL_VENDORS)), None)


def _says_virtual(root: Path) -> bool:
    """Whether SMBIOS says that it describes a virtual machine; root alone may read it."""
    try:
        table = (root / _BIOS_TABLE).read_bytes()
    except OSError:
        return False
    return len(table) > _IS_VIRTUAL_AT and table[1] > _IS_VIRTUAL_AT and bool(table[_IS_VIRTUAL_AT] & _IS_VIRTUAL)
