"""Guests on another host, reached by the real SSH; generator, sink and timekeeper stay here, on NICs that face it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments, machine
from tests.support.accounting import shares_nics
from tests.support.commands import DEADLINE_SECONDS
from tests.support.guests import right_or_disturbed
from tests.support.lab_runs import assert_books_balance, assert_shaped
from tests.support.ssh_hosts import SshHosts, ssh_hosts

from virtoll.report.build import load
from virtoll.runfolder.store import RunFolder
from virtoll.stats.analysis import analyse
from virtoll.stats.guests import forwarded_frames
from virtoll.workloads.loads import FLOOD_SHARE, gone_still

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(1800)]
TCP_BYTES, TCP_RATE = 2**18, 10_000_000
SHARES = {"forward": 0.5, "network-flood": FLOOD_SHARE}  # of what a guest forwards at most
SUPERPI: dict[str, object] = {"workload": "superpi", "digits": 24_000}
STREAM: dict[str, object] = {"workload": "tcp-stream", "size": TCP_BYTES, "link_rate_bits_per_second": TCP_RATE}
PAIRS = tuple((f"vhnear{number}", "box", f"vhfar{number}") for number in range(7))
OF_ONE_SOURCE = PAIRS[:3]  # a run takes those that it is told of, and they are gone with its lab
WITH_TWO_BESIDE = PAIRS[:5]
BESIDE = tuple(far for _, _, far in PAIRS[3:5])


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with ssh_hosts(tmp_path_factory.mktemp("hosts"), ("box",)) as made:
        yield made


def experiment(
    folder: Path,
    destination: str = "box",
    *,
    timekeeper: bool = True,
    sources: int = 1,
    beside: tuple[str, ...] = (),
    **more: object,
) -> Path:
    """One in which so many sources have a NIC each, and an egress link each.

    ``beside``: the hypervisor's NICs for one guest beside, which face this machine's after those.
    """
    near, far = [pair[0] for pair in PAIRS], [pair[2] for pair in PAIRS]
    testbed: dict[str, object] = {
        "generator": {"host": "local", "interfaces": near[:sources]},
        "sink": {"host": "local", "interfaces": near[sources : 2 * sources]},
        "hypervisor": {"host": {"ssh": destination}, "interfaces": far[: 2 * sources + timekeeper]},
    }
    if timekeeper:
        testbed["timekeeper"] = {"host": "local", "interfaces": near[2 * sources : 2 * sources + 1]}
    if beside:
        generator, sink = near[2 * sources + timekeeper :][:2]
        testbed["neighbour"] = {"generator": generator, "sink": sink, "hypervisor": list(beside)}
    wanted: dict[str, object] = {
        "platforms": ["qemu-tcg"],
        "baseline": "qemu-tcg",
        "blocks": 1,
        "guest": {"memory": "128MiB"},
        "testbed": testbed,
        "workloads": [
            {
                "workload": "forward",
                "frame_size_bytes": 500,
                "sources": sources,
                "egress": "each",
                "rate_factor": 64,
                "first_rate_frames_per_second": 500,
                "point_milliseconds": 200,
            },
            SUPERPI,
            STREAM,
        ],
    }
    return experiments.write(folder, **{**wanted, **more})


def assert_measured(folder: RunFolder, platforms: tuple[str, ...], sources: int) -> None:
    """All went well; times are those of frames on the wire, cables were shaped, and no frame is unaccounted for."""
    trials = folder.latest_trials()
    assert {(one.platform, one.workload) for one in trials} == {
        (label, workload) for label in platforms for workload in ("forward", "superpi", "tcp-stream")
    }
    assert [(one.platform, one.status, one.reason) for one in trials if not right_or_disturbed(one)] == []
    for trial in trials:
        if trial.status == "failed":
            continue  # what the guest beside it forwards at most could not be measured
        if trial.workload != "forward":
            assert trial.clock is not None
            assert trial.clock.method == "icmp"
        if trial.workload == "tcp-stream":
            assert_shaped(trial, TCP_BYTES, TCP_RATE)
        if trial.workload != "forward":
            continue
        assert forwarded_frames(trial) > 0
        arrived = {one.source for point in trial.points or () for one in point.sink.per_source if one.forwarded_frames}
        assert len(arrived) == sources
        ends = {far for _, _, far in PAIRS[: 2 * sources]} if trial.platform == "qemu-tcg" else set()
        for point in trial.points or ():
            there = {hop.interface for hop in point.hops or () if hop.where == "lab"}
            assert there >= ends if ends else there == ends
            assert_books_balance(point)
    for entry in folder.manifest.platforms:
        assert (entry.host, entry.caveat) == ("ssh box", None)


@pytest.mark.extended
def test_the_host_itself_is_measured_with_three_sources(hosts: SshHosts, tmp_path: Path) -> None:
    """It has the NICs for its own trials, and the guests' bridges for theirs."""
    platforms, sources = ("native", "native-again", "qemu-tcg"), 3
    hosts.wire(PAIRS[: 2 * sources + 1])
    file = experiment(tmp_path, sources=sources, platforms=list(platforms), baseline=platforms[0])
    folder = hosts.measure(file)
    assert_measured(folder, platforms, sources)
    boots = {one.platform: one for one in folder.boots()}
    assert {boots[label].attachment for label in platforms if label != "qemu-tcg"} == {"nic"}
    compared = [one for one in analyse(load(folder.path)).comparisons if one.platform == "qemu-tcg"]
    assert [one.share is not None for one in compared if one.task.workload == "superpi"] == [True]
    hosts.assert_nothing_left()


