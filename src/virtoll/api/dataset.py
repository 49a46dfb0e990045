"""Which runs and exports a person means by some places, and their tables, made where they are not kept.

Main types: ``Gathered`` (the files of all of them, and what could not be read). Main functions: ``gather``,
``exported``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from virtoll.api.folders import kept_tables, run_folders, runs_directory, runs_of
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
    files = {name: sorted(map(str, Path(place).absolute().glob(f"{name}/*.parquet"))) for name in TABLES}
    return files if any(files.values()) else None


def folders_of(places: Sequence[str]) -> list[Path]:
    """The folders of these runs and folders of runs, each once; of no place all runs of the runs folder.

    ``UsageError`` where there is no run.
    """
    if places:
        return list(dict.fromkeys(folder for place in places for folder in runs_of(place)))
    folders = run_folders()
    if not folders:
        raise UsageError(f"no run in {runs_directory()}; give runs, a folder of runs, or a folder of an export")
    return folders


def gather(places: Sequence[str], progress: Callable[[str], None]) -> Gathered:
    """The tables of all of these: runs, folders of runs, exports. ``progress`` is told what takes a while.

    A run that cannot be read, or that was read already, is left out; ``UsageError`` where none is left.
    """
    exports = {place: tables for place in places if (tables := exported(place)) is not None}
    runs = [place for place in places if place not in exports]
    folders = folders_of(runs) if runs or not places else []
    from virtoll.report.dataset.kept import files
    from virtoll.report.dataset.query import Sources

    where: dict[str, str] = {}
    kept, left_out = _kept(folders, where, progress)
    if not kept and not exports:
        raise UsageError(f"no run can be read: {left_out[0]}")
    together = {name: list(map(str, paths)) for name, paths in files(kept).items()}
    for place, tables in exports.items():
        exported_runs = _runs_in(tables)
        twice = sorted(exported_runs & where.keys())
        left_out += [_told_twice(f"the one in {place}", run, where[run]) for run in twice]
        for name, paths in tables.items():
            together[name] += [path for path in paths if Path(path).stem not in twice]
        where |= dict.fromkeys(exported_runs, place)
    return Gathered(Sources(together, exported=bool(exports)), tuple(left_out))


def _runs_in(tables: Mapping[str, Sequence[str]]) -> set[str]:
    """The runs of an export; none of a bucket's, whose files are a pattern."""
    paths = itertools.chain.from_iterable(tables.values())
    return {Path(path).stem for path in paths if "*" not in path}


def _told_twice(what: str, run: str, where: str) -> str:
    return f"{what} is left out: it holds the run {run}, which {where} holds too"


def _kept(
    folders: Sequence[Path], where: dict[str, str], progress: Callable[[str], None]
) -> tuple[list[Path], list[str]]:
    """Where the tables of these runs are, and why some have none. ``where`` is told which folder has which run."""
    from virtoll.report.dataset.kept import Kept
    from virtoll.runfolder.overview import run_name

    kept, places, left_out = Kept(kept_tables()), [], []
    kept.prepare()
    for number, folder in enumerate(folders, 1):
        name = run_name(folder)
        if name in where:
            left_out.append(_told_twice(str(folder), name, where[name]))
            continue
        try:
            place = kept.place_of(folder)
            if not place.is_dir():
                progress(f"reading {folder.name} ({number} of {len(folders)}), once")
                kept.make(folder, place)
            places.append(place)
            where[name] = str(folder)
        except RunFolderError as error:
            left_out.append(f"{folder.name} is left out: {error}")
    return places, left_out
