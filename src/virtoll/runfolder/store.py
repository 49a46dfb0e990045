"""The run folder: the border between measuring and analysing (format in docs/run-folder.md).

Main types: `RunFolder` (create, append, read back, resume) and the frozen records `Manifest`, `TrialRecord`,
`BootRecord`, `CommandRecord`, `FitnessRecord`, `CalibrationRecord`, `FootprintRecord`, `ConsolidationRecord`,
`SizingRecord`, `MaximumRecord`, `GroupRecord`, `LookRecord`, `ObservedTrial`, `State`.

**Appends take the records that reads give.** A record's JSON is read back before it is written. A value that its field
does not take raises `RunFolderError`, and nothing is written. So a folder that could be written can be read.

It must not round, subtract or drop anything, and must not import what measures or what analyses.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from virtoll.errors import RunFolderError, StorageError
from virtoll.runfolder import jsonlines
from virtoll.runfolder.conditions import MaximumRecord
from virtoll.runfolder.damage import note_read
from virtoll.runfolder.explain_records import ObservedTrial
from virtoll.runfolder.guest_records import ConsolidationRecord, FootprintRecord
from virtoll.runfolder.opened import MOST_BYTES, read_whole
from virtoll.runfolder.record import Record
from virtoll.runfolder.records import (
    BootRecord,
    CommandRecord,
    FitnessRecord,
    LookRecord,
    Manifest,
    RunState,
    SizingRecord,
    State,
    TrialRecord,
)
from virtoll.runfolder.scale import GroupRecord
from virtoll.runfolder.sums import EXPLANATIONS, remove_sums, write_sums
from virtoll.runfolder.traffic_records import CalibrationRecord

FORMAT = 2

FINISHED: frozenset[str] = frozenset({"ok", "invalid", "failed", "skipped"})
R = TypeVar("R", bound=Record)
LINES: Final[Mapping[str, type[Record]]] = {
    "trials.jsonl": TrialRecord,
    "boots.jsonl": BootRecord,
    "commands.jsonl": CommandRecord,
    "fitness.jsonl": FitnessRecord,
    "calibration.jsonl": CalibrationRecord,
    "footprints.jsonl": FootprintRecord,
    "consolidation.jsonl": ConsolidationRecord,
    "sizing.jsonl": SizingRecord,
    "maxima.jsonl": MaximumRecord,
    "groups.jsonl": GroupRecord,
    "looks.jsonl": LookRecord,
    "observed.jsonl": ObservedTrial,
}
"""What each line of a file is; ``observed.jsonl`` is in the folder of ``explanations``."""
_FILES: Final = {kind: file for file, kind in LINES.items()}


@functools.cache
def _decoder(kind: type[R]) -> msgspec.json.Decoder[R]:
    return msgspec.json.Decoder(kind)


def _parse(kind: type[R], data: bytes, where: str) -> R:
    """One record from JSON, strictly; RunFolderError names the place, the key and the complaint."""
    try:
        record: R = _decoder(kind).decode(data)
    except (ValueError, RecursionError) as error:  # the first: msgspec's own errors, and bytes that are no UTF-8
        raise RunFolderError(f"{where}: {error}. See docs/run-folder.md for the format.") from error
    return record


def _document(record: Record) -> Mapping[str, object]:
    """A record as an object that ``jsonlines`` encodes; RunFolderError for a value of a type that JSON has not."""
    try:
        document: Mapping[str, object] = msgspec.to_builtins(record)
    except TypeError as error:
        raise RunFolderError(
            f"{type(record).__name__}: {error}. Store plain numbers, text, lists and dicts."
        ) from error
    return document


def parse_record(kind: type[R], document: Mapping[str, object]) -> R:
    """One record from a JSON object that was read elsewhere; checked as an append checks it."""
    return _parse(kind, jsonlines.encode(document), kind.__name__)


class RunFolder:
    """One run's folder. The writer is one process; readers may come at any time, on any machine."""

    def __init__(self, path: Path, manifest: Manifest, root: Path | None = None) -> None:
        """Not for callers: use `create` or `open`. `root`: the run's folder, below which no link is followed."""
        self.path = path
        self.root = path if root is None else root
        self.manifest = manifest

    @classmethod
    def create(cls, path: Path, manifest: Manifest) -> RunFolder:
        """Make a new folder with its manifest and the state `running`; refuses a folder that already holds a run."""
        content = _document(manifest)
        data = jsonlines.encode(content)
        _refuse_other_format(data, path)
        if len(data) > MOST_BYTES // 2:  # it is written with line breaks
            raise RunFolderError(
                f"{path}: the plan of {len(manifest.plan.trials)} trials takes more than {MOST_BYTES >> 20} MiB. Give "
                "fewer blocks, rounds or workloads."
            )
        parsed = _parse(type(manifest), data, "manifest")
        try:
            if (path / "manifest.json").exists():
                raise RunFolderError(f"{path} already holds a run: choose another folder, or `virtoll resume {path}`.")
            jsonlines.make_folder(path)
            jsonlines.make_folder(path / "evidence", path)
        except OSError as error:
            raise RunFolderError(
                f"cannot make {path}: {error.strerror or error}. Choose a folder that can be written."
            ) from error
        jsonlines.replace(path / "manifest.json", content)
        folder = cls(path, parsed)
        folder.set_state("running", None)
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run; RunFolderError when there is none, or its format is not this version's."""
        try:
            data = read_whole(path / "manifest.json")
        except OSError as error:
            raise RunFolderError(
                f"{path} is not a run folder (no readable manifest.json): see `virtoll list runs`."
            ) from error
        _refuse_other_format(data, path)
        where = f"{path}/manifest.json"
        manifest = _parse(Manifest, data, where)
        _refuse_unknown_platforms(manifest, where)
        note_read(path)
        return cls(path, manifest)

    def extend(self, manifest: Manifest) -> RunFolder:
        """Give a finished run a longer plan; the folder with it, whose state is `running`. StorageError as ever.

        The state comes first. Who is killed between both leaves a run without an unfinished trial, which `resume` ends.
        """
        content = _document(manifest)
        parsed = _parse(type(manifest), jsonlines.encode(content), "manifest")
        self.set_state("running", None)
        jsonlines.replace(self.path / "manifest.json", content)
        return RunFolder(self.path, parsed)

    def append(self, record: Record) -> None:
        """Store one record durably, in the file of its type; RunFolderError (not the format), StorageError."""
        name, line = _FILES[type(record)], jsonlines.encode(_document(record))
        _parse(type(record), line, f"{name}, new line")
        jsonlines.append(self.path / name, line, self.root)

    def keep_evidence(self, name: str, files: Mapping[str, bytes]) -> tuple[str, ...]:
        """Store files by their names in evidence/<name>; gives their paths as records name them. No files: no folder.

        Raises StorageError naming the file that cannot be written.
        """
        folder = self.path / "evidence" / name
        for file, content in files.items():
            try:
                jsonlines.make_folder(folder, self.root)
                jsonlines.write_bytes(folder / file, content, self.root)
            except OSError as error:
                raise StorageError(
                    f"cannot write {folder / file}: {error.strerror or error}. Earlier results are intact. "
                    "Free space or fix the permissions, then run `virtoll resume`."
                ) from error
        return tuple(f"evidence/{name}/{file}" for file in files)

    def set_state(self, state: RunState, reason: str | None) -> None:
        """Replace state.json atomically; a complete run's files then have digests, which any other state takes away.

        A run is complete once it has them. Where they cannot be written it is `interrupted`, and `resume` ends it.
        """
        remove_sums(self.path, self.root)
        jsonlines.replace(self.path / "state.json", {"state": state, "reason": reason}, self.root)
        if state == "complete":
            try:
                write_sums(self.path, self.root)
            except StorageError as error:
                ended = {"state": "interrupted", "reason": str(error)}
                with suppress(StorageError):
                    jsonlines.replace(self.path / "state.json", ended, self.root)
                raise

    def state(self) -> State:
        """The run's state; a folder without one was killed before it began: `interrupted`."""
        try:
            data = read_whole(self.path / "state.json")
        except FileNotFoundError:
            return State("interrupted", "no state was written")
        except OSError as error:
            raise RunFolderError(f"cannot read {self.path}/state.json: {error.strerror or error}.") from error
        return _parse(State, data, f"{self.path}/state.json")

    def read(self, kind: type[R]) -> tuple[R, ...]:
        """Every record of a type, in the order written; RunFolderError names the file and the line."""
        path = self.path / _FILES[kind]
        return tuple(_parse(kind, line, f"{path}, line {number}") for number, line in jsonlines.read(path))

    def trials(self) -> tuple[TrialRecord, ...]:
        """Every trial record, in the order written; a trial that was repeated is there more than once."""
        return self.read(TrialRecord)

    def latest_trials(self) -> tuple[TrialRecord, ...]:
        """The latest record of each trial, by trial number: what analysis uses."""
        latest = {record.trial: record for record in self.trials()}
        return tuple(latest[number] for number in sorted(latest))

    def boots(self) -> tuple[BootRecord, ...]:
        """Every guest start, in the order written."""
        return self.read(BootRecord)

    def commands(self) -> tuple[CommandRecord, ...]:
        """Every executed command line, in the order written."""
        return self.read(CommandRecord)

    def fitness(self) -> tuple[FitnessRecord, ...]:
        """Every sample of the host's state, in the order written."""
        return self.read(FitnessRecord)

    def calibrations(self) -> tuple[CalibrationRecord, ...]:
        """Every calibration, in the order written; none in a run without traffic."""
        return self.read(CalibrationRecord)

    def footprints(self) -> tuple[FootprintRecord, ...]:
        """Every reading of a guest's memory, in the order written."""
        return self.read(FootprintRecord)

    def consolidation(self) -> tuple[ConsolidationRecord, ...]:
        """Every step of the consolidation series, in the order written; none in a run of another scenario."""
        return self.read(ConsolidationRecord)

    def sizings(self) -> tuple[SizingRecord, ...]:
        """The size of each workload's job, in the order written; none where no job is repeated."""
        return self.read(SizingRecord)

    def maxima(self) -> tuple[MaximumRecord, ...]:
        """What guests that forward as a load forward at most, in the order written; none in other scenarios."""
        return self.read(MaximumRecord)

    def groups(self) -> tuple[GroupRecord, ...]:
        """Every start of several guests at once, in the order written; none in other scenarios."""
        return self.read(GroupRecord)

    def looks(self) -> tuple[LookRecord, ...]:
        """The looks at a run that goes on until all is decided, in order; none in any other."""
        return self.read(LookRecord)

    def observed(self) -> tuple[ObservedTrial, ...]:
        """Every trial with observers on, in the order written; of the folder of `explanations` alone."""
        return self.read(ObservedTrial)

    def read_every_record(self) -> None:
        """Read all of it, also the explanations; RunFolderError with file and line where that cannot be.

        Whoever adds to a folder does so first: what is measured for a folder that nobody can read is lost.
        """
        for folder in (self, self.explanations):
            folder.state()
            for kind in LINES.values():
                folder.read(kind)

    @property
    def explanations(self) -> RunFolder:
        """The folder of trials with observers on: records of its own, of which none is a result of the run.

        It is no run folder: it has no manifest. Its files have digests of their own (`sums.py`).
        """
        return RunFolder(self.path / EXPLANATIONS, self.manifest, self.root)

    def finished_trials(self) -> frozenset[int]:
        """Numbers of the trials that `resume` need not run: those whose latest record has any of the four statuses."""
        return frozenset(record.trial for record in self.latest_trials() if record.status in FINISHED)

    def repair(self) -> dict[str, int]:
        """Cut torn last lines off before appending again; gives the bytes cut by file name, only where any were.

        What a replacement left that was killed before its end is removed.
        """
        for name in ("manifest.json", "state.json"):
            jsonlines.remove(self.path / f"{name}.new", self.root)
        cut = {name: jsonlines.repair(self.path / name, self.root) for name in LINES}
        return {name: count for name, count in cut.items() if count}


