#!/usr/bin/env python3
"""Writes the generated tables of the documentation, from the code that declares what they list.

`.venv/bin/python tools/tables.py` rewrites the text between `<!-- generated: platforms -->` (or another name of
`TABLES`) and `<!-- end -->` in each of `FILES`, and the JSON Schemas that the package carries, of experiments and of
run folders. With `--check` it changes nothing and names the files that differ.
Exit codes: 0 the tables are up to date or were written, 1 a table differs (`--check`) or a marker is missing.
"""

import argparse
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import typer.core
import typer.main
from pydantic import BaseModel

import virtoll
from virtoll import units
from virtoll.claims.paper_figures import PaperFigure, paper_figures, printed_of, rows_of
from virtoll.cli import app, topics
from virtoll.experiment.describe import ParameterWords, describe
from virtoll.experiment.file import (
    ConsolidationFile,
    ExperimentFile,
    GuestSize,
    NeighboursEntry,
    OwnSize,
    PlatformEntry,
    ScaleEntry,
    UntilDecided,
)
from virtoll.experiment.model import ConsolidationBudget, Parameters
from virtoll.experiment.schema import SCHEMA_FILE, Kind, experiment_schema
from virtoll.experiment.sizes import SIZES_MEANING
from virtoll.experiment.topology import HostAddress, NeighbourNics, Role, Testbed
from virtoll.platforms import PLATFORMS
from virtoll.platforms.base import VALIDATION_WORDS
from virtoll.report import words
from virtoll.report.answer import rankings
from virtoll.report.dataset.tables import TABLES as DATASET_TABLES
from virtoll.report.row_tables import ROWS
from virtoll.report.table import Column, ValueKind
from virtoll.report.tables import TABLES as CSV_TABLES
from virtoll.runfolder.schema import SCHEMA_FILE as RUN_SCHEMA_FILE
from virtoll.runfolder.schema import run_folder_schema
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import Metric

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tools import studies

ROOT: Final = Path(__file__).resolve().parent.parent
FILES: Final = tuple(
    ROOT / name
    for name in (
        "README.md",
        "docs/commands.md",
        "docs/dataset.md",
        "docs/experiment-file.md",
        "docs/options.md",
        "docs/platforms/README.md",
        "docs/python.md",
        "docs/studies.md",
        "docs/tables.md",
        "docs/workloads.md",
    )
)
PLATFORM_PAGES: Final = ROOT / "docs" / "platforms"
WORKLOAD_PAGE: Final = ROOT / "docs" / "workloads.md"
SHOWN_RUN: Final = "schlosser2011"
"""The run of the package whose answer the README shows."""

_MARKED: Final = re.compile(
    r"(?P<begin>^<!-- generated: (?P<table>[a-z-]+) -->\n).*?(?P<end>^<!-- end -->$)", re.MULTILINE | re.DOTALL
)
_HEADING: Final = re.compile(r"^#+ +(?P<title>.+?) *$", re.MULTILINE)
_CODE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


class MarkerMissing(Exception):
    """A file of ``FILES`` without a marked table."""


def headings(text: str) -> Iterator[tuple[str, str]]:
    """Each heading of a Markdown text with its anchor, as GitHub makes it: a later one of the same text is numbered."""
    taken: dict[str, int] = {}
    for match in _HEADING.finditer(_CODE.sub("", text)):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match["title"])
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        number = taken.get(slug, 0)
        taken[slug] = number + 1
        yield title, f"{slug}-{number}" if number else slug


def platform_page(name: str) -> Path | None:
    """The page in docs/platforms whose title has the platform's name, or None where there is none."""
    for page in sorted(PLATFORM_PAGES.glob("*.md")):
        title, _ = next(headings(page.read_text(encoding="utf-8")))
        if f"`{name}`" in title:
            return page
    return None


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    titles = list(header)
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def platforms(folder: Path) -> str:
    """The table of platforms, with links relative to ``folder``."""
    return table(
        ("platform", "family", "what it is", "validation"),
        (
            (linked(name, folder), kind.family, kind.title, VALIDATION_WORDS.get(kind.validation, kind.validation))
            for name, kind in PLATFORMS.items()
        ),
    )


def parameters(folder: Path) -> str:
    """The table of platforms' parameters, and of what an ordinary user can have of them."""
    return table(
        ("platform", "parameters", "without root"),
        (
            (
                linked(name, folder),
                ", ".join(f"`{key}`" for key in kind.parameter_model.model_fields),
                kind.without_root,
            )
            for name, kind in PLATFORMS.items()
        ),
    )


def linked(name: str, folder: Path) -> str:
    """A platform's name with a link to its page, relative to ``folder``."""
    page = platform_page(name)
    return f"`{name}`" if page is None else f"[`{name}`]({os.path.relpath(page, folder)})"


