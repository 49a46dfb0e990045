"""A campaign whose generator and sink are on another host (a network namespace), by way of interfaces of this one."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import commands, experiments
from tests.support.accounting import shares_nics
from tests.support.facts import assert_facts, assert_refused, missing_facts
from tests.support.guests import STARVED, right_or_disturbed
from tests.support.lab_runs import assert_books_balance, assert_shaped, text_of_testbed
from tests.support.machine import await_state
from tests.support.namespaces import network_namespace
from tests.support.real_run import measuring
from tests.support.repository import ROOT

from virtoll.pipeline.pinning import choose_pinning
from virtoll.report.build import load
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder
from virtoll.stats.analysis import analyse
from virtoll.stats.guests import forwarded_frames

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]
PAIRS = tuple((f"vtnear{number}", f"vtfar{number}") for number in range(4))
TCP_BYTES, TCP_RATE = 2**20, 10_000_000
SHARE = 0.05  # of what the guest beside forwards at most
AT_TWO_RATES: dict[str, Any] = {
    "workload": "forward",
    "frame_size_bytes": 500,
    "sweep": "rates",
    "rates_mbit_per_second": [1, 4],
    "point_milliseconds": 200,
    "cpu_milliseconds": 0,
}


@dataclass(frozen=True)
class Ends:
    """Two namespaces, each by a process in it: where Virtoll runs, with the near ends of some pairs, and the far one.

    This machine's own would be no place for interfaces: others who run the same have them there under the same names.
    """

    near: int
    far: int

    def virtoll(self, *arguments: str | Path, runs: Path) -> subprocess.CompletedProcess[str]:
        """``virtoll ARGUMENTS`` near."""
        return commands.virtoll(*arguments, runs=runs, way=["nsenter", f"--net=/proc/{self.near}/ns/net", "--"])

    def measure(self, file: Path) -> RunFolder:
        """Its one block, without a report."""
        arguments, folder = measuring(file)
        finished = self.virtoll(*arguments, runs=file.parent)
        assert finished.returncode == 0, finished.stderr
        return RunFolder.open(folder)

    def start(self, *arguments: str | Path, runs: Path) -> subprocess.Popen[str]:
        """The same, under way; the process is the caller's to end."""
        enter = ["nsenter", f"--net=/proc/{self.near}/ns/net", "--"]
        return subprocess.Popen(
            [*enter, *commands.VIRTOLL, *map(str, arguments)],
            env=commands.environment(VIRTOLL_RUNS=str(runs)),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def disciplines(self, interface: str) -> str:
        """What holds frames back that leave the far host by an interface of its."""
        look = ["nsenter", f"--net=/proc/{self.far}/ns/net", "--", "tc", "qdisc", "show", "dev", interface]
        return subprocess.run(look, capture_output=True, text=True, check=True).stdout

    def section(self, nics: int, *, beside: bool = False) -> dict[str, object]:
        """The testbed of an experiment; the generator has so many NICs, and the sink as many.

        ``beside``: the last two pairs are those of a guest beside the measured one.
        """
        host = {"netns": self.far}
        made: dict[str, object] = {
            "generator": {"host": host, "interfaces": [end for _, end in PAIRS[:nics]]},
            "sink": {"host": host, "interfaces": [end for _, end in PAIRS[nics : 2 * nics]]},
            "hypervisor": {"host": "local", "interfaces": [near for near, _ in PAIRS[: 2 * nics]]},
        }
        if beside:
            (near_in, far_in), (near_out, far_out) = PAIRS[2:]
            made["neighbour"] = {"generator": far_in, "sink": far_out, "hypervisor": [near_in, near_out]}
        return made


@pytest.fixture
def ends() -> Iterator[Ends]:
    with network_namespace() as near, network_namespace() as far:
        enter = ["nsenter", f"--net=/proc/{near}/ns/net", "--", "ip", "link", "add"]
        for name, end in PAIRS:
            pair = [name, "type", "veth", "peer", "name", end, "netns", str(far)]
            subprocess.run([*enter, *pair], check=True, capture_output=True)
        yield Ends(near, far)


@pytest.fixture
def by_switches(ends: Ends) -> Iterator[Ends]:
    """The same with a switch in the midst of each cable, so that the far NICs stay when the near ones go with a lab."""
    with network_namespace() as switches:
        for number, (name, end) in enumerate(PAIRS[:2]):
            for pid, lines in (
                (ends.near, [f"link del {name}"]),
                (ends.near, [f"link add {name} type veth peer name near{number} netns {switches}"]),
                (ends.far, [f"link add {end} type veth peer name far{number} netns {switches}", f"link set {end} up"]),
                (
                    switches,
                    [
                        f"link add s{number} type bridge",
                        *(f"link set {port}{number} master s{number}" for port in ("near", "far")),
                        *(f"link set {one}{number} up" for one in ("near", "far", "s")),
                    ],
                ),
            ):
                ip = ["nsenter", f"--net=/proc/{pid}/ns/net", "--", "ip", "-batch", "-"]
                given = "".join(f"{line}\n" for line in lines)
                subprocess.run(ip, input=given, text=True, check=True, capture_output=True)
        yield ends


def sent_apart(trial: TrialRecord) -> bool:
    """Whether a trial is refused because its guests did not send at the same time, and for nothing else."""
    why = ("the guests sent together for only", "no frame of guest")
    return trial.status == "invalid" and str(trial.reason).startswith(why)


@pytest.mark.parametrize(
    ("sources", "platforms"),
    [pytest.param(1, ["native", "netns", "qemu-tcg"], marks=pytest.mark.extended), (2, ["native", "netns"])],
    ids=["1", "2"],
)
def test_traffic_goes_through_the_interfaces(ends: Ends, sources: int, platforms: list[str], tmp_path: Path) -> None:
    """Into the guest by one for each source; out of it by the sink's first, or by one for each."""
    file = experiments.write(
        tmp_path,
        platforms=platforms,
        blocks=1,
        guest={"memory": "128MiB"},
        testbed=ends.section(sources),
        workloads=[
            {
                "workload": "forward",
                "frame_size_bytes": 500,
                "sources": sources,
                "egress": ["one", "each"][:sources],
                "rate_factor": 64,
                "first_rate_frames_per_second": 1000,
                "point_milliseconds": 200,
            },
            {"workload": "forkwait", "processes": 200},
            # All guests are behind the sink's NIC, which they share.
            {
                "workload": "transmitters",
                "transmitters": 2,
                "nic": "shared",
                "rate_frames_per_second": 1000,
                "duration_milliseconds": 1000,
            },
        ],
        skip=[f"{label}:{workload}" for label in platforms[2:] for workload in ("transmitters", "forkwait")],
    )
    folder = ends.measure(file)
    # A busy host may keep one of two senders off its CPU, and the trial says so; nothing else may be wrong.
    wrong = [one for one in folder.trials() if not right_or_disturbed(one) and not sent_apart(one)]
    assert [(one.platform, one.workload, one.reason) for one in wrong] == []
    assert folder.manifest.testbed is not None
    forward = [trial for trial in folder.trials() if trial.workload == "forward"]
    assert len(forward) == len(platforms) * sources
    for trial in forward:
        assert trial.points
        assert forwarded_frames(trial) > 0
        for point in trial.points:
            names = {hop.interface for hop in point.hops or () if hop.where == "peer"}
            used = 2 * sources if trial.parameters["egress"] == "each" else sources + 1
            assert point.hops is None or names == {end for _, end in PAIRS[:used]}
            assert_books_balance(point)
    sent = [trial for trial in folder.trials() if trial.workload == "transmitters"]
    assert len(sent) == 2
    for trial in sent:
        (point,) = trial.points or ()
        assert point.shared_link
        arrived = {one.source: one.forwarded_frames for one in point.sink.per_source}
        for one in point.sources:
            assert one.offered_frames + one.unsent_frames == one.intended_frames == 1000
            assert arrived.pop(one.source) == one.offered_frames > 0, (trial.platform, point)
        assert arrived == {}
    assert_facts(text_of_testbed(folder), f"netns {ends.far}")
    calibrations = folder.calibrations()
    assert [record.way for record in calibrations] == ["testbed"] * 2
    reasons = [record.reason for record in calibrations if record.status != "ok"]
    assert all(STARVED in (reason or "") for reason in reasons), reasons
    if not reasons:
        headrooms = analyse(load(folder.path)).headrooms
        assert all(one.ceiling is not None for (_, task), one in headrooms.items() if task.workload == "forward")


def shaped_experiment(folder: Path, ends: Ends, platforms: list[str], *, blocks: int) -> Path:
    """TCP over a cable that is shaped, and over the same one as it is."""
    stream = {"workload": "tcp-stream", "size": TCP_BYTES}
    return experiments.write(
        folder,
        platforms=platforms,
        baseline=platforms[0],
        blocks=blocks,
        guest={"memory": "128MiB"},
        testbed=ends.section(1),
        workloads=[
            {**stream, "direction": direction, "link_rate_bits_per_second": rate}
            for direction in ("to-guest", "from-guest")
            for rate in (TCP_RATE, 0)
        ],
    )


def test_the_cable_to_another_host_is_shaped(by_switches: Ends, tmp_path: Path) -> None:
    """As slow as it is made in both directions, for as long as the trial is; the NIC there is as it was before."""
    plain = by_switches.disciplines("vtfar0")
    file = shaped_experiment(tmp_path, by_switches, ["native", "netns"], blocks=1)
    trials = by_switches.measure(file).latest_trials()
    assert {one.platform for one in trials} == {"native", "netns"}
    assert [(one.platform, one.status, one.reason) for one in trials if not right_or_disturbed(one)] == []
    for trial in trials:
        assert trial.result is not None
        if not trial.parameters["link_rate_bits_per_second"]:
            assert trial.result["shaped_by"] is None
            continue
        assert_shaped(trial, TCP_BYTES, TCP_RATE)
    assert by_switches.disciplines("vtfar0") == plain


def test_a_killed_run_leaves_no_discipline_at_the_other_host(by_switches: Ends, tmp_path: Path) -> None:
    plain = by_switches.disciplines("vtfar0")
    file = shaped_experiment(tmp_path, by_switches, ["native"], blocks=50)
    with by_switches.start("run", file, "--into", tmp_path / "run", runs=tmp_path) as process:
        try:
            await_state(
                lambda: process.poll() is not None or by_switches.disciplines("vtfar0") != plain,
                "a discipline there",
                commands.DEADLINE_SECONDS,
            )
            assert process.poll() is None, process.communicate()
        finally:
            process.kill()
    await_state(lambda: by_switches.disciplines("vtfar0") == plain, "the end of the discipline there")


def test_sources_and_sinks_may_be_hosts_of_their_own(tmp_path: Path) -> None:
    """Three hosts send, each by a NIC of the same name and with an agent of its own.

    One other counts what the first two send, by two NICs; the first counts what the last one sends.
    """
    stream = {"workload": "tcp-stream", "size": TCP_BYTES, "link_rate_bits_per_second": TCP_RATE}
    with network_namespace() as near, network_namespace() as other, contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(network_namespace()) for _ in range(3)]
        roles: dict[str, list[dict[str, Any]]] = {
            "generator": [{"host": {"netns": host}, "interfaces": ["vgfar"]} for host in hosts],
            "sink": [
                {"host": {"netns": other}, "interfaces": ["vgout0", "vgout1"]},
                {"host": {"netns": hosts[0]}, "interfaces": ["vgout"]},
            ],
        }
        ends = [(one["host"]["netns"], name) for role in roles.values() for one in role for name in one["interfaces"]]
        for number, (host, name) in enumerate(ends):
            pair = [f"vgnear{number}", "type", "veth", "peer", "name", name, "netns", str(host)]
            enter = ["nsenter", f"--net=/proc/{near}/ns/net", "--", "ip", "link", "add"]
            subprocess.run([*enter, *pair], check=True, capture_output=True)
        file = experiments.write(
            tmp_path,
            platforms=["netns"],
            baseline="netns",
            blocks=1,
            testbed={
                **roles,
                "hypervisor": {"host": "local", "interfaces": [f"vgnear{number}" for number in range(6)]},
            },
            workloads=[
                {**AT_TWO_RATES, "sources": [1, 3]},
                {**AT_TWO_RATES, "sources": 3, "egress": "each"},
                stream,
            ],
        )
        folder = Ends(near, hosts[0]).measure(file)
    trials = folder.latest_trials()
    assert [(one.workload, one.parameters, one.reason) for one in trials if not right_or_disturbed(one)] == []
    forward = [one for one in trials if one.workload == "forward"]
    assert {(one.parameters["sources"], one.parameters["egress"]) for one in forward} == {
        (1, "one"),
        (3, "one"),
        (3, "each"),
    }
    for trial in forward:
        sources = trial.parameters["sources"]
        assert forwarded_frames(trial) > 0
        for point in trial.points or ():
            assert [one.source for one in point.sources] == list(range(sources))
            assert_books_balance(point)
            senders = [(hop.where, hop.interface, hop.source) for hop in point.hops or () if hop.role == "generator"]
            assert senders == [("peer", "vgfar", 0), ("peer-1", "vgfar", 1), ("peer-2", "vgfar", 2)][:sources]
            counted = [hop for hop in point.hops or () if hop.role in ("generator", "sink")]
            assert all(hop.before is not None and hop.after is not None for hop in counted), "each host's are read"
            links = 3 if trial.parameters["egress"] == "each" else 1
            arriving = [(hop.where, hop.interface) for hop in counted if hop.role == "sink"]
            assert arriving == [("sink", "vgout0"), ("sink", "vgout1"), ("sink-2", "vgout")][:links]
            clocks = point.generator_clocks
            if sources == 1:
                assert clocks is None
                continue
            assert clocks is not None
            assert [one.sources for one in clocks] == [(number,) for number in range(sources)]
            # One kernel has one clock: none of them began before all had been asked what theirs says.
            assert all(one.asked_monotonic_ns <= one.monotonic_ns <= one.answered_monotonic_ns for one in clocks)
            last = max(one.answered_monotonic_ns for one in clocks)
            assert all(one.start_monotonic_ns > last for one in point.sources)
    said = text_of_testbed(folder)
    for role in roles.values():
        for each in role:
            assert_facts(said, f"netns {each['host']['netns']}", f"({', '.join(each['interfaces'])})")


