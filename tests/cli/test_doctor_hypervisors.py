"""What a machine lacks for each hypervisor: every branch on a made-up machine, and this one."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.facts import assert_facts, missing_facts
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
        ("KVM", {"proc/cpuinfo": INTEL.format("sse")}, {}, "vmx", "VT-x"),
        ("KVM", {"proc/cpuinfo": AMD.format("sse")}, {}, "modprobe msr", "SVM"),
        ("KVM", {"proc/cpuinfo": INTEL.format("hypervisor")}, {}, "nested virtualisation", "kvm_intel nested=1"),
        ("KVM", {"proc/cpuinfo": AMD.format("hypervisor")}, {}, "nested virtualisation", "kvm_amd nested=1"),
        (
            "KVM",
            {"proc/cpuinfo": INTEL.format("sse")},
            {"log": "x86/cpu: VMX (outside TXT) disabled by BIOS"},
            "firmware",
            "VT-x",
        ),
        ("KVM", {"proc/cpuinfo": AMD.format("svm")}, {}, "kvm_amd", "linux-image-amd64"),
        (
            "KVM",
            {"proc/cpuinfo": AMD.format("svm"), "lib/modules/6.1.0-56-amd64/modules.dep": "kernel/kvm-amd.ko.xz:\n"},
            {},
            "kvm_amd there",
            "modprobe kvm_amd",
        ),
        ("KVM", KVM, {"is_root": False, "usable": lambda _path: False}, "/dev/kvm", "--groups kvm USER"),
        ("Xen", {}, {}, "Xen", "xen-system-amd64"),
        ("Xen", {"sys/hypervisor/type": "xen"}, {}, "dom0", "dom0"),
        ("Xen", {**DOM0, "dev/xen/privcmd": None}, {}, "/dev/xen/privcmd", "modprobe xen-privcmd"),
        ("Xen", DOM0, {}, "xl", "xen-utils"),
        ("Xen", DOM0, {"programs": ["xl"], "is_root": False}, "Xen 4.17", "root"),
        ("VirtualBox", {}, {}, "VBoxManage", "VirtualBox 7"),
        ("VirtualBox", {}, {"programs": ["VBoxManage"]}, "vboxdrv absent", "dkms"),
        (
            "VirtualBox",
            {"lib/modules/6.1.0-56-amd64/modules.dep": "misc/vboxdrv.ko: \n"},
            {"programs": ["VBoxManage"]},
            "vboxdrv there",
            "modprobe vboxdrv",
        ),
        ("VirtualBox", {SECURE_BOOT: "\6\0\0\0\1"}, {"programs": ["VBoxManage"]}, "absent", "Secure Boot"),
        (
            "VirtualBox",
            {**VBOX, "proc/cpuinfo": INTEL.format("hypervisor")},
            {"programs": ["VBoxManage"]},
            "nested virtualisation",
            "kvm_intel nested=1",
        ),
        (
            "VirtualBox",
            {**VBOX, "sys/module/kvm_amd/x": ""},
            {"programs": ["VBoxManage"], "release": "6.12.1"},
            "kvm_amd",
            "rmmod kvm_amd",
        ),
        ("VMware ESXi", {}, {}, "pyvmomi", "make setup"),
        ("libvirt", {}, {}, "virsh", "libvirt-daemon-driver-qemu"),
        ("libvirt", {}, {"programs": ["virsh"]}, "LXC", "libvirt-daemon-driver-qemu"),
        ("OpenVZ", {}, {}, "/proc/vz", "Virtuozzo 7"),
        ("OpenVZ", {"proc/vz/vestat": ""}, {}, "vzctl", "vzctl"),
        ("OpenVZ", {"proc/vz/vestat": ""}, {"programs": ["vzctl"], "is_root": False}, "vzctl", "root"),
        ("Linux-VServer", {}, {}, "/proc/virtual", "Linux 2.6"),
        ("Linux-VServer", {"proc/virtual/info": ""}, {}, "util-vserver", "0.30.216"),
        (
            "Linux-VServer",
            {"proc/virtual/info": ""},
            {"programs": ["vserver"], "is_root": False},
            "util-vserver",
            "root",
        ),
    ],
)
def test_each_lack_is_named_with_its_remedy(
    tmp_path: Path, name: str, files: dict[str, str | None], facts: dict[str, Any], found: str, remedy: str
) -> None:
    there = {path: content for path, content in files.items() if content is not None}
    reported = finding(machine(tmp_path, there, **facts), name)
    assert not reported.good
    assert_facts(reported.found, found)
    assert_facts(reported.remedy, remedy)
    assert not SECOND_WAY.search(reported.remedy)


@pytest.mark.parametrize(
    ("name", "files", "facts", "found"),
    [
        ("KVM", {**KVM, "dev/vhost-net": ""}, {}, "nested on"),
        ("Xen", DOM0, {"programs": ["xl"]}, "Xen 4.17"),
        ("VirtualBox", VBOX, {"programs": ["VBoxManage"]}, "vboxdrv"),
        ("VMware ESXi", {}, {"python": lambda name: name == "pyVmomi"}, "pyvmomi"),
        ("libvirt", LIBVIRT, {"programs": ["virsh"]}, "drivers qemu"),
        (
            "libvirt",
            {
                **LIBVIRT,
                "usr/lib64/libvirt/connection-driver/libvirt_driver_lxc.so": "",
                "run/libvirt/virtqemud-sock": "",
            },
            {"programs": ["virsh"]},
            "virtqemud-sock",
        ),
        ("OpenVZ", {"proc/vz/vestat": ""}, {"programs": ["vzctl", "prlctl"]}, "prlctl"),
        ("Linux-VServer", {"proc/virtual/info": ""}, {"programs": ["vserver"]}, "util-vserver"),
    ],
)
def test_what_is_there_is_good(
    tmp_path: Path, name: str, files: dict[str, str], facts: dict[str, Any], found: str
) -> None:
    reported = finding(machine(tmp_path, files, **facts), name)
    assert reported.good, reported
    assert_facts(reported.found, found)
    assert reported.remedy == ""


@pytest.mark.parametrize(
    ("files", "facts", "notes"),
    [
        ({}, {}, ["(libvirt-daemon)", "systemctl start libvirtd"]),
        ({}, {"programs": ["virsh", "libvirtd"]}, ["systemctl start libvirtd"]),
        (
            {"run/libvirt/libvirt-sock": ""},
            {"programs": ["virsh", "libvirtd"], "is_root": False},
            ["--groups libvirt USER"],
        ),
        (
            {"run/libvirt/libvirt-sock": ""},
            {"programs": ["virsh", "libvirtd"], "is_root": False, "groups": ["libvirt"]},
            [],
        ),
    ],
)
def test_libvirts_daemon_is_asked_for_only_where_one_is_used(
    tmp_path: Path, files: dict[str, str], facts: dict[str, Any], notes: list[str]
) -> None:
    found = finding(machine(tmp_path, {**LIBVIRT, **files}, **{"programs": ["virsh"], **facts}), "libvirt")
    assert found.good
    known = ("(libvirt-daemon)", "systemctl start libvirtd", "--groups libvirt USER")
    assert missing_facts(found.note, *known) == [one for one in known if one not in notes]
    assert bool(found.note) == bool(notes)
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
    assert (found is not None) == off
    assert_facts("" if found is None else found[0], *(["firmware"] if off else []))


@pytest.mark.parametrize(
    ("kernel", "product", "held", "remedy"),
    [
        ("6.1.0", "7.0.20", "", None),
        ("6.12.7", "7.0.20", "Y", "'rmmod kvm_intel'"),
        ("6.12.7", "7.0.20", "N", None),
        ("6.12.7", "7.2.14", "Y", "'rmmod kvm_intel'"),
        ("6.18.2-amd64", "7.2.8", "Y", "'rmmod kvm_intel'"),
        ("6.18.2-amd64", "7.2.14_Debian r163906 (0x00330005)", "Y", None),
        ("6.18.2-amd64", "7.2.14_Debian r163906 (0x00330005)", "N", "kvm.enable_virt_at_load=0"),
    ],
)
def test_kvm_and_virtualbox_exclude_each_other_by_their_versions(
    tmp_path: Path, kernel: str, product: str, held: str, remedy: str | None
) -> None:
    files = {
        "sys/module/kvm_intel/x": "",
        "sys/module/kvm/parameters/enable_virt_at_load": held,
        "sys/module/vboxdrv/version": product,
    }
    found = exclusion(machine(tmp_path, files, programs=["VBoxManage"], release=kernel))
    assert (found is None) == (remedy is None)
    if found is not None and remedy is not None:
        assert_facts(found[1], remedy)
    assert exclusion(machine(tmp_path, files, release=kernel)) is None


def test_without_kvm_virtualbox_is_not_excluded(tmp_path: Path) -> None:
    assert exclusion(machine(tmp_path, {}, programs=["VBoxManage"], release="6.12.0")) is None


def test_each_declared_remedy_is_one() -> None:
    """Of each platform, of each kind of installation, and of each probe that has its own."""
    declared = [kind.remedy for kind in EVERY_PLATFORM.values() if kind.remedy]
    declared += [said for by in REMEDIES.values() for said in by.values()]
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "src" / "virtoll").rglob("*.py"))
    for text in (text for text in texts if "unusable" in text or "remedy = " in text):
        for node in ast.walk(ast.parse(text)):
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
        ("KVM", ARM, {}, "EL2", "linux-image-arm64"),
        ("KVM", ARM_GUEST, {}, "Amazon EC2", ".metal"),
        ("KVM", {**ARM, "dev/kvm": ""}, {"usable": lambda _path: False}, "/dev/kvm", "--groups kvm USER"),
        ("KVM", {**ARM, "dev/kvm": "", "dev/vhost-net": ""}, {}, "vhost_net", None),
        ("Xen", ARM, {}, "Xen", "xen-system-arm64"),
        ("Xen", {**DOM0, **ARM}, {"programs": ["xl"]}, "Xen 4.17", None),
        ("VirtualBox", ARM, {}, "aarch64", "x86-64"),
        ("OpenVZ", ARM, {}, "aarch64", "x86-64"),
        ("Linux-VServer", ARM, {}, "aarch64", "x86-64"),
    ],
)
def test_a_machine_of_arm_gets_the_lacks_and_remedies_of_arm(
    tmp_path: Path, name: str, files: dict[str, str], facts: dict[str, Any], found: str, remedy: str | None
) -> None:
    reported = finding(machine(tmp_path, files, architecture="aarch64", **facts), name)
    assert_facts(reported.found, found)
    assert_facts(reported.remedy, *([] if remedy is None else [remedy]))
    assert reported.good == (remedy is None) != bool(reported.remedy)
    words = f"{reported.found} {reported.remedy} {reported.note}"
    assert not any(word in words for word in ("vmx", "svm", "VT-x", "SVM", "amd64", "kvm_amd", "HVM"))


def test_an_empty_machine_has_no_hypervisor_but_seven_answers(tmp_path: Path) -> None:
    found = hypervisor_checks(machine(tmp_path, {}, is_root=False))
    names = ["KVM", "Xen", "VirtualBox", "VMware ESXi", "libvirt", "OpenVZ", "Linux-VServer"]
    assert [one.check for one in found] == names
    assert all(not one.good and one.remedy for one in found)


def test_this_machine_gets_an_answer_for_each() -> None:
    for one in hypervisor_checks(this_machine()):
        assert one.found
        assert one.good != bool(one.remedy)
