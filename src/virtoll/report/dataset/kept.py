"""The Parquet files of runs, each made once and kept: ``<home>/<run>-<place>-<state>/<table>.parquet``.

``place`` is a digest of the run's path, ``state`` one of its files (names, sizes, times, inodes) and of the code that
makes the tables: a run that changed, or another Virtoll, has them made anew. They are made in a folder beside and
renamed, so that they are whole or not there; of two that make the same at once, one takes the other's.

Main type: ``Kept``. Must not: write anything into a run's folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from virtoll.errors import RunFolderError, StorageError
from virtoll.report.build import load
from virtoll.report.dataset.arrow import arrow_tables, write_parquet
from virtoll.report.dataset.tables import TABLES, VERSION
from virtoll.runfolder.damage import damage_told
from virtoll.runfolder.jsonlines import sync_directory
from virtoll.runfolder.sums import SUMS, differences
from virtoll.runfolder.under_way import under_way
from virtoll.system.private import NotPrivate, make_shown_folder

if TYPE_CHECKING:
    import pyarrow as pa

READ: Final = (
    "manifest.json",
    "state.json",
    "trials.jsonl",
    "boots.jsonl",
    "calibration.jsonl",
    "footprints.jsonl",
)
"""The files of a run folder that the tables are made of."""
_CODE: Final = (
    "runfolder",
    "stats",
    "report",
    "report/dataset",
    *map("report/sections/{}".format, ("forwarding", "guests")),
)
_UNDER_WAY: Final = ".new-"
_OLD_SECONDS: Final = 24 * 3600  # nobody reads or makes them any more


@dataclass(frozen=True)
class Kept:
    """Where they are kept."""

    home: Path

    def prepare(self) -> None:
        """Empty the folder if others could write to it; ``StorageError`` if it is another user's or cannot be made."""
        try:
            make_shown_folder(self.home)
        except (OSError, NotPrivate) as error:
            raise self._cannot_keep(error) from error

    def place_of(self, run: Path) -> Path:
        """The folder with the files of a run as it is now: it is there once they are made."""
        return self.home / f"{_prefix(run)}{_state_of(run)}"

    def make(self, run: Path, place: Path) -> None:
        """Make the files of a run at its place, which was asked for before.

        Raises ``RunFolderError`` where the run cannot be read, or changed since it ended, ``StorageError`` where they
        cannot be written, and ``UsageError`` where pyarrow is not installed.
        """
        changed = [difference for difference in differences(run) or () if difference.partition(":")[0] in (*READ, SUMS)]
        if changed:  # in a table of a thousand runs nobody would see a note
            raise RunFolderError(
                f"{run} is not as it was when the run ended: {'; '.join(changed)}. Take a copy that is whole."
            )
        with damage_told(run):
            tables = arrow_tables(load(run))
        self.keep(place, tables)

    def keep(self, place: Path, tables: dict[str, pa.Table]) -> None:
        """Put tables there, all at once; one that is there already is left alone. ``StorageError``."""
        self.prepare()
        try:
            with under_way(self.home, _UNDER_WAY) as room:
                fresh = room / "tables"
                fresh.mkdir(0o755)
                for name, table in tables.items():
                    write_parquet(table, fresh / f"{name}.parquet")
                sync_directory(fresh)
                fresh.rename(place)
        except OSError as error:
            if place.is_dir():  # another process was first
                return
            raise self._cannot_keep(error) from error
        self._sweep(place)

    def _cannot_keep(self, error: OSError | NotPrivate) -> StorageError:
        reason = error.strerror if isinstance(error, OSError) else None
        return StorageError(
            f"cannot keep tables in {self.home} ({reason or error}); make room, or set VIRTOLL_CACHE to a folder that "
            "you may write to"
        )

    def _sweep(self, place: Path) -> None:
        """Remove what was kept of the same run as it was before, and is a day old."""
        prefix = place.name.rpartition("-")[0] + "-"
        for other in self.home.iterdir():
            if other != place and other.name.startswith(prefix) and _is_old(other):
                shutil.rmtree(other, ignore_errors=True)


def files(places: Iterable[Path]) -> dict[str, list[Path]]:
    """The files of several runs by table."""
    folders = list(places)
    return {name: [place / f"{name}.parquet" for place in folders] for name in TABLES}


def _prefix(run: Path) -> str:
    path = os.path.realpath(run)
    name = re.sub(r"[^A-Za-z0-9.-]", "_", run.name)[:80]
    return f"{name}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}-"


def _state_of(run: Path) -> str:
    """A digest of what changes when one of the files does, and of the code."""
    digest = hashlib.sha256(_code().encode())
    for name in READ:
        try:
            status = os.stat(f"{run}/{name}")  # noqa: PTH116 - of a thousand runs, paths as objects take twice as long
        except OSError:
            continue
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\0{status.st_ino}\0".encode())
    return digest.hexdigest()[:16]


@cache
def _code() -> str:
    """A digest of the code that makes the tables: a clone changes without its version."""
    top, digest = Path(__file__).resolve().parents[2], hashlib.sha256(str(VERSION).encode())
    for room in _CODE:
        for path in sorted((top / room).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _OLD_SECONDS
    except OSError:
        return False
