"""A made-up run as a run folder, with its digests: what commands are given."""

from pathlib import Path

from tests.support.made_up_run import Made, made_up_run

from virtoll.runfolder import jsonlines
from virtoll.runfolder.store import RunFolder
from virtoll.stats.analysis import RunData

LABELS = ("native", "native-again", "runc")


def write_small_run(path: Path) -> Path:
    """A finished run of three platforms, with a record in each of the files."""
    made = [Made(label, "superpi", value=1e8) for label in LABELS]
    made += [Made(label, "forward", value=1e5) for label in LABELS]
    return write_run(path, made_up_run({label: {} for label in LABELS}, made, blocks=2, calibrated_rate=1e6))


def write_run(path: Path, data: RunData) -> Path:
    """Make the folder as a campaign leaves it; the appends are not synced one by one."""
    folder = RunFolder.create(path, data.manifest)
    trials = sorted((*data.warm_ups, *data.every_trial), key=lambda one: one.trial)
    own = ("groups", "boots", "commands", "fitness", "footprints", "consolidation", "looks")
    files = {"trials": trials, "calibration": data.calibrations, **{name: getattr(data, name) for name in own}}
    for name, lines in files.items():
        if lines:
            (path / f"{name}.jsonl").write_bytes(b"".join(jsonlines.encode(line.to_json()) for line in lines))
    folder.set_state(data.state.state, data.state.reason)
    return path
