"""From an experiment's YAML file to a checked ``Experiment``.

The names that a file may use are handed in as a ``Catalogue``, so that this module knows no platform and no workload.
Every complaint names file, key and allowed values and is a ``UsageError``. Nothing is started, probed or measured.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from virtoll.errors import UsageError
from virtoll.experiment.against import Sides, located_setting, sides_of
from virtoll.experiment.complaints import Gathered, located, validated, wrong
from virtoll.experiment.entries import own_control, platform_choices, workload_choices
from virtoll.experiment.file import ConsolidationFile, ExperimentFile, UntilDecided
from virtoll.experiment.model import STUDIES, Catalogue, Experiment, Image, PlatformChoice, WorkloadChoice
from virtoll.experiment.near import choices, near
from virtoll.experiment.plan import MOST_TRIALS, count_trials
from virtoll.experiment.scenarios import conditions_of, scale_of
from virtoll.experiment.selection import EVERYTHING, Cell, Selection, kept_cells
from virtoll.experiment.sizes import SIZES, at_size
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.looks import Looks
from virtoll.runfolder.yaml_file import YamlText, read_text, read_yaml


def presets() -> Path:
    """The folder of the experiments that the package carries."""
    return Path(str(files("virtoll.experiment"))) / "presets"


def find_experiment(name: str) -> Path:
    """The file of an experiment: a path that exists, or the name of one in the package."""
    as_path = Path(name)
    if as_path.suffix in {".yaml", ".yml"} or as_path.is_file():
        if not as_path.is_file():
            raise UsageError(f"{name}: no such file; give the path of an experiment's YAML file")
        return as_path
    candidate = presets() / f"{name}.yaml"
    if candidate.is_file():
        return candidate
    known = sorted(path.stem for path in presets().glob("*.yaml"))
    listed = (
        choices(name, known, "virtoll list experiments") if near(name, known) else f"choose one of: {', '.join(known)}"
    )
    raise UsageError(f"experiment {name!r} is not known; {listed}; or give the path of a YAML file")


def load_experiment(path: Path, catalogue: Catalogue, selection: Selection = EVERYTHING) -> Experiment:
    """Read and check one experiment file; raises ``UsageError`` that names file, key and allowed values."""
    return parse_experiment(read_text(path), path, catalogue, selection)


def parse_experiment(text: str, path: Path, catalogue: Catalogue, selection: Selection = EVERYTHING) -> Experiment:
    """As ``load_experiment``, from text; ``path`` is only named in complaints, which tell all that is wrong at once."""
    read = read_yaml(text, str(path))
    try:
        parsed = _parsed(read, text, path, catalogue, selection)
        _refuse_too_many(parsed, path)
    except UsageError as error:
        if not error.problems:
            raise
        document = read.value
        size = (selection.size or SIZES[0]) if isinstance(document, dict) and "sizes" in document else None
        raise located(error, read, path, size) from error
    if read.twice:
        raise UsageError.of(read.twice)
    return parsed


def _refuse_too_many(experiment: Experiment, path: Path) -> None:
    """More trials than a plan holds."""
    if (trials := count_trials(experiment)) > MOST_TRIALS:
        sentence = f"{experiment.blocks} are {trials} trials; at most {MOST_TRIALS} are planned; give fewer"
        raise wrong(_of_size(path, experiment.size), "blocks", sentence)


def _of_size(path: Path, size: str | None) -> Path:
    """The file as complaints name it."""
    return path if size is None else Path(f"{path}, size {size}")


def _refuse_choice(selection: Selection, path: Path) -> None:
    """What cannot be chosen of a consolidation series."""
    if selection.filters:
        raise UsageError(f"{path}: a consolidation series has no trials to choose from; leave out the filters")
    if selection.blocks is not None or selection.seed is not None:
        raise UsageError(f"{path}: a consolidation series has neither blocks nor a seed; leave out --blocks, --seed")
    if selection.against:
        raise UsageError(f"{path}: a consolidation series has no rounds to measure two builds in; leave out --against")


@dataclass(frozen=True)
class _Source:
    """An experiment's file, the names that it may use, and what of it was chosen."""

    file: Path
    text: str
    size: str | None
    selection: Selection
    catalogue: Catalogue

    @property
    def path(self) -> Path:
        """The file as complaints name it."""
        return _of_size(self.file, self.size)


