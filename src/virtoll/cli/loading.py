"""Experiments by name or path, and what of them a command's options choose. Main functions: ``load``, ``chosen``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment
    from virtoll.experiment.selection import Selection


def chosen(
    size: str | None,
    platform: list[str] | None,
    workload: list[str] | None,
    only: list[str] | None,
    skip: list[str] | None,
    until: str | None,
    *,
    blocks: int | None = None,
    seed: int | None = None,
    against: list[str] | None = None,
) -> Selection:
    """The options as one selection; a platform or workload option may hold several names between commas."""
    from virtoll.experiment.selection import Selection

    platforms, workloads = (
        tuple(name.strip() for value in values or () for name in value.split(",")) for values in (platform, workload)
    )
    located: tuple[str, ...] = ()
    if against:
        from virtoll.experiment.against import located_setting  # which imports what a misspelt name need not wait for

        located = tuple(located_setting(text, Path.cwd()) for text in against)
    return Selection(
        size,
        platforms,
        workloads,
        tuple(only or ()),
        tuple(skip or ()),
        until,
        blocks=blocks,
        seed=seed,
        against=located,
    )


def load(name: str, selection: Selection | None = None) -> Experiment:
    """An experiment by name or path, checked, and what of it was chosen; all of it without a selection."""
    from virtoll.experiment.parse import find_experiment, load_experiment

    file = find_experiment(name)  # before what takes long to import: a name is easily misspelt
    from virtoll.campaign.preview import catalogue
    from virtoll.experiment.selection import EVERYTHING

    checked = load_experiment(file, catalogue(), selection or EVERYTHING)
    if checked.needs:
        from virtoll.api.needs import parts_of

        parts_of(checked.needs, f"{file}: key 'needs': ")
    if checked.thresholds:
        from virtoll.cli.thresholds import thresholds_for

        thresholds_for(checked, ())
    return checked
