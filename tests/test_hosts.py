"""Hosts of a testbed: the section's checks, the way over SSH as argument lists, the agent's start, check and removal.

``ssh`` and ``scp`` are stand-ins on the PATH that do here what the real ones do there; the command lines are real.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.support import experiments

from virtoll.agent import AgentClient
from virtoll.errors import UsageError
from virtoll.hosts import open_host
from virtoll.hosts.base import run
from virtoll.hosts.local import NamespaceHost
from virtoll.hosts.session import VARIABLE, Stream, inherited, open_session
from virtoll.hosts.ssh import SshHost
from virtoll.image.guest import built_agent
from virtoll.testbed import HostAddress
from virtoll.testbed import Testbed as Section

# What follows '--' goes to a shell there, as with the real one.
SSH = '#!/bin/sh\necho "ssh $*" >>"$LOG"\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec sh -c "$*"\n'
SCP = '#!/bin/sh\necho "scp $*" >>"$LOG"\nfor to; do from=$last; last=$to; done\ncp "$from" "${to#*:}"\n'
FAR = {"ssh": "bench@peer"}


def section(**changed: object) -> dict[str, object]:
    return {
        "generator": {"host": FAR, "interfaces": ["eth1"]},
        "sink": {"host": FAR, "interfaces": ["eth2"]},
        "hypervisor": {"host": "local", "interfaces": ["nic0", "nic1"]},
        **changed,
    }


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for ssh and scp, and the file where they write how they were called."""
    for name, text in (("ssh", SSH), ("scp", SCP)):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(text, encoding="utf-8")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def test_a_right_section_is_read() -> None:
    asked = experiments.parsed(testbed=section())
    assert asked.testbed is not None
    assert asked.testbed.far == HostAddress(ssh="bench@peer")
    assert not asked.testbed.this_machine
    assert experiments.parsed().testbed is None


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"generator": {"host": "local", "interfaces": ["eth1"]}}, "testbed.*a host that is not this one"),
        ({"sink": {"host": {"ssh": "other"}, "interfaces": ["eth2"]}}, "testbed.*the same host yet"),
        ({"sink": {"host": FAR, "interfaces": ["eth2", "eth3"]}}, "testbed.*the sink has one interface"),
        ({"hypervisor": {"host": "local", "interfaces": ["nic0"]}}, "testbed.*one that faces each"),
        ({"hypervisor": {"host": FAR, "interfaces": ["nic0", "nic1"]}}, "testbed.*only 'local' yet"),
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
    assert log.read_text().splitlines()[0].startswith("scp -q -B -o BatchMode=yes")


def test_what_fails_there_is_named_with_its_host(log: Path) -> None:
    del log
    with pytest.raises(UsageError, match=r"ssh bench@peer: .*ended with 3: no room"):
        run(SshHost("bench@peer"), ["sh", "-c", "echo no room >&2; exit 3"])
    with pytest.raises(UsageError, match="netns no-such-one is not there"):
        NamespaceHost("no-such-one")


@pytest.mark.root
def test_the_agent_is_started_checked_and_ended(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    testbed = Section.model_validate(section())
    with open_session(testbed, built_agent()) as (variables, descriptors):
        monkeypatch.setenv(VARIABLE, variables[VARIABLE])
        given = inherited()
        assert isinstance(given, Stream)
        assert {given.reader, given.writer, given.outside} == set(descriptors)
        client = AgentClient(os.dup(given.reader), os.dup(given.writer), "far")
        assert client.wait_ready(10)["seat"] == "peer"
        client.close()
    copies = [line.split()[-1] for line in log.read_text().splitlines() if "rm -f" in line]
    assert len(copies) == 1
    assert not Path(copies[0]).exists()


@pytest.mark.root
def test_another_build_there_is_refused(log: Path, tmp_path: Path) -> None:
    """The copy says another version each time that it is asked."""
    del log
    agent = tmp_path / "agent"
    agent.write_text("#!/bin/sh\nhead -c 6 /dev/urandom | od -An -tx1\n", encoding="utf-8")
    agent.chmod(0o755)
    with (
        pytest.raises(UsageError, match=r"ssh bench@peer runs agent .*make agent"),
        open_session(Section.model_validate(section()), agent),
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
