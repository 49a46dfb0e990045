"""What the instrument uses while a real guest is measured: its own agents are read, and switched-off counters are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support import guests

from virtoll.pipeline.overhead import OverheadMeter
from virtoll.pipeline.session import RunSession
from virtoll.workloads.forward import Forward
from virtoll.workloads.superpi import SuperPi

INSIDE_LAB = "frames"
pytestmark = [pytest.mark.lab]


def test_a_job_and_a_point_lie_within_what_was_read(run_session: RunSession) -> None:
    live = guests.start("netns", run_session)
    try:
        agents = {"peer": live.agent_process().pid}  # a real agent, whose CPU time must grow with its work
        observer = OverheadMeter(agents)
        live.bench.timekeeper.measuring = observer.measuring
        outcome = SuperPi.with_parameters({"digits": 4096}).measure(live.bench)
        assert outcome.clock is not None
        (job,) = observer.measured
        passed_ns = job.after.monotonic_ns - job.before.monotonic_ns
        marks = outcome.clock.channel_marks
        assert marks is not None
        assert passed_ns >= marks.end_ns - marks.start_ns - outcome.clock.realtime_step_ns
        assert job.after.controller_cpu_ns > job.before.controller_cpu_ns
        before, after = job.before.agents_cpu_ns["peer"], job.after.agents_cpu_ns["peer"]
        assert before is not None
        assert after is not None
        assert after > before

        observer.begin()
        assert observer.measured == []
        point = Forward.with_parameters({"point_milliseconds": 20})
        bench = replace(live.bench, hops=replace(live.bench.hops, enabled=False))
        (measured,) = point.warm_up(bench).points or ()
        assert (measured.hops, measured.surroundings) == (None, None)
        assert len(observer.measured) == 1
        (counted,) = point.warm_up(live.bench).points or ()
        assert counted.hops
    finally:
        live.guest.stop()
