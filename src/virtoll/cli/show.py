"""``virtoll show``: everything about one platform, workload or experiment, and the schemas of files."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from virtoll import units
from virtoll.cli import complete, options
from virtoll.cli.groups import Cli
from virtoll.cli.loading import load
from virtoll.cli.output import Json, columns, print_json, say, write_out
from virtoll.errors import UsageError

if TYPE_CHECKING:
    from virtoll.experiment.describe import ParameterWords
    from virtoll.experiment.model import Experiment, Parameters, PlatformChoice
    from virtoll.platforms.base import Platform
    from virtoll.workloads.base import Needs

app = Cli(help="Show all of one platform, workload or experiment.")

PAGES: Final = {
    "docs/platforms/gvisor.md": ("runsc",),
    "docs/platforms/native.md": ("native", "native-again"),
    "docs/platforms/oci.md": ("runc", "crun", "oci"),
    "docs/platforms/qemu.md": ("qemu-tcg", "qemu-kvm"),
}
"""Pages about platforms that are not named as the platform is."""
_WITHOUT_PAGE: Final = ("fake",)
_WORKLOAD_PAGE: Final = "docs/workloads.md"
_DEEP, _DEEPER = "  ", "      "


def page_of(platform: str) -> str | None:
    """The documentation's page about a platform, from the top of a clone; None where there is none."""
    if platform in _WITHOUT_PAGE:
        return None
    return next((page for page, names in PAGES.items() if platform in names), f"docs/platforms/{platform}.md")


@app.command("platform")
def show_platform(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the platform.", autocompletion=complete.platforms)
    ],
    as_json: Json = False,
) -> None:
    """Show a platform: what it is, needs and lacks, and its keys."""
    from virtoll.experiment.describe import describe
    from virtoll.experiment.file import PlatformEntry
    from virtoll.platforms import PLATFORMS
    from virtoll.platforms.base import VALIDATION_WORDS

    _check(name, PLATFORMS, "platform")
    kind = PLATFORMS[name]
    document = {
        "version": 1,
        "name": name,
        "title": kind.title,
        "family": kind.family,
        "validation": VALIDATION_WORDS.get(kind.validation, kind.validation),
        "stands_for": _stands_for(name),
        "control_of": kind.control_of,
        "without_root": kind.without_root,
        "data_directory": kind.data_by is not None,
        "remote_hosts": kind.remote_hosts,
        "max_vcpus": kind.max_vcpus,
        "lacks": dict(kind.lacks),
        "packages": list(kind.packages),
        "remedy": kind.remedy,
        "page": page_of(name),
        "parameters": list(map(asdict, describe(kind.parameter_model))),
        "entry": list(map(asdict, describe(PlatformEntry))),
    }
    if as_json:
        print_json(document)
        return
    say(f"{name}: {kind.title}")
    _fields(_facts(kind, document))
    _parameters("parameters", describe(kind.parameter_model))
    _parameters("in every platform's entry", describe(PlatformEntry))


def _facts(kind: type[Platform[Any]], document: dict[str, Any]) -> Iterable[tuple[str, str]]:
    from virtoll.workloads.base import FEATURES

    yield "family", kind.family
    yield "shown to work by", document["validation"]
    yield "stands for", "; ".join(document["stands_for"])
    yield "A/A control of", kind.control_of or ""
    yield "without root", kind.without_root
    yield "installed by", kind.remedy or ""
    yield "Debian packages", ", ".join(kind.packages)
    yield "most CPUs", str(kind.max_vcpus or "")
    yield "files on a disk", "yes" if kind.data_by is not None else "no: what needs a data directory is skipped"
    yield "lacks", "; ".join(f"{FEATURES[feature]} ({why})" for feature, why in kind.lacks.items())
    yield "page", document["page"] or ""


