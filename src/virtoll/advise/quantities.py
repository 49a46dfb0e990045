"""Numbers with units as a need has them: 20ms, 0.1%, 200kpps. Pure; a `ValueError` says which units are known."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

NANOSECONDS: Final = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_BYTES: Final = {"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "KiB/s": 1024.0, "MiB/s": 2.0**20, "GiB/s": 2.0**30}
BITS: Final = {"bit/s": 1e-6, "kbit/s": 1e-3, "Mbit/s": 1.0, "Gbit/s": 1e3}
FRAMES: Final = {"pps": 1.0, "frames/s": 1.0, "kpps": 1e3, "kframes/s": 1e3, "Mpps": 1e6, "Mframes/s": 1e6}
SCALES: Final[Mapping[str, Mapping[str, float]]] = {
    "ns": NANOSECONDS,
    "B/s": _BYTES,
    "bytes/s": _BYTES,
    "Mbit/s": BITS,
    "frames/s": FRAMES,
    "": {"%": 0.01},  # a plain 0.1 may be meant as 0.1 % or as 10 %
}
_WORDS: Final = {"transactions/s": "tps", "1/s": "iops"}
NUMBER = r"(\d+\.?\d*|\.\d+)"
QUANTITY = re.compile(rf"{NUMBER}(\D*)")


def scales_of(unit: str) -> Mapping[str, float]:
    """The units that a figure may be given in, each with what one of it is in the figure's own."""
    if unit in SCALES:
        return SCALES[unit]
    if not unit.endswith("/s"):
        return {unit: 1.0}
    scales = {unit: 1.0, "/s": 1.0, "k/s": 1e3}
    if unit in _WORDS:
        scales[_WORDS[unit]] = 1.0
    return scales


def quantity(text: str, name: str, written: str, scales: Mapping[str, float], *, zero: bool = False) -> float:
    """What a need's `text` gives for `name`, by the units that it may have; above 0, or 0 where `zero` may be."""
    matched = QUANTITY.fullmatch(written)
    if matched is None:
        raise ValueError(f"need '{text}': '{written}' is no number with a unit; give {name} in {', '.join(scales)}")
    if matched[2] not in scales:
        problem = f"is not given in '{matched[2]}'" if matched[2] else f"has no unit, got '{written}'"
        raise ValueError(
            f"need '{text}': {name} {problem}; known are {', '.join(scales)}, as in '{matched[1]}{next(iter(scales))}'"
        )
    value = float(matched[1]) * scales[matched[2]]
    if not math.isfinite(value) or (value <= 0 and not zero):
        raise ValueError(f"need '{text}': {name} must be above 0, got '{written}'; give what is needed")
    return value
