"""``virtoll setup``: what it installs, prints or names, on hosts of which PATH has these programs alone."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.facts import Command, assert_facts, missing_facts, refused

from virtoll.cli.lab import prepare_outside
from virtoll.cli.setup import setup
from virtoll.errors import UsageError
from virtoll.host import packages


def program(folder: Path, name: str, body: str) -> None:
    """A program of a host's; what it is called with stands in the file ``called``."""
    (folder / name).write_text(f'#!/bin/sh\necho "$0 $@" >> {folder}/called\n{body}\n', encoding="ascii")
    (folder / name).chmod(0o755)


@pytest.fixture(scope="module", autouse=True)
def _images() -> None:
    """The images are there: on a host without anything none could be built."""
    prepare_outside("tiny", "debug", kernel=True)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host without anything, and without system folders that are looked into besides."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(packages, "SYSTEM_FOLDERS", ())  # where this machine's own programs are
    monkeypatch.delenv("SUDO_USER", raising=False)
    return tmp_path / "bin"


@pytest.fixture
def debian(host: Path) -> Path:
    """A Debian on which iproute2 and QEMU are missing."""
    there = {one.name for one in packages.needed(platform.machine())} - {"iproute2", qemu()}
    program(host, "dpkg-query", "\n".join(f"echo {name} installed" for name in sorted(there)))
    program(host, "apt-get", "exit 0")
    return host


def qemu() -> str:
    return packages.EMULATORS[platform.machine()].name


def _dnf(debian: str) -> str:
    """What dnf calls a package."""
    ((name,), _) = packages.names_for("dnf", [debian])
    return name


def calls(host: Path, name: str) -> list[str]:
    lines = (host / "called").read_text(encoding="ascii").splitlines()
    return [line.split(" ", 1)[1] for line in lines if line.startswith(f"{host}/{name} ")]


def wanted() -> str:
    return " ".join(packages.install_command(sorted(["iproute2", qemu()])))


