"""``virtoll run``, ``consolidation``, ``resume``, ``extend``, ``report``, ``validation``; halves of them in the lab."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtoll.api.folders import FoundRun, clock_behind, find_run, found_run, new_folder, run_to_measure
from virtoll.cli import complete
from virtoll.cli.gate import AllowUnknownOption, FailIfOption, asked_of, leave_by, tell, thresholds_for
from virtoll.cli.lab import check_lab, prepare_outside, require_lab
from virtoll.cli.output import (
    Json,
    Quiet,
    Verbose,
    columns,
    console,
    is_quiet,
    print_json,
    say,
    say_in_columns,
    say_on_stderr,
    say_page,
    say_progress,
    show_page,
    tell_on_stderr,
    terminal_is_lost,
    write_out,
)
from virtoll.cli.plan import (
    AgainstOption,
    BlocksOption,
    ExperimentArgument,
    OnlyOption,
    PlatformOption,
    SeedOption,
    SizeOption,
    SkipOption,
    UntilOption,
    WorkloadOption,
    chosen,
    duration_words,
    load,
)
from virtoll.cli.watch import grown
from virtoll.errors import (
    NO_MEMORY,
    ImageError,
    Interrupted,
    LabError,
    StorageError,
    UsageError,
    VirtollError,
    disk_failure,
)
from virtoll.units import time_to_come

if TYPE_CHECKING:
    from virtoll.advise.gate import Threshold
    from virtoll.claims import Claim, Names
    from virtoll.experiment.model import Experiment
    from virtoll.report import ReportResult
    from virtoll.runfolder.records import LookRecord
    from virtoll.runfolder.store import RunFolder

_WATCH_SECONDS = 5
_MOST_TESTS_BYTES = 64 << 20
IntoOption = Annotated[
    Path | None,
    typer.Option("--into", metavar="FOLDER", help="The run's folder; a new one below 'runs' when not given."),
]
ClaimsOption = Annotated[
    list[Path] | None,
    typer.Option("--claims", metavar="FILE", help="A YAML file of claims of yours (docs/claims.md). Repeatable."),
]
NeedOption = Annotated[
    list[str] | None,
    typer.Option("--need", metavar="NEED", help="Such as 'router 64B 200kpps loss<0.1% + oltp p99<20ms'. Repeatable."),
]
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run's folder, its name, a packed run, or 'latest'.", autocompletion=complete.runs
    ),
]
FolderArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's folder, its name, or 'latest'.", autocompletion=complete.runs),
]
OpenOption = Annotated[bool, typer.Option("--open", help="Open the report in a browser.")]


def run(
    experiment: ExperimentArgument = "quick",
    *,
    into: IntoOption = None,
    size: SizeOption = None,
    platform: PlatformOption = None,
    workload: WorkloadOption = None,
    only: OnlyOption = None,
    skip: SkipOption = None,
    until: UntilOption = None,
    blocks: BlocksOption = None,
    seed: SeedOption = None,
    against: AgainstOption = None,
    fail_if: FailIfOption = None,
    allow_unknown: AllowUnknownOption = False,
    open_page: OpenOption = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run an experiment, or parts of it, and write the report."""
    del quiet, verbose
    selection = chosen(size, platform, workload, only, skip, until, blocks=blocks, seed=seed, against=against)
    checked = load(experiment, selection)
    thresholds = thresholds_for(checked, fail_if or ())
    _tell_clock_behind()
    folder = new_folder(checked.name, into)
    measure_into(checked, folder)
    _judge(_report(folder, gated=bool(thresholds), open_page=open_page), thresholds, allow_unknown)


def _tell_clock_behind() -> None:
    """Say on the standard error if a new run would not be ``latest``, because this host's clock is behind."""
    behind = clock_behind()
    if behind is not None:
        newest, seconds = behind
        say_on_stderr(
            f"virtoll: this host's clock is {time_to_come(seconds)} behind the run {newest}, which "
            "stays 'latest'; set the clock, or call runs by their names"
        )


