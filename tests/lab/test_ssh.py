"""Generator and sink on two hosts, over the real SSH: a whole run, what is left after it however it ends, bad input."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments, machine
from tests.support.commands import DEADLINE_SECONDS
from tests.support.facts import assert_facts
from tests.support.guests import right_or_disturbed
from tests.support.lab_runs import assert_books_balance, assert_shaped, text_of_testbed
from tests.support.ssh_hosts import SshHosts, ip, ssh_hosts

from virtoll.lab.inside import wait_until
from virtoll.stats.guests import forwarded_frames

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]
SECTION: dict[str, Any] = {
    "generator": {"host": {"ssh": "alpha"}, "interfaces": ["far"]},
    "sink": {"host": {"ssh": "beta"}, "interfaces": ["far"]},
    "hypervisor": {"host": "local", "interfaces": ["near0", "near1"]},
}
TCP_BYTES, TCP_RATE = 2**20, 10_000_000
FORWARD = {
    "workload": "forward",
    "frame_size_bytes": 200,
    "rate_factor": 64,
    "first_rate_frames_per_second": 1000,
    "point_milliseconds": 200,
}
SHAPED = [
    {"workload": "tcp-stream", "size": TCP_BYTES, "direction": direction, "link_rate_bits_per_second": TCP_RATE}
    for direction in ("to-guest", "from-guest")
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with ssh_hosts(tmp_path_factory.mktemp("ssh")) as made:
        yield made


@contextlib.contextmanager
def by_a_switch(hosts: SshHosts) -> Iterator[None]:
    """The generator's NIC is behind one, and so it stays when the other end of the cable goes with a lab."""
    hosts.wire([("near0", "alpha", "port0"), ("near1", "beta", "far")])
    made = [
        "link add far type veth peer name port1",
        "link add switch type bridge",
        *(f"link set {port} master switch" for port in ("port0", "port1")),
        *(f"link set {one} up" for one in ("port0", "port1", "switch", "far")),
    ]
    for line in made:
        ip(hosts.hosts["alpha"], *line.split())
    try:
        yield
    finally:
        for name in ("far", "switch"):
            ip(hosts.hosts["alpha"], "link", "del", name)


def disciplines(hosts: SshHosts) -> str:
    """What holds frames back that leave the generator's host by its NIC."""
    look = ["nsenter", f"--target={hosts.hosts['alpha']}", "--net", "--", "tc", "qdisc", "show", "dev", "far"]
    return subprocess.run(look, capture_output=True, text=True, check=True).stdout


AT_THE_PEER: dict[str, dict[str, Any]] = {
    "iperf-udp": {"datagrams": 40, "rate_bits_per_second": 1_000_000},
    "rsync-file": {"size_bytes": "1MiB"},
}
MORE_AT_THE_PEER: dict[str, dict[str, Any]] = {
    "rsync-tree": {"direction": "from-guest"},
    "mariadb-oltp-outside": {"transactions": 30, "rows": 200},
    "nginx": {"requests": 60, "rate_requests_per_second": 100, "timeout_milliseconds": 600_000},
}


@pytest.mark.parametrize("programs", [AT_THE_PEER, pytest.param(MORE_AT_THE_PEER, marks=pytest.mark.extended)])
def test_a_run_with_generator_and_sink_on_two_hosts(
    hosts: SshHosts, tmp_path: Path, programs: dict[str, dict[str, Any]]
) -> None:
    """Programs of the image run at the generator: the image is copied there once, and is gone with the connection.

    The cable to the generator is slow in both directions for the trials that ask for it, and then as it was.
    """
    file = experiments.write(
        tmp_path,
        platforms=["netns"],
        baseline="netns",
        blocks=1,
        guest={"memory": "512MiB"},
        testbed=SECTION,
        workloads=[FORWARD, *SHAPED, *({"workload": name, **given} for name, given in programs.items())],
    )
    with by_a_switch(hosts):
        plain = disciplines(hosts)
        folder = hosts.measure(file)
        assert disciplines(hosts) == plain
        hosts.assert_nothing_left()
    trials = folder.latest_trials()
    assert [(one.workload, one.reason) for one in trials if not right_or_disturbed(one)] == []
    assert {one.workload for one in trials} == {"forward", "tcp-stream", *programs}
    for trial in trials:
        if trial.workload == "tcp-stream":
            assert_shaped(trial, TCP_BYTES, TCP_RATE)
    (forward,) = [trial for trial in trials if trial.workload == "forward"]
    assert forward.points
    assert forwarded_frames(forward) > 0
    for point in forward.points:
        assert_books_balance(point)
        assert [one.delay_ns for one in point.sink.per_source] == [None]
        assert point.sink.delay_reason is not None
        assert point.cpu is not None
        assert point.cpu.generator_cpu_ns
        assert point.cpu.sink_cpu_ns
        ends = [(hop.role, hop.where) for hop in point.hops or () if hop.interface == "far"]
        assert ends == [("generator", "peer"), ("sink", "sink")]
    for record in folder.calibrations():
        assert record.status == "failed"
        assert_facts(str(record.reason), "virtoll wire calibrate")
    assert_facts(text_of_testbed(folder), "ssh alpha", "ssh beta", "(far)", "delays")


