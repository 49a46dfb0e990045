"""Arguments and options that several commands share, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from virtoll.cli import complete

Experiment = Annotated[
    str,
    typer.Argument(
        metavar="EXPERIMENT",
        help="The name of an experiment, or the path of its YAML file.",
        autocompletion=complete.experiments,
    ),
]
Size = Annotated[
    str | None,
    typer.Option(
        "--size",
        metavar="SIZE",
        help="quick (without it), paper or full, in an experiment that has sizes.",
        autocompletion=complete.sizes,
    ),
]
Platform = Annotated[
    list[str] | None,
    typer.Option(
        "--platform",
        metavar="PLATFORM",
        help="Only these platforms (labels or names, with commas). Baseline and A/A control are always included. "
        "Repeatable.",
        autocompletion=complete.platforms_of_it,
    ),
]
Workload = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        metavar="WORKLOAD",
        help="Only these workloads (separated by commas). Repeatable.",
        autocompletion=complete.workloads_of_it,
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="PATTERN",
        help="Only trials that match PLATFORM:WORKLOAD (wildcards allowed). Repeatable.",
        autocompletion=complete.patterns,
    ),
]
Skip = Annotated[
    list[str] | None,
    typer.Option(
        "--skip",
        metavar="PATTERN",
        help="Skip trials that match PLATFORM:WORKLOAD, the baseline's too. Repeatable.",
        autocompletion=complete.patterns,
    ),
]
Until = Annotated[
    Literal["decided"] | None,
    typer.Option(
        "--until",
        metavar="decided",
        help="Add blocks until every verdict is known: at least the file's number, at most 12.",
    ),
]
Blocks = Annotated[
    int | None,
    typer.Option("--blocks", metavar="N", min=1, max=100_000, help="Number of blocks, instead of the file's."),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Seed of the order, instead of the file's.")]
Against = Annotated[
    list[str] | None,
    typer.Option(
        "--against",
        metavar="SETTING",
        help="Measure platforms with it too, side by side: KEY=VALUE, a folder of programs, or one. Repeatable.",
    ),
]
Into = Annotated[
    Path | None,
    typer.Option("--into", metavar="FOLDER", help="The run's folder; a new one below 'runs' when not given."),
]
Claims = Annotated[
    list[Path] | None,
    typer.Option("--claims", metavar="FILE", help="A YAML file of claims of yours (docs/claims.md). Repeatable."),
]
Need = Annotated[
    list[str] | None,
    typer.Option("--need", metavar="NEED", help="Such as 'router 64B 200kpps loss<0.1% + oltp p99<20ms'. Repeatable."),
]
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="A run's folder, its name, a packed run, or 'latest'.", autocompletion=complete.runs
    ),
]
Folder = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's folder, its name, or 'latest'.", autocompletion=complete.runs)
]
Open = Annotated[bool, typer.Option("--open", help="Open the report in a browser.")]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if", metavar="THRESHOLD", help="When it fails, such as 'runc:forward 64B slowdown>1.5x'; repeatable."
    ),
]
AllowUnknown = Annotated[
    bool, typer.Option("--allow-unknown", help="Exit with 0 where the run cannot tell, and not with 4.")
]