def _parsed(read: YamlText, text: str, path: Path, catalogue: Catalogue, selection: Selection) -> Experiment:
    document = read.value
    if not isinstance(document, dict):
        raise UsageError(
            f"{path}: the file must be a mapping with the keys {', '.join(ExperimentFile.model_fields)}, sizes"
        )
    document, size = at_size(document, selection.size, path)
    source = _Source(path, text, size, selection, catalogue)
    path = source.path
    if document.get("scenario") == "consolidation":
        _refuse_choice(selection, path)
        return _parse_consolidation(validated(ConsolidationFile, document, path, ""), text, path, catalogue)
    options = {"blocks": selection.blocks, "seed": selection.seed}
    document = {**document, **{key: value for key, value in options.items() if value is not None}}
    gathered = Gathered()
    looks = None
    with gathered.trying():
        document, looks = _looks(document, selection.until, path)
    if isinstance(document.get("blocks"), dict):  # what is wrong with it is told already
        document = {key: value for key, value in document.items() if key != "blocks"}
    parsed = _keys(document, path, gathered)
    broken = gathered.keys
    platforms, workloads = _entries(parsed, document, source, gathered)
    _check_together(parsed, platforms, broken, path, gathered)
    gathered.finish()
    return _experiment(parsed, looks, platforms, workloads, source)


def _entries(
    parsed: ExperimentFile, keys: Collection[str], source: _Source, gathered: Gathered
) -> tuple[tuple[PlatformChoice, ...], tuple[WorkloadChoice, ...]]:
    """The platforms and workloads; of a list in which an entry is wrong, what is wrong with the others is kept too."""
    platforms: tuple[PlatformChoice, ...] = ()
    workloads: tuple[WorkloadChoice, ...] = ()
    if "testbed" in gathered.keys:
        return platforms, workloads
    reported = gathered.entries("platforms")
    if "platforms" in keys and reported is not None:
        with gathered.trying():
            choices_read = platform_choices(parsed, source.path, source.catalogue, reported)
            platforms = () if reported else choices_read
    reported = gathered.entries("workloads")
    if "workloads" in keys and reported is not None:
        with gathered.trying():
            workloads = workload_choices(parsed, source.path, source.catalogue, reported)
    return platforms, workloads


def _check_together(
    parsed: ExperimentFile, platforms: Sequence[PlatformChoice], broken: frozenset[str], path: Path, gathered: Gathered
) -> None:
    """Keep what is wrong between keys that are right by themselves; what depends on broken ones is not looked at."""
    if parsed.study is not None and parsed.study not in STUDIES:
        allowed = choices(parsed.study, STUDIES)
        gathered.keep(wrong(path, "study", f"{parsed.study!r} is not known; {allowed}; or leave it out"))
    if platforms and not broken & {"baseline", "control"}:
        with gathered.trying():
            _check_baseline(parsed, [choice.label for choice in platforms], path)
    if (platforms or parsed.scenario != "neighbours") and not broken & {"neighbours", "scenario", "testbed"}:
        with gathered.trying():
            conditions_of(parsed, platforms, path)
    if (platforms or parsed.scenario != "scale") and not broken & {"scale", "scenario", "testbed", "guest"}:
        with gathered.trying():
            scale_of(parsed, platforms, path)
    if not broken & {"testbed", "guest"}:
        with gathered.trying():
            _refuse_unmarked(parsed, path)


def _experiment(
    parsed: ExperimentFile,
    looks: Looks | None,
    platforms: Sequence[PlatformChoice],
    workloads: Sequence[WorkloadChoice],
    source: _Source,
) -> Experiment:
    """The experiment of keys that are right, with what was chosen of it."""
    path = source.path
    control = parsed.control or own_control(platforms, parsed.baseline, path, source.catalogue)
    cells = _kept(parsed, platforms, workloads, control, source)
    conditions, scale = conditions_of(parsed, platforms, path), scale_of(parsed, platforms, path)
    settings = source.selection.against
    settings = settings or tuple(located_setting(text, source.file.parent) for text in parsed.against)
    sides = _sides(settings, platforms, cells, control, parsed, source)
    cells = _of_sides(cells, sides)
    labels = {label for label, _ in cells}
    run = {workload for _, workload in cells}
    started = labels | {condition.platform for condition in conditions}
    baseline = parsed.baseline if parsed.baseline in labels else None
    if looks is not None:
        _refuse_undecidable(parsed, baseline, path)
    return Experiment(
        name=parsed.name,
        question=parsed.question.strip(),
        file=source.file,
        text=source.text,
        platforms=tuple(choice for choice in sides.platforms if choice.label in started),
        workloads=tuple(choice for choice in workloads if choice.workload in run),
        baseline=baseline,
        control=control if baseline is not None and control in labels else None,
        scenario=parsed.scenario,
        vcpus=parsed.guest.vcpus,
        memory_bytes=int(parsed.guest.memory),
        marks=parsed.guest.marks,
        blocks=parsed.blocks,
        looks=looks,
        seed=parsed.seed,
        testbed=parsed.testbed,
        cpu_quota=parsed.guest.cpu_quota,
        study=parsed.study,
        image=_image(parsed, run, conditions, source),
        order=parsed.order,
        boot=parsed.boot,
        rounds=parsed.rounds,
        summary=parsed.summary,
        margin=parsed.margin,
        needs=tuple(parsed.needs),
        thresholds=tuple(parsed.thresholds),
        size=source.size,
        selection=source.selection,
        cells=cells,
        conditions=conditions,
        scale=scale,
        against=settings,
        pairs=sides.pairs,
        unconcerned=sides.unconcerned,
    )


