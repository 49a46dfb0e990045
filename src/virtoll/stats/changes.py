"""What changed between two runs besides the numbers: Virtoll, host, packages, platforms, image, experiment.

Main type: `Change`; `what_changed` has them all, from two manifests alone. What one of them does not say (an older
Virtoll did not record it) is not known, and no change. Pure.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from virtoll import units
from virtoll.runfolder.records import Manifest, PlatformEntry
from virtoll.stats.values import canonical


@dataclass(frozen=True)
class Change:
    """One thing that is not the same in both runs; `what` names it in words that stand before a colon.

    `before` and `after` are its values in words, of digests the first 12 digits; None: it was not there.
    """

    what: str
    before: str | None
    after: str | None


Words = Callable[[Any], str]
_Table = tuple[tuple[str, str, Words], ...]


def _plain(value: Any) -> str:
    """A value of JSON in words: lists by commas, maps as JSON."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple) and all(isinstance(part, str | int | float) for part in value):
        return ", ".join(map(_plain, value)) or "none"
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, sort_keys=True, default=list)
    return str(value)


def _digest(value: Any) -> str:
    return str(value).removeprefix("sha256:")[:12]


def _bytes(value: Any) -> str:
    return units.size(value) if isinstance(value, int) else str(value)


_AGENT: _Table = (
    ("agent's version", "version", _plain),
    ("agent's protocol", "protocol", _plain),
    ("agent's build", "build", _plain),
    ("agent's program (SHA-256)", "sha256", _digest),
)
_HOST: _Table = (
    ("machine (hash of its name)", "hostname_hash", _digest),
    ("host's kernel", "kernel", _plain),
    ("host's system", "os", _plain),
    ("CPU model", "cpu_model", _plain),
    ("number of CPUs", "cpus", _plain),
    ("host's memory", "memory_bytes", _bytes),
    ("hypervisor under the host", "hypervisor", _plain),
    ("clock source", "clock_source", _plain),
    ("kernel's timer, Hz", "timer_hz", _plain),
    ("disk of the guests' data", "data_disk", _plain),
    ("measured as root", "root", _plain),
    ("tuned settings", "tuned", _plain),
)
_GUEST_KERNEL: _Table = (
    ("guests' kernel package", "package", _plain),
    ("guests' kernel version", "version", _plain),
    ("guests' kernel (SHA-256)", "sha256", _digest),
)
_EXPERIMENT: tuple[tuple[str, str], ...] = (
    ("its name", "name"),
    ("scenario", "scenario"),
    ("conditions", "conditions"),
    ("numbers of guests at once", "scale"),
    ("blocks", "blocks"),
    ("rounds of a block", "rounds"),
    ("looks", "looks"),
    ("seed", "seed"),
    ("study", "study"),
    ("size", "size"),
    ("order of the trials", "order"),
    ("boots", "boot"),
    ("a paper's way to sum up", "summary"),
    ("margin", "margin"),
    ("needs", "needs"),
    ("thresholds", "thresholds"),
)
_PINNING: _Table = (
    ("guests' CPUs", "guest_cpus", _plain),
    ("generator's CPU", "generator_cpu", _plain),
    ("sink's CPU", "sink_cpu", _plain),
)


def what_changed(before: Manifest, after: Manifest) -> tuple[Change, ...]:
    """Everything that two manifests tell of what measured and was measured, and that differs between them.

    In the order: Virtoll, host, packages, platforms, image, nested hosts, experiment, pinning, testbed. None: nothing
    that is recorded changed.
    """
    return (
        *_one("Virtoll", before.virtoll, after.virtoll),
        *_of_agent(before, after),
        *_of_host(before.host, after.host),
        *_of_platforms(before, after),
        *_of_image(before.image, after.image),
        *_of_nested(before.nested or {}, after.nested or {}),
        *_of_experiment(before, after),
        *_fields(_PINNING, before.pinning or {}, after.pinning or {}),
        *_of_testbed(before.testbed, after.testbed),
    )


def _one(what: str, before: Any, after: Any, words: Words = _plain) -> Iterator[Change]:
    """A change where the two differ; None: it is not there."""
    if before != after:
        was = words(before) if before is not None else None
        now = words(after) if after is not None else None
        if was != now:
            yield Change(what, was, now)


