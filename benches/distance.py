# ruff: noqa: INP001
"""What the changing distance of a machine's CPUs does to verdicts on packets, by five ways to compare like with like.

``python benches/distance.py [RUNS]``, from the repository's folder: 300 runs of each kind, some minutes on two cores.
Prints the table of docs/statistics.md. The machine's CPUs are near each other or far, in spells of 0.1 to 9 s; while
they are far, all forwarding is slower. Trials stand in time as their plan has them, and a point whose readings differ
is measured again. The truth is the ratio of both rates near.

- *all*: every trial counts, and the rule of two speeds (`states.py`) widens what it finds.
- *near*: the trials of a platform's block that were far leave it if others of them were near.
- *pairs*: in each round near is compared with near; in a block without such a round far with far, less by how much
  that differs in blocks with both.
- *covariate*: what being far costs each platform is estimated over the run, and taken from its trials.
- *at once*: all of a round are measured in the same moment, in bursts in turn.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from tests.support import experiments  # noqa: E402

from virtoll.experiment.model import Experiment, PlatformChoice, WorkloadChoice  # noqa: E402
from virtoll.experiment.plan import TrialSeconds, make_plan  # noqa: E402
from virtoll.stats.states import DISTURBED, LEAST_A_ROUND, apart, is_same  # noqa: E402
from virtoll.stats.verdicts import Judged, Rules, judge  # noqa: E402

Array = NDArray[np.float64]
ROUNDS, SEED = 3, 590
RUNS = 300
BOOT_SECONDS, POINT_SECONDS, PAUSE_SECONDS, RETAKES = 12.0, 0.2, 0.1, 3
LEAST_SPELL, MOST_SPELL = 0.1, 9.0  # seconds, uniform in their logarithm
OF_BOOT = 0.3  # part of a trial's variance that all rounds of a block have in common
FOUND = (1.1, 1.25, 2.0)
NEAR, FAR, CHANGED = 0, 1, 2


@dataclass(frozen=True)
class Machine:
    """How often its CPUs are far from each other, and by which factor the host and a platform then forward less."""

    far: float
    host: float
    platform: float
    cv: float = 0.05


MACHINES = {
    "10 % far, all 1.5 times slower": Machine(0.1, 1.5, 1.5),
    "10 % far, host 1.5, others 1.15": Machine(0.1, 1.5, 1.15),
    "20 % far, all 1.5 times slower": Machine(0.2, 1.5, 1.5),
    "20 % far, host 1.5, others 1.15": Machine(0.2, 1.5, 1.15),
    "6 % far, all 1.5 times slower": Machine(0.06, 1.5, 1.5),
    "10 % far, all 1.5 times slower, CV 2 %": Machine(0.1, 1.5, 1.5, 0.02),
    "50 % far, all 1.5 times slower": Machine(0.5, 1.5, 1.5),
    "50 % far, host 1.5, others 1.15": Machine(0.5, 1.5, 1.15),
    "never far": Machine(0.0, 1.5, 1.5),
}


def the_experiment() -> Experiment:
    """The one whose plan is taken: two sizes of frames and three jobs, on the host, three platforms and emulators."""
    nics = ["virtio-net", "e1000"]
    emulated = [{"platform": "qemu-tcg", "nic": nics}, {"platform": "qemu-kvm", "nic": "virtio-net"}]
    return experiments.parsed(
        platforms=["native", "native-again", "netns", "runc", *emulated],
        workloads=[{"workload": "forward", "frame_size_bytes": [64, 1500]}, "superpi", "masr", "forkwait"],
        baseline="native",
        skip=[f"qemu-tcg-e1000:{job}" for job in ("superpi", "masr", "forkwait")],
        rounds=ROUNDS,
    )


def seconds(platform: PlatformChoice, workload: WorkloadChoice) -> float:
    """A trial's length: emulators forward in one round of a block alone."""
    if workload.workload == "forward":
        return 3.3 if platform.label.startswith("qemu-tcg") else 1.1
    return 0.9 if platform.label.startswith("qemu") else 0.4


