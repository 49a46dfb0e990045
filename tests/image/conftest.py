"""What the image tests share: a clean cache that may read the machine's own, so that a filled one needs no network."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from virtoll.image.cache import Cache, default_cache


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """An empty cache."""
    return Cache(tmp_path / "cache")


@pytest.fixture
def backed_cache(tmp_path: Path) -> Cache:
    """An empty cache that also reads the machine's own: packages and kernels come from there."""
    machine = default_cache()
    return Cache(tmp_path / "cache", (machine.home, *machine.others))


@pytest.fixture
def fake_agent(tmp_path: Path) -> Path:
    """A file that is taken for the agent; it is never started."""
    agent = tmp_path / "agent"
    agent.write_bytes(b"\x7fELF" + struct.pack("<Q", 23))
    agent.chmod(0o755)
    return agent
