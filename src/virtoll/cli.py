"""The command line. It prints and exits; everything else raises.

A command that starts guests runs twice: once outside, where it checks its input and enters the lab, and once inside,
as the hidden command of the same name with a leading ``in-lab``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from virtoll import __version__, cli_image, cli_plan, cli_testbed
from virtoll.cli_plan import (
    ExperimentArgument,
    OnlyOption,
    PlatformOption,
    SizeOption,
    SkipOption,
    WorkloadOption,
    chosen,
    load,
)
from virtoll.errors import ImageError, Interrupted, LabError, StorageError, UsageError, VirtollError
from virtoll.experiment import (
    Experiment,
    describe_parameters,
    parse_experiment,
)
from virtoll.lab import interrupts
from virtoll.lab.launch import inside_lab, probe_namespaces, run_in_lab, sweep_dead_labs
from virtoll.selection import Selection

app = typer.Typer(
    name="virtoll",
    help="What a virtualisation platform costs against the bare host, on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
listing = typer.Typer(help="What there is: platforms, workloads, experiments, runs, figures.", no_args_is_help=True)
app.add_typer(listing, name="list")
app.add_typer(cli_testbed.app, name="testbed")
app.add_typer(cli_image.app, name="image")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
RunArgument = Annotated[str, typer.Argument(help="A run's folder, its name, or 'latest'.", metavar="RUN")]

console = Console()
errors = Console(stderr=True)


def main() -> None:
    """Entry point: turns an error into one sentence on standard error and its exit code."""
    try:
        app()
    except VirtollError as error:
        errors.print(f"virtoll: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        errors.print("virtoll: interrupted", markup=False)
        sys.exit(Interrupted.exit_code)


def runs_directory() -> Path:
    """Where runs are kept: $VIRTOLL_RUNS, else ``runs`` in the current folder."""
    return Path(os.environ.get("VIRTOLL_RUNS", "runs")).absolute()


def find_run(name: str) -> Path:
    """The folder of a run, by path, by name, or the newest by ``latest``."""
    for candidate in (Path(name), runs_directory() / name):
        if (candidate / "manifest.json").is_file():
            return candidate.absolute()
    known = _run_folders()
    if name == "latest" and known:
        return known[-1]
    raise UsageError(
        f"no run {name!r} in {runs_directory()}; see 'virtoll list runs', or give the path of a run's folder"
    )


def _run_folders() -> list[Path]:
    return sorted(path.parent for path in runs_directory().glob("*/manifest.json"))


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        console.print(f"virtoll {__version__}", highlight=False)
        raise typer.Exit


@app.command()
def run(
    experiment: ExperimentArgument = "quick",
    into: Annotated[Path | None, typer.Option(help="The run's folder; a new one below 'runs' when not given.")] = None,
    size: SizeOption = None,
    platform: PlatformOption = None,
    workload: WorkloadOption = None,
    only: OnlyOption = None,
    skip: SkipOption = None,
) -> None:
    """Measure an experiment, or what is chosen of it, and write its report."""
    selection = chosen(size, platform, workload, only, skip)
    checked = load(experiment, selection)
    folder = _new_folder(checked, into)
    words = json.dumps(selection.as_record())
    _measure(checked, folder, ["in-lab-run", str(checked.file.absolute()), str(folder), words])


@app.command()
def density(
    platforms: Annotated[list[str], typer.Argument(help="Platforms, each as NAME or NAME:key=value,key=value.")],
    memory: Annotated[str, typer.Option(help="The host's memory that may be used, such as 2GiB.")] = "1GiB",
    limit: Annotated[int, typer.Option(help="At most so many guests.")] = 1000,
    guest_memory: Annotated[str, typer.Option(help="What each guest is given.")] = "128MiB",
    into: Annotated[Path | None, typer.Option(help="The run's folder; a new one below 'runs' when not given.")] = None,
) -> None:
    """Count the idle guests that fit into a budget of the host's memory, and what each takes of it."""
    import yaml

    from virtoll.run import catalogue
    from virtoll.shell import given_platform

    document = {
        "name": "density",
        "question": f"How many idle guests fit into {memory} of this host's memory?",
        "scenario": "density",
        "platforms": [given_platform(platform) for platform in platforms],
        "guest": {"memory": guest_memory},
        "density": {"memory": memory, "guests": limit},
    }
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    checked = parse_experiment(text, Path("virtoll density"), catalogue())
    folder = _new_folder(checked, into)
    _measure(checked, folder, ["in-lab-density", text, str(folder)])


