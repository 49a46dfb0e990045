"""A campaign of 24 blocks on models, measured once a session, and a copy of its parts for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.campaign_parts import BLOCKS, measured


@pytest.fixture(scope="session")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 blocks: 23 parts, of which one has two blocks; to be copied."""
    folder = tmp_path_factory.mktemp("campaign")
    for block in range(1, BLOCKS - 1):
        measured(folder, block)
    measured(folder, BLOCKS - 1, BLOCKS)
    return folder


@pytest.fixture
def parts(campaign: Path, tmp_path: Path) -> Path:
    """A copy of the campaign's parts."""
    return Path(shutil.copytree(campaign, tmp_path / "parts"))
