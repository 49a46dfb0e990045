"""What this machine lacks for each hypervisor, and how to get it: CPU, firmware, module, group, product, licence.

Main types: ``Machine`` (a machine by its trees /proc, /sys, /dev and a few facts, so that any machine can be described)
and ``HypervisorFinding``. Everything but ``this_machine`` reads the given tree and starts nothing. Packages are named
as this host names them.
"""

from __future__ import annotations

import grp
import importlib.util
import itertools
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from virtoll.errors import remedy_for
from virtoll.host.packages import how_to_install
from virtoll.host.processor import hypervisor

_PROGRAMS = ("xl", "VBoxManage", "virsh", "libvirtd", "vzctl", "prlctl", "vserver")
_INTEL_FEATURE_CONTROL = 0x3A  # Intel SDM 4, table 2-2: bit 0 lock, bit 2 VMX outside SMX
_AMD_VM_CR = 0xC001_0114  # AMD APM 2, 15.30.1: bit 4 SVMDIS
_X86_ALONE = ("its hosts are x86-64 machines, and this one is aarch64", False, "measure it on an x86-64 machine")
_SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"  # its last byte is 1 or 0
_ENABLED_AT_LOAD = (6, 12)  # since then KVM keeps the CPUs in virtualisation mode from its load on
_LENT_OUT, _BORROWED = (6, 16), (7, 2, 10)  # the Linux that lends it to other modules, the VirtualBox that asks for it


@dataclass(frozen=True)
class HypervisorFinding:
    """One hypervisor on this machine: what was found, and whether it can be used.

    ``remedy``: what to do if not, empty where it can; ``note`` is then what else is to know.
    """

    check: str
    found: str
    good: bool
    remedy: str = ""
    note: str = ""


@dataclass(frozen=True)
class Machine:
    """``root``: where proc, sys, dev, lib and run are; ``programs``: those in PATH; ``groups``: the user's.

    ``log``: the kernel's messages, empty where they may not be read. ``python``: whether a Python module is there.
    ``architecture``: as ``uname -m`` has it.
    """

    root: Path
    release: str
    is_root: bool
    groups: frozenset[str]
    programs: frozenset[str]
    log: str = ""
    python: Callable[[str], bool] = lambda _name: False
    usable: Callable[[Path], bool] = lambda path: os.access(path, os.R_OK | os.W_OK)
    architecture: str = "x86_64"

    def text(self, path: str) -> str:
        """A file's text; empty where it is missing or may not be read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    def has(self, path: str) -> bool:
        """Whether a path is there."""
        return (self.root / path).exists()

    def may_use(self, path: str) -> bool:
        """Whether this user may read and write it."""
        return self.usable(self.root / path)

    def register(self, number: int) -> int | None:
        """A model-specific register of CPU 0, 64 bits; None where it cannot be read."""
        try:
            with (self.root / "dev/cpu/0/msr").open("rb", buffering=0) as file:
                content = os.pread(file.fileno(), 8, number)
        except OSError:
            return None
        return int.from_bytes(content, "little") if len(content) == 8 else None

    def module(self, name: str) -> str:
        """``loaded`` (or built in), ``there`` (can be loaded) or ``absent`` from this kernel."""
        if self.has(f"sys/module/{name}"):
            return "loaded"
        known = f"lib/modules/{self.release}/modules."
        spelt = {f"{name}.ko", f"{name.replace('_', '-')}.ko"}
        words = (self.text(f"{known}dep") + "\n" + self.text(f"{known}builtin")).splitlines()
        files = (line.partition(":")[0].rpartition("/")[2] for line in words)
        return "there" if any(file.partition(".ko")[0] + ".ko" in spelt for file in files) else "absent"

    @property
    def cpu_flags(self) -> frozenset[str]:
        """Of the first CPU."""
        lines = (line.partition(":") for line in self.text("proc/cpuinfo").splitlines())
        return frozenset(next((value.split() for key, _, value in lines if key.strip() == "flags"), []))

    @property
    def vendor(self) -> str:
        """``GenuineIntel``, ``AuthenticAMD`` or another; empty where it is not said."""
        lines = (line.partition(":") for line in self.text("proc/cpuinfo").splitlines())
        return next((value.strip() for key, _, value in lines if key.strip() == "vendor_id"), "")

    @property
    def is_arm(self) -> bool:
        """Whether its processors are Arm's, whose virtualisation has no flag and no switch in the firmware."""
        return self.architecture == "aarch64"

    @property
    def debian(self) -> str:
        """What Debian calls its architecture."""
        return "arm64" if self.is_arm else "amd64"

    @property
    def version(self) -> tuple[int, ...]:
        """The kernel's, as (major, minor)."""
        return _numbers(self.release.split("-")[0])[:2]


