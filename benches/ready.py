# ruff: noqa: INP001
"""What a guest's start costs, and what of it is Virtoll's own: medians over interleaved starts.

``python benches/ready.py [BLOCKS]``, from the repository's folder: one run with one start of each platform a block, in
random order within the block. Printed are time to ready, the time in the harness before the platform's own program was
executed, and that program's time until the agent answered; below each median the smallest and the largest.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src"
EXPERIMENT = """\
name: ready
question: What does a guest's start cost?
platforms:
  - native
  - {{platform: netns, limits: [none, cgroup]}}
  - runc
  - crun
baseline: native
guest: {{vcpus: 1, memory: 256MiB}}
blocks: {blocks}
seed: 1
workloads:
  - {{workload: forkwait, processes: 1}}
"""


def boots(blocks: int) -> list[dict[str, Any]]:
    """The boot records of one run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "ready.yaml")
        file.write_text(EXPERIMENT.format(blocks=blocks), encoding="utf-8")
        environment = {"PYTHONPATH": str(SOURCE), **os.environ, "VIRTOLL_RUNS": folder}
        command = [sys.executable, "-m", "virtoll", "run", str(file)]
        finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        found = list(Path(folder).glob("*/boots.jsonl"))
        if not found:
            sys.exit(finished.stderr)
        return [json.loads(line) for line in found[0].read_text(encoding="utf-8").splitlines()]


def shown(values: list[float]) -> str:
    """Median, and from the smallest to the largest; a dash without values."""
    if not values:
        return "-"
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main() -> None:
    """Print the table."""
    read = [boot for boot in boots(int(sys.argv[1]) if len(sys.argv) > 1 else 20) if boot["status"] == "ok"]
    print(f"{'platform':14}{'starts':>7}{'ready, ms':>24}{'of it harness, ms':>24}{'own program, ms':>24}")
    for platform in dict.fromkeys(boot["platform"] for boot in sorted(read, key=lambda boot: boot["platform"])):
        own = [boot for boot in read if boot["platform"] == platform]
        ready = [(boot["ready_monotonic_ns"] - boot["spawn_monotonic_ns"]) / 1e6 for boot in own]
        known = [boot for boot in own if boot.get("executed_monotonic_ns") is not None]
        harness = [(boot["executed_monotonic_ns"] - boot["spawn_monotonic_ns"]) / 1e6 for boot in known]
        rest = [(boot["ready_monotonic_ns"] - boot["executed_monotonic_ns"]) / 1e6 for boot in known]
        print(f"{platform:14}{len(own):7}{shown(ready):>24}{shown(harness):>24}{shown(rest):>24}", flush=True)


if __name__ == "__main__":
    main()
