"""``virtoll claims``: what a run says of claims, those of papers or a user's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from virtoll.api.folders import find_run
from virtoll.cli import complete, options
from virtoll.cli.output import Json, print_json, say_in_columns
from virtoll.cli.verify import tell_damage
from virtoll.errors import UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from virtoll.claims import Claim, Names
    from virtoll.claims.names import Values


def claims(
    run: options.Run = "latest",
    claim_files: options.Claims = None,
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
    if claim_files:
        chosen_claims = own_claims(claim_files)
    else:
        chosen_claims = [claim for claim in published_claims() if paper in (None, claim.paper)]
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


def own_claims(paths: Sequence[Path]) -> list[Claim]:
    """The claims of a user's files, in order; ``UsageError`` where one cannot be used."""
    from virtoll.claims import load_claims

    names = claimed_names() if paths else None
    return [claim for path in paths for claim in load_claims(path, names)]


def claimed_names() -> Names:
    """All that a claim may name of what Virtoll measures."""
    from virtoll.claims import Names
    from virtoll.platforms import EVERY_PLATFORM
    from virtoll.runfolder.conditions import LOAD_WORDS
    from virtoll.stats.compared import NOTHING
    from virtoll.workloads import WORKLOADS

    metrics, parameters, forwarding = {}, {}, set()
    for name, kind in WORKLOADS.items():
        metrics[name] = [metric.name for metric in kind.metrics]
        parameters[name] = _parameters(kind.parameter_model)
        if kind.metrics[0].source == "points":
            forwarding.add(name)
    return Names(
        metrics=metrics,
        parameters=parameters,
        products=list(EVERY_PLATFORM),
        families={kind.family for kind in EVERY_PLATFORM.values()},
        loads=[*LOAD_WORDS, NOTHING],
        forwarding=forwarding,
    )


def _parameters(model: type[BaseModel]) -> dict[str, Values]:
    """What each parameter of a workload may be."""
    from virtoll.claims.names import Values
    from virtoll.experiment.describe import allowed_values, number_range, recorded_value

    parameters = {}
    for name, field in model.model_fields.items():
        least, most = number_range(field)
        parameters[name] = Values(allowed_values(field), partial(recorded_value, field), least, most)
    return parameters
