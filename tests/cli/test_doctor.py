"""``virtoll doctor``: what it says of made-up hosts, in any width, and of this one in each of the bad cases."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.commands import virtoll, with_mounts
from tests.support.playground import playground

from virtoll.cli import doctor, doctor_page, output
from virtoll.cli.doctor import Check, Diagnosis, Tried, chosen, install_commands, needs_kernel, settled
from virtoll.cli.doctor_hypervisors import HypervisorFinding
from virtoll.cli.doctor_unprivileged import WithoutRoot, closed_folder, command, parse
from virtoll.cli.progress import waiting
from virtoll.errors import UsageError, remedy_for
from virtoll.host import packages
from virtoll.lab.launch import how_to_allow_namespaces

AS_USER = WithoutRoot(True)
TAPS = WithoutRoot(False, "its NICs need taps, and this user may not open /dev/net/tun", "chmod 0666 /dev/net/tun")
NESTED = HypervisorFinding("KVM", "a virtual machine without nested virtualisation", False, "allow it on its host")
GOOD_KVM = HypervisorFinding("KVM", "/dev/kvm, vhost_net there", True)


_ROW_OF_NETNS = '{"platform": "netns", "available": true, "reason": null, "remedy": ""}'
_BAD_CHECK = '{"good": false, "found": "none", "remedy": "allow it"}'
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
    monkeypatch.setattr(output.console(), "_width", width)
    doctor_page.show_diagnosis(found)
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


def test_what_works_is_one_line_and_each_remedy_stands_once(
    debian: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert debian.is_dir()
    lines = shown(MIXED, monkeypatch, capsys, 120).splitlines()
    assert lines[0] == "[ok] this host: Linux 6.1.0, 2 CPUs, root"
    expected = "[ok] 6 of 9 platforms work: native, native-again, netns, runc, qemu-tcg, cloud-hypervisor"
    assert lines[1] == expected
    assert lines[2] == "[ok] 4 of them work without root too: native, native-again, netns, runc"
    at = lines.index("[no] qemu-kvm, firecracker: no guest boots with KVM: no nesting")
    assert lines[at + 1] == "     -> allow it"
    assert sum("allow it" in line for line in lines) == 1
    at = lines.index(f"[no] qemu-tcg, cloud-hypervisor, without root: {TAPS.reason}")
    assert lines[at + 1] == f"     -> {TAPS.remedy}"
    assert "[no] cgroups: v2, without memory" in lines
    assert lines[-2] == "All that is missing, in one command:"
    assert lines[-1].strip().removeprefix("sudo ") == "apt-get install docker.io"


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
    command, *rest = lines[-4:]
    assert command.endswith("apk add lxc")
    assert rest == ["", "Missing as well, by Debian's names:", "  libvirt-daemon-driver-qemu user-mode-linux"]
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
    assert "no guest boots" in kvm.found
    (kvm,), (row,) = settled([NESTED], [missing])
    assert kvm == NESTED
    assert (row.reason, row.remedy) == (f"no guest boots with KVM: {NESTED.found}", NESTED.remedy)
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
    assert not needs_kernel(chosen(["native", "netns", "runc"]))
    with pytest.raises(UsageError, match="there is no platform 'dokcer'; did you mean 'docker'"):
        chosen(["dokcer"])


def test_the_kernel_is_for_machines_that_something_can_boot(debian: Path) -> None:
    machines = chosen(["netns", "qemu-tcg"])
    assert not needs_kernel(machines)
    (debian / "apt-get").rename(debian / f"qemu-system-{os.uname().machine}")
    assert needs_kernel(machines)
    assert not needs_kernel(machines[:1])


def test_an_unknown_platform_exits_with_2() -> None:
    finished = virtoll("doctor", "nets")
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr == (
        "virtoll: doctor: there is no platform 'nets'; did you mean 'netns'? 'virtoll list platforms' shows all\n"
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            f'building\n{{"version": 2, "host": [], "platforms": [{_ROW_OF_NETNS}, {_ROW_OF_LXC}]}}',
            {"netns": WithoutRoot(True), "lxc": WithoutRoot(False, "it needs root", "be root")},
        ),
        (
            f'{{"version": 2, "host": [{_BAD_CHECK}, {{"good": true}}], "platforms": []}}',
            WithoutRoot(False, "none", "allow it"),
        ),
        (
            '{"host": [], "platforms": [{"platform": "netns"}]}',  # another version's
            WithoutRoot(None, '{"host": [], "platforms": [{"platform": "netns"}]}', "see that all users can start it"),
        ),
        (
            "env: no permission\n",
            WithoutRoot(None, "env: no permission", "see that all users can start it"),
        ),
        (
            "Traceback (most recent call last):\n  File ...\nFileNotFoundError: no\n",
            WithoutRoot(None, "FileNotFoundError: no", "report this as a defect of Virtoll"),
        ),
        ("", WithoutRoot(None, "nobody could not start it", "see that all users can start it")),
    ],
)
def test_what_an_ordinary_user_found_out_is_read(said: str, expected: dict[str, WithoutRoot] | WithoutRoot) -> None:
    assert parse(said) == expected


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
    assert str(found.reason).startswith("nobody may not look into /")
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


def test_what_goes_on_is_shown_on_a_terminal_alone(capsys: pytest.CaptureFixture[str]) -> None:
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
        ({}, "this kernel has no user namespaces (CONFIG_USER_NS), so run as root"),
        ({"self/ns/user": "", "sys/user/max_user_namespaces": "0"}, "user.max_user_namespaces=15000"),
        ({"self/ns/user": "", "sys/kernel/unprivileged_userns_clone": "0"}, "unprivileged_userns_clone=1"),
        (
            {"self/ns/user": "", "sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ({"self/ns/user": "", "self/status": "Name:\tsh\nSeccomp:\t2\n"}, "start this container with '--privileged'"),
        ({"self/ns/user": "", "self/status": "Name:\tsh\nSeccomp:\t0\n"}, "run as root"),
    ],
)
def test_without_user_namespaces_the_setting_that_forbids_them_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], remedy: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n", encoding="ascii")
    assert remedy in how_to_allow_namespaces(tmp_path)


def test_programs_that_path_does_not_find_are_no_missing_ones(tmp_path: Path) -> None:
    """As behind sudo, or for a user without /usr/sbin: nothing is tried, and nothing is to be installed."""
    changed = {"PATH": str(tmp_path), "SUDO_USER": "somebody"}
    finished = virtoll("doctor", "--json", changed=changed)
    assert finished.returncode == 1, finished.stderr
    document = json.loads(finished.stdout)
    checks = {row["check"]: row for row in document["host"]}
    assert checks["tools"]["found"].startswith("installed, where PATH does not look: ")
    assert checks["tools"]["remedy"].endswith(" to PATH (sudo sets its own: secure_path in /etc/sudoers)")
    assert (document["platforms"], document["install"]) == ([], [])
    measured = virtoll("run", "quick", "--into", tmp_path / "run", changed=changed)
    assert measured.returncode == 2
    assert "installed, where PATH does not look; add " in measured.stderr
    assert measured.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_missing_tools_are_named_with_this_hosts_command(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_SYSTEM_FOLDERS", str(debian))
    (debian / "ip").symlink_to("/bin/true")
    (check,) = (one for one in doctor.host_checks() if one.check == "tools")
    assert check.blocks
    assert check.found == "missing: mount, umount, losetup, setpriv, unshare, nsenter, taskset"
    assert (check.remedy, check.install) == ("apt-get install mount util-linux", ("mount", "util-linux"))


@pytest.mark.root
def test_root_of_a_container_without_the_right_to_make_namespaces_is_told_so() -> None:
    way = ["setpriv", "--bounding-set=-sys_admin", "--"]
    finished = virtoll("doctor", way=way)
    assert finished.returncode == 1
    assert "nothing can be measured here" in finished.stdout
    assert "-> start this container with '--privileged'" in finished.stdout
    measured = virtoll("run", "quick", "--into", "/nonexistent/run", way=way)
    assert measured.returncode == 2
    assert measured.stderr.count("\n") == 1
    assert "start this container with '--privileged'" in measured.stderr


@pytest.mark.lab
@pytest.mark.root
def test_without_qemu_the_rest_works_and_its_package_is_named() -> None:
    """It is covered in a mount namespace, where a host has it."""
    emulator = packages.EMULATORS[os.uname().machine]
    there = shutil.which(emulator.programs[0])
    way = with_mounts([f"mount --bind /dev/null {Path(there).resolve()}"]) if there else []
    finished = virtoll("doctor", "netns", "qemu-tcg", "--json", way=way)
    assert finished.returncode == 1, finished.stderr
    assert "trying" not in finished.stderr, "what goes on is for a terminal"
    document = json.loads(finished.stdout)
    netns, qemu = document["platforms"]
    assert netns["available"]
    assert qemu["reason"] == f"{emulator.programs[0]}: not found on this host"
    assert (qemu["remedy"], qemu["install"]) == (packages.how_to_install(emulator.name), [emulator.name])
    assert document["install"] == install_commands([emulator.name])


@pytest.mark.lab
@pytest.mark.root
def test_an_ordinary_user_finds_out_the_same_as_root_does_as_nobody() -> None:
    said = virtoll("doctor", "netns", "docker").stdout
    with playground(root=False) as place:
        own = place.run("doctor", "netns", "docker")
    assert own.process.returncode == 1
    if shutil.which("dockerd") is not None and "netns works, also without root: Linux" in said:
        assert "[no] docker, without root: a Docker daemon of the lab's own needs root" in said
        assert "[no] docker: a Docker daemon of the lab's own needs root" in own.said
    assert "netns works, also without root: Linux" in own.said
