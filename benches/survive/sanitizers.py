"""The agent under AddressSanitizer with LeakSanitizer, and under ThreadSanitizer: its tests, and real runs.

``python benches/survive sanitizers [address|thread...] [--only tests|runs] [--platforms NAME...] [--count BLOCKS]
[--seed N]``. ``tests``: those of all crates. ``runs``: one run over platforms that share the host's kernel, on the
image ``full``, whose root has the C library that a sanitizer's runtime needs; with the agent's own workloads, and some
that run programs; as root. ThreadSanitizer has the standard library compiled anew, for which rustup's component
rust-src is needed: without it, the library's own locks would look like races.

Prints one table. Ends with 1 where a sanitizer reported anything, a test failed, or a trial failed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import platform
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support import experiments, machine

from virtoll.runfolder.store import RunFolder

ROOT: Final = Path(__file__).resolve().parents[2]
REPORTS: Final = ROOT / "target" / "sanitize" / "reports"
TARGET: Final = f"{platform.machine()}-unknown-linux-gnu"
OPTIONS: Final = Path(__file__).with_suffix(".c")
SANITIZERS: Final = {"address": "AddressSanitizer, LeakSanitizer", "thread": "ThreadSanitizer"}
PLATFORMS: Final = ("native", "netns", "runc", "crun", "nspawn", "lxc", "podman", "docker")
_REPORT: Final = re.compile(
    r"^\s*(?:==\d+==)?(?:(?:ERROR|WARNING|FATAL): )?((?:Address|Leak|Thread)Sanitizer)"
    r"(?::|(?= ))(?!\s*reported )\s*(\S.*)"
)
_PASSED: Final = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE)
_FAILED: Final = re.compile(r"^test (\S+)(?: - .*)? \.\.\. FAILED$", re.MULTILINE)
_LOOK_SECONDS: Final = 0.3
WORKLOADS: Final[tuple[dict[str, Any], ...]] = (
    {"workload": "forward", "frame_size_bytes": [64, 1500], "point_milliseconds": 100, "rate_factor": 8},
    {"workload": "forward", "routes": 1000, "point_milliseconds": 100, "rate_factor": 8},
    {"workload": "throughput", "trial_seconds": 0.1, "search_seconds": 3, "sum_seconds": 0.1},
    {"workload": "superpi", "digits": 20_000},
    {"workload": "masr", "size_bytes": "32MiB"},
    {"workload": "stream", "elements": 500_000, "rounds": 3},
    {"workload": "forkwait", "processes": 200, "workers": 2},
    {"workload": "kernel-operations", "operations": 2000},
    {"workload": "context-switch", "processes": 4, "switches": 2000},
    {
        "workload": "ipc-bandwidth",
        "channel": ["pipe", "unix-stream", "tcp-loopback", "shared-memory"],
        "size_bytes": "8MiB",
    },
    {"workload": "zfg", "size_bytes": "4MiB", "rounds": 2},
    {"workload": "tcp-stream", "size": "8MiB", "connections": 2, "direction": ["from-guest", "to-guest"]},
    {"workload": "tcp-request-response", "transactions": 500, "connections": 2},
    {"workload": "nginx", "requests": 100},
    {"workload": "iperf-udp", "datagrams": 500},
    {"workload": "dd"},
)


@dataclass
class Outcome:
    """What one sanitizer saw of one thing. ``reports``: each by its first line; ``wrong``: what else was not right."""

    sanitizer: str
    what: str
    counts: str = ""
    seconds: float = 0.0
    reports: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def row(self) -> str:
        """Of the table."""
        cells = (SANITIZERS[self.sanitizer], self.what, self.counts, f"{self.seconds:.0f} s")
        return f"| {' | '.join(cells)} | {len(self.reports)} | {len(self.wrong)} |"


HEAD: Final = (
    "| sanitizer | of | how many | time | reports | wrong otherwise |\n| --- | --- | --- | ---: | ---: | ---: |"
)


def reports_in(text: str) -> list[str]:
    """The first line of each report in what a process wrote."""
    found = (_REPORT.match(line) for line in text.splitlines())
    return [f"{one[1]}: {one[2]}" for one in found if one is not None]


def report_folder() -> Path:
    """The folder that every process may write its reports to, made and emptied.

    Its name is always the same: the compiler's flags hold it, and others would have everything built again.
    """
    shutil.rmtree(REPORTS, ignore_errors=True)
    REPORTS.mkdir(parents=True)
    REPORTS.chmod(0o1777)
    return REPORTS


def options_object(folder: Path, compiler: Sequence[str] = ("gcc",)) -> Path:
    """Compile what says where reports go: the folder. Its name changes with its source, so that it is linked anew."""
    made = folder / f"options-{hashlib.sha256(OPTIONS.read_bytes()).hexdigest()[:8]}.o"
    subprocess.run([*compiler, "-c", f'-DREPORTS="{folder}"', str(OPTIONS), "-o", str(made)], check=True)
    return made


def cargo(sanitizer: str, options: Path, *words: str) -> tuple[list[str], dict[str, str]]:
    """The command and its environment that compile the crates with a sanitizer, not static as its runtime is not."""
    command = ["cargo", *words, "--locked", "--target", TARGET, "--target-dir", str(target_folder(sanitizer))]
    if sanitizer == "thread":
        command.append("-Zbuild-std")
    flags = f"-Zsanitizer={sanitizer} -Clink-arg={options}"
    return command, os.environ | {"RUSTC_BOOTSTRAP": "1", "RUSTFLAGS": flags}


def target_folder(sanitizer: str) -> Path:
    """Where its build goes, beside the others."""
    return ROOT / "target" / "sanitize" / sanitizer


def run_tests(sanitizer: str, wanted: Sequence[str] = ()) -> Outcome:
    """The crates' tests, or those whose names hold one of these words."""
    outcome = Outcome(sanitizer, "tests of all crates")
    folder = report_folder()
    words = ("test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast")
    command, environment = cargo(sanitizer, options_object(folder), *words)
    began = time.monotonic()
    done = subprocess.run(
        [*command, "--", *wanted], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    outcome.seconds = time.monotonic() - began
    results = [tuple(map(int, one)) for one in _PASSED.findall(done.stdout)]
    passed, failed, ignored = (sum(column) for column in zip(*results, strict=True)) if results else (0, 0, 0)
    outcome.counts = f"{passed} passed, {failed} failed, {ignored} ignored"
    outcome.wrong = [f"test {name} failed" for name in _FAILED.findall(done.stdout)]
    if outcome.wrong:
        print(done.stdout, flush=True)
    elif done.returncode != 0:
        outcome.wrong.append(f"{shlex.join(command)} ended with {done.returncode}")
    collect(outcome, [done.stdout], folder)
    return outcome


def run_platforms(sanitizer: str, platforms: Sequence[str], blocks: int, seed: int) -> Outcome:
    """A real run with an agent that was built with the sanitizer, in guests, at the peer and in the lab."""
    outcome = Outcome(sanitizer, f"a run over {', '.join(platforms)}")
    reports = report_folder()
    command, environment = cargo(sanitizer, options_object(reports), "build", "--package", "virtoll-agent")
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    built = target_folder(sanitizer) / TARGET / "debug" / "virtoll-agent"
    with tempfile.TemporaryDirectory(prefix="virtoll-sanitized-", dir="/var/tmp") as name:
        folder = Path(name)
        agent = shutil.copy2(built, folder / "virtoll-agent")
        file = experiments.write(
            folder,
            platforms=list(platforms),
            guest={"vcpus": 1, "memory": "1GiB", "image": "full"},
            blocks=blocks,
            rounds=1,
            seed=seed,
            workloads=list(WORKLOADS),
        )
        runs = folder / "runs"
        variables = {"PYTHONPATH": str(ROOT / "src"), "VIRTOLL_RUNS": str(runs), "VIRTOLL_AGENT": str(agent)}
        began = time.monotonic()
        with (folder / "said.txt").open("w+b") as output:
            run = subprocess.Popen(
                [sys.executable, "-m", "virtoll", "run", str(file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env=os.environ | variables,
            )
            consoles = _consoles_of(run)
            output.seek(0)
            said = output.read().decode(errors="replace")
        outcome.seconds = time.monotonic() - began
        _judge_run(outcome, runs, run.returncode, said)
        collect(outcome, [said, *consoles], reports)
    return outcome


def _consoles_of(run: subprocess.Popen[bytes]) -> list[str]:
    """Wait for the run's end; what each agent of it wrote to its standard error meanwhile."""
    consoles: dict[tuple[int, int], int] = {}
    try:
        while run.poll() is None:
            for process in machine.family(run.pid).processes:
                _keep_console(process.pid, consoles)
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.wait(_LOOK_SECONDS)
        return [os.pread(one, os.fstat(one).st_size, 0).decode(errors="replace") for one in consoles.values()]
    finally:
        if run.poll() is None:
            run.terminate()
            run.wait()
        for console in consoles.values():
            os.close(console)


def _keep_console(pid: int, consoles: dict[tuple[int, int], int]) -> None:
    """Hold the file that is a process's standard error open: it is deleted with its guest, and read at the end."""
    with contextlib.suppress(OSError):
        written = Path(f"/proc/{pid}/fd/2")
        if not written.readlink().name.endswith("console.txt"):
            return
        console = os.open(written, os.O_RDONLY)
        found = os.fstat(console)
        if consoles.setdefault((found.st_dev, found.st_ino), console) != console:
            os.close(console)


def _judge_run(outcome: Outcome, runs: Path, code: int, said: str) -> None:
    folders = sorted(runs.iterdir()) if runs.is_dir() else []
    if code != 0 or not folders:
        outcome.wrong.append(f"the run ended with {code}: {said[-2000:]}")
    for path in folders:
        folder = RunFolder.open(path)
        trials = folder.trials()
        statuses = Counter(trial.status for trial in trials)
        told = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
        outcome.counts = f"{len(folder.boots())} guests, {len(trials)} trials ({told})"
        for trial in trials:
            if trial.status not in ("ok", "skipped"):  # a platform may not be on this machine
                outcome.wrong.append(f"{trial.platform}, {trial.workload}: {trial.status}: {trial.reason}")


def collect(outcome: Outcome, said: Sequence[str], folder: Path) -> None:
    """Take the reports out of what was said and out of the folder, and show each as a whole."""
    texts = [*said, *(file.read_text(errors="replace") for file in sorted(folder.glob("report.*")))]
    for text in texts:
        found = reports_in(text)
        outcome.reports += found
        if found:
            print(f"\n{text}\n", flush=True)


def main(arguments: list[str]) -> int:
    """Build, run, print the table; 1 where anything was reported or failed."""
    parser = argparse.ArgumentParser(prog="survive sanitizers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sanitizers", nargs="*", help=f"of {', '.join(SANITIZERS)}; all where none is named")
    parser.add_argument("--only", choices=("tests", "runs"), default=None, help="one of the two")
    parser.add_argument("--platforms", nargs="+", default=list(PLATFORMS), help="of the runs")
    parser.add_argument("--count", type=int, default=1, help="blocks of the runs: boots of each platform")
    parser.add_argument("--seed", type=int, default=None, help="of the runs' order")
    asked = parser.parse_args(arguments)
    if unknown := sorted(set(asked.sanitizers) - set(SANITIZERS)):
        parser.error(f"there is no sanitizer {unknown[0]!r}: use {' or '.join(SANITIZERS)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # a run that goes on is ended first
    seed = random.SystemRandom().randrange(2**31) if asked.seed is None else asked.seed
    outcomes = []
    for sanitizer in asked.sanitizers or SANITIZERS:
        if asked.only != "runs":
            outcomes.append(run_tests(sanitizer))
        if asked.only != "tests":
            outcomes.append(run_platforms(sanitizer, asked.platforms, asked.count, seed))
    print(f"seed: {seed}\n\n{HEAD}\n" + "\n".join(one.row() for one in outcomes) + "\n")
    for one in outcomes:
        print("\n".join([*one.reports, *one.wrong]))
    return int(any(one.reports or one.wrong for one in outcomes))
