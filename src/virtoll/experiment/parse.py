"""From an experiment's YAML file to a checked ``Experiment``.

The names that a file may use are handed in as a ``Catalogue``, so that this module knows no platform and no workload.
Every complaint names file, key and allowed values and is a ``UsageError``. Nothing is started, probed or measured.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from virtoll.errors import UsageError
from virtoll.experiment.against import Sides, located_setting, sides_of
from virtoll.experiment.complaints import Gathered, located, validated, wrong
from virtoll.experiment.entries import combinations, own_control, platform_choices, workload_choices
from virtoll.experiment.file import ConsolidationFile, ExperimentFile, NeighboursEntry, UntilDecided
from virtoll.experiment.model import (
    STUDIES,
    Catalogue,
    Experiment,
    Image,
    PlatformChoice,
    Scale,
    WorkloadChoice,
)
from virtoll.experiment.near import choices, near
from virtoll.experiment.plan import MOST_TRIALS, count_trials
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


def _parsed(read: YamlText, text: str, path: Path, catalogue: Catalogue, selection: Selection) -> Experiment:
    document = read.value
    if not isinstance(document, dict):
        raise UsageError(f"{path}: the file must be a mapping with the keys {_keys_of(ExperimentFile)}, sizes")
    file = path
    document, size = at_size(document, selection.size, path)
    path = _of_size(path, size)
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
    platforms: tuple[PlatformChoice, ...] = ()
    workloads: tuple[WorkloadChoice, ...] = ()
    broken = gathered.keys  # what depends on these is not looked at
    reported = gathered.entries("platforms")
    if "platforms" in document and reported is not None and "testbed" not in broken:
        with gathered.trying():
            chosen = platform_choices(parsed, path, catalogue, reported)
            platforms = () if reported else chosen
    reported = gathered.entries("workloads")
    if "workloads" in document and reported is not None and "testbed" not in broken:
        with gathered.trying():
            workloads = workload_choices(parsed, path, catalogue, reported)
    if parsed.study is not None and parsed.study not in STUDIES:
        allowed = choices(parsed.study, STUDIES)
        gathered.keep(wrong(path, "study", f"{parsed.study!r} is not known; {allowed}; or leave it out"))
    if platforms and not broken & {"baseline", "control"}:
        with gathered.trying():
            _check_baseline(parsed, [choice.label for choice in platforms], path)
    if (platforms or parsed.scenario != "neighbours") and not broken & {"neighbours", "scenario", "testbed"}:
        with gathered.trying():
            _conditions(parsed, platforms, path)
    if (platforms or parsed.scenario != "scale") and not broken & {"scale", "scenario", "testbed", "guest"}:
        with gathered.trying():
            _scale(parsed, platforms, path)
    if not broken & {"testbed", "guest"}:
        with gathered.trying():
            _marked(parsed, path)
    gathered.finish()
    control = parsed.control or own_control(platforms, parsed.baseline, path, catalogue)
    cells = _kept(parsed, platforms, workloads, control, selection, path)
    conditions, scale = _conditions(parsed, platforms, path), _scale(parsed, platforms, path)
    settings = selection.against or tuple(located_setting(text, file.parent) for text in parsed.against)
    key = None if selection.against else "against"
    sides = _sides(
        settings,
        [choice for choice in platforms if not settings or _is_in(choice, cells)],
        (parsed, control),
        catalogue,
        (path, key),
    )
    cells = _of_sides(cells, sides)
    left, run = {label for label, _ in cells}, {workload for _, workload in cells}
    baseline = parsed.baseline if parsed.baseline in left else None
    if looks is not None and (baseline is None or parsed.order == "paper"):
        what = "the baseline is left out" if baseline is None else "the paper's order has no blocks"
        raise wrong(path, "blocks.until", f"{what}, so nothing can be decided; give a number of blocks")
    return Experiment(
        name=parsed.name,
        question=parsed.question.strip(),
        file=file,
        text=text,
        platforms=tuple(
            choice for choice in sides.platforms if choice.label in left | {other.platform for other in conditions}
        ),
        workloads=tuple(choice for choice in workloads if choice.workload in run),
        baseline=baseline,
        control=control if baseline is not None and control in left else None,
        scenario=parsed.scenario,
        vcpus=parsed.guest.vcpus,
        memory_bytes=int(parsed.guest.memory),
        marks=parsed.guest.marks,
        blocks=parsed.blocks,
        looks=looks,
        seed=parsed.seed,
        testbed=_marked(parsed, path).testbed,
        cpu_quota=parsed.guest.cpu_quota,
        study=parsed.study,
        image=_image(parsed, run, conditions, path, catalogue),
        order=parsed.order,
        boot=parsed.boot,
        rounds=parsed.rounds,
        summary=parsed.summary,
        margin=parsed.margin,
        needs=tuple(parsed.needs),
        thresholds=tuple(parsed.thresholds),
        size=size,
        selection=selection,
        cells=cells,
        conditions=conditions,
        scale=scale,
        against=settings,
        pairs=sides.pairs,
        unconcerned=sides.unconcerned,
    )


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
    selection: Selection,
    path: Path,
) -> frozenset[Cell]:
    """The pairs of label and workload that are run; what is wrong with the file's own patterns is its key's."""
    return kept_cells(
        {choice.label: choice.platform for choice in platforms},
        [choice.workload for choice in workloads],
        (parsed.baseline, control),
        selection,
        parsed.skip,
        lambda complaint: wrong(path, "skip", complaint),
    )


def _is_in(choice: PlatformChoice, cells: Collection[Cell]) -> bool:
    return any(label == choice.label for label, _ in cells)


def _sides(
    settings: Sequence[str],
    platforms: Sequence[PlatformChoice],
    standing: tuple[ExperimentFile, str | None],
    catalogue: Catalogue,
    told_of: tuple[Path, str | None],
) -> Sides:
    """The platforms as they are, and those that the settings concern with them too.

    ``standing``: who names the baseline, and the label of its control. ``told_of``: the file, and the key of it that
    has the settings; None: they were given on the command line.
    """
    if not settings:
        return Sides(tuple(platforms), (), ())
    parsed, control = standing
    path, key = told_of
    try:
        _refuse_unpaired(parsed)
        return sides_of(settings, platforms, (parsed.baseline, control), catalogue, parsed.testbed)
    except UsageError as error:
        if key is None:
            raise UsageError(f"--against {error}") from error
        raise wrong(path, key, str(error)) from error


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


def _conditions(parsed: ExperimentFile, platforms: Sequence[PlatformChoice], path: Path) -> tuple[Condition, ...]:
    """What the guests beside the measured one do, each condition once; empty in the scenario ``dedicated``."""
    if parsed.scenario != "neighbours":
        if parsed.neighbours is not None:
            raise wrong(path, "neighbours", "needs 'scenario: neighbours'; set it, or leave the key out")
        if parsed.testbed is not None and parsed.testbed.neighbour is not None:
            raise wrong(path, "testbed.neighbour", "needs 'scenario: neighbours'; set it, or leave the key out")
        return ()
    if not parsed.neighbours:
        raise wrong(path, "neighbours", "is missing; add loads, such as [idle, light, heavy]")
    for place, choice in enumerate(platforms):
        if choice.parameters.pre_provisioned:
            raise wrong(
                path,
                f"platforms[{place}]",
                f"its guest is there already, and no other is started beside it; "
                f"take {choice.label} out, or set 'scenario: dedicated'",
            )
    labels = [choice.label for choice in platforms]
    conditions: list[Condition] = []
    for place, entry in enumerate(parsed.neighbours):
        where = f"neighbours[{place}]"
        written = {"load": entry} if isinstance(entry, str) else dict(entry)
        for combination in combinations(written, NeighboursEntry, where, path):
            condition = validated(NeighboursEntry, combination, path, where).condition
            if condition.platform is not None and condition.platform not in labels:
                raise wrong(
                    path,
                    f"{where}.platform",
                    f"{condition.platform!r} is not among the platforms; allowed: {', '.join(labels)}",
                )
            if condition in conditions:
                raise wrong(path, f"{where}", f"'{condition.label}' is there twice; leave one out")
            conditions.append(condition)
    return tuple(conditions)


def _scale(parsed: ExperimentFile, platforms: Sequence[PlatformChoice], path: Path) -> Scale | None:
    """How many guests do the same at once; None in another scenario than ``scale``."""
    entry = parsed.scale
    if parsed.scenario != "scale":
        if entry is not None:
            raise wrong(path, "scale", "needs 'scenario: scale'; set it, or leave the key out")
        return None
    if entry is None:
        raise wrong(path, "scale", "is missing; add numbers of guests, such as {guests: [1, 2, 4, 8]}")
    if parsed.order == "paper":
        raise wrong(path, "order", "the scenario scale has blocks in random order; leave 'order' out")
    _refuse_elsewhere(parsed, platforms, path)
    labels = [choice.label for choice in platforms]
    unknown = [label for label in entry.most if label not in labels]
    if unknown:
        raise wrong(path, "scale.most", f"{unknown[0]!r} is not among the platforms; allowed: {', '.join(labels)}")
    scale = Scale(entry.points(parsed.guest), entry.most, entry.overcommit, entry.affinity)
    nothing = [label for label in labels if not scale.points_of(label)]
    if nothing:
        raise wrong(
            path,
            "scale.most",
            f"no number of 'scale.guests' is so small for {nothing[0]}; raise it, or take the platform out",
        )
    return scale


def _refuse_elsewhere(parsed: ExperimentFile, platforms: Sequence[PlatformChoice], path: Path) -> None:
    """Guests that do the same at once are all on this machine."""
    which = "guests that do the same at once"
    if parsed.testbed is not None:
        raise wrong(
            path,
            "testbed",
            f"{which} have links of their own, on this machine alone; leave it out, or set 'scenario: dedicated'",
        )
    for place, choice in enumerate(platforms):
        if choice.host is not None or choice.parameters.pre_provisioned:
            raise wrong(
                path,
                f"platforms[{place}]",
                f"{which} are started on this machine; take {choice.label} out, or set 'scenario: dedicated'",
            )


def _image(
    parsed: ExperimentFile,
    workloads: Collection[str],
    conditions: Sequence[Condition],
    path: Path,
    catalogue: Catalogue,
) -> Image:
    """What was asked for, if the programs of workloads and loads that are run are in it; else what they need.

    Programs that are no free software are in no image that was not asked for.
    """
    known: tuple[Image, ...] = typing.get_args(Image)
    chosen, needed = parsed.guest.image, known[0]
    runs = [("workload", name, catalogue.images[name]) for name in catalogue.workloads if name in workloads]
    loads = dict.fromkeys(condition.load for condition in conditions)
    for kind, name, image in (*runs, *(("load", load, catalogue.load_image(load)) for load in loads)):
        if chosen is not None and known.index(image) > known.index(chosen):
            allowed = known[known.index(image) :]
            advice = "" if image == known[-1] else "; or leave the key out"
            holds = "holds the agent alone, and" if chosen == known[0] else "holds free software alone, and"
            raise wrong(
                path,
                "guest.image",
                f"{chosen!r} {holds} the {kind} {name} runs a program that is in the image "
                f"{image}; allowed: {', '.join(allowed)}{advice}",
            )
        if chosen is None and image == known[-1]:
            raise wrong(
                path,
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


def _marked(parsed: ExperimentFile, path: Path) -> ExperimentFile:
    """Marks by ICMP travel on a NIC of their own, and must have one."""
    testbed = parsed.testbed
    elsewhere = testbed is not None and not testbed.hypervisor.host.local
    if elsewhere and testbed is not None and testbed.timekeeper is None and parsed.guest.marks == "icmp":
        raise wrong(
            path,
            "testbed.timekeeper",
            "is missing: marks by ICMP travel on a NIC of their own; add it, or set 'guest.marks: channel'",
        )
    return parsed


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


def _keys_of(model: type[BaseModel]) -> str:
    return ", ".join(model.model_fields)
