"""How a figure shows that a platform's numbers are no results: a sign at its name, open bars, crossed markers.

The legend says what the sign means. Which platforms these are: `Analysis.caveats`.
"""

from collections.abc import Iterable
from typing import Final

from virtoll.stats.analysis import Analysis

SIGN: Final = "†"


def name(analysis: Analysis, platform: str) -> str:
    """A platform's name in a figure, with the sign where it is marked with a caveat."""
    return f"{platform} {SIGN}" if platform in analysis.caveats else platform


def found(analysis: Analysis, shown: Iterable[str]) -> list[str]:
    """Each caveat among the platforms that a figure shows, once."""
    return list(dict.fromkeys(analysis.caveats[platform] for platform in shown if platform in analysis.caveats))
