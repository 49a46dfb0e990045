"""Processes of ``virtoll`` that need not import anything: a server that has imported all of it forks one a command.

A command that reads costs 0.1 s this way, and half a second as a new Python. It is a process of its own all the same,
with its own environment, streams and exit code; the server has never run a test. What a start imports and how it
isolates itself is tested by real starts.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import pkgutil
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from typing import IO

from tests.support.repository import ROOT

_AT_START = ("LANG", "LC_", "PYTHON", "TZ", "LD_")
"""Variables that a process reads before any of our code runs begin so: a change of them needs a new process."""
_READERS = frozenset(
    {"advise", "claims", "compare", "dataset", "explain", "export", "gate", "history", "list", "pack", "plan", "query"}
    | {"report", "reproduce", "runs", "schema", "show", "unpack", "--help", "--version"}
)


def can_run(arguments: Sequence[str], variables: Mapping[str, str]) -> bool:
    """Whether a command only reads, and its environment is that of the server where it counts at a start."""
    changed = {name for name in variables.keys() | os.environ.keys() if variables.get(name) != os.environ.get(name)}
    at_start = any(name.startswith(_AT_START) and name != "PYTHONPATH" for name in changed)
    return bool(arguments) and arguments[0] in _READERS and not at_start


def run(
    arguments: Sequence[str], variables: Mapping[str, str], stdin: bytes, deadline_seconds: float
) -> subprocess.CompletedProcess[bytes]:
    """Run ``virtoll ARGUMENTS`` in a fork of the server, in the repository's folder, to its end."""
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        streams[0].write(stdin)
        streams[0].seek(0)
        connection = _server()
        connection.settimeout(deadline_seconds)
        order = {"arguments": list(arguments), "variables": dict(variables)}
        with tempfile.TemporaryFile() as written:
            written.write(json.dumps(order).encode())
            written.seek(0)
            socket.send_fds(connection, [b"run"], [written.fileno(), *(stream.fileno() for stream in streams)])
            code = int(connection.recv(16))
        return subprocess.CompletedProcess(arguments, code, _all_of(streams[1]), _all_of(streams[2]))


def _all_of(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    return stream.read()


@functools.cache
def _server() -> socket.socket:
    """The way to this process's server, which ends when this process closes it."""
    here, there = socket.socketpair()
    variables = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    subprocess.Popen(
        [sys.executable, "-m", "tests.support.warm", str(there.fileno())],
        pass_fds=[there.fileno()],
        env=variables,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )
    there.close()
    return here


def _serve(connection: socket.socket) -> None:
    """Fork a process for each order, and answer its exit code, until the other side is gone."""
    _import_everything()
    while True:
        words, files, _, _ = socket.recv_fds(connection, 16, 4)
        if not words:
            return
        child = os.fork()
        if child == 0:
            connection.close()
            _become_virtoll(*files)
        for file in files:
            os.close(file)
        _, status = os.waitpid(child, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _import_everything() -> None:
    """What any command would import; an extra that is not installed is left out."""
    import virtoll

    for module in pkgutil.walk_packages(virtoll.__path__, "virtoll."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def _become_virtoll(order: int, stdin: int, stdout: int, stderr: int) -> None:
    """In the fork: run the command as a process that was started for it, and end."""
    with os.fdopen(order, encoding="utf-8") as file:
        asked = json.load(file)
    for number, stream in enumerate((stdin, stdout, stderr)):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(asked["variables"])
    sys.argv = ["virtoll", *asked["arguments"]]
    code = 1
    try:
        from virtoll.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as Python itself does at the end of a process
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
