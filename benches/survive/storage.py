"""Storage: full, read-only, failing and slow disks, lost power, two controllers, a clock that is set.

Most of it measures models, so that a case takes a second: what is tried is the way of a result to the disk. The failing
disk is a file system in user space (`faulty_disk.py`). Everything is in a mount namespace of its own, whose disks are
in memory. A fault is met at a call that is drawn, or at each call with ``--count 0``. ``--only`` chooses rows.
"""

from __future__ import annotations

import argparse
import errno
import functools
import os
import random
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from benches.survive.faulty_disk import CHANGING, EVERY, LOOKING, SYNCING, Fault, Seen, mounted, own_mounts, tmpfs
from benches.survive.forked import Ended, warm
from benches.survive.storage_power import PRODUCTS, of_a_product, of_a_run
from benches.survive.storage_products import COMMANDS, FAULTS, try_command
from benches.survive.storage_runs import HEAD, Bench, Tally, judge
from benches.survive.storage_writers import clock, two_hosts, two_writers, unlike_clocks

_MEMORY_BYTES = 512 << 20


class Campaign:
    """One call of this part: where, how many cases a row, and the seed."""

    def __init__(self, bench: Bench, seed: int, count: int) -> None:
        self.bench = bench
        self.chance = random.Random(seed)
        self.count = count

    def drawn(self, most: int) -> list[int]:
        """Numbers from 1 to ``most``: all of them, or as many as were asked for."""
        every = range(1, most + 1)
        return list(every) if not self.count or self.count >= most else sorted(self.chance.sample(every, self.count))

    def run(self, fault: Fault, *, begun: int = 0) -> tuple[Path, Ended, Seen]:
        """Measure on a disk with a fault; ``begun``: so many calls that change it were right in a try before."""
        below = self.bench.empty("below")
        at = self.bench.place / "at"
        if begun:
            with mounted(below, at, Fault(CHANGING, begun, None)):
                self.bench.measure(at / "c")
        with mounted(below, at, fault) as seen:
            ended = self.bench.measure(at / "c")
        return below / "c", ended, seen

    def calls(self, kinds: frozenset[str], *, begun: int = 0) -> int:
        """How many calls of these kinds a run makes."""
        _, _, seen = self.run(Fault(kinds), begun=begun)
        return sum(count for kind, count in seen.calls.items() if kind in kinds)


def failing(campaign: Campaign, name: str, kinds: frozenset[str], number: int, *, sticky: bool) -> Tally:
    """One call fails, or all from it on."""
    tally = Tally(name)
    for first in campaign.drawn(campaign.calls(kinds)):
        into, ended, seen = campaign.run(Fault(kinds, first, None if sticky else 1, number))
        _count(campaign, tally, into, ended, seen)
    return tally


def failing_again(campaign: Campaign, name: str, kinds: frozenset[str], number: int) -> Tally:
    """The same while a run that had been left in its middle goes on."""
    tally = Tally(name)
    middle = campaign.calls(CHANGING) // 2
    for first in campaign.drawn(campaign.calls(kinds, begun=middle)):
        into, ended, seen = campaign.run(Fault(kinds, first, 1, number), begun=middle)
        _count(campaign, tally, into, ended, seen)
    return tally


def full(campaign: Campaign) -> Tally:
    """The disk is full after so many bytes, also in the middle of a line."""
    tally = Tally("disk full after so many bytes")
    into, _, _ = campaign.run(Fault())
    most = sum(path.stat().st_size for path in into.rglob("*") if path.is_file()) + 2000
    for room in campaign.drawn(most):
        into, ended, seen = campaign.run(Fault(room_bytes=room))
        _count(campaign, tally, into, ended, seen)
    return tally


def full_tmpfs(campaign: Campaign) -> Tally:
    """A real small disk, which counts pages and inodes itself."""
    tally = Tally("tmpfs full")
    for pages in campaign.drawn(24):
        with tmpfs(campaign.bench.place / "small", pages * 4096) as disk:
            ended = campaign.bench.measure(disk / "c")
            left = campaign.bench.empty("below")
            _copied(disk, left)
        tally.cases += 1
        tally.hit += bool(ended.code)
        tally.told("run", ended)
        judge(campaign.bench, left / "c", [ended], tally)
    return tally


