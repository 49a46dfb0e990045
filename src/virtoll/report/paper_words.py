"""Words of a paper's parameters: its own names of platforms and sizes, and units that are read aloud."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from virtoll import units
from virtoll.claims.paper_figures import placed_text
from virtoll.claims.published_rows import rows_file
from virtoll.report import words
from virtoll.stats.compared import Scalar

NOUNS: Final[Mapping[str, str]] = {
    "digits": "digits",
    "frame_size_bytes": "B",
    "working_set_bytes": "B working set",
    "total_rate_frames_per_second": "kpackets/s",
    "each_rate_frames_per_second": "kpackets/s each",
    "rate_requests_per_second": "requests/s",
    "rates_mbit_per_second": "Mbit/s",
    "rate_bits_per_second": "Mbit/s",
    "requests": "requests",
    "sources": "sources",
    "guests": "guests",
    "threads": "threads",
    "processes": "processes",
    "jobs": "jobs",
    "workers": "workers",
    "connections": "connections",
    "clients": "clients",
    "rounds": "rounds",
    "transactions": "transactions",
    "transmitters": "senders",
    "routers": "routers",
    "routes": "routes",
    "vcpus": "virtual CPUs",
    "seconds": "seconds",
}
"""What a parameter counts; of one there is no s at the end."""
_VERSION = re.compile(r"( in Linux)? [0-9][0-9.\-]*")
_SIZE = re.compile(r"\b([0-9]+) B\b")
_POWERS = 1 << 16  # from here on a power of two is told as one


@cache
def _without_checksum() -> Mapping[int, int]:
    """The papers' sizes of frames by ours: theirs are without the four bytes of the check sequence."""
    sizes: dict[int, int] = {}
    for mapped in rows_file().mapped:
        for text, where in mapped.by.get("frame", {}).items():
            ours = where["frame_size_bytes"]
            if text.isdecimal() and isinstance(ours, list):
                sizes |= {int(size): int(text) for size in ours if isinstance(size, int)}
    return sizes


def as_the_paper_counts(text: str) -> str:
    """A text with each size of frames as the papers count it: 64 B where ours is 68 B."""
    sizes = _without_checksum()
    return _SIZE.sub(lambda match: f"{sizes.get(int(match[1]), match[1])} B", text)


def short_name(stands_for: str) -> str:
    """What a platform stands for, without versions and explanations: 'OpenVZ'."""
    first = re.split(r" \(|, ", stands_for, maxsplit=1)[0]
    return _VERSION.sub("", first).strip()


def value_words(name: str | None, value: Scalar | None) -> str:
    """A parameter's value in words: '64 B', '50 % of its maximum', 'beside heavy'; empty for none."""
    if name is None or value is None:
        return ""
    if name == "neighbour_rate_share" and isinstance(value, float):
        return f"beside {units.percent(value)} of its maximum"
    if name == "neighbour_load":
        return "alone" if value == "nothing" else f"beside {value}"
    if name in NOUNS or name.endswith(("_bytes", "_per_second")):
        return level_text(name, value)
    return f"{parameter_words(name)} {placed_text(value)}"


def level_text(name: str, value: Scalar) -> str:
    """A value with its unit or noun: '16 MiB', '2 senders', '20 kpackets/s', '65 536 (2^16) digits'."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return placed_text(value)
    noun = NOUNS.get(name, "")
    if name == "frame_size_bytes":
        return f"{place_text(name, value)} B"
    if name in ("total_rate_frames_per_second", "each_rate_frames_per_second"):
        return f"{placed_text(value / 1000)} {noun}" if value else "as many as there can be"
    if name.endswith("bits_per_second"):
        return f"{placed_text(round(value / 1e6))} Mbit/s" if value else "no limit"
    if name.endswith("milliseconds"):
        return units.nanoseconds(value * 1e6)
    if name == "working_set_bytes":
        return f"{placed_text(value)} {noun}"
    if name.endswith("_bytes") or name == "size":
        return units.size(int(value))
    if name == "digits" and value >= _POWERS and value == 1 << (int(value).bit_length() - 1):
        return f"{placed_text(value)} (2^{int(value).bit_length() - 1}) {noun}"
    return f"{placed_text(value)} {noun.removesuffix('s') if value == 1 else noun}".rstrip()


def place_text(name: str | None, value: Scalar | None) -> str:
    """A place on the axis of a parameter."""
    if name == "frame_size_bytes" and isinstance(value, int):
        return placed_text(_without_checksum().get(value, value))
    return placed_text(value)


def parameter_words(name: str) -> str:
    """A parameter's name without its unit: 'file', 'link rate', 'affinity'."""
    if NOUNS.get(name, "").isalpha():
        return NOUNS[name]
    for end in ("_bytes", "_bits_per_second", "_frames_per_second", "_milliseconds", "_mbit_per_second"):
        name = name.removesuffix(end)
    return words.with_commas(name.removeprefix("neighbour_").replace("_", " "))
