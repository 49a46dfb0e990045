"""The instrument itself: ceilings, pace, CPU time and back ends, as rows of text for the page.

No numbers are computed here: they come from `stats/wire.py` and `stats/ceilings.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from virtoll import units
from virtoll.report.rows import Shown, TableRow, grouped, in_order, known
from virtoll.runfolder.records import BootRecord
from virtoll.stats.analysis import Analysis
from virtoll.stats.bounds import forwarded_elsewhere
from virtoll.stats.ceilings import Ceiling
from virtoll.stats.wire import BackendUse, CpuRow, PaceRow, cpu_rows


def instrument_values(analysis: Analysis) -> dict[str, Any]:
    """What the template prints of generator and sink."""
    data = analysis.data
    cpu = cpu_rows(analysis.tasks, data.trials, _guest_cpus(analysis))
    return {
        "failed_calibrations": [record for record in data.calibrations if record.status != "ok"],
        "ceilings": list(map(_ceiling_row, analysis.ceilings)),
        "ceilings_apart": _apart(analysis),
        "paces": list(map(_pace_row, analysis.paces)),
        "pace_line": _pace_line(analysis.paces),
        "cpu": list(map(_cpu_row, in_order(analysis, cpu))),
        "cores": _cores(data.manifest.pinning or {}, data.boots),
        "backends": list(map(_backend_row, analysis.backends)),
    }


def _ceiling_row(ceiling: Ceiling) -> TableRow:
    measured = " and ".join(map(units.count, ceiling.rates))
    return TableRow(
        ceiling.shape.description,
        (
            Shown(ceiling.backend),
            Shown(ceiling.sink or "not reported"),
            Shown(units.frame_rate(ceiling.rate)),
            Shown(measured),
        ),
    )


def _pace_row(row: PaceRow) -> TableRow:
    batch = f"batch {row.batch_frames}" if row.batch_frames is not None else ""
    return TableRow(
        row.task.size,
        (
            Shown(row.backend, batch),
            Shown(units.count(row.target_rate)),
            known(row.median_rate, "{:.1f}".format),
            known(row.median_error, _signed),
            known(row.worst_error, _signed),
            known(row.gap_variation, units.significant),
            known(row.longest_gap_ns, units.nanoseconds),
            Shown(f"{row.held} of {row.held + row.missed}"),
            Shown(units.percent(row.unsent_share) if row.unsent_share else "0"),
        ),
    )


def _signed(error: float) -> str:
    """A relative error in percent with sign and four decimals, for 0.01 % is what is asked for; two above 1 %."""
    return f"{error * 100:+.{4 if abs(error) < 0.01 else 2}f} %".replace("-", "−")


def _pace_line(rows: Sequence[PaceRow]) -> str:
    held = [row for row in rows if row.median_error is not None]
    if not held:
        return ""
    worst = max(held, key=lambda row: abs(row.median_error or 0.0))
    return (
        f"{len(held)} target rates were held by at least one source; the largest median error is "
        f"{_signed(worst.median_error or 0.0)} ({worst.task.size} at {units.frame_rate(worst.target_rate)})."
    )


def _cpu_row(row: CpuRow) -> TableRow:
    values = (row.generator_ns, row.sink_ns, row.guest_cores_ns)
    return TableRow(
        row.platform,
        (Shown(row.task.size), *(known(value, units.nanoseconds) for value in values)),
    )


def _cores(pinning: Mapping[str, Any], boots: Sequence[BootRecord]) -> str:
    if not pinning.get("guest_cpus"):
        return "Nothing was pinned: there are too few CPUs, or the run is of models."
    guests = ", ".join(map(str, pinning["guest_cpus"]))
    if pinning.get("generator_cpu") is None:
        return f"Cores: guests {guests}; generator and sink were on other hosts and not pinned."
    cores = f"Cores: guests {guests}, generator {pinning.get('generator_cpu')}, sink {pinning.get('sink_cpu')}."
    if all(boot.forwarding is None for boot in boots):
        return (
            f"{cores} A veth's receiving side runs where the sender runs: for native, namespaces and containers the "
            "router's work is done on the generator's core and is in the generator's time; for machines it is on the "
            "guest's."
        )
    elsewhere = forwarded_elsewhere(boots)
    if not elsewhere:
        return f"{cores} What the host's kernel does for a guest's frames runs on the guest's."
    by_place = grouped(elsewhere, lambda platform: elsewhere[platform])
    where = "; ".join(f"for {', '.join(labels)} {place}" for place, labels in by_place.items())
    return f"{cores} What the host's kernel does for a guest's frames runs {where}."


def _apart(analysis: Analysis) -> bool:
    """Whether the ceilings were measured on a testbed's host, and so without its NICs."""
    return any(record.way == "testbed" and record.status == "ok" for record in analysis.data.calibrations)


def _guest_cpus(analysis: Analysis) -> Sequence[int]:
    """This machine's CPUs of the guests; none if the account of CPU time is of another machine's."""
    testbed = analysis.data.manifest.testbed
    if testbed is not None:
        generators = (testbed["generator"], *(testbed.get("more_generators") or ()))
        hosts = [generator["host"] for generator in generators]
        if any(host["ssh"] is not None or host.get("node") is not None for host in hosts):
            return ()
    return (analysis.data.manifest.pinning or {}).get("guest_cpus") or ()


def _backend_row(use: BackendUse) -> TableRow:
    why = use.reason or "the first choice, or the one that was asked for"
    return TableRow(use.kind, (Shown(use.name), Shown(str(use.points)), Shown(", ".join(use.platforms)), Shown(why)))
