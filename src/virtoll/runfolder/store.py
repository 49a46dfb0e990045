"""The run folder: the border between measuring and analysing (format in docs/run-folder.md).

Main types: `RunFolder` (create, append, read back, resume) and the frozen records `Manifest`, `TrialRecord`,
`BootRecord`, `CommandRecord`, `FitnessRecord`, `CalibrationRecord`, `FootprintRecord`, `ConsolidationRecord`,
`SizingRecord`, `MaximumRecord`, `GroupRecord`, `LookRecord`, `ObservedTrial`, `State`.

**Appends take the frozen dataclasses that reads give.** A record's JSON is read back before it is written. A value that
its field does not take raises `RunFolderError`, and nothing is written. So a folder that could be written can be read.
What an agent reported without a field for it is kept beside the fields (`traffic_records.Answered`), stored, and
ignored.

The records are imported where one is read or written: a plan is made without them, and there are many.

It must not round, subtract or drop anything, and must not import what measures or what analyses.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from virtoll.errors import RunFolderError, StorageError
from virtoll.runfolder import jsonlines
from virtoll.runfolder.damage import note_read
from virtoll.runfolder.opened import MOST_BYTES, read_whole
from virtoll.runfolder.sums import EXPLANATIONS, remove_sums, write_sums

if TYPE_CHECKING:
    from virtoll.runfolder.campaign_records import ArrayRecord, CampaignRecord, SubmissionRecord
    from virtoll.runfolder.conditions import MaximumRecord, NeighbourRecord
    from virtoll.runfolder.explain_records import ObservedTrial
    from virtoll.runfolder.guest_records import ConsolidationRecord, FootprintRecord
    from virtoll.runfolder.records import (
        BootRecord,
        Check,
        Clock,
        CommandRecord,
        FitnessRecord,
        LookRecord,
        Manifest,
        MetricRecord,
        RunState,
        SizingRecord,
        State,
        TrialRecord,
    )
    from virtoll.runfolder.scale import GroupRecord
    from virtoll.runfolder.traffic_records import CalibrationRecord, Point

FORMAT = 2

JsonObject = Mapping[str, object]
FINISHED: frozenset[str] = frozenset({"ok", "invalid", "failed", "skipped"})


Record = TypeVar(
    "Record",
    "Manifest",
    "CampaignRecord",
    "SubmissionRecord",
    "ArrayRecord",
    "TrialRecord",
    "BootRecord",
    "CommandRecord",
    "FitnessRecord",
    "CalibrationRecord",
    "FootprintRecord",
    "ConsolidationRecord",
    "SizingRecord",
    "MaximumRecord",
    "NeighbourRecord",
    "GroupRecord",
    "LookRecord",
    "ObservedTrial",
    "State",
    "MetricRecord",
    "Clock",
    "Check",
    "Point",
)
APPENDED = (
    "trials",
    "boots",
    "commands",
    "fitness",
    "calibration",
    "footprints",
    "consolidation",
    "sizing",
    "maxima",
    "groups",
    "looks",
    "observed",
)


_ADAPTERS: dict[str, TypeAdapter[Any]] = {}  # made at first use: building one takes milliseconds


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """The checker of one record type."""
    if kind.__name__ not in _ADAPTERS:
        _ADAPTERS[kind.__name__] = TypeAdapter(kind)
    return _ADAPTERS[kind.__name__]


def _parse(kind: type[Record], data: bytes, where: str) -> Record:
    """One record from JSON, strictly; RunFolderError names the place, the key and the complaint."""
    try:
        record: Record = _adapter(kind).validate_json(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "the line"
        reason = first["msg"].removeprefix("Value error, ")
        raise RunFolderError(f"{where}: {key}: {reason}. See docs/run-folder.md for the format.") from error
    except (TypeError, AttributeError) as error:  # a key without a field becomes an attribute, and may be none
        raise RunFolderError(f"{where}: a key is no name of a value ({error}). Restore the file.") from error
    return record


def parse_record(kind: type[Record], record: JsonObject) -> Record:
    """One record, or what a workload gives for a part of one, from plain JSON; checked as an append checks it."""
    return _parse(kind, jsonlines.encode(record), kind.__name__)


def to_json(record: Record) -> dict[str, object]:
    """A record as the JSON object that is stored: its fields in their order, then keys that no field declares."""
    return {name: _plain(value) for name, value in _parts(record).items()}


def _plain(value: object) -> object:
    """A field's value without dataclasses and tuples; `dataclasses.asdict` would lose keys that no field declares."""
    if value is None or isinstance(value, str | int | float):  # most are, and the other questions take longer
        return value
    if is_dataclass(value):
        return {name: _plain(part) for name, part in _parts(value).items()}
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _parts(record: Any) -> dict[str, object]:
    """Of a dataclass the fields in their order, with or without slots, then keys that no field declares."""
    return {**{field.name: getattr(record, field.name) for field in fields(record)}, **vars(record)}


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
        content = to_json(manifest)
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
        from virtoll.runfolder.records import Manifest

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
        content = to_json(manifest)
        parsed = _parse(type(manifest), jsonlines.encode(content), "manifest")
        self.set_state("running", None)
        jsonlines.replace(self.path / "manifest.json", content)
        return RunFolder(self.path, parsed)

    def append_trial(self, record: TrialRecord) -> None:
        """Store one finished trial durably; raises RunFolderError (not the format) or StorageError (cannot write)."""
        self._append("trials.jsonl", record)

    def append_boot(self, record: BootRecord) -> None:
        """Store one guest start; errors as `append_trial`."""
        self._append("boots.jsonl", record)

    def append_command(self, record: CommandRecord) -> None:
        """Store one executed command line; errors as `append_trial`."""
        self._append("commands.jsonl", record)

    def append_fitness(self, record: FitnessRecord) -> None:
        """Store one sample of the host's state; errors as `append_trial`."""
        self._append("fitness.jsonl", record)

    def append_calibration(self, record: CalibrationRecord) -> None:
        """Store one measurement of generator and sink back to back; errors as `append_trial`."""
        self._append("calibration.jsonl", record)

    def append_footprint(self, record: FootprintRecord) -> None:
        """Store one reading of what a guest holds of the host's memory; errors as `append_trial`."""
        self._append("footprints.jsonl", record)

    def append_consolidation(self, record: ConsolidationRecord) -> None:
        """Store one step of a consolidation series; errors as `append_trial`."""
        self._append("consolidation.jsonl", record)

    def append_sizing(self, record: SizingRecord) -> None:
        """Store how often a workload's job runs between its marks; errors as `append_trial`."""
        self._append("sizing.jsonl", record)

    def append_maximum(self, record: MaximumRecord) -> None:
        """Store what a guest that forwards as a load forwards at most; errors as `append_trial`."""
        self._append("maxima.jsonl", record)

    def append_group(self, record: GroupRecord) -> None:
        """Store the start of several guests at once; errors as `append_trial`."""
        self._append("groups.jsonl", record)

    def append_look(self, record: LookRecord) -> None:
        """Store what a look at a run showed that goes on until all is decided; errors as `append_trial`."""
        self._append("looks.jsonl", record)

    def append_observed(self, record: ObservedTrial) -> None:
        """Store one trial with observers on, in the folder of `explanations`; errors as `append_trial`."""
        self._append("observed.jsonl", record)

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
        from virtoll.runfolder.records import State

        try:
            data = read_whole(self.path / "state.json")
        except FileNotFoundError:
            return State("interrupted", "no state was written")
        except OSError as error:
            raise RunFolderError(f"cannot read {self.path}/state.json: {error.strerror or error}.") from error
        return _parse(State, data, f"{self.path}/state.json")

    def trials(self) -> tuple[TrialRecord, ...]:
        """Every trial record, in the order written; a trial that was repeated is there more than once."""
        from virtoll.runfolder.records import TrialRecord

        return self._read("trials.jsonl", TrialRecord)

    def latest_trials(self) -> tuple[TrialRecord, ...]:
        """The latest record of each trial, by trial number: what analysis uses."""
        latest = {record.trial: record for record in self.trials()}
        return tuple(latest[number] for number in sorted(latest))

    def boots(self) -> tuple[BootRecord, ...]:
        """Every guest start, in the order written."""
        from virtoll.runfolder.records import BootRecord

        return self._read("boots.jsonl", BootRecord)

    def commands(self) -> tuple[CommandRecord, ...]:
        """Every executed command line, in the order written."""
        from virtoll.runfolder.records import CommandRecord

        return self._read("commands.jsonl", CommandRecord)

    def fitness(self) -> tuple[FitnessRecord, ...]:
        """Every sample of the host's state, in the order written."""
        from virtoll.runfolder.records import FitnessRecord

        return self._read("fitness.jsonl", FitnessRecord)

    def calibrations(self) -> tuple[CalibrationRecord, ...]:
        """Every calibration, in the order written; none in a run without traffic."""
        from virtoll.runfolder.traffic_records import CalibrationRecord

        return self._read("calibration.jsonl", CalibrationRecord)

    def footprints(self) -> tuple[FootprintRecord, ...]:
        """Every reading of a guest's memory, in the order written."""
        from virtoll.runfolder.guest_records import FootprintRecord

        return self._read("footprints.jsonl", FootprintRecord)

    def consolidation(self) -> tuple[ConsolidationRecord, ...]:
        """Every step of the consolidation series, in the order written; none in a run of another scenario."""
        from virtoll.runfolder.guest_records import ConsolidationRecord

        return self._read("consolidation.jsonl", ConsolidationRecord)

    def sizings(self) -> tuple[SizingRecord, ...]:
        """The size of each workload's job, in the order written; none where no job is repeated."""
        from virtoll.runfolder.records import SizingRecord

        return self._read("sizing.jsonl", SizingRecord)

    def maxima(self) -> tuple[MaximumRecord, ...]:
        """What guests that forward as a load forward at most, in the order written; none in other scenarios."""
        from virtoll.runfolder.conditions import MaximumRecord

        return self._read("maxima.jsonl", MaximumRecord)

    def groups(self) -> tuple[GroupRecord, ...]:
        """Every start of several guests at once, in the order written; none in other scenarios."""
        from virtoll.runfolder.scale import GroupRecord

        return self._read("groups.jsonl", GroupRecord)

    def looks(self) -> tuple[LookRecord, ...]:
        """The looks at a run that goes on until all is decided, in order; none in any other."""
        from virtoll.runfolder.records import LookRecord

        return self._read("looks.jsonl", LookRecord)

    def observed(self) -> tuple[ObservedTrial, ...]:
        """Every trial with observers on, in the order written; of the folder of `explanations` alone."""
        from virtoll.runfolder.explain_records import ObservedTrial

        return self._read("observed.jsonl", ObservedTrial)

    def read_every_record(self) -> None:
        """Read all of it, also the explanations; RunFolderError with file and line where that cannot be.

        Whoever adds to a folder does so first: what is measured for a folder that nobody can read is lost.
        """
        for folder in (self, self.explanations):
            folder.state()
            for records in (
                *(folder.trials, folder.boots, folder.commands, folder.fitness, folder.calibrations),
                *(folder.footprints, folder.consolidation, folder.sizings, folder.maxima, folder.groups),
                *(folder.looks, folder.observed),
            ):
                records()

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
        cut = {f"{name}.jsonl": jsonlines.repair(self.path / f"{name}.jsonl", self.root) for name in APPENDED}
        return {name: count for name, count in cut.items() if count}

    def _append(self, name: str, record: Record) -> None:
        line = to_json(record)
        _parse(type(record), jsonlines.encode(line), f"{name}, new line")
        jsonlines.append(self.path / name, line, self.root)

    def _read(self, name: str, kind: type[Record]) -> tuple[Record, ...]:
        path = self.path / name
        return tuple(_parse(kind, line, f"{path}, line {number}") for number, line in jsonlines.read(path))


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


@dataclass(frozen=True)
class _Head:
    """Of a manifest what is asked first; the plan of thousands of trials is not made for it."""

    format: Any = None


def _refuse_other_format(manifest: bytes, path: Path) -> None:
    """One clear sentence for a manifest of another format version, before its keys are looked at."""
    try:
        number = TypeAdapter(_Head).validate_json(manifest).format
    except ValidationError as error:
        raise RunFolderError(
            f"{path}/manifest.json is not a JSON object: the folder is damaged, restore it."
        ) from error
    if number != FORMAT:
        raise RunFolderError(
            f"{path} has run folder format {number!r}, this virtoll reads {FORMAT}: use the virtoll that wrote it."
        )
