"""Hosts of a testbed: the section's checks, the way over SSH as argument lists, the agent's start, check and removal.

``ssh`` is a mock on the PATH that does here what the real one does there; the command lines are real. The real one:
``tests/lab/test_ssh.py``.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import socket
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from tests.support import experiments
from tests.support.facts import Command, assert_facts, refused
from tests.support.machine import END_SECONDS
from tests.support.present import present

from virtoll.agent.client import AgentClient
from virtoll.errors import CommandFailed, GuestError, HostUnreachable, ProgramMissing, UsageError
from virtoll.experiment.topology import HostAddress, NeighbourNics
from virtoll.experiment.topology import Testbed as Section
from virtoll.hosts import open_host, session
from virtoll.hosts.base import Host, as_usage_error
from virtoll.hosts.session import VARIABLE, inherited, open_session
from virtoll.hosts.ssh import SshHost
from virtoll.image.clone import built_agent
from virtoll.lab.commands import PIPED
from virtoll.lab.enter import Enter

# What follows '--' goes to a shell there, as with the real one.
SSH = '#!/bin/sh\necho "ssh $*" >>"$LOG"\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec sh -c "$*"\n'
FAR = {"ssh": "bench@peer"}
ON_LO = NeighbourNics(generator="lo", sink="lo", hypervisor=["lo", "lo"])


def section(**changed: object) -> dict[str, object]:
    return {
        "generator": {"host": FAR, "interfaces": ["eth1"]},
        "sink": {"host": FAR, "interfaces": ["eth2"]},
        "hypervisor": {"host": "local", "interfaces": ["nic0", "nic1"]},
        **changed,
    }


def on_lo(sink: dict[str, str] = FAR) -> dict[str, object]:
    """The same with interfaces that are there, wherever that is."""
    return section(
        generator={"host": FAR, "interfaces": ["lo"]},
        sink={"host": sink, "interfaces": ["lo"]},
        hypervisor={"host": "local", "interfaces": ["lo", "lo"]},
    )


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mock for ssh, and the file where it writes how it was called."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir(exist_ok=True)
    program.write_text(SSH, encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def test_a_right_section_is_read() -> None:
    asked = experiments.parsed(testbed=section())
    assert asked.testbed is not None
    assert asked.testbed.far == ((HostAddress(ssh="bench@peer"), ("eth1", "eth2")),)
    assert not asked.testbed.this_machine
    two = present(experiments.parsed(testbed=section(sink={"host": {"netns": "b"}, "interfaces": ["eth2"]})).testbed)
    assert two.far == ((HostAddress(ssh="bench@peer"), ("eth1",)), (HostAddress(netns="b"), ("eth2",)))
    assert not two.this_machine
    assert experiments.parsed().testbed is None


def test_the_sink_may_have_as_many_nics_as_the_generator() -> None:
    """Those that face them: the generator's, then the sink's, then the timekeeper's."""
    wanted = section(
        generator={"host": FAR, "interfaces": ["eth1", "eth2", "eth3"]},
        sink={"host": FAR, "interfaces": ["eth4", "eth5", "eth6"]},
        hypervisor={"host": "local", "interfaces": [f"nic{number}" for number in range(6)]},
    )
    workloads = [{"workload": "forward", "sources": 3, "egress": "each"}]
    asked = present(experiments.parsed(testbed=wanted, workloads=workloads).testbed)
    assert asked.far == ((HostAddress(ssh="bench@peer"), tuple(f"eth{number}" for number in range(1, 7))),)
    here = {
        "generator": {"host": "local", "interfaces": ["eth1", "eth2"]},
        "sink": {"host": "local", "interfaces": ["eth3", "eth4"]},
        "timekeeper": {"host": "local", "interfaces": ["eth5"]},
        "hypervisor": {"host": {"ssh": "there"}, "interfaces": ["a", "b", "c", "d", "e"]},
    }
    asked = present(experiments.parsed(platforms=["qemu-tcg"], baseline="qemu-tcg", testbed=here).testbed)
    assert asked.near == ("eth1", "eth2", "eth3", "eth4", "eth5")


