"""A victim and an attacker on one machine: their folders, below a temporary one that is gone afterwards.

Main types: ``Users`` and ``Place`` (the folders of one case). Main function: ``a_place``. Must not make
anything outside of the place.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TOKEN: Final = "VIRTOLL_NEIGHBOURS"  # noqa: S105 - a name
"""A variable of each process that a case starts; the place is its value."""
VIRTOLL: Final = Path(sys.executable).parent / "virtoll"


@dataclass(frozen=True)
class Users:
    """Who is attacked by whom, by their numbers; as an ordinary user both are this user."""

    victim: int
    attacker: int

    @property
    def two(self) -> bool:
        """Whether the attacker is another user."""
        return self.victim != self.attacker


@dataclass(frozen=True)
class Place:
    """The folders of one case. ``cache``: what the victim's cache is a copy of, so that no image is built again."""

    top: Path
    users: Users
    cache: Path | None = None

    @property
    def home(self) -> Path:
        """The victim's."""
        return self.top / "home"

    @property
    def precious(self) -> Path:
        """The victim's files that no command is given: they must stay as they are."""
        return self.home / "precious"

    @property
    def runs(self) -> Path:
        """The victim's runs folder."""
        return self.home / "runs"

    @property
    def attacker(self) -> Path:
        """The attacker's folder, which all may read."""
        return self.top / "attacker"

    @property
    def temporary(self) -> Path:
        """The temporary folder, of all users."""
        return self.top / "tmp"

    @property
    def reached(self) -> Path:
        """Each program of the attacker's that is executed leaves a file here."""
        return self.top / "reached"

    @property
    def environment(self) -> dict[str, str]:
        """Of the victim's command."""
        return {
            "PATH": f"{VIRTOLL.parent}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "VIRTOLL_RUNS": str(self.runs),
            "VIRTOLL_CACHE": str(self.home / "cache"),
            "VIRTOLL_STATE": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "own"),
            "XDG_CACHE_HOME": str(self.home / "own"),
            "MPLCONFIGDIR": str(self.home / "own"),
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "LC_ALL": "C.UTF-8",
            TOKEN: str(self.top),
        }

    @property
    def writable(self) -> tuple[Path, ...]:
        """What is the victim's to write."""
        return tuple(self.home / name for name in ("runs", "cache", "own", "here", "state"))

    def make(self) -> Place:
        """Make all of it, with files of the victim's and of the attacker's."""
        self.top.chmod(0o711)
        for folder in (self.home, *self.writable[:-1]):
            self.folder(folder, self.users.victim, 0o711)
        if self.cache is not None:
            shutil.copytree(self.cache, self.home / "cache", symlinks=True, dirs_exist_ok=True)
            self.give(self.home / "cache", self.users.victim)
        self.folder(self.attacker, self.users.attacker, 0o755)
        self.folder(self.temporary, os.geteuid(), 0o1777)
        self.folder(self.reached, os.geteuid(), 0o1777)
        _write_precious(self.precious)
        self.give(self.precious, self.users.victim)
        script = self.attacker / "script"
        script.write_text(f"#!/bin/sh\n{self.canary('script')}\n", encoding="utf-8")
        script.chmod(0o755)
        self.give(script, self.users.attacker)
        return self

    def canary(self, name: str) -> str:
        """Words of a shell that leave a file where executed programs do."""
        return f": > {self.reached}/$$-{name}"

    def folder(self, path: Path, owner: int, mode: int) -> Path:
        """Make a folder of somebody's."""
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, owner, owner)
        path.chmod(mode)
        return path

    def give(self, path: Path, owner: int) -> None:
        """Make a user the owner of all that is there; links are not followed, and hard links keep their owner."""
        if path.is_symlink() or not path.is_file() or path.stat().st_nlink == 1:
            os.lchown(path, owner, owner)
        if path.is_dir() and not path.is_symlink():
            for entry in os.scandir(path):
                self.give(Path(entry.path), owner)


def _write_precious(folder: Path) -> None:
    site = folder / "site"
    for name in ("tables", "figures"):
        (site / name).mkdir(parents=True)
        (site / name / "mine.svg").write_text("mine\n", encoding="utf-8")
    (site / "index.html").write_text("<p>mine</p>\n", encoding="utf-8")
    (folder / "bashrc").write_text("PS1='> '\n", encoding="utf-8")
    (folder / "records.jsonl").write_text('{"mine":1}\n', encoding="utf-8")
    record = folder / "labs" / "virtoll-000000000000"
    record.mkdir(parents=True)
    (record / "thesis.txt").write_text("mine\n", encoding="utf-8")
    for name, text in (("cgroup.subtree_control", "cpu memory\n"), ("driver_override", "mine\n")):
        (folder / "device").mkdir(exist_ok=True)
        (folder / "device" / name).write_text(text, encoding="ascii")


@contextlib.contextmanager
def a_place(users: Users, cache: Path | None = None) -> Iterator[Place]:
    """Folders for one case, gone afterwards."""
    top = Path(tempfile.mkdtemp(prefix="virtoll-neighbours-", dir="/var/tmp"))
    try:
        yield Place(top, users, cache).make()
    finally:
        if os.geteuid() != 0:
            _opened(top)
        shutil.rmtree(top, ignore_errors=True)


def _opened(top: Path) -> None:
    """Let this user into each folder again."""
    for folder, names, _ in os.walk(top):
        for name in names:
            if not (path := Path(folder, name)).is_symlink():
                path.chmod(0o700)
