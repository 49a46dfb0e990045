"""How far the CPUs of a run are from each other, in words: in the host's line and in what the doctor says.

Main function: `distances_line`. Must not: decide which readings are of one distance (`stats/hand_over.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.stats.hand_over import CpuDistance

_PAIRS_NAMED = 2


def distances_line(distances: Sequence[CpuDistance], pinning: Mapping[str, Any] | None) -> str:
    """'CPU 1 and 0 (same L3) hand a cache line over in 52 ns; 330 ns in 10 % of 412 readings.'; empty without any.

    `pinning`: the manifest's, which has the distance of the generator from the guest as the kernel says. Of several
    pairs those that were far most often come first, and all are in `hand_over.csv`.
    """
    ordered = sorted(distances, key=lambda distance: -distance.far)
    sentences = [f"{distance_words(distance, pinning)}." for distance in ordered]
    if len(sentences) > _PAIRS_NAMED:
        more = words.counted(len(sentences) - _PAIRS_NAMED, "more pair")
        sentences[_PAIRS_NAMED:] = [f"Of {more} of CPUs hand_over.csv has the readings."]
    return " ".join(sentences)


def distance_words(distance: CpuDistance, pinning: Mapping[str, Any] | None) -> str:
    """One pair, without a full stop."""
    pair = pair_words(distance, pinning)
    if distance.near_ns is None:
        return f"How far {pair} are from each other could not be read: {distance.reason}"
    text = f"{pair} hand a cache line over in {units.nanoseconds(distance.near_ns, 2)}"
    if distance.far_ns is None:
        return text
    far = units.nanoseconds(distance.far_ns, 2)
    return f"{text}; {far} in {units.percent(distance.far_share)} of {distance.readings} readings"


def pair_words(distance: CpuDistance, pinning: Mapping[str, Any] | None) -> str:
    """'CPU 1 and 0 (same L3)': the kernel's word is of the generator's CPU and the guest's first."""
    pair = f"CPU {distance.cpus[0]} and {distance.cpus[1]}"
    if not pinning or not pinning.get("distance"):
        return pair
    of_kernel = (pinning["generator_cpu"], pinning["guest_cpus"][0])
    return f"{pair} ({pinning['distance']})" if distance.cpus == of_kernel else pair
