"""``virtoll doctor``: what it says of made-up hosts, in any width, and of this one in each of the bad cases."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion
from tests.support.commands import in_process, virtoll, with_mounts
from tests.support.facts import Command, assert_facts, assert_refused, missing_facts, refused

from virtoll.cli import doctor, doctor_page, output
from virtoll.cli.doctor import Check, Diagnosis, Tried, chosen, install_commands, needs_kernel, settled
from virtoll.cli.doctor_hypervisors import HypervisorFinding
from virtoll.cli.doctor_unprivileged import WithoutRoot, closed_folder, command, parse
from virtoll.cli.progress import waiting
from virtoll.errors import UsageError, remedy_for
from virtoll.host import packages
from virtoll.lab.launch import how_to_allow_namespaces
from virtoll.platforms import PLATFORMS

AS_USER = WithoutRoot(True)
TAPS = WithoutRoot(False, "its NICs need taps, and this user may not open /dev/net/tun", "chmod 0666 /dev/net/tun")
NESTED = HypervisorFinding("KVM", "a virtual machine without nested virtualisation", False, "allow it on its host")
GOOD_KVM = HypervisorFinding("KVM", "/dev/kvm, vhost_net there", True)


_ROW_OF_NETNS = '{"platform": "netns", "available": true, "reason": null, "remedy": ""}'
_BAD_CHECK = '{"good": false, "found": "none", "remedy": "allow it"}'
_OTHER_VERSION = '{"host": [], "platforms": [{"platform": "netns"}]}'
_FAILED = "FileNotFoundError: no"
_ROW_OF_LXC = '{"platform": "lxc", "available": false, "reason": "it needs root", "remedy": "be root"}'


def works(name: str, without_root: WithoutRoot = AS_USER) -> Tried:
    return Tried(name, name, "os-level", True, f"{name} 1", without_root=without_root)


def fails(name: str, reason: str, remedy: str, *install: str) -> Tried:
    return Tried(name, name, "emulated", False, reason=reason, remedy=remedy, install=install)


HOST = (
    Check("user", "root", True),
    Check("kernel", "6.1.0", True),
    Check("CPUs", "2", True, note="generator and sink share a CPU"),
    Check("cgroups", "v2, without memory", False, "enable it"),
)
MIXED = Diagnosis(
    HOST,
    (),
    (
        *(works(name) for name in ("native", "native-again", "netns", "runc")),
        *(works(name, TAPS) for name in ("qemu-tcg", "cloud-hypervisor")),
        fails("docker", "dockerd: not found on this host", "apt-get install docker.io", "docker.io"),
        fails("qemu-kvm", "no guest boots with KVM: no nesting", "allow it"),
        fails("firecracker", "no guest boots with KVM: no nesting", "allow it"),
        Tried("fake", "fake", "model", True, "model 1", without_root=AS_USER),
    ),
)


def shown(found: Diagnosis, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    output.console.cache_clear()  # it keeps the width of COLUMNS
    doctor_page.show_diagnosis(found)
    output.console.cache_clear()
    return capsys.readouterr().out


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with apt and dpkg alone, where nothing is installed."""
    for name in ("apt-get", "dpkg-query"):
        (tmp_path / name).write_text("#!/bin/sh\n", encoding="ascii")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_too_long_and_no_name_is_broken(
    debian: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    assert debian.is_dir()
    said = shown(MIXED, monkeypatch, capsys, width)
    assert max(map(len, said.splitlines())) <= width
    for one in MIXED.platforms[:-1]:
        assert one.platform in said
    assert "fake" not in said
    assert not [line for line in said.splitlines() if line != line.rstrip()]


def test_the_page_of_a_host_where_some_platforms_work(
    debian: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    """What works is one line, and each remedy stands once, below what it is for."""
    assert debian.is_dir()
    monkeypatch.setattr(doctor, "is_host_root", lambda: True)  # else the command has a sudo
    page = shown(MIXED, monkeypatch, capsys, 120)
    assert page == snapshot
    assert page.count("allow it") == 1
    assert page.splitlines()[-1].split() == ["apt-get", "install", "docker.io"]


def test_one_command_installs_everything(debian: Path) -> None:
    everything = [one.name for one in packages.needed(os.uname().machine, platforms=True)]
    assert install_commands(["crun", "lxc"])[0].endswith("apt-get install crun lxc")
    assert install_commands(everything)[0].endswith(" setup --platforms"), "which does the same"
    assert install_commands([]) == []
    (debian / "apt-get").rename(debian / "zypper")
    assert install_commands(["docker.io", "lxc"])[0].endswith("zypper install docker lxc")
    (debian / "zypper").unlink()
    assert install_commands(["lxc"]) == []


@pytest.mark.parametrize("width", [60, 80])
def test_what_a_package_manager_has_by_no_certain_name_is_named(
    debian: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    (debian / "apt-get").rename(debian / "apk")
    lacking = fails("libvirt", "virsh: not found", "see below", "lxc", "libvirt-daemon-driver-qemu", "user-mode-linux")
    lines = shown(dataclasses.replace(MIXED, platforms=(lacking,)), monkeypatch, capsys, width).splitlines()
    command, *_, unknown = lines[-4:]
    assert command.endswith("apk add lxc")
    assert unknown.split() == ["libvirt-daemon-driver-qemu", "user-mode-linux"]
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (MIXED, True),
        (Diagnosis(HOST, (), (works("native"), fails("netns", "no", "mend it"))), False),
        (Diagnosis(HOST, (), (works("runc"),), ("runc",)), True),
        (Diagnosis(HOST, (), (works("runc"), fails("crun", "no", "mend it")), ("runc", "crun")), False),
        (Diagnosis((Check("tools", "missing: ip", False, "get it", blocks=True),), (), (), ("runc",)), False),
    ],
)
def test_the_exit_code_is_of_what_was_asked(found: Diagnosis, expected: bool) -> None:
    assert found.works is expected
    assert found.as_document()["works"] is expected


def test_what_boots_decides_what_is_said_of_kvm() -> None:
    """One statement, whatever the machine looks like and whatever stands in /dev."""
    hangs = fails("qemu-kvm", "no guest boots with kvm here: not ready within 20 s", "see its page")
    missing = fails("qemu-kvm", "qemu: not found", "apt-get install qemu", "qemu")
    (kvm,), (row,) = settled([GOOD_KVM], [hangs])
    assert (kvm.good, kvm.remedy, row) == (False, "see its page", hangs)
    assert_facts(kvm.found, "20 s")
    (kvm,), (row,) = settled([NESTED], [missing])
    assert kvm == NESTED
    assert_facts(str(row.reason), "KVM", Command(NESTED.found))
    assert row.remedy == NESTED.remedy
    assert row.install == (), "no program helps there"
    (kvm,), (row,) = settled([NESTED], [works("qemu-kvm")])
    assert (kvm.good, kvm.remedy, row.available) == (True, "", True)
    assert settled([NESTED], [works("netns")]) == ((), (works("netns"),))


def test_what_can_be_installed_is_not_explained_by_the_machine() -> None:
    virsh = fails("libvirt", "virsh: not found", "dnf install libvirt", "libvirt-clients")
    finding = HypervisorFinding("libvirt", "virsh is missing", False, "install it")
    assert settled([finding], [virsh])[1] == (virsh,)
    xen = fails("xen", "xl: not found", "install Xen, then boot into it")
    finding = HypervisorFinding("Xen", "not booted under Xen", False, "boot it")
    assert settled([finding], [xen])[1] == (dataclasses.replace(xen, reason=finding.found, remedy="boot it"),)


def test_platforms_are_named_by_name_parameters_or_label() -> None:
    found = chosen(["netns", "qemu-tcg:nic=e1000", "qemu-tcg-rtl8139", "netns"])
    assert [one.platform for one in found] == ["netns", "qemu-tcg", "qemu-tcg"]
    assert [one.label for one in found] == ["netns", "qemu-tcg-e1000", "qemu-tcg-rtl8139"]
    assert [one.platform for one in chosen([])] == list(PLATFORMS), "without names all are tried"
    assert not needs_kernel(chosen(["native", "netns", "runc"]))
    with refused("'dokcer'", "'docker'", error=UsageError):
        chosen(["dokcer"])


def test_the_kernel_is_for_machines_that_something_can_boot(debian: Path) -> None:
    machines = chosen(["netns", "qemu-tcg"])
    assert not needs_kernel(machines)
    (debian / "apt-get").rename(debian / f"qemu-system-{os.uname().machine}")
    assert needs_kernel(machines)
    assert not needs_kernel(machines[:1])


def test_an_unknown_platform_exits_with_2() -> None:
    finished = in_process("doctor", "nets")
    assert_refused(finished, "'nets'", "'netns'", "virtoll list platforms")
    assert finished.stdout == ""


def test_what_an_ordinary_user_found_out_is_read() -> None:
    rows = parse(f'building\n{{"version": 2, "host": [], "platforms": [{_ROW_OF_NETNS}, {_ROW_OF_LXC}]}}')
    assert rows == {"netns": WithoutRoot(True), "lxc": WithoutRoot(False, "it needs root", "be root")}


@pytest.mark.parametrize(
    ("answer", "works", "reason", "remedy"),
    [
        (f'{{"version": 2, "host": [{_BAD_CHECK}, {{"good": true}}], "platforms": []}}', False, "none", "allow it"),
        (_OTHER_VERSION, None, _OTHER_VERSION, "all users"),
        ("env: no permission\n", None, "env: no permission", "all users"),
        (
            "Traceback (most recent call last):\n  File ...\nFileNotFoundError: no\n",
            None,
            "FileNotFoundError: no",
            "defect",
        ),
        ("", None, None, "all users"),
    ],
)
def test_an_answer_without_platforms_has_its_reason_and_remedy(
    answer: str, works: bool | None, reason: str | None, remedy: str
) -> None:
    found = parse(answer)
    assert isinstance(found, WithoutRoot)
    assert found.works is works
    assert found.reason if reason is None else found.reason == reason
    assert_facts(found.remedy, remedy)


def test_an_installation_that_others_cannot_reach_is_named_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "private" / "venv" / "bin" / "python"
    file.parent.mkdir(parents=True)
    file.touch()
    (tmp_path / "private").chmod(0o700)
    (tmp_path / "link").symlink_to(file)
    assert closed_folder(tmp_path / "link") in (tmp_path / "private", tmp_path, *tmp_path.parents)
    found = parse("env: Permission denied", [file])
    assert isinstance(found, WithoutRoot)
    assert found.works is None
    assert_facts(str(found.reason), str(closed_folder(file)))
    assert found.remedy == remedy_for("for all users")
    assert closed_folder(Path("/bin/sh")) is None


def test_nobodys_state_folder_has_a_name_that_no_other_process_foresees() -> None:
    """nobody's other processes could make the usual one first."""
    states = {word for _ in range(2) for word in command(["netns"]) if word.startswith("VIRTOLL_STATE=")}
    assert len(states) == 2
    words = command(["netns"])
    assert words[-3:] == ["--json", "--", "netns"]
    assert not any(word.startswith("PYTHON") for word in words)


@pytest.mark.parametrize(
    "document",
    [
        {"version": 2},
        {"version": 2, "platforms": [{"platform": "netns"}]},
        {"version": 2, "platforms": {"a": 1}},
        {"version": 2, "platforms": [], "host": [{"good": False}]},
        {"version": 2, "platforms": [], "host": 5},
    ],
)
def test_an_answer_that_is_not_a_doctors_is_no_answer(document: dict[str, object]) -> None:
    answer = parse(json.dumps(document))
    assert isinstance(answer, WithoutRoot)
    assert answer.works is None
    assert isinstance(parse("{" * 100_000), WithoutRoot)
    assert isinstance(parse('{"version": 2, "platforms": ' + "[" * 100_000), WithoutRoot)


def test_what_goes_on_is_shown_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)  # by which rich takes anything for a terminal
    with waiting(Console(stderr=True)) as say:
        say("1 of 2: netns")
    assert capsys.readouterr().err == ""
    with waiting(Console(stderr=True, force_terminal=True, width=40)) as say:
        say("1 of 2: netns")
        say("2 of 2: runc")
    assert "2 of 2: runc" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("files", "remedy"),
    [
        ({}, "CONFIG_USER_NS"),
        ({"self/ns/user": "", "sys/user/max_user_namespaces": "0"}, "user.max_user_namespaces=15000"),
        ({"self/ns/user": "", "sys/kernel/unprivileged_userns_clone": "0"}, "unprivileged_userns_clone=1"),
        (
            {"self/ns/user": "", "sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ({"self/ns/user": "", "self/status": "Name:\tsh\nSeccomp:\t2\n"}, "'--privileged'"),
        ({"self/ns/user": "", "self/status": "Name:\tsh\nSeccomp:\t0\n"}, "root"),
    ],
)
def test_without_user_namespaces_the_setting_that_forbids_them_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], remedy: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n", encoding="ascii")
    assert_facts(how_to_allow_namespaces(tmp_path), remedy)


