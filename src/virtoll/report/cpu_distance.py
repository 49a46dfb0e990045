"""How far the CPUs of a run are from each other, in words: in the host's line, the answer and what the doctor says.

Main functions: `distances_line`, `far_line`. Must not: decide which readings are of one distance (that is in
`stats/hand_over.py`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.rows import in_order
from virtoll.stats.analysis import Analysis
from virtoll.stats.far_rates import FarRate, far_rates
from virtoll.stats.hand_over import CpuDistance

_PAIRS_NAMED = 2
_RATES_NAMED = 6


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


def far_line(analysis: Analysis) -> str:
    """Each platform's rates near and far, and how many values are left out; empty where CPUs were never far.

    Of many the first are named: `far_rates.csv` has all, and the A/A control.
    """
    rates = far_rates(analysis.observations)
    if not rates:
        return ""
    sentences = []
    control = analysis.data.manifest.control
    packets = [rate for rate in rates if rate.task.metric.source == "points" and rate.platform != control]
    phrases = list(filter(None, map(_rates_words, in_order(analysis, packets))))
    if phrases:
        named = words.first_of(phrases, _RATES_NAMED, "; ", "; and")
        sentences.append(f"What CPUs that were far from each other forwarded: {named}.")
    left_out = every = 0
    for rate in rates:
        left_out += rate.left_out
        every += rate.near_trials + rate.far_trials + rate.changed_trials
    sentences.append(
        f"Medians and verdicts are of CPUs near each other: {left_out} of {every} values of frames are left out."
    )
    return " ".join(sentences)


def _rates_words(rate: FarRate) -> str:
    """'native IP forwarding 64 B: 1030 kframes/s near, 690 kframes/s far, 33 % less'; empty without one of both."""
    if rate.near is None or rate.far is None or rate.share is None:
        return ""
    unit = rate.task.metric.unit
    near, far = units.value(rate.near, unit), units.value(rate.far, unit)
    change = f"{words.amount(abs(1 - rate.share))} {'less' if rate.share < 1 else 'more'}"
    return f"{rate.platform} {rate.task.label}: {near} near, {far} far, {change}"