@app.command("workload")
def show_workload(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the workload.", autocompletion=complete.workloads)
    ],
    as_json: Json = False,
) -> None:
    """Show a workload: its metrics, what it needs, and its keys."""
    from virtoll.experiment.describe import describe
    from virtoll.workloads import WORKLOADS

    _check(name, WORKLOADS, "workload")
    kind = WORKLOADS[name]
    needs = kind.with_parameters({}).needs()
    document = {
        "version": 1,
        "name": name,
        "title": kind.title,
        "about": kind.about,
        "origin": kind.origin,
        "resource": kind.resource,
        "metrics": [{"name": metric.name, "unit": metric.unit, "better": metric.better} for metric in kind.metrics],
        "image": kind.image,
        "packages": list(kind.packages),
        "loads_peer": kind.loads_peer,
        "needs": {**asdict(needs), "features": sorted(needs.features)},
        "page": _WORKLOAD_PAGE,
        "parameters": list(map(asdict, describe(kind.parameter_model))),
    }
    if as_json:
        print_json(document)
        return
    say(f"{name}: {kind.title}")
    first, *others = (metric.words for metric in kind.metrics)
    programs = f", for Debian's {', '.join(kind.packages)}" if kind.packages else ""
    _fields(
        (
            ("measures", kind.about),
            ("as in", kind.origin),
            ("stresses", kind.resource),
            ("metric of verdicts", first),
            ("further metrics", "; ".join(others)),
            ("image", f"{kind.image} or larger{programs}"),
            ("needs", "; ".join(_needs(needs)) or "nothing besides the image"),
            ("page", _WORKLOAD_PAGE),
        )
    )
    _parameters("parameters", describe(kind.parameter_model))


@app.command("experiment")
def show_experiment(
    name: options.Experiment,
    size: options.Size = None,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print the file itself, to be copied.")] = False,
    as_json: Json = False,
) -> None:
    """Show an experiment: its question and what it measures.

    To change one: virtoll show experiment quick --yaml > mine.yaml, then virtoll plan mine.yaml.
    """
    if yaml and (as_json or size is not None):
        raise UsageError("--yaml prints the file as it is; leave --json and --size out")
    if yaml:
        from virtoll.experiment.parse import find_experiment
        from virtoll.runfolder.yaml_file import read_text

        write_out(read_text(find_experiment(name)))
        return
    from virtoll.experiment.selection import Selection

    checked = load(name, Selection(size=size))
    from virtoll.pipeline.preview import estimate, plan_of

    planned = plan_of(checked)
    document = {
        "version": 1,
        "name": checked.name,
        "question": checked.question,
        "file": str(checked.file),
        "study": checked.study,
        "size": checked.size,
        "scenario": checked.scenario,
        "baseline": checked.baseline,
        "control": checked.control,
        "guest": {"vcpus": checked.vcpus, "memory_bytes": checked.memory_bytes, "image": checked.image},
        "platforms": [
            {"label": choice.label, "platform": choice.platform, "stands_for": choice.stands_for}
            for choice in checked.platforms
        ],
        "workloads": [
            {"workload": choice.workload, "parameters": _given(choice.parameters)} for choice in checked.workloads
        ],
        "blocks": checked.blocks,
        "rounds": checked.rounds,
        "order": checked.order,
        "trials": len(planned.trials),
        "estimated_seconds": estimate(planned),
    }
    if as_json:
        print_json(document)
        return
    say(checked.name)
    _text(checked.question, _DEEP)
    _fields(_about(checked, len(planned.trials), estimate(planned)))
    _say_cells(checked)


def _say_cells(checked: Experiment) -> None:
    """The experiment's platforms, and its workloads with the parameters that its file gives."""
    from virtoll.experiment.describe import value_words

    say("")
    say("platforms:")
    for choice in checked.platforms:
        _text(_platform_words(choice), _DEEP)
    if checked.workloads:
        say("")
        say("workloads:")
    for workload in checked.workloads:
        fields = type(workload.parameters).model_fields
        parameters = _given(workload.parameters)
        text = ", ".join(f"{key} {value_words(fields[key], value)}" for key, value in parameters.items())
        _text(f"{workload.workload}: {text}" if text else workload.workload, _DEEP, _DEEPER)


@app.command("schema")
def show_schema(
    of: Annotated[
        str, typer.Argument(metavar="experiment|run-folder", help="Of an experiment's file, or of a run folder.")
    ] = "experiment",
) -> None:
    """Print the JSON Schema of an experiment's file, or of a run folder's records.

    An editor with YAML support completes and checks a file whose first line names it; 'virtoll new' writes that line.
    """
    from virtoll.experiment.schema import SCHEMA_FILE
    from virtoll.runfolder.schema import SCHEMA_FILE as RUN_SCHEMA_FILE

    files = {"experiment": SCHEMA_FILE, "run-folder": RUN_SCHEMA_FILE}
    if of not in files:
        raise UsageError(f"schema {of!r} is not known; choose one of: {', '.join(files)}")
    sys.stdout.write(files[of].read_text(encoding="utf-8"))


