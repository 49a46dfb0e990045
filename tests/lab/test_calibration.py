"""A campaign with traffic calibrates its instrument at both ends and locates its losses; as root and as a user."""

from __future__ import annotations

import pytest
from tests.support import experiments
from tests.support.playground import Playground

from virtoll.report.build import load
from virtoll.samples import RunFolder
from virtoll.stats.analysis import analyse
from virtoll.stats.hops import Owner, locate

pytestmark = pytest.mark.lab


def is_extended(item: pytest.Function) -> bool:
    """An ordinary user's campaign, which ``test_kill`` and ``test_ending`` have in short, without a calibration."""
    return item.callspec.params["place"] == "user"


def test_both_ends_are_calibrated_and_every_loss_is_booked(place: Playground) -> None:
    """IMIX and several sources included; qemu-tcg is overrun, so that there is something to locate."""
    file = experiments.write(
        place.base,
        platforms=["native", "netns", "qemu-tcg"],
        blocks=1,
        guest={"vcpus": 1, "memory": "128MiB"},
        workloads=[
            {"workload": "forward", "frame_size_bytes": [64, 1518], "sources": [1, 2], "rate_factor": 8,
             "point_milliseconds": 50},
            {"workload": "forward", "mix": "imix", "backend": "af-packet", "rate_factor": 8, "point_milliseconds": 50},
        ],
    )  # fmt: skip
    running = place.run("run", file)
    assert running.process.returncode == 0, running.said
    folder = RunFolder.open(next(path.parent for path in place.runs.glob("*/manifest.json")))
    assert [(trial.platform, trial.reason) for trial in folder.trials() if trial.status != "ok"] == []
    records = folder.calibrations()
    assert [record.reason for record in records if record.status != "ok"] == []
    assert [record.when for record in records[:5]] == ["start"] * 5
    assert {record.when for record in records[5:]} == {"end"}
    for record in records:
        for point in record.points:
            assert all(sink.forwarded_frames > 0 for sink in point.sink.per_source)
    analysis = analyse(load(folder.path))
    assert all(headroom.ceiling is not None for headroom in analysis.headrooms.values())
    known = False
    for trial in folder.trials():
        for point in trial.points or ():
            losses = locate(point)
            assert sum(one.frames for one in losses) == sum(sink.lost_frames for sink in point.sink.per_source)
            known = known or point.hops is not None
            assert point.hops is None or Owner.UNLOCATED not in {one.owner for one in losses}
    if not known:
        pytest.skip("the agent was built before 'counters': calibrated, but nothing could be located")
