"""The entries of ``platforms`` and ``workloads``: each with its factors expanded and its parameters checked.

Main functions: ``platform_choices``, ``workload_choices``, ``combinations`` and ``own_control``. The names that an
entry may use are handed in as a ``Catalogue``. Every complaint names file, key and allowed values and is a
``UsageError``.
"""

from __future__ import annotations

import itertools
import re
import typing
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from virtoll.errors import as_written
from virtoll.experiment.complaints import Gathered, validated, wrong
from virtoll.experiment.file import ConsolidationFile, ExperimentFile, OwnSize
from virtoll.experiment.model import LABEL_PATTERN, LABEL_WORDS, Catalogue, Parameters, PlatformChoice, WorkloadChoice
from virtoll.experiment.near import choices
from virtoll.experiment.topology import HostAddress, Testbed

_NO_SIZES: list[tuple[OwnSize, list[str]]] = [(OwnSize(), [])]
_TAKEN = "constructor"
"""What every object of JavaScript has: Vega cannot tell a datum of this name from it, and draws no figure."""


def platform_choices(
    parsed: ExperimentFile | ConsolidationFile, path: Path, catalogue: Catalogue, reported: Collection[int] = ()
) -> tuple[PlatformChoice, ...]:
    """The platforms of a file; all that is wrong with any of its entries is raised at once.

    ``reported``: the numbers of entries of which that was told already; they are left out.
    """
    chosen: list[PlatformChoice] = []
    gathered = Gathered()
    for position, entry in enumerate(parsed.platforms):
        if position in reported:
            continue
        with gathered.trying():
            for choice in _of_entry(entry, f"platforms[{position}]", path, catalogue, parsed):
                if any(choice.label == other.label for other in chosen):
                    raise wrong(
                        path,
                        f"platforms[{position}]",
                        f"{choice.label!r} is there twice; give one of them another 'label'",
                    )
                chosen.append(choice)
    gathered.finish()
    return tuple(chosen)


def _of_entry(
    entry: str | dict[str, Any],
    where: str,
    path: Path,
    catalogue: Catalogue,
    parsed: ExperimentFile | ConsolidationFile,
) -> list[PlatformChoice]:
    """One entry of ``platforms``: a platform for each combination of its factors."""
    name, written = _entry(entry, "platform", where, path, catalogue.platforms)
    model = catalogue.platforms[name]
    gathered = Gathered()
    label = stands_for = host = None
    counters, sizes = True, _NO_SIZES
    with gathered.trying():
        label = _label(written.pop("label", None), where, path)
    with gathered.trying():
        host = _host(written.pop("host", None), where, path, parsed)
        _refuse_misplaced(model, host, where, path, parsed)
    with gathered.trying():
        stands_for = _words(written.pop("stands_for", None), f"{where}.stands_for", path)
    with gathered.trying():
        counters = _counters(written.pop("counters", None), where, path)
    with gathered.trying():
        sizes = _own_sizes(written.pop("guest", None), model, where, path, parsed)
    checked: list[tuple[dict[str, Any], Parameters]] = []
    with gathered.trying():
        checked = _with_parameters(written, model, where, path)
    gathered.finish()
    choices: list[PlatformChoice] = []
    for (combination, parameters), (size, size_words) in itertools.product(checked, sizes):
        _refuse_conflict(parameters, _testbed(parsed), where, path)
        _refuse_without_far_side(parameters, host, _testbed(parsed), where, path)
        nested = ["nested"] if host is not None and host.nested is not None else []
        uncounted = [] if counters else ["uncounted"]
        values = [_in_words(parameters, key) for key in combination if key not in parameters.unlabelled]
        choices.append(
            PlatformChoice(
                label or "-".join([name, *nested, *values, *size_words, *uncounted]),
                name,
                parameters,
                host=host,
                stands_for=stands_for,
                counters=counters,
                vcpus=size.vcpus,
                memory_bytes=None if size.memory is None else int(size.memory),
            )
        )
    return choices


def _with_parameters(
    written: dict[str, Any], model: type[Parameters], where: str, path: Path
) -> list[tuple[dict[str, Any], Parameters]]:
    """Each combination of an entry's factors with its checked parameters; all that is wrong with any of them."""
    checked: list[tuple[dict[str, Any], Parameters]] = []
    gathered = Gathered()
    for combination in combinations(written, model, where, path):
        with gathered.trying():
            checked.append((combination, validated(model, combination, path, where)))
    gathered.finish()
    return checked


