"""A run beside the study that it repeats: each platform's share of its own bare host, the paper's and ours. Pure.

Only shares are compared: the paper's hosts are gone, and an absolute number of theirs against one of ours
says nothing about a platform. Main types: `StudyComparison`, `StudyRow`, `StudyCell`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from virtoll.reference.published import PublishedShare, Study, StudyPlatform
from virtoll.runfolder.records import Manifest, PlatformEntry
from virtoll.stats.compare import Comparison
from virtoll.stats.values import Task


@dataclass(frozen=True)
class StudyCell:
    """One frame size: what was published (None: in a drawing alone), and our comparison (None: not run)."""

    frame_size_bytes: int
    published: PublishedShare | None
    ours: Comparison | None


@dataclass(frozen=True)
class StudyRow:
    """One of the paper's platforms and one of ours that stands for it (`label` None: there is none in this run).

    `successor`: ours is not the paper's product but of the family that succeeded it.
    """

    platform: StudyPlatform
    label: str | None
    successor: bool
    cells: tuple[StudyCell, ...]


@dataclass(frozen=True)
class StudyComparison:
    """The whole table; `sizes` in bytes, ascending."""

    study: Study
    sizes: tuple[int, ...]
    rows: tuple[StudyRow, ...]


def beside_study(
    study: Study | None,
    manifest: Manifest,
    tasks: Sequence[Task],
    comparisons: Mapping[tuple[str, Task], Comparison],
) -> StudyComparison | None:
    """Every platform of the study, with those of the run that stand for it; None where the run names no study."""
    if study is None:
        return None
    plain = {size: task for task in tasks if task.workload == study.workload and (size := plain_frame_size(task))}
    sizes = tuple(sorted(plain))
    rows = []
    for platform in study.platforms:
        found = standing_for(platform, manifest)
        named: list[tuple[str | None, bool]] = [*found] if found else [(None, False)]
        for label, successor in named:
            cells = tuple(
                StudyCell(size, study.share(platform.key, size), comparisons.get((label or "", plain[size])))
                for size in sizes
            )
            rows.append(StudyRow(platform, label, successor, cells))
    return StudyComparison(study, sizes, tuple(rows))


def standing_for(platform: StudyPlatform, manifest: Manifest) -> list[tuple[str, bool]]:
    """Labels of the run's platforms that stand for one of a paper's; without any, those of its successors' family."""
    others = [one for one in manifest.platforms if one.label not in (manifest.baseline, manifest.control)]
    own = [(one.label, False) for one in others if any(_is_called(one, name) for name in platform.called)]
    return own or [(one.label, True) for one in others if platform.family and one.family == platform.family]


def _is_called(entry: PlatformEntry, name: str) -> bool:
    return name in (entry.platform, entry.label) or entry.label.startswith(f"{name}-")


def plain_frame_size(task: Task) -> int | None:
    """The frame size of a task with one source of untagged IPv4 frames of one size, in bytes; None for any other."""
    shape = task.shape
    return shape.frame_size_bytes if task.metric.source == "points" and shape is not None and shape.plain else None
