"""Which runs and exports a person means by some places, and their tables, made where they are not kept.

Main types: ``Gathered`` (the files of all of them, and what could not be read). Main functions: ``gather``,
``exported``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from virtoll.cli.folders import kept_tables, run_folders, runs_directory, runs_of
from virtoll.errors import RunFolderError, UsageError

if TYPE_CHECKING:
    from virtoll.report.dataset.query import Sources


@dataclass(frozen=True)
class Gathered:
    """The files of each table, and a sentence for each run that is left out: it cannot be read, or is there twice."""

    sources: Sources
    left_out: tuple[str, ...]


def exported(place: str) -> dict[str, list[str]] | None:
    """The files of an export by table, of a folder or a bucket's address; None where the place is none.

    Of a bucket nobody looks: the files are whatever is there when they are read.
    """
    from virtoll.report.dataset.query import BUCKETS
    from virtoll.report.dataset.tables import TABLES

    if place.startswith(BUCKETS):
        return {name: [f"{place.rstrip('/')}/{name}/*.parquet"] for name in TABLES}
    found = {name: sorted(map(str, Path(place).absolute().glob(f"{name}/*.parquet"))) for name in TABLES}
    return found if any(found.values()) else None


def folders_of(places: Sequence[str]) -> list[Path]:
    """The folders of these runs and folders of runs, each once; of no place all runs of the runs folder.

    ``UsageError`` where there is no run.
    """
    if places:
        return list(dict.fromkeys(found for place in places for found in runs_of(place)))
    found = run_folders()
    if not found:
        raise UsageError(f"no run in {runs_directory()}; give runs, a folder of runs, or a folder of an export")
    return found


def gather(places: Sequence[str], progress: Callable[[str], None]) -> Gathered:
    """The tables of all of these: runs, folders of runs, exports. ``progress`` is told what takes a while.

    A run that cannot be read, or that was read already, is left out; ``UsageError`` where none is left.
    """
    exports = {place: found for place in places if (found := exported(place)) is not None}
    runs = [place for place in places if place not in exports]
    folders = folders_of(runs) if runs or not places else []
    from virtoll.report.dataset.kept import files
    from virtoll.report.dataset.query import Sources

    kept, left_out = _kept(folders, progress)
    if not kept and not exports:
        raise UsageError(f"no run can be read: {left_out[0]}")
    named = files(kept)
    together = {
        name: [*map(str, own), *(one for found in exports.values() for one in found[name])]
        for name, own in named.items()
    }
    return Gathered(Sources(together, exported=bool(exports)), tuple(left_out))


def _kept(folders: Sequence[Path], progress: Callable[[str], None]) -> tuple[list[Path], list[str]]:
    """Where the tables of these runs are, and why some have none."""
    from virtoll.report.dataset.kept import Kept
    from virtoll.runfolder.overview import run_name

    kept, places, left_out = Kept(kept_tables()), [], []
    names: dict[str, Path] = {}
    for number, folder in enumerate(folders, 1):
        name = run_name(folder)
        if name in names:
            left_out.append(f"{folder} is left out: it holds the run {name}, which {names[name]} holds too")
            continue
        try:
            place = kept.place_of(folder)
            if not place.is_dir():
                progress(f"reading {folder.name} ({number} of {len(folders)}), once")
                kept.make(folder, place)
            places.append(place)
            names[name] = folder
        except RunFolderError as error:
            left_out.append(f"{folder.name} is left out: {error}")
    return places, left_out
