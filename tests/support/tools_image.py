"""A small image ``full``: the tools are two packages of a mirror that is made for it, one of them busybox."""

from __future__ import annotations

from pathlib import Path

from tests.support.package_mirror import Mirror

from virtoll.image import Cache, GuestImage, default_cache, prepare_image

WORD = "/usr/share/word/word"
"""Holds "from word"."""


def small_tools_image(folder: Path, busybox: bytes) -> GuestImage:
    """The image, in a cache in this folder; ``busybox``: the program that becomes /usr/bin/busybox in it."""
    folder.parent.chmod(0o755)
    mirror = Mirror(folder / "mirror")
    mirror.folder.mkdir()
    mirror.add("word", depends="programs")
    mirror.add("programs", program=busybox)
    cache = Cache(folder / "cache", (default_cache().home, *default_cache().others))
    return prepare_image("full", kernel=True, cache=cache, recipe=mirror.recipe("word"), offline=False)
