"""A made-up run as a run folder, with its digests: what commands are given."""

from pathlib import Path

from tests.support.made_up_run import Made, made_up_run

from virtoll.runfolder import jsonlines
from virtoll.runfolder.store import RunFolder, to_json
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
    lines = {
        "trials": [to_json(one) for one in sorted((*data.warm_ups, *data.every_trial), key=lambda one: one.trial)],
        "groups": [to_json(one) for one in data.groups],
        "boots": [to_json(one) for one in data.boots],
        "commands": [to_json(one) for one in data.commands],
        "fitness": [to_json(one) for one in data.fitness],
        "calibration": [to_json(one) for one in data.calibrations],
        "footprints": [to_json(one) for one in data.footprints],
        "looks": [to_json(one) for one in data.looks],
    }
    for name, own in lines.items():
        (path / f"{name}.jsonl").write_bytes(b"".join(map(jsonlines.encode, own)))
    folder.set_state(data.state.state, data.state.reason)
    return path
