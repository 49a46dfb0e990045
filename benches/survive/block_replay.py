"""Lost power at the level of blocks: a log of what an ext4 file system wrote, replayed to each of its entries.

An emulated machine of Debian's kernel (`emulated.py`) logs the writes of a disk by dm-log-writes while a run is
measured there, killed, taken up again, packed, unpacked, merged, exported and reported (`block_inside.py`). What was
told as finished is a mark in that log, outside the disk. Each prefix of the log is a state of the disk after a lost
power, and so is each with a loss of what was not flushed (`block_log.py`). From each ext4 is mounted, so that its
journal is recovered, what is there is read, and e2fsck must find nothing. Of some the run goes on: in the machine,
because a run goes on only on its own host. The others are read here, which is faster.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from benches.survive import emulated
from benches.survive.block_inside import LOGGED, replayed
from benches.survive.block_log import entries
from benches.survive.faulty_disk import own_mounts, tmpfs
from benches.survive.forked import warm
from benches.survive.machines import root_disk
from benches.survive.storage_runs import TRIALS, Bench, Tally
from tests.support.repository import ROOT

_DISK_BYTES: Final = 48 << 20
_LOG_BYTES: Final = 1 << 30
_MEMORY_BYTES: Final = 512 << 20
_SECONDS: Final = 1500.0
_PYTHON: Final = "cd /root/harness && PYTHONPATH=/opt/virtoll:/root/harness python3 -m benches.survive."
_LOGGING: Final = rf"""
set -e
modprobe dm-log-writes
dmsetup create --noudevsync {LOGGED} --table "0 $(blockdev --getsz /dev/vdc) log-writes /dev/vdc /dev/vdd"
dmsetup mknodes {LOGGED}; mount -t ext4 -o {{options}} /dev/mapper/{LOGGED} /mnt
"""
_END: Final = f"umount /mnt && dmsetup remove --noudevsync {LOGGED} && sync"
SCRIPTS: Final = {"logging": _LOGGING.format(options="data=ordered"), "end": _END}
HEAD: Final = (
    "| what went on | states read | told as finished | went on to the end | lost | believed wrongly | wrong |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def put_harness(machine: emulated.Machine) -> None:
    """This folder's programs into the machine, in /root/harness."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for file in sorted((ROOT / "benches" / "survive").glob("*.py")):
            archive.add(file, f"benches/survive/{file.name}")
    machine.put("/root/harness.tar.gz", packed.getvalue())
    machine.run("mkdir -p /root/harness && tar -C /root/harness -xzf /root/harness.tar.gz")


def done(machine: emulated.Machine, script: str) -> str:
    """What a script in the machine says; MachineEnded where it fails."""
    answer = machine.run(script, _SECONDS)
    if answer.code != 0:
        raise emulated.MachineEnded(f"{script[:200]!r} ended with {answer.code}: {answer.text[-3000:]}")
    return answer.text


def logged(machine: emulated.Machine, options: str, killed_after: int) -> None:
    """Have the machine log a run and what is made of it. ``killed_after``: trials, after which the run is killed."""
    done(machine, _LOGGING.format(options=options))
    ran(machine, f"block_inside record {killed_after}")
    done(machine, _END)


def ran(machine: emulated.Machine, words: str) -> str:
    """What a program of this folder says in the machine; its complaints are told on the standard error."""
    said = done(machine, f"{_PYTHON}{words} 2>/run/said; code=$?; cat /run/said; exit $code")
    print("\n".join(line for line in said.splitlines() if not line.startswith("{")), file=sys.stderr)
    return said


def tallies(said: str) -> list[Tally]:
    """Of a program in the machine."""
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return [Tally(**{**one, "sentences": Counter(one["sentences"])}) for one in found]


def gone_on(machine: emulated.Machine, seed: int, most: int) -> list[Tally]:
    """Tallies of so many states, from which the run went on in the machine."""
    done(machine, "modprobe loop")
    return tallies(ran(machine, f"block_inside go-on /dev/vde /dev/vdd {seed} {most}")) if most else []


def _made(data: Path, log: Path, before: Path) -> None:
    """The disk that is logged, the log's, and what the former is before."""
    for file, size in ((before, _DISK_BYTES), (log, _LOG_BYTES)):
        with file.open("wb") as opened:
            opened.truncate(size)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-b", "4096", "-J", "size=4", str(before)], check=True)
    subprocess.run(["cp", "--sparse=always", before, data], check=True)


def row(here: Tally, there: Tally) -> str:
    """Of the table: the states that were read here, and those from which a run went on in the machine."""
    wrong = len(here.wrong) + len(there.wrong)
    numbers = [here.cases, here.finished, there.hit, here.lost + there.lost, here.believed + there.believed, wrong]
    return f"| {here.fault} | {' | '.join(map(str, numbers))} |"


def main(arguments: list[str]) -> int:
    """Log, replay, print the table; 1 where a trial was lost, something was believed, or a file system was broken."""
    parser = argparse.ArgumentParser(prog="survive blocks", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 10**6))
    parser.add_argument("--count", type=int, default=0, help="how many states of each are read, drawn; 0: every one")
    parser.add_argument("--resumed", type=int, default=30, help="from how many states the run goes on in the machine")
    parser.add_argument("--kernel", default="6.1", choices=emulated.KERNELS)
    parser.add_argument("--options", default="data=ordered", help="of ext4")
    parser.add_argument("--keep", type=Path, help="a folder for the log and the disk before it")
    parser.add_argument("--again", action="store_true", help="replay the log that --keep has, and log nothing")
    given = parser.parse_args(arguments)
    emulated.needs_root()
    print(f"seed {given.seed}", flush=True)
    chance, there = random.Random(given.seed), list[Tally]()
    with tempfile.TemporaryDirectory(dir=emulated.FILES) as made:
        folder = given.keep.resolve() if given.keep is not None else Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        disk, data, log, before = (folder / name for name in ("root", "data", "log", "before"))
        if not given.again:
            _made(data, log, before)
        if given.resumed or not given.again:
            subprocess.run(["cp", "--sparse=always", root_disk("debian-12"), disk], check=True)
            with emulated.booted(emulated.prepare_kernel(given.kernel), disk, more=[data, log, before]) as machine:
                put_harness(machine)
                if not given.again:
                    logged(machine, given.options, chance.randrange(1, TRIALS))
                there = gone_on(machine, given.seed, given.resumed)
        own_mounts()
        warm()
        place = Path("/run")
        with tmpfs(place, _MEMORY_BYTES):
            os.chdir(place)
            bench = Bench(place).made()
            every = entries(log)
            here = replayed(bench, before.read_bytes(), every, chance, given.count)
    flushes = sum(one.flush or one.through for one in every)
    print(f"{len(every)} entries, {flushes} of them flushes or writes through the cache, {given.options}")
    there = there or [Tally(one.fault) for one in here]
    print("\n".join([HEAD, *(row(*pair) for pair in zip(here, there, strict=True))]), flush=True)
    for wrong in dict.fromkeys(wrong for one in [*here, *there] for wrong in one.wrong):
        print(f"  {wrong}", file=sys.stderr)
    return 0 if all(one.held for one in [*here, *there]) else 1
