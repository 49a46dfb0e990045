"""Which CPU does what, and where a guest measured inside is not what was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from virtoll.fleet import Pinning, choose_pinning
from virtoll.footprint import HostView
from virtoll.lab.cgroups import Limits
from virtoll.lab.network import GuestNetwork
from virtoll.likeness import Mismatch, compare, mismatches
from virtoll.platforms.base import GuestRequest

MIB = 2**20


@pytest.mark.parametrize(
    ("vcpus", "allowed", "expected"),
    [
        (1, (0,), Pinning((), None, None)),
        (2, (0, 1), Pinning((), None, None)),
        (1, (0, 1), Pinning((0,), 1, 1)),
        (1, (0, 1, 2), Pinning((0,), 2, 1)),
        (1, (3, 5, 7, 9), Pinning((3,), 9, 7)),
        (2, (0, 1, 2), Pinning((0, 1), 2, 2)),
        (2, (0, 1, 2, 3), Pinning((0, 1), 3, 2)),
    ],
)
def test_a_guests_cpu_is_never_shared_with_its_load(vcpus: int, allowed: tuple[int, ...], expected: Pinning) -> None:
    assert choose_pinning(vcpus, allowed) == expected
    assert not {expected.generator_cpu, expected.sink_cpu} & set(expected.guest_cpus)


def found(cpus: tuple[int, ...] = (0,), **facts: Any) -> list[str]:
    return mismatches(GuestRequest("netns/0", 1, 256 * MIB, cpus, GuestNetwork(())), facts)


def test_what_is_as_asked_or_not_told_is_no_mismatch() -> None:
    assert found() == []
    assert found(cpus_allowed=1, memory_total_bytes=256 * MIB) == []
    assert found(cpus_allowed=[0], memory_total_bytes=64 * 1024 * MIB, memory_limit_bytes=256 * MIB) == []
    assert found(memory_total_bytes=205 * MIB) == [], "a small machine's kernel keeps some for itself"
    assert found(cpus=(), cpus_allowed=8) == [], "nothing was pinned"


def test_a_mismatch_says_what_was_asked_and_what_was_found() -> None:
    assert found(cpus_allowed=2) == ["CPUs: asked 1, usable inside 2"]
    assert found(cpus_online=2) == ["CPUs: asked 1, usable inside 2"], "gVisor tells no mask"
    assert found(cpus_online=2, cpus_allowed=1) == []
    assert found(cpus_allowed=[0, 1, 2]) == ["CPUs: asked 1, usable inside 3"]
    assert found(memory_total_bytes=512 * MIB) == ["memory: asked 256 MiB, inside 512 MiB"]
    assert found(memory_total_bytes=200 * MIB) == ["memory: asked 256 MiB, inside 200 MiB"]


HOST = HostView("host", 64 * 1024 * MIB)


def against(host: HostView, quota: float | None = None, **facts: Any) -> list[Mismatch]:
    return compare(GuestRequest("netns/0", 1, 256 * MIB, (0,), GuestNetwork(()), cpu_quota=quota), facts, host)


@pytest.mark.parametrize(
    ("facts", "grave"),
    [
        ({"boot_id": "own", "memory_installed_bytes": 128 * MIB}, ["memory: asked 256 MiB, inside 128 MiB"]),
        ({"boot_id": "own", "memory_installed_bytes": 512 * MIB}, ["memory: asked 256 MiB, inside 512 MiB"]),
        ({"boot_id": "own", "memory_installed_bytes": 255 * MIB, "memory_total_bytes": 180 * MIB}, []),
        ({"boot_id": "own", "memory_total_bytes": 180 * MIB}, ["memory: asked 256 MiB, inside 180 MiB"]),
        ({"boot_id": "host", "memory_limit_bytes": 128 * MIB}, ["memory: asked 256 MiB, inside 128 MiB"]),
        ({"boot_id": "host", "memory_installed_bytes": 64 * 1024 * MIB, "memory_limit_bytes": 256 * MIB}, []),
        ({"cpus_allowed": 2}, ["CPUs: asked 1, usable inside 2"]),
    ],
)
def test_another_guest_than_was_asked_for_is_grave(facts: dict[str, Any], grave: list[str]) -> None:
    assert [one.text for one in against(HOST, **facts) if one.grave] == grave


def test_a_platform_that_holds_nobody_to_a_size_is_told_and_believed() -> None:
    (found,) = against(HOST, boot_id="host", memory_total_bytes=64 * 1024 * MIB)
    assert found == Mismatch("memory: asked 256 MiB, inside 65536 MiB", grave=False)


def test_a_limit_that_is_only_seen_from_outside_counts_for_guests_on_the_hosts_kernel() -> None:
    host = HostView("host", 64 * 1024 * MIB, Limits(memory_bytes=128 * MIB))
    assert [one.grave for one in against(host, boot_id="host", memory_total_bytes=64 * 1024 * MIB)] == [True]
    assert against(host, boot_id="own", memory_installed_bytes=256 * MIB) == [], "that is the monitor's limit"


@pytest.mark.parametrize(
    ("asked", "inside", "outside", "expected"),
    [
        (0.2, (20_000, 100_000), None, []),
        (0.2, None, 0.2, []),
        (0.2, None, None, []),
        (0.2, (50_000, 100_000), None, [Mismatch("CPU quota: asked 0.2, found 0.5", grave=True)]),
        (0.5, (50_000, 100_000), 0.25, [Mismatch("CPU quota: asked 0.5, found 0.25", grave=True)]),
        (None, None, 0.5, [Mismatch("CPU quota: none asked, found 0.5", grave=False)]),
        (None, None, 4.0, []),
    ],
)
def test_a_quota_is_compared_inside_and_outside(
    asked: float | None, inside: tuple[int, int] | None, outside: float | None, expected: list[Mismatch]
) -> None:
    told = {"quota_us": inside[0], "period_us": inside[1]} if inside else None
    host = HostView("host", None, Limits(cpu_quota=outside))
    assert against(host, asked, cpu_quota=told) == expected