def this_machine() -> Machine:
    """The machine that this program runs on."""
    names = {grp.getgrgid(number).gr_name for number in os.getgroups() if _is_group(number)}
    log = ""
    if shutil.which("dmesg"):
        log = subprocess.run(["dmesg"], capture_output=True, text=True, check=False).stdout
    return Machine(
        root=Path("/"),
        release=platform.release(),
        is_root=os.geteuid() == 0,
        groups=frozenset(names),
        programs=frozenset(filter(shutil.which, _PROGRAMS)),
        log=log,
        python=lambda name: importlib.util.find_spec(name) is not None,
        architecture=platform.machine(),
    )


def _is_group(number: int) -> bool:
    try:
        grp.getgrgid(number)
    except KeyError:
        return False
    return True


def hypervisor_checks(machine: Machine) -> list[HypervisorFinding]:
    """One finding a hypervisor, in the order of the tables."""
    return [check(machine) for check in (_kvm, _xen, _virtualbox, _esxi, _libvirt, _openvz, _vserver)]


def no_hardware_virtualisation(machine: Machine) -> tuple[str, str] | None:
    """Why the CPU's virtualisation cannot be used, and what to do; None: it can, as far as can be seen."""
    if machine.is_arm:
        return _not_at_el2(machine)
    intel, flags = machine.vendor == "GenuineIntel", machine.cpu_flags
    switch = "VT-x (Intel Virtualization Technology)" if intel else "SVM (AMD-V)"
    firmware = f"switch {switch} on in the firmware's settings (BIOS, UEFI), save, and switch the machine off and on"
    if _off_in_firmware(machine, intel=intel):
        return f"{switch} is switched off in the firmware", firmware
    if flags & {"vmx", "svm"}:
        return None
    if "hypervisor" in flags:
        module = "kvm_intel" if intel else "kvm_amd"
        return "a virtual machine without nested virtualisation", (
            f"allow it on its host: 'options {module} nested=1' in /etc/modprobe.d, CPU model host-passthrough"
        )
    readable = machine.register(_INTEL_FEATURE_CONTROL if intel else _AMD_VM_CR) is not None
    unsure = "" if readable else "; whether the firmware hides it cannot be read (modprobe msr, as root, shows it)"
    return f"the CPU shows neither vmx nor svm{unsure}", firmware


def _not_at_el2(machine: Machine) -> tuple[str, str] | None:
    """Arm's hypervisors need the kernel to be started at EL2; then its KVM, which is built in, has /dev/kvm."""
    if machine.has("dev/kvm") or machine.text("sys/hypervisor/type") == "xen":
        return None
    below = hypervisor(machine.root)
    if below is not None:
        remedy = "measure on a machine that is none (on EC2 a .metal instance)"
        return f"a virtual machine ({below}) whose kernel was not started at EL2", remedy
    return "no /dev/kvm: the kernel was not started at EL2, or has no KVM", (
        f"boot a kernel with KVM (Debian: linux-image-{machine.debian}) by a firmware that starts it at EL2"
    )


def _off_in_firmware(machine: Machine, *, intel: bool) -> bool:
    """By the register where it can be read, else by what the kernel said as it started."""
    value = machine.register(_INTEL_FEATURE_CONTROL if intel else _AMD_VM_CR)
    if "hypervisor" in machine.cpu_flags:
        return False  # its firmware is its host's
    if value is not None:
        locked_out = bool(value & 1) and not value & 4
        return locked_out if intel else bool(value & 16)
    return "disabled by bios" in machine.log.lower()


def exclusion(machine: Machine) -> tuple[str, str] | None:
    """Why the KVM that is loaded keeps VirtualBox from starting guests here, and what to do; None: it does not.

    Since Linux 6.12 KVM holds the CPU's virtualisation from its load on, unless ``enable_virt_at_load`` is off, which
    VirtualBox needs. From 7.2.10 on, where the kernel (6.16) lends it out, VirtualBox borrows it from KVM and needs the
    contrary. Sources: VirtualBox's issues 81, 188, 711; void-linux/void-packages 61332. Guests of both at one time are
    for no version.
    """
    loaded = [name for name in ("kvm_intel", "kvm_amd") if machine.module(name) == "loaded"]
    if "VBoxManage" not in machine.programs or not loaded or machine.version < _ENABLED_AT_LOAD:
        return None
    enabled = machine.text("sys/module/kvm/parameters/enable_virt_at_load") != "N"
    product = machine.text("sys/module/vboxdrv/version").split("_")[0].split(" ")[0]
    borrows = machine.version >= _LENT_OUT and _numbers(product) >= _BORROWED
    if enabled == borrows:
        return None
    named = f"VirtualBox {product}".strip()
    if borrows:
        why = f"{named} takes the CPU's virtualisation from KVM (Linux {machine.release}), which does not hold it"
        return why, "boot without kvm.enable_virt_at_load=0 (kernel command line, /etc/modprobe.d)"
    held = f"{loaded[0]} holds the CPU's virtualisation from its load on (Linux {machine.release})"
    return f"{held}, so {named} starts no guest", f"'rmmod {loaded[0]}' before VirtualBox"


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version's parts, up to the first that is none."""
    parts = itertools.takewhile(str.isdigit, version.split("."))
    return tuple(map(int, parts))


