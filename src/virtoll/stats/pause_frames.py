"""Pause frames (IEEE 802.3, Annex 31B) that the NICs on the way received and sent at each point, by their drivers.

Layer-2 flow control slows the sender in the place of losing frames (Schlosser et al. 2011, section 4). There is no one
name for the counters: each driver has its own. An interface whose driver counts neither is not among the rows: that it
sent none is not known. Pure. Main types: `PauseCount` (one interface, one point) and `PauseRow` (over a cell's points).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Hop
from virtoll.stats.summaries import known
from virtoll.stats.values import Task, grouped
from virtoll.stats.wire import points_of

# In front of a driver's own counters (docs/run-folder.md).
_DRIVER = "driver_"
# Names of received ones, by driver; those of sent ones in the same order. A frame "XON" is a pause frame that ends a
# pause. Frames that pause one priority alone (IEEE 802.1Qbb) are counted apart by drivers and are not among these.
_RECEIVED: Sequence[Sequence[str]] = (
    ("rx_flow_control_xon", "rx_flow_control_xoff"),  # e1000, e1000e, igb, igc, ixgbe
    ("port.link_xon_rx", "port.link_xoff_rx"),  # i40e
    ("link_xon_rx.nic", "link_xoff_rx.nic"),  # ice
    ("rx_pause_ctrl_phy",),  # mlx5
    ("rx_xon_pause_rcvd", "rx_xoff_pause_rcvd"),  # tg3
    ("rx_xon_frames", "rx_xoff_frames"),  # bnx2
    ("rx_pause_frames",),  # bnxt, qede
    ("rx_pause",),  # mlx4, sfc, cxgb4
)
_SENT: Sequence[Sequence[str]] = (
    ("tx_flow_control_xon", "tx_flow_control_xoff"),
    ("port.link_xon_tx", "port.link_xoff_tx"),
    ("link_xon_tx.nic", "link_xoff_tx.nic"),
    ("tx_pause_ctrl_phy",),
    ("tx_xon_sent", "tx_xoff_sent"),
    ("tx_xon_frames", "tx_xoff_frames"),
    ("tx_pause_frames",),
    ("tx_pause",),
)


@dataclass(frozen=True)
class PauseCount:
    """Pause frames of one interface between the readings around one point; None: not counted there."""

    trial: int
    block: int
    platform: str
    task: Task
    point: int
    flat_out: bool
    role: str
    where: str
    interface: str
    source: int | None
    received_frames: int | None
    sent_frames: int | None


@dataclass(frozen=True)
class PauseRow:
    """The same over a cell's points, paced or flat out; `points` of them were counted."""

    platform: str
    task: Task
    flat_out: bool
    where: str
    interface: str
    points: int
    received_frames: int | None
    sent_frames: int | None


def pause_counts(tasks: Sequence[Task], trials: Sequence[TrialRecord]) -> tuple[PauseCount, ...]:
    """Every interface that counts pause frames at every point of every `ok` trial, in the order measured."""
    return tuple(_pause_counts(tasks, trials))


def _pause_counts(tasks: Sequence[Task], trials: Sequence[TrialRecord]) -> Iterator[PauseCount]:
    seen: Counter[int] = Counter()
    for task, trial, point in points_of(tasks, trials):
        place = seen[trial.trial]
        seen[trial.trial] += 1
        for hop in point.hops or ():
            if not any(name.startswith(_DRIVER) for name in hop.before or ()):
                continue  # most interfaces are no NICs, and their drivers count nothing
            received, sent = _grown(hop, _RECEIVED), _grown(hop, _SENT)
            if hop.interface is not None and (received, sent) != (None, None):
                yield PauseCount(
                    trial=trial.trial,
                    block=trial.block,
                    platform=trial.platform,
                    task=task,
                    point=place,
                    flat_out=point.intended_rate_frames_per_second is None,
                    role=hop.role,
                    where=hop.where,
                    interface=hop.interface,
                    source=hop.source,
                    received_frames=received,
                    sent_frames=sent,
                )


def _grown(hop: Hop, named: Sequence[Sequence[str]]) -> int | None:
    """By how much the first known kind of counters grew; None where there is none, or where it was set back."""
    if hop.before is None or hop.after is None:
        return None
    readings = ((_sum(hop.before, names), _sum(hop.after, names)) for names in named)
    before, after = next((reading for reading in readings if None not in reading), (None, None))
    return after - before if before is not None and after is not None and after >= before else None


def _sum(counters: Mapping[str, int], names: Sequence[str]) -> int | None:
    values = [counters.get(_DRIVER + name) for name in names]
    return None if None in values else sum(known(values))


def pause_rows(counts: Iterable[PauseCount]) -> tuple[PauseRow, ...]:
    """Sums over a cell's points, in order of first appearance."""
    groups = grouped(counts, lambda count: (count.platform, count.task, count.flat_out, count.where, count.interface))
    rows = []
    for key, group in groups.items():
        received = _total(count.received_frames for count in group)
        sent = _total(count.sent_frames for count in group)
        rows.append(PauseRow(*key, len(group), received, sent))
    return tuple(rows)


def _total(frames: Iterable[int | None]) -> int | None:
    """The sum of what was counted; None where nothing was."""
    counted = known(frames)
    return sum(counted) if counted else None
