"""Experiments for tests: a document that is right, as text or as a file, with keys replaced or taken out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from virtoll.experiment.model import Catalogue, Experiment
from virtoll.experiment.parse import parse_experiment
from virtoll.pipeline.preview import catalogue

FILE = Path("experiments/example.yaml")
PAIRED: dict[str, Any] = {
    "generator": {"host": {"node": "generator"}, "interfaces": ["eth1"]},
    "sink": {"host": {"node": "generator"}, "interfaces": ["eth2"]},
    "hypervisor": {"host": "local", "interfaces": ["eth1", "eth2"]},
}
"""A testbed whose generator and sink are on one node, which a cluster gives."""

FEW_POINTS: dict[str, Any] = {
    "workload": "forward",
    "frame_size_bytes": 64,
    "sweep": "from-flat-out",
    "cpu_milliseconds": 0,
}
"""A sweep of two or three points, where nothing is asked of the points themselves."""


def document(**changed: Any) -> dict[str, Any]:
    """A small experiment that is right, of one round a block; ``key=None`` takes the key out."""
    right: dict[str, Any] = {
        "name": "example",
        "question": "Is it so?",
        "platforms": ["native", "netns"],
        "workloads": ["superpi"],
        "rounds": 1,
    }
    if changed.get("scenario") == "consolidation":
        del right["rounds"]
    return {key: value for key, value in {**right, **changed}.items() if value is not None}


def text(**changed: Any) -> str:
    """The same as YAML."""
    return yaml.safe_dump(document(**changed), sort_keys=False)


def parsed(known: Catalogue | None = None, /, **changed: Any) -> Experiment:
    """The same, read and checked; its file is named ``FILE`` in complaints. ``known``: names that it may use."""
    return parse_experiment(text(**changed), FILE, known or catalogue())


def write(folder: Path, **changed: Any) -> Path:
    """The same as a file ``<name>.yaml`` in a folder."""
    path = folder / f"{changed.get('name', 'example')}.yaml"
    path.write_text(text(**changed), encoding="utf-8")
    return path


def fake(label: str, **parameters: Any) -> dict[str, Any]:
    """A platform entry for the seeded model."""
    return {"platform": "fake", "label": label, **parameters}


def every_kind(blocks: int = 1) -> str:
    """A few seconds a block, of 8 trials, with every kind of guest.

    Cgroups, bridges, veth pairs, taps and data directories are there.
    """
    return text(
        platforms=["native", "netns", "runc", "qemu-tcg"],
        guest={"vcpus": 1, "memory": "128MiB"},
        blocks=blocks,
        workloads=[
            {"workload": "superpi", "digits": 24_000},
            {"workload": "zfg", "size_bytes": 4 * 2**20, "rounds": 2},
        ],
    )


def light_guests(blocks: int, *workloads: dict[str, Any]) -> str:
    """Three platforms whose guests start at once."""
    return text(
        platforms=["native", "netns", "runc"],
        guest={"vcpus": 1, "memory": "128MiB"},
        blocks=blocks,
        workloads=list(workloads),
    )


def neighbours(**changed: Any) -> dict[str, Any]:
    """The keys of an experiment with a lightly loaded guest next to the measured one."""
    job = [{"workload": "superpi", "digits": 1000}]
    return {"scenario": "neighbours", "neighbours": ["light"], "workloads": job, **changed}
