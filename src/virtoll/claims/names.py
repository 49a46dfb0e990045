"""Whether a user's claim names what there is: workloads with their metrics and parameters, platforms, families. Pure.

A name that is misspelt would otherwise be *not measured* by every run. What there is is handed in as `Names`, so that
nothing here knows a platform or a workload. Labels are an experiment's own, and not looked at.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from virtoll.claims.model import Claim, Test
from virtoll.reference.published import study_names
from virtoll.stats.compared import Against, PlatformFilter
from virtoll.stats.readings import ATTRIBUTES


@dataclass(frozen=True)
class Names:
    """What there is to be measured: by workload the names of its metrics and parameters, products, and families."""

    metrics: Mapping[str, Collection[str]]
    parameters: Mapping[str, Collection[str]]
    products: Collection[str]
    families: Collection[str]


def unknown_name(claim: Claim, names: Names) -> str | None:
    """A sentence on the first name in a claim that there is not; None where there are all."""
    if claim.paper is not None and claim.paper not in study_names():
        return _unknown("paper", claim.paper, study_names())
    for place, test in enumerate(claim.tests):
        for key, value, known in _asked(test, names):
            if value not in known:
                return _unknown(f"tests.{place}.{key}", value, known)
    return None


def _asked(test: Test, names: Names) -> Iterator[tuple[str, str, Collection[str]]]:
    """Key, name and what it may be, of all that a test names."""
    against = test.against if isinstance(test.against, Against) else Against(platforms="baseline")
    of_test, theirs = _listed(test.workload), _listed(against.workload or test.workload)
    for key, workloads in (("workload", of_test), ("against.workload", theirs)):
        yield from ((key, name, names.metrics) for name in workloads)
    for key, metric, workloads in (("metric", test.metric, of_test), ("against.metric", against.metric, theirs)):
        yield from ((key, name, _of(names.metrics, workloads)) for name in _listed(metric))
    for key, where, workloads in (("where", test.where, of_test), ("against.where", against.where, theirs)):
        yield from ((key, name, {*_of(names.parameters, workloads), *ATTRIBUTES}) for name in where)
    named = [("ignoring", name) for name in test.ignoring]
    if test.per is not None:
        named.append(("per", test.per))
    yield from ((key, name, {*_of(names.parameters, of_test + theirs), *ATTRIBUTES}) for key, name in named)
    for key, platforms in (("platforms", test.platforms), ("against.platforms", against.platforms)):
        if isinstance(platforms, PlatformFilter):
            yield from _of_platforms(key, platforms, names)


def _of_platforms(key: str, platforms: PlatformFilter, names: Names) -> Iterator[tuple[str, str, Collection[str]]]:
    for name, value, known in (
        ("product", platforms.product, names.products),
        ("family", platforms.family, names.families),
    ):
        yield from ((f"{key}.{name}", entry, known) for entry in _listed(value))
    for other in platforms.but_not:
        yield from _of_platforms(f"{key}.but_not", other, names)


def _of(known: Mapping[str, Collection[str]], workloads: Collection[str]) -> list[str]:
    return [name for workload in workloads for name in known.get(workload, ())]


def _listed(value: Any) -> list[str]:
    entries = value if isinstance(value, list) else [value]
    return [entry for entry in entries if isinstance(entry, str)]


def _unknown(key: str, value: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(value, known, n=1)
    what = f"is it {near[0]!r}?" if near else f"there are: {', '.join(sorted(known))}"
    return f"key '{key}': {value!r} is not known; {what}"
