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

import pytest
import yaml
from tests.support import experiments
from tests.support.machine import END_SECONDS

from virtoll.agent.client import AgentClient
from virtoll.errors import CommandFailed, GuestError, HostUnreachable, ProgramMissing, UsageError
from virtoll.experiment.topology import HostAddress, NeighbourNics
from virtoll.experiment.topology import Testbed as Section
from virtoll.hosts import open_host
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
    two = experiments.parsed(testbed=section(sink={"host": {"netns": "b"}, "interfaces": ["eth2"]})).testbed
    assert two is not None
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
    asked = experiments.parsed(testbed=wanted, workloads=workloads).testbed
    assert asked is not None
    assert asked.far == ((HostAddress(ssh="bench@peer"), tuple(f"eth{number}" for number in range(1, 7))),)
    here = {
        "generator": {"host": "local", "interfaces": ["eth1", "eth2"]},
        "sink": {"host": "local", "interfaces": ["eth3", "eth4"]},
        "timekeeper": {"host": "local", "interfaces": ["eth5"]},
        "hypervisor": {"host": {"ssh": "there"}, "interfaces": ["a", "b", "c", "d", "e"]},
    }
    asked = experiments.parsed(platforms=["qemu-tcg"], baseline="qemu-tcg", testbed=here).testbed
    assert asked is not None
    assert asked.near == ("eth1", "eth2", "eth3", "eth4", "eth5")


@pytest.mark.parametrize(("written", "wanted"), [("on", True), ("off", False), (None, None)])
def test_flow_control_is_on_or_off_or_left_as_it_is(written: str | None, wanted: bool | None) -> None:
    """``on`` and ``off`` are what YAML reads as true and false."""
    changed = {} if written is None else {"flow_control": yaml.safe_load(written)}
    asked = experiments.parsed(testbed=section(**changed)).testbed
    assert asked is not None
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
    assert asked.testbed is not None
    return asked.testbed


def test_one_guest_beside_has_nics_on_the_same_hosts() -> None:
    """Where generator and sink are elsewhere, an agent more is there."""
    elsewhere = with_nics_beside()
    assert elsewhere.far_beside == ((HostAddress(ssh="bench@peer"), ("eth8", "eth9")),)
    assert elsewhere.far == ((HostAddress(ssh="bench@peer"), ("eth1", "eth2")),)
    assert (elsewhere.near, elsewhere.near_beside) == (("nic0", "nic1"), ("nic8", "nic9"))
    over_ssh = with_nics_beside(**HERE, hypervisor={"host": {"ssh": "there"}, "interfaces": ["nic0", "nic1"]})
    assert (over_ssh.far, over_ssh.far_beside) == ((), ())
    assert over_ssh.moved == ("eth1", "eth2", "eth8", "eth9")


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"neighbour": NEIGHBOUR | {"generator": ["eth8"]}}, "testbed.neighbour.generator': the name of one interface"),
        ({"neighbour": NEIGHBOUR | {"hypervisor": ["nic8"]}}, "testbed.neighbour.hypervisor': a list of two interfac"),
        ({"neighbour": NEIGHBOUR | {"host": FAR}}, "testbed.neighbour.host': not known; allowed keys: generator, sink"),
        ({"neighbour": NEIGHBOUR | {"sink": "eth2"}}, "eth2 .ssh bench@peer. is there twice; name an interface of its"),
        ({"neighbour": NEIGHBOUR | {"sink": "eth8"}}, "eth8 .ssh bench@peer. is there twice; name an interface of its"),
        ({"neighbour": NEIGHBOUR | {"hypervisor": ["nic8", "nic1"]}}, "nic1 .local. is there twice; name an interface"),
        ({"sink": {"host": {"ssh": "b"}, "interfaces": ["eth2"]}}, "neighbour: .*put generator and sink on one host"),
        (
            {**HERE, "hypervisor": {"host": {"api": "esxi"}, "interfaces": ["vmnic1", "vmnic2"]}},
            "neighbour: its guest is on this machine, or on a hypervisor over SSH; leave it out with others",
        ),
    ],
)
def test_wrong_nics_of_a_guest_beside_are_refused_in_one_sentence(changed: dict[str, object], complaint: str) -> None:
    wanted = section(**{"neighbour": NEIGHBOUR, **changed})
    with pytest.raises(UsageError, match=rf"^{experiments.FILE}: key '.*{complaint}"):
        experiments.parsed(testbed=wanted, scenario="neighbours", neighbours=["idle"], guest={"marks": "channel"})


def test_nics_that_a_guest_beside_lacks_are_named_with_what_they_are_for() -> None:
    wanted = section(neighbour={"generator": "eth8"})
    missing = rf"^{experiments.FILE}: missing key 'testbed.neighbour.sink': NIC to count at, on the sink's host$"
    with pytest.raises(UsageError, match=f"(?m){missing}"):
        experiments.parsed(testbed=wanted, scenario="neighbours", neighbours=["idle"], guest={"marks": "channel"})


