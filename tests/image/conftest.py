"""What the image tests share: a clean cache that may read the machine's own, so that a filled one needs no network."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from virtoll.image import GuestImage, prepare_image
from virtoll.image.cache import Cache, default_cache


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """An empty cache."""
    return Cache(tmp_path / "cache")


@pytest.fixture
def backed_cache(tmp_path: Path) -> Cache:
    """An empty cache that also reads the machine's own: packages and kernels come from there."""
    return _backed(tmp_path)


@pytest.fixture
def fake_agent(tmp_path: Path) -> Path:
    """A file that is taken for the agent; it is never started."""
    return _fake_agent(tmp_path)


@pytest.fixture(scope="session")
def debug_image(tmp_path_factory: pytest.TempPathFactory) -> GuestImage:
    """An image with files, programs and links, whose agent is never started; tests only read it."""
    folder = tmp_path_factory.mktemp("debug")
    return prepare_image("debug", kernel=True, cache=_backed(folder), agent=_fake_agent(folder))


def _backed(folder: Path) -> Cache:
    machine = default_cache()
    return Cache(folder / "cache", (machine.home, *machine.others))


def _fake_agent(folder: Path) -> Path:
    agent = folder / "agent"
    agent.write_bytes(b"\x7fELF" + struct.pack("<Q", 23))
    agent.chmod(0o755)
    return agent
