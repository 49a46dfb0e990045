"""What tests of nested hosts share: Debian's archive as it is written down, and an empty cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.nested_packages import Archive

from virtoll.image import debian
from virtoll.image.cache import Cache


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Archive:
    made = Archive()
    for name in ("fetch_closure", "install", "run"):
        monkeypatch.setattr(debian, name, getattr(made, name))
    return made


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")