def _field(what: str, key: str, before: Mapping[str, Any], after: Mapping[str, Any], words: Words) -> Iterator[Change]:
    """A change of what both record under the key; a key that is missing is not known, and no change."""
    if key in before and key in after:
        yield from _one(what, before[key], after[key], words)


def _fields(table: _Table, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for what, key, words in table:
        yield from _field(what, key, before, after, words)


def _named(what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """A change for each name of two maps, in which a missing name is something that was not there."""
    for name in sorted({*before, *after}):
        yield from _one(f"{what} {name}", before.get(name), after.get(name))


def _named_one(part: Mapping[str, Any] | None, key: str) -> str | None:
    """What a part of a manifest calls itself; None where there is no such part."""
    return None if part is None else str(part.get(key, "there"))


def _of_agent(before: Manifest, after: Manifest) -> Iterator[Change]:
    """The agent's; a model has none."""
    if before.agent is None or after.agent is None:
        yield from _one("agent", _named_one(before.agent, "version"), _named_one(after.agent, "version"))
        return
    yield from _fields(_AGENT, before.agent, after.agent)


def _of_host(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    yield from _fields(_HOST, before, after)
    for what, key in (("mitigation of", "mitigations"), ("I/O scheduler of", "io_schedulers"), ("package", "packages")):
        if isinstance(before.get(key), Mapping) and isinstance(after.get(key), Mapping):
            yield from _named(what, before[key], after[key])


def _of_platforms(before: Manifest, after: Manifest) -> Iterator[Change]:
    """Versions first, then what was asked of each. A version that is the host's kernel is told as the host's alone."""
    was = {entry.label: entry for entry in before.platforms}
    now = {entry.label: entry for entry in after.platforms}
    labels = list(dict.fromkeys((*was, *now)))
    alike: dict[tuple[str | None, str | None], list[str]] = {}
    for label in labels:
        entry, other = was.get(label), now.get(label)
        pair = (_version(entry), _version(other))
        if entry and other and _is_kernel(entry, before) and _is_kernel(other, after):
            continue
        if pair[0] != pair[1]:
            alike.setdefault(pair, []).append(label)
    for (first, second), labelled in alike.items():
        yield Change(f"platform{'s' if len(labelled) > 1 else ''} {', '.join(labelled)}", first, second)
    for label in labels:
        if label in was and label in now:
            yield from _of_entry(label, was[label], now[label])
    yield from _one("baseline", before.baseline, after.baseline)
    yield from _one("control", before.control, after.control)


def _version(entry: PlatformEntry | None) -> str | None:
    """What there is of a platform, in words: its version, or why it is not available; None: it was not asked for."""
    if entry is None:
        return None
    if not entry.available:
        return f"not available ({entry.reason})" if entry.reason else "not available"
    return entry.version or "a version that is not recorded"


def _is_kernel(entry: PlatformEntry, manifest: Manifest) -> bool:
    release = str(manifest.host.get("kernel") or "").partition(" ")[0]
    return entry.available and entry.version == f"Linux {release}"


def _of_entry(label: str, before: PlatformEntry, after: PlatformEntry) -> Iterator[Change]:
    """What was asked of one platform. A parameter that one Virtoll does not know had no other value in it."""
    what = f"platform {label}:"
    yield from _one(f"{what} product", before.platform, after.platform)
    for key in before.parameters:
        yield from _field(f"{what} {key.replace('_', ' ')}", key, before.parameters, after.parameters, _plain)
    if before.host is not None and after.host is not None:
        yield from _one(f"{what} where its guests are", before.host, after.host)
    yield from _one(f"{what} mark on its results", before.caveat, after.caveat)
    yield from _one(f"{what} counters read around what is measured", before.counters, after.counters)
    yield from _one(f"{what} vCPUs of its own", before.vcpus, after.vcpus)
    yield from _one(f"{what} memory of its own", before.memory_bytes, after.memory_bytes, _bytes)


def _of_image(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[Change]:
    """The guests' image, its kernel and its tools; a model has no image."""
    if before is None or after is None:
        yield from _one("guests' image", _named_one(before, "name"), _named_one(after, "name"))
        return
    yield from _field("guests' image", "name", before, after, _plain)
    yield from _field("guests' image (digest)", "digest", before, after, _digest)
    kernel, other = before.get("kernel"), after.get("kernel")
    if isinstance(kernel, Mapping) and isinstance(other, Mapping):
        yield from _fields(_GUEST_KERNEL, kernel, other)
    tools, others = before.get("tools"), after.get("tools")
    if isinstance(tools, Mapping) and isinstance(others, Mapping):
        yield from _field("guests' suite of Debian", "suite", tools, others, _plain)
        yield from _named("guests' package", tools.get("packages") or {}, others.get("packages") or {})


def _of_nested(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """Packages in the nested hosts that both have, and of what emulates them; the platforms tell where one is new."""
    for kind in (name for name in before if name in after):
        was, now = before[kind], after[kind]
        for what, key in ((f"nested {kind}'s package", "packages"), (f"nested {kind}'s emulator", "emulator")):
            if isinstance(was.get(key), Mapping) and isinstance(now.get(key), Mapping):
                yield from _named(what, was[key], now[key])
        yield from _field(f"nested {kind}'s emulator is mended", "emulator_mended", was, now, _plain)


def _of_experiment(before: Manifest, after: Manifest) -> Iterator[Change]:
    """Its keys and what it measures; its text alone where none of these tells the difference."""
    was, now = before.experiment, after.experiment
    changes = [change for what, key in _EXPERIMENT for change in _field(f"experiment: {what}", key, was, now, _plain)]
    for what in ("guest", "selection"):
        if isinstance(was.get(what), Mapping) and isinstance(now.get(what), Mapping):
            for key in was[what]:
                words = _bytes if key.endswith("_bytes") else _plain
                name = f"experiment: {what}'s {key.removesuffix('_bytes').replace('_', ' ')}"
                changes += _field(name, key, was[what], now[what], words)
    changes += _of_workloads(before, after)
    yield from changes
    text, other = was.get("text"), now.get("text")
    if not changes and text is not None and other is not None and _products(before) == _products(after):
        yield from _one("experiment: its text (SHA-256)", text, other, _hash)


def _hash(text: Any) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()[:12]


def _products(manifest: Manifest) -> list[tuple[str, str, Mapping[str, Any]]]:
    """What a text asks for of platforms, whose changes are told with these."""
    return [(entry.label, entry.platform, entry.parameters) for entry in manifest.platforms]


def _of_workloads(before: Manifest, after: Manifest) -> Iterator[Change]:
    """Workloads and their sets of parameters, as they are planned; told by the parameters that tell sets apart."""
    was, now = _planned(before), _planned(after)
    for workload in dict.fromkeys((*was, *now)):
        sets, other = was.get(workload, {}), now.get(workload, {})
        if sets.keys() != other.keys():
            telling = _telling((*sets.values(), *other.values()))
            yield Change(f"experiment: workload {workload}", _sets(sets, telling), _sets(other, telling))


def _planned(manifest: Manifest) -> dict[str, dict[str, Mapping[str, Any]]]:
    """By workload its sets of parameters, by their canonical text."""
    sets: dict[str, dict[str, Mapping[str, Any]]] = {}
    for trial in manifest.plan.trials:
        sets.setdefault(trial.workload, {}).setdefault(canonical(trial.parameters), trial.parameters)
    return sets


def _telling(sets: Iterable[Mapping[str, Any]]) -> list[str]:
    """The parameters whose values are not the same in all sets."""
    values: dict[str, list[str]] = {}
    sets = list(sets)
    for parameters in sets:
        for key, value in parameters.items():
            values.setdefault(key, []).append(_plain(value))
    return [key for key, texts in values.items() if len(set(texts)) > 1 or len(texts) < len(sets)]


def _sets(sets: Mapping[str, Mapping[str, Any]], telling: list[str]) -> str | None:
    if not sets:
        return None
    texts = []
    for parameters in sets.values():
        words = [f"{key.replace('_', ' ')} {_plain(parameters[key])}" for key in telling if key in parameters]
        texts.append(", ".join(words))
    return "; ".join(filter(None, texts)) or "measured"


def _of_testbed(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[Change]:
    if before is None or after is None:
        was = "hosts of its own" if before is not None else None
        now = "hosts of its own" if after is not None else None
        yield from _one("testbed", was, now)
        return
    for key in dict.fromkeys((*before, *after)):
        yield from _one(f"testbed: {key.replace('_', ' ')}", before.get(key), after.get(key))
