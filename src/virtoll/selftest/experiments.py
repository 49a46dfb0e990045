"""The experiments of the self-test, as documents that ``virtoll run`` could be given; ``short`` ones are for CI.

Each has a guest without a fault, ``right``, as its baseline. Blocks are many and rounds few where guests start at once:
a block is a boot, and the interval is over blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Document = dict[str, Any]

RIGHT = "right"
QUOTAS = {"cpu-90": 0.9, "cpu-80": 0.8, "cpu-50": 0.5, "cpu-25": 0.25}
CLOCK_RATE, CLOCK_STEP_MILLISECONDS = 1.2, 250
KERNEL_CLOCK_RATES = {"clock-1": 1.01, "clock-5": 1.05}
PATH_MBIT = 13.44  # on the wire: 20 000 frames of 64 bytes a second
DROPS, DUPLICATES, SWAPS, DELAY_MICROSECONDS = (10, 100, 1000, 10_000), 100, 100, 1000
DISK_MIB_PER_SECOND, DISK_MIB = 32, 64
LINK_MBIT, LINK_BYTES = 100, 8 << 20


def _experiment(
    name: str, question: str, platforms: list[Document], workloads: list[Document], **more: Any
) -> Document:
    guest = {"vcpus": 1, "memory": "256MiB"}
    return {
        "name": f"selftest-{name}",
        "question": question,
        "baseline": RIGHT,
        "platforms": platforms,
        "workloads": workloads,
        "guest": guest,
        **more,
    }


def _netns(label: str, **fault: Any) -> Document:
    return {"platform": "altered-netns", "label": label, **fault}


def _machine(label: str, **fault: Any) -> Document:
    return {"platform": "altered-qemu-tcg", "label": label, **fault}


def _job(digits: int) -> Document:
    return {"workload": "superpi", "digits": digits}


def cpu(short: bool) -> Document:
    """Guests that are given less than the whole of a CPU."""
    quotas = {"cpu-25": QUOTAS["cpu-25"]} if short else QUOTAS
    platforms = [_netns(RIGHT), *(_netns(label, cpu_share=share) for label, share in quotas.items())]
    question = "Is it found how much slower a guest is that is given less of a CPU?"
    return _experiment("cpu", question, platforms, [_job(16_384)], blocks=4 if short else 10, rounds=2)


def clock(short: bool) -> Document:
    """Agents that report durations by a wrong clock, and by one that steps.

    Jobs are repeated for 200 ms at least; the second is longer, so that there is a slope over durations.
    """
    platforms = [
        _netns(RIGHT),
        _netns("fast", reported_clock_rate=CLOCK_RATE),
        _netns("steps", reported_clock_step_milliseconds=CLOCK_STEP_MILLISECONDS),
    ]
    jobs = [_job(4096), _job(1_048_576)]
    question = "Are clocks found that are fast or step, and do they leave the duration as it is?"
    return _experiment("clock", question, platforms, jobs, blocks=3 if short else 8, rounds=2 if short else 1)


def kernel_clock(short: bool) -> Document:
    """Machines whose kernel's clock is fast."""
    rates = {"clock-5": 1.05} if short else KERNEL_CLOCK_RATES
    platforms = [_machine(RIGHT), *(_machine(label, clock_rate=rate) for label, rate in rates.items())]
    jobs = [_job(digits) for digits in (4096, 16_384, 32_768, 65_536, 98_304)]
    question = "Is it found how fast the clock of a machine's own kernel is?"
    return _experiment("kernel-clock", question, platforms, jobs, blocks=1 if short else 2, rounds=1)


def path(short: bool) -> Document:
    """A router inside the guest that drops, duplicates, swaps and delays by counting."""
    platforms = [_netns(RIGHT, program_forwards=True)]
    drops = (10, 100) if short else DROPS
    platforms += [_netns(f"drop-{every}", drop_every=every) for every in drops]
    platforms += [_netns(f"duplicate-{DUPLICATES}", duplicate_every=DUPLICATES)]
    platforms += [_netns(f"swap-{SWAPS}", swap_every=SWAPS)]
    platforms += [_netns("delay", delay_microseconds=DELAY_MICROSECONDS)]
    workload = {
        "workload": "forward",
        "frame_size_bytes": 64,
        "sweep": "rates",
        "rates_mbit_per_second": [PATH_MBIT / 4 if short else PATH_MBIT],
        "point_milliseconds": 200 if short else 2500,
        "cpu_milliseconds": 0,
    }
    question = "Is each frame in the books that a router inside the guest dropped, duplicated, swapped or delayed?"
    return _experiment("path", question, platforms, [workload], blocks=1, rounds=1)


def disk(short: bool) -> Document:
    """A machine whose data disk carries less."""
    size = DISK_MIB // 4 if short else DISK_MIB
    platforms = [_machine(RIGHT), _machine("slow", disk_mib_per_second=DISK_MIB_PER_SECOND)]
    workload = {"workload": "zfg", "size_bytes": f"{size}MiB", "rounds": 1, "dump_bytes": "1MiB"}
    question = f"Is it found that a disk carries {DISK_MIB_PER_SECOND} MiB/s?"
    return _experiment("disk", question, platforms, [workload], blocks=1 if short else 2, rounds=1 if short else 2)


def link(short: bool) -> Document:
    """A guest whose links carry less."""
    platforms = [_netns(RIGHT), _netns("slow", link_mbit=LINK_MBIT)]
    workload = {"workload": "tcp-stream", "size": LINK_BYTES}
    question = f"Is it found that a link carries {LINK_MBIT} Mbit/s?"
    return _experiment("link", question, platforms, [workload], blocks=2, rounds=1 if short else 3)


def facts(short: bool) -> Document:
    """Guests with other memory and other CPUs than they were asked for; the short one boots a single machine."""
    platforms = [
        _netns(RIGHT) if short else _machine(RIGHT),
        _netns("cpus", more_vcpus=1),
        _machine("machine-memory", memory_share=0.5),
    ]
    if not short:
        platforms.append(_machine("machine-cpus", more_vcpus=1))
    question = "Is a guest found out that has other memory or CPUs than it was asked for?"
    return _experiment("facts", question, platforms, [_job(4096)], blocks=1, rounds=1)


def nothing(short: bool) -> Document:
    """The same guest under many names: whatever is found between them is false."""
    copies = 3 if short else 12
    platforms = [_netns(RIGHT), *(_netns(f"same-{number}") for number in range(1, copies + 1))]
    workloads = [_job(16_384), {"workload": "masr", "size_bytes": "64MiB"}]
    if not short:
        workloads += [
            {"workload": "forkwait", "processes": 500},
            {"workload": "context-switch"},
            {"workload": "stream"},
        ]
    question = "Is a difference found between guests that are the same?"
    return _experiment("nothing", question, platforms, workloads, blocks=3, rounds=1 if short else 2)


EXPERIMENTS: Mapping[str, Callable[[bool], Document]] = {
    "cpu": cpu,
    "clock": clock,
    "kernel-clock": kernel_clock,
    "path": path,
    "link": link,
    "disk": disk,
    "facts": facts,
    "nothing": nothing,
}
"""By the check's name, in the order of the table."""
