"""Simulated runs of known truth, as the design of a run produces them, for checks of what verdicts promise.

A run has blocks; in each block and workload there are rounds, in which each platform runs once and the host three times
(baseline, control, baseline). All values are logarithms of performance. A trial's noise has the standard deviation
`cv`; three tenths of its variance are of the block's boot, the host's being one for its three entries. What a block and
a round have in common is added to all their trials. `Trials` goes through Virtoll's own functions: `judged` on arrays,
or `comparisons` by single values (slow; a test shows that both give the same).
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from virtoll.runfolder.looks import PLANNED
from virtoll.runfolder.records import MetricRecord
from virtoll.stats.compare import LEVEL, Comparison, compare
from virtoll.stats.states import DISTURBED, TwoStates, apart, is_same, two_states
from virtoll.stats.values import Observation, Task
from virtoll.stats.verdicts import Judged, Rules, decide, judge

Array = NDArray[np.float64]
ROUNDS = 5
ENTRIES = 3
OF_BOOT = 0.3  # part of a trial's variance that all rounds of a block have in common
SHARES = (1.0, 0.95, 0.8, 0.5, 0.1)
NOISY = (3, 4)  # platforms, modulo five, that are three times noisier where platforms are uneven
STATE = math.log(1.45)
DWELL = 8  # trials for which the machine stays slow, on average


@dataclass(frozen=True)
class World:
    """What disturbs the trials. `outliers`: part of them 1.5 to 3 times slower; `uneven`: some platforms 3 x noisier.

    `by_task`, `by_cell`: log-SD of how unlike the noise of workloads, and of single comparisons, is. `two_states`: part
    of the host's trials 1.45 times slower. `slow_rounds`: rounds in which the slowest platform takes part. `constant`:
    the first comparison is the same in every block. `grid`: values are multiples of this share of themselves.
    `speed_in_time`: part of the time in which the machine, and all that runs on it, is 1.45 times slower, for some
    eight trials; `slow_boots`: part of the boots of platforms and host that are. `bursts`: one block has 40 % of its
    trials 1.5 to 5 times slower. `noisy_host`: how many times noisier the host is than the platforms.
    """

    outliers: float = 0.0
    uneven: bool = False
    by_task: float = 0.0
    by_cell: float = 0.0
    two_states: float = 0.0
    slow_rounds: int = ROUNDS
    constant: bool = False
    grid: float = 0.0
    speed_in_time: float = 0.0
    slow_boots: float = 0.0
    bursts: bool = False
    noisy_host: float = 1.0


WORLDS = {
    "even": World(),
    "outliers": World(outliers=0.05),
    "outliers, slowest in one round": World(outliers=0.05, slow_rounds=1),
    "uneven": World(uneven=True),
    "uneven, outliers": World(uneven=True, outliers=0.05),
    "unlike workloads, uneven, outliers": World(uneven=True, outliers=0.05, by_task=0.5),
    "noise of each cell its own": World(by_cell=0.5),
    "host in two states": World(two_states=0.3),
    "one comparison constant": World(constant=True),
    "grid of 2 %": World(grid=0.02),
    "machine's speed in time": World(speed_in_time=0.3),
    "host four times noisier": World(noisy_host=4.0),
}


@dataclass(frozen=True)
class Trials:
    """Logarithms of performance: `platforms` [tasks, platforms, blocks, rounds], `host` [tasks, 3, blocks, rounds].

    `truth`: the log share of each platform of the host as it runs. A host of two states is slower than its faster one.
    """

    platforms: Array
    host: Array
    truth: Array

    def log_shares(self, blocks: int | None = None) -> Array:
        """[tasks, platforms and the control, blocks], of the first `blocks`."""
        own, host = self.platforms[:, :, :blocks], self.host[:, :, :blocks]
        compared = np.nanmedian(own - np.median(host, axis=1)[:, None], axis=3)
        control = np.median(host[:, 1] - (host[:, 0] + host[:, 2]) / 2, axis=2)
        return np.concatenate([compared, control[:, None]], axis=1)

    def gaps(self, blocks: int | None = None) -> Array:
        """By how much two speeds of the host widen intervals, by task and platform; 0 for the control."""
        found = np.zeros((len(self.host), self.platforms.shape[1] + 1))
        for place, own in enumerate(-self.host[:, :, :blocks]):
            slowness = (own - own.min(axis=0)).ravel().tolist()
            labels = np.repeat(["native", "native-again", "native"], own[0].size).tolist()
            of_block = np.broadcast_to(np.arange(own.shape[1])[:, None], own.shape).ravel().tolist()
            states = apart(slowness, labels, of_block)
            if states is None or states[0] > math.log(DISTURBED):
                continue
            for platform, values in enumerate(-self.platforms[place, :, :blocks]):
                slower = (values - own.min(axis=0)).ravel()
                found[place, platform] = 0.0 if is_same(slower[np.isfinite(slower)].tolist(), *states) else states[0]
        return found

    def judged(self, rules: Rules, blocks: int | None = None) -> Judged:
        """The verdicts' numbers; the last platform is the control."""
        control = np.zeros(self.platforms.shape[1] + 1, bool)
        control[-1] = True
        return judge(self.log_shares(blocks), rules, control, self.gaps(blocks))

    def comparisons(self, rules: Rules) -> tuple[list[Comparison], list[Comparison], list[TwoStates]]:
        """Comparisons and control with their verdicts, and the tasks in two states, one value after the other."""
        compared, control, states = [], [], []
        for number in range(len(self.host)):
            metric = MetricRecord(f"w{number}", "duration", "ns", "lower", "marks", title="a job", resource="cpu")
            task = Task(metric.workload, metric, "{}", "")
            native, again = (
                self._values(task, "native", self.host[number, ::2]),
                self._values(task, "native-again", self.host[number, 1:2]),
            )
            control.append(compare(task, "native-again", again, native, ""))
            platforms = {
                f"p{place}": self._values(task, f"p{place}", values[None])
                for place, values in enumerate(self.platforms[number])
            }
            found = two_states(task, [*native, *again], platforms)
            states += [found] if found else []
            compared += [compare(task, label, own, [*native, *again], "") for label, own in platforms.items()]
        return *decide(compared, control, rules, states), states

    @staticmethod
    def _values(task: Task, platform: str, values: Array) -> list[Observation]:
        """Durations around a second; values that are nan were not measured."""
        return [
            Observation(task, platform, 0, block, 0, 1e9 * math.exp(-value), round=turn)
            for entry in values
            for block, rounds in enumerate(entry)
            for turn, value in enumerate(rounds)
            if math.isfinite(value)
        ]


