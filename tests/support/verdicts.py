"""Comparisons of one platform and task that came to each verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.report_runs import analysis_of

from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.intervals import Interval

SOME = next(one for one in analysis_of("whole").comparisons if one.platform == "runc")


def judged(verdict: Verdict, share: float, **known: Any) -> Comparison:
    """A comparison with these numbers alone."""
    return replace(Comparison(SOME.platform, SOME.task, verdict, share=share), **known)


def _unknown(share: float, low: float, high: float) -> Comparison:
    return judged(Verdict.UNKNOWN, share, simultaneous=Interval(low, high, 0.95, "t"))


VERDICTS = {
    "slower": judged(Verdict.SLOWER, 1 / 26.4, at_least=18.9),
    "little slower": judged(Verdict.SLOWER, 1 / 2.34, at_least=1.99),
    "far slower": judged(Verdict.SLOWER, 1 / 130.2, at_least=104.0),
    "slower in percent": judged(Verdict.SLOWER, 1 / 1.124, at_least=1.0489),
    "faster in percent": judged(Verdict.FASTER, 1.124, at_least=1.12),
    "slower without a bound": judged(Verdict.SLOWER, 1 / 1.2, at_least=1.0),
    "alike": judged(Verdict.ALIKE, 0.98, margin=0.1),
    "not known": _unknown(0.9, 0.664, 1.144),
    "not known, far": _unknown(0.9, 0.21, 40.2),
    "not known, beyond words": _unknown(1.0, 1e-300, 1.0004),
    "one block": judged(Verdict.UNKNOWN, 0.9),
    "two lower bounds": judged(Verdict.UNKNOWN, 0.9, caveat="two lower bounds"),
    "not measured": judged(Verdict.NOT_MEASURED, 1.0),
    "functional": judged(Verdict.FUNCTIONAL, 0.1, caveat=FUNCTIONAL_ONLY),
}
"""By name: one of each kind."""
