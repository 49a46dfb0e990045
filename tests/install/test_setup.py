"""The set-up's pure parts, and what an ordinary user without the packages is reported."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.support.facts import Command, assert_facts
from tests.support.repository import ROOT, load_tool

from virtoll.host import packages

setup = load_tool("setup")


def test_only_what_dpkg_calls_installed_counts() -> None:
    listing = "gcc installed\nrunc config-files\nkmod not-installed\n\nlibc6-dev installed\nodd line here\n"
    assert packages.parse_installed(listing) == {"gcc", "libc6-dev"}


def test_each_machine_needs_its_own_emulator() -> None:
    assert "qemu-system-x86" in setup.needed_packages("x86_64")
    assert "qemu-system-arm" in setup.needed_packages("aarch64")
    assert not [name for name in setup.needed_packages("riscv64") if name.startswith("qemu")]


def test_only_those_who_want_the_tools_need_what_makes_their_image() -> None:
    assert "mmdebstrap" not in setup.needed_packages("x86_64", platforms=True)
    for more in ({"tools": True}, {"dev": True}):
        needed = setup.needed_packages("x86_64", **more)
        assert "mmdebstrap" in needed
        assert len(needed) == len(set(needed))


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which dpkg-query knows no package; each call of apt-get is written to the file `called`."""
    for name, body in {"dpkg-query": "exit 1", "apt-get": f'echo "$@" >> {tmp_path}/called'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{_of_the_shell(tmp_path / 'shell')}")
    return tmp_path


def _of_the_shell(folder: Path) -> Path:
    """What the scripts call, whatever else this machine has."""
    folder.mkdir()
    for name in ("sh", "grep"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


def test_an_ordinary_user_gets_the_exact_command(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert setup.main(["--only", "packages"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    command = packages.install_command(setup.needed_packages(os.uname().machine))
    assert_facts(line, Command(f"sudo {' '.join(command)}"))
    assert not (bare_machine / "called").exists()


def test_another_package_with_the_same_program_stands_in(bare_machine: Path) -> None:
    (bare_machine / "dpkg-query").write_text("#!/bin/sh\necho containerd.io installed\n", encoding="ascii")
    assert setup.missing_packages(["kmod", "runc"]) == ("kmod",)


def test_root_installs_what_is_missing(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert setup.main(["--only", "packages"]) == 0
    called = (bare_machine / "called").read_text(encoding="ascii").splitlines()
    assert called == [" ".join(packages.install_command(setup.needed_packages(os.uname().machine))[1:])]


def test_what_apt_names_after_its_lists_were_fetched_is_installed_too(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker's client, a package of its own from Debian 13 on: a new machine has no lists that say so."""
    fetched, called = bare_machine / "fetched", bare_machine / "called"
    for name, body in {
        "apt-cache": f"[ ! -e {fetched} ] || echo an archive",
        "apt-get": f'echo "$@" >> {called}\n[ "$1" != update ] || : > {fetched}\n[ -e {fetched} ]',
    }.items():
        (bare_machine / name).write_text(f"#!/bin/sh\n{body}\n", encoding="ascii")
        (bare_machine / name).chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert setup.main(["--platforms", "--only", "packages"]) == 0
    first, update, again, later = called.read_text(encoding="ascii").splitlines()
    assert (first, update) == (again, "update")
    assert "docker.io" in first.split()
    assert "docker-cli" not in first.split()
    assert later == " ".join(packages.install_command(["docker-cli"])[1:])


def test_what_tests_need_is_installed_without_its_services(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare_machine / "apt-get").write_text(
        f'#!/bin/sh\necho "${{SYSTEMD_OFFLINE:-0}} $@" >> {bare_machine}/called\n', encoding="ascii"
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert setup.main(["--dev", "--only", "packages"]) == 0
    measuring, testing = (bare_machine / "called").read_text(encoding="ascii").splitlines()
    assert (measuring[:2], testing[:2]) == ("0 ", "1 ")
    assert {"munge", "slurmd", "openssh-server"} <= set(testing.split())
    assert not set(setup.DEV_PACKAGES) & set(measuring.split())


def test_root_refreshes_the_lists_when_the_first_try_fails(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = bare_machine / "called"
    (bare_machine / "apt-get").write_text(
        f'#!/bin/sh\necho "$1" >> {called}\ngrep -q update {called}\n', encoding="ascii"
    )
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert setup.main(["--only", "packages"]) == 0
    assert called.read_text(encoding="ascii").split() == ["install", "update", "install"]


def test_without_rust_the_advice_comes_before_any_long_step(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert bare_machine.is_dir()
    assert setup.main([]) == 2
    assert_facts(capsys.readouterr().err, "Rust", "cargo", "rustup")


def test_the_lock_or_the_larger_lock_satisfies_a_plain_call() -> None:
    plain, dev = setup.wanted_stamps(dev=False)
    assert setup.wanted_stamps(dev=True) == (dev,)
    assert plain != dev


def test_a_stamp_changes_with_the_content(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text("one", encoding="ascii")
    before = setup.stamp_of(lock)
    assert setup.stamp_of(lock) == before
    lock.write_text("two", encoding="ascii")
    assert setup.stamp_of(lock) != before


def test_an_interpreter_that_does_not_start_has_version_zero(tmp_path: Path) -> None:
    assert setup.python_version(tmp_path / "none") == (0, 0)
    assert setup.python_version(Path(sys.executable)) == sys.version_info[:2]


def test_a_static_program_is_told_from_a_dynamic_one() -> None:
    assert not setup.is_static(Path(sys.executable).resolve().read_bytes())
    assert not setup.is_static(b"#!/bin/sh\n")


def test_the_agent_is_placed_once(tmp_path: Path) -> None:
    built, target = tmp_path / "built", tmp_path / "build" / "agent"
    built.write_bytes(b"one")
    assert setup.place(built, target)
    assert not setup.place(built, target)
    assert os.access(target, os.X_OK)
    built.write_bytes(b"two")
    assert setup.place(built, target)
    assert target.read_bytes() == b"two"
    assert [path.name for path in target.parent.iterdir()] == ["agent"]


def test_an_unchanged_agent_is_compiled_once(capfd: pytest.CaptureFixture[str]) -> None:
    """It takes a minute; Cargo takes a missing path that a build script names for a change."""
    if not os.access(ROOT / "target", os.W_OK):
        pytest.skip("the clone's target folder is another user's")
    setup.build_agent()
    capfd.readouterr()
    setup.build_agent()
    printed = capfd.readouterr()
    assert "Compiling" not in printed.out + printed.err