@dataclass(frozen=True)
class Spells:
    """When the CPUs are far from each other: from each of `begins` to the end of the same place."""

    begins: Array
    ends: Array
    before: Array  # how long they were far before each of `begins`

    @classmethod
    def drawn(cls, dice: np.random.Generator, share: float, length: float) -> Spells:
        """For so many seconds, far for this share of the time."""
        mean = (MOST_SPELL - LEAST_SPELL) / math.log(MOST_SPELL / LEAST_SPELL)
        count = int(2 * length / mean) + 10 if share else 0
        far = np.exp(dice.uniform(math.log(LEAST_SPELL), math.log(MOST_SPELL), count))
        near = dice.exponential(mean * (1 - share) / share if share else 1.0, count)
        ends = np.cumsum(near + far)
        return cls(ends - far, ends, np.cumsum(far) - far)

    def far_until(self, moment: float) -> float:
        """For how long they were far until then."""
        place = int(np.searchsorted(self.begins, moment)) - 1
        if place < 0:
            return 0.0
        return float(self.before[place] + min(moment, self.ends[place]) - self.begins[place])

    def is_far(self, moment: float) -> bool:
        """Whether they are far from each other then."""
        place = int(np.searchsorted(self.begins, moment)) - 1
        return place >= 0 and moment < self.ends[place]

    def point(self, begin: float) -> tuple[float, int]:
        """The share of a point in which they were far, and what its two readings say; retaken while they differ."""
        for retake in range(RETAKES + 1):
            end = begin + POINT_SECONDS
            share = (self.far_until(end) - self.far_until(begin)) / POINT_SECONDS
            readings = self.is_far(begin), self.is_far(end)
            if readings[0] == readings[1]:
                break
            begin = end + PAUSE_SECONDS * 2**retake
        return share, CHANGED if readings[0] != readings[1] else FAR if readings[0] else NEAR


@dataclass(frozen=True)
class Run:
    """Logarithms of performance and the state of each trial, nan where there was none.

    [tasks, platforms, blocks, rounds]; the host's three entries are the last three platforms, its control the middle
    one of them.
    """

    logs: Array
    state: Array
    packets: NDArray[np.bool_]  # by task
    fast: NDArray[np.bool_]  # by platform other than the host: in each round


def simulated(
    dice: np.random.Generator, machine: Machine, experiment: Experiment, truth: Array, *, at_once: bool
) -> Run:
    """One run; `truth`: the log share of each platform."""
    labels = [choice.label for choice in experiment.platforms if choice.label not in ("native", "native-again")]
    tasks = {id(choice): place for place, choice in enumerate(experiment.workloads)}
    packets = np.array([choice.workload == "forward" for choice in experiment.workloads])
    shape = (len(tasks), len(labels) + 3, experiment.blocks, ROUNDS)
    slowed, state = np.full(shape, np.nan), np.full(shape, np.nan)
    plan = make_plan(experiment, lambda platform, workload: TrialSeconds(seconds(platform, workload)))
    length = sum(seconds(trial.platform, trial.workload) for trial in plan.trials)
    spells = Spells.drawn(dice, machine.far, length + BOOT_SECONDS * (experiment.blocks + 1))
    moment, block, entries = 0.0, -1, dict[tuple[int, int, int], int]()
    of_round = dict[tuple[int, int, int], tuple[float, int]]()
    for trial in plan.trials:
        if trial.block != block:
            block, moment = trial.block, moment + BOOT_SECONDS
        key = tasks[id(trial.workload)], trial.block, trial.round
        lasts = seconds(trial.platform, trial.workload)
        if not trial.warm_up:
            if trial.platform.label in labels:
                place = labels.index(trial.platform.label)
            else:
                place = len(labels) + entries.get(key, 0)
                entries[key] = entries.get(key, 0) + 1
            share, seen = 0.0, NEAR
            if packets[key[0]]:
                share, seen = spells.point(moment + lasts / 3)
            if at_once:
                share, seen = of_round.setdefault(key, (share, seen))
            factor = machine.platform if place < len(labels) else machine.host
            slowed[key[0], place, key[1], key[2]] = math.log(1 - share + share / factor)
            state[key[0], place, key[1], key[2]] = seen
        moment += lasts
    own = np.full((1, len(labels) + 3, 1, 1), machine.cv)
    boots = dice.normal(0, 1, (shape[0], len(labels) + 1, shape[2], 1)) * math.sqrt(OF_BOOT)
    boots = boots[:, [*range(len(labels)), *[len(labels)] * 3]]
    single = dice.normal(0, 1, shape) * math.sqrt(1 - OF_BOOT)
    common = dice.normal(0, 0.05, (shape[0], 1, shape[2], 1)) + dice.normal(0, 0.05, (shape[0], 1, *shape[2:]))
    logs = common + own * (boots + single) + slowed
    logs[:, :-3] += truth[:, None, None]
    fast = np.array([not label.startswith("qemu-tcg") for label in labels])
    return Run(logs, state, packets, fast)