@pytest.mark.parametrize(("written", "wanted"), [("on", True), ("off", False), (None, None)])
def test_flow_control_is_on_or_off_or_left_as_it_is(written: str | None, wanted: bool | None) -> None:
    """``on`` and ``off`` are what YAML reads as true and false."""
    changed = {} if written is None else {"flow_control": yaml.safe_load(written)}
    asked = present(experiments.parsed(testbed=section(**changed)).testbed)
    assert asked.flow_control is wanted


NEIGHBOUR = {"generator": "eth8", "sink": "eth9", "hypervisor": ["nic8", "nic9"]}
HERE = {name: {"host": "local", "interfaces": [nic]} for name, nic in (("generator", "eth1"), ("sink", "eth2"))}


def with_nics_beside(**changed: object) -> Section:
    """A testbed of guests beside others."""
    asked = experiments.parsed(
        testbed=section(neighbour=NEIGHBOUR, **changed),
        scenario="neighbours",
        neighbours=["idle"],
        guest={"marks": "channel"},
    )
    return present(asked.testbed)


def test_a_neighbour_has_nics_on_the_same_hosts() -> None:
    """Where generator and sink are elsewhere, one more agent runs there."""
    elsewhere = with_nics_beside()
    assert elsewhere.far_of_neighbour == ((HostAddress(ssh="bench@peer"), ("eth8", "eth9")),)
    assert elsewhere.far == ((HostAddress(ssh="bench@peer"), ("eth1", "eth2")),)
    assert (elsewhere.near, elsewhere.near_of_neighbour) == (("nic0", "nic1"), ("nic8", "nic9"))
    over_ssh = with_nics_beside(**HERE, hypervisor={"host": {"ssh": "there"}, "interfaces": ["nic0", "nic1"]})
    assert (over_ssh.far, over_ssh.far_of_neighbour) == ((), ())
    assert over_ssh.moved == ("eth1", "eth2", "eth8", "eth9")


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"neighbour": NEIGHBOUR | {"generator": ["eth8"]}}, ("'testbed.neighbour.generator'",)),
        ({"neighbour": NEIGHBOUR | {"hypervisor": ["nic8"]}}, ("'testbed.neighbour.hypervisor'",)),
        ({"neighbour": NEIGHBOUR | {"host": FAR}}, ("'testbed.neighbour.host'", "generator, sink, hypervisor")),
        ({"neighbour": NEIGHBOUR | {"sink": "eth2"}}, ("neighbour", "eth2", "ssh bench@peer")),
        ({"neighbour": NEIGHBOUR | {"sink": "eth8"}}, ("neighbour", "eth8", "ssh bench@peer")),
        ({"neighbour": NEIGHBOUR | {"hypervisor": ["nic8", "nic1"]}}, ("neighbour", "nic1", "local")),
        ({"sink": {"host": {"ssh": "b"}, "interfaces": ["eth2"]}}, ("neighbour", "generator", "sink")),
        (
            {**HERE, "hypervisor": {"host": {"api": "esxi"}, "interfaces": ["vmnic1", "vmnic2"]}},
            ("neighbour", "hypervisor", "SSH"),
        ),
    ],
)
def test_wrong_nics_of_a_neighbour_are_refused(changed: dict[str, object], facts: tuple[str, ...]) -> None:
    wanted = section(**{"neighbour": NEIGHBOUR, **changed})
    with refused(f"{experiments.FILE}: key", *facts, error=UsageError):
        experiments.parsed(testbed=wanted, scenario="neighbours", neighbours=["idle"], guest={"marks": "channel"})


