"""The page's part on the packet path: losses by place, delay, pace, fairness, CPU time, back ends, as rows of text.

No numbers are computed here: they come from ``stats/wire.py``, ``stats/ceilings.py`` and ``stats/cautions.py``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from virtoll import units
from virtoll.report.methods_setting import listed
from virtoll.report.pause_frames import pause_table_rows
from virtoll.report.rows import Shown, TableRow
from virtoll.runfolder.records import BootRecord, Manifest
from virtoll.stats.analysis import Analysis
from virtoll.stats.bounds import forwarded_elsewhere
from virtoll.stats.ceilings import Ceiling
from virtoll.stats.hops import Owner
from virtoll.stats.order import OrderRow, order_rows
from virtoll.stats.values import places_of
from virtoll.stats.wire import BackendUse, CpuRow, DelayRow, FairRow, LossRow, PaceRow, cpu_rows, delay_rows, fair_rows

Row = TypeVar("Row", LossRow, DelayRow, FairRow, CpuRow, OrderRow)
_UNKNOWN = Shown("–", kind="missing")
_BY = {Owner.PLATFORM: "by the platform", Owner.HOST: "by the host itself", Owner.UNLOCATED: "at an unknown place"}


def wire_context(analysis: Analysis) -> dict[str, Any]:
    """What ``wire.html.j2`` prints."""
    trials, tasks = analysis.data.trials, analysis.tasks
    pinning = analysis.data.manifest.pinning or {}

    places = places_of(tasks)

    def ordered(rows: Iterable[Row]) -> list[Row]:
        """By task and platform, as in every other table; a cell's own rows stay as they are."""
        return sorted(rows, key=lambda row: (places[row.task], analysis.platforms.index(row.platform)))

    return {
        "cautions": analysis.cautions,
        "testbed": _testbed(analysis.data.manifest.testbed) + _nodes(analysis.data.manifest),
        "located": [_loss_row(row) for row in ordered(analysis.losses) if row.lost_frames],
        "lossless_rows": sum(not row.lost_frames for row in analysis.losses),
        "summary": _loss_summary([row for row in analysis.losses if row.platform not in analysis.caveats]),
        "pauses": pause_table_rows(analysis),
        "delays": [_delay_row(row) for row in ordered(delay_rows(tasks, trials))],
        "orders": [_order_row(row) for row in ordered(order_rows(tasks, trials))],
        "floors": [_floor_row(one) for one in analysis.ceilings if one.floor],
        "ceilings": [_ceiling_row(one) for one in analysis.ceilings],
        "failed_calibrations": [one for one in analysis.data.calibrations if one.status != "ok"],
        "paces": [_pace_row(row) for row in analysis.paces],
        "pace_line": _pace_line(analysis.paces),
        "fair": [_fair_row(row) for row in ordered(fair_rows(tasks, trials))],
        "cpu": [_cpu_row(row) for row in ordered(cpu_rows(tasks, trials, _guest_cpus(analysis)))],
        "ceilings_apart": _apart(analysis),
        "cores": _cores(pinning, analysis.data.boots),
        "backends": [_backend_row(use) for use in analysis.backends],
    }


def _share(part: int, whole: int) -> str:
    return units.percent(part / whole) if whole else "–"


def _loss_row(row: LossRow) -> TableRow:
    places = "; ".join(
        f"{place}: {count}" for place, count in sorted(row.by_segment.items(), key=lambda item: -item[1])
    )
    reported = "; ".join(row.counters.values())
    cells = [
        Shown(row.task.size, "flat out" if row.flat_out else "paced, all rates"),
        Shown(str(row.offered_frames)),
        Shown(str(row.lost_frames), _share(row.lost_frames, row.offered_frames)),
    ]
    for owner in Owner:
        frames = row.by_owner.get(owner, 0)
        kind = "warn" if frames and owner is not Owner.PLATFORM else ""
        cells.append(Shown(str(frames), _share(frames, row.offered_frames) if frames else "", kind))
    return TableRow(row.platform, (*cells, Shown(places, hint=reported)))


def _loss_summary(rows: Sequence[LossRow]) -> str:
    """One sentence over all paced points of platforms without a caveat: whose the losses were."""
    paced = [row for row in rows if not row.flat_out]
    lost, offered = sum(row.lost_frames for row in paced), sum(row.offered_frames for row in paced)
    if not offered:
        return ""
    owners = {owner: sum(row.by_owner.get(owner, 0) for row in paced) for owner in Owner}
    reported = ", ".join(f"{_share(frames, lost)} {_BY[owner]}" for owner, frames in owners.items() if frames)
    shares = f"; of these, {reported}" if lost else ""
    return f"At paced rates {lost} of {offered} frames were lost ({_share(lost, offered)}){shares}."


