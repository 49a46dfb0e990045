"""Claims on the packet path (Schlosser et al. 2011, Sections 4 and 5), each a predicate over one run's analysis."""

import json
import math
from collections.abc import Sequence

from virtoll import units
from virtoll.claims.base import MARGIN, ClaimAnswer, Outcome, as_native, ordered, share_words
from virtoll.runfolder.frame_shape import FrameShape, field_words
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison, paired_shares
from virtoll.stats.intervals import student
from virtoll.stats.study import plain_frame_size
from virtoll.stats.sweeps import LOSSLESS_SHARE, Curve
from virtoll.stats.values import Task

# The paper's 1500 and 64 bytes: pktgen's, without FCS, so 4 more with it (units.py). Runs with the field's own 1500 and
# 64 answer as well, where the paper's are not measured: no claim hangs on 4 bytes.
LARGE_BYTES = (1504, 1500)
SMALL_BYTES = (68, 64)
PARAVIRTUAL_NICS = frozenset({"virtio", "virtio-net", "vmxnet3", "VMXNET3", "netfront"})
EMULATED_NICS = frozenset({"e1000", "e1000e", "E1000", "E1000e", "rtl8139", "82540EM"})


def large_frames_as_native(analysis: Analysis, platforms: Sequence[str]) -> list[ClaimAnswer]:
    """S01: with 1500-byte frames and one source every platform forwards as much as native."""
    found = [_compared(analysis, one, LARGE_BYTES) for one in platforms]
    return [ClaimAnswer(as_native(one), share_words(one)) for one in found if one is not None]


def small_frames_lose_more(analysis: Analysis, platforms: Sequence[str]) -> list[ClaimAnswer]:
    """S02: the smaller the frame, the larger the share of native throughput that a platform loses."""
    said = []
    for platform in platforms:
        own = [one for size in _sizes(analysis) if (one := _compared(analysis, platform, [size])) is not None]
        if len(own) > 1:
            said.append(ClaimAnswer(_rising(own), f"{share_words(own[0])}, {share_words(own[-1])}"))
    return said


def _rising(own: Sequence[Comparison]) -> Outcome:
    """Shares that rise with the frame size, the first and the last with intervals that do not meet."""
    first, last = own[0].interval, own[-1].interval
    if first is None or last is None:
        return Outcome.INCONCLUSIVE
    if first.low > last.high:
        return Outcome.REFUTED
    shares = [one.share or 0.0 for one in own]
    return Outcome.SUPPORTED if first.high < last.low and shares == sorted(shares) else Outcome.INCONCLUSIVE


def native_grows_with_sources(analysis: Analysis, platforms: Sequence[str]) -> list[ClaimAnswer]:
    """S03: native's rate grows in proportion to the sources from 500 bytes on, and does not at 64 bytes."""
    del platforms
    said = []
    for (size, egress), rates in _by_sources(analysis, analysis.baseline or "").items():
        most = max(rates)
        if 1 in rates and most > 1:
            grown = rates[most] / rates[1]
            proportional = grown >= (1 - MARGIN) * most
            outcome = Outcome.SUPPORTED if proportional == (size > max(SMALL_BYTES)) else Outcome.REFUTED
            words = f"{most} sources forward {units.times(grown)} of one at {size} B{egress}"
            said.append(ClaimAnswer(outcome, words))
    return said


def sources_do_not_lift_the_limit(analysis: Analysis, platforms: Sequence[str]) -> list[ClaimAnswer]:
    """S04: every virtualised platform has a limit of the total throughput that more sources do not lift."""
    said = []
    for platform in platforms:
        for (size, egress), rates in _by_sources(analysis, platform).items():
            if len(rates) > 1:
                fewer, most = sorted(rates)[-2:]
                grown = rates[most] / rates[fewer]
                lifted = grown >= (1 - MARGIN) * most / fewer
                held = grown <= 1 + MARGIN
                outcome = Outcome.REFUTED if lifted else Outcome.SUPPORTED if held else Outcome.INCONCLUSIVE
                words = f"{platform}: {most} sources forward {units.times(grown)} of {fewer} at {size} B{egress}"
                said.append(ClaimAnswer(outcome, words))
    return said


def paravirtual_above_emulated(analysis: Analysis, platforms: Sequence[str]) -> list[ClaimAnswer]:
    """S05: a para-virtualised NIC forwards more than the fully emulated one of the same platform."""
    entries = [one for one in analysis.data.manifest.platforms if one.label in platforms]
    said = []
    for one in entries:
        for other in entries:
            nics = (one.parameters.get("nic"), other.parameters.get("nic"))
            if one.platform != other.platform or one.host != other.host:
                continue
            if nics[0] in PARAVIRTUAL_NICS and nics[1] in EMULATED_NICS:
                said += [
                    found for task in _tasks(analysis) if (found := _against(analysis, task, one.label, other.label))
                ]
    return said


def _against(analysis: Analysis, task: Task, one: str, other: str) -> ClaimAnswer | None:
    """One platform's rate as a share of another's on a task, paired by block."""
    own, theirs = analysis.cells.get((one, task)), analysis.cells.get((other, task))
    pairs = paired_shares(task, own.observations, theirs.observations) if own and theirs else ()
    if not pairs:
        return None
    found = student([math.log(share) for _, share in pairs])
    words = f"{one} {units.percent(math.exp(found.value))} of {other} at {task.size}"
    if found.interval is None:
        return ClaimAnswer(Outcome.INCONCLUSIVE, words)
    return ClaimAnswer(ordered(found.interval.low, found.interval.high, above=0.0, below=0.0), words)


