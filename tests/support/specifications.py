"""What a figure's specification holds: its panels, its data, and its legend's labels."""

import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import vl_convert

from virtoll.report.drawer import VEGA_LITE
from virtoll.report.figures.style import Specification, Width, config
from virtoll.stats.intervals import Interval

VIEW_KEYS = frozenset((
    "$schema", "align", "bounds", "center", "columns", "concat", "data", "encoding", "hconcat", "height", "layer",
    "mark", "params", "resolve", "spacing", "title", "transform", "vconcat", "view", "width",
))  # fmt: skip
"""What a view of Vega-Lite may have, of which figures use these."""
CHANNELS = frozenset((
    "detail", "fill", "opacity", "shape", "size", "stroke", "strokeDash", "strokeWidth", "text", "tooltip", "x", "x2",
    "xOffset", "y", "y2", "yOffset",
))  # fmt: skip
"""The channels of an encoding that figures use."""
CHANNEL_KEYS = frozenset((
    "axis", "bandPosition", "condition", "datum", "field", "legend", "scale", "sort", "stack", "title", "type", "value",
))  # fmt: skip
"""What a channel may have."""


def panels_of(specification: Specification) -> list[Specification]:
    """Each panel with data of its own, in order; the legend is no panel."""
    return [one for one in _leaves(specification) if not _is_legend(one)]


def data_of(specification: Specification) -> list[Mapping[str, Any]]:
    """Every datum of the panels, in order."""
    return [datum for panel in panels_of(specification) for datum in panel["data"]["values"]]


def legend_of(specification: Specification) -> list[str]:
    """The labels of the legend."""
    return [datum["label"] for one in _leaves(specification) if _is_legend(one) for datum in one["data"]["values"]]


def assert_drawn(datum: Mapping[str, Any], value: float, interval: Interval | None, scale: float = 1.0) -> None:
    """The datum has this value with its interval, both by the axis's `scale`."""
    assert interval is not None
    drawn = [datum[key] for key in ("value", "low", "high")]
    assert drawn == pytest.approx([one / scale for one in (value, interval.low, interval.high)], rel=1e-5)


def fields_without_data(specification: Specification) -> set[str]:
    """The fields by which a panel or legend draws something, and that no datum there has."""
    return set().union(*(_without_data(leaf, frozenset()) for leaf in _leaves(specification)))


def _without_data(specification: Specification, known: frozenset[str]) -> set[str]:
    """``known``: the fields around it. A layer whose filter asks for one that no datum has draws nothing."""
    if "data" in specification:
        known = frozenset(key for datum in specification["data"]["values"] for key in datum)
    transforms = specification.get("transform", ())
    filters = " ".join(one["filter"] for one in transforms if isinstance(one.get("filter"), str))
    if not known or not set(re.findall(r"datum\.(\w+)", filters)) <= known:
        return set()
    known |= {one["as"] for one in transforms if isinstance(one.get("as"), str)}
    lacking = _fields(specification.get("encoding", {})) - known
    for inner in specification.get("layer", ()):
        lacking |= _without_data(inner, known)
    return lacking


def complaints(specification: Specification, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What the converter has against it: layers that define one scale in two ways, or a mark without what it needs.

    Unknown keys are in the list too. It raises ValueError if it cannot compile the specification.
    """
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        vl_convert.vegalite_to_vega(specification, vl_version=VEGA_LITE, config=config(Width.PAGE), show_warnings=True)
    said = capfd.readouterr()
    return [*(str(one.message) for one in found), *filter(None, (said.out, said.err)), *unknown_keys(specification)]


def unknown_keys(specification: Specification) -> list[str]:
    """Keys that a view of Vega-Lite or an encoding's channel does not have: the converter ignores them."""
    views = list(_views(specification))
    encodings = [view.get("encoding", {}) for view in views]
    channels = [channel for encoding in encodings for channel in encoding.values() if isinstance(channel, dict)]
    unknown = {key for view in views for key in view.keys() - VIEW_KEYS}
    unknown |= {name for encoding in encodings for name in encoding.keys() - CHANNELS}
    return sorted(unknown.union(*(channel.keys() - CHANNEL_KEYS for channel in channels)))


def _views(specification: Specification) -> Iterator[Specification]:
    yield specification
    for key in ("vconcat", "hconcat", "concat", "layer"):
        for inner in specification.get(key, ()):
            yield from _views(inner)


def _fields(encoding: Any) -> set[str]:
    if isinstance(encoding, Mapping):
        named = {encoding["field"]} if "field" in encoding else set()
        return named.union(*map(_fields, encoding.values()))
    if isinstance(encoding, list):
        return set().union(*map(_fields, encoding))
    return set()


def _is_legend(one: Specification) -> bool:
    values = one["data"]["values"]
    return bool(values) and all("label" in datum for datum in values)


def _leaves(specification: Specification) -> Iterator[Specification]:
    return (view for view in _views(specification) if "layer" in view)
