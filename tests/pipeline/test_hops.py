"""The model loses frames at a set place: the run folder, read back, names that place and no other."""

from __future__ import annotations

import pytest
from tests.support import experiments
from tests.support.agents import OperationAgent
from tests.support.experiments import fake
from tests.support.model_runs import measured

from virtoll.agent.path_counters import CounterSnapshot, HopReader
from virtoll.errors import GuestDied
from virtoll.lab.attachments import EndpointInterfaces
from virtoll.lab.network import plan_links
from virtoll.report import build_report
from virtoll.runfolder.store import RunFolder
from virtoll.stats.hops import Owner, locate

PLACES = {
    "guest": Owner.PLATFORM,
    "generator": Owner.HOST,
    "sink-ring": Owner.HOST,
    "sink": Owner.HOST,
    "unlocated": Owner.UNLOCATED,
}


def dead() -> OperationAgent:
    """An agent whose guest dies when it is asked."""
    return OperationAgent(counters=GuestDied("counters"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    into = tmp_path_factory.mktemp("hops") / "run"
    platforms = [fake(f"at-{place}", loss=0.05, lost_at=place) for place in PLACES]
    forward = {"workload": "forward", "frame_size_bytes": 500, "sources": [1, 3], "egress": ["one", "each"]}
    return measured(experiments.parsed(platforms=platforms, baseline="at-guest", workloads=[forward], blocks=2), into)


@pytest.mark.parametrize("place", PLACES)
def test_the_place_is_found_to_the_frame(folder: RunFolder, place: str) -> None:
    points = [
        point for trial in folder.latest_trials() if trial.platform == f"at-{place}" for point in trial.points or ()
    ]
    assert {len(point.sources) for point in points} == {1, 3}
    for point in points:
        losses = locate(point)
        assert {loss.owner for loss in losses} == {PLACES[place]}
        for sink in point.sink.per_source:
            assert sum(loss.frames for loss in losses if loss.source == sink.source) == sink.lost_frames > 0


def test_hops_are_in_the_order_of_the_path(folder: RunFolder) -> None:
    for trial in folder.latest_trials():
        for point in trial.points or ():
            sources = len(point.sources)
            roles = [hop.role for hop in point.hops or ()]
            if trial.parameters["egress"] == "each":
                assert roles == ["generator", "guest-in", "exit", "sink"] * sources
            else:
                assert roles == ["generator", "guest-in"] * sources + ["exit", "sink"]


def test_each_sources_frames_pass_its_own_links(folder: RunFolder) -> None:
    """Nothing is shared with an egress link each; a source alone has the records that it has with one."""
    network = plan_links(0, 3, sinks=3)
    ends = [link.peer_interface.removeprefix("p0") for link in network.sinks]
    for trial in folder.latest_trials():
        for point in trial.points or ():
            found = [(hop.source, str(hop.interface)[2:]) for hop in point.hops or () if hop.role == "sink"]
            each = trial.parameters["egress"] == "each" and len(point.sources) > 1
            assert found == (list(enumerate(ends)) if each else [(None, "out")])


def test_the_report_places_the_losses_of_each_platform(folder: RunFolder) -> None:
    text = build_report(folder.path).path.read_text(encoding="utf-8")
    section = text[text.index('<h3 id="losses">') :]
    assert all(f"at-{place}" in section for place in PLACES)
    assert "Jain" in text


def test_a_counter_of_pause_frames_stays_at_zero_and_others_go() -> None:
    """A NIC that counted no pause frames differs from one that cannot count them."""
    network, agent = plan_links(0), dead()
    entry = network.sources[0].lab_interface
    endpoints = {network.sources[0].name: EndpointInterfaces(entry=entry)}
    reader = HopReader(agent, agent, None, network, {}, endpoints)
    counters = {"rx_errors": 0, "driver_tx_flow_control_xoff": 0, "driver_rx_queue_0_drops": 0, "rx_packets": 4}
    reading = CounterSnapshot({"lab": {entry: counters}}, {})
    hops = reader.hops(reading, reading, 1)
    assert hops is not None
    (found,) = (hop for hop in hops if hop.role == "entry")
    assert found.before == found.after == {"driver_tx_flow_control_xoff": 0, "rx_packets": 4}


def test_a_guest_that_dies_at_a_reading_is_a_dead_guest() -> None:
    with pytest.raises(GuestDied):
        HopReader(dead(), dead(), None, plan_links(0), {}).read()
