"""A seeded run folder with known truth: injected cost, noise, drift, failures. For tests and for looking at reports.

`Truth` says what is injected; `records(truth)` gives the manifest and the lines as plain dicts; `write(path, truth)`
makes the folder; `run_data(truth)` gives what analysis takes, without touching the disk.
"""

import itertools
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.support.made_up_folder import write_run
from tests.support.made_up_points import Rates, made_up_point
from tests.support.synthetic_guests import add_start, consolidation_steps, footprints, host_cpu
from tests.support.synthetic_records import EPOCH_NS, boot, clock, fitness, instrument, platform, trial_line
from tests.support.synthetic_wire import add_wire, calibrated

from virtoll.runfolder.frame_shape import FrameShape
from virtoll.runfolder.guest_records import ConsolidationRecord, FootprintRecord
from virtoll.runfolder.records import BootRecord, CommandRecord, FitnessRecord, Manifest, State, TrialRecord
from virtoll.runfolder.store import parse_record
from virtoll.runfolder.traffic_records import CalibrationRecord
from virtoll.stats.analysis import RunData

__all__ = ["EPOCH_NS", "REALISTIC", "Truth", "boot", "records", "run_data", "write"]

FAMILIES = {"native": "native", "native-again": "native", "netns": "os-level", "runc": "os-level"}
FRAME_SIZES = (68, 504, 1004, 1504)
GENERATOR_LIMIT = {64: 620e3, 68: 620e3, 504: 600e3, 1004: 560e3, 1500: 520e3, 1504: 520e3}
JOBS: tuple[tuple[str, dict[str, Any], float], ...] = (
    ("superpi", {"digits": 16384}, 180e6),
    ("masr", {"size_bytes": 64 << 20}, 95e6),
    ("forkwait", {"processes": 2000}, 320e6),
)
STREAM_RATE = 4e9  # bytes/s of one thread on a bare host


@dataclass(frozen=True)
class Truth:
    """What is injected. `costs`: platform -> factor by resource (2 = takes twice as long); `noise`: SD of log values.

    `drift`: how much slower the run's end is than its beginning; `failures`: (platform, workload, block) -> status;
    `unavailable`: platform -> reason; `stop_after`: trials written (None: all); `clock_error`: platform -> relative;
    `caveats`: platform -> (host, caveat) for those that ran elsewhere.
    `weighed`: the guests' memory, CPU time and starts are reported, and there are consolidation series.
    `rounds`: of each block and workload; with more than one, the baseline has a second entry in each.
    `rates_mbit_per_second`: sweeps are over this list, of each source; empty: they rise until frames are lost.
    `sources`: how many of them send at once, each number a task of its own; they share what a platform forwards.
    `egress`: by which links they leave it, each kind tasks of its own; none: as in runs before Virtoll had the choice.
    `threads`: of a workload STREAM, each number a task of its own with two rates; `elements`: as many sets of them.
    `margin`: of the experiment; None: an older experiment without a margin.
    `wired`: points tell hops, pace, delay and CPU time as an agent with counters does, and there are calibrations.
    """

    costs: Mapping[str, Mapping[str, float]]
    seed: int = 1
    blocks: int = 3
    noise: float = 0.02
    drift: float = 0.0
    baseline: str | None = "native"
    control: str | None = "native-again"
    failures: Mapping[tuple[str, str, int], str] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    clock_error: Mapping[str, float] = field(default_factory=dict)
    stop_after: int | None = None
    hypervisor: str | None = "kvm"
    state: str = "complete"
    all_fail: bool = False
    frame_sizes: tuple[int, ...] = FRAME_SIZES
    outlier: tuple[str, str, int] | None = None
    wired: bool = False
    weighed: bool = False
    caveats: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    study: str | None = None
    summary: str | None = None
    order: str = "randomised"
    rounds: int = 1
    margin: float | None = None
    rates_mbit_per_second: tuple[float, ...] = ()
    sources: tuple[int, ...] = (1,)
    egress: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    elements: tuple[int, ...] = (500_000,)