def _refuse_undecidable(parsed: ExperimentFile, baseline: str | None, path: Path) -> None:
    if baseline is None or parsed.order == "paper":
        what = "the baseline is left out" if baseline is None else "the paper's order has no blocks"
        raise wrong(path, "blocks.until", f"{what}, so nothing can be decided; give a number of blocks")


def _keys(document: dict[str, Any], path: Path, gathered: Gathered) -> ExperimentFile:
    """The file's own keys; where some are wrong, that is kept, and they stand as if they had not been given."""
    try:
        return validated(ExperimentFile, document, path, "")
    except UsageError as error:
        gathered.keep(error)
    broken = gathered.keys
    rest = {key: value for key, value in document.items() if key not in broken}
    for key in broken & {"platforms", "workloads"}:
        reported = gathered.entries(key)
        if reported is not None:  # the other entries are looked at
            rest[key] = [{} if number in reported else entry for number, entry in enumerate(document[key])]
    stand_ins: dict[str, Any] = {"name": "x", "question": "x", "platforms": ["x"], "workloads": ["x"]}
    try:
        return ExperimentFile.model_validate({**stand_ins, **rest})
    except ValidationError:
        gathered.finish()
        raise


def _check_baseline(parsed: ExperimentFile, labels: Sequence[str], path: Path) -> None:
    for key, label in (("baseline", parsed.baseline), ("control", parsed.control)):
        if label is None or label in labels:
            continue
        if key == "baseline" and "baseline" not in parsed.model_fields_set:
            raise wrong(
                path,
                "baseline",
                f"{label!r} is not among the platforms; add native and native-again to 'platforms', or name another "
                f"baseline, allowed: {', '.join(labels)}",
            )
        raise wrong(
            path,
            key,
            f"{label!r} is not among the platforms; {choices(label, labels)}; add it to 'platforms' or name another",
        )
    if parsed.control == parsed.baseline:
        others = ", ".join(label for label in labels if label != parsed.baseline) or "none"
        raise wrong(path, "control", f"is the baseline itself; name a second entry of it, allowed: {others}")


def _kept(
    parsed: ExperimentFile,
    platforms: Sequence[PlatformChoice],
    workloads: Sequence[WorkloadChoice],
    control: str | None,
    source: _Source,
) -> frozenset[Cell]:
    """The pairs of label and workload that are run; what is wrong with the file's own patterns is its key's."""
    return kept_cells(
        {choice.label: choice.platform for choice in platforms},
        [choice.workload for choice in workloads],
        (parsed.baseline, control),
        source.selection,
        parsed.skip,
        lambda complaint: wrong(source.path, "skip", complaint),
    )


def _sides(
    settings: Sequence[str],
    platforms: Sequence[PlatformChoice],
    cells: Collection[Cell],
    control: str | None,
    parsed: ExperimentFile,
    source: _Source,
) -> Sides:
    """The platforms as they are, and those of them that have cells and that the settings concern with them too."""
    if not settings:
        return Sides(tuple(platforms), (), ())
    labels = {label for label, _ in cells}
    measured = [choice for choice in platforms if choice.label in labels]
    try:
        _refuse_unpaired(parsed)
        return sides_of(settings, measured, (parsed.baseline, control), source.catalogue, parsed.testbed)
    except UsageError as error:
        if source.selection.against:
            raise UsageError(f"--against {error}") from error
        raise wrong(source.path, "against", str(error)) from error


