"""Which CPUs share a core, a cache and a socket, and which of them a run is pinned to: trees of sysfs, made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from virtoll.host.cpu_topology import CpuTopology
from virtoll.pipeline.pinning import Pinning, choose_pinning


@dataclass(frozen=True)
class Machine:
    """CPUs by core, cores by L3 cache, caches by socket."""

    sockets: Sequence[Sequence[Sequence[Sequence[int]]]]

    def write(self, root: Path) -> None:
        """As the kernel shows it."""
        for socket, caches in enumerate(self.sockets):
            for cache in caches:
                shared = ",".join(str(cpu) for core in cache for cpu in core)
                for core in cache:
                    for cpu in core:
                        self._write_cpu(root / f"sys/devices/system/cpu/cpu{cpu}", core, shared, socket)

    @staticmethod
    def _write_cpu(folder: Path, core: Sequence[int], shared: str, socket: int) -> None:
        (folder / "topology").mkdir(parents=True)
        (folder / "cache/index3").mkdir(parents=True)
        (folder / "topology/thread_siblings_list").write_text(f"{','.join(map(str, core))}\n")
        (folder / "topology/physical_package_id").write_text(f"{socket}\n")
        (folder / "cache/index3/shared_cpu_list").write_text(f"{shared}\n")


ONE_CORE = Machine([[[[0]]]])
TWO_THREADS = Machine([[[[0, 1]]]])
TWO_CORES = Machine([[[[0], [1]]]])
TWO_CORES_WITH_SMT = Machine([[[[0, 2], [1, 3]]]])
TWO_CACHES = Machine([[[[0], [1]], [[2], [3]]]])
CACHES_APART = Machine([[[[0]], [[1], [2], [3]]]])  # the first CPU shares its cache with nobody
TWO_SOCKETS = Machine([[[[0, 4], [1, 5]]], [[[2, 6], [3, 7]]]])
INTERLEAVED = Machine([[[[0], [2], [4], [6]]], [[[1], [3], [5], [7]]]])
EPYC = Machine([[[[8 * cache + cpu] for cpu in range(8)] for cache in range(4)]])


def topology(machine: Machine, root: Path, cpus: Sequence[int]) -> CpuTopology:
    machine.write(root)
    return CpuTopology.read(cpus, root)


@pytest.mark.parametrize(
    ("machine", "pair", "distance"),
    [
        (TWO_THREADS, (0, 1), "SMT sibling"),
        (TWO_CORES, (1, 0), "same L3"),
        (TWO_CACHES, (3, 0), "other L3"),
        (TWO_SOCKETS, (7, 0), "other socket"),
        (TWO_SOCKETS, (6, 2), "SMT sibling"),
        (ONE_CORE, (0, 0), None),
    ],
)
def test_the_distance_is_told_in_the_kernels_words(
    machine: Machine, pair: tuple[int, int], distance: str | None, tmp_path: Path
) -> None:
    assert topology(machine, tmp_path, pair).distance(*pair) == distance


def test_a_cpu_without_an_l3_cache_shares_with_its_socket(tmp_path: Path) -> None:
    TWO_SOCKETS.write(tmp_path)
    for file in tmp_path.rglob("shared_cpu_list"):
        file.unlink()
    read = CpuTopology.read(range(8), tmp_path)
    assert (read.distance(0, 1), read.distance(0, 2)) == ("same L3", "other socket")


def test_where_one_cpu_is_not_described_nothing_is_known(tmp_path: Path) -> None:
    read = topology(TWO_CORES, tmp_path, (0, 1, 2))
    assert (dict(read.places), read.distance(0, 1), read.core_of(1)) == ({}, None, 1)
    assert read.by_l3((2, 0, 1)) == [[[0], [1], [2]]]


@pytest.mark.parametrize(
    ("machine", "cpus", "vcpus", "expected"),
    [
        (ONE_CORE, (0,), 1, Pinning((), None, None)),
        (TWO_THREADS, (0, 1), 1, Pinning((0,), 1, 1)),  # there is no other
        (TWO_CORES, (0, 1), 1, Pinning((0,), 1, 1)),
        (TWO_CORES_WITH_SMT, (0, 1, 2, 3), 1, Pinning((0,), 1, 3)),  # the sink is not on the guest's core
        (TWO_CORES_WITH_SMT, (0, 1, 2, 3), 2, Pinning((0, 2), 3, 1)),  # the siblings are the guest's own
        (TWO_CACHES, (0, 1, 2, 3), 1, Pinning((0,), 1, 3)),
        (TWO_CACHES, (0, 1, 2, 3), 2, Pinning((0, 1), 3, 2)),  # no cache has three cores
        (CACHES_APART, (0, 1, 2, 3), 1, Pinning((1,), 3, 2)),
        (TWO_SOCKETS, tuple(range(8)), 1, Pinning((0,), 1, 3)),
        (TWO_SOCKETS, (0, 4, 2, 6), 1, Pinning((0,), 2, 6)),  # a cpuset leaves a core of each socket
        (TWO_SOCKETS, (2, 3, 6), 1, Pinning((2,), 3, 3)),  # 6 is a thread of the guest's core
        (INTERLEAVED, tuple(range(8)), 1, Pinning((0,), 6, 4)),
        (INTERLEAVED, tuple(range(8)), 4, Pinning((0, 2, 4, 6), 7, 5)),
        (EPYC, tuple(range(32)), 1, Pinning((0,), 7, 6)),
        (EPYC, tuple(range(4, 32)), 6, Pinning((8, 9, 10, 11, 12, 13), 15, 14)),  # four cores of the first are left
    ],
)
def test_guest_and_generator_share_a_cache_and_no_core_if_they_can(
    machine: Machine, cpus: tuple[int, ...], vcpus: int, expected: Pinning, tmp_path: Path
) -> None:
    pinning = choose_pinning(vcpus, cpus, topology(machine, tmp_path, cpus))
    assert pinning == expected
    assert not {pinning.generator_cpu, pinning.sink_cpu} & set(pinning.guest_cpus)


@pytest.mark.parametrize(
    ("machine", "cpus", "distance"),
    [(EPYC, range(32), "same L3"), (TWO_THREADS, (0, 1), "SMT sibling"), (TWO_SOCKETS, (0, 3), "other socket")],
)
def test_a_run_records_how_far_the_generator_is_from_the_guest(
    machine: Machine, cpus: Sequence[int], distance: str, tmp_path: Path
) -> None:
    pinning = choose_pinning(1, tuple(cpus), topology(machine, tmp_path, cpus))
    assert pinning.record()["distance"] == distance


def test_all_else_takes_cores_that_nothing_is_pinned_to_first(tmp_path: Path) -> None:
    machine, cpus = Machine([[[[0, 4], [1, 5], [2, 6], [3, 7]]]]), tuple(range(8))
    pinning = choose_pinning(1, cpus, topology(machine, tmp_path, cpus))
    assert pinning == Pinning((0,), 3, 2)
    assert pinning.of_neighbour("apart", 1, cpus) == (1,)
    assert pinning.side_by_side("apart", 3, 1, cpus) == ((0,), (1,), (5,))
    assert pinning.most_apart(1, cpus) == 6, "siblings are used, but last"
    load = pinning.of_load(cpus)
    assert (load.generator, load.sink) == (5, 7), "CPU 1 may be a neighbour's"