def _kvm(machine: Machine) -> HypervisorFinding:
    lacking = no_hardware_virtualisation(machine)
    if lacking is not None:
        odd = "; the /dev/kvm that is there is of another kind" if machine.has("dev/kvm") else ""
        return HypervisorFinding("KVM", lacking[0] + odd, False, lacking[1])
    name = "kvm" if machine.is_arm else "kvm_amd"
    if "vmx" in machine.cpu_flags:
        name = "kvm_intel"
    state = machine.module(name)
    if not machine.has("dev/kvm"):
        if state == "absent":
            return HypervisorFinding(
                "KVM",
                f"kernel {machine.release} has no {name}",
                False,
                f"install a kernel that has it (Debian: linux-image-{machine.debian}) and boot it",
            )
        return HypervisorFinding("KVM", f"no /dev/kvm; module {name} {state}", False, f"modprobe {name}")
    if not machine.may_use("dev/kvm"):
        return HypervisorFinding(
            "KVM", "/dev/kvm is not yours to use", False, "usermod --append --groups kvm USER, then log in again"
        )
    vhost = "vhost_net there" if machine.has("dev/vhost-net") else "without vhost_net (modprobe vhost_net: vhost: on)"
    nested = machine.text(f"sys/module/{name}/parameters/nested")
    report = f"/dev/kvm, {vhost}"
    if nested:
        report += ", nested on" if nested in ("1", "Y") else ", nested off"
    return HypervisorFinding("KVM", report, True)


def _xen(machine: Machine) -> HypervisorFinding:
    boot = f"install Xen (Debian: xen-system-{machine.debian}) and choose its entry at boot"
    if machine.text("sys/hypervisor/type") != "xen":
        return HypervisorFinding("Xen", "not booted under Xen", False, boot)
    if "control_d" not in machine.text("proc/xen/capabilities"):
        return HypervisorFinding("Xen", "a guest of Xen, not its dom0", False, "run Virtoll on its dom0")
    numbers = [machine.text(f"sys/hypervisor/version/{part}") for part in ("major", "minor")]
    version = f"dom0 of Xen {'.'.join(filter(None, numbers)) or '(version not reported)'}"
    if not machine.has("dev/xen/privcmd"):
        return HypervisorFinding("Xen", f"{version}, no /dev/xen/privcmd", False, "modprobe xen-privcmd")
    if "xl" not in machine.programs:
        return HypervisorFinding("Xen", f"{version}, no xl", False, "install Xen's tools (Debian: xen-utils)")
    if not machine.is_root:
        return HypervisorFinding("Xen", f"{version}, whose xl needs root", False, "run as root")
    kinds = no_hardware_virtualisation(machine)
    return HypervisorFinding("Xen", version, True, note=_xen_guests(machine, kinds))


def _xen_guests(machine: Machine, lacking: tuple[str, str] | None) -> str:
    """The kinds of guests that this dom0 can hold; on Arm there is one."""
    if machine.is_arm:
        return "PVH guests"
    return "PV guests" + (" only: " + lacking[0] if lacking else ", PVH and HVM")


def _virtualbox(machine: Machine) -> HypervisorFinding:
    if machine.is_arm:
        return HypervisorFinding("VirtualBox", *_X86_ALONE)
    if "VBoxManage" not in machine.programs:
        return HypervisorFinding(
            "VirtualBox",
            "VBoxManage is missing",
            False,
            "install VirtualBox 7 from virtualbox.org, with its kernel module by dkms",
        )
    state = machine.module("vboxdrv")
    if state != "loaded" or not machine.has("dev/vboxdrv"):
        cure = (
            "modprobe vboxdrv" if state == "there" else "install VirtualBox's module by dkms, with the kernel's headers"
        )
        secured = machine.text(_SECURE_BOOT).endswith("\1")
        signed = ", signed with a key that Secure Boot knows (mokutil --import)" if secured else ""
        return HypervisorFinding("VirtualBox", f"module vboxdrv {state}", False, cure + signed)
    lacking = no_hardware_virtualisation(machine)
    if lacking is not None:
        return HypervisorFinding("VirtualBox", f"{lacking[0]}, which VirtualBox needs since 6.1", False, lacking[1])
    excluded = exclusion(machine)
    if excluded is not None:
        return HypervisorFinding("VirtualBox", excluded[0], False, excluded[1])
    group = "" if machine.is_root or "vboxusers" in machine.groups else "; USB devices need the group vboxusers"
    return HypervisorFinding(
        "VirtualBox", "VBoxManage and vboxdrv", True, note=f"bridged adapters need the module vboxnetflt{group}"
    )


