"""Run folders of many nights of one host with known truth, for `virtoll history`. Main function: `write_nights`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.synthetic_run import EPOCH_NS, Truth, records

from virtoll.runfolder.records import Manifest
from virtoll.runfolder.store import RunFolder, parse_record

DAY_NS = 86_400_000_000_000
PLAIN: Mapping[str, Mapping[str, float]] = {"native": {}, "netns": {"packet path": 1.18}, "runc": {"packet path": 1.2}}


def night_name(night: int) -> str:
    """Of a night's run, and of its folder."""
    return f"night-{night:02d}"


def write_night(
    folder: Path,
    night: int,
    costs: Mapping[str, Mapping[str, float]] = PLAIN,
    host: Mapping[str, Any] | None = None,
    truth: Mapping[str, Any] | None = None,
    **manifest: Any,
) -> Path:
    """One night's folder below `folder`; `host`: what of the host is other, `truth`: further fields of the `Truth`."""
    asked = {"seed": night + 1, "blocks": 2, "noise": 0.01, "control": None, "frame_sizes": (68,), **(truth or {})}
    made, lines = records(Truth(costs, **asked))
    made |= {"run": night_name(night), "created_realtime_ns": EPOCH_NS + night * DAY_NS, **manifest}
    made["host"] = {**made["host"], **(host or {})}
    made["experiment"] = {**made["experiment"], "seed": 1}
    path = folder / night_name(night)
    run = RunFolder.create(path, parse_record(Manifest, made))
    for name in ("trials", "boots"):
        (path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[name]), encoding="utf-8")
    run.set_state("complete" if asked.get("state", "complete") == "complete" else "interrupted", None)
    return path


def write_nights(folder: Path, nights: int = 60, changed: int = 30, slower: float = 1.05) -> Path:
    """So many nights; from the night `changed` on runc takes `slower` times as long on the packet path, since a package
    is another one.
    """
    for night in range(nights):
        later = night >= changed
        costs = {**PLAIN, "runc": {"packet path": 1.2 * (slower if later else 1.0)}}
        packages = {"qemu-system-x86": "1:7.2+dfsg-7", "runc": "1.1.12" if later else "1.1.5"}
        write_night(folder, night, costs, {"packages": packages})
    return folder
