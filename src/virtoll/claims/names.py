"""Whether a run can meet a user's claim: its workloads, metrics, parameters with their values, platforms. Pure.

A misspelt name, or a value that no workload takes, would otherwise be *not measured* by every run. What there is is
handed in as `Names`, so that nothing here knows a platform or a workload. Labels are an experiment's own, and not
looked at.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from virtoll.claims.model import Claim, Test
from virtoll.reference.published import study_names
from virtoll.stats.compared import EXTREMES, Against, Each, PlatformFilter, Range
from virtoll.stats.readings import ATTRIBUTES, NEIGHBOUR_LOAD


@dataclass(frozen=True)
class Values:
    """What a parameter may be: `allowed` in words, from `least` to `most` if it is a number.

    `recorded`: a value as a run's records have it; None if it is none of the parameter's.
    """

    allowed: str
    recorded: Callable[[Any], Any]
    least: float = -math.inf
    most: float = math.inf

    def meets(self, condition: Range) -> bool:
        """Whether any of its numbers lies in a range."""
        above = condition.at_least is not None and condition.at_least > self.most
        below = condition.at_most is not None and condition.at_most < self.least
        return not (above or below)


@dataclass(frozen=True)
class Names:
    """What there is to be measured: by workload its metrics and parameters; products, families and neighbours' loads.

    `forwarding`: the workloads whose rate is of frames that a guest forwards.
    """

    metrics: Mapping[str, Collection[str]]
    parameters: Mapping[str, Mapping[str, Values]]
    products: Collection[str]
    families: Collection[str]
    loads: Collection[str]
    forwarding: Collection[str]


def impossible(claim: Claim, names: Names) -> str | None:
    """A sentence on the first name in a claim that there is not, or condition that no run meets; None without such."""
    if claim.paper is not None and claim.paper not in study_names():
        return _unknown("paper", claim.paper, study_names())
    for place, test in enumerate(claim.tests):
        for key, value, known in _asked(test, names):
            if value not in known:
                return _unknown(f"tests.{place}.{key}", value, known)
        for key, why in _unmet(test, names):
            return f"key 'tests.{place}.{key}': {why}"
    return None


def _unmet(test: Test, names: Names) -> Iterator[tuple[str, str]]:
    """The conditions that no run meets: the key of each within the test, and why."""
    against = test.against if isinstance(test.against, Against) else Against(platforms="baseline")
    of_test, theirs = _listed(test.workload), _listed(against.workload or test.workload)
    for key, where, workloads in (("where", test.where, of_test), ("against.where", against.where, theirs)):
        for name, value in where.items():
            why = _unmet_value(value, _values_of(name, workloads, names))
            if why is not None:
                yield f"{key}.{name}", why
    for key in ("link_mbit_per_second", "overloaded"):
        if getattr(test, key) and not set(of_test) & set(names.forwarding):
            yield key, f"{' or '.join(of_test)} forwards no frames; leave it out"


def _values_of(name: str, workloads: Collection[str], names: Names) -> list[Values]:
    """What a parameter, or the load of a neighbour, may be; none for other attributes of a run's values."""
    if name == NEIGHBOUR_LOAD:
        return [_of_words(names.loads)]
    models = map(names.parameters.__getitem__, workloads)
    return [parameters[name] for parameters in models if name in parameters]


def _unmet_value(condition: object, values: Collection[Values]) -> str | None:
    """Why none of the workloads that have a parameter can meet a condition on it; None if one can."""
    if not values or (isinstance(condition, str) and condition in EXTREMES):
        return None
    allowed = " or ".join(sorted({known.allowed for known in values}))
    if isinstance(condition, Range):
        if any(known.meets(condition) for known in values):
            return None
        return f"no run has such a value; it is {allowed}"
    if isinstance(condition, Each | list):
        return _unmet_choice(condition, values)
    recorded = [known.recorded(condition) for known in values]
    if condition in recorded:
        return None
    as_recorded = next(filter(None, recorded), None)
    if as_recorded is not None:
        return f"no run has {condition!r}; write it as records have it, {as_recorded!r}"
    return f"no run has {condition!r}; it is {allowed}"


def _unmet_choice(condition: Each | list[Any], values: Collection[Values]) -> str | None:
    """The same of several values: each must be possible, or any of a list."""
    if isinstance(condition, Each):
        return next(filter(None, map(partial(_unmet_value, values=values), condition.each)), None)
    unmet = list(map(partial(_unmet_value, values=values), condition))
    return unmet[0] if all(unmet) else None


def _of_words(words: Collection[str]) -> Values:
    def recorded(value: object) -> object:
        return value if value in words else None

    return Values(f"one of {', '.join(sorted(words))}", recorded)


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