@app.command()
def resume(run: RunArgument = "latest") -> None:
    """Go on with a run that was interrupted or killed: finished trials are kept, the rest is measured."""
    from virtoll.run import experiment_of, needs_lab
    from virtoll.samples import RunFolder

    folder = find_run(run)
    experiment = experiment_of(RunFolder.open(folder))
    if not needs_lab(experiment):
        _resume_here(folder)
    else:
        _prepare_outside(experiment.image)
        _check_lab()
        _leave_unless_done(_in_lab(experiment, ["in-lab-resume", str(folder)]))
    _report(folder, headline=True)


@app.command()
def report(run: RunArgument = "latest", as_json: Json = False) -> None:
    """Write the report of a run (again): one HTML page, figures as SVG and PDF, tables as CSV."""
    _report(find_run(run), headline=True, as_json=as_json)


@app.command()
def evidence(
    runs: Annotated[list[str], typer.Argument(help="Runs: folders, names, or 'latest'.", metavar="RUN...")],
    tests: Annotated[
        list[Path] | None, typer.Option(help="JUnit XML of the contract tests ('pytest --junitxml FILE'); repeatable.")
    ] = None,
) -> None:
    """Print what runs and contract tests show of each platform, whatever its speed, as a Markdown table."""
    from virtoll.platforms import PLATFORMS
    from virtoll.report import evidence_table, load_analysis, read_tests

    tested = [kind for path in tests or () for kind in read_tests(_text_of(path), str(path))]
    known = {name: kind.validation for name, kind in PLATFORMS.items() if kind.needs_lab}
    lines = evidence_table([load_analysis(find_run(run)) for run in runs], tested, known)
    for line in lines:
        sys.stdout.write(line + "\n")


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error}); give a file that 'pytest --junitxml' wrote") from error


