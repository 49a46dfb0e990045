"""What the emulated arm64 machine does, as the first program of its root: each step of steps.json, one after another.

Standard library only. What a step says goes to ``/results/NAME.txt``; how it ended is one line on the console, where
the last words of one that failed stand before it. At the end ``/results`` is written as a tar file to the second disk.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
import time
from pathlib import Path

RESULTS = Path("/results")
STEPS = Path("/virtoll/steps.json")
LEFT = Path("/dev/vdb")
MOST_SECONDS = 1500.0  # of all steps: what is left over is not begun, so that the results are written in time
LAST_WORDS_BYTES = 8192
MARK = "@@step "


def main() -> None:
    """All steps; one that does not end in its time is killed with all that it started in its session."""
    RESULTS.mkdir(exist_ok=True)
    environment = os.environ | {
        "PYTHONPATH": "/opt/virtoll",
        "XDG_CACHE_HOME": "/var/cache",
        "TERM": "dumb",
        "PROPTEST_CASES": "16",  # of 256, which take an emulator minutes
    }
    end = time.monotonic() + MOST_SECONDS
    for step in json.loads(STEPS.read_text(encoding="utf-8")):
        start = time.monotonic()
        if start >= end:
            break
        print(f"{MARK}{json.dumps({'name': step['name']})}", flush=True)
        words = RESULTS / f"{step['name']}.txt"
        with words.open("wb") as said:
            code = _run(step, environment, said.fileno(), min(step["seconds"], end - start))
        if code != 0:
            # Of a machine that is ended from outside the console is all that is left.
            print(words.read_bytes()[-LAST_WORDS_BYTES:].decode(errors="replace"), flush=True)
        told = {"name": step["name"], "code": code, "seconds": round(time.monotonic() - start, 1)}
        print(f"{MARK}{json.dumps(told)}", flush=True)
    with tarfile.open(LEFT, "w|") as archive:
        archive.add(RESULTS, "results")
    os.sync()


def _run(step: dict[str, object], environment: dict[str, str], said: int, seconds: float) -> int | None:
    """Its exit code; None where it did not end in its time."""
    argv = step["argv"]
    assert isinstance(argv, list)
    try:
        process = subprocess.Popen(
            argv,
            cwd=str(step["folder"]),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        os.write(said, f"{error}\n".encode())
        return 127
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


if __name__ == "__main__":
    main()
