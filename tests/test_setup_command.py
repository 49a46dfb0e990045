"""``virtoll setup``: what it installs, prints or names, on hosts of which PATH has these programs alone."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

import pytest

from virtoll.cli.setup import setup
from virtoll.errors import UsageError, VirtollError
from virtoll.host import packages


def program(folder: Path, name: str, body: str) -> None:
    """A program of a host's; what it is called with stands in the file ``called``."""
    (folder / name).write_text(f'#!/bin/sh\necho "$0 $@" >> {folder}/called\n{body}\n', encoding="ascii")
    (folder / name).chmod(0o755)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host without anything, and without system folders that are looked into besides."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(packages, "_SYSTEM_FOLDERS", "")
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


def calls(host: Path, name: str) -> list[str]:
    lines = (host / "called").read_text(encoding="ascii").splitlines()
    return [line.split(" ", 1)[1] for line in lines if line.startswith(f"{host}/{name} ")]


def wanted() -> str:
    return " ".join(packages.install_command(sorted(["iproute2", qemu()])))


def test_an_ordinary_user_gets_the_exact_command(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="missing, install them with: sudo apt-get install -y") as refused:
        setup()
    assert str(refused.value).endswith(wanted())
    assert refused.value.exit_code == 2
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
    assert calls(debian, "apt-get") == [wanted().removeprefix("apt-get ")]
    assert "'virtoll doctor' says what works" in capsys.readouterr().out


def test_an_installation_that_fails_twice_names_its_command(debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(debian, "apt-get", '[ "$1" = update ]')
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(VirtollError, match=r"'apt-get install .*' ended with 1: see above"):
        setup()
    assert [line.split()[0] for line in calls(debian, "apt-get")] == ["install", "update", "install"]


def test_without_apt_the_programs_are_named_with_their_purpose(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(host, "pacman", "exit 1")
    program(host, "ip", "exit 0")
    with pytest.raises(UsageError, match="this host has no apt"):
        setup()
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert first == "missing on this host:"
    assert [line for line in lines if line.split()[:2] == ["runc", "containers"]]
    assert not [line for line in lines if line.split()[0] == "ip"]
    assert last.startswith("with pacman: pacman -S e2fsprogs util-linux ")
    assert last.split().count("util-linux") == 1


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


def test_every_program_is_of_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a package is installed, as after ``make setup``, each of its programs is found."""
    if shutil.which("dpkg-query") is None:
        pytest.skip("needs dpkg")
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/bin:/bin")
    needed = packages.needed(platform.machine(), platforms=True, tools=True)
    missing = packages.missing_packages([one.name for one in needed])
    there = [one for one in needed if one.name not in missing]
    assert packages.without_programs(there) == ()