def test_each_missing_nic_of_a_neighbour_is_named() -> None:
    wanted = section(neighbour={"generator": "eth8"})
    with pytest.raises(UsageError) as raised:
        experiments.parsed(testbed=wanted, scenario="neighbours", neighbours=["idle"], guest={"marks": "channel"})
    missing = "testbed.neighbour.sink", "testbed.neighbour.hypervisor"
    assert_facts(str(raised.value), experiments.FILE, *missing)


def test_a_hypervisor_that_is_driven_by_its_own_api_faces_this_machine() -> None:
    there = {"host": {"api": "esxi.example.org"}, "interfaces": ["vmnic1", "vmnic2"]}
    asked = experiments.parsed(testbed=section(**HERE, hypervisor=there), guest={"marks": "channel"})
    assert asked.testbed is not None
    assert asked.testbed.near == ("eth1", "eth2")
    assert asked.testbed.far == ()
    assert {one.host.words for one in asked.platforms if one.host is not None} == {"esxi.example.org"}


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"hypervisor": {"host": {"api": "esxi"}, "interfaces": ["vmnic1", "vmnic2"]}}, ("hypervisor", "'local'")),
        ({"generator": {"host": "local", "interfaces": ["eth1"]}}, ("generator", "leave 'testbed' out")),
        ({"sink": {"host": "local", "interfaces": ["eth2"]}}, ("sink", "leave 'testbed' out")),
        ({"sink": {"host": FAR, "interfaces": ["eth2", "eth3"]}}, ("generator", "sink", 3)),
        (
            {
                "generator": {"host": FAR, "interfaces": ["eth1", "eth3"]},
                "sink": {"host": FAR, "interfaces": ["eth2", "eth4"]},
                "hypervisor": {"host": "local", "interfaces": ["nic0", "nic1", "nic2"]},
            },
            ("hypervisor.interfaces",),
        ),
        ({"generator": {"host": FAR, "interfaces": ["a", "b", "c", "d"]}}, ("generator", "sink", 3)),
        ({"hypervisor": {"host": "local", "interfaces": ["nic0"]}}, ("hypervisor.interfaces",)),
        ({"hypervisor": {"host": FAR, "interfaces": ["nic0", "nic1"]}}, ("hypervisor", "'local'")),
        ({"generator": {"host": {"ssh": "a", "netns": "b"}, "interfaces": ["eth1"]}}, ("testbed.generator.host",)),
        ({"generator": {"host": {"ssh": "-oProxyCommand=x"}, "interfaces": ["eth1"]}}, ("user@host",)),
        ({"colour": 1}, ("testbed.colour",)),
        ({"flow_control": "auto"}, ("testbed.flow_control", "true", "false")),
    ],
)
def test_a_wrong_section_is_refused(changed: dict[str, object], facts: tuple[str | int, ...]) -> None:
    with refused(experiments.FILE, "testbed", *facts, error=UsageError):
        experiments.parsed(testbed=section(**changed))


def test_arguments_arrive_over_ssh_as_they_were(log: Path) -> None:
    host = SshHost("bench@peer")
    said = host.run(["printf", "%s|", "two words", "$HOME", "'", "*", ""], "test")
    assert said == "two words|$HOME|'|*||"
    assert log.read_text().startswith(
        "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ForwardAgent=no -o ForwardX11=no bench@peer -- printf"
    )


def test_a_program_is_copied_and_run(log: Path) -> None:
    host = SshHost("bench@peer")
    there = host.put(Path("/bin/true"))
    try:
        assert str(there).startswith("/tmp/virtoll-agent-")
        assert there.stat().st_mode & 0o777 == 0o700
        assert there.read_bytes() == Path("/bin/true").read_bytes()
        assert host.run([str(there)], "test") == ""
    finally:
        there.unlink()
    assert "of=/tmp/virtoll-agent-" in log.read_text().splitlines()[0]