def consolidation(
    platforms: Annotated[
        list[str],
        typer.Argument(
            metavar="PLATFORM",
            help="Platforms, each as NAME or NAME:key=value,key=value.",
            autocompletion=complete.platforms,
        ),
    ],
    memory: Annotated[
        str, typer.Option(metavar="MEMORY", help="The host's memory that may be used, such as 2GiB.")
    ] = "1GiB",
    limit: Annotated[int, typer.Option(metavar="N", help="Maximum number of guests.")] = 1000,
    guest_memory: Annotated[str, typer.Option(metavar="MEMORY", help="What each guest is given.")] = "128MiB",
    into: IntoOption = None,
) -> None:
    """Count the idle guests that fit into a budget of memory.

    The report has what each takes of the host's memory.
    """
    from virtoll.campaign.preview import catalogue
    from virtoll.cli.shell import given_platform
    from virtoll.experiment.parse import parse_experiment
    from virtoll.runfolder.yaml_file import dump_yaml

    document = {
        "name": "consolidation",
        "question": f"How many idle guests fit into {memory} of this host's memory?",
        "scenario": "consolidation",
        "platforms": [given_platform(platform) for platform in platforms],
        "guest": {"memory": guest_memory},
        "consolidation": {"memory": memory, "guests": limit},
    }
    text = dump_yaml(document, sort_keys=False, allow_unicode=True)
    checked = parse_experiment(text, Path("virtoll consolidation"), catalogue())
    folder = new_folder(checked.name, into)
    _measure(checked, folder, ["in-lab-consolidation", text, str(folder)])
    _report(folder)