def slow(campaign: Campaign) -> Tally:
    """Each fsync takes a while: nothing but time is lost."""
    tally = Tally("each fsync takes 50 ms")
    into, ended, seen = campaign.run(Fault(fsync_seconds=0.05))
    _count(campaign, tally, into, ended, seen)
    if ended.code:
        tally.wrong.append(f"it ended with {ended.code}: {ended.err}")
    return tally


def product(command: str, fault: str, campaign: Campaign) -> Tally:
    """A command over a finished run."""
    tally = Tally(f"{command}: {fault}")
    try_command(campaign.bench, command, fault, campaign.drawn, tally)
    return tally


def lost_product(command: str, campaign: Campaign) -> Tally:
    """Power lost while a command makes something of a finished run."""
    return of_a_product(campaign.bench, campaign.chance, command, most=20 * campaign.count or 2000)


def _count(campaign: Campaign, tally: Tally, into: Path, ended: Ended, seen: Seen) -> None:
    tally.cases += 1
    tally.hit += bool(seen.failed)
    tally.told("run", ended)
    judge(campaign.bench, into, [ended], tally)


def _copied(disk: Path, into: Path) -> None:
    import shutil

    shutil.copytree(disk, into, dirs_exist_ok=True)


ROWS: Final[Mapping[str, Callable[[Campaign], Tally]]] = {
    "eio": lambda own: failing(own, "EIO at one call", EVERY, errno.EIO, sticky=False),
    "eio-on": lambda own: failing(own, "EIO from one call on", EVERY, errno.EIO, sticky=True),
    "eio-sync": lambda own: failing(own, "EIO at one fsync", SYNCING, errno.EIO, sticky=False),
    "eio-look": lambda own: failing_again(own, "EIO at one look or read of 'resume'", LOOKING, errno.EIO),
    "eio-again": lambda own: failing_again(own, "EIO at one change of 'resume'", CHANGING | SYNCING, errno.EIO),
    "read-only": lambda own: failing(own, "read-only from one call on", CHANGING, errno.EROFS, sticky=True),
    "full": full,
    "full-tmpfs": full_tmpfs,
    "slow": slow,
    **{
        f"{command}, {fault}".replace(" ", "-"): functools.partial(product, command, fault)
        for command in COMMANDS
        for fault in FAULTS
    },
    "two": lambda own: two_writers(own.bench, own.chance, own.count or 100),
    "two-hosts": lambda own: two_hosts(own.bench, own.chance, own.count or 100),
    "clock": lambda own: clock(own.bench, own.chance, own.count or 20),
    "clock-between": lambda own: unlike_clocks(own.bench),
    "power": lambda own: of_a_run(own.bench, own.chance, own.count or 200, most=50 * own.count),
    **{f"power-{name}": functools.partial(lost_product, name) for name in PRODUCTS},
}


def main(arguments: list[str]) -> int:
    """Try each row, print the table; 1 where something was lost or believed that should not have been."""
    parser = argparse.ArgumentParser(prog="storage", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="what repeats it")
    parser.add_argument("--count", type=int, default=0, help="cases a row at most; 0: every one")
    parser.add_argument("--only", action="append", metavar="ROW", help="rows that begin so")
    asked = parser.parse_args(arguments)
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(2**32)
    own_mounts()
    print(f"seed {seed}")
    rows = []
    place = Path("/run") if os.access("/run", os.W_OK) else Path("/tmp")  # noqa: S108 - covered in our own namespace
    with tmpfs(place, _MEMORY_BYTES):
        os.chdir(place)
        bench = Bench(place).made()
        warm(*bench.measuring(bench.empty("warm")))
        for name in ROWS:
            if asked.only and not name.startswith(tuple(asked.only)):
                continue
            row = ROWS[name](Campaign(bench, seed, asked.count))
            rows.append(row)
            print(row.row(), flush=True)
            for wrong in dict.fromkeys(row.wrong):
                print(f"  {wrong}", file=sys.stderr, flush=True)
    print("\n".join(["", HEAD, *(one.row() for one in rows)]))
    return 0 if all(one.held for one in rows) else 1
