"""Which programs and kernels differ between the two sides of a run with ``--against``, by their digests.

Main functions: ``record_of``, ``refuse_changed``. It must not measure anything.
"""

from __future__ import annotations

from pathlib import Path

from virtoll.errors import LabError, UsageError
from virtoll.experiment.model import Experiment
from virtoll.image import GuestImage, file_digest
from virtoll.pipeline.session import RunSession
from virtoll.platforms import platform_of
from virtoll.runfolder.records import AgainstRecord, Manifest

_KERNEL = "kernel"


def record_of(experiment: Experiment, session: RunSession) -> AgainstRecord | None:
    """What is measured against what, with the SHA-256 of each program; None where an experiment has no such pairs.

    ``UsageError`` where a program cannot be read.
    """
    if not experiment.pairs:
        return None
    first: dict[str, str] = {}
    second: dict[str, str] = {}
    for choice in experiment.platforms:
        if choice.build is None:
            continue
        driver = platform_of(choice)
        for name, file in choice.build.programs:
            second[name] = _digest(file)
            program = driver.find_program(name)
            if program is not None:
                first[name] = _digest(program)
        if choice.build.kernel is not None:
            first |= _kernel(session.site.image)
            second |= _kernel(session.site_of(choice).image)
    return AgainstRecord(experiment.against, experiment.pairs, {"a": first, "b": second})


def refuse_changed(manifest: Manifest, experiment: Experiment, session: RunSession, action: str = "resume") -> None:
    """UsageError naming the first program that is another one than the run was begun with, of either side.

    ``action``: what the user does with the run.
    """
    changed = changes(manifest, experiment, session)
    if changed:
        raise UsageError(
            f"run {manifest.run} was begun with another {changed[0]}; {action} it with that one, or start a new run of "
            f"{experiment.name}"
        )


def refuse_change_meanwhile(manifest: Manifest, experiment: Experiment, session: RunSession) -> None:
    """LabError, which ends a run that can be resumed, where a program was replaced since the run was begun."""
    changed = changes(manifest, experiment, session)
    if changed:
        raise LabError(
            f"while it was measured, another {changed[0]} came in the place of the first; what was finished is stored: "
            "put the first one back and continue with 'virtoll resume'"
        )


def changes(manifest: Manifest, experiment: Experiment, session: RunSession) -> list[str]:
    """The programs and kernels, each with its side, that are not those of the manifest; empty: none is."""
    here = record_of(experiment, session)
    then = manifest.against
    if here is None or then is None:
        return []
    return [
        f"{name} on side {side.upper()} ({_short(then.programs[side].get(name))}, here {_short(now.get(name))})"
        for side, now in here.programs.items()
        for name in sorted({*then.programs[side], *now})
        if then.programs[side].get(name) != now.get(name)
    ]


def _digest(file: Path) -> str:
    try:
        return file_digest(file)
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read in the run's lab ({error.strerror}), which has a /run of its own; put it elsewhere"
        ) from error


def _kernel(image: GuestImage) -> dict[str, str]:
    return {} if image.machine is None else {_KERNEL: image.machine.kernel.sha256}


def _short(digest: str | None) -> str:
    return "none" if digest is None else f"SHA-256 {digest[:12]}"