def resume(
    run: FolderArgument = "latest",
    *,
    fail_if: FailIfOption = None,
    allow_unknown: AllowUnknownOption = False,
    open_page: OpenOption = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Continue an interrupted or killed run. Finished trials are kept."""
    del quiet, verbose
    folder = run_to_measure(run, "resume")
    thresholds = asked_of(folder, fail_if or [])
    resume_into(folder)
    _judge(_report(folder, gated=bool(thresholds), open_page=open_page), thresholds, allow_unknown)


def extend(
    run: FolderArgument = "latest",
    *,
    blocks: Annotated[
        str, typer.Option("--blocks", help="How many more, such as +6, or how many in all.", metavar="+N")
    ],
    fail_if: FailIfOption = None,
    allow_unknown: AllowUnknownOption = False,
    open_page: OpenOption = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Add blocks to a finished run, in its folder.

    Verdicts are then tested at a stricter level.
    """
    del quiet, verbose
    from virtoll.campaign.extension import asked_blocks, extended_experiment, refuse_unfinished
    from virtoll.campaign.preview import needs_lab
    from virtoll.campaign.requirements import images_of, needs_kernel, own_kernels
    from virtoll.runfolder.store import RunFolder

    folder = run_to_measure(run, "extend")
    opened = RunFolder.open(folder)
    refuse_unfinished(opened)
    opened.read_every_record()
    block_count = asked_blocks(opened, blocks)
    experiment = extended_experiment(opened, block_count)
    thresholds = asked_of(folder, fail_if or [])
    if not needs_lab(experiment):
        _extend_here(folder, block_count)
    else:
        prepare_outside(*images_of(experiment), kernel=needs_kernel(experiment), kernels=own_kernels(experiment))
        check_lab()
        _leave_unless_done(in_lab(experiment, ["in-lab-extend", str(folder), str(block_count)]))
    _judge(_report(folder, gated=bool(thresholds), open_page=open_page), thresholds, allow_unknown)


def _judge(built: ReportResult, thresholds: Sequence[Threshold], allow_unknown: bool) -> None:
    """Say what a run says of its thresholds, and end with the exit code of that; nothing where there are none."""
    if not thresholds:
        return
    from virtoll.advise.gate import judge_gate

    judged = judge_gate(built.analysis, thresholds, built.damage or ())
    if not is_quiet():
        tell(judged)
    leave_by(judged, allow_unknown)


def resume_into(folder: Path) -> None:
    """Measure what a run folder has not yet; no report."""
    from virtoll.campaign.pipeline import experiment_of
    from virtoll.campaign.preview import needs_lab
    from virtoll.campaign.requirements import images_of, needs_kernel, own_kernels
    from virtoll.runfolder.store import RunFolder

    opened = RunFolder.open(folder)
    opened.read_every_record()
    experiment = experiment_of(opened)
    if not needs_lab(experiment):
        _resume_here(folder)
    else:
        prepare_outside(*images_of(experiment), kernel=needs_kernel(experiment), kernels=own_kernels(experiment))
        check_lab()
        _leave_unless_done(in_lab(experiment, ["in-lab-resume", str(folder)]))


def report(
    run: RunArgument = "latest",
    *,
    claims: ClaimsOption = None,
    need: NeedOption = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Write it anew whenever trials have ended, until the run has.")
    ] = False,
    open_page: OpenOption = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the report of a run again.

    It is one HTML page, with figures as SVG and PDF, and tables as CSV. That of a packed run is beside its archive.
    """
    del quiet
    location = found_run(run)
    if watch and location.archive is None:
        _watch(location.folder, claims or [], need or [])
    _report(location, claims=claims or [], needs=need or [], as_json=as_json, open_page=open_page)


def claims(
    run: RunArgument = "latest",
    claim_files: ClaimsOption = None,
    paper: Annotated[
        str | None,
        typer.Option(
            metavar="STUDY",
            help="Of the published claims only this study's, such as mattos2012.",
            autocompletion=complete.studies,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what a run says about the claims of papers, or yours."""
    from virtoll.claims import judge_claims, published_claims
    from virtoll.report import claims_lines, ledger_document, load_analysis

    if paper is not None and claim_files:
        raise UsageError("--paper chooses among the published claims, and --claims gives yours; leave one out")
    chosen_claims = (
        own_claims(claim_files)
        if claim_files
        else [claim for claim in published_claims() if paper in (None, claim.paper)]
    )
    if not chosen_claims:
        known = ", ".join(dict.fromkeys(claim.paper for claim in published_claims() if claim.paper))
        raise UsageError(f"--paper {paper}: no such study; choose one of: {known}")
    folder = find_run(run)
    analysis = load_analysis(folder)
    ledger = judge_claims(analysis, chosen_claims)
    tell_damage(folder)
    if as_json:
        print_json(ledger_document(analysis, ledger))
        return
    for line in claims_lines(ledger):
        say_in_columns(line)


def verify(run: RunArgument = "latest", as_json: Json = False) -> None:
    """Check that a finished run's files are unchanged.

    Exit code 1 where they are not.
    """
    from virtoll.runfolder.sums import SUMS, differences, unchecked

    there = found_run(run)
    name, folder = there.given, there.folder
    changed = differences(folder)
    if changed is None:
        raise UsageError(f"{name} has no {SUMS}: its run did not end; 'virtoll resume {name}' ends it")
    if as_json:
        print_json({"run": str(name), "whole": not changed, "differences": changed})
    for line in () if as_json else changed or (f"{name} is as it was when the run ended",):
        say(line)
    for line in unchecked(folder):
        say_on_stderr(f"virtoll: {line}")
    if changed:
        sys.exit(1)


def tell_damage(folder: Path) -> None:
    """Say on the standard error what of a finished run is not as it was: whatever follows rests on it."""
    from virtoll.report import damage_line
    from virtoll.runfolder.sums import differences

    damage = differences(folder)
    if damage:
        say_on_stderr(f"virtoll: {damage_line(damage)}")


def own_claims(paths: Sequence[Path]) -> list[Claim]:
    """The claims of a user's files, in order; ``UsageError`` where one cannot be used."""
    from virtoll.claims import load_claims

    names = claimed_names() if paths else None
    return [claim for path in paths for claim in load_claims(path, names)]


def claimed_names() -> Names:
    """All that a claim may name of what Virtoll measures."""
    from virtoll.claims import Names
    from virtoll.platforms import EVERY_PLATFORM
    from virtoll.workloads import WORKLOADS

    return Names(
        metrics={name: [metric.name for metric in kind.metrics] for name, kind in WORKLOADS.items()},
        parameters={name: list(kind.parameter_model.model_fields) for name, kind in WORKLOADS.items()},
        products=list(EVERY_PLATFORM),
        families={kind.family for kind in EVERY_PLATFORM.values()},
    )


def validation(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs: folders, names, or 'latest'.", autocompletion=complete.runs),
    ],
    tests: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="JUnit XML of the contract tests ('pytest --junitxml FILE'). Repeatable."),
    ] = None,
) -> None:
    """Print a Markdown table of functional evidence.

    For each platform: contract tests passed, trials, and what else runs show, whatever its speed.
    """
    from virtoll.platforms import PLATFORMS
    from virtoll.report import load_analysis, read_tests, validation_table

    tested = [kind for path in tests or () for kind in read_tests(_text_of(path), str(path))]
    known = {name: kind.validation for name, kind in PLATFORMS.items() if kind.needs_lab}
    lines = validation_table([load_analysis(find_run(run)) for run in runs], tested, known)
    for line in lines:
        write_out(line + "\n")


def _text_of(path: Path) -> str:
    from virtoll.runfolder.opened import read_whole

    try:
        return read_whole(path, _MOST_TESTS_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error}); give a file that 'pytest --junitxml' wrote") from error