def metric_words(metric: Metric) -> str:
    """A metric with its unit and direction."""
    unit = f" in {metric.unit}" if metric.unit else ""
    return f"`{metric.name}`{unit}, {metric.better}"


def workloads(folder: Path) -> str:
    """The table of workloads, with links relative to ``folder``.

    A workload is linked to the section of docs/workloads.md whose heading lists its name.
    """
    text = WORKLOAD_PAGE.read_text(encoding="utf-8")
    sections = {name: anchor for title, anchor in headings(text) for name in title.split(", ")}
    path = "" if folder == WORKLOAD_PAGE.parent else os.path.relpath(WORKLOAD_PAGE, folder)

    def in_section(name: str) -> str:
        return f"[`{name}`]({path}#{sections[name]})" if name in sections else f"`{name}`"

    return table(
        ("workload", "what it is", "resource", "metrics: unit, which is better"),
        (
            (in_section(name), kind.title, kind.resource, "; ".join(metric_words(metric) for metric in kind.metrics))
            for name, kind in WORKLOADS.items()
        ),
    )


def costs(folder: Path) -> str:  # noqa: ARG001 - as the other tables
    """What a real run says: the baseline's medians, the A/A control, then a row for each platform."""
    analysis = studies.carried_run(studies.RUNS / f"{SHOWN_RUN}.tar.xz")
    tasks = [one.task for one in rankings(analysis)]
    said = {(one.platform, one.task): words.said(one).text for one in (*analysis.control, *analysis.comparisons)}
    rows = [
        [f"`{platform}`", *(said.get((platform, task), "not run") for task in tasks)]
        for platform in analysis.platforms
        if platform != analysis.baseline
    ]
    medians = [units.value(analysis.cells[analysis.baseline or "", task].median, task.metric.unit) for task in tasks]
    return table(("platform", *(task.label for task in tasks)), ([f"`{analysis.baseline}` (median)", *medians], *rows))


def figures(folder: Path) -> str:  # noqa: ARG001 - as the other tables
    """The table of the papers' figures and tables of results, with what gives each again."""
    return table(
        ("study", "in the paper", "what it shows", "here", "from", "printed numbers beside it"),
        ((f"`{one.paper}`", one.title_words, one.title, *_again(one)) for one in paper_figures()),
    )


def _again(one: PaperFigure) -> tuple[str, str, str]:
    """How a figure is drawn, by which workloads, and how many printed numbers stand beside it."""
    if one.why_not:
        return f"not replayed: {one.why_not}", "–", "–"
    forms = dict.fromkeys(part.form or one.form for part in one.parts)
    words = {"bars": "bars in groups", "lines": "lines"}
    if one.kind == "table":
        words = dict.fromkeys(words, "a table")
    asked = [part.now.workload for part in one.parts]
    names = dict.fromkeys(name for own in asked for name in ([own] if isinstance(own, str) else own or []))
    numbers = {
        id(value)
        for part in one.parts
        for printed in printed_of(one, part, ())
        for value, _ in printed.question.then.values
        if any(value is row for row in rows_of(one, part))
    }
    return (
        ", ".join(dict.fromkeys(words[form] for form in forms)),
        ", ".join(f"`{name}`" for name in names),
        str(len(numbers) or "–"),
    )


def items_of(study: str) -> str:
    """What a paper ran, a row each with what it has come to."""
    return table(("in the paper", "in Virtoll", "state", "what is not there"), studies.rows(study))


def columns(folder: Path) -> str:  # noqa: ARG001 - as the other tables
    """A section for each CSV table of a report: what a row is, and its columns."""

    def section(name: str) -> str:
        rows = ((f"`{one.name}`", one.unit or "–", one.meaning) for one in CSV_TABLES[name].columns)
        return f"## {name}.csv\nA row is {CSV_TABLES[name].row}.\n\n" + table(("column", "unit", "meaning"), rows)

    return "\n".join(section(name) for name in CSV_TABLES)


def frames(folder: Path) -> str:  # noqa: ARG001 - as the other tables
    """A table for each kind of rows that Python is given: its columns and what their values are."""

    def section(name: str) -> str:
        rows = ((f"`{one.name}`", str(one.kind), _unit(one), one.meaning) for one in ROWS[name].columns)
        return f"### {name}\nA row is {ROWS[name].row}.\n\n" + table(("column", "type", "unit", "meaning"), rows)

    return "\n".join(section(name) for name in ROWS)


