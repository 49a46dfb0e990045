"""Reboots at random moments of a run, in an emulated machine that keeps its disk (ext4), again and again.

The machine reboots as by ``reboot -f -n``, at once and without a sync (the kernel's sysrq b). It does so when a drawn
number of further trials is on the disk, and a drawn time after.
On the next boot what is on the disk is read first, and the run is taken up again. Each trial that was told as finished
must be on the disk, once, and stay there byte for byte. At the end the run is complete and nothing of it is left in
cgroups or state. A run that comes to its end is followed by another. Main function: ``main``.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benches.survive import emulated
from benches.survive.machines import root_disk
from tests.support import experiments

_FOLDER = "/root/reboots"
_BLOCKS = 4
_TOLD = re.compile(rb"^\d+/\d+ block", re.MULTILINE)
_END_SECONDS = 900.0
# The live display hides what is told from anything but a terminal's eye: it is piped through cat.
_GO_ON = r"""
cd {folder}
(if [ -e run/state.json ]; then virtoll resume run; else rm -rf run; virtoll run example.yaml --into run; fi 2>&1 | cat
echo "the run ended" >ended) &
before=$(cat run/trials.jsonl 2>/dev/null | wc -l)
until [ -e ended ] || [ "$(cat run/trials.jsonl 2>/dev/null | wc -l)" -ge $((before + {trials})) ]; do sleep 0.05; done
[ -e ended ] || sleep {delay:.3f}
[ -e ended ] && {{ sync; echo; echo "@whole"; }}
echo 1 >/proc/sys/kernel/sysrq; echo b >/proc/sysrq-trigger
"""
SCRIPTS = {"go on": _GO_ON.format(folder=_FOLDER, trials=1, delay=0.5)}
_READ = f"cd {_FOLDER} && cat run/trials.jsonl 2>/dev/null | base64 -w0; rm -f ended"
_LEFT = "ls -d /sys/fs/cgroup/virtoll-* /run/virtoll /tmp/virtoll* 2>/dev/null; ip -o link | grep -v ' lo:'; true"


@dataclass
class Tally:
    """What came of all reboots. ``wrong``: whatever must not be, in sentences."""

    reboots: int = 0
    told: int = 0
    runs: int = 0
    wrong: list[str] = field(default_factory=list)

    def row(self, kernel: str) -> str:
        """A row of the table."""
        return f"| {kernel} | {self.reboots} | {self.told} | {self.runs} | {'; '.join(self.wrong) or 'none'} |"


def checked(before: bytes, now: bytes, told: int) -> list[str]:
    """What of ``trials.jsonl`` was lost between two boots, or is there twice; ``told``: trials told in between.

    A last line that was cut off was not told.
    """
    found = []
    kept, lines = before[: before.rfind(b"\n") + 1], now[: now.rfind(b"\n") + 1]
    if not now.startswith(kept):
        found.append("trials.jsonl does not begin as it was")
    new = lines.count(b"\n") - kept.count(b"\n")
    if new < told:
        found.append(f"{told} trials were told as finished, and {new} came to the disk")
    numbers = [json.loads(line)["trial"] for line in lines.splitlines()]
    if len(set(numbers)) != len(numbers):
        found.append(f"a trial is there twice: {numbers}")
    return found


def _whole(machine: emulated.Machine, now: bytes) -> list[str]:
    """What is wrong with a run that came to its end, by itself and by what it left."""
    plan = machine.run(f"cat {_FOLDER}/run/state.json; virtoll verify {_FOLDER}/run", 300.0)
    numbers = sorted(json.loads(line)["trial"] for line in now.splitlines())
    found = [] if plan.code == 0 and '"complete"' in plan.text else [f"the run is not whole: {plan.text[-300:]}"]
    if numbers != list(range(len(numbers))):
        found.append(f"not each trial is there once: {numbers}")
    left = machine.run(_LEFT).text.strip()
    return found + ([f"left: {left}"] if left else [])


def reboot_again_and_again(kernel: str, disk: Path, count: int, drawn: random.Random, tally: Tally) -> None:
    """Boots, goes on and reboots ``count`` times, and once more until the run is at its end."""
    files = emulated.prepare_kernel(kernel)
    text = experiments.text(
        platforms=["native", "netns"], blocks=_BLOCKS, workloads=[{"workload": "superpi", "digits": 2000}]
    )
    before, told = b"", 0
    while tally.reboots < count or before:
        with emulated.booted(files, disk, cpus=1) as machine:
            machine.run(f"mkdir -p {_FOLDER}; sync")
            machine.put(f"{_FOLDER}/example.yaml", text.encode())
            now = base64.b64decode(machine.run(_READ).text.strip())
            tally.wrong += checked(before, now, told)
            more = drawn.randrange(1, 5) if tally.reboots < count else 10**6
            machine.send(_GO_ON.format(folder=_FOLDER, trials=more, delay=drawn.random() * 2))
            said = machine.until_it_ends(_END_SECONDS)
        told, before = len(_TOLD.findall(said)), now
        tally.told += told
        if b"@whole" in said:
            with emulated.booted(files, disk, cpus=1) as machine:
                now = base64.b64decode(machine.run(_READ).text.strip())
                tally.wrong += [*checked(before, now, told), *_whole(machine, now)]
                machine.run(f"rm -rf {_FOLDER}; sync")
            tally.runs += 1
            before, told = b"", 0
        else:
            tally.reboots += 1
        print(f"{time.strftime('%H:%M:%S')} {tally.row(kernel)}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Reboot machines within runs; 1 where a trial was lost, is there twice, or something was left."""
    parser = argparse.ArgumentParser(prog="survive reboots", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 10**6))
    parser.add_argument("--count", type=int, default=10, help="how many reboots")
    parser.add_argument("--kernel", default="6.1", choices=emulated.KERNELS)
    given = parser.parse_args(arguments)
    emulated.needs_root()
    print(f"seed {given.seed}", flush=True)
    tally = Tally()
    with tempfile.TemporaryDirectory(dir=emulated.FILES) as folder:
        disk = Path(folder) / "disk"
        subprocess.run(["cp", "--sparse=always", root_disk("debian-12"), disk], check=True)
        reboot_again_and_again(given.kernel, disk, given.count, random.Random(given.seed), tally)
    print("| kernel | reboots | trials told as finished | whole runs | wrong |\n| --- | ---: | ---: | ---: | --- |")
    print(tally.row(given.kernel), flush=True)
    return int(bool(tally.wrong))