def in_lab_run(experiment: str, into: Path, selection: str) -> None:
    """``run``, in its lab; ``selection``: JSON of a ``Selection``."""
    require_lab()
    from virtoll.experiment.selection import Selection

    _measure_here(load(experiment, Selection.of_record(json.loads(selection))), into)


def in_lab_block(experiment: str, into: Path, selection: str, blocks: str) -> None:
    """``campaign block``, in its lab; ``selection``: JSON of a ``Selection``, ``blocks``: of their numbers, from 0."""
    require_lab()
    from virtoll.experiment.selection import Selection

    _measure_here(load(experiment, Selection.of_record(json.loads(selection))), into, tuple(json.loads(blocks)))


def in_lab_consolidation(text: str, into: Path) -> None:
    """``consolidation``, in its lab; ``text``: the experiment's YAML."""
    require_lab()
    from virtoll.campaign.preview import catalogue
    from virtoll.experiment.parse import parse_experiment

    _measure_here(parse_experiment(text, Path("virtoll consolidation"), catalogue()), into)


def in_lab_resume(into: Path) -> None:
    """``resume``, in its lab."""
    require_lab()
    _resume_here(into)


def in_lab_extend(into: Path, blocks: int) -> None:
    """``extend``, in its lab; ``blocks``: how many in all."""
    require_lab()
    _extend_here(into, blocks)


def measure_into(experiment: Experiment, folder: Path, blocks: tuple[int, ...] = ()) -> None:
    """Measure an experiment, or what was chosen of it, into a new run folder; no report.

    ``blocks``: a part of a campaign, with these blocks alone; none: all of it.
    """
    chosen_of_it = json.dumps(experiment.selection.as_record())
    inside = ["in-lab-block" if blocks else "in-lab-run", str(experiment.file.absolute()), str(folder), chosen_of_it]
    _measure(experiment, folder, [*inside, *([json.dumps(blocks)] if blocks else [])], blocks)


def _measure(experiment: Experiment, folder: Path, inside: list[str], blocks: tuple[int, ...] = ()) -> None:
    """Measure here where all platforms are models, else in a lab by the command ``inside``."""
    from virtoll.campaign.preview import needs_lab
    from virtoll.campaign.requirements import images_of, needs_kernel, own_kernels

    if not needs_lab(experiment):
        _measure_here(experiment, folder, blocks)
    else:
        prepare_outside(*images_of(experiment), kernel=needs_kernel(experiment), kernels=own_kernels(experiment))
        check_lab()
        _leave_unless_done(in_lab(experiment, inside))


def _measure_here(experiment: Experiment, folder: Path, blocks: tuple[int, ...] = ()) -> None:
    from virtoll.campaign.parts import only_blocks
    from virtoll.campaign.pipeline import measure
    from virtoll.campaign.preview import estimate, plan_of
    from virtoll.campaign.requirements import possible
    from virtoll.cli.plan_words import against_lines

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

    _with_progress(work, folder)


def _resume_here(folder: Path) -> None:
    from virtoll.campaign.pipeline import resume as resume_run

    _with_progress(lambda progress: resume_run(folder, progress, _look_at), folder)


def _extend_here(folder: Path, blocks: int) -> None:
    from virtoll.campaign.pipeline import extend as extend_run

    command = ["virtoll", "extend", str(folder), "--blocks", str(blocks)]
    _with_progress(lambda progress: extend_run(folder, blocks, command, progress), folder)


def _look_at(folder: RunFolder, blocks: int) -> LookRecord:
    """What the results so far decide; what analyses is imported at the first look, between two blocks."""
    from virtoll.report.build import look_at

    return look_at(folder, blocks)


def _with_progress(work: Callable[[Any], None], folder: Path) -> None:
    """Do the work with a display; an interrupt leaves a whole run folder that says how to go on.

    The folder is held until its state is final, so that no reader takes a run that is being ended for a killed one.
    """
    from virtoll.campaign.progress import SilentProgress
    from virtoll.cli.progress import LiveProgress, Names, PlainProgress
    from virtoll.lab.interrupts import interruptible
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
        except (StorageError, LabError) as error:
            _interrupted(folder, str(error))
            raise
        except MemoryError:
            _interrupted(folder, NO_MEMORY)
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