def test_programs_of_the_system_folders_need_not_be_in_path(tmp_path: Path) -> None:
    """As behind sudo, or for a user whose PATH has no /usr/sbin."""
    finished = virtoll("doctor", "netns", "--json", changed={"PATH": str(tmp_path)})
    assert finished.returncode == 0, finished.stderr
    checks = {row["check"]: row for row in json.loads(finished.stdout)["host"]}
    assert checks["tools"]["good"]


def test_missing_tools_end_a_command_and_nothing_is_tried(tmp_path: Path) -> None:
    changed = {"PATH": str(tmp_path)}
    finished = in_process("doctor", "--json", changed=changed)
    assert finished.returncode == 1, finished.stderr
    document = json.loads(finished.stdout)
    checks = {row["check"]: row for row in document["host"]}
    assert_facts(checks["tools"]["found"], "ip", "mount")
    assert_facts(checks["tools"]["remedy"], "iproute2", "mount")
    assert (document["platforms"], document["install"]) == ([], [])  # this PATH has no package manager either
    measured = in_process("run", "quick", "--into", tmp_path / "run", changed=changed)
    assert_refused(measured, "ip", "mount", "'virtoll setup'")
    assert measured.stderr.count("virtoll: ") == 1
    assert not (tmp_path / "run").exists()


