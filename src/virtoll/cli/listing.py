"""``virtoll list``: platforms, workloads, experiments, runs and figures."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from virtoll.api.folders import run_folders
from virtoll.cli.groups import Cli
from virtoll.cli.loading import load
from virtoll.cli.output import Json, print_json, show, show_lines
from virtoll.errors import VirtollError
from virtoll.units import timestamp

app = Cli(help="List platforms, workloads, experiments, runs or figures.")


@app.command("platforms")
def list_platforms(as_json: Json = False) -> None:
    """List every way to run a guest that Virtoll knows.

    'virtoll show platform NAME' has all of one, 'virtoll doctor' tries which of them work here.
    """
    from virtoll.platforms import PLATFORMS
    from virtoll.platforms.base import VALIDATION_WORDS

    if not as_json:
        show_lines(("name", "what it is"), [(name, kind.title) for name, kind in PLATFORMS.items()])
        return
    from virtoll.experiment.describe import describe_parameters

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
    print_json(rows)


@app.command("workloads")
def list_workloads(as_json: Json = False) -> None:
    """List every workload, by what of a host it stresses.

    'virtoll show workload NAME' has all of one.
    """
    from virtoll.workloads import WORKLOADS

    if not as_json:
        lines = [(name, workload.resource, workload.about) for name, workload in WORKLOADS.items()]
        show_lines(("name", "stresses", "what is measured"), lines)
        return
    from virtoll.experiment.describe import describe_parameters

    rows = [
        {
            "name": name,
            "title": workload.title,
            "about": workload.about,
            "resource": workload.resource,
            "metric": ", ".join(metric.words for metric in workload.metrics),
            "parameters": describe_parameters(workload.parameter_model),
        }
        for name, workload in WORKLOADS.items()
    ]
    print_json(rows)


@app.command("experiments")
def list_experiments(as_json: Json = False) -> None:
    """List the experiments that come with Virtoll.

    'virtoll show experiment NAME' has all of one, with its whole question.
    """
    from virtoll.experiment.parse import presets
    from virtoll.pipeline.preview import estimate, plan_of

    rows: list[dict[str, Any]] = []
    for path in sorted(presets().glob("*.yaml"), key=lambda path: path.stem):
        experiment = load(str(path))
        planned = plan_of(experiment)
        rows.append(
            {
                "name": experiment.name,
                "question": experiment.question,
                "platforms": len(experiment.platforms),
                "workloads": len(experiment.workloads),
                "trials": len(planned.trials),
                "minutes": round(estimate(planned) / 60, 1),
            }
        )
    if as_json:
        print_json(rows)
        return
    lines = [(row["name"], f"{row['platforms']} x {row['workloads']}", row["question"]) for row in rows]
    show_lines(("name", "cells", "question (cells: platforms x workloads)"), lines)


@app.command("runs")
def list_runs(as_json: Json = False) -> None:
    """List the runs in the runs folder, newest last.

    The host, by its fingerprint, is in the list where the runs are of several; --json has it always.
    """
    rows = [_run_row(path) for path in run_folders()]
    if as_json:
        show(rows, as_json)
        return
    lines = [{"run": row["run"], "state": row["state"]} for row in rows]
    for line, row in zip(lines, rows, strict=True):
        if row["trials"]:
            line["state"] += f", {row['trials']} trials"
        line["created"] = row["created"] and f"{datetime.fromisoformat(row['created']).astimezone():%Y-%m-%d %H:%M}"
        if len({listed["host"] for listed in rows}) > 1:
            line["host"] = row["host"]
    show(lines, as_json)


def _run_row(path: Path) -> dict[str, str]:
    """What a list has of a run; of one that is damaged the reason alone."""
    from virtoll.runfolder.overview import overview

    row = dict.fromkeys(("run", "experiment", "state", "trials", "created", "host"), "")
    try:
        summary = overview(path)
    except VirtollError as error:
        return row | {"run": path.name, "state": f"damaged: {error}"}
    return {
        "run": path.name,
        "experiment": summary.experiment,
        "state": summary.state,
        "trials": f"{summary.finished} of {summary.planned}",
        "created": f"{timestamp(summary.created_ns)}Z",
        "host": summary.host,
    }


@app.command("figures")
def list_figures(as_json: Json = False) -> None:
    """List the figures that a report can hold."""
    from virtoll.report.figures import FIGURES, SERIES

    rows = [{"name": name, "title": figure.title} for name, figure in FIGURES.items()]
    show(rows + [{"name": name, "title": series.title} for name, series in SERIES.items()], as_json)