def beside_experiment(
    folder: Path, platforms: list[str], loads: list[dict[str, object]], *more: dict[str, object]
) -> Path:
    """Guests beside the measured one have NICs of their own for traffic."""
    forward = {
        "workload": "forward",
        "frame_size_bytes": 500,
        "backend": "af-packet",  # each further one is calibrated too
        "sweep": "rates",
        "rates_mbit_per_second": [1],
        "point_milliseconds": 200,
        "cpu_milliseconds": 0,
    }
    return experiment(
        folder,
        beside=BESIDE,
        scenario="neighbours",
        platforms=platforms,
        baseline=platforms[0],
        neighbours=loads,
        workloads=[forward, *more],
    )


def assert_forwarded_beside(folder: RunFolder, loaded: set[tuple[str, str]]) -> None:
    """What one forwards at most was found there in the same boot; no frame of its is at the measured guest's NICs."""
    trials = folder.latest_trials()
    assert [(one.platform, one.status, one.reason) for one in trials if not right_or_disturbed(one)] == []
    beside = [(one, other, other.traffic) for one in trials for other in one.neighbours if other.traffic is not None]
    starved = {(one.platform, one.condition.load) for one in trials if one.condition and one.status == "failed"}
    found = {(one.platform, one.condition.load) for one, _, _ in beside if one.condition is not None}
    assert found <= loaded <= found | starved
    boots, maxima = {one.boot: one for one in folder.boots()}, {one.boot: one for one in folder.maxima()}
    for trial, other, traffic in beside:
        asked = boots[other.boot].requested
        assert asked is not None
        assert len(asked.interface_macs) == 2, "it has the two links that NICs are named for, and no other"
        assert trial.condition is not None
        most = maxima[other.boot].maximum_frames_per_second
        assert other.maximum_frames_per_second == most > 0
        assert traffic.intended_rate_frames_per_second == pytest.approx(most * SHARES[trial.condition.load])
        (sent,), (arrived,) = traffic.sources, traffic.sink.per_source
        assert arrived.forwarded_frames + arrived.lost_frames == sent.offered_frames > 0
        assert arrived.forwarded_frames > 0
        assert trial.workload != "forward" or not shares_nics(trial)
    assert folder.manifest.testbed is not None
    assert folder.manifest.testbed["neighbour"]["hypervisor"] == list(BESIDE)


