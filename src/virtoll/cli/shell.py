"""``virtoll shell``: a guest of one platform with busybox in its image, and a terminal in it."""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from virtoll.agent.client import AgentClient
from virtoll.agent.links import network_request
from virtoll.agent.operations.session import TerminalExit, TerminalInputRequest, TerminalRequest
from virtoll.errors import AgentError, UsageError
from virtoll.experiment.model import PlatformChoice
from virtoll.experiment.parse import parse_experiment
from virtoll.lab.network import plan_links
from virtoll.pipeline.pinning import choose_pinning
from virtoll.pipeline.preview import catalogue
from virtoll.pipeline.progress import SilentProgress
from virtoll.pipeline.session import open_run_session
from virtoll.platforms import platform_of
from virtoll.platforms.attachment import attach
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.limits import limit

_MEMORY_BYTES = 256 * 2**20
_END_OF_TRANSMISSION = b"\x04"
_TELL_AGAIN_SECONDS = 0.2
_SHELL = ("/bin/busybox", "sh", "-i")


def given_platform(text: str) -> dict[str, str]:
    """``NAME:key=value,key=value`` as an entry of an experiment's platforms."""
    name, _, pairs = text.partition(":")
    return {"platform": name, **dict(pair.split("=", 1) for pair in pairs.split(",") if "=" in pair)}


def parse_platform(text: str) -> PlatformChoice:
    """``NAME`` or ``NAME:key=value,key=value`` as an experiment's platform entry.

    ``UsageError`` names what is allowed.
    """
    entry = given_platform(text)
    name = entry["platform"]
    document = {"name": "shell", "question": "-", "platforms": [entry], "workloads": ["superpi"]}
    choices = catalogue()
    if name not in choices.platforms:
        raise UsageError(f"platform {name!r} is not known; allowed: {', '.join(choices.platforms)}")
    document["baseline"] = "-".join([name, *list(entry.values())[1:]])
    return parse_experiment(json.dumps(document), Path("PLATFORM"), choices).platforms[0]


def interact(text: str) -> int:
    """Start a guest, give the user its shell until it ends, stop the guest; returns the shell's exit status."""
    choice = parse_platform(text)
    with open_run_session(choose_pinning(1), SilentProgress(), "debug") as session:
        platform = platform_of(choice)
        probe = platform.probe(session.site)
        if not probe.available:
            raise UsageError(f"{choice.label} cannot be used here: {probe.reason}")
        network = attach(plan_links(0), choice.parameters)
        request = GuestRequest("shell", 1, _MEMORY_BYTES, session.pinning.guest_cpus, network)
        guest = platform.start(limit(request, choice.parameters), session.site)
        try:
            if not isinstance(guest.agent, AgentClient):
                raise UsageError(f"{choice.label} is a model: there is no guest to look into")
            guest.agent.ask(network_request(request.network))
            return _session(guest.agent)
        finally:
            guest.stop()


def _session(agent: AgentClient) -> int:
    """Pass bytes between the user's terminal and one in the guest until the shell there ends."""
    columns, rows = shutil.get_terminal_size()
    agent.ask(TerminalRequest(argv=_SHELL, rows=rows, columns=columns))
    with _raw_terminal():
        keyboard_open = True
        while True:
            while agent.pump(0.0):
                continue
            while agent.terminal_events:
                event = agent.terminal_events.popleft()
                if isinstance(event, TerminalExit):
                    return event.code
                os.write(sys.stdout.fileno(), event.data)
            watched = [agent.reader] + ([sys.stdin.fileno()] if keyboard_open else [])
            # A shell that is busy swallows the end of its input: it is told again until it leaves.
            readable, _, _ = select.select(watched, [], [], None if keyboard_open else _TELL_AGAIN_SECONDS)
            if sys.stdin.fileno() in readable:
                typed = os.read(sys.stdin.fileno(), 4096)
                keyboard_open = bool(typed)
                if typed:
                    _type(agent, typed)
            if not keyboard_open and agent.reader not in readable:
                _type(agent, _END_OF_TRANSMISSION)


def _type(agent: AgentClient, keys: bytes) -> None:
    """Send keys to the shell; refused only where it has just left, and then its exit is the next event."""
    with suppress(AgentError):
        agent.ask(TerminalInputRequest(data=keys))


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Keys go to the guest as they are typed; the terminal is put back at the end. No effect on a pipe."""
    descriptor = sys.stdin.fileno()
    if not os.isatty(descriptor):
        yield
        return
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
