"""``virtoll list``: platforms, workloads, experiments, runs and figures."""

from __future__ import annotations

from typing import Any

import typer

from virtoll.cli.folders import run_folders
from virtoll.cli.output import Json, show
from virtoll.cli.plan import load
from virtoll.errors import VirtollError

app = typer.Typer(help="What there is: platforms, workloads, experiments, runs, figures.", no_args_is_help=True)


@app.command("platforms")
def list_platforms(as_json: Json = False) -> None:
    """Every way to run a guest that Virtoll knows ('virtoll doctor' tries which of them work here)."""
    from virtoll.experiment.describe import describe_parameters
    from virtoll.platforms import PLATFORMS
    from virtoll.platforms.base import VALIDATION_WORDS

    rows = [
        {
            "name": name,
            "family": kind.family,
            "title": kind.title,
            "validation": VALIDATION_WORDS.get(kind.validation, kind.validation),
            "parameters": describe_parameters(kind.parameter_model),
        }
        for name, kind in PLATFORMS.items()
    ]
    show(rows, as_json)


@app.command("workloads")
def list_workloads(as_json: Json = False) -> None:
    """Every workload, with its parameters and metrics."""
    from virtoll.experiment.describe import describe_parameters
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
    show(rows, as_json)


@app.command("experiments")
def list_experiments(as_json: Json = False) -> None:
    """The experiments that come with Virtoll."""
    from virtoll.experiment.parse import presets
    from virtoll.run.preview import estimate, plan_of

    rows = []
    for path in sorted(presets().glob("*.yaml"), key=lambda path: path.stem):
        experiment = load(str(path))
        planned = plan_of(experiment)
        rows.append(
            {
                "name": experiment.name,
                "question": experiment.question,
                "trials": len(planned.trials),
                "minutes": round(estimate(planned) / 60, 1),
            }
        )
    show(rows, as_json)


@app.command("runs")
def list_runs(as_json: Json = False) -> None:
    """The runs in the runs folder, oldest first."""
    from virtoll.runfolder.store import RunFolder

    rows: list[dict[str, Any]] = []
    for path in run_folders():
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
    show(rows, as_json)


@app.command("figures")
def list_figures(as_json: Json = False) -> None:
    """The figures that a report can hold."""
    from virtoll.report.figures import FIGURES, SERIES

    rows = [{"name": name, "title": figure.title} for name, figure in FIGURES.items()]
    show(rows + [{"name": name, "title": series.title} for name, series in SERIES.items()], as_json)
