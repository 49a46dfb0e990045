"""Virtoll finds its own files wherever the package is, and says what is missing where it has no clone around it."""

from __future__ import annotations

import ast
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.support.commands import environment
from tests.support.facts import assert_facts, assert_refused, refused
from tests.support.repository import ROOT

from virtoll.cli.host import doctor
from virtoll.cli.lab import check_lab
from virtoll.cli.setup import setup
from virtoll.errors import DEB_INSTALLER, REMEDIES, AgentUnusable, UsageError
from virtoll.image import clone


def apart(
    folder: Path, *arguments: str, installer: str = "pip", way: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """A command of a copy of the package, four folders deep and outside any clone.

    ``installer``: who put it there, as its metadata says; ``way``: a command that runs it.
    """
    site = folder / "usr" / "lib" / "python" / "site-packages"
    shutil.copytree(ROOT / "src" / "virtoll", site / "virtoll", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "virtoll-0.1.0.dist-info").mkdir()
    (site / "virtoll-0.1.0.dist-info" / "INSTALLER").write_text(f"{installer}\n", encoding="ascii")
    return subprocess.run(
        [*way, sys.executable, "-m", "virtoll", *arguments],
        cwd=folder,
        env=environment(PYTHONPATH=str(site), VIRTOLL_CACHE=str(folder / "cache")),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_package_that_was_installed_apart_carries_its_experiments(tmp_path: Path) -> None:
    planned = apart(tmp_path, "plan", "models")
    assert planned.returncode == 0, planned.stderr
    assert "model-cost-25" in planned.stdout


@pytest.mark.parametrize(("installer", "remedy"), [("pip", ("wheel",)), (DEB_INSTALLER, ("Virtoll's Debian package",))])
def test_a_missing_agent_is_named_with_its_remedy(tmp_path: Path, installer: str, remedy: tuple[str, ...]) -> None:
    missing = apart(tmp_path, "wire", "--help", installer=installer)
    agent = tmp_path / "usr" / "lib" / "python" / "site-packages" / "virtoll" / "bin" / "virtoll-agent"
    assert_refused(missing, agent, *remedy)
    assert "make agent" not in missing.stderr


@pytest.mark.skipif(shutil.which("setarch") is None, reason="needs setarch")
def test_a_machine_that_no_agent_is_made_for_is_refused(tmp_path: Path) -> None:
    finished = apart(tmp_path, "wire", "--help", way=["setarch", "linux32"])
    machine = subprocess.run(["setarch", "linux32", "uname", "-m"], capture_output=True, text=True, check=True).stdout
    assert_refused(finished, "x86_64", "aarch64", machine.strip())
    assert finished.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [lambda: doctor(["netns"]), setup, check_lab])
def test_another_system_than_linux_is_refused(monkeypatch: pytest.MonkeyPatch, command: Callable[[], None]) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with refused("Linux", "Darwin", error=UsageError):
        command()


@pytest.mark.lab
def test_a_kernel_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(platform, "release", lambda: "4.19.0-27-amd64")
    check_lab()
    warning = capsys.readouterr().err
    assert_facts(warning, "Linux 4.19.0-27-amd64", "Linux 5.10")
    assert warning.count("\n") == 1


def test_make_is_spoken_of_in_a_clone_alone() -> None:
    """Every remedy that names a target of the Makefile is among those that `remedy_for` chooses from."""
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src" / "virtoll").rglob("*.py")}
    naming = [
        (path.name, node.value)
        for path, text in texts.items()
        if "make " in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search("'make [a-z]", node.value)
        if path.name != "schema.py"  # a docstring, for who changes it
    ]
    assert {name for name, _ in naming} == {"errors.py"}
    assert {said for _, said in naming} == {by["clone"] for by in REMEDIES.values() if "'make " in by["clone"]}
    assert not [said for by in REMEDIES.values() for where, said in by.items() if where != "clone" and "make" in said]


def test_an_agent_that_cannot_run_here_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = tmp_path / "agent"
    monkeypatch.setenv(clone.AGENT_VARIABLE, str(named))
    other = {"x86_64": 183}.get(platform.machine(), 62)
    head = b"\x7fELF\x02\x01".ljust(18, b"\0") + other.to_bytes(2, "little")
    for content, mode, fact in (
        (None, 0, "VIRTOLL_AGENT"),
        (b"#!/bin/sh", 0o755, "64-bit"),
        (head.ljust(64, b"\0"), 0o755, platform.machine()),
        ((ROOT / "build" / "virtoll-agent").read_bytes(), 0o644, "chmod 0755"),
    ):
        if content is not None:
            named.write_bytes(content)
            named.chmod(mode)
        with refused(named, fact, error=AgentUnusable) as caught:
            clone.usable_agent()
        assert isinstance(caught.value, AgentUnusable)
        assert caught.value.exit_code == 2
    named.chmod(0o755)
    assert clone.usable_agent() == named


def test_a_clone_has_its_own_agent_and_simulator() -> None:
    assert clone.built_agent() == ROOT / "build" / "virtoll-agent"
    assert (clone.tool_source("vcsim") / "main.go").is_file()
