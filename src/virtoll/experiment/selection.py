"""Which part of an experiment is run: its size, until when, and filters by platform and workload. Pure.

A filter never takes away what the others are measured against. The baseline and its A/A control stay with every
workload that is left, unless ``skip`` names them.

Main types: ``Selection`` (what was asked for, as the run folder stores it), ``kept_cells``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any, Self

from virtoll.errors import UsageError
from virtoll.experiment.near import choices, did_you_mean, near

_WHERE_GIVEN = ("blocks", "seed", "against")
Cell = tuple[str, str]
"""A platform's label and a workload's name."""
Refusal = Callable[[str], UsageError]
"""What makes an error of a complaint about a pattern: it names the option or the file's key."""


@dataclass(frozen=True)
class Selection:
    """``platforms``: labels, or platforms' names, which take all labels of theirs; ``workloads``: names.

    ``only`` and ``skip``: patterns ``platform:workload`` with the shell's wildcards. Empty: nothing is left out.
    ``until``: ``decided`` where blocks are added until every verdict is known; None: as the experiment says.
    ``blocks`` and ``seed``: in the place of the file's; None: as the experiment says.
    ``against``: settings that are measured beside the experiment as it is (``against.py``), paths absolute.
    """

    size: str | None = None
    platforms: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    until: str | None = None
    blocks: int | None = None
    seed: int | None = None
    against: tuple[str, ...] = ()

    @property
    def filters(self) -> bool:
        """Whether anything may be left out."""
        return any((self.platforms, self.workloads, self.only, self.skip))

    def arguments(self) -> list[str]:
        """As options of the command line."""
        options = (
            ("--platform", self.platforms),
            ("--workload", self.workloads),
            ("--only", self.only),
            ("--skip", self.skip),
            ("--against", self.against),
        )
        single = (("--size", self.size), ("--until", self.until), ("--blocks", self.blocks), ("--seed", self.seed))
        arguments = [word for option, value in single if value is not None for word in (option, str(value))]
        return arguments + [word for option, values in options for value in values for word in (option, value)]

    def as_record(self) -> dict[str, Any]:
        """As JSON holds it; number of blocks, seed and settings to measure against only where they were given."""
        record = asdict(self)
        for key, value in record.items():
            if isinstance(value, tuple):
                record[key] = list(value)
        return {key: value for key, value in record.items() if key not in _WHERE_GIVEN or value not in (None, [])}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        """From JSON."""
        keys = dict(record)
        size, until = keys.pop("size", None), keys.pop("until", None)
        blocks, seed, against = keys.pop("blocks", None), keys.pop("seed", None), keys.pop("against", ())
        filters = {key: tuple(values) for key, values in keys.items()}
        return cls(size, **filters, until=until, blocks=blocks, seed=seed, against=tuple(against))


EVERYTHING = Selection()


def kept_cells(
    platforms: Mapping[str, str],
    workloads: Iterable[str],
    standing: Collection[str | None],
    selection: Selection,
    file_skips: Iterable[str] = (),
    refusal: Refusal = UsageError,
) -> frozenset[Cell]:
    """The cells that are run: ``platforms`` maps labels to platforms' names, ``standing`` are baseline and control.

    ``file_skips``: patterns of the experiment itself, as ``skip``; ``refusal`` makes the error of a wrong one.
    ``UsageError`` if a name or pattern fits nothing, or nothing is left.
    """
    names = tuple(dict.fromkeys(workloads))
    cells = frozenset((label, name) for label in platforms for name in names)
    _check(platforms, names, selection)
    chosen = _named(cells, platforms, selection)
    if selection.only:
        chosen &= _matched(selection.only, _of_option("--only"), platforms, names)
    skipped = _matched(selection.skip, _of_option("--skip"), platforms, names)
    skipped |= _matched(file_skips, refusal, platforms, names)
    chosen -= skipped
    if not chosen and not selection.filters:
        raise refusal("nothing of the experiment is left; take a pattern away")
    if not chosen:
        raise UsageError(
            f"nothing of the experiment is left by {shlex.join(selection.arguments())}; take an option away "
            f"({_allowed(platforms, names)})"
        )
    left = {name for _, name in chosen}
    return chosen | {cell for cell in cells - skipped if cell[0] in standing and cell[1] in left}


def _named(cells: frozenset[Cell], platforms: Mapping[str, str], selection: Selection) -> frozenset[Cell]:
    """The cells of the platforms and workloads that are chosen by name; of all where none is."""
    labels, workloads = selection.platforms, selection.workloads
    if labels:
        cells = frozenset(cell for cell in cells if cell[0] in labels or platforms[cell[0]] in labels)
    return frozenset(cell for cell in cells if not workloads or cell[1] in workloads)


def _check(platforms: Mapping[str, str], workloads: Collection[str], selection: Selection) -> None:
    for option, names, known in (
        ("--platform", selection.platforms, [*platforms, *platforms.values()]),
        ("--workload", selection.workloads, workloads),
    ):
        for name in names:
            if name not in known:
                allowed = choices(name, platforms if option == "--platform" else workloads)
                raise UsageError(f"{option} {name!r} is not in this experiment; {allowed}")


def _of_option(option: str) -> Refusal:
    return lambda complaint: UsageError(f"{option} {complaint}")


def _matched(
    patterns: Iterable[str], refusal: Refusal, platforms: Mapping[str, str], workloads: Collection[str]
) -> frozenset[Cell]:
    cells: set[Cell] = set()
    for pattern in patterns:
        platform, colon, workload = pattern.partition(":")
        if not (platform and colon and workload):
            raise refusal(f"{pattern!r} is not PLATFORM:WORKLOAD; give both, such as 'runsc:*' or '*:masr'")
        fitting = {
            (label, name)
            for label in platforms
            for name in workloads
            if fnmatchcase(label, platform) and fnmatchcase(name, workload)
        }
        if not fitting:
            meant = [*near(platform, platforms), *near(workload, workloads)]
            question = did_you_mean(meant, "and")
            raise refusal(f"{pattern!r} fits nothing of this experiment; {question}{_allowed(platforms, workloads)}")
        cells |= fitting
    return frozenset(cells)


def _allowed(platforms: Iterable[str], workloads: Iterable[str]) -> str:
    return f"platforms: {', '.join(platforms)}; workloads: {', '.join(workloads)}"