def own_control(
    platforms: Sequence[PlatformChoice], baseline: str | None, path: Path, catalogue: Catalogue
) -> str | None:
    """The label of the baseline's A/A control, which must be given what the baseline is; None: there is none."""
    control = next((choice for choice in platforms if catalogue.controls.get(choice.platform) == baseline), None)
    reference = next((choice for choice in platforms if choice.label == baseline), None)
    if control is None or reference is None:
        return None
    if (control.parameters, control.vcpus, control.memory_bytes) != (
        reference.parameters,
        reference.vcpus,
        reference.memory_bytes,
    ):
        raise wrong(
            path,
            "platforms",
            f"{control.label} is the A/A control of {reference.label} and is not given the same; give "
            "both the same keys, or name another 'control'",
        )
    return control.label


def _own_sizes(
    written: object, model: type[Parameters], where: str, path: Path, parsed: ExperimentFile | ConsolidationFile
) -> list[tuple[OwnSize, list[str]]]:
    """What an entry's guests are given of their own, a list of a key's values being a factor, with words for a label.

    Where they have nothing of their own, one that is empty.
    """
    if written is None:
        return [(OwnSize(), [])]
    where = f"{where}.guest"
    if not isinstance(written, dict):
        raise wrong(
            path, f"{where}", f"{as_written(written)} is no mapping; allowed in it: {', '.join(OwnSize.model_fields)}"
        )
    if parsed.scenario != "dedicated" or model.pre_provisioned:
        why = (
            "a guest that is found has its size" if model.pre_provisioned else f"scenario {parsed.scenario} has its own"
        )
        raise wrong(path, f"{where}", f"{why}; leave it out")
    sizes = []
    for combination in combinations(written, OwnSize, where, path):
        size = validated(OwnSize, combination, path, where)
        words = []
        if size.vcpus is not None:
            words.append(f"{size.vcpus}vcpu{'s' if size.vcpus > 1 else ''}")
        if size.memory is not None:
            words.append(_exactly(size.memory))
        sizes.append((size, words))
    return sizes


def _exactly(memory_bytes: int) -> str:
    """A size as a part of a label: in the largest unit that leaves no fraction."""
    for unit, letter in ((2**30, "gib"), (2**20, "mib")):
        if memory_bytes % unit == 0:
            return f"{memory_bytes // unit}{letter}"
    return f"{memory_bytes}b"


def _counters(written: object, where: str, path: Path) -> bool:
    """Whether counters are read around what is measured: yes, unless the entry says ``counters: none``."""
    if written not in (None, "all", "none"):
        raise wrong(
            path, f"{where}.counters", f"{as_written(written)} is not known; {choices(written, ('all', 'none'))}"
        )
    return written != "none"


def _testbed(parsed: ExperimentFile | ConsolidationFile) -> Testbed | None:
    """The file's section ``testbed``, which a consolidation series has not."""
    return parsed.testbed if isinstance(parsed, ExperimentFile) else None


def _refuse_conflict(parameters: Parameters, testbed: Testbed | None, where: str, path: Path) -> None:
    conflict = parameters.conflict(testbed)
    if conflict is not None:
        raise wrong(path, f"{where}.{conflict[0]}", f"{conflict[1]}")


def _refuse_without_far_side(
    parameters: Parameters, host: HostAddress | None, testbed: Testbed | None, where: str, path: Path
) -> None:
    key = parameters.needs_far_side
    if key is not None and testbed is None and (host is None or host.nested is None):
        raise wrong(
            path,
            f"{where}.{key}",
            "generator and sink must be behind these NICs, on another host; add the section 'testbed'",
        )


def _host(written: object, where: str, path: Path, parsed: ExperimentFile | ConsolidationFile) -> HostAddress | None:
    """Where a platform's guests are: its own ``host``, or the testbed's hypervisor; None: this machine."""
    testbed = _testbed(parsed)
    if written is None or written == "local":
        return None if testbed is None or testbed.hypervisor.host.local else testbed.hypervisor.host
    address = validated(HostAddress, written, path, f"{where}.host")
    if address.nested is None or testbed is not None or isinstance(parsed, ConsolidationFile):
        raise wrong(
            path,
            f"{where}.host",
            "allowed: 'local', or 'nested:KIND' (xen, xen-hvm, xen-pci, kvm, virtualbox) "
            "with trials and without a 'testbed'; a host over SSH is named in 'testbed.hypervisor'",
        )
    return address