_LABEL_LETTERS = 1000  # an experiment's label has 63 at most, and one of many factors' values some more


def _refuse_unknown_platforms(manifest: Manifest, where: str) -> None:
    """RunFolderError where the manifest names a platform that is not among its own, or by no name."""
    labels = {platform.label for platform in manifest.platforms}
    if any(len(label) > _LABEL_LETTERS for label in labels):
        raise RunFolderError(
            f"{where}: platforms: a label has more than {_LABEL_LETTERS} letters. The manifest is damaged, restore it."
        )
    named = {"baseline": manifest.baseline, "control": manifest.control}
    named |= {f"plan.trials.{place}.platform": trial.platform for place, trial in enumerate(manifest.plan.trials)}
    for key, label in named.items():
        if label is not None and label not in labels:
            raise RunFolderError(
                f"{where}: {key}: {label!r} is not among the platforms. The manifest is damaged, restore it."
            )


class _Head(msgspec.Struct):
    """The key of a manifest that is read first; the plan of thousands of trials is not made for it."""

    format: Any = None


def _refuse_other_format(manifest: bytes, path: Path) -> None:
    """One clear sentence for a manifest of another format version, before its keys are looked at."""
    try:
        number = msgspec.json.decode(manifest.decode(), type=_Head).format
    except (ValueError, RecursionError) as error:
        raise RunFolderError(
            f"{path}/manifest.json is not a JSON object: the folder is damaged, restore it."
        ) from error
    if number != FORMAT:
        raise RunFolderError(
            f"{path} has run folder format {number!r}, this virtoll reads {FORMAT}: use the virtoll that wrote it."
        )
