"""Rows of a run as a table of pandas, whose columns have the same types for every run.

Main function: ``frame_of``. pandas is the extra ``data``, and is imported by it alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from virtoll import __version__
from virtoll.errors import UsageError, remedy_for

if TYPE_CHECKING:
    import pandas as pd

Rows = Literal["medians", "comparisons", "trials"]
_TEXT: Final = "string"
_COUNT: Final = "Int64"
_NUMBER: Final = "Float64"
_ANSWER: Final = "boolean"
_TASK: Final = {"workload": _TEXT, "parameters": _TEXT, "metric": _TEXT, "unit": _TEXT, "label": _TEXT}
_INTERVAL: Final = {"low": _NUMBER, "low_open": _ANSWER, "high": _NUMBER, "high_open": _ANSWER}
COLUMNS: Final[Mapping[Rows, Mapping[str, str]]] = {
    "medians": {
        "platform": _TEXT,
        **_TASK,
        "median": _NUMBER,
        **_INTERVAL,
        "coverage_share": _NUMBER,
        "blocks": _COUNT,
        "values": _COUNT,
        "flagged_trials": "object",
        "generator_bound": _ANSWER,
        "lower_bound": _ANSWER,
        "caveat": _TEXT,
    },
    "comparisons": {
        "platform": _TEXT,
        "baseline": _TEXT,
        **_TASK,
        "pairs": _COUNT,
        "baseline_median": _NUMBER,
        "platform_median": _NUMBER,
        "share": _NUMBER,
        **_INTERVAL,
        "times_slower": _NUMBER,
        "interval_method": _TEXT,
        "p_value": _NUMBER,
        "p_adjusted": _NUMBER,
        "family": _TEXT,
        "verdict": _TEXT,
        "at_least": _NUMBER,
        "margin": _NUMBER,
        "smallest_detectable_factor": _NUMBER,
        "reason": _TEXT,
        "caveat": _TEXT,
        "unlike_facts": _TEXT,
    },
    "trials": {
        "trial": _COUNT,
        "block": _COUNT,
        "platform": _TEXT,
        "workload": _TEXT,
        "parameters": _TEXT,
        "warm_up": _ANSWER,
        "status": _TEXT,
        "reason": _TEXT,
    },
}
"""The columns of each table, with pandas' types; each of these has a missing value of its own."""
_OF_THE_BASELINE: Final = "share of the baseline's performance"
_AS_SAID: Final = "as the column unit says"
UNITS: Final[Mapping[Rows, Mapping[str, str]]] = {
    "medians": dict.fromkeys(("median", "low", "high"), _AS_SAID),
    "comparisons": {
        **dict.fromkeys(("baseline_median", "platform_median"), _AS_SAID),
        **dict.fromkeys(("share", "low", "high", "margin"), _OF_THE_BASELINE),
        **dict.fromkeys(("times_slower", "at_least"), "factor"),
    },
    "trials": {},
}
"""The units of columns whose names do not say them."""


def frame_of(rows: Sequence[Mapping[str, Any]], of: Rows, run: str) -> pd.DataFrame:
    """The rows as a table: what is missing is NA, and never zero; one without rows has its columns too.

    Its ``attrs`` have the run's name, the version of Virtoll that read it, and units. Raises ``UsageError`` where
    pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise UsageError(f"a frame needs pandas, which is not installed; {remedy_for('pandas')}") from None
    types = COLUMNS[of]
    columns = list(rows[0]) if rows else list(types)
    frame = pd.DataFrame(rows, columns=columns, dtype="object")
    frame = frame.astype({name: types[name] for name in columns if name in types})
    frame.attrs = {"run": run, "virtoll": __version__, "units": dict(UNITS[of])}
    return frame