@contextlib.contextmanager
def under_way(hosts: SshHosts, into: Path, *arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A run with an agent on each host and a trial more than there were."""
    trials = into / "trials.jsonl"
    before = trials.stat().st_size if trials.exists() else 0
    with hosts.start(*arguments, variables={"VIRTOLL_RUNS": str(into.parent)}) as process:
        try:
            wait_until(
                lambda: process.poll() is not None or (trials.exists() and trials.stat().st_size > before),
                DEADLINE_SECONDS,
                "a trial",
            )
            assert process.poll() is None, process.communicate()
            for word in ("peer", "undo"):
                assert [len(hosts.agents(host, word)) for host in hosts.hosts] == [1, 1]
            assert [hosts.copies(host) for host in hosts.hosts] == [[], []]
            yield process
        finally:
            process.kill()


def test_whoever_dies_nothing_is_left_on_the_hosts(hosts: SshHosts, tmp_path: Path) -> None:
    """First the sink's agent, which ends the run with its host named; then, resumed, the controller.

    That one dies while the cable to the generator is slow.
    """
    file = experiments.write(tmp_path, platforms=["native"], blocks=50, testbed=SECTION, workloads=[FORWARD, SHAPED[0]])
    into = tmp_path / "run"
    with by_a_switch(hosts):
        plain = disciplines(hosts)
        with under_way(hosts, into, "run", file, "--into", into) as process:
            os.kill(hosts.agents("beta", "peer")[0], signal.SIGKILL)
            _, complaint = process.communicate(timeout=DEADLINE_SECONDS)
        assert process.returncode == 1
        assert_facts(complaint, "ssh beta", "virtoll resume")
        assert "ssh alpha" not in complaint
        hosts.assert_nothing_left()
    with by_a_switch(hosts):
        with under_way(hosts, into, "resume", into) as process:
            machine.await_state(
                lambda: process.poll() is not None or disciplines(hosts) != plain,
                "a discipline there",
                DEADLINE_SECONDS,
            )
            assert process.poll() is None, process.communicate()
            process.kill()
        machine.await_state(lambda: disciplines(hosts) == plain, "the end of the discipline there")
        hosts.assert_nothing_left()


@pytest.mark.parametrize(
    ("role", "host", "interface", "facts"),
    [
        ("generator", "alpha-closed", "far", ("Connection refused",)),
        ("sink", "beta-stranger", "far", ("Permission denied",)),
        ("generator", "no-such-host", "far", ()),
    ],
)
def test_bad_input_is_refused_in_one_line_and_starts_nothing(
    hosts: SshHosts, tmp_path: Path, role: str, host: str, interface: str, facts: tuple[str, ...]
) -> None:
    wanted = {
        **SECTION,
        role: {"host": {"ssh": host}, "interfaces": [interface]},
        "hypervisor": {"host": "local", "interfaces": ["way0", "way1"]},
    }
    if role == "sink":
        wanted["generator"] = {"host": {"ssh": "alpha"}, "interfaces": ["way"]}
    file = experiments.write(tmp_path, platforms=["native"], testbed=wanted, workloads=[FORWARD])
    hosts.refuses(file, f"ssh {host}", *facts)
    hosts.assert_nothing_left()