def _delay_row(row: DelayRow) -> TableRow:
    ns = units.nanoseconds
    return TableRow(
        row.platform,
        (
            Shown(row.task.size),
            Shown(units.count(row.target_rate), row.what),
            Shown(ns(row.minimum_ns)),
            Shown(ns(row.p50_ns)),
            Shown(ns(row.p90_ns)),
            Shown(ns(row.p99_ns)),
            Shown(ns(row.maximum_ns)),
            Shown(ns(row.variation_ns)),
            Shown(str(row.samples)),
        ),
    )


def _order_row(row: OrderRow) -> TableRow:
    values = (row.mean_extent, row.largest_extent, row.largest_late_ns, row.displaced_share, row.largest_displacement)
    extent, largest, late, displaced, furthest = values
    known = "" if row.known_frames == row.reordered_frames else f"of {row.known_frames} whose place is known"
    return TableRow(
        row.platform,
        (
            Shown(row.task.size),
            Shown(str(row.reordered_frames), units.percent(row.ratio)),
            _UNKNOWN if extent is None else Shown(units.significant(extent), known),
            _UNKNOWN if largest is None else Shown(str(largest)),
            _UNKNOWN if late is None else Shown(units.nanoseconds(late)),
            Shown(units.percent(row.three_reordered_share) if row.three_reordered_share else "0"),
            _UNKNOWN if displaced is None else Shown(units.percent(displaced)),
            _UNKNOWN if furthest is None else Shown(str(furthest)),
        ),
    )


def _floor_row(one: Ceiling) -> TableRow:
    floor, ns = one.floor, units.nanoseconds
    if floor is None:
        return TableRow(one.shape.description, ())
    return TableRow(
        "instrument alone",
        (
            Shown(one.shape.description),
            Shown(units.count(floor.rate), f"{one.backend}, {one.sink or 'sink not reported'}"),
            Shown(ns(floor.minimum_ns)),
            Shown(ns(floor.p50_ns)),
            _UNKNOWN,
            Shown(ns(floor.p99_ns)),
            Shown(ns(floor.maximum_ns)),
            Shown(ns(floor.p99_ns - floor.minimum_ns)),
            _UNKNOWN,
        ),
    )


def _ceiling_row(one: Ceiling) -> TableRow:
    measured = " and ".join(units.count(rate) for rate in one.rates)
    return TableRow(
        one.shape.description,
        (Shown(one.backend), Shown(one.sink or "not reported"), Shown(units.frame_rate(one.rate)), Shown(measured)),
    )


def _pace_row(row: PaceRow) -> TableRow:
    return TableRow(
        row.task.size,
        (
            Shown(row.backend, f"batch {row.batch_frames}" if row.batch_frames is not None else ""),
            Shown(units.count(row.target_rate)),
            _UNKNOWN if row.median_rate is None else Shown(f"{row.median_rate:.1f}"),
            _UNKNOWN if row.median_error is None else Shown(_signed(row.median_error)),
            _UNKNOWN if row.worst_error is None else Shown(_signed(row.worst_error)),
            _UNKNOWN if row.gap_variation is None else Shown(units.significant(row.gap_variation)),
            _UNKNOWN if row.longest_gap_ns is None else Shown(units.nanoseconds(row.longest_gap_ns)),
            Shown(f"{row.held} of {row.held + row.missed}"),
            Shown(units.percent(row.unsent_share) if row.unsent_share else "0"),
        ),
    )


def _signed(error: float) -> str:
    """A relative error in percent with sign and four decimals, for 0.01 % is what is asked for; two above 1 %."""
    return f"{error * 100:+.{4 if abs(error) < 0.01 else 2}f} %".replace("-", "−")


def _pace_line(rows: Sequence[PaceRow]) -> str:
    known = [row for row in rows if row.median_error is not None]
    if not known:
        return ""
    worst = max(known, key=lambda row: abs(row.median_error or 0.0))
    return (
        f"{len(known)} target rates were held by at least one source; the largest median error is "
        f"{_signed(worst.median_error or 0.0)} ({worst.task.size} at {units.frame_rate(worst.target_rate)})."
    )


def _fair_row(row: FairRow) -> TableRow:
    rates = ", ".join(map(units.count, row.rates))
    return TableRow(row.platform, (Shown(row.task.size), Shown(rates), Shown(f"{row.jain:.4f}")))


