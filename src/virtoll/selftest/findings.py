"""What was injected, what was measured, and whether the instrument found it: the rules.

Main types: ``Finding`` and ``Outcome``; ``effect``, ``nothing``, ``count`` and ``at_most`` make a finding each. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

_NEAR = 0.1  # of the fault


class Outcome(StrEnum):
    """``not tested``: this host could not run it; ``not decided``: on this host the interval is too wide to tell.

    Neither is a failure of the instrument.
    """

    FOUND = "found"
    MISSED = "missed"
    NOT_DECIDED = "not decided"
    NOT_TESTED = "not tested"


@dataclass(frozen=True)
class Measured:
    """A value with its 95 % interval; ``low`` and ``high`` are the value where there is none."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Finding:
    """One row: numbers in ``unit``; ``measured`` is None where there is nothing. ``rule``: when it counts as found."""

    check: str
    what: str
    unit: str
    injected: float | None
    measured: Measured | None
    outcome: Outcome
    rule: str
    reason: str = ""


def effect(
    what: tuple[str, str, str], injected: float, measured: Measured | None, none: float, tolerance: float
) -> Finding:
    """An effect: the interval leaves out ``none``, and comes within ``tolerance`` of what was injected.

    ``what``: the check, what of it, and the unit. ``tolerance``: how exactly the fault itself is known, in the unit. An
    interval that holds both tells nothing.
    """
    rule = f"the interval leaves out {none:g} and reaches {injected:g} within {tolerance:.3g}"
    if measured is None:
        return _finding(what, injected, None, rule, Outcome.MISSED)
    outcome = Outcome.MISSED
    if measured.low <= injected + tolerance and measured.high >= injected - tolerance:
        outcome = Outcome.NOT_DECIDED if measured.low <= none <= measured.high else Outcome.FOUND
    return _finding(what, injected, measured, rule, outcome)


def nothing(what: tuple[str, str, str], measured: Measured | None, none: float, fault: float) -> Finding:
    """No effect: the interval holds ``none``, or nothing further from it than a tenth of the effect of ``fault``.

    So what is off by next to nothing is right, however sharply it is seen. An interval that holds ``none`` and the
    effect of such a fault too tells nothing.
    """
    apart = abs(fault - none)
    near = _NEAR * apart
    rule = (
        f"the interval holds {none:g} or lies within {near:.3g} of it, and leaves out {none - apart:g} and "
        f"{none + apart:g}"
    )
    if measured is None:
        return _finding(what, none, None, rule, Outcome.MISSED)
    is_near = none - near <= measured.low and measured.high <= none + near
    outcome = Outcome.MISSED
    if is_near or measured.low <= none <= measured.high:
        is_blind = measured.low <= none - apart or measured.high >= none + apart
        outcome = Outcome.NOT_DECIDED if is_blind else Outcome.FOUND
    return _finding(what, none, measured, rule, outcome)


def count(what: tuple[str, str, str], injected: float, measured: float | None, edges: int) -> Finding:
    """Whole numbers: equal but for ``edges``, the harm that falls between one point's frames and the next one's."""
    exact = None if measured is None else Measured(measured, measured, measured)
    holds = measured is not None and abs(measured - injected) <= edges
    return _finding(what, injected, exact, f"within {edges} of {injected:g}", _found(holds))


def at_most(what: tuple[str, str, str], measured: float | None, limit: int) -> Finding:
    """A number of false findings of nothing."""
    exact = None if measured is None else Measured(measured, measured, measured)
    return _finding(what, 0, exact, f"at most {limit}", _found(measured is not None and measured <= limit))


def not_tested(what: tuple[str, str, str], reason: str) -> Finding:
    """This host could not run it."""
    return Finding(*what, None, None, Outcome.NOT_TESTED, "", reason)


def _found(holds: bool) -> Outcome:
    return Outcome.FOUND if holds else Outcome.MISSED


def _finding(
    what: tuple[str, str, str], injected: float, measured: Measured | None, rule: str, outcome: Outcome
) -> Finding:
    reason = ""
    if measured is None:
        reason = "nothing was measured"
    elif outcome is Outcome.NOT_DECIDED:
        reason = "the interval holds the fault and its absence; a quiet host or more blocks would decide"
    return Finding(*what, injected, measured, outcome, rule, reason)