def assert_loaded_apart(folder: RunFolder) -> None:
    """The guest beside was pinned on that host's CPU; its own agent reads what its programs used."""
    found = {
        one.condition.load: one
        for one in folder.latest_trials()
        if one.workload == "superpi" and one.condition is not None and one.condition.affinity == "apart"
    }
    assert set(found) == {"network-flood", "light"}
    (loaded,) = found["light"].neighbours
    if found["network-flood"].status != "failed":  # else its maximum could not be measured
        (flooded,) = found["network-flood"].neighbours
        assert flooded.boot == loaded.boot
    boots, cpus = {one.boot: one.requested for one in folder.boots()}, sorted(os.sched_getaffinity(0))
    asked = [boots[boot] for boot in (found["light"].boot, loaded.boot) if boot is not None]
    assert [one.cpus for one in asked if one is not None] == [(cpus[0],), (cpus[1],)]
    assert loaded.cpus == (cpus[1],)
    assert loaded.argv[0] == "stress"
    assert gone_still(loaded.progress, loaded.window) is None


def test_guests_there_and_beside_are_measured_and_nothing_stays(hosts: SshHosts, tmp_path: Path) -> None:
    """Alone, and beside one that is flooded by NICs of its own and then has programs."""
    hosts.wire(WITH_TWO_BESIDE)
    loads: list[dict[str, object]] = [{"load": ["network-flood", "light"], "affinity": "apart"}]
    file = beside_experiment(tmp_path, ["qemu-tcg"], loads, SUPERPI, STREAM)
    folder = hosts.measure(file)
    assert_measured(folder, ("qemu-tcg",), sources=1)
    assert_forwarded_beside(folder, {("qemu-tcg", "network-flood")})
    assert_loaded_apart(folder)
    hosts.assert_nothing_left()


@pytest.mark.extended
def test_guests_beside_the_host_itself_forward_by_nics_of_their_own(hosts: SshHosts, tmp_path: Path) -> None:
    hosts.wire(WITH_TWO_BESIDE)
    loads: list[dict[str, object]] = [
        {"load": "network-flood"},
        {"load": "forward", "rate_share": SHARES["forward"]},
    ]
    folder = hosts.measure(beside_experiment(tmp_path, ["native", "native-again", "qemu-tcg"], loads))
    assert_forwarded_beside(folder, {(label, load) for label in ("native", "qemu-tcg") for load in SHARES})
    hosts.assert_nothing_left()


def test_a_killed_run_leaves_nothing_on_the_host(hosts: SshHosts, tmp_path: Path) -> None:
    """It is killed with a guest of each kind there that is up, which a program and the name of a network show."""
    hosts.wire(OF_ONE_SOURCE)
    signs = ("qemu-system", "-native")
    file = experiment(tmp_path, platforms=["native", "qemu-tcg"], baseline="native", blocks=20)
    process = hosts.start("run", file, "--into", tmp_path / "run", variables={"VIRTOLL_RUNS": str(tmp_path)})
    boots = tmp_path / "run" / "boots.jsonl"

    def missing() -> list[str]:
        if process.poll() is not None:
            return []
        if not boots.exists() or boots.read_text(encoding="utf-8").count("\n") < len(signs):
            return ["guests that are up"]
        words = hosts.left("box")
        return [sign for sign in signs if not any(sign in word for word in words)]

    try:
        awaited, _ = machine.poll_until_empty(missing, DEADLINE_SECONDS)
        assert awaited == []
        assert process.poll() is None, process.communicate()
    finally:
        process.kill()
        process.communicate()
    hosts.assert_nothing_left()


@pytest.mark.parametrize(
    ("destination", "more", "facts"),
    [
        ("box-closed", {}, ("ssh box-closed", "Connection refused")),
        ("box", {"timekeeper": False}, ("testbed.timekeeper",)),
        ("box", {"beside": (BESIDE[0], "vhnone")}, ("ssh box", "vhnone", *BESIDE)),
    ],
)
def test_what_is_wrong_is_named_before_anything_starts(
    hosts: SshHosts, tmp_path: Path, destination: str, more: dict[str, Any], facts: tuple[str, ...]
) -> None:
    hosts.wire(WITH_TWO_BESIDE)
    file = experiment(tmp_path, destination, scenario="neighbours", neighbours=["idle"], **more)
    hosts.refuses(file, *facts)
    hosts.assert_nothing_left()