def _check(name: str, known: Iterable[str], what: str) -> None:
    names = list(known)
    if name in names:
        return
    from virtoll.experiment.near import choices

    raise UsageError(f"{what} {name!r} is not known; {choices(name, names, f'virtoll list {what}s')}")


def _stands_for(platform: str) -> list[str]:
    """What of the papers' the presets put it in the place of."""
    from virtoll.experiment.parse import presets
    from virtoll.runfolder.yaml_file import read_text, read_yaml

    names: dict[str, None] = {}
    for path in sorted(presets().glob("*.yaml")):
        document = read_yaml(read_text(path), str(path)).value
        parts = [document, *(document.get("sizes") or {}).values()]
        entries = [entry for part in parts if part for entry in part.get("platforms", ()) if isinstance(entry, dict)]
        names |= {
            entry["stands_for"]: None for entry in entries if entry["platform"] == platform and "stands_for" in entry
        }
    return list(names)


def _needs(needs: Needs) -> Iterable[str]:
    """What a guest must have for the workload at its defaults, in words."""
    from virtoll.workloads.base import FEATURES

    if needs.memory_bytes:
        more = f", {units.size(needs.memory_bytes_a_vcpu)} more for each CPU" if needs.memory_bytes_a_vcpu else ""
        yield f"{units.size(needs.memory_bytes)} of memory{more}"
    if needs.vcpus > 1:
        yield f"{needs.vcpus} CPUs"
    if needs.data_bytes:
        yield f"{units.size(needs.data_bytes)} on a disk"
    if needs.guests > 1:
        yield f"{needs.guests} guests side by side"
    yield from (FEATURES[feature] for feature in sorted(needs.features))


def _platform_words(choice: PlatformChoice) -> str:
    name = "" if choice.label == choice.platform else f" ({choice.platform})"
    return f"{choice.label}{name}" + (f", for {choice.stands_for}" if choice.stands_for else "")


def _about(checked: Experiment, trials: int, seconds: float) -> Iterable[tuple[str, str]]:
    controls = f", A/A control {checked.control}" if checked.control else ""
    yield "file", str(checked.file)
    yield "study", checked.study or ""
    yield "size", f"{checked.size}; the other one by --size" if checked.size else ""
    yield "scenario", "" if checked.scenario == "dedicated" else checked.scenario
    yield "compared with", f"{checked.baseline}{controls}" if checked.baseline else ""
    cpus = "1 CPU" if checked.vcpus == 1 else f"{checked.vcpus} CPUs"
    yield "guests", f"{cpus}, {units.size(checked.memory_bytes)}, image {checked.image}"
    if checked.scenario == "consolidation":
        return
    if checked.order == "paper":
        yield "order", f"as the paper ran: {checked.blocks} repetitions in a row, platform after platform"
    else:
        until = "at most " if checked.looks is not None else ""
        yield "blocks", f"{until}{checked.blocks}, each with {checked.rounds} rounds of every workload"
    from virtoll.cli.plan_words import duration_words

    yield "trials", f"{trials}, {duration_words(seconds)} if every platform is available"


def _given(parameters: Parameters) -> dict[str, Any]:
    """What the file says of them; the rest is as it is by default."""
    return parameters.model_dump(mode="json", exclude_unset=True)


def _fields(rows: Iterable[tuple[str, str]]) -> None:
    """Each term with what holds for it in a column of its own; what has nothing to say is left out."""
    shown = [(term, text) for term, text in rows if text]
    wide = max(len(term) for term, _ in shown) + 2
    for term, text in shown:
        _text(text, f"{_DEEP}{term.ljust(wide)}", " " * (len(_DEEP) + wide))


def _parameters(title: str, words: Sequence[ParameterWords]) -> None:
    say("")
    if not words:
        say(f"{title}: none")
        return
    say(f"{title}:")
    for parameter in words:
        say(f"{_DEEP}{parameter.name}")
        _text(parameter.meaning, _DEEPER)
        _text(f"{parameter.allowed}; {parameter.default}", _DEEPER)


def _text(text: str, first: str, further: str | None = None) -> None:
    """A text in as many lines as the columns ask for; a name or a path is never broken."""
    say(
        textwrap.fill(
            text,
            columns(),
            initial_indent=first,
            subsequent_indent=further if further is not None else first,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
