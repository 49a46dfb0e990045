"""The guests themselves: readiness in parts, memory, CPU time per unit of work, consolidation; missing is None."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.synthetic_guests import boot_record, consolidation_steps
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.runfolder.guest_records import AgentClock, ConsolidationRecord
from virtoll.runfolder.records import BootRecord
from virtoll.runfolder.store import parse_record
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.consolidation import consolidations
from virtoll.stats.guests import Readiness, readiness, used_ns

MIB = 2**20


@pytest.fixture(scope="module")
def weighed() -> Analysis:
    return analyse(run_data(Truth(REALISTIC, weighed=True, blocks=7)))


def boot(facts: dict[str, Any] | None, clock: AgentClock | None, host: str | None, **changed: Any) -> BootRecord:
    return boot_record(facts, agent_clock=clock, host_boot_id=host, **changed)


@pytest.mark.parametrize(
    ("own", "clock", "expected"),
    [
        ("host", AgentClock(2400, 2400, 2900), Readiness(2000, 1400, None, 500)),
        ("machine", AgentClock(700, 800, 1000), Readiness(2000, 900, 800, 300)),
        ("machine", AgentClock(5000, 5000, 5300), Readiness(2000, None, None, None)),
        ("host", AgentClock(400, 400, 500), Readiness(2000, None, None, None)),
        (None, AgentClock(2400, 2400, 2900), Readiness(2000, None, None, None)),
        ("host", None, Readiness(2000, None, None, None)),
    ],
    ids=[
        "the host's kernel",
        "a kernel of its own",
        "a clock that began before",
        "a time namespace",
        "not reported",
        "an older agent",
    ],
)
def test_readiness_is_split_as_far_as_clocks_tell(
    own: str | None, clock: AgentClock | None, expected: Readiness
) -> None:
    assert readiness(boot({"boot_id": own}, clock, "host")) == expected


@pytest.mark.parametrize("clock", [AgentClock(2400, 2400, 2900), None])
def test_the_harness_is_what_went_before_the_platforms_program(clock: AgentClock | None) -> None:
    entered = readiness(boot({"boot_id": "h"}, clock, "h", executed_monotonic_ns=1300))
    assert entered is not None
    assert (entered.total, entered.harness) == (2000, 300)
    unknown = readiness(boot({"boot_id": "h"}, clock, "h"))
    assert unknown is not None
    assert unknown.harness is None, "what was not measured is not zero"


def test_a_start_that_failed_has_no_readiness() -> None:
    clock = AgentClock(2400, 2400, 2900)
    assert readiness(boot({"boot_id": "h"}, clock, "h", status="failed")) is None
    assert readiness(boot(None, None, "h", ready_monotonic_ns=None)) is None
    assert readiness(boot(None, None, None)) == Readiness(2000, None, None, None)


def test_what_was_put_in_comes_out(weighed: Analysis) -> None:
    rows = {row.platform: row for row in weighed.guests}
    assert list(rows) == list(weighed.platforms)
    machine, runc, native = rows["qemu-tcg-e1000"], rows["runc"], rows["native"]
    assert (machine.ready and machine.ready.median) == 2_100_000_000
    assert (machine.kernel and machine.kernel.median) == 1_200_000_000
    assert (machine.init and machine.init.median) == 300_000_000
    assert (machine.spawn and machine.spawn.median) == 600_000_000
    assert native.kernel is None
    assert machine.idle is not None
    assert machine.worked is not None
    assert machine.idle.median == 251 * MIB
    assert machine.worked.median == 291 * MIB
    assert machine.worked.blocks == 7
    assert machine.worked.interval is not None
    assert machine.charged is None, "what was not reported is not zero"
    assert (runc.charged and runc.charged.median) == 5 * MIB
    assert {name: shared.median for name, shared in runc.shared.items()} == {"dockerd": 61 * MIB}
    assert native.shared == {}


def test_cpu_time_is_per_job_and_set_against_the_baseline_of_the_same_block(weighed: Analysis) -> None:
    uses = {(use.platform, use.task.workload): use for use in weighed.host_cpu}
    machine = uses["qemu-tcg-e1000", "superpi"]
    assert machine.unit == "job"
    assert machine.ratio == pytest.approx(8.0, rel=0.05), "the injected cost of the CPU"
    assert machine.interval is not None
    assert machine.interval.low < 8.0 < machine.interval.high
    assert uses["native", "superpi"].ratio is None, "the baseline is not set against itself"
    frames = uses["qemu-tcg-e1000", "forward"]
    assert (frames.unit, frames.ratio) == ("forwarded frame", None)
    assert frames.per_unit.median > 0


def test_a_trial_without_a_whole_reading_has_no_cpu_time() -> None:
    plain = analyse(run_data(Truth(REALISTIC)))
    assert plain.host_cpu == ()
    assert {used_ns(trial.host_cpu) for trial in plain.data.trials} == {None}
    assert all(row.idle is None and row.processes is None for row in plain.guests)


def test_consolidation_is_what_each_guest_took() -> None:
    steps = [parse_record(ConsolidationRecord, one) for one in consolidation_steps("netns", 40, 3 * MIB, 2 * MIB, 0.2)]
    (found,) = consolidations(steps)
    assert (found.platform, found.guests, found.reason) == ("netns", 40, "the budget of 120 MiB is gone")
    assert found.available is not None
    assert found.processes is not None
    each = found.available.bytes_per_guest
    assert each.value == pytest.approx(3 * MIB, rel=0.05)
    assert each.interval is not None
    assert each.interval.low < 3 * MIB < each.interval.high
    fit = found.processes.guests_per_gib
    assert fit is not None
    middle, low, high = fit
    assert middle == pytest.approx(512)
    assert low == high == pytest.approx(512)


def test_a_slope_that_reaches_zero_has_no_upper_bound_and_no_guests_no_slope() -> None:
    noisy = [parse_record(ConsolidationRecord, one) for one in consolidation_steps("netns", 4, MIB, MIB, 8.0)]
    found = consolidations(noisy)[0].available
    assert found is not None
    assert found.bytes_per_guest.interval is not None
    assert found.bytes_per_guest.interval.low < 0
    fit = found.guests_per_gib
    assert fit is None or fit[2] is None
    refused = [parse_record(ConsolidationRecord, one) for one in consolidation_steps("runc", 0, 0, 0, 0)]
    assert (consolidations(refused)[0].guests, consolidations(refused)[0].available) == (0, None)
    assert consolidations([]) == ()


def test_a_series_that_was_broken_off_counts_from_its_new_beginning() -> None:
    broken = consolidation_steps("netns", 7, MIB, MIB, 0)[:-1]
    again = consolidation_steps("netns", 3, MIB, MIB, 0)
    (found,) = consolidations([parse_record(ConsolidationRecord, one) for one in [*broken, *again]])
    assert (found.guests, len(found.steps)) == (3, 3)
    (half,) = consolidations([parse_record(ConsolidationRecord, one) for one in broken])
    assert half.reason == "the series was not brought to its end"