@pytest.mark.parametrize("nics_beside", [False, True], ids=["links", "NICs"])
def test_guests_beside_have_links_or_nics_of_their_own(ends: Ends, tmp_path: Path, *, nics_beside: bool) -> None:
    """The measured guest is behind its NICs; what the other one is sent never passes them.

    It is sent over the lab's own links, or by an agent at the other end of the NICs that are named for it.
    """
    file = experiments.write(
        tmp_path,
        scenario="neighbours",
        platforms=["netns"],
        baseline="netns",
        blocks=1,
        guest={"memory": "128MiB"},
        testbed=ends.section(1, beside=nics_beside),
        neighbours=[{"load": "forward", "rate_share": SHARE}],
        workloads=[AT_TWO_RATES, {"workload": "superpi", "digits": 100_000}],
    )
    folder = ends.measure(file)
    shared = choose_pinning(1).of_load().generator == choose_pinning(1).generator_cpu
    skipped = [one for one in folder.latest_trials() if one.status == "skipped"]
    assert {(one.workload, one.condition is None) for one in skipped} == ({("forward", False)} if shared else set())
    trials = [one for one in folder.latest_trials() if one.status != "skipped"]
    assert [(one.status, one.reason) for one in trials if not right_or_disturbed(one)] == []
    own = {end for _, end in PAIRS[:2]}
    for trial in trials:
        for point in trial.points or ():
            assert {hop.interface for hop in point.hops or () if hop.where == "peer"} <= own
    boots = {one.boot: one for one in folder.boots()}
    assert not any(shares_nics(trial) for trial in trials if trial.workload == "forward" and trial.neighbours)
    if any(one.status == "failed" for one in trials):
        return  # so busy a host does not say what the guest beside forwards at most
    (beside,) = [other for one in trials for other in one.neighbours if one.workload == "superpi"]
    assert beside.traffic is not None
    (sent,), (arrived,) = beside.traffic.sources, beside.traffic.sink.per_source
    assert arrived.forwarded_frames + arrived.lost_frames == sent.offered_frames > 0
    assert arrived.forwarded_frames > 0
    (maximum,) = folder.maxima()
    most = maximum.maximum_frames_per_second
    assert (beside.boot, beside.maximum_frames_per_second) == (maximum.boot, most)
    assert beside.traffic.intended_rate_frames_per_second == pytest.approx(most * SHARE)
    assert boots[beside.boot].status == "ok"
    assert (not missing_facts(text_of_testbed(folder), "vtfar2", "vtfar3", "vtnear2", "vtnear3")) == nics_beside
    assert (folder.manifest.testbed or {})["neighbour"] == ends.section(1, beside=nics_beside).get("neighbour")


def test_a_nic_without_flow_control_is_refused_before_anything_starts(ends: Ends, tmp_path: Path) -> None:
    """A veth has no pause frames, and says so."""
    wanted = {**ends.section(1), "flow_control": False}
    file = experiments.write(tmp_path, platforms=["native"], testbed=wanted, workloads=[{"workload": "forward"}])
    finished = ends.virtoll("run", file, "--into", tmp_path / "run", runs=tmp_path)
    assert_refused(finished, "vtnear0", "testbed.flow_control")
    assert not (tmp_path / "run").exists()
