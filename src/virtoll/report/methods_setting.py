"""Of the methods of a run the setting, in sentences: host, platforms, guests, workloads (`methods` has the rest).

Main functions: `listed`, which cuts a list into sentences of at most 25 words, and one for each paragraph. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from virtoll import units
from virtoll.report import words
from virtoll.report.rows import grouped
from virtoll.runfolder.records import PlatformEntry
from virtoll.runfolder.yaml_file import load_yaml
from virtoll.stats.analysis import Analysis

MOST_WORDS: Final = 25
_SETTINGS = {"governor": "frequency governor", "turbo": "turbo", "smt": "simultaneous multithreading"}


def listed(lead: str, items: Sequence[str], further: str = "Further ones were", end: str = "") -> Iterator[str]:
    """'lead a, b and c.', in as many sentences as it takes; none without items."""
    left = list(items)
    while left:
        number = len(left)
        while number > 1 and len(f"{lead} {joined(left[:number])}{end}".split()) > MOST_WORDS:
            number -= 1
        yield f"{lead} {joined(left[:number])}{end}."
        left, lead = left[number:], further


def joined(items: Sequence[str]) -> str:
    """Those that have commas of their own are apart by semicolons."""
    if len(items) == 1:
        return items[0]
    if any(", " in text for text in items):
        return f"{'; '.join(items[:-1])}; and {items[-1]}"
    return f"{', '.join(items[:-1])} and {items[-1]}"


def host_sentences(analysis: Analysis) -> Iterator[str]:
    """The machine: CPU, memory, kernel, what it runs under, mitigations, settings, pinning."""
    host: dict[str, Any] = analysis.data.manifest.host
    cpu, cpus, memory = host.get("cpu_model"), host.get("cpus"), host.get("memory_bytes")
    yield f"The host's CPU was {cpu}." if cpu else "The host's CPU is not recorded."
    parts = []
    if cpus:
        parts.append(words.counted(cpus, "CPU"))
    if memory:
        parts.append(f"{units.size(memory)} of memory")
    if parts:
        yield f"It had {joined(parts)}."
    kernel = _kernel(str(host.get("kernel") or ""))
    yield f"Its system was {host['os']} with {kernel}." if host.get("os") else f"Its kernel was {kernel}."
    yield from _below(host)
    yield from _mitigations(host.get("mitigations") or {})
    yield from _settings(analysis)
    yield from _pinning(analysis.data.manifest.pinning or {})


def _kernel(recorded: str) -> str:
    if not recorded:
        return "a kernel that is not recorded"
    release, *version = recorded.split()
    return f"Linux {release} ({version[-1]})" if version else f"Linux {release}"


def _below(host: Mapping[str, Any]) -> Iterator[str]:
    """The hypervisor and the clock that the host runs on."""
    if host.get("hypervisor"):
        yield f"It was itself a virtual machine ({host['hypervisor']})."
    elif "hypervisor" in host:
        yield "It ran on no hypervisor that it could see."
    if host.get("clock_source"):
        timer = f"its timer had {host['timer_hz']} ticks a second" if host.get("timer_hz") else ""
        yield f"Its clock source was {words.with_commas(host['clock_source'], timer)}."


def _mitigations(mitigations: dict[str, str]) -> Iterator[str]:
    """By the kernel's own words on each known vulnerability of CPUs."""
    if not mitigations:
        return
    clear = sum(text.startswith("Not affected") for text in mitigations.values())
    vulnerable = [name for name, text in mitigations.items() if text.startswith("Vulnerable")]
    against = [name for name, text in mitigations.items() if not text.startswith(("Not affected", "Vulnerable"))]
    yield f"Of {len(mitigations)} vulnerabilities of CPUs its kernel reports {clear} as not affecting it."
    yield from listed("It had mitigations in force against", against, "Further mitigations were against")
    yield from listed("It was vulnerable to", vulnerable, "It was vulnerable as well to")


def _settings(analysis: Analysis) -> Iterator[str]:
    """What was set for measuring, and what of the host's settings nobody wrote down."""
    host = analysis.data.manifest.host
    tuned = host.get("tuned") or ()
    yield from listed("For measuring these settings were tuned (virtoll doctor --tune):", list(tuned))
    if "tuned" in host and not tuned:
        yield "No setting of the host was tuned by Virtoll."
    unknown = [text for name, text in _SETTINGS.items() if name not in tuned]
    yield from listed("Not recorded:", unknown)
    frequencies = sorted(khz for sample in analysis.data.fitness for khz in sample.frequency_khz or ())
    if frequencies:
        low, high = units.significant(frequencies[0] / 1e6), units.significant(frequencies[-1] / 1e6)
        yield f"Between trials its CPUs were at {words.joined(low, high)} GHz."


def _pinning(pinning: dict[str, Any]) -> Iterator[str]:
    parts = []
    if pinning.get("guest_cpus"):
        parts.append(f"guests to CPU {', '.join(map(str, pinning['guest_cpus']))}")
    for role in ("generator", "sink"):
        cpu = pinning.get(f"{role}_cpu")
        if cpu is not None:
            parts.append(f"the {role} to CPU {cpu}")
    yield from listed("Virtoll pinned", parts)