def near(run: Run) -> Array:
    """Without the trials that were not near, in each platform's block that has others; host and control each."""
    logs = run.logs.copy()
    for places in ([place] for place in range(logs.shape[1] - 3)), ([-3, -1], [-2]):
        for own in places:
            away = run.state[:, own] != NEAR
            there = (np.isfinite(run.logs[:, own]) & ~away).any(axis=(1, 3), keepdims=True)
            logs[:, own] = np.where(away & there, np.nan, logs[:, own])
    return logs


def covariate(run: Run) -> Array:
    """Less what being far costs each platform: by least squares beside its blocks and the task's rounds.

    Of a platform that was never far and near in one block it is what it costs the others on average. A trial in which
    the distance changed is taken as half far.
    """
    logs = run.logs.copy()
    of = [*range(logs.shape[1] - 3), *[logs.shape[1] - 3] * 3]  # the host's three entries are one platform
    for task in np.flatnonzero(run.packets):
        places = np.argwhere(np.isfinite(logs[task]))
        far = run.state[task][tuple(places.T)] / np.array([1.0, 1.0, 4.0])[run.state[task][tuple(places.T)].astype(int)]
        who = np.array(of)[places[:, 0]]
        columns = [(who == p) & (places[:, 1] == b) for p in range(max(of) + 1) for b in range(logs.shape[2])]
        columns += [
            (places[:, 1] == b) & (places[:, 2] == r) for b in range(logs.shape[2]) for r in range(logs.shape[3])
        ]
        design = np.array(columns, float).T
        both = [
            any(len(set(far[(who == p) & (places[:, 1] == b)])) > 1 for b in range(logs.shape[2]))
            for p in range(max(of) + 1)
        ]
        values = logs[task][tuple(places.T)]
        common = np.linalg.lstsq(np.column_stack([design, far]), values, rcond=None)[0][-1]
        own = [far * (who == p) for p in range(max(of) + 1) if both[p]]
        costs = np.full(max(of) + 1, common)
        if own:
            rest = np.array([not both[p] for p in who])
            fitted = np.linalg.lstsq(np.column_stack([design, *own]), values - common * far * rest, rcond=None)[0]
            costs[np.array(both)] = fitted[-len(own) :]
        logs[task][tuple(places.T)] = values - costs[who] * far
    return logs


def medians(values: Array, axis: int) -> Array:
    """Without nan; nan of nothing."""
    found: Array = np.nanmedian(values, axis=axis)
    return found


def log_shares(logs: Array) -> Array:
    """[tasks, platforms, blocks]; where no round of a block has both, of the block's medians."""
    own, base = logs[:, :-3], medians(logs[:, -3:], 1)
    by_round = medians(own - base[:, None], 3)
    return first_known(by_round, medians(own, 3) - medians(base, 2)[:, None])


