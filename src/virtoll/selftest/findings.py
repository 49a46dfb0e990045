"""What was injected, what was measured, and whether the instrument found it: the rules.

Main types: ``Finding`` and ``Outcome``; ``effect``, ``nothing``, ``count`` and ``at_most`` make a finding each. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

_NEAR = 0.1  # of the fault


class Outcome(StrEnum):
    """``not tested`` is no failure: this host could not run it, or the instrument said itself that it cannot tell."""

    FOUND = "found"
    MISSED = "missed"
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

    ``what``: the check, what of it, and the unit. ``tolerance``: how exactly the fault itself is known, in the unit.
    """
    rule = f"the interval leaves out {none:g} and reaches {injected:g} within {tolerance:.3g}"
    holds = (
        measured is not None
        and not measured.low <= none <= measured.high
        and measured.low <= injected + tolerance
        and measured.high >= injected - tolerance
    )
    return _finding(what, injected, measured, rule, holds=holds)


def nothing(what: tuple[str, str, str], measured: Measured | None, none: float, fault: float) -> Finding:
    """No effect: the interval reaches ``none`` within a tenth of the effect of ``fault``, and leaves that effect out.

    So what is off by next to nothing is right, however sharply it is seen, and an interval that holds everything finds
    nothing.
    """
    apart = abs(fault - none)
    near = _NEAR * apart
    rule = f"the interval reaches {none:g} within {near:.3g}, and leaves out {none - apart:g} and {none + apart:g}"
    holds = (
        measured is not None
        and none - apart < measured.low <= none + near
        and none - near <= measured.high < none + apart
    )
    return _finding(what, none, measured, rule, holds=holds)


def count(what: tuple[str, str, str], injected: float, measured: float | None, edges: int) -> Finding:
    """Whole numbers: equal but for ``edges``, the harm that falls between one point's frames and the next one's."""
    exact = None if measured is None else Measured(measured, measured, measured)
    holds = measured is not None and abs(measured - injected) <= edges
    return _finding(what, injected, exact, f"within {edges} of {injected:g}", holds=holds)


def at_most(what: tuple[str, str, str], measured: float | None, limit: int) -> Finding:
    """A number of false findings of nothing."""
    exact = None if measured is None else Measured(measured, measured, measured)
    return _finding(what, 0, exact, f"at most {limit}", holds=measured is not None and measured <= limit)


def not_tested(what: tuple[str, str, str], reason: str) -> Finding:
    """This host could not run it."""
    return Finding(*what, None, None, Outcome.NOT_TESTED, "", reason)


def _finding(
    what: tuple[str, str, str], injected: float, measured: Measured | None, rule: str, *, holds: bool
) -> Finding:
    outcome = Outcome.FOUND if holds else Outcome.MISSED
    return Finding(*what, injected, measured, outcome, rule, "" if measured is not None else "nothing was measured")
