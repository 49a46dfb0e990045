"""Processes of runs are killed, stopped, signalled and starved of memory at random moments, over every platform here.

Each case is a run of its own in a playground, as root or as an ordinary user. Something is done to one process of it;
the run goes to its end, and is taken up again where it did not come to its last trial. Then nothing may be left on the
host, each trial is recorded exactly once, and what was recorded before is still there, byte for byte. A guest or an
engine that is hit may cost the trials of its own platform alone.

``--count`` cases of ``kill -9``, and a fifth as many of each other kind. The table has a row for each victim.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from benches.survive.host_state import host_state
from benches.survive.victims import GUEST_ROLES, LAB_ROLES, ROLES, line_of, platform_of
from tests.support import experiments, machine
from tests.support.playground import Playground, Running, playground

from virtoll.lab.cgroups import MemoryKills, detect
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder

LAID_OVER = tuple(Path(name) for name in ("/etc", "/var/lib", "/var/log", "/opt", "/srv"))
_SILENCE_SECONDS = 240.0
_STORM = 40
_LEFT_SECONDS = 60.0
_SEEN_NS = 1_500_000_000  # a stop of a second is seen, and this machine's own delays may come on top
_OOM_SECONDS = 60.0
ROOTS = (
    ("native", "netns", "runc", "crun"),
    ("native", "nspawn", "lxc", "runsc"),
    ("native", "docker", "podman"),
    ("native", "uml", "qemu-tcg"),
    ("native", "libvirt", "libvirt-lxc"),
)
USERS = (("native", "netns", "runc", "crun"), ("native", "runsc", "podman"), ("native", "uml", "qemu-tcg"))
ACTIONS = {
    "kill": "`kill -9`",
    "stop": "SIGSTOP, SIGCONT",
    "terminal": "lost terminal",
    "storm": "SIGTERM and SIGINT storm",
    "memory": "out of memory",
}


@dataclass(frozen=True)
class Case:
    """What is done: ``action`` to a ``victim`` of a run over ``platforms``.

    ``delay``: how many seconds after it said ``awaited``. ``traffic``: whether frames are forwarded too. ``seconds``:
    how long one that is stopped stands still. ``number``: of the random choices within.
    """

    number: int
    action: str
    victim: str
    platforms: tuple[str, ...]
    root: bool
    traffic: bool
    awaited: str
    delay: float
    seconds: float = 0.0

    @property
    def words(self) -> str:
        """As the log names it."""
        who = "root" if self.root else "user"
        longer = f" for {self.seconds:.0f} s" if self.seconds else ""
        at = f"{self.delay:.2f} s after {self.awaited!r}"
        return f"{self.number}: {self.action} {self.victim}{longer} {at}, {who}, {','.join(self.platforms)}"


@dataclass
class Outcome:
    """What came of a case. ``met``: somebody was there to be hit. ``wrong``: whatever must not be, in sentences.

    ``code``: the run's exit code. ``resumed``: it did not come to its last trial. ``cost``: trials that are not ok
    because of it. ``spoilt``: those among them that are told as invalid.
    """

    case: Case
    met: bool = False
    code: int | None = None
    resumed: bool = False
    cost: int = 0
    lost: int = 0
    twice: int = 0
    left: int = 0
    wrong: list[str] = field(default_factory=list)
    said: str = ""


def experiment(platforms: Sequence[str], *, traffic: bool) -> str:
    """Some seconds: three jobs for each platform, the last of them two points of ``traffic`` or one more number."""
    entries: list[Any] = [
        {"platform": "libvirt", "uri": "lxc:///system", "label": name} if name == "libvirt-lxc" else name
        for name in platforms
    ]
    forward = {
        "workload": "forward",
        "frame_size_bytes": [64],
        "sweep": "from-flat-out",
        "point_milliseconds": 100,
        "cpu_milliseconds": 0,
    }
    jobs: list[dict[str, Any]] = [{"workload": "superpi", "digits": [10_000, 20_000, *([] if traffic else [40_000])]}]
    return experiments.text(
        platforms=entries,
        workloads=[*jobs, *([forward] if traffic else [])],
        blocks=1,
        guest={"vcpus": 1, "memory": "128MiB"},
        seed=18,
    )


def carry_out(case: Case, keep: Path | None = None) -> Outcome:
    """One case from its start to what is left of it."""
    outcome = Outcome(case)
    before = host_state()
    with playground(root=case.root, laid_over=LAID_OVER) as place:
        try:
            _disturbed(case, place, outcome)
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - one case, told as such
            outcome.wrong.append(f"{type(error).__name__}: {str(error)[:300]}")
            outcome.said += "".join(traceback.format_exception(error))
        if keep is not None and outcome.wrong:
            shutil.copytree(place.runs, keep / str(case.number), dirs_exist_ok=True)
    changed = before.differences(host_state(), place.labs)
    outcome.left += len(changed)
    outcome.wrong += changed
    if keep is not None:
        (keep / f"{case.number}.txt").write_text(f"{outcome.wrong}\n{outcome.said}", encoding="utf-8")
    return outcome


def _disturbed(case: Case, place: Playground, outcome: Outcome) -> None:
    file = place.base / "example.yaml"
    file.write_text(experiment(case.platforms, traffic=case.traffic), encoding="utf-8")
    hit = _Hit()
    with place.start("run", file, terminal=case.action == "terminal") as running:
        _go_on(place, running, until=lambda: case.awaited in running.said)
        running.listen(case.delay)
        seen = machine.family(running.process.pid)
        while not hit.met and not _is_over(place, running):
            seen = machine.family(running.process.pid)
            _hit(case, running, seen, hit)
            if not hit.met:
                running.listen(0.1)
        outcome.met = hit.met
        outcome.code = _end(place, running)
        outcome.said = running.said
        _note_left(place, running, outcome, seen)
    _check_folder(case, place, outcome, hit)


def _is_over(place: Playground, running: Running) -> bool:
    """Whether it has ended, or nothing but its report is still to be drawn.

    What is left of the lab is removed first: by the launcher itself where the janitor was killed.
    """
    if running.process.poll() is not None:
        return True
    states = [path.read_text(encoding="utf-8") for path in place.runs.glob("*/state.json")]
    if not any('"complete"' in state for state in states):
        return False
    return machine.family(running.process.pid).find("virtoll.lab.init") is None and not place.recorded()


def _go_on(place: Playground, running: Running, until: Callable[[], bool] = lambda: False) -> None:
    """Read what it says until that holds or it is over; an error when it is silent for too long."""
    said, since = len(running.said), time.monotonic()
    while not until() and not _is_over(place, running):
        running.listen(0.1)
        if len(running.said) != said:
            said, since = len(running.said), time.monotonic()
        if time.monotonic() - since > _SILENCE_SECONDS:
            there = "\n".join(line_of(one) for one in machine.family(running.process.pid).processes)
            raise TimeoutError(f"silent for {_SILENCE_SECONDS:g} s after {running.said[-300:]!r}, with {there}")


def _end(place: Playground, running: Running) -> int | None:
    """Its exit code; None where it had only to draw its report, and was killed there."""
    _go_on(place, running)
    if running.process.poll() is None:
        running.process.kill()
        running.end()
        return None
    return running.end()


def _note_left(place: Playground, running: Running, outcome: Outcome, seen: machine.Family) -> None:
    """What is left of a run that is over, and a traceback of it."""
    left, _ = place.settle(seen, running.token, _LEFT_SECONDS)
    outcome.left += len(left)
    outcome.wrong += [f"left: {one}" for one in left]
    if "Traceback" in running.said:
        outcome.wrong.append("a traceback")


@dataclass
class _Hit:
    """Who was hit, whose guest that is, and whether he was."""

    met: bool = False
    platform: str | None = None
    stopped: tuple[_Moment, _Moment] | None = None

    def overlap_ns(self, trial: TrialRecord) -> int:
        """For how long somebody stood still while a trial was timed or frames were sent in it, ns."""
        if self.stopped is None:
            return 0
        first, last = self.stopped
        marks = trial.clock.marks or trial.clock.channel_marks if trial.clock is not None else None
        spans = [] if marks is None else [(marks.start_ns - first.real_ns, marks.end_ns - first.real_ns)]
        sent = [source for point in trial.points or () for source in point.sources]
        spans += [(one.start_monotonic_ns - first.steady_ns, one.end_monotonic_ns - first.steady_ns) for one in sent]
        length = last.steady_ns - first.steady_ns
        return max((min(end, length) - max(start, 0) for start, end in spans), default=0)


@dataclass(frozen=True)
class _Moment:
    """By the real-time and the monotonic clock, ns."""

    real_ns: int
    steady_ns: int


def _now() -> _Moment:
    return _Moment(time.time_ns(), time.monotonic_ns())


def _hit(case: Case, running: Running, seen: machine.Family, hit: _Hit) -> None:
    """Do what the case says, if its victim is there."""
    choice = random.Random(case.number)
    if case.victim == "any of the lab":
        launcher, janitor = LAB_ROLES["launcher"].found_in(seen), LAB_ROLES["janitor"].found_in(seen)
        found = [process for process in seen.processes if process not in (*launcher, *janitor)]
    else:
        found = ROLES[case.victim].found_in(seen)
    if not found:
        return
    victim = choice.choice(found)
    hit.platform = platform_of(victim, seen)
    if case.action == "kill":
        hit.met = _send(victim, signal.SIGKILL)
    elif case.action == "stop":
        hit.met = _send(victim, signal.SIGSTOP)
        started = _now()
        running.listen(case.seconds)
        hit.stopped = (started, _now())
        _send(victim, signal.SIGCONT)
    elif case.action == "terminal":
        running.hang_up()
        hit.met = True
    elif case.action == "storm":
        for _ in range(_STORM):
            hit.met |= _send(victim, choice.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)))
            running.listen(choice.uniform(0.0, 0.02))
    else:
        hit.met = starve(victim)


def _send(process: machine.Process, number: signal.Signals) -> bool:
    """Whether it was still there to be sent it."""
    if not process.alive:
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    return True


def why_no_starving() -> str | None:
    """Why no process can be killed for want of memory here; None: it can."""
    memory = detect().controllers.get("memory")
    return None if memory is not None and os.access(memory, os.W_OK) else "no memory controller of cgroups here"


@contextlib.contextmanager
def _small_group(limit_bytes: int) -> Iterator[Path]:
    """A cgroup of our own with so much memory."""
    layout = detect()
    folder = Path(tempfile.mkdtemp(prefix="survive-", dir=layout.controllers["memory"]))
    try:
        limit = folder / ("memory.max" if layout.is_v2("memory") else "memory.limit_in_bytes")
        limit.write_text(str(limit_bytes), encoding="ascii")
        yield folder
    finally:
        for process in (folder / "cgroup.procs").read_text(encoding="ascii").split():
            (folder.parent / "cgroup.procs").write_text(process, encoding="ascii")
        machine.poll_until_empty(lambda: (folder / "cgroup.procs").read_text(encoding="ascii").split())
        folder.rmdir()


def starve(victim: machine.Process) -> bool:
    """Have the kernel kill a process for want of memory: in a small cgroup, beside one that takes all of it.

    The kernel's choice is the victim, whose ``oom_score_adj`` is the highest, and then the other, whose own memory is
    little: it fills a file in memory. True where the victim was killed, and did not end by itself.
    """
    hog = (
        "import os, sys; file = os.memfd_create('kept'); sys.stdin.read(1);"
        "[os.write(file, bytes(1 << 20)) for _ in range(256)]"
    )
    score = Path(f"/proc/{victim.pid}/oom_score_adj")
    # Who shares its memory stays where it was, and its end is counted there.
    there = replace(MemoryKills.of([victim.pid]), shared=None)
    with _small_group(64 * 2**20) as group, contextlib.ExitStack() as undo:
        eater = undo.enter_context(
            subprocess.Popen([sys.executable, "-c", hog], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        )
        undo.callback(eater.kill)
        try:
            score.write_text("1000", encoding="ascii")
            (group / "cgroup.procs").write_text(str(victim.pid), encoding="ascii")
        except OSError:
            return False
        (group / "cgroup.procs").write_text(str(eater.pid), encoding="ascii")
        kills = MemoryKills.of([eater.pid])
        eater.communicate(b"x", _OOM_SECONDS)
        if kills.since() + there.since() < 2:
            return False
        machine.poll_until_empty(lambda: ["alive"] if victim.alive else [], _OOM_SECONDS)
        return not victim.alive


def _check_folder(case: Case, place: Playground, outcome: Outcome, hit: _Hit) -> None:
    """What the run folder says, before and after it is taken up again."""
    paths = [path.parent for path in place.runs.glob("*/manifest.json")]
    if not paths:
        if outcome.code == 0:
            outcome.wrong.append("exit code 0 without a run folder")
        return
    (path,) = paths
    folder = RunFolder.open(path)
    stored = path / "trials.jsonl"
    before = stored.read_bytes() if stored.exists() else b""
    whole = before[: before.rfind(b"\n") + 1]
    _check_cost(case, folder.trials(), outcome, hit)
    if case.action in ("terminal", "storm") and folder.state().state == "running":
        outcome.wrong.append("a run that was to end in order has not stored that it did")
    if folder.state().state != "complete":
        outcome.resumed = True
        with place.start("resume", path.name) as again:
            code = _end(place, again)
            outcome.said += f"\n--- resume\n{again.said}"
            if code:
                outcome.wrong.append(f"resume: exit code {code}")
            _note_left(place, again, outcome, machine.Family((), frozenset(), frozenset()))
    elif outcome.code not in (None, 0, 137, -signal.SIGKILL):
        outcome.wrong.append(f"a complete run's exit code is {outcome.code}")
    folder = RunFolder.open(path)
    if not stored.read_bytes().startswith(whole):
        outcome.wrong.append("trials.jsonl does not begin as it was")
    numbers = [trial.trial for trial in folder.trials()]
    planned = set(range(len(folder.manifest.plan.trials)))
    outcome.lost = len(planned - set(numbers))
    outcome.twice = len(numbers) - len(set(numbers))
    if outcome.lost or outcome.twice or set(numbers) - planned:
        outcome.wrong.append(f"of {len(planned)} trials {outcome.lost} are lost and {outcome.twice} there twice")
    if folder.state().state != "complete":
        outcome.wrong.append(f"the state is {folder.state()}")


def _check_cost(case: Case, trials: Sequence[TrialRecord], outcome: Outcome, hit: _Hit) -> None:
    """Only the trials of the platform that was hit may suffer; what a stop made longer may not be believed.

    While something of the lab itself stands still, whoever is measured may suffer.
    """
    for trial in trials:
        spoils = trial.platform == hit.platform or case.victim == "agent of the peer"
        if trial.status != "ok":
            outcome.cost += 1
            if not trial.reason:
                outcome.wrong.append(f"trial {trial.trial} is {trial.status} without a reason")
            if trial.platform != hit.platform and not (hit.stopped and hit.platform is None):
                outcome.wrong.append(
                    f"{case.victim} ({hit.platform}) cost a trial of {trial.platform}: {trial.status}: {trial.reason}"
                )
        elif spoils and hit.overlap_ns(trial) > _SEEN_NS:
            stood = hit.overlap_ns(trial) / 1e9
            outcome.wrong.append(f"believed: a trial of {trial.platform}, for {stood:.2f} s of which it stood still")


def cases(count: int, seed: int) -> list[Case]:
    """``count`` kills, and a fifth as many of each other kind; each victim about as often, as root and not."""
    drawn = random.Random(seed)
    number = 0
    found: list[Case] = []

    def victims(action: str) -> Iterator[tuple[str, bool]]:
        if action in ("terminal", "storm"):
            names = ["launcher"] if action == "terminal" else ["launcher", "launcher", "PID 1 of the lab", "controller"]
            everyone = [(name, root) for name in names for root in (True, False)]
        else:
            everyone = [(name, root) for name in (*ROLES, "any of the lab") for root in (True, False)]
            everyone = [
                (name, root)
                for name, root in everyone
                if root or name == "any of the lab" or (not ROLES[name].root and _sets_with(name, root=False))
            ]
        while True:
            drawn.shuffle(everyone)
            yield from everyone

    for action in ACTIONS:
        chosen = victims(action)
        for _ in range(count if action == "kill" else max(1, count // 5)):
            name, root = next(chosen)
            number += 1
            platforms = drawn.choice(_sets_with(name, root=root))
            trials = 3 * len(platforms)
            begun = [f"{done}/{trials} " for done in range(1, trials - 1)]
            early = ["", "trying native", *(f"starting {one}" for one in platforms)] if name not in GUEST_ROLES else []
            seconds = drawn.choice((2.0, 3.0, 5.0, 8.0, 60.0)) if action == "stop" else 0.0
            awaited = drawn.choice(early) if early and drawn.random() < 0.5 else drawn.choice(begun)
            delay = drawn.uniform(0.0, 1.0 if awaited in early else 0.3)
            traffic = drawn.random() < 0.4
            found.append(
                Case(
                    seed * 1000 + number,
                    action,
                    name,
                    platforms,
                    root=root,
                    traffic=traffic,
                    awaited=awaited,
                    delay=delay,
                    seconds=seconds,
                )
            )
    return found


def _sets_with(victim: str, *, root: bool) -> list[tuple[str, ...]]:
    """The platforms together that have such a victim."""
    sets = ROOTS if root else USERS
    role = ROLES.get(victim)
    return [one for one in sets if role is None or not role.platforms or role.platforms[0] in one]


def table(outcomes: Sequence[Outcome]) -> str:
    """The figures: a row for each victim of each kind."""
    rows = [
        "| what | victim | times | things left | taken up again | trials lost | twice | cost: trials not ok |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    keys = dict.fromkeys((action, name) for action in ACTIONS for name in (*ROLES, "any of the lab"))
    for action, name in keys:
        of = [one for one in outcomes if (one.case.action, one.case.victim) == (action, name) and one.met]
        if of:
            sums = [sum(getattr(one, what) for one in of) for what in ("left", "resumed", "lost", "twice", "cost")]
            rows.append(f"| {ACTIONS[action]} | {name} | {len(of)} | {' | '.join(map(str, sums))} |")
    return "\n".join(rows)


def told(case: Case, keep: Path | None) -> Outcome:
    """Carry a case out, sooner where the run was over first, and say what came of it."""
    outcome = carry_out(case, keep)
    for awaited in ("1/", "starting"):
        if not outcome.met and not outcome.wrong:
            outcome = carry_out(replace(case, awaited=awaited, delay=0.0), keep)
    verdict = "; ".join(outcome.wrong) if outcome.wrong else "as it must be"
    figures = f"met {outcome.met}, exit {outcome.code}, resumed {outcome.resumed}, cost {outcome.cost}"
    print(f"{case.words}: {figures}: {verdict}", flush=True)
    return outcome


def main(arguments: list[str]) -> int:
    """Carry the cases out one after the other; 1 where one of them ended otherwise than it must."""
    parser = argparse.ArgumentParser(prog="survive kills", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 10**6))
    parser.add_argument("--count", type=int, default=100, help="how many are killed; of each other kind a fifth")
    parser.add_argument("--only", choices=sorted(ACTIONS), action="append", help="this kind alone")
    parser.add_argument("--victim", help="this victim alone")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs side by side")
    parser.add_argument("--keep", type=Path, help="a folder for what the runs said, and for run folders with faults")
    given = parser.parse_args(arguments)
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    print(f"seed {given.seed}", flush=True)
    chosen = [one for one in cases(given.count, given.seed) if not given.only or one.action in given.only]
    chosen = [one for one in chosen if given.victim in (None, one.victim)]
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        outcomes = list(pool.map(lambda case: told(case, given.keep), chosen))
    print(f"\nseed {given.seed}, {len(outcomes)} cases\n\n{table(outcomes)}")
    return int(any(one.wrong or not one.met for one in outcomes))