def dataset(folder: Path) -> str:  # noqa: ARG001 - as the other tables
    """A section for each table of the dataset: what a row is, and its columns with their types."""

    def section(name: str) -> str:
        rows = (
            (f"`{one.name}`", str(one.kind), "yes" if one.nullable else "–", _unit(one), one.meaning)
            for one in DATASET_TABLES[name].columns
        )
        head = ("column", "type", "may be missing", "unit", "meaning")
        return f"### {name}\nA row is {DATASET_TABLES[name].row}.\n\n" + table(head, rows)

    return "\n".join(section(name) for name in DATASET_TABLES)


def _unit(column: Column[Any]) -> str:
    """A column's unit; what is true or false has none."""
    return "–" if column.kind is ValueKind.ANSWER else column.unit or "–"


def interface(folder: Path) -> str:  # noqa: ARG001 - as the other tables
    """The table of what Python may use: each public name of ``virtoll`` with its signature."""
    rows = []
    for name in virtoll.__all__:
        found = getattr(virtoll, name)
        if inspect.isclass(found):
            members = [member for kind in found.__mro__ for member in vars(kind).items()]
            rows += [(f"`{name}.{own}`", *_told(member)) for own, member in members if own[0] != "_"]
        elif callable(found):
            rows.append((f"`virtoll.{name}`", *_told(found)))
    return table(("name", "takes and returns", "what it does"), rows)


def _told(found: Callable[..., Any] | property | cached_property[Any]) -> tuple[str, str]:
    """The signature, or a property's type, and the first sentence of what is said of it."""
    function = (
        found.fget if isinstance(found, property) else found.func if isinstance(found, cached_property) else found
    )
    assert function is not None
    first = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
    signature = inspect.signature(function)
    if function is not found:
        return f"`{signature.return_annotation}`", first
    given = [one for one in signature.parameters.values() if one.name != "self"]
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature.replace(parameters=given)))
    return f"`{text}`".replace("|", "\\|"), first


def options(folder: Path) -> str:  # noqa: ARG001 - as the other tables
    """A section for each command that is not hidden: how it is called, what it does, its arguments and options."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return "\n".join(_sections(group, "virtoll"))


def _sections(group: typer.core.TyperGroup, path: str) -> Iterator[str]:
    for name, command in group.commands.items():
        whole = f"{path} {name}"
        if command.hidden:
            continue
        if isinstance(command, typer.core.TyperGroup):
            yield from _sections(command, whole)
            continue
        rows = [
            (f"`{_called(one)}`".replace("|", "\\|"), (one.help or "").replace("|", "\\|"))
            for one in command.params
            if isinstance(one, typer.core.TyperOption | typer.core.TyperArgument) and not one.hidden
        ]
        said = inspect.cleandoc(command.help or "").partition("\n\n")[0].replace("\n", " ")
        yield f"## {whole}\n{said}\n" + (f"\n{table(('argument or option', 'what it does'), rows)}" if rows else "")


def _called(one: typer.core.TyperOption | typer.core.TyperArgument) -> str:
    """As it is written on a command line: 'RUN', '--size quick|paper', '-q, --quiet'."""
    metavar = str(one.metavar or one.name)
    if isinstance(one, typer.core.TyperArgument):
        return metavar
    names = ", ".join(sorted([*one.opts, *one.secondary_opts], key=len))
    return names if one.is_flag else f"{names} {metavar}"


def codes(folder: Path) -> str:  # noqa: ARG001 - as the other tables
    """The table of exit codes."""
    return table(("code", "meaning"), ((str(one.code), one.meaning) for one in topics.EXIT_CODES))


def environment(folder: Path) -> str:  # noqa: ARG001 - as the other tables
    """The table of environment variables."""
    rows = ((f"`{one.name}`", one.meaning, one.without) for one in topics.ENVIRONMENT)
    return table(("variable", "meaning", "without it"), rows)


def keys(model: type[BaseModel], *, without: Iterable[str] = (), more: Iterable[ParameterWords] = ()) -> str:
    """The table of a model's keys: what each is for, what it may be, and what it is without being given."""
    words = [one for one in describe(model) if one.name not in set(without)]
    return table(("key", "what it is for", "it is", "without it"), (_row(one) for one in (*words, *more)))


def _row(one: ParameterWords) -> tuple[str, str, str, str]:
    return f"`{one.name}`", one.meaning, one.allowed, _without(one)


def _without(one: ParameterWords) -> str:
    return {"not set": "–"}.get(one.default, one.default.removeprefix("default "))


def file_keys(folder: Path) -> str:  # noqa: ARG001 - as the other tables
    """The table of the keys at a file's top."""
    sizes = ParameterWords("sizes", "a mapping of quick, paper and perhaps full", "not set", SIZES_MEANING)
    return keys(ExperimentFile, more=[sizes])


