# ruff: noqa: INP001
"""How often two speeds of the host are found where it has one, and where it has two.

``python benches/speeds.py [HOSTS]``, from the repository's folder: 3000 hosts of each kind, a minute. Prints the table
of docs/statistics.md, and exits with 1 where one speed is taken for two in more than `MOST` of hosts with 45 entries.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]

import numpy as np  # noqa: E402

from virtoll.stats.states import apart  # noqa: E402

SPEED = math.log(1.45)
DESIGNS = ((3, 3), (5, 3), (3, 5), (12, 5))  # blocks and rounds
ENOUGH = 45  # entries
MOST = 0.025  # 2 %, and what 3000 hosts add by chance


@dataclass(frozen=True)
class Host:
    """Noise of a trial (`cv`; `tails`: of Student's t with 3 degrees, or skew), and what slows parts of the trials.

    `disturbed`: part of the trials 1.5 to 3 times slower; `slow`: part of them 1.45 times. `bursts`: one block has 40 %
    of its trials 1.5 to 5 times slower.
    """

    cv: float = 0.05
    tails: str = ""
    disturbed: float = 0.0
    slow: float = 0.0
    bursts: bool = False


HOSTS = {
    "one speed, CV 5 %": Host(),
    "one speed, CV 15 %": Host(cv=0.15),
    "one speed, CV 5 %, heavy tails": Host(tails="t"),
    "one speed, CV 15 %, heavy tails": Host(cv=0.15, tails="t"),
    "one speed, CV 15 %, skew": Host(cv=0.15, tails="skew"),
    "one speed, 5 % of trials disturbed": Host(disturbed=0.05),
    "one speed, 10 % of trials disturbed": Host(disturbed=0.1),
    "one speed, bursts in one block": Host(bursts=True),
    "two speeds, 15 % slow": Host(slow=0.15),
    "two speeds, 30 % slow": Host(slow=0.3),
    "two speeds, 50 % slow": Host(slow=0.5),
    "two speeds, 30 % slow, CV 2 %": Host(cv=0.02, slow=0.3),
}
REPORTED = "10 % of trials disturbed"  # is not held to the limit


def is_found(dice: np.random.Generator, host: Host, blocks: int, rounds: int) -> bool:
    """Whether one host of this kind is said to have two speeds."""
    shape = (3, blocks, rounds)
    single = {
        "": lambda: dice.normal(0, 1, shape),
        "t": lambda: dice.standard_t(3, shape) / math.sqrt(3),
        "skew": lambda: dice.exponential(1, shape),
    }[host.tails]()
    boots = dice.normal(0, 1, (2, blocks, 1))[[0, 1, 0]]
    durations = host.cv * (math.sqrt(0.7) * single + math.sqrt(0.3) * boots)
    slower = np.log(dice.uniform(1.5, 3.0, shape))
    durations += np.where(dice.random(shape) < host.disturbed, slower, 0.0)
    durations += np.where(dice.random(shape) < host.slow, SPEED, 0.0)
    if host.bursts:
        burst = np.log(dice.uniform(1.5, 5.0, (3, rounds)))
        durations[:, 0] += np.where(dice.random((3, rounds)) < 0.4, burst, 0.0)
    slowness = (durations - durations.min(axis=0)).ravel().tolist()
    labels = np.repeat(["native", "native-again", "native"], blocks * rounds).tolist()
    of_block = np.broadcast_to(np.arange(blocks)[:, None], shape).ravel().tolist()
    return apart(slowness, labels, of_block) is not None


def main() -> None:
    """Simulate, print, and exit with 1 where something is missed."""
    hosts, missed = int(sys.argv[1]) if len(sys.argv) > 1 else 3000, []
    print("| the host | " + " | ".join(f"{blocks} blocks x {rounds} rounds" for blocks, rounds in DESIGNS) + " |")
    print("| --- " * (1 + len(DESIGNS)) + "|")
    for name, host in HOSTS.items():
        dice, cells = np.random.default_rng(2026), []
        for blocks, rounds in DESIGNS:
            found = sum(is_found(dice, host, blocks, rounds) for _ in range(hosts)) / hosts
            cells.append(f"{100 * found:.1f}")
            held = name.startswith("one speed") and REPORTED not in name and 3 * blocks * rounds >= ENOUGH
            missed += [f"{name}, {blocks} x {rounds}"] if held and found > MOST else []
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    for line in missed:
        print(f"missed: {line}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
