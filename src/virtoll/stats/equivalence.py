"""The equivalence report: what is equal between the platforms' guests and what is not, as measured inside them.

A fact is a name and a text; facts that could not be read are None, which is neither equal nor different. A fact that
varies from boot to boot of one platform is equal to nothing.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from virtoll import units
from virtoll.runfolder.records import BootRecord
from virtoll.stats.reach import reach_rows

_PLAIN = (
    ("agent", "agent_sha256"),
    ("image's files", "files_sha256"),
    ("number of the image's files", "files_count"),
    ("kernel modules", "modules_sha256"),
    ("CPUs online", "cpus_online"),
    ("CPUs allowed", "cpus_allowed"),
    ("page size", "page_size_bytes"),
    ("machine", "machine"),
    ("CPU model", "cpu_model"),
    ("kernel release", "kernel_release"),
    ("kernel version", "kernel_version"),
    ("kernel command line", "cmdline"),
    ("hypervisor", "hypervisor"),
    ("clock source", "clock_source"),
    ("I/O schedulers of the data's disk", "data_schedulers"),
    ("scheduler tick, Hz", "scheduler_tick_hz"),
    ("CPUs without a tick", "scheduler_tickless"),
    ("unit of process times, Hz", "clock_tick_hz"),
    ("root file system", "root_filesystem"),
    ("user", "uid"),
    ("capabilities", "capabilities_hex"),
)
_SIZES = (
    ("memory of the kernel", "memory_installed_bytes"),
    ("memory seen", "memory_total_bytes"),
    ("memory limit", "memory_limit_bytes"),
)
_VARIES = "varies: "
_NULL_MEANS = dict.fromkeys(
    ("memory_limit_bytes", "hypervisor", "cmdline", "modules_sha256", "data_schedulers"), "none"
)
_Interface = Mapping[str, Any]


class Likeness(StrEnum):
    """What may be said of one fact on several platforms."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class FactRow:
    """One fact: the text for each platform (None: not known), and whether these are equal.

    Unknown: those that are known agree, and it is not known of every platform.
    """

    name: str
    values: Mapping[str, str | None]
    likeness: Likeness

    @property
    def equal(self) -> bool:
        """Known of every platform, and the same on all."""
        return self.likeness is Likeness.EQUAL


@dataclass(frozen=True)
class PairCount:
    """Two platforms: which facts are equal on both, which differ, and which are not known of one of them."""

    one: str
    other: str
    different: tuple[str, ...]
    same: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def compared(self) -> int:
        """How many facts are known on both."""
        return len(self.different) + len(self.same)


@dataclass(frozen=True)
class Equivalence:
    """Facts by platform and the counts for each pair; platforms without facts are left out and named."""

    platforms: tuple[str, ...]
    rows: tuple[FactRow, ...]
    pairs: tuple[PairCount, ...]
    without_facts: tuple[str, ...]
    mismatches: tuple[tuple[str, str], ...]

    def pair(self, platform: str, other: str) -> PairCount | None:
        """The count of a pair, in either order."""
        return next((pair for pair in self.pairs if {pair.one, pair.other} == {platform, other}), None)


def equivalence(boots: Sequence[BootRecord], platforms: Sequence[str]) -> Equivalence:
    """Compare the guests' facts; CPU flags are given as the difference to those of the first platform with facts."""
    facts = {platform: _merged(boots, platform) for platform in platforms}
    known = tuple(platform for platform in platforms if facts[platform])
    if known:
        _flags_against(facts, known)
    names = dict.fromkeys(name for platform in known for name in facts[platform])
    rows = []
    for name in names:
        texts = {platform: facts[platform].get(name) for platform in known}
        rows.append(FactRow(name, texts, likeness(list(texts.values()))))
    pairs = tuple(_pair(platform, other, rows) for platform, other in itertools.combinations(known, 2))
    mismatches = dict.fromkeys((boot.platform, text) for boot in boots for text in boot.mismatches)
    without = tuple(platform for platform in platforms if not facts[platform])
    return Equivalence(known, tuple(rows), pairs, without, tuple(mismatches))


def likeness(values: Sequence[str | None]) -> Likeness:
    """Of the texts of one fact on several platforms; what varies on one of them is different."""
    known = {value for value in values if value is not None}
    if len(known) > 1 or any(value.startswith(_VARIES) for value in known):
        return Likeness.DIFFERENT
    return Likeness.UNKNOWN if None in values else Likeness.EQUAL