REALISTIC: dict[str, dict[str, float]] = {
    "native": {},
    "native-again": {},
    "netns": {"packet path": 1.18, "kernel": 1.02},
    "runc": {"packet path": 1.2, "kernel": 1.05, "memory": 1.01},
    "qemu-tcg-virtio-net": {"packet path": 9.5, "cpu": 8.1, "memory": 5.2, "kernel": 19.0},
    "qemu-tcg-e1000": {"packet path": 24.0, "cpu": 8.0, "memory": 5.1, "kernel": 19.5},
}


def records(truth: Truth) -> tuple[dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """The manifest, and the lines of each file by name without its ending."""
    dice = random.Random(truth.seed)
    planned = _plan(truth, dice)
    manifest = {
        **instrument(truth.hypervisor),
        "run": "20261121T001500Z-quick-1a2b",
        "experiment": {
            "name": "quick",
            "question": "What does each platform cost against the bare host?",
            "file": "experiments/quick.yaml",
            "text": "name: quick\nblocks: 3\n",
            "blocks": truth.blocks,
            "seed": truth.seed,
            "guest": {"vcpus": 1, "memory_bytes": 268435456},
            "study": truth.study,
            "summary": truth.summary,
            "order": truth.order,
            **({} if truth.margin is None else {"margin": truth.margin}),
        },
        "command": ["virtoll", "run", "quick"],
        "baseline": truth.baseline,
        "control": truth.control,
        "platforms": [_platform(label, truth) for label in truth.costs],
        "metrics": _metrics(truth),
        "plan": {"seed": truth.seed, "estimated_seconds": 300, "trials": planned},
    }
    written = planned[: truth.stop_after] if truth.stop_after is not None else planned
    trials = [
        _trial(entry, place / max(len(planned), 1), truth, dice) | _where(entry["platform"], truth)
        for place, entry in enumerate(written)
    ]
    boots = [
        boot(label, block, machine=label.startswith("qemu")) | _where(label, truth)
        for label in truth.costs
        if label not in truth.unavailable
        for block in range(truth.blocks)
    ]
    fitness_lines = [fitness(index) for index in range(0, len(written) + 1, 4)]
    commands = [
        {
            "realtime_ns": EPOCH_NS,
            "role": f"guest {one['boot']}",
            "argv": ["qemu-system-x86_64", "-append", "console=ttyS0 <quiet> & more"],
            "exit": 0,
        }
        for one in boots
    ]
    extra: dict[str, list[dict[str, Any]]] = {"footprints": [], "consolidation": []}
    if truth.weighed:
        _weigh(truth, trials, boots, extra)
    calibration = [calibrated(size, when) for when in ("start", "end") for size in truth.frame_sizes]
    return manifest, {
        "trials": trials,
        "boots": boots,
        "fitness": fitness_lines,
        "commands": commands,
        "calibration": calibration if truth.wired else [],
        **extra,
    }


def write(path: Path, truth: Truth) -> Path:
    """The run as a run folder."""
    data = run_data(truth)
    return write_run(path, data if truth.state == "complete" else replace(data, state=State("interrupted", None)))


def run_data(truth: Truth) -> RunData:
    """The records as analysis takes them."""
    manifest, lines = records(truth)
    return RunData(
        manifest=parse_record(Manifest, manifest),
        state=State("complete", None),
        trials=tuple(parse_record(TrialRecord, line) for line in lines["trials"]),
        boots=tuple(parse_record(BootRecord, line) for line in lines["boots"]),
        commands=tuple(parse_record(CommandRecord, line) for line in lines["commands"]),
        fitness=tuple(parse_record(FitnessRecord, line) for line in lines["fitness"]),
        calibrations=tuple(parse_record(CalibrationRecord, line) for line in lines["calibration"]),
        footprints=tuple(parse_record(FootprintRecord, line) for line in lines["footprints"]),
        consolidation=tuple(parse_record(ConsolidationRecord, line) for line in lines["consolidation"]),
    )


def _weigh(
    truth: Truth, trials: list[dict[str, Any]], boots: list[dict[str, Any]], extra: dict[str, list[dict[str, Any]]]
) -> None:
    """Add what the guests themselves cost."""
    dice = random.Random(truth.seed)
    resources = {metric["workload"]: metric["resource"] for metric in _metrics(truth)}
    for trial in trials:
        cost = truth.costs[trial["platform"]].get(resources[trial["workload"]], 1.0)
        trial["host_cpu"] = host_cpu(trial, cost, dice)
    for number, one in enumerate(boots):
        machine = one["platform"].startswith("qemu")
        boots[number] = add_start(one, machine=machine)
        extra["footprints"] += footprints(one, machine=machine)
    extra["consolidation"] = [
        *consolidation_steps("netns", 30, 3 << 20, 2 << 20, 0.3),
        *consolidation_steps("runc", 8, 12 << 20, 9 << 20, 0.1),
    ]


def _metrics(truth: Truth) -> list[dict[str, Any]]:
    names = ("workload", "name", "unit", "better", "source", "title", "resource")
    duration, rate = ("duration", "ns", "lower", "marks"), ("maximum_forwarding_rate", "frames/s", "higher", "points")
    copies, latency = ("copy_rate", "bytes/s", "higher", "figures"), ("latency_p99", "ns", "lower", "figures")
    primary = [
        ("forward", *rate, "IPv4 forwarding", "packet path"),
        ("superpi", *duration, "Super Pi", "cpu"),
        ("masr", *duration, "Memory allocate, set, read", "memory"),
        ("forkwait", *duration, "fork and wait", "kernel"),
    ]
    further = []
    if truth.threads:
        primary.append(("stream", *duration, "STREAM", "memory"))
        further.append(("stream", *copies, "STREAM: copy rate", "memory"))
        further.append(("stream", *latency, "STREAM: latency p99", "memory"))
    made = [dict(zip(names, one, strict=True)) for one in primary]
    return made + [{**dict(zip(names, one, strict=True)), "primary": False} for one in further]


def _platform(label: str, truth: Truth) -> dict[str, Any]:
    reason = truth.unavailable.get(label)
    return platform(
        label,
        family=FAMILIES.get(label, "emulated"),
        parameters={"type": "pv"} if label == "xen" else {},
        available=reason is None,
        reason=reason,
        stands_for="OpenVZ (its successors)" if truth.summary and label in ("netns", "runc") else None,
        **_where(label, truth),
    )


def _where(label: str, truth: Truth) -> dict[str, str | None]:
    host, caveat = truth.caveats.get(label, ("this machine", None))
    return {"host": host, "caveat": caveat}


def _plan(truth: Truth, dice: random.Random) -> list[dict[str, Any]]:
    forward: dict[str, Any] = {"first_rate_frames_per_second": 4000.0, "rate_factor": 2.0, "point_milliseconds": 150}
    if truth.rates_mbit_per_second:
        forward |= {"sweep": "rates", "rates_mbit_per_second": list(truth.rates_mbit_per_second)}
    cells: list[tuple[str, str, dict[str, Any]]] = []
    for label in truth.costs:
        cells += [
            (label, "forward", {"frame_size_bytes": size, "sources": sources, **egress, **forward})
            for size, sources in itertools.product(truth.frame_sizes, truth.sources)
            for egress in [{"egress": one} for one in truth.egress] or [{}]
        ]
        cells += [(label, name, dict(parameters)) for name, parameters, _ in JOBS]
        cells += [
            (label, "stream", {"elements": elements, "threads": threads})
            for elements, threads in itertools.product(truth.elements, truth.threads)
        ]
    planned = []
    if truth.rounds > 1:
        cells += [cell for cell in cells if cell[0] == truth.baseline]
    for block, number in itertools.product(range(truth.blocks), range(truth.rounds)):
        order = list(cells)
        dice.shuffle(order)
        planned += [
            {"block": block, "round": number, "platform": label, "workload": workload, "parameters": parameters}
            for label, workload, parameters in order
        ]
    return [{"trial": number, **entry} for number, entry in enumerate(planned)]


def _trial(entry: dict[str, Any], progress: float, truth: Truth, dice: random.Random) -> dict[str, Any]:
    label, workload, block = entry["platform"], entry["workload"], entry["block"]
    started = EPOCH_NS + entry["trial"] * 2_000_000_000
    record = trial_line(entry, f"{label}/{block}", (started, started + 1_500_000_000))
    factor = math.exp(dice.gauss(0, truth.noise)) * (1 + truth.drift * progress)
    if truth.outlier == (label, workload, block):
        factor *= 1.6
    if label in truth.unavailable:
        return trial_line(entry, None, (None, None), status="skipped", reason=truth.unavailable[label])
    status = "failed" if truth.all_fail else truth.failures.get((label, workload, block))
    if workload == "forward":
        record["points"] = _sweep(label, entry["parameters"], factor, truth, dice)
    elif workload == "stream":
        rate = STREAM_RATE * entry["parameters"]["threads"] / truth.costs[label].get("memory", 1.0) / factor
        record["clock"] = clock(started, 200_000_000, 0.0, dice)
        record["result"] = {"figures": {"copy_rate": rate, "latency_p99": 1e15 / rate}}
    else:
        name, _, native_ns = next(job for job in JOBS if job[0] == workload)
        resource = next(metric["resource"] for metric in _metrics(truth) if metric["workload"] == name)
        duration = int(native_ns * truth.costs[label].get(resource, 1.0) * factor)
        record["clock"] = clock(started, duration, truth.clock_error.get(label, 0.0), dice)
        record["check"] = {"value": "abc", "expected": "abc", "ok": True}
        record["result"] = {}
    if status is not None:
        reason = {"failed": "the guest's process ended during the job", "invalid": "the check value is wrong"}[status]
        evidence = [f"evidence/{label}-{block}/console"] if status == "failed" else []
        record |= {"status": status, "reason": reason, "evidence": evidence}
        if status == "failed":
            record |= {"clock": None, "points": None, "check": None, "result": None}
    return record


def _sweep(
    label: str, parameters: dict[str, Any], factor: float, truth: Truth, dice: random.Random
) -> list[dict[str, Any]]:
    size, sources = parameters["frame_size_bytes"], parameters["sources"]
    capacity = 480e3 * (1 - size / 6000) / truth.costs[label].get("packet path", 1.0) / factor
    if truth.rates_mbit_per_second:
        shape = FrameShape(frame_size_bytes=size, sources=sources)
        rates = [*map(shape.frames_per_second, truth.rates_mbit_per_second), None]
        return [_point(one, size, capacity / sources, truth, dice, sources) for one in rates]
    rate, points = 4000.0, []
    while True:
        points.append(_point(rate, size, capacity, truth, dice))
        if min(capacity, GENERATOR_LIMIT[size]) < 0.7 * rate:
            break
        rate *= 2
    points.append(_point(None, size, capacity, truth, dice))
    return points


def _point(
    rate: float | None, size: int, capacity: float, truth: Truth, dice: random.Random, sources: int = 1
) -> dict[str, Any]:
    limit = GENERATOR_LIMIT[size] * dice.uniform(0.97, 1.0)
    offered = min(rate, limit) if rate is not None else limit
    overload = max(0.0, math.log2(offered / capacity))
    through = min(offered, capacity * (1 - 0.06 * overload) * dice.uniform(0.99, 1.0))
    made = made_up_point(size, 150_000_000, rate, [Rates(offered, through)] * sources, backend="af-packet").to_json()
    return add_wire(made) if truth.wired else made
