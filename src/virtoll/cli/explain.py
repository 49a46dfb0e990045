"""``virtoll explain``: additional trials of a run with observers on, and what they show; its half in the lab."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from virtoll.api.folders import find_run, run_to_measure
from virtoll.cli import options
from virtoll.cli.lab import in_lab, prepare_lab, require_lab
from virtoll.cli.loading import chosen
from virtoll.cli.output import Json, Verbose, print_json, say_in_columns, say_on_stderr
from virtoll.cli.verify import tell_damage
from virtoll.errors import Interrupted, LabError, StorageError
from virtoll.runfolder.records import TrialRecord

if TYPE_CHECKING:
    from virtoll.experiment.plan import Trial
    from virtoll.experiment.selection import Selection
    from virtoll.pipeline.explain import ExplainRequest


def explain(
    run: options.Run = "latest",
    *,
    platform: options.Platform = None,
    workload: options.Workload = None,
    only: options.Only = None,
    trials: Annotated[
        int,
        typer.Option(
            "--trials", metavar="N", min=1, max=30, help="Trials of each platform and workload with observers on."
        ),
    ] = 3,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Say why a run's platforms cost what they cost.

    It shows what each made this host do, beside what the host itself did.

    Trials with observers on are added to the run's folder, and are never results of it.
    """
    del verbose  # its callback has set what this process and those below it do
    from virtoll.pipeline.explain import ExplainRequest, explained_experiment, outstanding
    from virtoll.report import explanation_document, explanation_lines, load_analysis
    from virtoll.runfolder.store import RunFolder

    folder = find_run(run)
    selection = chosen(None, platform, workload, only, None, None)
    opened = RunFolder.open(folder)
    opened.read_every_record()
    experiment = explained_experiment(opened)
    if outstanding(opened, experiment, ExplainRequest(selection, trials)).trials:
        _measure(run_to_measure(run, "explain"), selection, trials)
    analysis = load_analysis(folder)
    tell_damage(folder)
    if as_json:
        print_json(explanation_document(analysis))
        return
    for line in explanation_lines(analysis):
        say_in_columns(line)


def in_lab_explain(into: Path, words: str) -> None:
    """``explain``, in its lab; ``words``: JSON of the selection and the number of trials."""
    require_lab()
    from virtoll.experiment.selection import Selection
    from virtoll.pipeline.explain import ExplainRequest

    request = json.loads(words)
    _measure_here(into, ExplainRequest(Selection.of_record(request["selection"]), request["trials"]))


def _measure(folder: Path, selection: Selection, trials: int) -> None:
    """Here where all platforms are models, else in a lab that is handed the host's own /proc."""
    from virtoll.pipeline.explain import ExplainRequest, explained_experiment
    from virtoll.pipeline.preview import needs_lab
    from virtoll.runfolder.store import RunFolder

    experiment = explained_experiment(RunFolder.open(folder))
    if not needs_lab(experiment):
        _measure_here(folder, ExplainRequest(selection, trials))
        return
    from virtoll.host.observe.host_proc import handed_in

    prepare_lab(experiment)
    words = json.dumps({"selection": selection.as_record(), "trials": trials})
    with handed_in() as host_proc, _told_how_to_go_on(folder):
        code = in_lab(experiment, ["in-lab-explain", str(folder), words], *host_proc)
    if code != 0:
        sys.exit(code)


class ToldOnStderr:
    """One line a trial, beside the answer: how it ended, and never how long it took."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is the run's."""
        from virtoll.cli.progress import Names

        self._names = Names(folder)

    def message(self, text: str) -> None:
        """A line of its own."""
        say_on_stderr(text)

    def begin(self, done: int, total: int, estimated_seconds: float) -> None:
        """Says how much there is to do."""
        say_on_stderr(f"{total - done} trials with observers on, {estimated_seconds:.0f} s if observing cost nothing")

    def trial_begins(self, trial: Trial) -> None:
        """Nothing: the line comes with the end."""

    def trial_ends(self, trial: Trial, record: TrialRecord) -> None:
        """The trial and how it ended."""
        say_on_stderr(f"{self._names(trial)}: {record.reason or 'observed'}")


def _measure_here(folder: Path, request: ExplainRequest) -> None:
    from virtoll.lab.interrupts import interruptible
    from virtoll.pipeline.explain import explain as explain_run
    from virtoll.runfolder.store import RunFolder
    from virtoll.runfolder.writer import writing

    with interruptible(), _told_how_to_go_on(folder), writing(folder):
        explain_run(RunFolder.open(folder), request, ToldOnStderr(folder))


@contextlib.contextmanager
def _told_how_to_go_on(folder: Path) -> Iterator[None]:
    """What ends it early says how to go on: not by resuming the run, which has ended."""
    go_on = f"what was observed is stored: go on with 'virtoll explain {folder}'"
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {go_on}") from None
    except LabError as error:
        raise LabError(f"{str(error).partition(';')[0]}; {go_on}") from error
    except StorageError as error:
        raise StorageError(f"{str(error).partition('. ')[0]}; make room; {go_on}") from error
