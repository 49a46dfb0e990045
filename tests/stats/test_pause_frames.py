"""Pause frames by the drivers' own counters: counted where a driver has them, unknown and not zero elsewhere.

No NIC of the machines that this was written on counts pause frames: the counters' names are those of Linux's drivers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.by_hand import plain, task, trial
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run

from virtoll.report.page import render_page
from virtoll.report.report_input import ReportInput
from virtoll.report.tables import csv_tables
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Hop
from virtoll.stats.analysis import analyse
from virtoll.stats.pause_frames import pause_counts, pause_rows

RATE = task("forward", "points", {"size": 64})
Counters = dict[str, int]


def hop(before: Counters | None, after: Counters | None, interface: str | None = "eth1", source: int | None = 3) -> Hop:
    return Hop("exit", "sink-1", interface, "out", source=source, before=before, after=after)


def counted(before: Counters | None, after: Counters | None) -> tuple[int | None, int | None] | None:
    """Received and sent pause frames of a point whose exit had these counters; None: it counts none."""
    found = pause_counts((RATE,), [trial(1, plain(10.0, 11, hops=(hop(before, after),)))])
    return (found[0].received_frames, found[0].sent_frames) if found else None


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
    assert counted(before, after) == (3 * len(received), 20 * len(sent))


def test_none_sent_is_zero_and_not_counted_is_none() -> None:
    known = {"driver_rx_pause": 7, "driver_tx_pause": 0}
    assert counted(known, known) == (0, 0)
    one_way = {"driver_rx_pause": 7}
    assert counted(one_way, one_way) == (0, None)
    assert counted({"rx_packets": 1}, {"rx_packets": 2}) is None
    assert counted(None, known) is None, "it could not be read before the point"
    assert counted(known, {"driver_rx_pause": 2}) is None, "set back, and not negative"
    priority = {"driver_rx_prio0_pause": 1, "driver_tx_prio0_pause": 1}
    assert counted(priority, dict.fromkeys(priority, 9)) is None, "those are other frames"


def test_each_point_of_each_trial_has_its_interfaces() -> None:
    """Two trials of two points; the second point's other end was not read after it, and counts nothing."""
    paused = {"driver_rx_pause": 5}
    unnamed, unread = hop(paused, {"driver_rx_pause": 9}, None, 4), hop(paused, None, "eth2", None)
    first = plain(10.0, 11, hops=(hop(paused, {"driver_rx_pause": 6}), unnamed))
    second = plain(None, 11, hops=(hop(paused, {"driver_rx_pause": 7}), unread))
    counts = pause_counts((RATE,), [trial(8, first, second, block=2), trial(9, first, plain(10.0, 11), second)])
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
    assert {(row.platform, row.task, row.where, row.interface) for row in rows} == {("p", RATE, "sink-1", "eth1")}
    assert [(row.flat_out, row.points, row.received_frames, row.sent_frames) for row in rows] == [
        (False, 2, 2, None),
        (True, 2, 4, None),
    ]


def test_the_page_and_a_table_show_them_where_they_are_counted() -> None:
    plain_run = made_up_run({"native": {}}, [Made("native", "forward", {"frame_size_bytes": 64}, 1e5)], blocks=1)

    def pausing(one: TrialRecord) -> TrialRecord:
        hops = (hop({"driver_tx_pause": 0}, {"driver_tx_pause": 5}),)
        return one.replace(points=tuple(point.replace(hops=hops) for point in one.points or ()))

    counting = analyse(replace(plain_run, trials=tuple(map(pausing, plain_run.trials))))
    assert '<h3 id="pauses">' in render_page(ReportInput(counting), {})
    (table,) = (one for one in csv_tables(ReportInput(counting)) if one.name == "pause_frames")
    place = table.header.index("sent_frames")
    assert {(row[place - 1], row[place]) for row in table.rows} == {(None, 5)}
    assert 'id="pauses"' not in render_page(ReportInput(analyse(plain_run)), {})
    assert "pause_frames" not in {one.name for one in csv_tables(ReportInput(analyse(plain_run)))}
    roles = {role: {"host": {"ssh": "bench@peer"}, "interfaces": ["eth1"]} for role in ("generator", "sink")}
    hypervisor: dict[str, Any] = {"host": {"local": True}, "interfaces": ["eth2"]}
    testbed = {**roles, "hypervisor": hypervisor, "flow_control": False}
    by_nics = analyse(replace(plain_run, manifest=plain_run.manifest.replace(testbed=testbed)))
    assert_facts(render_page(ReportInput(by_nics), {}), "No interface", "pause frames", "flow control", "switched off")