def test_an_ordinary_user_gets_the_exact_command(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with refused(Command(f"sudo {wanted()}"), error=UsageError):
        setup()
    assert calls(debian, "apt-get") == []


def test_print_prints_and_installs_nothing(debian: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup(print_only=True)
    assert capsys.readouterr().out == f"{wanted()}\n"
    assert calls(debian, "apt-get") == []


def test_root_installs_and_the_images_are_prepared(
    debian: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    setup()
    command = wanted().removeprefix("apt-get ")
    assert calls(debian, "apt-get") == [f"{command} --simulate", command]
    assert_facts(capsys.readouterr().out, "virtoll doctor")


def test_an_installation_that_fails_twice_names_its_command(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(debian, "apt-get", '[ "$1" = update ]')
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with refused(Command(wanted()), 1, "virtoll setup"):
        setup()
    assert [line.split()[0] for line in calls(debian, "apt-get")] == ["install", "update", "install"]


def test_a_package_of_newer_releases_is_asked_for_where_apt_has_it(
    debian: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Docker's client: in ``docker.io`` up to Debian 12, in ``docker-cli`` from 13 on. apt refuses unknown names."""
    assert packages.missing_packages(["docker-cli", "docker.io", "lxc"]) == ("docker.io", "lxc")
    assert packages.how_to_install("docker.io", "docker-cli") == "apt-get install docker.io"
    assert_facts(packages.how_to_install("docker.io", "docker-cli", here=False), "docker.io", "docker-cli")
    program(debian, "apt-cache", 'echo "$2 | 26.1 | an archive"')
    assert packages.missing_packages(["docker-cli", "docker.io"]) == ("docker-cli", "docker.io")
    assert packages.how_to_install("docker.io", "docker-cli") == "apt-get install docker.io docker-cli"
    assert calls(debian, "apt-cache") == ["madison docker-cli"] * 2
    setup(platforms=True, print_only=True)
    assert {"docker-cli", "docker.io", "lxc"} <= set(capsys.readouterr().out.split())


def test_what_apt_names_after_its_lists_were_fetched_is_installed_too(
    debian: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(debian, "apt-cache", f"[ ! -e {debian}/fetched ] || echo an archive")
    program(debian, "apt-get", f"if [ $1 = update ]; then : >{debian}/fetched; else [ -e {debian}/fetched ]; fi")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("virtoll.cli.setup._build_gvisor", lambda: None)  # minutes, and another test's
    setup(platforms=True)
    asked = [line.split() for line in calls(debian, "apt-get")]
    assert [words[0] for words in asked] == ["install", "update", "install", "install", "install"]
    assert "docker-cli" not in asked[2]
    assert asked[4][-1] == "docker-cli"


def test_without_apt_the_programs_are_named_with_their_purpose(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(host, "pacman", "exit 1")
    program(host, "ip", "exit 0")
    with refused("mount", "util-linux", "apt", error=UsageError, without=("iproute2",)):
        setup()
    _, *lines, last = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.split()[:2] == ["runc", "containers"]]
    assert not [line for line in lines if line.split()[0] == "ip"]
    assert_facts(last, "pacman -S e2fsprogs util-linux")
    assert last.split().count("util-linux") == 1


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_busybox_under_the_names_of_programs_does_not_stand_for_them(
    host: Path, capsys: pytest.CaptureFixture[str], link: Callable[[Path, Path], None]
) -> None:
    """Its ``ps`` alone is as good; with Alpine's names, whose util-linux brings all of its parts."""
    program(host, "apk", "exit 1")
    program(host, "busybox", "exit 0")
    for name in ("ip", "mount", "umount", "losetup", "setpriv", "unshare", "nsenter", "taskset", "mke2fs", "ps"):
        link(host / "busybox", host / name)
    lacking = packages.lacking_tools()
    assert lacking is not None
    assert_facts(lacking.in_words, "busybox", *lacking.programs)
    assert lacking.stand_ins == lacking.programs
    with refused("iproute2", "mount", "util-linux", "apt", error=UsageError):
        setup()
    last = capsys.readouterr().out.splitlines()[-1]
    assert_facts(last, Command("apk add e2fsprogs iproute2 util-linux"))
    assert "procps" not in last


@pytest.fixture
def measuring(host: Path) -> Path:
    """A host without apt that has what measuring takes, and neither QEMU nor a container's runtime."""
    for package in packages.TO_RUN:
        for name in package.programs if package.name in packages.TO_MEASURE else ():
            program(host, name, "exit 0")
    return host


def test_without_apt_and_qemu_containers_are_not_refused(measuring: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(measuring, "dnf", "exit 1")
    setup()
    *_, command, left_out, last = capsys.readouterr().out.splitlines()
    assert_facts(command, Command(f"dnf install e2fsprogs procps-ng {_dnf(qemu())} runc"))
    assert_facts(left_out, "machines", "containers")
    assert_facts(last, "virtoll doctor")


def test_the_kernel_is_fetched_only_where_a_machine_can_boot_it(
    measuring: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VIRTOLL_KERNEL", str(tmp_path / "none.deb"))  # which is read where the kernel is wanted
    setup()
    program(measuring, packages.EMULATORS[platform.machine()].programs[0], "exit 0")
    with refused(tmp_path / "none.deb", error=UsageError):
        setup()


def test_an_ordinary_user_without_qemu_gets_the_command_and_goes_on(
    debian: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = sorted({one.name for one in packages.needed(platform.machine())} - {qemu()})
    program(debian, "dpkg-query", "\n".join(f"echo {name} installed" for name in there))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    setup()
    command, left_out, *_ = capsys.readouterr().out.splitlines()
    assert_facts(command, Command(f"sudo {' '.join(packages.install_command([qemu()]))}"))
    assert missing_facts(left_out, "machines", "containers") == ["containers"]
    assert calls(debian, "apt-get") == []


def test_without_any_known_manager_all_names_are_there(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup(print_only=True)
    said = capsys.readouterr().out
    assert "  ip " in said
    for manager, name in (("dnf", "iproute"), ("pacman", "iproute2"), ("zypper", "procps"), ("apk", "runc")):
        (line,) = [line for line in said.splitlines() if line.startswith(f"with {manager}: ")]
        assert name in line.split()
    assert list(host.iterdir()) == []


def test_a_package_of_two_lists_is_named_once() -> None:
    names = [one.name for one in packages.needed("x86_64", platforms=True, tools=True)]
    assert names == sorted(set(names))
    assert {"runc", "mmdebstrap", "qemu-system-x86", "lxc"} <= set(names)


def test_what_debian_has_not_for_a_machine_is_not_asked_for() -> None:
    """Debian 12, 13 and sid for arm64 have no user-mode-linux: apt would refuse the whole command."""
    there, missing = (
        {one.name for one in packages.needed(machine, platforms=True, tools=True)} for machine in ("x86_64", "aarch64")
    )
    assert there - missing == {"user-mode-linux", "qemu-system-x86"}
    assert missing - there == {"qemu-system-arm"}


def test_every_program_is_of_its_package() -> None:
    """Where a package is installed, as after ``make setup``, each of its programs is found."""
    if shutil.which("dpkg-query") is None:
        pytest.skip("needs dpkg")
    needed = packages.needed(platform.machine(), platforms=True, tools=True)
    missing = packages.missing_packages([one.name for one in needed])
    there = [one for one in needed if one.name not in missing]
    assert packages.without_programs(there) == ()


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        ("apt-get", "apt-get install runc docker.io"),
        ("dnf", "dnf install runc moby-engine"),
        ("pacman", "pacman -S runc docker"),
        ("zypper", "zypper install runc docker"),
        ("apk", "apk add runc docker"),
        ("emerge", ""),
    ],
)
def test_a_remedy_is_a_command_of_the_hosts_package_manager(host: Path, manager: str, expected: str) -> None:
    program(host, manager, "exit 0")
    if manager == "apt-get":
        program(host, "dpkg-query", "exit 0")
    remedy = packages.how_to_install("runc", "docker.io")
    assert remedy == expected or not expected
    if not expected:
        assert_facts(remedy, "runc", "docker.io", "Debian", "install")
    assert_facts(packages.how_to_install("runc", here=False), "runc", "Debian", "there")


def test_a_package_without_a_certain_name_is_named_as_debian_does(host: Path) -> None:
    program(host, "apk", "exit 0")
    remedy = packages.how_to_install("lxc", "user-mode-linux")
    assert remedy.startswith("apk add lxc,")
    assert_facts(remedy, "user-mode-linux", "Debian")


def test_a_missing_program_is_installed_by_the_hosts_own_package_manager(host: Path) -> None:
    program(host, "apk", "exit 0")
    assert_facts(packages.why_missing("crun"), "crun")
    assert packages.how_to_install("crun") == "apk add crun"


@pytest.mark.parametrize(
    ("path", "first"),
    [("/opt/bin", ["/opt/bin"]), ("/usr/bin::/opt/bin", ["/usr/bin", "/opt/bin"]), ("", []), (None, [])],
)
def test_system_folders_are_searched_last_whatever_path_says(
    monkeypatch: pytest.MonkeyPatch, path: str | None, first: list[str]
) -> None:
    """As behind sudo, whose PATH is its own, and for an ordinary user whose PATH leaves them out."""
    monkeypatch.delenv("PATH") if path is None else monkeypatch.setenv("PATH", path)
    packages.search_system_folders()
    folders = os.environ["PATH"].split(":")
    assert folders[: len(first)] == first
    assert sorted(folders) == sorted({*first, *packages.SYSTEM_FOLDERS})
