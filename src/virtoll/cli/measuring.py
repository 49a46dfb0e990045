"""Experiments measured into run folders, here or in a lab, with a display; and the halves of that in the lab.

Main functions: ``measure_into``, ``measure_part``, ``resume_into``, ``extend_into``. Reports are written by ``report``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtoll.cli.lab import in_lab, prepare_lab, require_lab
from virtoll.cli.loading import load
from virtoll.cli.output import console, is_quiet, say, say_on_stderr, terminal_is_lost
from virtoll.errors import NO_MEMORY, Interrupted, LabError, StorageError, VirtollError, disk_failure
from virtoll.runfolder.records import LookRecord

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment
    from virtoll.runfolder.store import RunFolder


def measure_into(
    experiment: Experiment, folder: Path, blocks: tuple[int, ...] = (), inside: list[str] | None = None
) -> None:
    """Measure an experiment, or what was chosen of it, into a new run folder; no report.

    ``blocks``: a part of a campaign, with these blocks alone; none: all of it. ``inside``: the command in the lab, for
    an experiment without a file.
    """
    selection = json.dumps(experiment.selection.as_record())
    inside = inside or ["in-lab-run", str(experiment.file.absolute()), str(folder), selection, json.dumps(blocks)]
    _here_or_in_lab(experiment, lambda: _measure_here(experiment, folder, blocks), inside)


def consolidation_of(text: str) -> Experiment:
    """The experiment of ``virtoll consolidation``, checked; ``text``: its YAML."""
    from virtoll.experiment.parse import parse_experiment
    from virtoll.pipeline.preview import catalogue

    return parse_experiment(text, Path("virtoll consolidation"), catalogue())


def measure_part(experiment: Experiment, block: str, into: Path) -> None:
    """Measure blocks into a folder of their own in the campaign's folder ``into``.

    ``block``: such as 3 or 3-5. What is complete is kept, and what was killed is continued.
    """
    from virtoll.hosts.nodes import on_its_nodes
    from virtoll.pipeline.parts import (
        ASIDE,
        asked_blocks,
        beginning,
        joined_campaign,
        part_name,
        part_of,
        refuse_undivided,
    )
    from virtoll.pipeline.preview import needs_lab, plan_of

    refuse_undivided(experiment)
    if experiment.testbed is not None and needs_lab(experiment):
        on_its_nodes(experiment.testbed)  # what is missing is told before a folder is made or set aside
    block_numbers = asked_blocks(block, experiment.blocks)
    part = part_of(experiment, plan_of(experiment), block_numbers)
    into = into.absolute()
    joined_campaign(into, experiment, part)
    folder = into / part_name(block_numbers)
    there = (folder / "manifest.json").exists()
    begins = beginning(folder, part, _agent_sha256(experiment))
    if begins == "done":
        say(f"{folder} is complete; nothing is measured")
        return
    if begins == "resume":
        resume_into(folder)
    else:
        if there:
            say_on_stderr(
                f"virtoll: another host, agent or Virtoll began {folder.name} and did not end it; it is now in "
                f"{into / ASIDE}, and begins anew here"
            )
        measure_into(experiment, folder, block_numbers)
    say(str(folder) if is_quiet() else f"part of campaign {part.campaign[:8]}: {folder}")


def _agent_sha256(experiment: Experiment) -> str | None:
    """Of the agent that this machine would measure with; None where all platforms are models."""
    from virtoll.pipeline.preview import needs_lab

    if not needs_lab(experiment):
        return None
    import hashlib

    from virtoll.image.clone import usable_agent

    return hashlib.sha256(usable_agent().read_bytes()).hexdigest()


def resume_into(folder: Path) -> None:
    """Measure what a run folder has not yet; no report."""
    from virtoll.pipeline.execution import experiment_of
    from virtoll.runfolder.store import RunFolder

    opened = RunFolder.open(folder)
    opened.read_every_record()
    _here_or_in_lab(experiment_of(opened), lambda: _resume_here(folder), ["in-lab-resume", str(folder)])


def extend_into(experiment: Experiment, folder: Path, blocks: int) -> None:
    """Add blocks to a finished run; no report. ``blocks``: how many in all."""
    inside = ["in-lab-extend", str(folder), str(blocks)]
    _here_or_in_lab(experiment, lambda: _extend_here(folder, blocks), inside)


def _here_or_in_lab(experiment: Experiment, here: Callable[[], None], inside: list[str]) -> None:
    """Measure here if all platforms are models, else in a lab by the command ``inside``.

    If that fails, it has printed the error already, and its exit code is ours.
    """
    from virtoll.pipeline.preview import needs_lab

    if not needs_lab(experiment):
        here()
        return
    prepare_lab(experiment)
    code = in_lab(experiment, inside)
    if code != 0:
        sys.exit(code)


def _measure_here(experiment: Experiment, folder: Path, blocks: tuple[int, ...] = ()) -> None:
    from virtoll.cli.plan_words import against_lines, duration_words
    from virtoll.pipeline.execution import measure
    from virtoll.pipeline.parts import only_blocks
    from virtoll.pipeline.preview import estimate, plan_of
    from virtoll.pipeline.requirements import possible

    command = ["virtoll", "run", str(experiment.file), *experiment.selection.arguments()]
    if blocks:
        block_numbers = f"{blocks[0] + 1}-{blocks[-1] + 1}" if blocks[1:] else f"{blocks[0] + 1}"
        command[1:2] = ["campaign", "block"]
        command += ["--block", block_numbers, "--into", str(folder.parent)]

    def work(progress: Any) -> None:
        if not is_quiet():
            size = f", size {experiment.size}" if experiment.size else ""
            console().print(f"{experiment.name}{size}: {experiment.question}")
            plan = plan_of(experiment)
            seconds = estimate(possible(only_blocks(plan, blocks) if blocks else plan, experiment))
            say(f"{duration_words(seconds)} if every platform is available; run folder {folder}")
            for line in against_lines(experiment):
                say(line)
        measure(experiment, folder, command, progress, _look_at, blocks=blocks)

    with_progress(work, folder)


def _resume_here(folder: Path) -> None:
    from virtoll.pipeline.execution import resume as resume_run

    with_progress(lambda progress: resume_run(folder, progress, _look_at), folder)


def _extend_here(folder: Path, blocks: int) -> None:
    from virtoll.pipeline.execution import extend as extend_run

    command = ["virtoll", "extend", str(folder), "--blocks", str(blocks)]
    with_progress(lambda progress: extend_run(folder, blocks, command, progress), folder)


def _look_at(folder: RunFolder, blocks: int) -> LookRecord:
    """What the results so far decide; what analyses is imported at the first look, between two blocks."""
    from virtoll.report.build import look_at

    return look_at(folder, blocks)


def with_progress(work: Callable[[Any], None], folder: Path) -> None:
    """Do the work with a display; an interrupt leaves a whole run folder that says how to go on.

    The folder is held until its state is final, so that no reader takes a run that is being ended for a killed one.
    """
    from virtoll.cli.progress import LiveProgress, Names, PlainProgress
    from virtoll.lab.interrupts import interruptible
    from virtoll.pipeline.progress import SilentProgress
    from virtoll.runfolder.writer import writing

    # The signals are handled until the state is stored: a second one would end this process before.
    with interruptible(), writing(folder):
        try:
            if is_quiet():
                work(SilentProgress())
            elif console().is_terminal:
                with LiveProgress(console(), Names(folder)).shown() as progress:
                    work(progress)
            else:
                work(PlainProgress(console(), Names(folder)))
        except KeyboardInterrupt:
            if _interrupted(folder, "ended by the user"):
                raise Interrupted(
                    f"interrupted; what was finished is stored: continue with 'virtoll resume {folder}'"
                ) from None
            raise Interrupted("interrupted before the first trial; nothing was stored") from None
        except (BrokenPipeError, SystemExit):  # rich ends the process where its output is a closed pipe
            stored = _interrupted(folder, "who read the standard output closed it")
            left = f"continue with 'virtoll resume {folder}'" if stored else "nothing was stored"
            say_on_stderr(f"virtoll: who read the standard output closed it; {left}")
            raise
        except (StorageError, LabError, MemoryError) as error:
            _interrupted(folder, NO_MEMORY if isinstance(error, MemoryError) else str(error))
            raise
        except OSError as error:
            if terminal_is_lost():  # of the display, before or instead of the signal that says the same
                _interrupted(folder, "its terminal was closed")
                raise Interrupted("interrupted: the terminal was closed") from None
            failed = disk_failure(error)
            if failed is None:
                raise
            _interrupted(folder, str(failed))
            raise failed from error


def _interrupted(folder: Path, reason: str) -> bool:
    """Store that the run was interrupted; False where there is none yet, or one that had ended and was not extended."""
    from virtoll.runfolder.overview import state_now
    from virtoll.runfolder.store import RunFolder

    with suppress(VirtollError, OSError):  # a disk may not even take this; then the run stays "running"
        if not (folder / "manifest.json").exists() or state_now(folder) == "complete":
            return False
        RunFolder.open(folder).set_state("interrupted", reason)
    return True


def in_lab_run(experiment: str, into: Path, selection: str, blocks: Annotated[str, typer.Argument()] = "[]") -> None:
    """``run`` and ``campaign block``, in their lab, by JSON of a ``Selection`` and of blocks' numbers from 0."""
    require_lab()
    from virtoll.experiment.selection import Selection

    _measure_here(load(experiment, Selection.of_record(json.loads(selection))), into, tuple(json.loads(blocks)))


def in_lab_consolidation(text: str, into: Path) -> None:
    """``consolidation``, in its lab; ``text``: the experiment's YAML."""
    require_lab()
    _measure_here(consolidation_of(text), into)


def in_lab_resume(into: Path) -> None:
    """``resume``, in its lab."""
    require_lab()
    _resume_here(into)


def in_lab_extend(into: Path, blocks: int) -> None:
    """``extend``, in its lab; ``blocks``: how many in all."""
    require_lab()
    _extend_here(into, blocks)