def platforms_sentences(analysis: Analysis) -> Iterator[str]:
    """What was compared, in which versions, and what the experiment sets of each."""
    manifest = analysis.data.manifest
    there = [entry for entry in manifest.platforms if entry.available]
    named = [f"{entry.label} ({entry.version or 'version not recorded'})" for entry in there]
    yield from listed("The platforms were", named)
    lacking = [entry.label for entry in manifest.platforms if not entry.available]
    yield from listed("Not available on this host and so skipped:", lacking)
    yield from _parameters(there, str(manifest.experiment.get("text") or ""))
    elsewhere = [f"{entry.label} on {entry.host}" for entry in there if not entry.is_here]
    yield from listed("Guests of some were on other hosts:", elsewhere, "Further ones were")
    stand = [f"{entry.label} for {entry.stands_for}" for entry in there if entry.stands_for]
    yield from listed("In the place of the paper's platforms stand", stand, "Further ones are")


def _parameters(platforms: Sequence[PlatformEntry], text: str) -> Iterator[str]:
    """What the experiment's text sets of each platform."""
    keys = _keys_by_platform(text)
    for entry in platforms:
        known = keys.get(entry.platform, set())
        settings = [
            f"{key.replace('_', ' ')} {_value(key, value)}"
            for key, value in entry.parameters.items()
            if key in known and value not in (None, [], {})
        ]
        yield from listed(f"Of {entry.label} the experiment sets", settings, f"Of {entry.label} it sets as well")


def _keys_by_platform(text: str) -> dict[str, set[str]]:
    """Which keys the experiment's own text sets of each platform; none where it is no YAML any more."""
    try:
        left = [load_yaml(text)]
    except yaml.YAMLError:
        return {}
    keys: dict[str, set[str]] = {}
    while left:
        node = left.pop()
        if isinstance(node, dict):
            left += node.values()
            if isinstance(node.get("platform"), str):
                keys.setdefault(node["platform"], set()).update(map(str, node))
        elif isinstance(node, list):
            left += node
    return keys


def _value(key: str, value: Any) -> str:
    if key.endswith(("_bytes", "memory_max")) and isinstance(value, int):
        return units.size(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def guests_sentences(analysis: Analysis) -> Iterator[str]:
    """How large guests were, and what was in them."""
    manifest = analysis.data.manifest
    guest = manifest.experiment.get("guest") or {}
    if analysis.at_once.points:
        yield from _at_once_sentences(analysis)
    elif guest.get("vcpus") and guest.get("memory_bytes"):
        cpus = words.counted(guest["vcpus"], "virtual CPU")
        yield f"The experiment gives each guest {cpus} and {units.size(guest['memory_bytes'])} of memory."
    sizes = []
    for entry in manifest.platforms:
        if entry.vcpus:
            sizes.append(f"{entry.label} {entry.vcpus} virtual CPUs")
        elif entry.memory_bytes:
            sizes.append(f"{entry.label} {units.size(entry.memory_bytes)}")
    yield from listed("Sizes of their own had", sizes)
    if manifest.image is not None:
        yield from _image_sentences(manifest.image)


def _at_once_sentences(analysis: Analysis) -> Iterator[str]:
    points = analysis.at_once.points
    yield from listed("Guests at once were:", list(map(analysis.at_once.words, points)), "And:")
    cpus = list(map(str, sorted({point.vcpus for point in points})))
    memory = list(map(units.size, sorted({point.memory_bytes for point in points})))
    yield f"Virtual CPUs of each were {joined(cpus)}, its memory {joined(memory)}."


def _image_sentences(image: Mapping[str, Any]) -> Iterator[str]:
    """What was in the guests."""
    digest = str(image.get("digest") or "").removeprefix("sha256:")[:12]
    yield f"The guests' image was {image.get('name')}{f' (sha256 {digest})' if digest else ''}."
    kernel = image.get("kernel") or {}
    if kernel.get("package"):
        yield f"Guests that are given a kernel ran {kernel['package']}, version {kernel.get('version')}."
    tools = image.get("tools") or {}
    packages = tools.get("packages") or {}
    held = [f"{name} {packages[name]}" for name in tools.get("wanted") or () if name in packages]
    yield from listed("Of programs it held", held, "It held as well")


def workloads_sentences(analysis: Analysis) -> Iterator[str]:
    """What ran in them, at which sizes, and beside what."""
    by_title = grouped((task for task in analysis.tasks if task.metric.primary), lambda task: task.metric.title)
    named = []
    for title, tasks in by_title.items():
        named.append(f"{title}{words.bracketed(words.with_commas(*(task.size for task in tasks)))}")
    yield from listed("The workloads, with the sizes compared, were", named)
    second = dict.fromkeys(task.metric.title for task in analysis.tasks if not task.metric.primary)
    yield from listed("Further metrics of these trials were", list(second), "And")
    if named:
        yield "All parameters of each trial are in the run folder's manifest."
    conditions = [condition.label for condition in analysis.isolation.conditions]
    yield from listed("Each guest ran alone, and beside", conditions, "It ran as well beside")