def _pair(platform: str, other: str, rows: Iterable[FactRow]) -> PairCount:
    names: dict[Likeness, list[str]] = {kind: [] for kind in Likeness}
    for row in rows:
        values = [row.values[platform], row.values[other]]
        names[likeness(values) if None not in values else Likeness.UNKNOWN].append(row.name)
    different, same, unknown = (tuple(names[kind]) for kind in (Likeness.DIFFERENT, Likeness.EQUAL, Likeness.UNKNOWN))
    return PairCount(platform, other, different, same, unknown)


def _merged(boots: Iterable[BootRecord], platform: str) -> dict[str, str | None]:
    """The facts of all boots of a platform: one text where they agree, all of them where they do not."""
    seen: dict[str, list[str | None]] = {}
    for boot in boots:
        if boot.platform == platform and boot.facts is not None:
            for name, value in _flat(boot.facts.to_json(), boot, _own_macs(boot)).items():
                seen.setdefault(name, []).append(value)
    return {name: _agreed(values) for name, values in seen.items()}


def _agreed(values: Sequence[str | None]) -> str | None:
    known = list(dict.fromkeys(value for value in values if value is not None))
    if len(known) <= 1:
        return known[0] if known else None
    return _VARIES + " / ".join(known)


def _own_macs(boot: BootRecord) -> frozenset[str] | None:
    """MAC addresses of the guest's own links where the boot says them: the bare host sees the others' links too."""
    macs = boot.requested.interface_macs if boot.requested is not None else ()
    return frozenset(macs) or None


def _flat(facts: Mapping[str, Any], boot: BootRecord, macs: frozenset[str] | None) -> dict[str, str | None]:
    """One boot's facts as name -> text; interfaces are distinguished by what they are, not by name or address.

    Only the interfaces with one of `macs` count, where it is known; the loopback never does.
    """
    null_means = {key: word for key, word in _NULL_MEANS.items() if key in facts}
    flat: dict[str, str | None] = {"attachment": boot.attachment}
    for name, key in _PLAIN:
        flat[name] = _text(facts.get(key), null_means.get(key))
    for name, key in _SIZES:
        size = facts.get(key)
        flat[name] = units.size(size) if isinstance(size, int) else null_means.get(key)
    if "cpu_quota" in facts:
        quota = facts["cpu_quota"]
        flat["CPU quota"] = f"{quota['quota_us'] / quota['period_us']:g}" if quota else "none"
    flat |= reach_rows(boot)
    flat["is process 1"] = {None: None, 1: "yes"}.get(facts.get("pid"), "no")
    flat["CPU flags"] = " ".join(sorted(facts.get("cpu_flags") or ())) or None
    flat |= _of_interfaces(_own_interfaces(facts.get("interfaces") or (), macs))
    for name, value in sorted((facts.get("sysctls") or {}).items()):
        flat[f"sysctl {name}"] = _text(value, None)
    return flat


def _own_interfaces(interfaces: Sequence[_Interface], macs: frozenset[str] | None) -> list[_Interface]:
    others = [interface for interface in interfaces if interface.get("name") != "lo"]
    if macs is None:
        return others
    return [interface for interface in others if interface.get("mac") in macs]


def _of_interfaces(interfaces: Sequence[_Interface]) -> dict[str, str | None]:
    flat: dict[str, str | None] = {"interfaces": str(len(interfaces))}
    flat["MTU"] = _set(interface.get("mtu") for interface in interfaces)
    flat["driver"] = _set(interface.get("driver") for interface in interfaces)
    flat["link speed, Mbit/s"] = _set(interface.get("speed_mbit") for interface in interfaces)
    offloads = [interface.get("offloads") or {} for interface in interfaces]
    for name in sorted(set().union(*offloads)):
        flat[f"offload {name}"] = _set(known.get(name) for known in offloads)
    return flat


def _text(value: Any, missing: str | None) -> str | None:
    if value is None:
        return missing
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _set(values: Iterable[Any]) -> str | None:
    known = {text for value in values if (text := _text(value, None)) is not None}
    return ", ".join(sorted(known)) if known else None


def _flags_against(facts: dict[str, dict[str, str | None]], known: Sequence[str]) -> None:
    """Replace long lists of CPU flags by their number and what is more or less than the first platform's."""
    base = set((facts[known[0]].get("CPU flags") or "").split())
    for platform in known:
        text = facts[platform].get("CPU flags")
        if text is None:
            continue
        flags = set(text.split())
        more, less = sorted(flags - base), sorted(base - flags)
        parts = [f"{len(flags)} flags"]
        if more:
            parts.append("+ " + " ".join(more))
        if less:
            parts.append("− " + " ".join(less))
        facts[platform]["CPU flags"] = "; ".join(parts)
