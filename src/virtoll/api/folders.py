"""Where runs are kept, and which of them a person means: a folder, or a packed run (``virtoll pack``).

A packed run is unpacked once into the cache, under the SHA-256 of its archive, and every file is compared with its
digest before anything reads it. Main functions: ``find_run`` (to read), ``run_to_measure`` (to write into).
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from virtoll.errors import NO_CURRENT_FOLDER, RunFolderError, UsageError


def runs_directory() -> Path:
    """Where runs are kept: $VIRTOLL_RUNS, else ``runs`` in the current folder; UsageError if that was deleted."""
    try:
        return Path(os.environ.get("VIRTOLL_RUNS", "runs")).absolute()
    except FileNotFoundError as error:
        raise UsageError(NO_CURRENT_FOLDER) from error


_PACKED_ENDINGS: Final = (".virtoll.tar.zst", ".tar.zst", ".zst")


@dataclass(frozen=True)
class FoundRun:
    """A run's folder; of a packed run the folder is a copy in the cache, and ``archive`` the file that was given."""

    folder: Path
    archive: Path | None = None

    @property
    def given(self) -> Path:
        """What the user has: the archive, or the folder."""
        return self.archive or self.folder

    @property
    def report(self) -> Path:
        """Where its report belongs: in its folder; of a packed run beside the archive, as ``NAME-report``."""
        if self.archive is None:
            return self.folder / "report"
        ending = next((suffix for suffix in _PACKED_ENDINGS if self.archive.name.endswith(suffix)), "")
        return self.archive.with_name(f"{self.archive.name.removesuffix(ending)}-report")


def find_run(name: str) -> Path:
    """The folder of a run, by path, by name, by a packed run's file, or the newest by ``latest``; only to be read.

    UsageError where there is none, or the file is no packed run, damaged, or not safe to unpack.
    """
    return found_run(name).folder


def run_to_measure(name: str, what: str) -> Path:
    """As ``find_run``, for a command that writes into the folder; ``what``: its name.

    UsageError for a packed run, and for one that another process writes.
    """
    from virtoll.runfolder.writer import refuse_written

    location = found_run(name)
    if location.archive is not None or _is_cached(location.folder):
        raise UsageError(
            f"{location.given}: is a packed run, into which nothing is measured; 'virtoll unpack' makes a folder of "
            f"it, which 'virtoll {what}' takes"
        )
    refuse_written(location.folder)
    return location.folder


def found_run(name: str) -> FoundRun:
    """As ``find_run``, with what the user gave."""
    for place in (Path, runs_directory):  # a path leads to its run also where the current folder was deleted
        candidate = place() / name
        if (candidate / "manifest.json").is_file():
            return FoundRun(candidate.absolute())
        if candidate.is_file():
            return FoundRun(_unpacked(candidate.absolute()), candidate.absolute())
    known = run_folders()
    if name == "latest" and known:
        return FoundRun(known[-1])
    if Path(name).is_dir():
        raise UsageError(f"{Path(name).absolute()} is no run's folder: it has no file manifest.json; restore it")
    raise UsageError(
        f"no run {name!r} in {runs_directory()}; see 'virtoll list runs', or give the path of a run's folder"
    )


def runs_of(name: str) -> list[Path]:
    """A run, or all runs right below a folder that is none itself, by name."""
    below = sorted(path.parent.absolute() for path in Path(name).glob("*/manifest.json"))
    return below if below and not (Path(name) / "manifest.json").exists() else [find_run(name)]


def kept_tables() -> Path:
    """Where the tables of runs are kept for queries, in the cache."""
    from virtoll.image import default_cache

    return default_cache().home / "dataset"


def _unpacked(archive: Path) -> Path:
    """The folder of a packed run in the cache, whole and as it was packed; it is not written to."""
    from virtoll.image import default_cache
    from virtoll.image.cache import file_digest
    from virtoll.runfolder.unpacking import unpack

    try:
        reference = f"packed-{file_digest(archive)}"
    except OSError as error:
        raise UsageError(f"{archive}: cannot be read ({error.strerror or error}); make it readable") from error
    cache = default_cache()

    def fill(content: Path) -> None:
        run = content / "run"
        run.mkdir()
        run.rename(content / unpack(archive, run).run)

    wait = partial(print, file=sys.stderr)  # says which other process is waited for
    (folder,) = (cache.find_whole(reference) or cache.build(reference, fill, wait)).iterdir()
    return folder


def _is_cached(folder: Path) -> bool:
    """Whether it is the copy of a packed run, which a sentence of some command has named."""
    from virtoll.image import default_cache

    cache = default_cache()
    return any(folder.is_relative_to(place / "objects") for place in (cache.home, *cache.others))


def run_folders() -> list[Path]:
    """The folders of all runs there, by the time of their creation: oldest first."""
    from virtoll.runfolder.overview import created_ns

    folders = [path.parent for path in runs_directory().glob("*/manifest.json")]
    folders = [path for path in folders if not path.name.startswith(".")]  # what a killed 'campaign merge' left
    return sorted(folders, key=lambda folder: (created_ns(folder), folder.name))


def known_runs() -> list[Path]:
    """As ``run_folders``; none if the current folder was deleted."""
    try:
        return run_folders()
    except UsageError:
        return []


def earlier_run(experiment: str, fingerprint: str) -> Path | None:
    """The newest complete run of an experiment of this name on the host with this fingerprint; None: there is none."""
    from virtoll.runfolder.store import RunFolder

    for folder in reversed(known_runs()):
        try:
            run = RunFolder.open(folder)
            same = run.manifest.experiment["name"] == experiment and run.manifest.host["fingerprint"] == fingerprint
            if same and run.manifest.merged is None and run.state().state == "complete":
                return folder
        except RunFolderError:
            continue  # 'virtoll list runs' says what is wrong with it
    return None


def new_folder(name: str, into: Path | None) -> Path:
    """Where a new run of the experiment ``name`` goes; ``UsageError`` where that cannot be, or holds one already."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = (into or runs_directory() / f"{stamp}-{name}-{os.urandom(2).hex()}").absolute()
    try:
        taken = (folder / "manifest.json").exists()
    except OSError as error:
        raise UsageError(f"{folder}: cannot be used ({error.strerror}); give another folder with --into") from error
    if taken:
        raise UsageError(f"{folder} holds a run already; give another folder with --into, or 'virtoll resume' this one")
    return folder
