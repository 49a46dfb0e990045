"""The fake platform's model of work: how long each job takes, what it answers, and one program of the image full.

Shapes are those of ``docs/protocol.md``; the numbers are a model's. Programs that it does not know are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from virtoll.agent.operations.programs import ExecReply
from virtoll.agent.pi import pi_sha256
from virtoll.errors import AgentError

_NANOSECONDS = {
    "superpi": 9_000.0,
    "masr": 0.6,
    "forkwait": 120_000.0,
    "idle": 1.0,
    "stream": 16.0,
    "kernel": 500.0,
    "context-switch": 2_000.0,
    "ipc-bandwidth": 0.4,
    "routing-table": 1_500.0,
}
_SIZE_KEY = {
    "superpi": "digits",
    "masr": "size_bytes",
    "forkwait": "processes",
    "idle": "duration_ns",
    "kernel": "operations",
    "ipc-bandwidth": "size_bytes",
    "routing-table": "routes",
}
_EVENT_NANOSECONDS, _CLOCK_READING_NS, _READINGS = 400_000.0, 25, 50
_PIPE_SHARE = 0.5
_COUNTED_BYTES = {"copy": 16, "scale": 16, "add": 24, "triad": 24}


def native_ns(job: str, parameters: Mapping[str, Any]) -> float:
    """What the model's bare host takes, ns; ``AgentError`` for a program that it has not."""
    if job == "program":
        return _EVENT_NANOSECONDS * _events(parameters["argv"])
    return _size(job, parameters) * _NANOSECONDS[job]


def answer(job: str, parameters: Mapping[str, Any], guest_ns: int) -> tuple[dict[str, object], str]:
    """The job's result and check value, where it took ``guest_ns`` by the guest's own clock."""
    size = 0 if job == "program" else _size(job, parameters)
    if job == "program":
        return _said(_sysbench(_events(parameters["argv"]), guest_ns)).to_json(), "not used"
    if job == "superpi":
        return dict(parameters), pi_sha256(size)
    if job == "masr":
        return dict(parameters), str(size // 8 * 0x5654_6D61_7372_5654 % 2**64)
    if job == "kernel":
        batch = parameters["batch_operations"]
        batches = _series(size // batch, guest_ns)
        sending = {"sent": size, "batches": _series(size // batch, guest_ns // 2)}
        handled = parameters["operation"] == "signal-handle"
        result = {
            "operations": size,
            "batch_operations": batch,
            "batches": batches,
            "clock": _clock(),
            "sending": sending if handled else None,
        }
        return result, str(size * parameters.get("workers", 1))
    if job == "context-switch":
        laps = parameters["laps"]
        result = {
            "processes": parameters["processes"],
            "pinned_cpu": None,
            "laps": _series(laps, guest_ns),
            "pipes": _series(laps, int(guest_ns * _PIPE_SHARE)),
            "clock": _clock(),
        }
        return result, str(size * parameters.get("workers", 1))
    if job == "ipc-bandwidth":
        chunk = parameters["chunk_bytes"]
        chunks = size // chunk  # each begins with its number, and the pattern fills it
        received = sum(range(chunks)) + (size // 8 - chunks) * 0x5654_6970_6362_7754
        workers = parameters.get("workers", 1)
        return {"chunk_bytes": chunk, "received_bytes": size * workers}, str(received * workers % 2**64)
    if job == "stream":
        return _stream(parameters, guest_ns)
    return dict(parameters), "idle" if job == "idle" else str(size)


def run_program(argv: Sequence[str]) -> ExecReply:
    """A program that is not timed; ``AgentError`` for all but sysbench."""
    if tuple(argv) == ("sysbench", "--version"):
        return _said("sysbench 1.0.20\n")
    raise AgentError("unsupported", f"the fake platform's model has no program {argv[0]}")


def _size(job: str, parameters: Mapping[str, Any]) -> int:
    if job == "context-switch":
        return int(parameters["processes"] * parameters["laps"])
    if job == "stream":
        return int(parameters["elements"] * parameters["rounds"])
    return int(parameters[_SIZE_KEY[job]])


def _events(argv: Sequence[str]) -> int:
    counts = [word.removeprefix("--events=") for word in argv if word.startswith("--events=")]
    if argv[0] != "sysbench" or len(counts) != 1:
        raise AgentError("unsupported", f"the fake platform's model has no program {argv[0]}")
    return int(counts[0])


def _said(output: str) -> ExecReply:
    return ExecReply(status=0, signal=None, stdout=output.encode(), stderr=b"", timed_out=False, truncated=False)


def _sysbench(events: int, guest_ns: int) -> str:
    """The lines of sysbench's report that hold figures, by the guest's clock."""
    each = guest_ns / events / 1e6
    return (
        f"    events per second: {1000 / each:8.2f}\n    total time:                          {guest_ns / 1e9:.4f}s\n"
        f"    total number of events:              {events}\n         avg: {each:35.2f}\n"
        f"         95th percentile: {each:23.2f}\n"
    )


def _series(count: int, whole_ns: int) -> dict[str, object]:
    """As many equal durations."""
    each = max(whole_ns // count, 1)
    names = ("minimum_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "maximum_ns")
    return {"count": count, "sum_ns": each * count, **dict.fromkeys(names, each), "histogram_ns": [[each, count]]}


def _clock() -> dict[str, object]:
    return {"batch_readings": _READINGS, "batches": _series(200, 200 * _READINGS * _CLOCK_READING_NS)}


def _stream(parameters: Mapping[str, Any], guest_ns: int) -> tuple[dict[str, object], str]:
    elements, rounds = parameters["elements"], parameters["rounds"]
    each = max(guest_ns // (4 * rounds), 1)
    kernels = {
        name: {"bytes": counted * elements, "round_ns": [each] * rounds} for name, counted in _COUNTED_BYTES.items()
    }
    a, b, c = 2.0, 2.0, 0.0
    for _ in range(rounds):
        c, b = a, 3.0 * a
        c = a + b
        a = b + 3.0 * c
    held = " ".join(struct.pack(">d", value).hex() for value in (a, b, c))
    return {**parameters, "kernels": kernels, "relative_errors": [0.0, 0.0, 0.0]}, held