def first_known(*choices: Array) -> Array:
    """Of each place the first that is a number."""
    found = choices[0]
    for other in choices[1:]:
        found = np.where(np.isfinite(found), found, other)
    return found


def paired(run: Run) -> Array:
    """As `compare.paired_shares` has it."""
    same = [np.where(run.state == state, run.logs, np.nan) for state in (NEAR, FAR)]
    near, far = (medians(logs[:, :-3] - medians(logs[:, -3:], 1)[:, None], 3) for logs in same)
    shift = np.nan_to_num(np.nanmean(near - far, axis=2, keepdims=True))
    return first_known(near, far + shift, log_shares(run.logs))


def gaps(logs: Array) -> Array:
    """By how much two speeds widen intervals, by task and platform (`states.two_states`); the last is the control."""
    found = np.zeros((len(logs), logs.shape[1] - 2))
    for task, values in enumerate(-logs):
        host, there = values[-3:], np.isfinite(values[-3:])
        fastest = np.where(there.any(axis=0), np.where(there, host, np.inf).min(axis=0), np.nan)
        kept = there & (there.sum(axis=0) >= LEAST_A_ROUND)
        labels = np.broadcast_to(np.array(["native", "native-again", "native"])[:, None, None], host.shape)
        blocks = np.broadcast_to(np.arange(host.shape[1])[None, :, None], host.shape)
        parted = apart((host - fastest)[kept].tolist(), labels[kept].tolist(), blocks[kept].tolist())
        if parted is None or parted[0] > math.log(DISTURBED):
            continue
        for place, own in enumerate(values[:-3]):
            slower = (own - fastest).ravel()
            same = is_same(slower[np.isfinite(slower)].tolist(), *parted)
            found[task, place] = 0.0 if same else parted[0]
    return found


@dataclass(frozen=True)
class Analysis:
    """Which trials are left, and what their shares are; `at_once`: whether a round's are measured in one moment."""

    left: Callable[[Run], Array]
    shares: Callable[[Run, Array], Array] = lambda _, logs: log_shares(logs)
    at_once: bool = False


def all_of(run: Run) -> Array:
    """Every trial."""
    return run.logs


ANALYSES = {
    "all": Analysis(all_of),
    "near": Analysis(near),
    "pairs": Analysis(near, lambda run, _: paired(run)),
    "covariate": Analysis(covariate),
    "at once": Analysis(all_of, at_once=True),
}


def judged(run: Run, analysis: Analysis) -> tuple[Judged, Array]:
    """The verdicts' numbers, the last platform being the control; and the trials that are left."""
    logs = analysis.left(run)
    control = np.zeros(logs.shape[1] - 2, bool)
    control[-1] = True
    again = medians(logs[:, -2] - np.nanmean(logs[:, [-3, -1]], axis=1), 2)
    shares = np.concatenate([analysis.shares(run, logs), again[:, None]], axis=1)
    return judge(shares, Rules(), control, gaps(logs)), logs


@dataclass(frozen=True)
class Kind:
    """Runs of one machine; `equal`: all platforms are as fast as the host."""

    machine: str
    blocks: int
    equal: bool
    runs: int

    def truth(self, number: int) -> Array:
        """The log shares of a run: emulators are 30 times slower, and each other platform each of `FOUND` in turn."""
        truth = np.zeros(FAST[-1] + 1)
        if not self.equal:
            truth[:] = -math.log(30)
            truth[list(FAST)] = [-math.log(FOUND[(place + number) % len(FOUND)]) for place in range(len(FAST))]
        return truth


