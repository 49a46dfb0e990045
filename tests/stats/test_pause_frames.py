"""Pause frames by the drivers' own counters: counted where a driver has them, and never zero where it has none.

No NIC of the machines that this was written on counts pause frames: the counters' names are those of Linux's drivers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.support.by_hand import plain, task, trial
from tests.support.facts import assert_facts
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.report.page import render_page
from virtoll.report.tables import csv_tables
from virtoll.runfolder.traffic_records import Hop
from virtoll.stats.analysis import RunData, analyse
from virtoll.stats.pause_frames import pause_counts, pause_rows
from virtoll.stats.values import tasks_of

PLAIN = run_data(
    Truth({"native": {}, "runc": REALISTIC["runc"]}, control=None, wired=True, blocks=1, frame_sizes=(68,))
)
Counters = Mapping[str, int]


def with_counters(platform: str, before: Counters | None, after: Counters | None) -> RunData:
    """The run in which the exit of one platform's way has these counters besides its own, at each point."""

    def counted(hop: Hop) -> Hop:
        if hop.role != "exit":
            return hop
        return replace(
            hop,
            before=None if before is None else {**(hop.before or {}), **before},
            after=None if after is None else {**(hop.after or {}), **after},
        )

    trials = tuple(
        replace(
            trial,
            points=tuple(replace(point, hops=tuple(map(counted, point.hops or ()))) for point in trial.points),
        )
        if trial.platform == platform and trial.points
        else trial
        for trial in PLAIN.trials
    )
    return replace(PLAIN, trials=trials)


def counts_of(data: RunData) -> set[tuple[str, str, int | None, int | None]]:
    found = pause_counts(tasks_of(data.manifest, data.trials), data.trials)
    return {(one.platform, one.role, one.received_frames, one.sent_frames) for one in found}


@pytest.mark.parametrize(
    ("received", "sent"),
    [
        (("rx_flow_control_xon", "rx_flow_control_xoff"), ("tx_flow_control_xon", "tx_flow_control_xoff")),
        (("port.link_xon_rx", "port.link_xoff_rx"), ("port.link_xon_tx", "port.link_xoff_tx")),
        (("rx_xon_pause_rcvd", "rx_xoff_pause_rcvd"), ("tx_xon_sent", "tx_xoff_sent")),
        (("rx_pause_ctrl_phy",), ("tx_pause_ctrl_phy",)),
    ],
)
def test_a_drivers_counters_are_known_by_its_names(received: tuple[str, ...], sent: tuple[str, ...]) -> None:
    """Of frames that begin a pause and of those that end one, the sum."""
    before = {f"driver_{name}": 100 for name in (*received, *sent)}
    after = {f"driver_{name}": 103 for name in received} | {f"driver_{name}": 120 for name in sent}
    assert counts_of(with_counters("runc", before, after)) == {("runc", "exit", 3 * len(received), 20 * len(sent))}


def test_none_sent_is_zero_and_not_counted_is_none() -> None:
    known = {"driver_rx_pause": 7, "driver_tx_pause": 0}
    assert counts_of(with_counters("runc", known, known)) == {("runc", "exit", 0, 0)}
    one_way = {"driver_rx_pause": 7}
    assert counts_of(with_counters("runc", one_way, one_way)) == {("runc", "exit", 0, None)}
    assert counts_of(PLAIN) == set()
    assert counts_of(with_counters("runc", None, known)) == set(), "it could not be read before the point"
    assert counts_of(with_counters("runc", known, {"driver_rx_pause": 2})) == set(), "set back, and not negative"


def test_priority_pauses_are_other_frames() -> None:
    own = {"driver_rx_prio0_pause": 1, "driver_tx_prio0_pause": 1}
    assert counts_of(with_counters("runc", own, dict.fromkeys(own, 9))) == set()


def test_a_cells_points_are_summed_paced_and_flat_out_apart() -> None:
    data = with_counters(
        "runc", {"driver_rx_pause": 0, "driver_tx_pause": 0}, {"driver_rx_pause": 0, "driver_tx_pause": 5}
    )
    (trial,) = (one for one in data.trials if one.platform == "runc" and one.points)
    points = trial.points or ()
    rows = {row.flat_out: row for row in pause_rows(pause_counts(tasks_of(data.manifest, data.trials), data.trials))}
    assert (rows[False].points, rows[False].sent_frames) == (len(points) - 1, 5 * (len(points) - 1))
    assert (rows[True].points, rows[True].received_frames, rows[True].sent_frames) == (1, 0, 5)


def test_each_point_of_each_trial_has_its_interfaces() -> None:
    """Two trials of two points; the second point's other end was not read after it, and counts nothing."""
    rate = task("forward", "points", {"size": 64})
    paused = {"driver_rx_pause": 5}

    def hop(interface: str | None, number: int | None, after: dict[str, int] | None) -> Hop:
        return Hop("exit", "sink-1", interface, "out", source=number, before=paused, after=after)

    first = plain(10.0, 11, hops=(hop("eth1", 3, {"driver_rx_pause": 6}), hop(None, 4, {"driver_rx_pause": 9})))
    second = plain(None, 11, hops=(hop("eth1", 3, {"driver_rx_pause": 7}), hop("eth2", None, None)))
    counts = pause_counts((rate,), [trial(8, first, second, block=2), trial(9, first, plain(10.0, 11), second)])
    told = [
        (one.trial, one.block, one.point, one.flat_out, one.where, one.interface, one.source, one.received_frames)
        for one in counts
    ]
    assert told == [
        (8, 2, 0, False, "sink-1", "eth1", 3, 1),
        (8, 2, 1, True, "sink-1", "eth1", 3, 2),
        (9, 0, 0, False, "sink-1", "eth1", 3, 1),
        (9, 0, 2, True, "sink-1", "eth1", 3, 2),
    ]
    rows = pause_rows(counts)
    assert {(row.platform, row.task, row.where, row.interface) for row in rows} == {("p", rate, "sink-1", "eth1")}
    assert [(row.flat_out, row.points, row.received_frames, row.sent_frames) for row in rows] == [
        (False, 2, 2, None),
        (True, 2, 4, None),
    ]


def test_the_page_and_a_table_show_them_where_they_are_counted() -> None:
    data = with_counters("runc", {"driver_tx_pause": 0}, {"driver_tx_pause": 5})
    counted, plain = analyse(data), analyse(PLAIN)
    page = render_page(counted, {})
    assert '<h3 id="pauses">' in page
    (table,) = (one for one in csv_tables(counted) if one.name == "pause_frames")
    place = table.header.index("sent_frames")
    assert {row[place] for row in table.rows} == {5}
    assert {row[place - 1] for row in table.rows} == {None}
    assert 'id="pauses"' not in render_page(plain, {})
    host = {"ssh": "bench@peer"}
    roles = {role: {"host": host, "interfaces": ["eth1"]} for role in ("generator", "sink")}
    testbed = {**roles, "hypervisor": {"host": {"local": True}, "interfaces": ["eth2"]}, "flow_control": False}
    by_nics = render_page(analyse(replace(PLAIN, manifest=replace(PLAIN.manifest, testbed=testbed))), {})
    assert_facts(by_nics, "No interface", "pause frames", "flow control", "switched off")
    assert "pause_frames" not in {one.name for one in csv_tables(plain)}
