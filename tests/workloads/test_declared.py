"""What each workload declares: its metrics and programs, what a guest must have for it, and how long it may take."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, get_origin

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.support.facts import assert_facts

from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import Metric, Needs
from virtoll.workloads.programs import ProgramWorkload

SIZES: dict[str, tuple[dict[str, Any], ...]] = {
    "bonnie": (
        {"file_bytes": "5GiB", "per_character": True, "processes": 4, "small_files": 16384},
        {"file_bytes": "2MiB", "per_character": True, "small_files": 2048, "small_file_bytes": "64KiB"},
    ),
    "bzip2": ({"files": "disk", "size_bytes": "433MiB"},),
    "context-switch": ({"processes": 16, "working_set_bytes": "64KiB", "workers": 3},),
    "dbench": ({"clients": 4, "seconds": 60},),
    "dd": ({"source": "zeros", "size_bytes": "1GiB"}, {"size_bytes": "433MiB"}),
    "fio": ({"size_bytes": "5GiB", "block_bytes": "32KiB", "synced": False, "jobs": 4},),
    "forkwait": ({"processes": 40_000, "workers": 2},),
    "forward": (
        {"sweep": "from-flat-out", "sources": 3, "egress": "each"},
        {"sweep": "rates", "rates_mbit_per_second": [10, 100, 1000], "cpu_milliseconds": 0},
        {"routes": 1_000_000},
    ),
    "iperf-udp": ({"datagrams": 100_000, "link_delay_ms": 20},),
    "ipc-bandwidth": ({"channel": "shared-memory", "size_bytes": "1GiB", "workers": 2},),
    "kernel-compile": ({"size": "paper", "jobs": 8}, {"size": "paper", "jobs": "vcpus", "timed": "unpack-and-build"}),
    "kernel-operations": ({"operation": "fork-sh", "workers": 4},),
    "lmbench": ({"repetitions": 100, "repetition_microseconds": 100_000},),
    "mariadb-oltp": ({"transactions": 10_000, "rows": 100_000, "threads": 16},),
    "mariadb-oltp-outside": ({"transactions": 10_000, "link_delay_ms": 5, "threads": 4},),
    "masr": ({"size_bytes": "2GiB"},),
    "netperf-tcp-rr": ({"transactions": 100_000, "link_delay_ms": 1},),
    "netperf-tcp-stream": ({"size": "1GiB", "link_rate_bits_per_second": 100_000_000},),
    "nginx": ({"requests": 10_000, "size_bytes": "1MiB"},),
    "nginx-httperf": ({"requests": 10_000, "size_bytes": "1MiB", "timeout_milliseconds": 500},),
    "povray": ({"pixels": 512},),
    "rsync-file": ({"size_bytes": "433MiB", "files": "disk", "peer_files": "disk"},),
    "rsync-tree": ({"tree": "paper"}, {"tree": "whole", "between": "guests", "path": "bridge"}),
    "stream": ({"elements": 10_000_000, "rounds": 20, "threads": 4},),
    "superpi": ({"digits": 2**22},),
    "sysbench-cpu": ({"events": 100_000},),
    "tcp-request-response": ({"transactions": 100_000, "link_delay_ms": 10, "request_bytes": 1000},),
    "tcp-stream": ({"size": "1GiB", "link_rate_bits_per_second": 1_000_000_000},),
    "throughput": ({"frame_size_bytes": 1518, "mix": "none"},),
    "transmitters": ({"transmitters": 8, "nic": "shared", "affinity": "apart"},),
    "virtual-routers": ({"routers": 4, "total_rate_frames_per_second": 1000}, {"routers": 8, "affinity": "unpinned"}),
    "zfg": ({"size_bytes": "1GiB", "rounds": 10},),
}
"""A size or two besides the defaults, where more of the formulas are seen."""


def size_of(name: str, parameters: dict[str, Any]) -> str:
    """Seconds on a bare host and 20 times slower, of a trial and of a warm-up, and at most; then unusual needs."""
    workload = WORKLOADS[name].with_parameters(parameters)
    seconds = [f"{workload.estimate_seconds(slowdown):.6g}" for slowdown in (1.0, 20.0)]
    seconds += [f"{workload.warm_up_seconds(slowdown):.6g}" for slowdown in (1.0, 20.0)]
    if isinstance(workload, ProgramWorkload):
        seconds.append(f"at most {workload.deadline_seconds():.6g}")
    usual, needs = asdict(Needs()), asdict(workload.needs())
    unusual = {key: sorted(need) if isinstance(need, frozenset) else need for key, need in needs.items()}
    words = [f"{key}={need}" for key, need in unusual.items() if needs[key] != usual[key]]
    return "; ".join([f"{name} {parameters}: {' '.join(seconds)}", *words])


def test_sizes_of_each_workload(snapshot: SnapshotAssertion) -> None:
    """A changed formula shows here: whoever changes one on purpose runs ``pytest --snapshot-update``."""
    sizes = [size_of(name, size) for name in sorted(WORKLOADS) for size in ({}, *SIZES.get(name, ()))]
    assert "\n".join(sizes) == snapshot


def test_metrics_and_programs_of_each_workload(snapshot: SnapshotAssertion) -> None:
    lines = []
    for name, kind in sorted(WORKLOADS.items()):
        metrics = (f"{one.name} [{one.unit}] {one.better} {one.source}" for one in kind.metrics)
        programs = " ".join((kind.image, *kind.packages))
        flags = f"loads_peer={kind.loads_peer} repeatable={kind.repeatable} resource={kind.resource}"
        lines.append(f"{name}: {', '.join(metrics)}; {programs}; {flags}")
    assert "\n".join(lines) == snapshot


def test_parameters_of_each_workload(snapshot: SnapshotAssertion) -> None:
    """Defaults, and allowed values. What several fields allow together is asked in each workload's test."""
    lines = []
    for name, kind in sorted(WORKLOADS.items()):
        for key, field in kind.parameter_model.model_fields.items():
            allowed = [str(one) for one in field.metadata if type(one).__module__ == "annotated_types"]
            if get_origin(field.annotation) is not None:
                allowed.append(str(field.annotation).replace("typing.", ""))
            lines.append(f"{name}.{key} = {field.default!r} {' '.join(allowed)}".rstrip())
    assert "\n".join(lines) == snapshot


@pytest.mark.parametrize(("unit", "facts"), [("ns", ("x", "ns", "lower")), ("", ("x", "lower"))])
def test_a_metric_is_named_with_its_unit_and_direction(unit: str, facts: tuple[str, ...]) -> None:
    assert_facts(Metric("x", unit, "lower", "marks").words, *facts)