def _refuse_misplaced(
    model: type[Parameters],
    host: HostAddress | None,
    where: str,
    path: Path,
    parsed: ExperimentFile | ConsolidationFile,
) -> None:
    """A guest that is found has no host to choose, no size and no share of a CPU; all others have."""
    if not model.pre_provisioned:
        if host is not None and host.guests:
            raise wrong(
                path,
                f"{where}",
                "in a 'testbed' without 'hypervisor' every guest must be one that is there "
                "already (ssh); take this one out, or add 'testbed.hypervisor'",
            )
        return
    if host is not None and not host.guests:
        raise wrong(
            path,
            f"{where}",
            "its guest is there already, on no host of Virtoll's; leave out 'host' and 'testbed.hypervisor'",
        )
    if isinstance(parsed, ConsolidationFile) or (host is None and _testbed(parsed) is not None):
        raise wrong(
            path,
            f"{where}",
            "its guest is there already: no consolidation series takes it, and no "
            "'testbed' with guests on this machine; take it out",
        )
    if parsed.guest.cpu_quota is not None:
        raise wrong(path, "guest.cpu_quota", "no quota is set on a guest that is found; leave it out")


def _in_words(parameters: Parameters, key: str) -> str:
    """A parameter's checked value: what was written may say the same in another way (``on`` and ``true``)."""
    value = getattr(parameters, key)
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def workload_choices(
    parsed: ExperimentFile, path: Path, catalogue: Catalogue, reported: Collection[int] = ()
) -> tuple[WorkloadChoice, ...]:
    """The workloads of a file, each once; all that is wrong with any of its entries is raised at once.

    ``reported``: as of the platforms.
    """
    positions: dict[WorkloadChoice, int] = {}
    gathered = Gathered()
    for position, entry in enumerate(parsed.workloads):
        if position in reported:
            continue
        where = f"workloads[{position}]"
        with gathered.trying():
            name, written = _entry(entry, "workload", where, path, catalogue.workloads)
            for combination, parameters in _with_parameters(written, catalogue.workloads[name], where, path):
                choice = WorkloadChoice(name, parameters)
                _refuse_conflict(choice.parameters, parsed.testbed, where, path)
                if choice in positions:
                    other = "itself" if positions[choice] == position else f"workloads[{positions[choice]}]"
                    trial = ", ".join([name, *(f"{key} {value}" for key, value in combination.items())])
                    raise wrong(path, where, f"repeats a trial of {other}: {trial}; remove one")
                positions[choice] = position
    gathered.finish()
    return tuple(positions)


def _entry(
    entry: str | dict[str, Any], key: str, where: str, path: Path, known: Mapping[str, type[Parameters]]
) -> tuple[str, dict[str, Any]]:
    """Split an entry (``runc`` or ``{platform: runc, ...}``) into its checked name and its parameters."""
    written: dict[str, Any] = {key: entry} if isinstance(entry, str) else dict(entry)
    name = written.pop(key, None)
    if not isinstance(name, str) or name not in known:
        if name is None and isinstance(entry, dict) and len(entry) == 1 and next(iter(entry)) in known:
            meant = next(iter(entry))  # as a list of YAML's mappings is often written
            sentence = f"write '{key}: {meant}', and the parameters of {meant} beside it, one line each"
            raise wrong(path, where, f"the key '{key}' is missing; {sentence}")
        sentence = f"{as_written(name)} is not known" if name is not None else f"the key '{key}' is missing"
        allowed = choices(name, known, f"virtoll list {key}s")
        raise wrong(path, f"{where}.{key}", f"{sentence}; {allowed}")
    return name, written


def _label(written: object, where: str, path: Path) -> str | None:
    """An entry's own label: it becomes a name in tables and of folders, so it is checked as the experiment's is."""
    if written == _TAKEN:
        raise wrong(path, f"{where}.label", f"no figure can be drawn with {_TAKEN!r}; give another label")
    if written is None or (isinstance(written, str) and re.fullmatch(LABEL_PATTERN, written)):
        return written
    raise wrong(path, f"{where}.label", f"{as_written(written)} is not a label; allowed: {LABEL_WORDS}")


def _words(written: object, where: str, path: Path) -> str | None:
    if written is None or (isinstance(written, str) and written.strip()):
        return written
    raise wrong(path, f"{where}", f"{as_written(written)} is no text; say in words what of the paper's it stands for")


def combinations(written: dict[str, Any], model: type[Parameters], where: str, path: Path) -> list[dict[str, Any]]:
    """All combinations of the parameters that are given as lists although the model wants one value: the factors."""
    for key, values in written.items():
        if values == []:
            raise wrong(path, where, "the list is empty; give at least one value", key)
    factors = []
    for key, values in written.items():
        several = values if isinstance(values, list) and not wants_list(model, key) else [values]
        factors.append([(key, value) for value in several])
    return [dict(combination) for combination in itertools.product(*factors)]


def wants_list(model: type[BaseModel], key: str) -> bool:
    """Whether a list is one value of the key, and not a factor of several."""
    field = model.model_fields.get(key)
    return field is not None and typing.get_origin(field.annotation) in (list, tuple)
