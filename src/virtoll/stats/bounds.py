"""Rates that are lower bounds or the sender's, and what they do not say.

Where a platform lost nothing flat out, or came within 10 % of what generator and sink reach, it may be able to forward
more than was seen. So it is where a search for a rate ended at the generator's limit. The ratio of two such rates is
anything: it says what the sender can, and has no verdict. Against one such rate *slower* holds, and no more. A rate
that a router reached on the sender's own core, which had to send as well, has no verdict either. The rate of guests
that send is their own, whatever was lost. Pure.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from virtoll.runfolder.records import BootRecord
from virtoll.stats.ceilings import Headroom
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.conditional_throughput import ThroughputRow
from virtoll.stats.sweeps import Curve
from virtoll.stats.values import Task

TWO_BOUNDS = "two lower bounds"
NOT_PINNED = "not forwarded on the guest's CPUs"
_SENDERS, _KERNELS = "the core that sends", "CPUs of the kernel's choice"


def lower_bounds(
    tasks: Sequence[Task],
    curves: Sequence[Curve],
    headrooms: Mapping[tuple[str, Task], Headroom],
    searches: Sequence[ThroughputRow],
) -> set[tuple[str, Task]]:
    """(platform, task) of the cells whose rate is a lower bound: of a sweep, or of a search without an upper one."""
    lossless = {(curve.platform, curve.parameters) for curve in curves if curve.lossless}
    swept = [task for task in tasks if task.metric.source == "points"]
    bounded = {(label, task) for task in swept for label, parameters in lossless if task.parameters == parameters}
    bounded |= {cell for cell, headroom in headrooms.items() if headroom.generator_bound}
    return bounded | {(row.platform, row.task) for row in searches if row.upper is None}


def without_two_bounds(
    comparisons: Sequence[Comparison], bounds: Collection[tuple[str, Task]], baseline: str | None
) -> list[Comparison]:
    """The same comparisons, those of two lower bounds with that as their caveat: they are not tested."""

    def marked(comparison: Comparison) -> Comparison:
        both = all((label, comparison.task) in bounds for label in (comparison.platform, baseline))
        if comparison.verdict is not Verdict.UNKNOWN or not both or comparison.caveat:
            return comparison
        reason = "both lost nothing flat out or reached the generator's limit, so that either may forward more"
        return replace(comparison, caveat=TWO_BOUNDS, reason=reason)

    return [marked(comparison) for comparison in comparisons]


def against_lower_bounds(
    comparisons: Sequence[Comparison], bounds: Collection[tuple[str, Task]], baseline: str | None = None
) -> list[Comparison]:
    """The same comparisons with their verdicts, but for those that a base which is a lower bound does not bear.

    What is slower than a lower bound is slower by at least so much. What is alike or faster may yet be slower than the
    base really is, by anything. ``baseline``: whose rates they are compared with; None: with the same platform's alone.
    """

    def marked(comparison: Comparison) -> Comparison:
        base = comparison.platform if baseline is None else baseline
        if comparison.verdict not in (Verdict.ALIKE, Verdict.FASTER) or (base, comparison.task) not in bounds:
            return comparison
        why = "lost nothing flat out or reached the generator's limit, so that it may forward more"
        reason, joint = f"{comparison.against} {why}", comparison.simultaneous
        if joint is not None:
            joint = replace(joint, low=0.0)
        unknown = replace(comparison, verdict=Verdict.UNKNOWN, margin=None, at_least=None, reason=reason)
        return replace(unknown, simultaneous=joint)

    return [marked(comparison) for comparison in comparisons]


def forwarded_elsewhere(boots: Sequence[BootRecord]) -> dict[str, str]:
    """Platforms of which the host's kernel does not forward on the guest's CPUs: where it does, and why."""
    elsewhere = {}
    for boot in boots:
        if boot.forwarding is not None and boot.forwarding.cpus is None:
            where = _KERNELS if boot.forwarding.by_threads else _SENDERS
            elsewhere[boot.platform] = f"on {where} ({boot.forwarding.reason or 'the reason is not known'})"
    return elsewhere


def receiving_apart(boots: Sequence[BootRecord]) -> frozenset[str]:
    """Platforms whose links queue what they are sent, for the host's kernel to forward by threads of its own."""
    return frozenset(boot.platform for boot in boots if boot.forwarding is not None and boot.forwarding.by_threads)


def without_unpinned(
    comparisons: Sequence[Comparison], elsewhere: Mapping[str, str], baseline: str | None
) -> list[Comparison]:
    """The same comparisons, those of rates of such platforms (or of such a baseline) with that as their caveat."""

    def marked(comparison: Comparison) -> Comparison:
        labels = [label for label in (comparison.platform, baseline) if label is not None]
        unpinned = [(label, elsewhere[label]) for label in labels if label in elsewhere]
        if comparison.verdict is not Verdict.UNKNOWN or comparison.caveat:
            return comparison
        if not unpinned or not comparison.task.is_forwarding_rate:
            return comparison
        label, where = unpinned[0]
        reason = f"{label} forwards {where}; the CPU time per frame does not depend on that"
        return replace(comparison, caveat=NOT_PINNED, reason=reason)

    return [marked(comparison) for comparison in comparisons]
