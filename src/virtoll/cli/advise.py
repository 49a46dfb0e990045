"""``virtoll advise``: which platforms of a run meet a need. It makes the needs of options, and prints the advice."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from virtoll.api.folders import find_run
from virtoll.cli import options
from virtoll.cli.output import Json, print_json, say, say_in_columns
from virtoll.cli.verify import tell_damage
from virtoll.errors import UsageError

NeedsOption = Annotated[Path | None, typer.Option("--needs", metavar="FILE", help="A YAML file with a list of needs.")]


def advise(
    run: options.Run = "latest", *, need: options.Need = None, needs: NeedsOption = None, as_json: Json = False
) -> None:
    """Print which platforms of a run meet a need.

    With what margin, and which experiment would answer the rest.

    Without --need and --needs it is the need of the run's experiment.
    """
    texts = [*(need or []), *(_read(needs) if needs is not None else [])]
    folder = find_run(run)
    from virtoll.advise import advise as advised
    from virtoll.api.needs import experiments_of, known_workloads, needs_of
    from virtoll.report import load_analysis
    from virtoll.report.advice import advice_document, all_advice_lines, experiment_line

    parts = needs_of(folder, texts)
    if not parts:
        raise UsageError(
            "there is no need; give --need, such as --need 'router 64B 200kpps loss<0.1%', or 'needs' in an experiment"
        )
    advice = advised(load_analysis(folder), parts, known_workloads())
    experiments = experiments_of(advice)
    tell_damage(folder)
    if as_json:
        print_json(advice_document(advice, experiments))
        return
    for line in all_advice_lines(advice):
        say_in_columns(line)
    for each in experiments:
        say("")
        say_in_columns(experiment_line(each))
        if each.text is not None:
            say(each.text.rstrip())


def _read(path: Path) -> list[str]:
    """The needs of a file."""
    from virtoll.api.needs import parts_of
    from virtoll.runfolder.yaml_file import parse_yaml, read_text

    needs = parse_yaml(read_text(path), str(path))
    if not isinstance(needs, list) or not needs or not all(isinstance(need, str) for need in needs):
        raise UsageError(f"{path}: must be a list of needs, each a text such as 'oltp p99<20ms'")
    parts_of(needs, f"{path}: ")
    return needs