def _common(models: Mapping[str, type[Parameters]], what: str) -> str:
    """A table of the parameters of several; those that are alike in all are one row."""
    found: dict[ParameterWords, list[str]] = {}
    for name, model in models.items():
        for one in describe(model):
            found.setdefault(one, []).append(name)
    rows = (
        (key, ", ".join(f"`{name}`" for name in found[one]), meaning, allowed, without)
        for one in sorted(found, key=lambda one: one.name)
        for key, meaning, allowed, without in [_row(one)]
    )
    return table(("key", what, "what it is for", "it is", "without it"), rows)


def platform_keys(folder: Path) -> str:  # noqa: ARG001 - as the other tables
    """The table of all platforms' parameters; the model's, which are for tests, are left out."""
    return _common({name: kind.parameter_model for name, kind in PLATFORMS.items() if name != "fake"}, "platforms")


def workload_keys(folder: Path) -> str:  # noqa: ARG001 - as the other tables
    """The table of all workloads' parameters."""
    return _common({name: kind.parameter_model for name, kind in WORKLOADS.items()}, "workloads")


def schema_text() -> str:
    """The JSON Schema of an experiment's file."""
    kinds = (
        {name: Kind(kind.title, kind.parameter_model) for name, kind in PLATFORMS.items()},
        {name: Kind(kind.about, kind.parameter_model) for name, kind in WORKLOADS.items()},
    )
    return json.dumps(experiment_schema(*kinds), indent=1) + "\n"


def run_schema_text() -> str:
    """The JSON Schema of a run folder."""
    return json.dumps(run_folder_schema(), indent=1) + "\n"


_LISTS: Final = ("more_generators", "more_sinks")  # in a file, what a list of generators or sinks has after the first
_BY_NAME: Final = ("local", "guests", "nested")  # in a file, a word
TABLES: Final[Mapping[str, Callable[[Path], str]]] = {
    "codes": codes,
    "columns": columns,
    "costs": costs,
    "dataset": dataset,
    "environment": environment,
    "experiment": file_keys,
    "experiment-blocks": lambda _: keys(UntilDecided),
    "experiment-consolidation": lambda _: keys(ConsolidationFile),
    "experiment-consolidation-budget": lambda _: keys(ConsolidationBudget),
    "experiment-entry": lambda _: keys(PlatformEntry),
    "experiment-entry-guest": lambda _: keys(OwnSize),
    "experiment-guest": lambda _: keys(GuestSize),
    "experiment-neighbours": lambda _: keys(NeighboursEntry),
    "experiment-platforms": platform_keys,
    "experiment-scale": lambda _: keys(ScaleEntry),
    "experiment-testbed": lambda _: keys(Testbed, without=_LISTS),
    "experiment-testbed-host": lambda _: keys(HostAddress, without=_BY_NAME),
    "experiment-testbed-neighbour": lambda _: keys(NeighbourNics),
    "experiment-testbed-role": lambda _: keys(Role),
    "experiment-workloads": workload_keys,
    "figures": figures,
    "frames": frames,
    "interface": interface,
    "options": options,
    "parameters": parameters,
    "platforms": platforms,
    "studies": lambda _: table(("study", *studies.State), studies.counts()),
    "studies-camargos": lambda _: items_of("camargos2008"),
    "studies-mattos": lambda _: items_of("mattos2012"),
    "studies-schlosser": lambda _: items_of("schlosser2011"),
    "studies-suresh": lambda _: items_of("suresh2014"),
    "workloads": workloads,
}


def rewritten(path: Path) -> str:
    """The file's text with its tables as the classes have them; raises ``MarkerMissing``."""

    def generated(match: re.Match[str]) -> str:
        return match["begin"] + TABLES[match["table"]](path.parent) + match["end"]

    text, number = _MARKED.subn(generated, path.read_text(encoding="utf-8"))
    if number == 0:
        raise MarkerMissing(f"{path}: no table is marked; add '<!-- generated: NAME -->' and '<!-- end -->'")
    return text


def main(arguments: list[str] | None = None) -> int:
    """Write or check the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if a table differs")
    check: bool = parser.parse_args(arguments).check
    differ = False
    try:
        texts = {path: rewritten(path) for path in FILES} | {
            SCHEMA_FILE: schema_text(),
            RUN_SCHEMA_FILE: run_schema_text(),
        }
    except MarkerMissing as error:
        print(f"tables: {error}", file=sys.stderr)
        return 1
    for path, text in texts.items():
        if path.is_file() and text == path.read_text(encoding="utf-8"):
            continue
        differ = True
        if check:
            print(f"tables: {path.relative_to(ROOT)} differs from the classes; run 'make tables'", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
            print(f"tables: {path.relative_to(ROOT)} written")
    return 1 if check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