def _cpu_row(row: CpuRow) -> TableRow:
    values = (row.generator_ns, row.sink_ns, row.guest_cores_ns)
    return TableRow(
        row.platform,
        (Shown(row.task.size), *(_UNKNOWN if value is None else Shown(units.nanoseconds(value)) for value in values)),
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
    platforms: dict[str, list[str]] = {}
    for platform, place in elsewhere.items():
        platforms.setdefault(place, []).append(platform)
    where = "; ".join(f"for {', '.join(own)} {place}" for place, own in platforms.items())
    return f"{cores} What the host's kernel does for a guest's frames runs {where}."


def _testbed(testbed: Mapping[str, Any] | None) -> str:
    """Where generator and sink were, and what was switched for them, in sentences; empty without a testbed."""
    if testbed is None:
        return ""
    said = _ends(testbed)
    if (beside := testbed.get("neighbour")) is not None:
        reached = ", ".join(beside["hypervisor"])
        said += f" A guest beside had NICs of its own ({beside['generator']}, {beside['sink']}; reached by {reached})."
    flow_control = testbed.get("flow_control")
    if flow_control is not None:
        how = "on" if flow_control else "off"
        said += f" Layer-2 flow control of this machine's NICs was switched {how} for the run."
    return said


def _nodes(manifest: Manifest) -> str:
    """Which hosts the testbed's nodes were, a sentence a node; of a merged run those of all its parts."""
    parts = manifest.merged.parts if manifest.merged is not None else ()
    of_label: dict[str, list[str]] = {}
    for given in (manifest.nodes, *(part.nodes for part in parts)):
        for label, host in (given or {}).items():
            if host not in of_label.setdefault(label, []):
                of_label[label].append(host)
    said = (listed(f"Node {label} was", sorted(hosts)) for label, hosts in of_label.items())
    return "".join(f" {one}" for sentences in said for one in sentences)


def _ends(testbed: Mapping[str, Any]) -> str:
    roles = ("generator", "sink", "hypervisor", "timekeeper")
    ends = {role: ", ".join(testbed[role]["interfaces"]) for role in roles if testbed.get(role) is not None}
    sending = (testbed["generator"], *(testbed.get("more_generators") or ()))
    counting = (testbed["sink"], *(testbed.get("more_sinks") or ()))
    if testbed["hypervisor"]["host"].get("guests"):
        return (
            f"Generator ({ends['generator']}) and sink ({ends['sink']}) were on this machine; their NICs face the "
            "guests' own, which the guests' user wired."
        )
    if not testbed["hypervisor"]["host"]["local"]:
        return (
            f"Generator ({ends['generator']}) and sink ({ends['sink']}) were on this machine, the guests on "
            f"{_host(testbed['hypervisor']['host'])}, reached by its {ends['hypervisor']}."
        )
    generator, sink = (_host(testbed[role]["host"]) for role in ("generator", "sink"))
    reached = f"reached by {ends['hypervisor']} of this machine."
    if len(sending) > 1 or len(counting) > 1:
        return (
            f"The generators were on {_each(sending)}, the sinks on {_each(counting)}, {reached} Each began at one "
            "moment by its own clock, and several hosts have several clocks, so that one-way delays are missing."
        )
    if generator == sink:
        return (
            f"Generator ({ends['generator']}) and sink ({ends['sink']}) were on {generator}, {reached} Both ends of a "
            "delay were read from that host's clock."
        )
    return (
        f"The generator ({ends['generator']}) was on {generator} and the sink ({ends['sink']}) on {sink}, {reached} "
        "Two hosts have two clocks, so that one-way delays are missing."
    )


def _each(roles: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{_host(one['host'])} ({', '.join(one['interfaces'])})" for one in roles)


def _host(host: Mapping[str, Any]) -> str:
    if host.get("api") is not None:
        return str(host["api"])
    if host.get("node") is not None:
        return f"node {host['node']}"
    return f"ssh {host['ssh']}" if host["ssh"] is not None else f"netns {host['netns']}"


def _apart(analysis: Analysis) -> bool:
    """Whether the ceilings were measured on a testbed's host, and so without its NICs."""
    return any(one.way == "testbed" and one.status == "ok" for one in analysis.data.calibrations)


def _guest_cpus(analysis: Analysis) -> Sequence[int]:
    """This machine's CPUs of the guests; none where the account of CPU time is of another machine's."""
    testbed = analysis.data.manifest.testbed
    if testbed is not None:
        generators = (testbed["generator"], *(testbed.get("more_generators") or ()))
        if any(one["host"]["ssh"] is not None or one["host"].get("node") is not None for one in generators):
            return ()
    return (analysis.data.manifest.pinning or {}).get("guest_cpus") or ()


def _backend_row(use: BackendUse) -> TableRow:
    why = use.reason or "the first choice, or the one that was asked for"
    return TableRow(use.kind, (Shown(use.name), Shown(str(use.points)), Shown(", ".join(use.platforms)), Shown(why)))
