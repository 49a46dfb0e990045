# ruff: noqa: INP001
"""What SQL over many runs costs: ``python benches/query.py [--runs 1000] [--rows 10000]``, from the repository.

It makes that many run folders with so many samples each, always the same, in the folder for temporary files, and keeps
them there. The first run is a whole run folder whose tables Virtoll makes of its JSON lines, which is timed. The
folders of the others have a manifest and a state alone: their tables are the first one's with other values, put where
Virtoll would keep them. So what is measured afterwards is what a user waits for each time: the command's start, finding
the runs, asking whether each one changed, and the query itself over all rows.

Printed are the rows and bytes, and of each query the wall time of the whole command (the median and the worst of
five), its CPU time (on a busy host that is what to compare), and the wall time of DuckDB's part alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]

REPEATS = 5
QUERIES = {
    "filtered and grouped": (
        "select platform, metric, count(value), avg(value) from samples"
        " where workload = 'superpi' and not warm_up and block > 3 group by all order by all"
    ),
    "medians by host and day": (
        "select host_fingerprint, started_realtime_ns // 86400000000000 as day, median(value) from samples"
        " where metric = 'duration' and status = 'ok' group by all order by all"
    ),
    "runs alone": "select virtoll, kernel, count(*) from runs group by all order by all",
}
PLATFORMS = ("native", "native-again", "netns", "runc", "qemu-tcg")
JOBS = ("superpi", "masr")


def make(home: Path, runs: int, rows: int) -> None:
    """The folders, and their tables in ``home/cache``, unless they are there."""
    import numpy as np
    import pyarrow as pa
    from tests.support.made_up_folder import write_run
    from tests.support.made_up_run import Made, made_up_run

    from virtoll.report.dataset.kept import Kept

    kept = Kept(home / "cache" / "dataset")
    blocks = max(1, rows // (len(PLATFORMS) * len(JOBS)))
    made = [Made(label, job, {}, value=3e7) for label in PLATFORMS for job in JOBS]
    data = made_up_run({one: {} for one in PLATFORMS}, made, blocks=blocks)
    named = replace(data, manifest=replace(data.manifest, run="run-0000"))
    first = write_run(home / "runs" / "run-0000", named)
    manifest = json.loads((first / "manifest.json").read_text(encoding="utf-8"))
    began = time.perf_counter()
    place = kept.place_of(first)
    kept.make(first, place)
    trials = (first / "trials.jsonl").stat().st_size
    print(f"made once of a run folder: {time.perf_counter() - began:.2f} s ({trials / 1e6:.1f} MB of trials)")
    import pyarrow.parquet as parquet

    tables = {path.stem: parquet.read_table(path) for path in place.glob("*.parquet")}
    dice, samples = np.random.default_rng(1), tables["samples"]
    manifest["plan"]["trials"] = []
    for number in range(1, runs):
        folder, name = home / "runs" / f"run-{number:04}", f"run-{number:04}"
        folder.mkdir()
        (folder / "manifest.json").write_text(json.dumps({**manifest, "run": name}, indent=1), encoding="utf-8")
        shutil.copy(first / "state.json", folder)
        changed = {
            "run": pa.array([name] * len(samples)),
            "value": pa.array(np.array(samples["value"]) * dice.lognormal(0, 0.02, len(samples))),
            "started_realtime_ns": pa.array(np.array(samples["started_realtime_ns"]) + number * 86_400_000_000_000),
        }
        own = samples
        for column, values in changed.items():
            at = own.schema.get_field_index(column)
            own = own.set_column(at, own.schema.field(at), values)
        others = {
            key: table.set_column(0, table.schema.field(0), pa.array([name] * len(table), pa.string()))
            for key, table in tables.items()
        }
        kept.keep(kept.place_of(folder), {**others, "samples": own})
    (home / "made").write_text(place.name, encoding="utf-8")


def is_made(home: Path) -> bool:
    """Whether they are there, and made by the code of today: another would read all runs anew."""
    from virtoll.report.dataset.kept import Kept

    noted = home / "made"
    first = Kept(home / "cache" / "dataset").place_of(home / "runs" / "run-0000")
    return noted.exists() and noted.read_text(encoding="utf-8") == first.name


def timed(words: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall time and CPU time of one command, s."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def alone(home: Path, sql: str) -> float:
    """The wall time of DuckDB's part, s: the views, the statement, and its rows."""
    from virtoll.report.dataset.kept import files
    from virtoll.report.dataset.query import Sources, query

    places = sorted((home / "cache" / "dataset").glob("run-*"))
    sources = Sources({name: list(map(str, own)) for name, own in files(places).items()})
    began = time.perf_counter()
    list(query(sql, sources).rows())
    return time.perf_counter() - began


def main() -> None:
    """Make what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=10_000, help="samples of each run")
    given = parser.parse_args()
    home = Path(tempfile.gettempdir()) / f"virtoll-bench-query-{given.runs}-{given.rows}"
    os.environ["VIRTOLL_CACHE"] = str(home / "cache")
    if not is_made(home):
        shutil.rmtree(home, ignore_errors=True)
        make(home, given.runs, given.rows)
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY / "src"),
        "VIRTOLL_RUNS": str(home / "runs"),
        "VIRTOLL_CACHE": str(home / "cache"),
    }
    command = [sys.executable, "-m", "virtoll", "query"]
    counted = subprocess.run(
        [*command, "select count(*) as n from samples", "--json"], env=environment, check=True, capture_output=True
    )
    size = sum(path.stat().st_size for path in (home / "cache").rglob("*.parquet"))
    rows = json.loads(counted.stdout)[0]["n"]
    print(f"{given.runs} runs, {rows} samples, {size / 1e6:.0f} MB of Parquet, {os.cpu_count()} CPUs")
    print(f"{'query':28}{'command, median':>17}{'worst':>9}{'its CPU time':>15}{'DuckDB alone':>15}")
    for name, sql in QUERIES.items():
        whole, cpu = zip(*(timed([*command, sql], environment) for _ in range(REPEATS)), strict=True)
        duckdb = statistics.median(alone(home, sql) for _ in range(REPEATS))
        middle, used = statistics.median(whole), statistics.median(cpu)
        print(f"{name:28}{middle:15.2f} s{max(whole):7.2f} s{used:13.2f} s{duckdb:13.2f} s")


if __name__ == "__main__":
    main()
