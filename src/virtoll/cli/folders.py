"""Where runs are kept, and which of them a person means."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from virtoll.errors import RunFolderError, UsageError


def runs_directory() -> Path:
    """Where runs are kept: $VIRTOLL_RUNS, else ``runs`` in the current folder."""
    return Path(os.environ.get("VIRTOLL_RUNS", "runs")).absolute()


def find_run(name: str) -> Path:
    """The folder of a run, by path, by name, or the newest by ``latest``."""
    for candidate in (Path(name), runs_directory() / name):
        if (candidate / "manifest.json").is_file():
            return candidate.absolute()
    known = run_folders()
    if name == "latest" and known:
        return known[-1]
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


def run_folders() -> list[Path]:
    """The folders of all runs there, by the time of their creation: oldest first."""
    from virtoll.runfolder.overview import created_ns

    folders = [path.parent for path in runs_directory().glob("*/manifest.json")]
    folders = [path for path in folders if not path.name.startswith(".")]  # what a killed 'campaign merge' left
    return sorted(folders, key=lambda folder: (created_ns(folder), folder.name))


def earlier_run(experiment: str, fingerprint: str) -> Path | None:
    """The newest complete run of an experiment of this name on the host with this fingerprint; None: there is none."""
    from virtoll.runfolder.store import RunFolder

    for folder in reversed(run_folders()):
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
