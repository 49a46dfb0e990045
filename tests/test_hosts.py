"""Hosts of a testbed: the section's checks, the way over SSH as argument lists, the agent's start, check and removal.

``ssh`` is a stand-in on the PATH that does here what the real one does there; the command lines are real. The real one:
``tests/lab/test_ssh.py``.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.machine import END_SECONDS

from virtoll.agent.client import AgentClient
from virtoll.errors import UsageError
from virtoll.experiment.topology import HostAddress
from virtoll.experiment.topology import Testbed as Section
from virtoll.hosts import open_host
from virtoll.hosts.base import run
from virtoll.hosts.namespace import NamespaceHost
from virtoll.hosts.session import VARIABLE, inherited, open_session
from virtoll.hosts.ssh import SshHost
from virtoll.image.clone import built_agent

# What follows '--' goes to a shell there, as with the real one.
SSH = '#!/bin/sh\necho "ssh $*" >>"$LOG"\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec sh -c "$*"\n'
FAR = {"ssh": "bench@peer"}


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
    """A stand-in for ssh, and the file where it writes how it was called."""
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


def test_a_hypervisor_that_is_driven_by_its_own_api_faces_this_machine() -> None:
    here = {name: {"host": "local", "interfaces": [nic]} for name, nic in (("generator", "eth1"), ("sink", "eth2"))}
    there = {"host": {"api": "esxi.example.org"}, "interfaces": ["vmnic1", "vmnic2"]}
    asked = experiments.parsed(testbed=section(**here, hypervisor=there), guest={"marks": "channel"})
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
        ({"sink": {"host": FAR, "interfaces": ["eth2", "eth3"]}}, "testbed.*the sink has one interface"),
        ({"hypervisor": {"host": "local", "interfaces": ["nic0"]}}, "testbed.*one that faces each"),
        ({"hypervisor": {"host": FAR, "interfaces": ["nic0", "nic1"]}}, "testbed.*with generator and sink 'local'"),
        (
            {"generator": {"host": {"ssh": "a", "netns": "b"}, "interfaces": ["eth1"]}},
            "testbed.generator.host.*one of .local.",
        ),
        ({"generator": {"host": {"ssh": "-oProxyCommand=x"}, "interfaces": ["eth1"]}}, "pattern"),
        ({"colour": 1}, "testbed.colour.*not known"),
    ],
)
def test_a_wrong_section_is_refused_in_one_sentence(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        experiments.parsed(testbed=section(**changed))


def test_arguments_arrive_over_ssh_as_they_were(log: Path) -> None:
    host = SshHost("bench@peer")
    said = run(host, ["printf", "%s|", "two words", "$HOME", "'", "*", ""])
    assert said == "two words|$HOME|'|*||"
    assert log.read_text().startswith("ssh -T -o BatchMode=yes -o ConnectTimeout=10 bench@peer -- printf")


def test_a_program_is_copied_run_and_removed(log: Path) -> None:
    host = SshHost("bench@peer")
    there = host.put(Path("/bin/true"))
    assert there.startswith("/tmp/virtoll-agent-")
    assert Path(there).stat().st_mode & 0o777 == 0o700
    assert run(host, [there]) == ""
    host.drop(there)
    assert not Path(there).exists()
    assert "of=/tmp/virtoll-agent-" in log.read_text().splitlines()[0]


def test_what_fails_there_is_named_with_its_host(log: Path) -> None:
    del log
    with pytest.raises(UsageError, match=r"ssh bench@peer: .*ended with 3: no room"):
        run(SshHost("bench@peer"), ["sh", "-c", "echo no room >&2; exit 3"])
    with pytest.raises(UsageError, match=r"ssh bench@peer cannot be reached: no route; see that 'ssh bench@peer true'"):
        run(SshHost("bench@peer"), ["sh", "-c", "echo no route. >&2; exit 255"])
    with pytest.raises(UsageError, match="netns no-such-one is not there"):
        NamespaceHost("no-such-one")


@pytest.mark.root
@pytest.mark.parametrize("sink", [FAR, {"ssh": "bench@other"}])
def test_the_agents_are_started_checked_and_ended(
    log: Path, monkeypatch: pytest.MonkeyPatch, sink: dict[str, str]
) -> None:
    """One agent for each host; its copy is gone while it runs."""
    testbed = Section.model_validate(on_lo(sink))
    with open_session(testbed, built_agent()) as (variables, descriptors):
        monkeypatch.setenv(VARIABLE, variables[VARIABLE])
        given = inherited()
        assert given is not None
        assert given.descriptors == descriptors
        assert len(given.agents) == len(testbed.far)
        for reader, writer in given.agents:
            client = AgentClient(os.dup(reader), os.dup(writer), "far")
            assert client.wait_ready(END_SECONDS).seat == "peer"
            client.close()
        copies = {word for word in log.read_text().split() if word.startswith("of=/tmp/virtoll-agent-")}
        assert len(copies) == len(testbed.far)
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


def test_this_host_is_no_other_one() -> None:
    with pytest.raises(UsageError, match="local"):
        open_host(HostAddress(local=True))


def test_a_namespace_host_by_number() -> None:
    host = open_host(HostAddress(netns=os.getpid()))
    assert host.command(["true"]) == ["nsenter", f"--net=/proc/{os.getpid()}/ns/net", "--", "true"]
    assert host.put(Path("/bin/true")) == "/bin/true"
