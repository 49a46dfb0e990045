# ruff: noqa: INP001
"""What the report of a large run costs: seconds by stage, peak memory, and the bytes that it writes.

``python benches/report.py [RUN]``, from the repository's folder. Without RUN it makes a run of 10 080 trials: 12
platforms, 42 sets of parameters (12 sweeps, STREAM with three metrics, jobs) and 20 blocks, always the same. It is kept
in the folder for temporary files, and `--wired` makes one whose points have the counters of every hop (70 MB). RUN is
any run folder; its own report is left alone.

Each report is made in a process of its own, so that the peak is its own. Modules have their bytecode, as those of an
installed package. Printed are wall time, CPU time and the peak of memory so far, by stage in the order in which they
end: on a busy host CPU time is what to compare. *Import* is what Virtoll's report imports at once, *claims* the ledger
and then-and-now, *figures* their specifications, *tables* their rows and a paper's exports; they are written there too,
*waiting* is for drawings, and *write* stores the other files.

The process that draws has a row of its own. What both have together is the largest sum of their resident memory, read
every 5 ms: a little more than they have, for it counts the pages that they share twice. Profile with
``python -m cProfile -o FILE -m virtoll report RUN``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]

STAGES = {
    "load": "load",
    "analyse": "analyse",
    "ledger_of": "claims",
    "then_and_now": "claims",
    "figures_of": "figures",
    "then_and_now_figures": "figures",
    "write_tables": "tables",
    "export_texts": "tables",
    "render_page": "page",
    "write_page": "write",
}
"""Functions that `virtoll.report.build` calls, with what the table calls them; what none of them takes is `rest`."""

COSTS: dict[str, dict[str, float]] = {
    "native": {},
    "native-again": {},
    **{
        label: {"packet path": cost, "kernel": cost, "memory": 1 + cost / 20, "cpu": 1 + cost / 50}
        for label, cost in (
            ("netns", 1.18),
            ("runc", 1.2),
            ("crun", 1.1),
            ("lxc", 1.15),
            ("gvisor", 6.0),
            ("uml", 14.0),
            ("qemu-kvm-virtio-net", 2.0),
            ("firecracker", 2.2),
            ("qemu-tcg-virtio-net", 9.5),
            ("qemu-tcg-e1000", 24.0),
        )
    },
}


def made(*, wired: bool) -> Path:
    """The large run, made at first use."""
    from tests.support.synthetic_run import GENERATOR_LIMIT, Truth, write

    from virtoll.runfolder.store import FORMAT

    path = Path(tempfile.gettempdir()) / f"virtoll-bench-report-{'wired' if wired else 'plain'}-{FORMAT}"
    if not (path / "state.json").exists():
        truth = Truth(
            COSTS,
            blocks=20,
            frame_sizes=tuple(GENERATOR_LIMIT),
            egress=("one", "each"),
            threads=(1, 2, 3, 4, 5, 6, 7, 8, 16),
            elements=(500_000, 1_000_000, 2_000_000),
            weighed=True,
            wired=wired,
            margin=0.1,
            clock_error={"uml": 0.004},
        )
        write(path, truth)
    return path


def peak_mib() -> float:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def report(run: Path, output: Path) -> None:
    """In a child: make the report; print what each stage took as one line of JSON: [wall s, CPU s, peak MiB]."""
    begun, used = time.perf_counter(), time.process_time()
    from virtoll.report import build, drawing

    taken = {"import": [time.perf_counter() - begun, time.process_time() - used, peak_mib()]}
    inside: list[list[float]] = []  # of each stage that is under way, what stages inside it took

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            inside.append([0.0, 0.0])
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return function(*given, **named)
            finally:
                whole = time.perf_counter() - wall, time.process_time() - cpu
                within = inside.pop()
                own = taken.setdefault(name, [0.0, 0.0, 0.0])
                own[2] = peak_mib()
                for which in (0, 1):
                    own[which] += whole[which] - within[which]
                    if inside:
                        inside[-1][which] += whole[which]

        return call

    for function, name in STAGES.items():
        if hasattr(build, function):
            setattr(build, function, timed(name, getattr(build, function)))
    drawing.Drawer.render = timed("figures", drawing.Drawer.render)  # type: ignore[method-assign]
    drawing.Drawing.page = property(timed("waiting", lambda one: one.drawn.result()["page"]))  # type: ignore[assignment,method-assign]
    build.build_report(run, output)
    whole = [time.perf_counter() - begun, time.process_time() - used, peak_mib()]
    taken["rest"] = [*(whole[which] - sum(one[which] for one in taken.values()) for which in (0, 1)), peak_mib()]
    drew = resource.getrusage(resource.RUSAGE_CHILDREN)
    others = {"all": whole, "drawing process": [None, drew.ru_utime + drew.ru_stime, drew.ru_maxrss / 1024]}
    print(json.dumps({**taken, **others}))


def resident_mib(pid: int) -> float:
    """Of a process and its children; 0 of one that is gone."""
    children: list[str] = []
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # a thread may end meanwhile
                children += (task / "children").read_text(encoding="ascii").split()
    except (OSError, IndexError):
        return 0.0
    return pages * resource.getpagesize() / 2**20 + sum(resident_mib(int(child)) for child in children)


def watched(argv: list[str], environment: dict[str, str]) -> tuple[bytes, float]:
    """What a program prints, and the most memory that it and its children had at one time, in MiB."""
    most = 0.0
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        while not select.select([process.stdout], [], [], 0.005)[0]:
            most = max(most, resident_mib(process.pid))
        printed = process.stdout.read()
    if process.returncode != 0:
        raise SystemExit(process.returncode)
    return printed, most


def with_bytecode() -> dict[str, str]:
    """The environment in which modules are compiled once, whatever this one says of it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "virtoll-bench-bytecode")
    environment["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    return environment


def megabytes(path: Path) -> float:
    """Of a file, or of all files of a folder."""
    files = path.iterdir() if path.is_dir() else [path]
    return sum(one.stat().st_size for one in files) / 1e6


def main() -> None:
    """Make the run if need be, its report in a child, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--wired", action="store_true")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.into is not None:
        report(given.run, given.into)
        return
    run = given.run or made(wired=given.wired)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder)
        argv = [sys.executable, __file__, str(run), "--into", folder]
        environment = with_bytecode()
        subprocess.run([sys.executable, "-c", "import virtoll.report.build"], env=environment, check=True)
        printed, most = watched(argv, environment)
        found = json.loads(printed)
        print(f"{run}: {sum(1 for _ in (run / 'trials.jsonl').open('rb'))} trials")
        print("| stage | wall, s | CPU, s | peak so far, MiB |\n| --- | --- | --- | --- |")
        for name, (wall, cpu, mib) in found.items():
            print(f"| {name} | {'' if wall is None else f'{wall:.2f}'} | {cpu:.2f} | {mib:.0f} |")
        cpu = found["all"][1] + found["drawing process"][1]
        print(f"both processes: {found['all'][0]:.2f} s wall, {cpu:.2f} s CPU, at most {most:.0f} MiB together")
        for name in ("index.html", "figures", "tables"):
            print(f"{name}: {megabytes(output / name):.2f} MB")


if __name__ == "__main__":
    main()
