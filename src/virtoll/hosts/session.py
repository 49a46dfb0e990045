"""The agent on a testbed's other host: started outside the lab, its byte stream handed into it.

Main types: ``Stream`` (what a lab is given in its environment: descriptors). ``open_session`` starts the agent, checks
that it is the very one that is here, ends it and removes its copy.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from virtoll.errors import UsageError
from virtoll.hosts import open_host
from virtoll.hosts.base import Host, run, start
from virtoll.testbed import Testbed

VARIABLE = "VIRTOLL_TESTBED"


@dataclass(frozen=True)
class Stream:
    """The agent's byte stream, and the network namespace outside the lab, as descriptors."""

    reader: int
    writer: int
    outside: int


def inherited() -> Stream | None:
    """Inside a lab: what the launcher handed in, or None without a testbed."""
    text = os.environ.get(VARIABLE)
    return None if text is None else Stream(**json.loads(text))


@contextlib.contextmanager
def open_session(testbed: Testbed | None, agent: Path) -> Iterator[tuple[dict[str, str], tuple[int, ...]]]:
    """Start the testbed's agent; yields environment and descriptors for the lab, both empty without a testbed."""
    if testbed is None:
        yield {}, ()
        return
    if os.geteuid() != 0:
        raise UsageError("testbed: this needs root, to move the hypervisor's interfaces into the lab; run as root")
    host = open_host(testbed.far)
    program = host.put(agent)
    outside = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    process: subprocess.Popen[bytes] | None = None
    try:
        _check_version(host, program, agent)
        process = start(host, [program, "--seat", "peer", "--channel", "stdio"])
        assert process.stdin is not None
        assert process.stdout is not None
        stream = Stream(process.stdout.fileno(), process.stdin.fileno(), outside)
        yield {VARIABLE: json.dumps(asdict(stream))}, (stream.reader, stream.writer, outside)
    finally:
        os.close(outside)
        if process is not None:
            _end(process)
        with contextlib.suppress(UsageError):
            host.drop(program)


def _check_version(host: Host, program: str, agent: Path) -> None:
    """The very binary that is here must run there: it may be another machine's kind, or an old copy."""
    here = subprocess.run([str(agent), "--version"], capture_output=True, text=True, check=True).stdout
    there = run(host, [program, "--version"])
    if here != there:
        raise UsageError(
            f"{host.name} runs agent {there.strip()!r}, this machine {here.strip()!r}; rebuild: 'make agent'"
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Its stream ends, so it leaves; what does not is killed."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(3.0)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
