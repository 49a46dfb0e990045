"""What ``virtoll reproduce`` has yet to measure: of each experiment the trials, their time, and what cannot run here.

Main type: ``Ahead`` (one experiment). Main functions: ``ahead_of``, ``ask_before_days`` and ``plan_document``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from virtoll.cli.lab import check_lab, prepare_outside, require_lab
from virtoll.cli.loading import load
from virtoll.cli.output import say_on_stderr
from virtoll.errors import UsageError, VirtollError

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment, PlatformChoice
    from virtoll.experiment.plan import Plan
    from virtoll.runfolder.store import RunFolder

ASKED_FROM_SECONDS: Final = 86_400.0
"""More work than this is begun only by who says so."""
Reasons = Mapping[str, str]
"""Why platforms do not work here, by label."""


@dataclass(frozen=True)
class Ahead:
    """One experiment of a study and its folder, with what of it is there."""

    experiment: Experiment
    folder: Path

    @cached_property
    def begun(self) -> RunFolder | None:
        """The run in its folder; None where there is none."""
        from virtoll.runfolder.store import RunFolder

        return RunFolder.open(self.folder) if (self.folder / "manifest.json").is_file() else None

    @cached_property
    def state(self) -> str:
        """``new``, or the state of the run in its folder."""
        begun = self.begun
        return "new" if begun is None else begun.state().state

    @cached_property
    def lacks_blocks(self) -> bool:
        """Whether its run has fewer blocks than are asked for now."""
        begun, blocks = self.begun, self.experiment.selection.blocks
        return begun is not None and blocks is not None and blocks_of(begun) < blocks

    @property
    def is_finished(self) -> bool:
        """Whether nothing of it is left to measure."""
        return self.state == "complete" and not self.lacks_blocks

    @cached_property
    def plan(self) -> Plan:
        """All of its trials."""
        from virtoll.pipeline.preview import plan_of

        return plan_of(self.experiment)

    @cached_property
    def reasons(self) -> Mapping[int, str | None]:
        """By each trial's number why it cannot run with this size of guest and host; None: it can."""
        from virtoll.pipeline.requirements import reasons_of

        return reasons_of(self.plan, self.experiment)

    def seconds(self, not_here: Reasons) -> float:
        """How long the rest of it takes, without platforms that do not work here."""
        from virtoll.pipeline.preview import estimate

        if self.is_finished:
            return 0.0
        begun = self.begun
        finished = frozenset() if begun is None else begun.finished_trials()
        rest = []
        for trial in self.plan.trials:
            held = self.reasons[trial.number] is None and trial.platform.label not in not_here
            if held and trial.number not in finished:
                rest.append(trial)
        return estimate(replace(self.plan, trials=tuple(rest))) if rest else 0.0


def blocks_of(begun: RunFolder) -> int:
    """How many blocks a run has by its plan."""
    return max((trial.block + 1 for trial in begun.manifest.plan.trials), default=0)


def ask_before_days(study: str, ahead: Sequence[Ahead], *, agreed: bool) -> None:
    """Ask a person at a terminal before more than a day of work; ``UsageError`` where that is not agreed to."""
    from virtoll.cli.plan_words import duration_words

    seconds = _seconds_of_all(ahead, [{}] * len(ahead))
    if agreed or seconds <= ASKED_FROM_SECONDS:
        return
    takes = f"{study} takes {duration_words(seconds)} if every platform is available"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{takes}; add --yes to begin, or see --plan, and choose less by --platform or --workload")
    if not typer.confirm(f"{takes}. What is interrupted goes on later. Begin?", err=True):
        raise UsageError("nothing was started; --plan shows what takes how long")


def plan_lines(study: str, ahead: Sequence[Ahead], not_here: Sequence[Reasons]) -> Iterator[str]:
    """Each experiment with its time and what of it cannot run here, and all of them together."""
    from virtoll.cli.plan_words import duration_words, skipped_lines

    for part, reasons in zip(ahead, not_here, strict=True):
        experiment = part.experiment
        size = f", size {experiment.size}" if experiment.size else ""
        yield f"{experiment.name}{size}: {_time(part, reasons)}"
        for label, reason in reasons.items():
            yield f"  cannot run here: {label}: {reason}"
        for line in skipped_lines(part.plan, part.reasons):
            yield f"  {line}"
    seconds = _seconds_of_all(ahead, not_here)
    number = f"{len(ahead)} experiments" if len(ahead) > 1 else "1 experiment"
    finished = all(part.is_finished for part in ahead)
    yield f"{study}, {number}: {'all is measured' if finished else duration_words(seconds)}"


