"""Which CPU does what, and where a guest measured inside is not what was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from virtoll.fleet import Pinning, choose_pinning, mismatches
from virtoll.lab.network import GuestNetwork
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
