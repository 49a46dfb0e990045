"""Which numbers are times of CLOCK_REALTIME in ns: every date of a page, a list or a table is made of one.

Main function: ``as_moment``. A record's own field is a ``campaign_records.Moment``. Nothing here imports pydantic: a
list of runs is made without it.
"""

from __future__ import annotations

from typing import Final

LAST_MOMENT_NS: Final = 2**63 - 1
"""The last one that Linux has, in the year 2262; a table of 64-bit numbers holds it."""


def as_moment(value: object) -> int:
    """The value if it is such a time; ValueError for any other."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LAST_MOMENT_NS:
        raise ValueError(f"a time is a whole number of ns from 0 to {LAST_MOMENT_NS}")
    return value