def in_lab(
    experiment: Experiment,
    arguments: list[str],
    own_variables: Mapping[str, str] | None = None,
    own_descriptors: Sequence[int] = (),
) -> int:
    """Enter the lab; the agents of a testbed's hosts are started before, because the way to them is outside.

    ``own_variables`` and ``own_descriptors`` are what the command in the lab is given besides.
    """
    from virtoll.host.tuning import for_the_lab
    from virtoll.hosts.nodes import on_its_nodes
    from virtoll.hosts.session import open_session
    from virtoll.image.clone import built_agent
    from virtoll.lab.launch import run_in_lab
    from virtoll.platforms.ssh.driver import check_before

    testbed = on_its_nodes(experiment.testbed) if experiment.testbed is not None else None
    check_before([choice.parameters for choice in experiment.platforms], testbed)
    _prepare_nested_hosts(experiment)
    with open_session(testbed, built_agent()) as (variables, descriptors):
        lab_variables = {**variables, **for_the_lab(), **(own_variables or {})}
        return run_in_lab(arguments, lab_variables, (*descriptors, *own_descriptors))


def _prepare_nested_hosts(experiment: Experiment) -> None:
    """The files of the nested hosts that it names; one that cannot be made costs its own platforms, not the run."""
    if not experiment.nested_hosts:
        return
    from virtoll.nested import NESTED_HOSTS, prepare_nested_host

    for name in sorted(set(experiment.nested_hosts) & set(NESTED_HOSTS)):
        try:
            prepare_nested_host(NESTED_HOSTS[name], progress=say_on_stderr)
        except ImageError as error:
            say_on_stderr(f"virtoll: {error}")


def _leave_unless_done(code: int) -> None:
    """Inside, the error was printed already, in one sentence; a run that did not end keeps its exit code."""
    if code != 0:
        sys.exit(code)


def _watch(folder: Path, claims: Sequence[Path], needs: Sequence[str]) -> None:
    """Write the report while the run goes on: at once, and then whenever its records have grown."""
    from virtoll.api.needs import adviser_of
    from virtoll.report import build_report
    from virtoll.runfolder.overview import state_now

    claim_list, adviser, thresholds = own_claims(claims), adviser_of(folder, needs), asked_of(folder)
    for _ in grown(folder, _WATCH_SECONDS):
        built = build_report(
            folder, claims=claim_list, renewed_seconds=_WATCH_SECONDS, adviser=adviser, thresholds=thresholds
        )
        done = len({record.trial for record in built.analysis.data.every_trial})
        tell_on_stderr(f"{done} of {len(built.analysis.data.manifest.plan.trials)} trials: {built.path}")
    if state_now(folder) == "killed":
        say_on_stderr(f"virtoll: this run was killed, and nothing more comes; continue it: virtoll resume {folder}")


def _report(
    run: Path | FoundRun,
    *,
    claims: Sequence[Path] = (),
    needs: Sequence[str] = (),
    as_json: bool = False,
    gated: bool = False,
    open_page: bool = False,
) -> ReportResult:
    """Write a report and print its first screen, or its path alone, or all of it as JSON; what was made.

    `gated`: a gate is told after it.
    """
    from virtoll.api.needs import adviser_of
    from virtoll.report import (
        advice_lines,
        answer_terminal,
        at_once_terminal,
        build_report,
        consolidation_lines,
        counts_line,
        gate_lines,
        isolation_terminal,
        report_document,
    )

    location = FoundRun(run) if isinstance(run, Path) else run
    folder = location.folder
    claim_list, adviser, thresholds = own_claims(claims), adviser_of(folder, needs), asked_of(folder)
    say_progress("writing the report ...")
    built = build_report(folder, location.report, claim_list, adviser=adviser, thresholds=thresholds)
    analysis, damage = built.analysis, built.damage
    if open_page:
        show_page(built.path)
    if as_json:
        print_json(
            report_document(analysis, built.ledger, location.given, built.path, damage, built.advice, gate=built.gate)
        )
        return built
    if is_quiet():
        say(str(built.path))
        return built
    width = columns()
    if analysis.at_once.points:
        shown = at_once_terminal(analysis, width, damage or ())
    else:
        shown = [*answer_terminal(analysis, width, damage or ()), *isolation_terminal(analysis, width)]
    for part in shown:
        console().print(part, width=width)
    for line in ["", *gate_lines(built.gate), ""] if built.gate is not None and not gated else ():
        say_in_columns(line)
    for line in ["", *advice_lines(built.advice), ""] if built.advice is not None else ():
        say_in_columns(line)
    for line in (*consolidation_lines(analysis), f"claims: {counts_line(built.ledger)} 'virtoll claims' has them"):
        say_in_columns(line)
    say_page("report: ", built.path)
    return built