app.command()(cli_plan.plan)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what works on this host, what does not, why, and what to do about it.

    Exit code 1 when nothing can be measured.
    """
    from virtoll.doctor import host_checks, hypervisors_here

    checks, hypervisors = host_checks(), hypervisors_here()
    if any(check.blocks for check in checks):
        _show_checks(checks, hypervisors, [], as_json)
        raise typer.Exit(1)
    from virtoll.unprivileged import asked

    _prepare_outside("tiny")
    with asked() as descriptor:
        arguments = ["in-lab-doctor", "--hypervisors", json.dumps(hypervisors), *(["--json"] if as_json else [])]
        if descriptor is not None:
            arguments += ["--unprivileged", str(descriptor)]
        code = run_in_lab(arguments, descriptors=() if descriptor is None else (descriptor,))
    sys.exit(code)


@app.command()
def clean(
    cache: Annotated[
        bool, typer.Option("--cache", help="Remove the image cache too; the next run builds it anew.")
    ] = False,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            help="Also what they left in the products there: 'local', user@host of ssh's, or an experiment's file for "
            "the ESXi hosts that it names.",
        ),
    ] = None,
) -> None:
    """Remove what killed runs left on the host (there should be nothing); finished trials are never touched."""
    from virtoll.cleaning import by_api, clean_by_api, clean_host, host_to_clean, is_experiment
    from virtoll.image import default_cache
    from virtoll.platforms import PLATFORMS

    there = [host_to_clean(one) for one in host or () if not is_experiment(one)]
    interfaces = [choice for one in host or () if is_experiment(one) for choice in by_api(load(one), PLATFORMS)]
    removed = [*sweep_dead_labs(), *map(str, default_cache().sweep())]
    for one in there:
        found, silent = clean_host(one, PLATFORMS)
        removed += found
        for told in silent:
            console.print(f"not asked on {one.name}: {told}", highlight=False, markup=False, soft_wrap=True)
    removed += clean_by_api(interfaces, PLATFORMS)
    if cache:
        default_cache().clear()
        removed.append(str(default_cache().home))
    for path in removed:
        console.print(f"removed {path}", highlight=False, markup=False, soft_wrap=True)
    if not removed:
        console.print("nothing to remove")


@app.command()
def shell(
    platform: Annotated[str, typer.Argument(help="A platform, with parameters as NAME or NAME:key=value,key=value.")],
) -> None:
    """An interactive shell (busybox) in a guest of the platform, for debugging."""
    _prepare_outside("debug")
    _check_lab()
    from virtoll.shell import parse_platform

    parse_platform(platform)
    sys.exit(run_in_lab(["in-lab-shell", platform]))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def wire(context: typer.Context) -> None:
    """Generator and sink alone: send, receive, calibrate.

    All arguments go to the agent's own command line: see 'virtoll wire --help'.
    """
    from virtoll.paths import built_agent

    agent = built_agent()
    if not agent.is_file():
        raise UsageError(f"the agent {agent} is missing; run 'make agent'")
    console.file.flush()
    os.execv(agent, [str(agent), "wire", *context.args])  # noqa: S606 - the agent becomes this process


@listing.command("platforms")
def list_platforms(as_json: Json = False) -> None:
    """Every way to run a guest that Virtoll knows ('virtoll doctor' tries which of them work here)."""
    from virtoll.platforms import PLATFORMS
    from virtoll.platforms.base import VALIDATION_WORDS

    rows = [
        {
            "name": name,
            "family": kind.family,
            "title": kind.title,
            "evidence": VALIDATION_WORDS.get(kind.validation, kind.validation),
            "parameters": describe_parameters(kind.parameter_model),
        }
        for name, kind in PLATFORMS.items()
    ]
    _show(rows, as_json)


@listing.command("workloads")
def list_workloads(as_json: Json = False) -> None:
    """Every workload, with its parameters and metrics."""
    from virtoll.workloads import WORKLOADS

    rows = [
        {
            "name": name,
            "resource": workload.resource,
            "metric": ", ".join(f"{m.name} in {m.unit}, {m.better} is better" for m in workload.metrics),
            "parameters": describe_parameters(workload.parameter_model),
        }
        for name, workload in WORKLOADS.items()
    ]
    _show(rows, as_json)


@listing.command("experiments")
def list_experiments(as_json: Json = False) -> None:
    """The experiments that come with Virtoll."""
    from virtoll import paths
    from virtoll.plan import make_plan
    from virtoll.run import estimate

    rows = []
    for path in sorted(paths.experiments().glob("*.yaml")):
        experiment = load(str(path))
        planned = make_plan(experiment)
        rows.append(
            {
                "name": experiment.name,
                "question": experiment.question,
                "trials": len(planned.trials),
                "minutes": round(estimate(planned) / 60, 1),
            }
        )
    _show(rows, as_json)


@listing.command("runs")
def list_runs(as_json: Json = False) -> None:
    """The runs in the runs folder, oldest first."""
    from virtoll.samples import RunFolder

    rows: list[dict[str, Any]] = []
    for path in _run_folders():
        try:
            folder = RunFolder.open(path)
            finished, planned = len(folder.finished_trials()), len(folder.manifest.plan.trials)
            name = folder.manifest.experiment["name"]
            rows.append(
                {
                    "run": path.name,
                    "experiment": name,
                    "state": folder.state().state,
                    "trials": f"{finished} of {planned}",
                }
            )
        except VirtollError as error:
            rows.append({"run": path.name, "experiment": "", "state": str(error), "trials": ""})
    _show(rows, as_json)


@listing.command("figures")
def list_figures(as_json: Json = False) -> None:
    """The figures that a report can hold."""
    from virtoll.report.figures import FIGURES

    _show([{"name": name, "title": figure.title} for name, figure in FIGURES.items()], as_json)


@app.command("in-lab-run", hidden=True)
def _in_lab_run(experiment: str, into: Path, selection: str) -> None:
    _require_lab()
    _measure_here(load(experiment, Selection.of_record(json.loads(selection))), into)


@app.command("in-lab-density", hidden=True)
def _in_lab_density(text: str, into: Path) -> None:
    _require_lab()
    from virtoll.run import catalogue

    _measure_here(parse_experiment(text, Path("virtoll density"), catalogue()), into)


@app.command("in-lab-resume", hidden=True)
def _in_lab_resume(into: Path) -> None:
    _require_lab()
    _resume_here(into)


@app.command("in-lab-doctor", hidden=True)
def _in_lab_doctor(as_json: Json = False, unprivileged: int | None = None, hypervisors: str = "[]") -> None:
    _require_lab()
    from virtoll.doctor import host_checks, platform_checks

    checks, platforms = host_checks(), platform_checks(unprivileged)
    _show_checks(checks, json.loads(hypervisors), platforms, as_json)
    raise typer.Exit(0 if any(row["available"] for row in platforms if row["platform"] != "fake") else 1)


@app.command("in-lab-shell", hidden=True)
def _in_lab_shell(platform: str) -> None:
    _require_lab()
    from virtoll.shell import interact

    raise typer.Exit(interact(platform))


def _require_lab() -> None:
    if inside_lab() is None:
        raise UsageError("this command runs inside a lab only; use the one without 'in-lab-'")


def _new_folder(experiment: Experiment, into: Path | None) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder = (into or runs_directory() / f"{stamp}-{experiment.name}-{os.urandom(2).hex()}").absolute()
    try:
        taken = (folder / "manifest.json").exists()
    except OSError as error:
        raise UsageError(f"{folder}: cannot be used ({error.strerror}); give another folder with --into") from error
    if taken:
        raise UsageError(f"{folder} holds a run already; give another folder with --into, or 'virtoll resume' this one")
    return folder


def _measure(experiment: Experiment, folder: Path, inside: list[str]) -> None:
    """Measure here where all platforms are models, else in a lab by the command ``inside``; then report."""
    from virtoll.run import needs_lab

    if not needs_lab(experiment):
        _measure_here(experiment, folder)
    else:
        _prepare_outside(experiment.image)
        _check_lab()
        _leave_unless_done(_in_lab(experiment, inside))
    _report(folder, headline=True)


def _measure_here(experiment: Experiment, folder: Path) -> None:
    from virtoll.needs import possible
    from virtoll.plan import make_plan
    from virtoll.run import estimate, measure

    size = f", size {experiment.size}" if experiment.size else ""
    console.print(f"{experiment.name}{size}: {experiment.question}", highlight=False, markup=False)
    seconds = estimate(possible(make_plan(experiment), experiment))
    console.print(
        f"about {seconds / 60:.1f} minutes if every platform is available; run folder {folder}",
        highlight=False,
        soft_wrap=True,
    )
    command = ["virtoll", "run", str(experiment.file), *experiment.selection.arguments()]
    _with_progress(lambda progress: measure(experiment, folder, command, progress), folder)


def _resume_here(folder: Path) -> None:
    from virtoll.run import resume as resume_run

    _with_progress(lambda progress: resume_run(folder, progress), folder)


def _with_progress(work: Callable[[Any], None], folder: Path) -> None:
    """Do the work with a display; an interrupt leaves a whole run folder that says how to go on."""
    from virtoll.progress import LiveProgress, PlainProgress
    from virtoll.samples import RunFolder

    try:
        with interrupts.interruptible():
            if console.is_terminal:
                with LiveProgress(console).shown() as progress:
                    work(progress)
            else:
                work(PlainProgress(console))
    except KeyboardInterrupt:
        if (folder / "manifest.json").exists():
            RunFolder.open(folder).set_state("interrupted", "ended by the user")
            raise Interrupted(
                f"interrupted; what was finished is stored: continue with 'virtoll resume {folder}'"
            ) from None
        raise Interrupted("interrupted before the first trial; nothing was stored") from None
    except (StorageError, LabError) as error:
        if (folder / "manifest.json").exists():
            with suppress(VirtollError):  # a full disk may not even take this; then the run stays "running"
                RunFolder.open(folder).set_state("interrupted", str(error))
        raise


def _prepare_outside(image: str) -> None:
    """The image needs the package mirror when it is not cached: the lab has no way there."""
    from virtoll.image import prepare_image

    prepare_image(image, progress=_say)


def _say(text: str) -> None:
    """Progress before a lab is entered: beside what a program may read from the standard output."""
    errors.print(text, highlight=False, markup=False, soft_wrap=True)


def _in_lab(experiment: Experiment, arguments: list[str]) -> int:
    """Enter the lab; the agents of a testbed's hosts are started before, because the way to them is outside."""
    from virtoll.hosts.session import open_session
    from virtoll.paths import built_agent
    from virtoll.platforms.ssh_guest import check_before

    check_before([choice.parameters for choice in experiment.platforms], experiment.testbed)
    _prepare_testbeds(experiment)
    with open_session(experiment.testbed, built_agent()) as (variables, descriptors):
        return run_in_lab(arguments, variables, descriptors)


