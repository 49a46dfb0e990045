"""An analysis with parts that no run gives."""

from dataclasses import fields, replace
from typing import Any

from virtoll.stats.analysis import Analysis


def with_parts(analysis: Analysis, **parts: Any) -> Analysis:
    """The analysis with these in the place of its own fields, or of what it computes when it is asked for."""
    stored = {field.name for field in fields(analysis)}
    changed = replace(analysis, **{name: part for name, part in parts.items() if name in stored})
    vars(changed).update({name: part for name, part in parts.items() if name not in stored})
    return changed