def _esxi(machine: Machine) -> HypervisorFinding:
    needs = (
        "an ESXi host whose licence allows writes through the API (the free licence is read-only), and an account with "
        "the rights to create machines, files and port groups"
    )
    if not machine.python("pyVmomi"):
        return HypervisorFinding("VMware ESXi", "pyvmomi is missing", False, remedy_for("pyvmomi"), needs)
    return HypervisorFinding("VMware ESXi", "pyvmomi; the product is another machine", True, note=needs)


def _libvirt(machine: Machine) -> HypervisorFinding:
    """No service: a driver here is in ``virsh`` itself, or in one of the lab's own; elsewhere it is that host's."""
    installing = how_to_install("libvirt-clients", "libvirt-daemon", "libvirt-daemon-driver-qemu")
    if "virsh" not in machine.programs:
        return HypervisorFinding("libvirt", "virsh is missing", False, installing)
    drivers = _libvirt_drivers(machine)
    if not drivers:
        return HypervisorFinding("libvirt", "virsh, and no driver for QEMU or LXC", False, installing)
    sockets = [name for name in ("libvirt-sock", "virtqemud-sock") if machine.has(f"run/libvirt/{name}")]
    service = f"daemon at {sockets[0]}" if sockets else "no daemon runs"
    needs = [] if "libvirtd" in machine.programs else ["all but qemu:///embed need libvirtd (libvirt-daemon)"]
    needs += [] if sockets else ["as another machine's hypervisor host it needs 'systemctl start libvirtd'"]
    if sockets and not machine.is_root and "libvirt" not in machine.groups:
        needs.append("as another machine's hypervisor host: usermod --append --groups libvirt USER, then log in again")
    return HypervisorFinding("libvirt", f"virsh, drivers {', '.join(drivers)}; {service}", True, note="; ".join(needs))


def _libvirt_drivers(machine: Machine) -> list[str]:
    known: set[str] = set()
    for folder in ("usr/lib/*/libvirt", "usr/lib64/libvirt", "usr/lib/libvirt"):
        files = machine.root.glob(f"{folder}/connection-driver/libvirt_driver_*.so")
        known |= {path.stem.removeprefix("libvirt_driver_") for path in files}
    return [name for name in ("qemu", "lxc", "libxl") if name in known]


def _openvz(machine: Machine) -> HypervisorFinding:
    if machine.is_arm:
        return HypervisorFinding("OpenVZ", *_X86_ALONE)
    if not machine.has("proc/vz"):
        return HypervisorFinding(
            "OpenVZ",
            f"kernel {machine.release} is not OpenVZ's (no /proc/vz)",
            False,
            "install Virtuozzo 7, the distribution that OpenVZ is part of, and boot its kernel (3.10.0-...vz7...)",
        )
    tools = [name for name in ("vzctl", "prlctl") if name in machine.programs]
    if not tools:
        return HypervisorFinding(
            "OpenVZ", "the kernel, no vzctl", False, "install vzctl from the kernel's distribution"
        )
    if not machine.is_root:
        return HypervisorFinding("OpenVZ", f"{' and '.join(tools)}, which need root", False, "run as root")
    return HypervisorFinding(
        "OpenVZ", " and ".join(tools), True, note="the driver was never run on the real platform: look twice"
    )


def _vserver(machine: Machine) -> HypervisorFinding:
    if machine.is_arm:
        return HypervisorFinding("Linux-VServer", *_X86_ALONE)
    if not machine.has("proc/virtual"):
        return HypervisorFinding(
            "Linux-VServer",
            f"kernel {machine.release} has no VServer patch (no /proc/virtual)",
            False,
            "boot a kernel with the project's patch, of Linux 2.6 to 4.9",
        )
    if "vserver" not in machine.programs:
        return HypervisorFinding("Linux-VServer", "the kernel, no util-vserver", False, "build util-vserver 0.30.216")
    if not machine.is_root:
        return HypervisorFinding("Linux-VServer", "util-vserver, which needs root", False, "run as root")
    return HypervisorFinding(
        "Linux-VServer", "util-vserver", True, note="the driver was never run on the real platform: look twice"
    )
