"""The host at both ends of a platform's turn, in blocks of few rounds: what a platform is compared with there.

A host that changes its speed in a block is slower for all platforms on one side of that moment. The median of its
entries in the round is on one side too, so that platforms on the other side seem to differ, in every block in which
they stand there. The nearest entries before and after a platform's turn leave few platforms between both speeds, and by
half of their difference at most: intervals are widened by that. From `ENOUGH_ROUNDS` rounds on the median over rounds
leaves such a round out. Main functions: `round_bases`, `mean_step`. Pure.
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from virtoll.stats.intervals import median
from virtoll.stats.values import Observation, grouped

ENOUGH_ROUNDS = 3
LARGEST_STEP = math.log(1.1)
"""As a logarithm: a mean step up to this one leaves a false difference of 5 % at most, and is not told from noise."""


class _Ends(NamedTuple):
    """Logarithms of the host's values just before a platform's turn and just after it."""

    before: float
    after: float


def round_bases(platform: Sequence[Observation], host: Sequence[Observation]) -> dict[tuple[int, int], float]:
    """By block and round, the logarithm of the host's value that a platform's is compared with.

    The mean of both ends of its turn where the block has few rounds, and else the median of the round's entries.
    """
    bases = {}
    for key, entries in _rounds(host).items():
        bases[key] = median([math.log(entry.value) for entry in entries])
    for key, ends in _ends(platform, host).items():
        bases[key] = (ends.before + ends.after) / 2
    return bases


def mean_step(platform: Sequence[Observation], host: Sequence[Observation]) -> float:
    """By how much the host's values change from before the platform's turn to after it, as a logarithm.

    The mean over blocks of few rounds; 0 where the host does not stand at both ends.
    """
    blocks: dict[int, list[float]] = {}
    for (block, _), ends in _ends(platform, host).items():
        blocks.setdefault(block, []).append(ends.after - ends.before)
    return statistics.fmean(map(statistics.fmean, blocks.values())) if blocks else 0.0


def left_open(step: float) -> float:
    """By how much a mean step of the host may shift a comparison, as a logarithm: by half of it, if it is one."""
    return abs(step) / 2 if abs(step) > LARGEST_STEP else 0.0


def _ends(platform: Sequence[Observation], host: Sequence[Observation]) -> dict[tuple[int, int], _Ends]:
    """By block and round, in blocks of few rounds where the host ran before and after the platform."""
    entries = _rounds(host)
    rounds_of_block = grouped(entries, lambda key: key[0])
    ends = {}
    for key, turn in _rounds(platform).items():
        if key not in entries or len(rounds_of_block[key[0]]) >= ENOUGH_ROUNDS:
            continue
        turn.sort(key=_place)
        before = after = None
        for entry in sorted(entries[key], key=_place):
            if entry.trial < turn[0].trial:
                before = entry
            elif entry.trial > turn[-1].trial and after is None:
                after = entry
        if before is not None and after is not None:
            ends[key] = _Ends(math.log(before.value), math.log(after.value))
    return ends


def _place(observation: Observation) -> int:
    return observation.trial


def _rounds(observations: Sequence[Observation]) -> dict[tuple[int, int], list[Observation]]:
    return grouped(observations, lambda entry: (entry.block, entry.round))