def _refuse_unpaired(parsed: ExperimentFile) -> None:
    """Only blocks of rounds have a platform as it is beside the same with a setting."""
    if parsed.scenario != "dedicated":
        raise UsageError(f"is not for 'scenario: {parsed.scenario}', which has no pairs in its rounds; leave it out")
    if parsed.order == "paper":
        raise UsageError("is not for 'order: paper', which runs one platform after the other; leave it out")


def _of_sides(cells: frozenset[Cell], sides: Sides) -> frozenset[Cell]:
    """The cells of platforms that are left; a platform with the settings has those of the platform as it is."""
    kept = {choice.label for choice in sides.platforms}
    twins = dict(sides.pairs)
    remaining = frozenset(cell for cell in cells if cell[0] in kept)
    return remaining | {(twins[label], workload) for label, workload in remaining if label in twins}


def _image(
    parsed: ExperimentFile, workloads: Collection[str], conditions: Sequence[Condition], source: _Source
) -> Image:
    """What was asked for, if the programs of workloads and loads that are run are in it; else what they need.

    Programs that are no free software are in no image that was not asked for.
    """
    known: tuple[Image, ...] = typing.get_args(Image)
    chosen, needed, catalogue = parsed.guest.image, known[0], source.catalogue
    runs = [("workload", name, catalogue.images[name]) for name in catalogue.workloads if name in workloads]
    loads = dict.fromkeys(condition.load for condition in conditions)
    for kind, name, image in (*runs, *(("load", load, catalogue.load_image(load)) for load in loads)):
        if chosen is not None and known.index(image) > known.index(chosen):
            allowed = known[known.index(image) :]
            advice = "" if image == known[-1] else "; or leave the key out"
            holds = "holds the agent alone, and" if chosen == known[0] else "holds free software alone, and"
            raise wrong(
                source.path,
                "guest.image",
                f"{chosen!r} {holds} the {kind} {name} runs a program that is in the image "
                f"{image}; allowed: {', '.join(allowed)}{advice}",
            )
        if chosen is None and image == known[-1]:
            raise wrong(
                source.path,
                "workloads",
                f"{name} runs a program that Debian does not call free software; "
                f"if you may use it, add: guest: {{image: {image}}}",
            )
        needed = max(needed, image, key=known.index)
    return chosen or needed


def _looks(document: dict[str, Any], until: str | None, path: Path) -> tuple[dict[str, Any], Looks | None]:
    """The file with the largest number of blocks, and the looks at what is run until all is decided, else None.

    ``until``: as it was asked for on the command line; a number of blocks is then the least one.
    """
    blocks = document.get("blocks", ExperimentFile.model_fields["blocks"].default)
    if isinstance(blocks, dict):
        bounds = validated(UntilDecided, blocks, path, "blocks")
    elif until is not None and isinstance(blocks, int):
        most = UntilDecided.model_fields["most"].default
        bounds = validated(UntilDecided, {"least": blocks, "most": max(most, blocks), "until": until}, path, "blocks")
    else:
        return document, None
    return {**document, "blocks": bounds.most}, Looks.between(bounds.least, bounds.most)


def _refuse_unmarked(parsed: ExperimentFile, path: Path) -> None:
    """Marks by ICMP travel on a NIC of their own, and must have one."""
    testbed = parsed.testbed
    elsewhere = testbed is not None and not testbed.hypervisor.host.local
    if elsewhere and testbed is not None and testbed.timekeeper is None and parsed.guest.marks == "icmp":
        raise wrong(
            path,
            "testbed.timekeeper",
            "is missing: marks by ICMP travel on a NIC of their own; add it, or set 'guest.marks: channel'",
        )


def _parse_consolidation(parsed: ConsolidationFile, text: str, path: Path, catalogue: Catalogue) -> Experiment:
    """An experiment without trials: its run folder holds a series of guests for each platform."""
    return Experiment(
        name=parsed.name,
        question=parsed.question.strip(),
        file=path,
        text=text,
        platforms=platform_choices(parsed, path, catalogue),
        workloads=(),
        baseline=None,
        control=None,
        scenario=parsed.scenario,
        vcpus=parsed.guest.vcpus,
        memory_bytes=int(parsed.guest.memory),
        marks=parsed.guest.marks,
        blocks=1,
        seed=0,
        cpu_quota=parsed.guest.cpu_quota,
        consolidation=parsed.consolidation,
        image=parsed.guest.image or "tiny",
    )
