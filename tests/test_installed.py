"""Virtoll finds its own files wherever the package is, and says what is missing where it has no clone around it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.commands import REPOSITORY

from virtoll.errors import AgentUnusable
from virtoll.image import clone


def apart(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of a copy of the package, four folders deep and outside any clone."""
    site = folder / "usr" / "lib" / "python" / "site-packages"
    shutil.copytree(REPOSITORY / "src" / "virtoll", site / "virtoll", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(site), "VIRTOLL_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-m", "virtoll", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_package_that_was_installed_apart_carries_its_experiments(tmp_path: Path) -> None:
    planned = apart(tmp_path, "plan", "models")
    assert planned.returncode == 0, planned.stderr
    assert "model-cost-25" in planned.stdout


def test_an_agent_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = apart(tmp_path, "wire", "--help")
    assert missing.returncode == 2
    assert missing.stderr.startswith("virtoll: the agent /")
    assert "is missing; install Virtoll again from a wheel" in missing.stderr
    assert "make" not in missing.stderr


def test_an_agent_that_cannot_run_here_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = tmp_path / "agent"
    monkeypatch.setenv(clone.AGENT_VARIABLE, str(named))
    other = {"x86_64": 183}.get(platform.machine(), 62)
    head = b"\x7fELF\x02\x01".ljust(18, b"\0") + other.to_bytes(2, "little")
    for content, mode, complaint in (
        (None, 0, "is missing; VIRTOLL_AGENT names it"),
        (b"#!/bin/sh", 0o755, "is no 64-bit program"),
        (head.ljust(64, b"\0"), 0o755, f"and this is {platform.machine()}"),
        ((REPOSITORY / "build" / "virtoll-agent").read_bytes(), 0o644, "chmod 0755"),
    ):
        if content is not None:
            named.write_bytes(content)
            named.chmod(mode)
        with pytest.raises(AgentUnusable, match=complaint) as caught:
            clone.usable_agent()
        assert caught.value.exit_code == 2
    named.chmod(0o755)
    assert clone.usable_agent() == named


def test_a_clone_has_its_own_agent_and_simulator() -> None:
    assert clone.built_agent() == REPOSITORY / "build" / "virtoll-agent"
    assert (clone.tool_source("vcsim") / "main.go").is_file()