def test_a_hypervisor_that_is_driven_by_its_own_api_faces_this_machine() -> None:
    there = {"host": {"api": "esxi.example.org"}, "interfaces": ["vmnic1", "vmnic2"]}
    asked = experiments.parsed(testbed=section(**HERE, hypervisor=there), guest={"marks": "channel"})
    assert asked.testbed is not None
    assert asked.testbed.near == ("eth1", "eth2")
    assert asked.testbed.far == ()
    assert {one.host.words for one in asked.platforms if one.host is not None} == {"esxi.example.org"}


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"hypervisor": {"host": {"api": "esxi"}, "interfaces": ["vmnic1", "vmnic2"]}}, "testbed.*'local'"),
        ({"generator": {"host": "local", "interfaces": ["eth1"]}}, "testbed.*hosts that are not this one"),
        ({"sink": {"host": "local", "interfaces": ["eth2"]}}, "testbed.*hosts that are not this one"),
        ({"sink": {"host": FAR, "interfaces": ["eth2", "eth3"]}}, "testbed.*and the sink no more than it"),
        (
            {
                "generator": {"host": FAR, "interfaces": ["eth1", "eth3"]},
                "sink": {"host": FAR, "interfaces": ["eth2", "eth4"]},
                "hypervisor": {"host": "local", "interfaces": ["nic0", "nic1", "nic2"]},
            },
            "testbed.*one that faces each",
        ),
        (
            {"generator": {"host": FAR, "interfaces": ["a", "b", "c", "d"]}},
            "testbed.*one interface a source, at most 3",
        ),
        ({"hypervisor": {"host": "local", "interfaces": ["nic0"]}}, "testbed.*one that faces each"),
        ({"hypervisor": {"host": FAR, "interfaces": ["nic0", "nic1"]}}, "testbed.*with generator and sink 'local'"),
        (
            {"generator": {"host": {"ssh": "a", "netns": "b"}, "interfaces": ["eth1"]}},
            "testbed.generator.host.*one of .local.",
        ),
        ({"generator": {"host": {"ssh": "-oProxyCommand=x"}, "interfaces": ["eth1"]}}, "must be user@host or a name"),
        ({"colour": 1}, "testbed.colour.*not known"),
        ({"flow_control": "auto"}, "testbed.flow_control.*true or false"),
    ],
)
def test_a_wrong_section_is_refused_in_one_sentence(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
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
    assert host.run(["cat"], "test") == "", "and none where none is given"


def test_a_failure_carries_what_it_was(host: Host) -> None:
    argv = ["sh", "-c", "echo first >&2; echo no room >&2; exit 3"]
    with pytest.raises(CommandFailed, match=r"'sh -c .*ended with 3: no room") as failed:
        host.run(argv, "test")
    assert (list(failed.value.argv), failed.value.returncode) == (argv, 3)
    assert (failed.value.complaint, failed.value.stderr) == ("no room", "first\nno room")
    assert str(failed.value).startswith(f"{host.name}: ") is not (host.name == "this machine")
    with pytest.raises(ProgramMissing, match=r"no-such-program: not found on .*install it") as missing:
        host.run(["no-such-program"], "test")
    assert missing.value.program == "no-such-program"
    with pytest.raises(GuestError, match=r"'sleep 100' did not end within 0\.1 s"):
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
        with pytest.raises(GuestError, match=f"readlink: descriptors of this machine mean nothing on {host.name}"):
            host.spawn(argv, "test", options)


def test_cgroups_and_namespaces_are_a_labs_alone(host: Host) -> None:
    with pytest.raises(
        GuestError, match=f"true: cgroups and namespaces are for programs in the lab, not on {host.name}"
    ):
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
        assert str(raised.value) == (
            f"ssh bench@peer cannot be reached: {raised.value.complaint}; "
            "see that 'ssh bench@peer true' works without a password"
        )
    with pytest.raises(CommandFailed, match=r"ssh bench@peer: 'sh -c .*' ended with 255: no room"):
        host.run(["sh", "-c", "echo no room >&2; exit 255"], "test")


def test_before_a_run_what_is_wrong_with_a_host_is_the_users_to_mend(log: Path) -> None:
    del log
    with pytest.raises(UsageError, match=r"^key: ssh bench@peer: 'false' ended with 1"), as_usage_error("key: "):
        SshHost("bench@peer").run(["false"], "test")
    with pytest.raises(GuestError, match="netns no-such-one is not there"):
        open_host(HostAddress(netns="no-such-one"))
    with pytest.raises(UsageError, match="testbed: nested xen runs no programs"):
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
        given = inherited()
        assert given is not None
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
    ("role", "host", "complaint"),
    [
        ("generator", FAR, "testbed: ssh bench@peer has no interface vtnone; it has: .*lo"),
        ("hypervisor", "local", "testbed: this machine has no interface vtnone; it has: .*lo"),
    ],
)
def test_an_interface_that_is_not_there_is_named(log: Path, role: str, host: object, complaint: str) -> None:
    wanted = on_lo()
    names = ["vtnone"] if role == "generator" else ["lo", "vtnone"]
    wanted[role] = {"host": host, "interfaces": names}
    with pytest.raises(UsageError, match=complaint), open_session(Section.model_validate(wanted), built_agent()):
        pytest.fail("it was started")
    copies = {word for word in log.read_text().split() if word.startswith("of=")} if log.exists() else set()
    assert [copy for copy in copies if Path(copy.removeprefix("of=")).exists()] == []


@pytest.mark.root
def test_another_build_there_is_refused(log: Path, tmp_path: Path) -> None:
    """The copy says another version each time that it is asked."""
    del log
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\nhead -c 6 /dev/urandom | od -An -tx1\n", encoding="utf-8")
    agent.chmod(0o755)
    with (
        pytest.raises(UsageError, match=r"ssh bench@peer runs agent .*make agent"),
        open_session(Section.model_validate(on_lo()), agent),
    ):
        pass


def test_without_a_testbed_nothing_is_started() -> None:
    with open_session(None, Path("/nowhere")) as (variables, descriptors):
        assert (variables, descriptors) == ({}, ())
