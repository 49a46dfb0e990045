"""Tables of routes and guests side by side on models: what is asked, what is stored, what the report makes of it."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.support import experiments
from tests.support.agents import recorded_reply
from tests.support.experiments import fake
from tests.support.facts import Fact, assert_facts, missing_facts, refused
from tests.support.model_runs import run as run_models

from virtoll.agent.operations.network import NetworkRequest
from virtoll.agent.operations.traffic import Destinations
from virtoll.errors import AgentError, UsageError
from virtoll.host.guest_usage import GuestProcesses, cpu_around
from virtoll.lab.network import plan_links
from virtoll.pipeline.live_guest import LiveGuest
from virtoll.pipeline.preview import estimate, plan_of
from virtoll.platforms import PLATFORMS
from virtoll.report.build import build_report, load
from virtoll.runfolder.frame_shape import MOST_DESTINATIONS, FrameShape
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.traffic_records import SinkCounts, TrafficReply
from virtoll.stats.analysis import analyse
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import DataDirectory, Needs
from virtoll.workloads.forward import Forward, ForwardParameters
from virtoll.workloads.router import routing, without_vlans
from virtoll.workloads.traffic import Lane, Table, TrafficStream
from virtoll.workloads.transmitters import apart

pytestmark = pytest.mark.usefixtures("undrawn")
if TYPE_CHECKING:
    from virtoll.pipeline.data_directory import DataKeeper
    from virtoll.workloads.base import Bench

LANE = Lane("p0in0", "02:00:00:00:00:01", "02:00:00:00:00:02", "10.64.0.2", "10.64.3.2")


def run(into: Path, **changed: Any) -> RunFolder:
    """The run of an experiment of two models."""
    return run_models(into, **{"platforms": [fake("model"), fake("dear", cost=2)], **changed})


def test_frames_go_all_over_a_table_by_default() -> None:
    assert ForwardParameters(routes=1000).destinations == MOST_DESTINATIONS
    assert ForwardParameters(routes=1000, destinations=3).destinations == 3
    assert ForwardParameters().destinations == 1
    wanted = ForwardParameters(routes=1000)
    asked = TrafficStream((LANE,), ("p0out",), 1, 1, Table(1000, 9)).request(wanted, 7, 1000, None)
    assert asked.sources[0].destinations == Destinations(count=MOST_DESTINATIONS, routes=1000, seed=9)
    # A calibration has no table, and sends to as many addresses all the same.
    asked = TrafficStream((LANE,), ("p0out",), 1, 1).request(wanted.shape(), 7, 1000, None)
    assert asked.sources[0].destinations is not None
    assert asked.sources[0].destinations.count == MOST_DESTINATIONS


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        ({"workload": "forward", "routes": 10, "ip_version": 6, "frame_size_bytes": 84}, ["IPv4"]),
        ({"workload": "forward", "destinations": 5}, ["table"]),
        ({"workload": "forward", "routes": 2_000_001}, ["routes"]),
        ({"workload": "forward", "sources": 4}, ["sources"]),
        (
            {"workload": "transmitters", "link_rate_bits_per_second": 10**8},
            ["link_rate_bits_per_second", "nic: shared"],
        ),
        ({"workload": "transmitters", "nic": "common"}, ["nic", "'own'", "'shared'"]),
        (
            {"workload": "virtual-routers", "total_rate_frames_per_second": 1000, "rate_factor": 4},
            ["rate_factor", "total_rate_frames_per_second"],
        ),
        (
            {"workload": "virtual-routers", "total_rate_frames_per_second": 1000, "sweep": "from-flat-out"},
            ["sweep", "total_rate_frames_per_second"],
        ),
    ],
)
def test_parameters_that_exclude_each_other_are_refused(wrong: dict[str, Any], facts: list[str]) -> None:
    with refused(*facts, error=UsageError):
        experiments.parsed(workloads=[wrong])


def test_a_table_needs_memory_and_routers_need_guests() -> None:
    assert Forward(ForwardParameters()).needs().memory_bytes == 0
    million = Forward(ForwardParameters(routes=1_000_000)).needs().memory_bytes
    assert million > 132 * 2**20 + Forward(ForwardParameters(routes=1)).needs().memory_bytes
    assert WORKLOADS["virtual-routers"].with_parameters({"routers": 5}).needs().guests == 5


def test_the_estimate_knows_the_starts_of_all_guests() -> None:
    def seconds(routers: list[int]) -> float:
        wanted = experiments.parsed(
            platforms=["qemu-tcg"],
            baseline="qemu-tcg",
            workloads=[{"workload": "virtual-routers", "routers": routers}],
            blocks=1,
        )
        return estimate(plan_of(wanted))

    # The same trials, of eight guests at most instead of two: six more starts, and a calibration like the other.
    boot = PLATFORMS["qemu-tcg"].boot_seconds
    assert seconds([1, 8]) - seconds([1, 2]) == pytest.approx(6 * boot)


def test_the_load_of_a_table_is_stored_by_the_outside_clock_and_checked(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", workloads=[{"workload": "forward", "routes": [0, 1000]}])
    trials = {(one.platform, one.parameters["routes"]): one for one in folder.trials()}
    assert {one.status for one in trials.values()} == {"ok"}
    assert trials["model", 0].result is None
    stored = trials["dear", 1000].result
    assert stored is not None
    assert stored["routing_table"]["routes"] == 1000
    assert stored["routing_table"]["clock"]["marks"]["end_ns"] > stored["routing_table"]["clock"]["marks"]["start_ns"]
    assert trials["dear", 1000].check is not None
    folder = run(
        tmp_path / "wrong",
        platforms=[fake("model", failure="wrong-check")],
        workloads=[{"workload": "forward", "routes": 1000}],
        blocks=1,
    )
    wrong = folder.trials()[0]
    assert wrong.status == "failed"
    assert_facts(wrong.reason or "", "routes", "table")


def test_each_router_and_transmitter_is_a_source_and_a_guest_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LiveGuest, "host_cpu", lambda _: cpu_around(GuestProcesses(os.getpid())))
    workloads = [
        {"workload": "virtual-routers", "routers": [1, 2, 4]},
        {"workload": "transmitters", "transmitters": [1, 3]},
    ]
    folder = run(tmp_path / "run", workloads=workloads)
    for trial in folder.trials():
        assert (trial.status, trial.reason) == ("ok", None)
        count = trial.parameters.get("routers") or trial.parameters["transmitters"]
        for point in trial.points or ():
            assert [one.source for one in point.sink.per_source] == list(range(count))
            assert len(point.sources) == count
        assert (trial.host_cpu is None) == (count > 1)
    # Four guests of each platform at most, each started once a block, whatever the trials' order.
    boots = [boot for boot in folder.boots() if boot.platform == "dear"]
    assert sorted((boot.block, boot.instance) for boot in boots) == [
        (block, place) for block in (0, 1) for place in range(4)
    ]
    assert len({boot.boot for boot in boots}) == 8
    asked = [boot.requested for boot in folder.boots() if boot.block == 0]
    macs = [mac for one in asked if one is not None for mac in one.interface_macs]
    assert None not in asked
    assert len(macs) == len(set(macs)), "no two guests have a link in common"

    analysis = analyse(load(folder.path))
    found = {(one.platform, one.factor): one for one in analysis.scalings}
    assert set(found) == {(one, factor) for one in ("model", "dear") for factor in ("routers", "transmitters")}
    steps = found["dear", "routers"].steps
    # The model's router is one, however many stand there; its transmitters are each as fast as one.
    assert steps[2].ratio == pytest.approx(1.0, rel=0.2)
    assert found["dear", "transmitters"].steps[1].ratio == pytest.approx(3.0, rel=0.2)
    build_report(folder.path)
    with (folder.path / "report" / "tables" / "scaling.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["platform"], row["size"]) for row in rows if row["factor"] == "routers"] == [
        (one, size) for one in ("model", "dear") for size in ("1", "2", "4")
    ]
    page = (folder.path / "report" / "index.html").read_text(encoding="utf-8")
    assert 'src="figures/scaling' in page or "figure-scaling" in page
    assert (folder.path / "report" / "figures" / "scaling.svg").is_file()


def test_guests_share_a_nic_on_request(tmp_path: Path) -> None:
    """Their frames arrive over one link, and the rate is of all together: no more than the link carries."""
    workloads = [
        {"workload": "transmitters", "transmitters": [1, 3], "nic": "shared"},
        {"workload": "transmitters", "transmitters": 3},
        {"workload": "virtual-routers", "routers": [1, 2, 4], "total_rate_frames_per_second": 130_000},
        {"workload": "virtual-routers", "routers": 4, "rate_factor": 64},
    ]
    folder = run(tmp_path / "run", workloads=workloads)
    assert {(trial.status, trial.reason) for trial in folder.trials()} == {("ok", None)}
    for trial in folder.trials():
        point = (trial.points or ())[0]
        assert point.shared_link == (trial.parameters.get("nic") == "shared")
        if trial.parameters.get("total_rate_frames_per_second"):
            each = point.intended_rate_frames_per_second
            assert each is not None
            assert each * trial.parameters["routers"] == pytest.approx(130_000)
            assert len(trial.points or ()) == 1
    analysis = analyse(load(folder.path))
    labels = sorted(task.label for task in analysis.tasks)
    facts: list[tuple[Fact, ...]] = [
        ("1 transmitter", "shared NIC"),
        ("3 transmitters", "own NIC"),
        ("3 transmitters", "shared NIC"),
        ("1 router", 130000),
        ("2 routers", 130000),
        ("4 routers", 130000),
        ("4 routers", "sweep"),
    ]
    for label, own in zip(labels, facts, strict=True):
        assert_facts(label, *own)
    steps = {(one.platform, one.factor): [step.rate for step in one.steps] for one in analysis.scalings}
    assert {(one.factor, one.words) for one in analysis.scalings} == {
        ("transmitters", "shared NIC"),
        ("routers", "130000 frames/s in all"),
    }
    assert {len(step.shares) for one in analysis.scalings for step in one.steps} == {0, 2, 3, 4}, "fair at one rate too"
    assert steps["model", "routers"] == pytest.approx([130_000] * 3, rel=0.05)
    links = [plan_links(number, shared=True).links[-1].guest_mac for number in (0, 1)]
    firsts = [boot.requested for boot in folder.boots() if boot.block == 0 and boot.instance == 0]
    assert {mac for one in firsts if one is not None for mac in one.interface_macs} >= set(links)


def test_guests_that_die_cost_their_trial_and_all_are_started_anew(tmp_path: Path) -> None:
    folder = run(
        tmp_path / "run",
        platforms=[fake("model", failure="dies", dies_at_job=1)],
        workloads=[{"workload": "superpi", "digits": 100}, {"workload": "virtual-routers", "routers": 3}],
    )
    by_workload = {(one.workload, one.block): one.status for one in folder.latest_trials()}
    assert [by_workload["superpi", block] for block in (0, 1)] == ["failed", "failed"]
    assert [by_workload["virtual-routers", block] for block in (0, 1)] == ["ok", "ok"]


def test_a_guest_of_which_nothing_arrived_did_not_share_the_link() -> None:
    """Else its rate would be zero, and the most uneven sharing of all would be a result."""
    one = TrafficReply.from_json(recorded_reply("traffic"))
    sent, arrived = one.sources[0], one.sink.per_source[0]
    lost = arrived.replace(
        forwarded_frames=0,
        lost_frames=sent.offered_frames,
        first_received_monotonic_ns=None,
        last_received_monotonic_ns=None,
    )

    def of(*sources: SinkCounts) -> TrafficReply:
        return one.replace(sources=(sent,) * len(sources), sink=one.sink.replace(per_source=sources))

    assert_facts(apart(of(arrived, lost, arrived), None) or "", "guest 2 of 3")
    assert apart(of(arrived, arrived), 1.0) is None
    assert_facts(apart(of(arrived, arrived), 0.4) or "", "40%", "duration_milliseconds")
    silent = one.replace(sources=(sent.replace(offered_frames=0),) * 2, sink=one.sink.replace(per_source=(lost, lost)))
    assert apart(silent, None) is None, "nobody sent"


def test_a_second_guest_that_never_starts_is_tried_as_often_as_the_first(tmp_path: Path) -> None:
    """Three times in a block, and not in every trial: each start may take minutes."""
    workloads = [{"workload": "virtual-routers", "routers": 2}, {"workload": "superpi", "digits": 1000}]
    failing = fake("dear", failure="never-ready", failing_instance=1)
    folder = run(tmp_path / "run", platforms=[fake("model"), failing], workloads=workloads, blocks=1, rounds=5)
    own = [trial for trial in folder.trials() if trial.platform == "dear"]
    routers = [trial for trial in own if trial.workload == "virtual-routers"]
    assert {trial.status for trial in own if trial.workload == "superpi"} == {"ok"}
    assert len(routers) > 3
    assert {trial.status for trial in routers} == {"skipped"}
    assert all(not missing_facts(one.reason or "", "guest 2") for one in routers)
    assert [boot.status for boot in folder.boots() if (boot.platform, boot.instance) == ("dear", 1)] == ["failed"] * 3


def test_a_guest_without_files_on_a_disk_has_its_own_memory_again() -> None:
    """After a workload with such files the next one's would else be there too, or not, as the order came."""
    live = object.__new__(LiveGuest)  # its directory is seen from outside in a bench of a real guest alone
    on_disk = DataDirectory("/data", "ext4", "the host's disk")
    live.data = cast("DataKeeper", SimpleNamespace(empty=lambda: on_disk, volume=SimpleNamespace(folder=None)))
    with live.prepared("fio", Needs(data_bytes=1)) as lacking:
        assert (lacking, live._directory) == (None, on_disk)  # private, for the reason above
    with live.prepared("nginx", Needs()) as lacking:
        assert (lacking, live._directory) == (None, DataDirectory())


class Carried:
    """A guest that says yes to all, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[NetworkRequest] = []

    def ask(self, request: NetworkRequest, deadline_seconds: float = 0.0) -> None:
        del deadline_seconds
        self.asked.append(request)


@pytest.mark.parametrize(("kind", "untagged"), [("unsupported", True), ("limit", False)])
def test_a_guest_that_is_well_has_its_vlans_taken_away(
    monkeypatch: pytest.MonkeyPatch, kind: str, *, untagged: bool
) -> None:
    """One that refuses a table of routes goes on with trials without tags; one that fails is started anew."""
    monkeypatch.setattr("virtoll.workloads.router.await_path", lambda *_: None)
    guest, network = Carried(), plan_links(0)
    bench = cast(
        "Bench",
        SimpleNamespace(
            guest=guest, network=network, require_sources=lambda: None, peer=SimpleNamespace(at=lambda _: None)
        ),
    )
    with pytest.raises(AgentError), routing(bench, FrameShape(vlan=5, frame_size_bytes=128)):
        raise AgentError(kind, "its kernel has no room for the table")
    assert len(guest.asked) == (2 if untagged else 1)
    assert not untagged or guest.asked[1] == without_vlans(network)