def test_missing_tools_are_named_with_this_hosts_command(debian: Path) -> None:
    (debian / "ip").symlink_to("/bin/true")
    (check,) = (one for one in doctor.host_checks() if one.check == "tools")
    assert check.blocks
    tools = ("mount", "umount", "losetup", "setpriv", "unshare", "nsenter", "taskset")
    assert_facts(check.found, *tools)
    assert missing_facts(check.found, "ip") == ["ip"]
    assert (check.remedy, check.install) == ("apt-get install mount util-linux", ("mount", "util-linux"))


@pytest.mark.root
def test_root_of_a_container_that_may_not_make_namespaces_is_refused() -> None:
    way = ["setpriv", "--bounding-set=-sys_admin", "--"]
    finished = virtoll("doctor", way=way)
    assert finished.returncode == 1
    assert_facts(finished.stdout, "'--privileged'")
    measured = virtoll("run", "quick", "--into", "/nonexistent/run", way=way)
    assert_refused(measured, "'--privileged'")
    assert measured.stderr.count("\n") == 1


@pytest.mark.lab
@pytest.mark.root
def test_without_qemu_the_rest_works_and_its_package_is_named() -> None:
    """It is covered in a mount namespace, where a host has it."""
    emulator = packages.EMULATORS[os.uname().machine]
    there = shutil.which(emulator.programs[0])
    way = with_mounts([f"mount --bind /dev/null {Path(there).resolve()}"]) if there else []
    finished = virtoll("doctor", "netns", "qemu-tcg", "--json", way=way)
    assert finished.returncode == 1, finished.stderr
    assert "netns" not in finished.stderr, "what goes on is for a terminal"
    document = json.loads(finished.stdout)
    netns, qemu = document["platforms"]
    assert netns["available"]
    assert netns["version"]
    assert_facts(qemu["reason"], emulator.programs[0])
    assert (qemu["remedy"], qemu["install"]) == (packages.how_to_install(emulator.name), [emulator.name])
    assert document["install"] == install_commands([emulator.name])
