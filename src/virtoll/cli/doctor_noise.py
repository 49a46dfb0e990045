"""``virtoll doctor --noise``: whether the distance of this machine's CPUs changes, looked at for some seconds.

Main functions: ``watched`` reads, ``noise_sentences`` says what that means for measurements. Starts one agent, needs no
lab and no root, and changes nothing.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from virtoll.agent.client import AgentClient
from virtoll.agent.hand_over import HandOverReader
from virtoll.cli.output import print_json, say, say_progress
from virtoll.errors import UsageError
from virtoll.lab.inside import end_process
from virtoll.platforms.process_guest import connect_stdio
from virtoll.report.cpu_distance import distance_words, pair_words
from virtoll.runfolder.hand_over import HandOver
from virtoll.stats.hand_over import CpuDistance, cpu_distances
from virtoll.units import nanoseconds, percent

_SECONDS = 10.0
_PAUSE_SECONDS = 0.05  # the reading itself must not be what is seen
_READY_SECONDS = 20.0


def tell_noise(*, as_json: bool) -> None:
    """Read for some seconds and print what was seen; ``UsageError`` on a machine with one CPU."""
    from virtoll.image.clone import usable_agent
    from virtoll.pipeline.pinning import choose_pinning

    pinning = choose_pinning(1)
    cpus = pinning.in_order()
    if len(cpus) < 2:
        raise UsageError("doctor --noise: this process has one CPU, and a distance is between two; give it more CPUs")
    say_progress(f"reading for {_SECONDS:g} s how fast CPUs {', '.join(map(str, cpus))} hand a cache line over")
    with agent_here(usable_agent()) as agent:
        distances = cpu_distances(watched(HandOverReader(agent, cpus), _SECONDS))
    if as_json:
        print_json({"distance": pinning.distance, "pairs": [asdict(distance) for distance in distances]})
        return
    for distance in distances:
        say(noise_sentences(distance, pinning.record()))


@contextlib.contextmanager
def agent_here(program: Path) -> Iterator[AgentClient]:
    """An agent of this machine, for the length of the context."""
    command = [str(program), "--role", "host", "--channel", "stdio"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    agent = connect_stdio(process, "the agent")
    try:
        agent.wait_ready(_READY_SECONDS)
        yield agent
    finally:
        agent.close()
        end_process(process)


def watched(reader: HandOverReader, seconds: float) -> list[HandOver]:
    """Readings of all pairs, again and again for so long."""
    readings: list[HandOver] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        readings += reader.read()
        time.sleep(_PAUSE_SECONDS)
    return readings


def noise_sentences(distance: CpuDistance, pinning: Mapping[str, Any]) -> str:
    """What a pair's readings say; a third is what forwarding lost on a machine whose CPUs were 50 and 330 ns apart."""
    if distance.near_ns is None:
        return f"{distance_words(distance, pinning)}."
    if distance.far_ns is None:
        return f"{distance_words(distance, pinning)}, and that did not change in {distance.readings} readings."
    near, far = nanoseconds(distance.near_ns, 2), nanoseconds(distance.far_ns, 2)
    return (
        f"{pair_words(distance, pinning)} change their distance on this machine: a cache line takes {near}, "
        f"and {percent(distance.far_share)} of the time {far}. Forwarding is then about a third slower. The "
        "hypervisor under this machine moves them; a machine with CPUs of its own is quieter, and more blocks help."
    )