@dataclass
class Kept:
    """What verdicts did in each run, or with each comparison of packets.

    `errors`: a false "slower" or "faster" of a run; `together`: all its simultaneous intervals hold the truth; `alone`:
    the share of its intervals of 95 % that do. `smallest`: the difference that a run can detect, as a logarithm.
    `left_out`: share of the trials. `found`: of the platforms that are so many times slower.
    """

    errors: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    smallest: list[float] = field(default_factory=list)
    left_out: list[float] = field(default_factory=list)
    found: tuple[list[float], ...] = field(default_factory=lambda: tuple([] for _ in FOUND))

    def add(self, run: Run, truth: Array, told: Judged, logs: Array) -> None:
        """One run; `logs`: the trials that are left."""
        mean, low, high = told.mean[:, :-1], told.low[:, :-1], told.high[:, :-1]
        there, sign = np.isfinite(mean), np.where(told.different[:, :-1], np.sign(mean), 0.0)
        packets = run.packets[:, None] & there
        fast = packets & run.fast
        self.errors.append(float(((sign != 0) & (sign != np.sign(truth)) & there).any()))
        self.together.append(float((np.abs(mean - truth) <= told.reach[:, :-1])[there].all()))
        self.alone.append(float(((low <= truth) & (truth <= high))[packets].mean()))
        self.smallest.append(float(np.median(told.smallest[:, :-1][fast])))
        left, every = (np.isfinite(of[run.packets]).sum() for of in (logs, run.logs))
        self.left_out.append(float(1 - left / every))
        for factor, found in zip(FOUND, self.found, strict=True):
            found.extend((sign < 0)[fast & np.isclose(truth, -math.log(factor))].tolist())


def measure(kind: Kind) -> dict[str, Kept]:
    """Simulate and judge, by each analysis."""
    warnings.simplefilter("ignore", RuntimeWarning)  # of medians of nothing
    kept = {name: Kept() for name in ANALYSES}
    for number in range(kind.runs):
        truth = kind.truth(number)
        experiment = replace(EXPERIMENT, blocks=kind.blocks, seed=SEED + number)
        runs = {}
        for at_once in (False, True):
            dice = np.random.default_rng([SEED, list(MACHINES).index(kind.machine), kind.blocks, kind.equal, number])
            runs[at_once] = simulated(dice, MACHINES[kind.machine], experiment, truth, at_once=at_once)
        for name, analysis in ANALYSES.items():
            run = runs[analysis.at_once]
            kept[name].add(run, truth, *judged(run, analysis))
    return kept


def row(kind: Kind, name: str, equal: Kept, unequal: Kept) -> str:
    """A row of the table."""
    cells = [f"{100 * np.mean(own):.1f}" for own in (equal.errors, equal.together, equal.alone, *unequal.found)]
    detectable, left_out = math.exp(np.median(equal.smallest)), 100 * np.mean(equal.left_out)
    return f"| {kind.machine} | {kind.blocks} | {name} | {' | '.join(cells)} | {detectable:.3f} | {left_out:.1f} |"


def main() -> None:
    """Simulate and print."""
    runs, begun = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS, time.perf_counter()
    kinds = [Kind(*kind, runs) for kind in itertools.product(MACHINES, (3, 5), (True, False))]
    print(
        "| the machine | blocks | what is compared | families with a false verdict, % | all simultaneous intervals "
        "hold, % | intervals of 95 % hold, % | 1.1 times found, % | 1.25 times | 2 times | detectable | left out, % |"
    )
    print("| --- " * 11 + "|")
    with multiprocessing.Pool(os.cpu_count()) as pool:
        done = iter(zip(kinds, pool.imap(measure, kinds), strict=True))
        for (kind, equal), (_, unequal) in zip(done, done, strict=False):
            for name in ANALYSES:
                print(row(kind, name, equal[name], unequal[name]), flush=True)
    print(f"\n{len(kinds)} kinds of {runs} runs, {time.perf_counter() - begun:.0f} s")


EXPERIMENT = the_experiment()
FAST = (0, 1, 4)  # places of the platforms that are no emulators: netns, runc, qemu-kvm

if __name__ == "__main__":
    main()
