"""What guests beside the measured one do: the loads of the scenario ``neighbours``, and the proof that one ran.

A load is a program of the image (``ProgramLoad``), or frames that its guest forwards. The program is started in its
guest before the trial and ended after it. Its own agent reads its CPU time meanwhile; ``gone_still`` says where that
did not grow, ``not_sent_through`` where frames were not sent. It must not know platforms.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from virtoll.experiment.model import Image
from virtoll.runfolder.conditions import Progress, readings_through
from virtoll.runfolder.traffic_records import Point

_MIB = 2**20
SAMPLE_NS: Final = 250_000_000
DISK_BYTES: Final = 128 * _MIB
WAKE_NS: Final = 250_000  # a load's generator sleeps between its wakes, so as not to take a core from the trial's own
FLOOD_SHARE: Final = 2.0  # of what the guest forwards at most: half of the frames are more than it can do
# How long traffic may go on: the sink's books hold a bit for each frame of that time.
MOST_TRAFFIC_NS: Final = 3_600_000_000_000
MOST_TRAFFIC_FRAMES: Final = 2**32
_STILL_NS = 2_000_000_000
_PAPERS_VM_BYTES = 256 * _MIB  # of each of stress's workers for virtual memory, unless it is told otherwise


@dataclass(frozen=True)
class Place:
    """What a load may use of its guest: bytes of memory, virtual CPUs, and a folder for its files."""

    memory_bytes: int
    vcpus: int
    folder: str


@dataclass(frozen=True)
class ProgramLoad:
    """A program of the image that loads its guest until it is ended; ``data_bytes``: room for its files on a disk."""

    argv: Callable[[Place], tuple[str, ...]]
    image: Image = "full"
    data_bytes: int = 0


def _vm_bytes(memory_bytes: int) -> int:
    """Of each of four workers: as the papers ran it, or what leaves half of a small guest's memory."""
    return min(_PAPERS_VM_BYTES, memory_bytes // 8 // _MIB * _MIB)


def _heavy(place: Place) -> tuple[str, ...]:
    return ("stress", "--cpu", "8", "--vm", "4", "--vm-bytes", str(_vm_bytes(place.memory_bytes)))


def _stress_ng(*options: str) -> Callable[[Place], tuple[str, ...]]:
    return lambda place: ("stress-ng", *(word.format(vcpus=place.vcpus, folder=place.folder) for word in options))


def _stream(place: Place) -> tuple[str, ...]:
    """STREAM's kernels on arrays that fill half of the guest's memory; each is four times the cache that is named."""
    cache_bytes = place.memory_bytes // 2 // (3 * 4) // place.vcpus
    return ("stress-ng", "--stream", str(place.vcpus), "--stream-l3-size", str(cache_bytes))


# ``light`` and ``heavy`` are the papers' own (Schlosser et al. 2011, section 3.3; Suresh and Kannan 2014, section 4.5).
PROGRAM_LOADS: Final[Mapping[str, ProgramLoad]] = {
    "light": ProgramLoad(lambda _: ("stress", "--cpu", "1")),
    "heavy": ProgramLoad(_heavy),
    "memory-bandwidth": ProgramLoad(_stream),
    "cache": ProgramLoad(_stress_ng("--cache", "{vcpus}")),
    "disk": ProgramLoad(
        _stress_ng("--hdd", "1", "--hdd-bytes", "64m", "--hdd-opts", "fsync", "--temp-path", "{folder}"),
        data_bytes=DISK_BYTES,
    ),
    "processes": ProgramLoad(_stress_ng("--fork", "4")),
}


def image_of(load: str) -> Image:
    """The smallest image that holds what a load runs."""
    return PROGRAM_LOADS[load].image if load in PROGRAM_LOADS else "tiny"


def data_bytes_of(load: str) -> int:
    """Room that a load needs in its guest's data directory."""
    return PROGRAM_LOADS[load].data_bytes if load in PROGRAM_LOADS else 0


def gone_still(samples: Sequence[Progress], window: tuple[int, int]) -> str | None:
    """Why a program's readings do not show that it ran through a window of its guest's clock, ns; None: they do.

    Its CPU time grew between the last reading before the window and the first after it. Nowhere in the window did it
    stand still for longer than two seconds, or than half of a long window.
    """
    begin, end = window
    covering = readings_through(samples, window)
    if not covering:
        return "there are no readings of its CPU time before and after the trial"
    if covering[-1].cpu_ns <= covering[0].cpu_ns:
        return "it used no CPU time during the trial"
    limit_ns = max(_STILL_NS, (end - begin) // 2)
    since, longest_ns = begin, 0
    for sample, following in itertools.pairwise(covering):
        if following.cpu_ns > sample.cpu_ns:
            since = max(begin, following.monotonic_ns)
        else:
            longest_ns = max(longest_ns, min(following.monotonic_ns, end) - since)
    return f"it used no CPU time for {longest_ns / 1e9:.1f} s of the trial" if longest_ns > limit_ns else None


def not_sent_through(point: Point, window: tuple[int, int]) -> str | None:
    """Why traffic was not offered through a window of the host's clock, ns; None: it was."""
    begin, end = window
    for source in point.sources:
        if source.start_monotonic_ns > begin or source.end_monotonic_ns < end:
            return "its traffic did not go on through the whole trial"
        if source.offered_frames == 0:
            return "none of its frames left the generator"
    return None