@pytest.fixture(params=["local", "ssh", pytest.param("netns", marks=pytest.mark.root)])
def host(request: pytest.FixtureRequest, log: Path) -> Host:
    """One of each kind that is reached from outside the lab."""
    del log
    kinds = {"local": {"local": True}, "ssh": FAR, "netns": {"netns": os.getpid()}}
    return open_host(HostAddress.model_validate(kinds[request.param]))


def test_a_program_is_run_with_its_arguments_and_its_input(host: Host) -> None:
    words = ["two words", "$HOME", "'", "*", "", "a\nline"]
    assert host.run(["printf", "%s|", *words], "test") == "".join(f"{word}|" for word in words)
    assert host.run(["cat"], "test", stdin=b"given") == "given"
    assert host.run(["cat"], "test") == ""


def test_a_failure_carries_its_command_and_output(host: Host) -> None:
    argv = ["sh", "-c", "echo first >&2; echo no room >&2; exit 3"]
    with pytest.raises(CommandFailed) as failed:
        host.run(argv, "test")
    assert (list(failed.value.argv), failed.value.returncode) == (argv, 3)
    assert (failed.value.complaint, failed.value.stderr) == ("no room", "first\nno room")
    assert_facts(str(failed.value), "sh -c", 3, "no room")
    assert str(failed.value).startswith(f"{host.name}: ") is not (host.name == "this machine")
    with pytest.raises(ProgramMissing) as missing:
        host.run(["no-such-program"], "test")
    assert missing.value.program == "no-such-program"
    with refused("sleep 100", "0.1 s", error=GuestError):
        host.run(["sleep", "100"], "test", deadline_seconds=0.1)


def test_a_program_is_started_with_pipes_on_its_cpus(host: Host) -> None:
    cpu = max(os.sched_getaffinity(0))
    process = host.spawn(
        ["sh", "-c", "grep Cpus_allowed_list /proc/self/status; cat; exit 7"], "test", replace(PIPED, cpus=(cpu,))
    )
    said, _ = process.communicate(b"given")
    assert said.decode().split() == ["Cpus_allowed_list:", str(cpu), "given"]
    assert process.returncode == 7


def test_descriptors_are_of_this_machine_alone(host: Host) -> None:
    with socket.socket() as ours:
        options = replace(PIPED, pass_fds=(ours.fileno(),))
        argv = ["readlink", f"/proc/self/fd/{ours.fileno()}"]
        if host.name == "this machine":
            assert host.spawn(argv, "test", options).communicate()[0].startswith(b"socket:")
            return
        with refused("readlink", "descriptors", host.name, error=GuestError):
            host.spawn(argv, "test", options)


def test_cgroups_and_namespaces_are_a_labs_alone(host: Host) -> None:
    with refused("true", "cgroups", "namespaces", host.name, error=GuestError):
        host.spawn(["true"], "test", replace(PIPED, enter=Enter(namespaces=("mount",))))


