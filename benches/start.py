# ruff: noqa: INP001
"""What starting the command line costs: median wall time and CPU time of several commands, 20 starts each.

``python benches/start.py [STARTS]``, from the repository's folder. The commands take turns, so that a busy host costs
each of them the same. CPU time is user's and system's, of the command and
what it waited for. Bytecode is written and used, as it is for a person; the first start of each command is not counted.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
COMMANDS = (
    ("--version",),
    ("--help",),
    ("plan", "quick"),
    ("plan", "nothing"),
    ("list", "platforms"),
    ("list", "workloads"),
    ("list", "experiments"),
    ("list", "runs"),
    ("report", "nothing"),
    ("in-lab-run", "quick", "nothing", "{}"),
)


def start(command: tuple[str, ...], environment: dict[str, str]) -> tuple[float, float]:
    """Wall seconds and CPU seconds of one start; what the command says and exits with does not matter."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "virtoll", *command], capture_output=True, env=environment, check=False)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print the table."""
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    print(f"{'virtoll ...':32}{'wall s':>8}{'CPU s':>8}")
    with tempfile.TemporaryDirectory() as runs:
        environment = {**kept, "PYTHONPATH": str(SOURCE), "VIRTOLL_RUNS": runs}
        for command in COMMANDS:
            start(command, environment)
        taken = [[start(command, environment) for command in COMMANDS] for _ in range(starts)]
    for command, own in zip(COMMANDS, zip(*taken, strict=True), strict=True):
        walls, cpus = zip(*own, strict=True)
        print(f"{' '.join(command):32}{statistics.median(walls):8.3f}{statistics.median(cpus):8.3f}")


if __name__ == "__main__":
    main()
