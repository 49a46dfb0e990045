# ruff: noqa: INP001
"""What a campaign of many blocks costs whoever submits, looks at and merges it: seconds, memory and files by step.

``python benches/campaign.py [BLOCKS]``, from the repository's folder; without BLOCKS 1000. It makes the parts of a
campaign of three models, each with the trials that the plan has for its block, in the folder for temporary files, and
removes them at the end. Slurm is not asked: squeue's time for as many tasks is the cluster's.

Each step runs in a process of its own, so that the peak is its own. *plan* is what each of the cluster's tasks does
before it measures; *tasks* decides what is missing where half of the parts are there; *status* looks at all of them.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]

from tests.support import experiments  # noqa: E402 - the path is set above

from virtoll.experiment.model import Experiment  # noqa: E402
from virtoll.experiment.plan import Plan, Trial  # noqa: E402
from virtoll.pipeline import slurm, submission  # noqa: E402
from virtoll.pipeline.execution import measure  # noqa: E402
from virtoll.pipeline.merge import merge  # noqa: E402
from virtoll.pipeline.parts import joined_campaign, part_name, part_of  # noqa: E402
from virtoll.pipeline.preview import plan_of, planned_trial  # noqa: E402
from virtoll.pipeline.progress import SilentProgress  # noqa: E402
from virtoll.runfolder.campaign_records import SubmissionRecord  # noqa: E402
from virtoll.runfolder.store import RunFolder, to_json  # noqa: E402
from virtoll.runfolder.sums import write_sums  # noqa: E402


def the_experiment(blocks: int) -> Experiment:
    """Three models, two workloads."""
    platforms = [
        experiments.fake("model"),
        experiments.fake("again", seed=2),
        experiments.fake("slow", cost=1.4, seed=3),
    ]
    return experiments.parsed(
        platforms=platforms,
        baseline="model",
        control="again",
        blocks=blocks,
        workloads=[{"workload": "superpi", "digits": 1000}, {"workload": "forward", "frame_size_bytes": 64}],
    )


def make_parts(folder: Path, experiment: Experiment, plan: Plan) -> None:
    """A part for each block: the first is measured, and the others are as it, with their own trials."""
    own: dict[int, list[Trial]] = {}
    for trial in plan.trials:
        own.setdefault(trial.block, []).append(trial)
    joined_campaign(folder, experiment, part_of(experiment, plan, (0,)))
    first = folder / part_name((0,))
    measure(experiment, first, ["virtoll"], SilentProgress(), blocks=(0,))
    manifest = RunFolder.open(first).manifest
    lines = {path.name: path.read_text().splitlines() for path in first.glob("*.jsonl")}
    by_cell = {(one["platform"], one["workload"]): one for one in map(json.loads, lines["trials.jsonl"])}
    boots = {one["platform"]: one for one in map(json.loads, lines["boots.jsonl"])}
    start = json.loads(lines["fitness.jsonl"][0])
    for block in range(1, experiment.blocks):
        path = folder / part_name((block,))
        path.mkdir()
        planned = tuple(planned_trial(trial) for trial in own[block])
        document = to_json(
            replace(
                manifest,
                run=path.name,
                part=part_of_block(manifest.part, block),
                plan=replace(manifest.plan, trials=planned),
            )
        )
        (path / "manifest.json").write_text(json.dumps(document))
        (path / "state.json").write_text(json.dumps({"state": "complete", "reason": None}))
        write_lines(
            path / "trials.jsonl",
            [
                {
                    **by_cell[one.platform, one.workload],
                    "trial": one.trial,
                    "block": block,
                    "boot": f"{one.platform}/{block}",
                }
                for one in planned
            ],
        )
        write_lines(
            path / "boots.jsonl",
            [{**boots[label], "boot": f"{label}/{block}", "block": block} for label in boots],
        )
        write_lines(path / "fitness.jsonl", [start, *({**start, "after_trial": one.trial} for one in planned)])
        write_sums(path)


def part_of_block(part: Any, block: int) -> Any:
    """The first part's record for another block."""
    return replace(part, blocks=(block,))


def write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    """Records as a run folder has them."""
    path.write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in records))


def timed(name: str, work: Callable[[], str]) -> None:
    """Do it in a process of its own, and print what it took."""

    def child(queue: Any) -> None:
        began, cpu = time.perf_counter(), time.process_time()
        said = work()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        queue.put((time.perf_counter() - began, time.process_time() - cpu, peak, said))

    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    wall, cpu, peak, said = queue.get()
    process.join()
    print(f"{name:28} {wall:8.2f} s wall {cpu:8.2f} s CPU {peak:7.0f} MiB  {said}", flush=True)


def main(blocks: int) -> None:
    """All steps in the order of a campaign."""
    experiment = the_experiment(blocks)
    folder = Path(tempfile.mkdtemp(prefix="virtoll-campaign-"))
    try:
        began = time.perf_counter()
        plan = plan_of(experiment)
        print(f"{blocks} blocks, {len(plan.trials)} trials: planned in {time.perf_counter() - began:.2f} s")
        make_parts(folder / "c", experiment, plan)
        files = sum(1 for path in (folder / "c").rglob("*") if path.is_file())
        size = sum(path.stat().st_size for path in (folder / "c").rglob("*") if path.is_file())
        print(f"{files} files, {size / 2**20:.0f} MiB, made in {time.perf_counter() - began:.0f} s")
        timed("plan and campaign's id", lambda: part_of(experiment, plan_of(experiment), (0,)).campaign[:8])
        timed("status", lambda: f"{len(submission.standing(folder / 'c').complete)} complete")

        def tasks() -> str:
            there = submission.standing(folder / "c")
            half = replace(there, complete=there.complete[::2], missing=there.complete[1::2])
            found = submission.missing_tasks(half, (), 1)
            jobs = submission.array_jobs(
                folder / "c",
                experiment,
                SubmissionRecord(1000, {}),
                found,
                plan=plan,
                campaign=there.campaign,
                largest=slurm.ARRAY_WITHOUT_SLURM,
            )
            return f"{len(found)} tasks in {len(jobs)} arrays"

        timed("status and tasks", tasks)
        timed("merge", lambda: f"{merge([folder / 'c'], lambda *_: folder / 'run', ['virtoll']).blocks} blocks")
        begun = time.perf_counter()
        RunFolder.open(folder / "run").trials()
        print(f"merged run read in {time.perf_counter() - begun:.2f} s")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 1000)
