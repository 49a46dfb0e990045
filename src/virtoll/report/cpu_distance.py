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

    `pinning`: the manifest's, which has the distance of the generator from the guest as the kernel says.
    """
    if not distances:
        return ""
    ordered = sorted(distances, key=lambda distance: -distance.far)
    sentences = [distance_words(distance, _place(distance, pinning or {})) for distance in ordered]
    more = len(sentences) - _PAIRS_NAMED
    rest = (
        f" {words.counted(more, 'other pair')} of CPUs {'was' if more == 1 else 'were'} read too." if more > 0 else ""
    )
    return f"{'. '.join(sentences[:_PAIRS_NAMED])}.{rest}"


def distance_words(distance: CpuDistance, place: str = "") -> str:
    """One pair, without a full stop."""
    one, other = distance.cpus
    pair = f"CPU {one} and {other}{place}"
    if distance.near_ns is None:
        return f"How far {pair} are from each other could not be read: {distance.reason}"
    text = f"{pair} hand a cache line over in {units.nanoseconds(distance.near_ns, 2)}"
    if distance.far_ns is None:
        return text
    far = units.nanoseconds(distance.far_ns, 2)
    return f"{text}; {far} in {units.percent(distance.far_share)} of {distance.readings} readings"


def _place(distance: CpuDistance, pinning: Mapping[str, Any]) -> str:
    """What the kernel says of the generator's CPU and the guest's first."""
    guest_cpus = pinning.get("guest_cpus") or []
    pair = [pinning.get("generator_cpu"), *guest_cpus[:1]]
    reported = pinning.get("distance")
    return f" ({reported})" if reported and list(distance.cpus) == pair else ""