def _prepare_testbeds(experiment: Experiment) -> None:
    """The files of the nested testbeds that it names; one that cannot be made costs its own platforms, not the run."""
    kinds = {choice.host.nested for choice in experiment.platforms if choice.host is not None and choice.host.nested}
    if not kinds:
        return
    from virtoll.nested import TESTBEDS, prepare_testbed

    for name in sorted(kinds & set(TESTBEDS)):
        try:
            prepare_testbed(TESTBEDS[name], progress=_say)
        except ImageError as error:
            errors.print(f"virtoll: {error}", markup=False, highlight=False, soft_wrap=True)


def _check_lab() -> None:
    reason = probe_namespaces()
    if reason is not None:
        raise UsageError(reason)


def _leave_unless_done(code: int) -> None:
    """Inside, the error was printed already, in one sentence; a run that did not end keeps its exit code."""
    if code != 0:
        sys.exit(code)


def _report(folder: Path, *, headline: bool, as_json: bool = False) -> None:
    from virtoll.report import build_report, density_lines, headline_table

    built = build_report(folder)
    if as_json:
        rows = [asdict(row) for row in built.headline]
        _print_json({"run": str(folder), "report": str(built.path), "headline": rows})
        return
    if headline and not built.analysis.densities:
        console.print(headline_table(built.analysis))
    for line in density_lines(built.analysis):
        console.print(line, highlight=False, soft_wrap=True)
    console.print(f"report: {built.path}", highlight=False, soft_wrap=True)


def _show_checks(
    checks: list[Any], hypervisors: list[dict[str, Any]], platforms: list[dict[str, Any]], as_json: bool
) -> None:
    host = [check.as_row() for check in checks]
    if as_json:
        _print_json({"host": host, "hypervisors": hypervisors, "platforms": platforms})
        return
    for rows in (host, hypervisors, platforms):
        if rows:
            _show(rows, False)


def _show(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Rows as a table for a person or as JSON for a program; all rows have the same keys."""
    if as_json:
        _print_json(rows)
        return
    if not rows:
        console.print("none")
        return
    table = Table(show_edge=False)
    for key in rows[0]:
        table.add_column(key.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console.print(table)


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}: {text}" for key, text in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)


def _print_json(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=1) + "\n")