def os_level_large_and_small(analysis: Analysis, platforms: Sequence[str]) -> list[ClaimAnswer]:
    """S06: OS-level virtualisation forwards 1500-byte frames as fast as native, and small frames more slowly."""
    said = []
    for platform in _os_level(analysis, platforms):
        large, small = _compared(analysis, platform, LARGE_BYTES), _compared(analysis, platform, SMALL_BYTES)
        if large is not None and small is not None:
            outcomes = {as_native(large), _slower(small)}
            outcome = next(one for one in (Outcome.REFUTED, Outcome.INCONCLUSIVE, Outcome.SUPPORTED) if one in outcomes)
            said.append(ClaimAnswer(outcome, f"{share_words(large)}, {share_words(small)}"))
    return said


def _slower(comparison: Comparison) -> Outcome:
    interval = comparison.interval
    if interval is None or interval.low <= 1 <= interval.high:
        return Outcome.INCONCLUSIVE
    return Outcome.SUPPORTED if interval.high < 1 else Outcome.REFUTED


def os_level_collapses(analysis: Analysis, platforms: Sequence[str]) -> list[ClaimAnswer]:
    """S07: OS-level virtualisation reaches its maximum of small frames at some offered rate and collapses above it."""
    said = []
    for platform in _os_level(analysis, platforms):
        curve = _curve(analysis, platform)
        if curve is None or curve.points[-1].intended_rate is not None or len(curve.points) < 2:
            continue
        best, top = max(curve.points, key=lambda point: point.forwarded.median), curve.points[-1]
        fallen = best is not top and top.forwarded.high < (1 - MARGIN) * best.forwarded.low
        kept = best is top or top.forwarded.low >= (1 - MARGIN) * best.forwarded.median
        outcome = Outcome.SUPPORTED if fallen else Outcome.REFUTED if kept else Outcome.INCONCLUSIVE
        words = f"{units.percent(top.forwarded.median / best.forwarded.median)} of its largest rate"
        if curve.lossless:
            outcome, words = Outcome.INCONCLUSIVE, "hardly a frame lost, so not driven above its capacity"
        said.append(ClaimAnswer(outcome, f"{platform} flat out at {curve.frame_size_bytes} B: {words}"))
    return said


def loses_instead_of_slowing(analysis: Analysis, platforms: Sequence[str]) -> list[ClaimAnswer]:
    """S08: above its capacity a platform takes frames in and loses them, instead of slowing the sender."""
    said = []
    for platform in platforms:
        curve = _curve(analysis, platform)
        if curve is not None and curve.points[-1].intended_rate is None:
            loss = curve.points[-1].loss
            outcome = Outcome.SUPPORTED if loss.low > LOSSLESS_SHARE else Outcome.INCONCLUSIVE
            words = f"{platform} lost {units.percent(loss.median)} flat out at {curve.frame_size_bytes} B"
            said.append(ClaimAnswer(outcome, words))
    return said


def _tasks(analysis: Analysis) -> list[Task]:
    return [task for task in analysis.tasks if task.workload == "forward" and task.metric.source == "points"]


def _sizes(analysis: Analysis) -> list[int]:
    """Frame sizes measured with one source, ascending."""
    return sorted({size for task in _tasks(analysis) if (size := plain_frame_size(task)) is not None})


def _compared(analysis: Analysis, platform: str, sizes: Sequence[int]) -> Comparison | None:
    """The comparison at the first of these frame sizes that was measured."""
    tasks = {plain_frame_size(one): one for one in _tasks(analysis)}
    task = next((tasks[size] for size in sizes if size in tasks), None)
    found = analysis.comparison(platform, task) if task is not None else None
    return found if found is not None and found.share is not None else None


def _by_sources(analysis: Analysis, platform: str) -> dict[tuple[int, str], dict[int, float]]:
    """Median rates in frames/s by frame size, egress links in words, and number of sources, in one direction."""
    found: dict[tuple[int, str], dict[int, float]] = {}
    for task in _tasks(analysis):
        shape, cell = FrameShape.of(json.loads(task.parameters)), analysis.cells.get((platform, task))
        if cell is not None and shape is not None and shape.mix == "none" and not shape.both_directions:
            egress = f", {field_words('egress', shape.egress)}" if shape.egress == "each" else ""
            found.setdefault((shape.frame_size_bytes, egress), {})[shape.sources] = cell.median
    return found


def _os_level(analysis: Analysis, platforms: Sequence[str]) -> list[str]:
    families = {entry.label: entry.family for entry in analysis.data.manifest.platforms}
    return [one for one in platforms if families.get(one) == "os-level"]


def _curve(analysis: Analysis, platform: str) -> Curve | None:
    """The sweep of the smallest frames from one source."""
    sizes = {task.parameters: size for task in _tasks(analysis) if (size := plain_frame_size(task)) is not None}
    own = [one for one in analysis.curves if one.platform == platform and one.parameters in sizes]
    return min(own, key=lambda curve: curve.frame_size_bytes, default=None)
