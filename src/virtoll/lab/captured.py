"""What a program says, up to a limit: a host that never stops talking must not fill this machine's memory.

Main functions: ``communicate``, as ``subprocess.Popen.communicate`` with a bound, and ``passed_on``, for the complaints
of a program that goes on. Must not know what is run.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import threading
import time
from typing import IO, Final

from virtoll.system.printable import printable

MOST_OUTPUT_BYTES: Final = 64 << 20
"""Of the standard output; of what is complained the end is kept."""
_MOST_COMPLAINTS_BYTES: Final = 1 << 20
_MOST_PASSED_ON_BYTES: Final = 64 << 10
_CHUNK: Final = 1 << 16


class TooMuchOutput(Exception):
    """More came than ``MOST_OUTPUT_BYTES``."""


def communicate(process: subprocess.Popen[bytes], content: bytes | None, seconds: float) -> tuple[bytes, bytes]:
    """Give a program its input, and take its output and complaints until both end; it is still to be waited for.

    Raises ``TooMuchOutput``, and ``subprocess.TimeoutExpired`` after so many seconds; it then runs on.
    """
    deadline = time.monotonic() + seconds
    output = {stream: bytearray() for stream in (process.stdout, process.stderr) if stream is not None}
    left = memoryview(content or b"")
    with selectors.DefaultSelector() as waiting:
        for stream in output:
            waiting.register(stream, selectors.EVENT_READ)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            waiting.register(process.stdin, selectors.EVENT_WRITE)
            left = left or _give(process.stdin, left, waiting)
        while waiting.get_map():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise subprocess.TimeoutExpired(process.args, seconds)
            for key, _ in waiting.select(remaining):
                if key.fileobj is process.stdin:
                    left = _give(process.stdin, left, waiting)
                else:
                    _take(next(stream for stream in output if stream is key.fileobj), output, waiting, process)
        process.wait(max(deadline - time.monotonic(), 0.0))
    out, err = process.stdout, process.stderr
    return bytes(output[out]) if out is not None else b"", bytes(output[err]) if err is not None else b""


def _give(stream: IO[bytes], left: memoryview, waiting: selectors.BaseSelector) -> memoryview:
    """What is left to be written once the program has taken some of it; with the last of it the stream is closed."""
    left = left[_written(stream, left) :]
    if not left:
        waiting.unregister(stream)
        stream.close()
    return left


def _take(
    stream: IO[bytes],
    output: dict[IO[bytes], bytearray],
    waiting: selectors.BaseSelector,
    process: subprocess.Popen[bytes],
) -> None:
    chunk = os.read(stream.fileno(), _CHUNK)
    if not chunk:
        waiting.unregister(stream)
        stream.close()
        return
    output[stream] += chunk
    if stream is process.stderr:
        del output[stream][:-_MOST_COMPLAINTS_BYTES]
    elif len(output[stream]) > MOST_OUTPUT_BYTES:
        raise TooMuchOutput


def _written(stream: IO[bytes], data: memoryview) -> int:
    """How much was taken; of who reads no more, all."""
    try:
        return os.write(stream.fileno(), data[:_CHUNK])
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        return len(data)


def passed_on(host: str, process: subprocess.Popen[bytes]) -> threading.Thread:
    """A thread that passes on what a program on a host complains of, to the standard error here; it ends with it.

    So much of it, and nothing that steers a terminal. What comes after that is read and dropped: who writes it must not
    wait. The program was started with a pipe as its standard error.
    """
    assert process.stderr is not None
    thread = threading.Thread(target=_pass_on, args=(host, process.stderr), daemon=True)
    thread.start()
    return thread


def _pass_on(host: str, stream: IO[bytes]) -> None:
    left = _MOST_PASSED_ON_BYTES
    with stream:
        while line := stream.readline(_MOST_PASSED_ON_BYTES):
            if left > 0:
                left -= len(line)
                text = line.decode(errors="replace").rstrip("\r\n")
                sys.stderr.write(f"{host}: {printable(text)}\n")
                sys.stderr.flush()