def _seconds_of_all(ahead: Sequence[Ahead], not_here: Sequence[Reasons]) -> float:
    return sum(map(Ahead.seconds, ahead, not_here))


def _time(part: Ahead, reasons: Reasons) -> str:
    from virtoll.cli.plan_words import duration_words

    if part.is_finished:
        return f"finished, in {part.folder}"
    blocks = "1 block" if part.experiment.blocks == 1 else f"{part.experiment.blocks} blocks"
    most = "at most " if part.experiment.looks is not None else ""
    words = f"{most}{duration_words(part.seconds(reasons))}, {most}{len(part.plan.trials)} trials in {blocks}"
    if part.begun is None:
        return words
    return f"{words}; it goes on with what {part.folder} has"


def plan_document(study: str, ahead: Sequence[Ahead], not_here: Sequence[Reasons]) -> dict[str, object]:
    """The same for a program."""
    from virtoll.cli.plan_words import skipped_lines

    experiments = []
    for part, reasons in zip(ahead, not_here, strict=True):
        experiments.append(
            {
                "experiment": part.experiment.name,
                "size": part.experiment.size,
                "folder": str(part.folder),
                "state": part.state,
                "blocks": part.experiment.blocks,
                "trials": len(part.plan.trials),
                "estimated_seconds": part.seconds(reasons),
                "cannot_run": dict(reasons),
                "skipped": list(skipped_lines(part.plan, part.reasons)),
            }
        )
    seconds = _seconds_of_all(ahead, not_here)
    return {"version": 1, "study": study, "experiments": experiments, "estimated_seconds": seconds}


def platforms_not_here(experiments: Sequence[Experiment]) -> list[Reasons]:
    """Of each experiment the platforms that do not work here, and why: a guest of each is started.

    Nothing is known where no lab can be made: the standard error says why.
    """
    from virtoll.pipeline.preview import needs_lab

    if not any(map(needs_lab, experiments)):
        return [{}] * len(experiments)
    from virtoll.cli.doctor import needs_kernel
    from virtoll.host.tuning import for_the_lab
    from virtoll.lab.launch import run_in_lab

    choices: list[PlatformChoice] = []
    for experiment in experiments:
        choices += experiment.platforms
    say_on_stderr("trying each platform by starting a guest; nothing is measured")
    try:
        check_lab()
        prepare_outside("tiny", kernel=needs_kernel(choices))
    except VirtollError as error:
        say_on_stderr(f"virtoll: what cannot run here is not known: {error}")
        return [{}] * len(experiments)
    listing = json.dumps([[str(known.file.absolute()), known.selection.as_record()] for known in experiments])
    with tempfile.TemporaryDirectory(prefix="virtoll-plan-") as folder:
        answer = Path(folder) / "platforms.json"
        if run_in_lab(["in-lab-platforms", listing, str(answer)], for_the_lab()) != 0:
            sys.exit(1)  # it has said why
        reasons: list[Reasons] = json.loads(answer.read_text(encoding="utf-8"))
    return reasons


def in_lab_platforms(experiments: str, answer: Path) -> None:
    """``reproduce --plan``, in its lab: into ``answer``, of each experiment the labels that do not work, and why.

    ``experiments``: JSON of each one's file and selection.
    """
    require_lab()
    from virtoll.experiment.selection import Selection
    from virtoll.pipeline.execution import probe_all
    from virtoll.pipeline.pinning import choose_pinning
    from virtoll.pipeline.progress import SilentProgress
    from virtoll.pipeline.session import open_run_session

    documents: list[dict[str, str]] = []
    with open_run_session(choose_pinning(1), SilentProgress()) as session:
        for file, record in json.loads(experiments):
            experiment = load(file, Selection.of_record(record))
            probes = probe_all(experiment.platforms, session, SilentProgress())
            documents.append(
                {label: probe.why or "it does not say why" for label, probe in probes.items() if not probe.available}
            )
    answer.write_text(json.dumps(documents), encoding="utf-8")