def simulate(
    dice: np.random.Generator, world: World, size: tuple[int, int], *, blocks: int, cv: float, equal: bool
) -> Trials:
    """One run of `size` (tasks, platforms); all platforms `equal` to the host, or with `SHARES` in turn."""
    tasks, platforms = size
    kind = np.arange(platforms) % len(SHARES)
    truth = np.zeros(platforms) if equal else np.log(np.array(SHARES))[kind]
    noise = cv * np.exp(
        dice.normal(0, world.by_task, (tasks, 1)) + dice.normal(0, world.by_cell, (tasks, platforms + 1))
    )
    noise[:, -1] *= world.noisy_host
    if world.uneven:
        noise[:, :-1] *= np.where(np.isin(kind, NOISY), 3.0, 1.0)
    common = dice.normal(0, 0.05, (tasks, 1, blocks, 1)) + dice.normal(0, 0.05, (tasks, 1, blocks, ROUNDS))

    def values(deviation: Array, entries: int) -> Array:
        """[tasks, entries or platforms, blocks, rounds]; a boot is shared by the `entries` of one."""
        own, count = deviation[:, :, None, None], deviation.shape[1] * entries
        boot = dice.normal(0, 1, (tasks, deviation.shape[1], blocks, 1)) * own * math.sqrt(OF_BOOT)
        single = dice.normal(0, 1, (tasks, count, blocks, ROUNDS)) * own * math.sqrt(1 - OF_BOOT)
        slower = np.log(dice.uniform(1.5, 3.0, single.shape))
        disturbed = np.where(dice.random(single.shape) < world.outliers, slower, 0.0)
        slow = STATE * (dice.random((tasks, deviation.shape[1], blocks, 1)) < world.slow_boots)
        found: Array = common + boot + single - disturbed - slow
        return found

    own, host = values(noise[:, :-1], 1) + truth[:, None, None], values(noise[:, -1:], ENTRIES)
    host = host - np.where(dice.random(host.shape) < world.two_states, STATE, 0.0)
    if world.speed_in_time:
        slow = STATE * _speeds_in_time(dice, (tasks, blocks), platforms + ENTRIES, world.speed_in_time)
        entries = [0, (platforms + ENTRIES) // 2, platforms + ENTRIES - 1]
        host = host - slow[:, entries]
        own = own - np.delete(slow, entries, axis=1)
    if world.bursts:
        for trials in (own, host):
            burst = np.log(dice.uniform(1.5, 5.0, trials[:, :, 0].shape))
            trials[:, :, 0] -= np.where(dice.random(burst.shape) < 0.4, burst, 0.0)
    own[:, kind == len(SHARES) - 1, :, world.slow_rounds :] = np.nan
    if world.grid:
        step = math.log1p(world.grid)
        own, host = np.round(own / step) * step, np.round(host / step) * step
    if world.constant:
        own[0, 0] = np.median(host[0], axis=0) + truth[0]
    return Trials(own, host, truth + (slower_on_average(cv, world.two_states) if world.two_states else 0.0))


def _speeds_in_time(dice: np.random.Generator, shape: tuple[int, int], trials: int, share: float) -> Array:
    """1 where the machine is slow, else 0: [tasks, trials of a round, blocks, rounds], in the order of time."""
    states = np.zeros((*shape, ROUNDS * trials))
    state = dice.random(shape) < share
    for step in range(ROUNDS * trials):
        change = dice.random(shape)
        state = np.where(state, change > 1 / DWELL, change < share / (1 - share) / DWELL)
        states[..., step] = state
    return states.reshape(*shape, ROUNDS, trials).transpose(0, 3, 1, 2)


@functools.cache
def slower_on_average(cv: float, two_states: float) -> float:
    """What a host of two states adds to the log share of a platform with one, on average: from 100 000 blocks."""
    dice, single = np.random.default_rng(7), cv * math.sqrt(1 - OF_BOOT)
    own, host = dice.normal(0, single, (100_000, 1, ROUNDS)), dice.normal(0, single, (100_000, ENTRIES, ROUNDS))
    host = host - np.where(dice.random(host.shape) < two_states, STATE, 0.0)
    return float(np.median(own[:, 0] - np.median(host, axis=1), axis=1).mean())


@dataclass(frozen=True)
class Kept:
    """What verdicts did in `runs` simulated runs of one kind, as shares of the runs or of the comparisons.

    `errors`: runs with a false "slower" or "faster"; `bounds`: with a false "at least"; `alarms`: of the A/A control.
    `coverage`: of the intervals, least and largest of a platform. `alike`: false "alike" of comparisons beyond the
    margin. `found`: comparisons found slower, by share; `found_noisy` on the noisier platforms, where there are some.
    `mean_blocks`: until the run ended; `unsettled`: runs at whose end something was not known.
    """

    runs: int
    errors: float
    bounds: float
    alarms: float
    coverage: tuple[float, float]
    alike: float
    found: dict[float, float]
    found_noisy: dict[float, float]
    mean_blocks: float = math.nan
    unsettled: float = math.nan


@dataclass(frozen=True)
class Kind:
    """A kind of run, of `size` (tasks, platforms), and how many of them. Equal kinds give equal results."""

    world: str
    size: tuple[int, int]
    blocks: int
    cv: float
    equal: bool
    runs: int
    sequential: bool = False

    def dice(self) -> np.random.Generator:
        """Seeded by what is simulated: a run of more blocks begins like one of fewer only where it is the same one."""
        seed = [2026, list(WORLDS).index(self.world), *self.size, self.blocks, round(self.cv * 1000), self.equal]
        return np.random.default_rng(seed)


def measure(kind: Kind) -> Kept:
    """Simulate and judge; a `sequential` run is looked at as `PLANNED` says and ends where all is decided."""
    dice, world = kind.dice(), WORLDS[kind.world]
    wrong, beyond, alarms, covered, alike, slower, ends, unsettled = [], [], [], [], [], [], [], []
    truth = np.zeros(kind.size[1])
    for _ in range(kind.runs):
        trials = simulate(dice, world, kind.size, blocks=kind.blocks, cv=kind.cv, equal=kind.equal)
        truth = trials.truth
        looks = PLANNED.plan if kind.sequential else ((kind.blocks, LEVEL),)
        for blocks, level in looks:
            rules = Rules(level=level, alike_level=level)
            judged = trials.judged(rules, blocks)
            sign = np.where(judged.different, np.sign(judged.mean), 0.0)[:, :-1]
            within = (judged.within[:, :-1] < math.log1p(rules.margin)) & (sign == 0)
            if (within | (sign != 0)).all():
                break
        correct = np.sign(truth)[None]
        wrong.append(bool(((sign != 0) & (sign != correct)).any()))
        claimed = np.where(sign == correct, np.abs(truth), 0.0)
        beyond.append(bool(((sign != 0) & (judged.at_least[:, :-1] > claimed + 1e-12)).any()))
        alarms.append(bool(judged.different[:, -1].any()))
        covered.append(((judged.low[:, :-1] <= truth) & (truth <= judged.high[:, :-1])).mean(axis=0))
        alike.append((within & (np.abs(truth) >= math.log1p(rules.margin))).mean(axis=0))
        slower.append((sign < 0).mean(axis=0))
        ends.append(blocks)
        unsettled.append(not (within | (sign != 0)).all())
    by_platform = np.mean(slower, axis=0)
    noisy = np.isin(np.arange(kind.size[1]) % len(SHARES), NOISY) & world.uneven

    def found(which: NDArray[np.bool_]) -> dict[float, float]:
        places = np.arange(kind.size[1]) % len(SHARES)
        own = {share: which & (places == place) for place, share in enumerate(SHARES) if not kind.equal}
        return {share: float(by_platform[at].mean()) for share, at in own.items() if at.any()}

    least, most = float(np.mean(covered, axis=0).min()), float(np.mean(covered, axis=0).max())
    return Kept(
        runs=kind.runs,
        errors=float(np.mean(wrong)),
        bounds=float(np.mean(beyond)),
        alarms=float(np.mean(alarms)),
        coverage=(least, most),
        alike=float(np.mean(alike)),
        found=found(~noisy),
        found_noisy=found(noisy),
        mean_blocks=float(np.mean(ends)),
        unsettled=float(np.mean(unsettled)),
    )
