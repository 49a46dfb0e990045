"""What a machine lacks for each hypervisor: every branch on a made-up machine, and this one."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.repository import ROOT

from virtoll.cli.doctor_hypervisors import (
    HypervisorFinding,
    Machine,
    exclusion,
    hypervisor_checks,
    no_hardware_virtualisation,
    this_machine,
)
from virtoll.errors import REMEDIES
from virtoll.platforms import EVERY_PLATFORM

SECOND_WAY = re.compile(r"\bor (?!newer|names)|\belse\b|\botherwise\b|;")
"""In a remedy, which is one: what a person does, and not what could be done."""
INTEL = "vendor_id\t: GenuineIntel\nflags\t\t: fpu {0}\n"
AMD = "vendor_id\t: AuthenticAMD\nflags\t\t: fpu {0}\n"
KVM = {"proc/cpuinfo": INTEL.format("vmx"), "sys/module/kvm_intel/parameters/nested": "Y", "dev/kvm": ""}
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
DOM0 = {
    "sys/hypervisor/type": "xen",
    "proc/xen/capabilities": "control_d",
    "sys/hypervisor/version/major": "4",
    "sys/hypervisor/version/minor": "17",
    "dev/xen/privcmd": "",
    "proc/cpuinfo": INTEL.format("fpu"),
}
LIBVIRT = {"usr/lib/x86_64-linux-gnu/libvirt/connection-driver/libvirt_driver_qemu.so": ""}
VBOX = {"proc/cpuinfo": AMD.format("svm"), "sys/module/vboxdrv/x": "", "dev/vboxdrv": ""}


def machine(root: Path, files: dict[str, str], **facts: Any) -> Machine:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    given = {"release": "6.1.0-56-amd64", "is_root": True, "groups": (), "programs": (), **facts}
    given |= {key: frozenset(given[key]) for key in ("groups", "programs")}
    return Machine(root, **given)


def finding(of: Machine, name: str) -> HypervisorFinding:
    return next(one for one in hypervisor_checks(of) if one.check == name)


@pytest.mark.parametrize(
    ("name", "files", "facts", "found", "remedy"),
    [
        ("KVM", {"proc/cpuinfo": INTEL.format("sse")}, {}, "neither vmx nor svm", "switch VT-x"),
        ("KVM", {"proc/cpuinfo": AMD.format("sse")}, {}, "cannot be read", "switch SVM"),
        ("KVM", {"proc/cpuinfo": INTEL.format("hypervisor")}, {}, "without nested", "kvm_intel nested=1"),
        ("KVM", {"proc/cpuinfo": AMD.format("hypervisor")}, {}, "without nested", "kvm_amd nested=1"),
        (
            "KVM",
            {"proc/cpuinfo": INTEL.format("sse")},
            {"log": "x86/cpu: VMX (outside TXT) disabled by BIOS"},
            "switched off in the firmware",
            "switch VT-x",
        ),
        ("KVM", {"proc/cpuinfo": AMD.format("svm")}, {}, "has no kvm_amd", "linux-image-amd64"),
        (
            "KVM",
            {"proc/cpuinfo": AMD.format("svm"), "lib/modules/6.1.0-56-amd64/modules.dep": "kernel/kvm-amd.ko.xz:\n"},
            {},
            "module kvm_amd there",
            "modprobe kvm_amd",
        ),
        ("KVM", KVM, {"is_root": False, "usable": lambda _path: False}, "not yours", "groups kvm"),
        ("Xen", {}, {}, "not booted under Xen", "xen-system-amd64"),
        ("Xen", {"sys/hypervisor/type": "xen"}, {}, "not its dom0", "dom0"),
        ("Xen", {**DOM0, "dev/xen/privcmd": None}, {}, "no /dev/xen/privcmd", "modprobe xen-privcmd"),
        ("Xen", DOM0, {}, "Xen 4.17, no xl", "xen-utils"),
        ("Xen", DOM0, {"programs": ["xl"], "is_root": False}, "Xen 4.17", "run as root"),
        ("VirtualBox", {}, {}, "VBoxManage is missing", "install VirtualBox 7"),
        ("VirtualBox", {}, {"programs": ["VBoxManage"]}, "vboxdrv absent", "module by dkms"),
        (
            "VirtualBox",
            {"lib/modules/6.1.0-56-amd64/modules.dep": "misc/vboxdrv.ko: \n"},
            {"programs": ["VBoxManage"]},
            "vboxdrv there",
            "modprobe vboxdrv",
        ),
        (
            "VirtualBox",
            {SECURE_BOOT: "\6\0\0\0\1"},
            {"programs": ["VBoxManage"]},
            "absent",
            "key that Secure Boot knows",
        ),
        (
            "VirtualBox",
            {**VBOX, "proc/cpuinfo": INTEL.format("hypervisor")},
            {"programs": ["VBoxManage"]},
            "without nested",
            "kvm_intel nested=1",
        ),
        (
            "VirtualBox",
            {**VBOX, "sys/module/kvm_amd/x": ""},
            {"programs": ["VBoxManage"], "release": "6.12.1"},
            "kvm_amd holds the CPU's virtualisation",
            "rmmod kvm_amd",
        ),
        ("VMware ESXi", {}, {}, "pyvmomi is missing", "run 'make setup' again"),
        ("libvirt", {}, {}, "virsh is missing", "libvirt-daemon-driver-qemu"),
        ("libvirt", {}, {"programs": ["virsh"]}, "no driver for QEMU or LXC", "libvirt-daemon-driver-qemu"),
        ("OpenVZ", {}, {}, "no /proc/vz", "Virtuozzo 7"),
        ("OpenVZ", {"proc/vz/vestat": ""}, {}, "no vzctl", "install vzctl"),
        ("OpenVZ", {"proc/vz/vestat": ""}, {"programs": ["vzctl"], "is_root": False}, "vzctl", "run as root"),
        ("Linux-VServer", {}, {}, "no /proc/virtual", "project's patch"),
        ("Linux-VServer", {"proc/virtual/info": ""}, {}, "no util-vserver", "0.30.216"),
        ("Linux-VServer", {"proc/virtual/info": ""}, {"programs": ["vserver"], "is_root": False}, "util", "as root"),
    ],
)
def test_what_is_lacking_is_said_with_its_remedy(
    tmp_path: Path, name: str, files: dict[str, str | None], facts: dict[str, Any], found: str, remedy: str
) -> None:
    there = {path: content for path, content in files.items() if content is not None}
    reported = finding(machine(tmp_path, there, **facts), name)
    assert not reported.good
    assert found in reported.found
    assert remedy in reported.remedy
    assert not SECOND_WAY.search(reported.remedy)


@pytest.mark.parametrize(
    ("name", "files", "facts", "found"),
    [
        ("KVM", {**KVM, "dev/vhost-net": ""}, {}, "vhost_net there, nested on"),
        ("Xen", DOM0, {"programs": ["xl"]}, "dom0 of Xen 4.17"),
        ("VirtualBox", VBOX, {"programs": ["VBoxManage"]}, "VBoxManage and vboxdrv"),
        ("VMware ESXi", {}, {"python": lambda name: name == "pyVmomi"}, "pyvmomi"),
        ("libvirt", LIBVIRT, {"programs": ["virsh"]}, "virsh, drivers qemu; no daemon runs"),
        (
            "libvirt",
            {
                **LIBVIRT,
                "usr/lib64/libvirt/connection-driver/libvirt_driver_lxc.so": "",
                "run/libvirt/virtqemud-sock": "",
            },
            {"programs": ["virsh"]},
            "drivers qemu, lxc; daemon at virtqemud-sock",
        ),
        ("OpenVZ", {"proc/vz/vestat": ""}, {"programs": ["vzctl", "prlctl"]}, "vzctl and prlctl"),
        ("Linux-VServer", {"proc/virtual/info": ""}, {"programs": ["vserver"]}, "util-vserver"),
    ],
)
def test_what_is_there_is_good(
    tmp_path: Path, name: str, files: dict[str, str], facts: dict[str, Any], found: str
) -> None:
    reported = finding(machine(tmp_path, files, **facts), name)
    assert reported.good, reported
    assert found in reported.found
    assert reported.remedy == ""


@pytest.mark.parametrize(
    ("files", "facts", "reported"),
    [
        ({}, {}, "all but qemu:///embed need libvirtd (libvirt-daemon); as another machine's"),
        ({}, {"programs": ["virsh", "libvirtd"]}, "as another machine's hypervisor host it needs 'systemctl start"),
        (
            {"run/libvirt/libvirt-sock": ""},
            {"programs": ["virsh", "libvirtd"], "is_root": False},
            "as another machine's hypervisor host: usermod --append --groups libvirt USER",
        ),
        (
            {"run/libvirt/libvirt-sock": ""},
            {"programs": ["virsh", "libvirtd"], "is_root": False, "groups": ["libvirt"]},
            "",
        ),
    ],
)
def test_libvirts_daemon_is_asked_for_only_where_one_is_used(
    tmp_path: Path, files: dict[str, str], facts: dict[str, Any], reported: str
) -> None:
    found = finding(machine(tmp_path, {**LIBVIRT, **files}, **{"programs": ["virsh"], **facts}), "libvirt")
    assert found.good
    assert found.note.startswith(reported)
    assert bool(found.note) == bool(reported)
    assert "libvirt-daemon-system" not in found.note


@pytest.mark.parametrize(
    ("cpu", "register", "value", "off"),
    [
        (INTEL.format("vmx"), 0x3A, 5, False),
        (INTEL.format("vmx"), 0x3A, 1, True),
        (INTEL.format("vmx"), 0x3A, 0, False),  # not locked: the kernel sets it itself
        (AMD.format("svm"), 0xC0010114, 0, False),
        (AMD.format("svm"), 0xC0010114, 16, True),
        (AMD.format("svm hypervisor"), 0xC0010114, 16, False),
    ],
)
def test_the_firmware_switch_is_read_from_the_register(
    tmp_path: Path, cpu: str, register: int, value: int, off: bool
) -> None:
    made = machine(tmp_path, {"proc/cpuinfo": cpu, "dev/cpu/0/msr": ""})
    with (tmp_path / "dev/cpu/0/msr").open("r+b") as file:
        file.seek(register)
        file.write(value.to_bytes(8, "little"))
    found = no_hardware_virtualisation(made)
    assert (found is not None and "switched off in the firmware" in found[0]) == off


@pytest.mark.parametrize(
    ("kernel", "product", "held", "words"),
    [
        ("6.1.0", "7.0.20", "", None),
        ("6.12.7", "7.0.20", "Y", "'rmmod kvm_intel' before VirtualBox"),
        ("6.12.7", "7.0.20", "N", None),
        ("6.12.7", "7.2.14", "Y", "'rmmod kvm_intel' before VirtualBox"),
        ("6.18.2-amd64", "7.2.8", "Y", "'rmmod kvm_intel' before VirtualBox"),
        ("6.18.2-amd64", "7.2.14_Debian r163906 (0x00330005)", "Y", None),
        ("6.18.2-amd64", "7.2.14_Debian r163906 (0x00330005)", "N", "boot without kvm.enable_virt_at_load=0"),
    ],
)
def test_kvm_and_virtualbox_exclude_each_other_by_their_versions(
    tmp_path: Path, kernel: str, product: str, held: str, words: str | None
) -> None:
    files = {
        "sys/module/kvm_intel/x": "",
        "sys/module/kvm/parameters/enable_virt_at_load": held,
        "sys/module/vboxdrv/version": product,
    }
    found = exclusion(machine(tmp_path, files, programs=["VBoxManage"], release=kernel))
    assert found is None if words is None else found is not None and words in found[1]
    assert exclusion(machine(tmp_path, files, release=kernel)) is None


def test_without_kvm_virtualbox_is_not_excluded(tmp_path: Path) -> None:
    assert exclusion(machine(tmp_path, {}, programs=["VBoxManage"], release="6.12.0")) is None


def test_each_declared_remedy_is_one() -> None:
    """Of each platform, of each kind of installation, and of each probe that has its own."""
    declared = [kind.remedy for kind in EVERY_PLATFORM.values() if kind.remedy]
    declared += [said for by in REMEDIES.values() for said in by.values()]
    for path in (ROOT / "src" / "virtoll").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            value: ast.AST = ast.Pass()
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "unusable":
                value = node.args[2]
            elif isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == ["remedy"]:
                value = node.value
            declared += [str(one.value) for one in ast.walk(value) if isinstance(one, ast.Constant)]
    assert "run as root" in declared
    assert [said for said in declared if SECOND_WAY.search(said.strip("; "))] == []


ARM = {"proc/cpuinfo": "Features\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"}
ARM_GUEST = {**ARM, "sys/class/dmi/id/sys_vendor": "Amazon EC2", "sys/class/dmi/id/product_name": "m6g.large"}


@pytest.mark.parametrize(
    ("name", "files", "facts", "found", "remedy"),
    [
        ("KVM", ARM, {}, "not started at EL2", "linux-image-arm64"),
        ("KVM", ARM_GUEST, {}, "a virtual machine (Amazon EC2)", ".metal"),
        ("KVM", {**ARM, "dev/kvm": ""}, {"usable": lambda _path: False}, "not yours", "groups kvm"),
        ("KVM", {**ARM, "dev/kvm": "", "dev/vhost-net": ""}, {}, "/dev/kvm, vhost_net there", ""),
        ("Xen", ARM, {}, "not booted under Xen", "xen-system-arm64"),
        ("Xen", {**DOM0, **ARM}, {"programs": ["xl"]}, "dom0 of Xen 4.17", ""),
        ("VirtualBox", ARM, {}, "this one is aarch64", "x86-64 machine"),
        ("OpenVZ", ARM, {}, "this one is aarch64", "x86-64 machine"),
        ("Linux-VServer", ARM, {}, "this one is aarch64", "x86-64 machine"),
    ],
)
def test_a_machine_of_arm_is_told_what_holds_for_arm(
    tmp_path: Path, name: str, files: dict[str, str], facts: dict[str, Any], found: str, remedy: str
) -> None:
    said = finding(machine(tmp_path, files, architecture="aarch64", **facts), name)
    assert found in said.found
    assert remedy in said.remedy
    assert said.good != bool(said.remedy)
    words = f"{said.found} {said.remedy} {said.note}"
    assert not any(word in words for word in ("vmx", "svm", "VT-x", "SVM", "amd64", "kvm_amd", "HVM"))


def test_an_empty_machine_has_no_hypervisor_but_seven_answers(tmp_path: Path) -> None:
    found = hypervisor_checks(machine(tmp_path, {}, is_root=False))
    assert len(found) == 7
    assert all(not one.good and one.remedy for one in found)


def test_this_machine_gets_an_answer_for_each() -> None:
    for one in hypervisor_checks(this_machine()):
        assert one.found
        assert one.good != bool(one.remedy)
