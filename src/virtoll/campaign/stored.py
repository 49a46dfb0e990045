"""The experiment of a run that is there: from the text in its manifest, and from what of it was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from virtoll.campaign.preview import catalogue
from virtoll.errors import UsageError
from virtoll.experiment.against import file_of
from virtoll.experiment.parse import parse_experiment
from virtoll.experiment.selection import Selection

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment
    from virtoll.runfolder.records import Manifest


def stored_experiment(manifest: Manifest, blocks: int | None = None) -> Experiment:
    """The experiment of a run's manifest; ``blocks``: in the place of the run's own number, None: as it has."""
    described = manifest.experiment
    selection = Selection.of_record(described.get("selection"))
    if blocks is None and manifest.extensions:
        blocks = max(one.block for one in manifest.plan.trials) + 1
    if blocks is not None:
        selection = replace(selection, blocks=blocks)
    if manifest.against is None:
        return parse_experiment(described["text"], Path(described["file"]), catalogue(), selection)
    selection = replace(selection, against=manifest.against.settings)
    for file in filter(None, map(file_of, manifest.against.settings)):
        if not file.exists():
            raise UsageError(
                f"run {manifest.run} was begun against {file}, which is not there any more; put it back, or start a "
                f"new run of {described['name']}"
            )
    found = parse_experiment(described["text"], Path(described["file"]), catalogue(), selection)
    if found.pairs != manifest.against.pairs:
        raise UsageError(
            f"run {manifest.run} was begun against {' and '.join(manifest.against.settings)}, which concerned "
            f"{_in_words(manifest.against.pairs)} and now {_in_words(found.pairs)}; start a new run of {found.name}"
        )
    return found


def _in_words(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(first for first, _ in pairs)