def test_a_file_is_there_under_the_path_that_is_returned(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(os.urandom(100_000))
    there = host.put(file)
    try:
        digest = host.run(["sha256sum", str(there)], "test").split()[0]
        assert digest == hashlib.sha256(file.read_bytes()).hexdigest()
        assert (there == file) is not host.name.startswith("ssh")
    finally:
        there.unlink()


def test_a_host_that_ssh_does_not_reach_is_told_from_a_program_that_fails(log: Path) -> None:
    del log
    host = SshHost("bench@peer")
    for said in (
        "ssh: connect to host peer port 22: No route to host.",
        "bench@peer: Permission denied (publickey).",
        "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
    ):
        with pytest.raises(HostUnreachable) as raised:
            host.run(["sh", "-c", f"echo {shlex.quote(said)} >&2; exit 255"], "test")
        assert raised.value.complaint == said.splitlines()[-1].rstrip(".")
        assert_facts(str(raised.value), Command(raised.value.complaint), Command("ssh bench@peer true"))
    with refused("ssh bench@peer", "sh -c", 255, "no room", error=CommandFailed):
        host.run(["sh", "-c", "echo no room >&2; exit 255"], "test")


def test_before_a_run_a_hosts_fault_is_the_users_to_mend(log: Path) -> None:
    del log
    with refused("key", "ssh bench@peer", "'false'", 1, error=UsageError), as_usage_error("key: "):
        SshHost("bench@peer").run(["false"], "test")
    with refused("netns no-such-one", Command("ip netns add"), error=GuestError):
        open_host(HostAddress(netns="no-such-one"))
    with refused("testbed", "nested xen", "'ssh'", "'netns'", error=UsageError):
        open_host(HostAddress(nested="xen"))


@pytest.mark.root
@pytest.mark.parametrize(
    ("sink", "beside", "agents"), [(FAR, None, 1), ({"ssh": "bench@other"}, None, 2), (FAR, ON_LO, 2)]
)
def test_the_agents_are_started_checked_and_ended(
    log: Path, monkeypatch: pytest.MonkeyPatch, sink: dict[str, str], beside: NeighbourNics | None, agents: int
) -> None:
    """One agent for each host, and one for a guest beside; its copy is gone while it runs."""
    testbed = Section.model_validate(on_lo(sink)).model_copy(update={"neighbour": beside})
    with open_session(testbed, built_agent()) as (variables, descriptors):
        monkeypatch.setenv(VARIABLE, variables[VARIABLE])
        given = present(inherited())
        assert given.descriptors == descriptors
        assert len(given.agents) == agents
        for reader, writer in given.agents:
            client = AgentClient(os.dup(reader), os.dup(writer), "far")
            assert client.wait_ready(END_SECONDS).role == "peer"
            client.close()
        copies = {word for word in log.read_text().split() if word.startswith("of=/tmp/virtoll-agent-")}
        assert len(copies) == agents
        assert [copy for copy in copies if Path(copy.removeprefix("of=")).exists()] == []


@pytest.mark.root
@pytest.mark.parametrize(
    ("role", "host", "name"), [("generator", FAR, "ssh bench@peer"), ("hypervisor", "local", "this machine")]
)
def test_a_missing_interface_is_named(log: Path, role: str, host: object, name: str) -> None:
    wanted = on_lo()
    names = ["vtnone"] if role == "generator" else ["lo", "vtnone"]
    wanted[role] = {"host": host, "interfaces": names}
    with (
        refused("testbed", name, "vtnone", "lo", error=UsageError),
        open_session(Section.model_validate(wanted), built_agent()),
    ):
        pass
    copies = {word for word in log.read_text().split() if word.startswith("of=")} if log.exists() else set()
    assert [copy for copy in copies if Path(copy.removeprefix("of=")).exists()] == []


@pytest.mark.root
def test_a_nic_without_flow_control_is_refused_before_anything_starts(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(name: str) -> None:
        raise GuestError(f"{name} has no flow control")

    monkeypatch.setattr(session, "EthtoolPause", lambda: SimpleNamespace(read=read))
    testbed = Section.model_validate({**on_lo(), "flow_control": True})
    with refused("testbed", "lo", "flow control", error=UsageError), open_session(testbed, built_agent()):
        pass
    assert not log.exists()


@pytest.mark.root
def test_another_build_there_is_refused(log: Path, tmp_path: Path) -> None:
    """The copy says another version each time that it is asked."""
    del log
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\nhead -c 6 /dev/urandom | od -An -tx1\n", encoding="utf-8")
    agent.chmod(0o755)
    with (
        refused("ssh bench@peer", "make agent", error=UsageError),
        open_session(Section.model_validate(on_lo()), agent),
    ):
        pass


def test_without_a_testbed_nothing_is_started() -> None:
    with open_session(None, Path("/nowhere")) as (variables, descriptors):
        assert (variables, descriptors) == ({}, ())
