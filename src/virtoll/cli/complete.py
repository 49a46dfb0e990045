"""What a shell offers while a command is typed: names that are known without measuring or analysing anything.

Each function is the ``autocompletion`` of options and arguments. It gets what was typed so far, and returns everything
that fits its place; typer keeps what begins like it. What cannot be read offers nothing: this is no place for a
complaint.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import typer

from virtoll.errors import VirtollError

_PLAIN: Final = re.compile(r"(?!-)[\w.,:=@%+/-]+")


def _plain(names: Iterable[str]) -> list[str]:
    """The names that every shell takes as they are: it inserts what is offered, and would run what some of them say."""
    return [name for name in names if _PLAIN.fullmatch(name)]


def experiments(incomplete: str) -> list[str]:
    """The presets, and the YAML files of the folder that was begun to be typed."""
    from virtoll.experiment.parse import presets

    folder = incomplete[: incomplete.rfind("/") + 1]
    files = []
    if not folder:
        files = sorted(path.stem for path in presets().glob("*.yaml"))
    with contextlib.suppress(OSError):
        files += sorted(
            folder + path.name for path in Path(folder or ".").iterdir() if path.suffix in {".yaml", ".yml"}
        )
    return _plain(files)


def runs() -> list[str]:
    """``latest``, then the runs in the runs folder, newest first."""
    from virtoll.api.folders import run_folders

    names = _plain(path.name for path in reversed(run_folders()))
    return ["latest", *names] if names else []


def studies() -> list[str]:
    """The studies of the presets, by the line in which each names its own."""
    from virtoll.experiment.parse import presets

    names = set()
    for path in presets().glob("*.yaml"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("study:"):
                names.add(line.partition(":")[2].strip())
    return sorted(names)


def sizes() -> list[str]:
    """The sizes that an experiment can have."""
    from virtoll.experiment.sizes import SIZES

    return list(SIZES)


def platforms() -> list[str]:
    """The platforms that a guest can be started on."""
    from virtoll.platforms import PLATFORMS

    return list(PLATFORMS)


def workloads() -> list[str]:
    """All workloads."""
    from virtoll.workloads import WORKLOADS

    return list(WORKLOADS)


def platforms_of_it(ctx: typer.Context) -> list[str]:
    """The labels and names of the platforms of the experiment or run that the command names; else all names."""
    cells = _cells(ctx)
    return platforms() if cells is None else _plain(cells[0])


def workloads_of_it(ctx: typer.Context) -> list[str]:
    """The workloads of the experiment or run that the command names; else all."""
    cells = _cells(ctx)
    return workloads() if cells is None else _plain(cells[1])


def patterns(ctx: typer.Context) -> list[str]:
    """``PLATFORM:WORKLOAD``, each of both also as ``*``."""
    labels, names = [*platforms_of_it(ctx), "*"], [*workloads_of_it(ctx), "*"]
    return [f"{label}:{name}" for label in labels for name in names if (label, name) != ("*", "*")]


def images() -> list[str]:
    """The guest images."""
    from virtoll.image import IMAGES

    return list(IMAGES)


def forms() -> list[str]:
    """The forms that can be made of an image."""
    from typing import get_args

    from virtoll.image import FormName

    return list(get_args(FormName))


def nested_hosts() -> list[str]:
    """The kinds of nested hosts."""
    from virtoll.nested import NESTED_HOSTS

    return list(NESTED_HOSTS)


def checks() -> list[str]:
    """The checks of the self-test."""
    from virtoll.selftest.experiments import EXPERIMENTS

    return list(EXPERIMENTS)


def _cells(ctx: typer.Context) -> tuple[Iterable[str], Iterable[str]] | None:
    """The platforms and workloads of what the command names; None if it names neither experiment nor run."""
    try:
        if "run" in ctx.params:
            return _cells_of_run(_named(ctx, "run"))
        if "study" in ctx.params or "experiment" not in ctx.params:
            return None
        return _cells_of_experiment(_named(ctx, "experiment"), ctx.params.get("size"))
    except (VirtollError, OSError):
        return (), ()


def _cells_of_experiment(name: str, size: str | None) -> tuple[Iterable[str], Iterable[str]]:
    """The labels and names of its platforms, and its workloads, once it is checked as the command checks it."""
    from virtoll.cli.loading import load
    from virtoll.experiment.selection import Selection

    experiment = load(name, Selection(size=size or None))
    labels = [choice.label for choice in experiment.platforms]
    platforms = dict.fromkeys([*labels, *(choice.platform for choice in experiment.platforms)])
    return platforms, dict.fromkeys(choice.workload for choice in experiment.workloads)


def _named(ctx: typer.Context, argument: str) -> str:
    """The first argument as typed: an option that has no value yet lets the parser leave it where it stood."""
    return str(ctx.args[0] if ctx.args else ctx.params[argument])


def _cells_of_run(name: str) -> tuple[list[str], list[str]]:
    """The platforms and workloads of a run's plan."""
    from virtoll.api.folders import find_run
    from virtoll.runfolder.store import RunFolder

    trials = RunFolder.open(find_run(name)).manifest.plan.trials
    platforms = {trial.platform for trial in trials}
    workloads = {trial.workload for trial in trials}
    return sorted(platforms), sorted(workloads)
