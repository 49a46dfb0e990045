"""Run folders on a real NFS 4.2: Debian's kernel in an emulated machine is the server and two clients.

Whole campaigns, `kill -9` and a run that goes on by the other client, two clients on one run, a server that is stopped
and started within a run, and a client that loses its network for longer than its lease (`nfs_inside.py`).
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from benches.survive import emulated
from benches.survive.block_replay import put_harness, ran, tallies
from benches.survive.machines import root_disk
from benches.survive.nfs_inside import CASES, MOUNT, SERVER
from benches.survive.storage_runs import HEAD

SCRIPTS = {"server": SERVER, "mount": MOUNT.format(name="one", number=1)}


def main(arguments: list[str]) -> int:
    """Boot, measure, print the table; 1 where a trial was lost, measured twice, or a client did not go on."""
    parser = argparse.ArgumentParser(prog="survive nfs", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 10**6))
    parser.add_argument("--count", type=int, default=10, help="cases of kill -9, and of two clients; the others fewer")
    parser.add_argument("--kernel", default="6.1", choices=emulated.KERNELS)
    names = [case.__name__ for case in CASES.values()]
    parser.add_argument("--only", action="append", default=[], choices=names, help="this row; repeatable")
    given = parser.parse_args(arguments)
    emulated.needs_root()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(dir=emulated.FILES) as folder:
        disk = Path(folder) / "root"
        subprocess.run(["cp", "--sparse=always", root_disk("debian-12"), disk], check=True)
        with emulated.booted(emulated.prepare_kernel(given.kernel), disk) as machine:
            put_harness(machine)
            found = tallies(ran(machine, f"nfs_inside {given.seed} {given.count} {' '.join(given.only)}"))
    print("\n".join([HEAD, *(one.row() for one in found)]), flush=True)
    for wrong in dict.fromkeys(wrong for one in found for wrong in one.wrong):
        print(f"  {wrong}", file=sys.stderr)
    return 0 if all(one.held for one in found) else 1
