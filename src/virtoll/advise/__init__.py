"""Which platforms of a run meet a need, with what margin and on what evidence; never a guess. Pure.

A need is text (`need`). What a platform measured of it is held against it (`meets`, `routers`), also for several guests
at once (`guests`) and side by side (`neighbours`). Where nothing was measured, a model answers if it fits (`models`),
and else `missing` has the experiment that would tell. `advise` is all of it. `gate` holds a run to thresholds.
"""

from virtoll.advise.advice import Advice, PlatformAdvice, advise
from virtoll.advise.guests import Guests
from virtoll.advise.meets import Answer, Finding, Margin, Statement
from virtoll.advise.missing import Missing
from virtoll.advise.models import Fit
from virtoll.advise.need import Figure, Known, KnownWorkload, parse_needs
from virtoll.advise.neighbours import Factor, WithNeighbours

__all__ = [
    "Advice",
    "Answer",
    "Factor",
    "Figure",
    "Finding",
    "Fit",
    "Guests",
    "Known",
    "KnownWorkload",
    "Margin",
    "Missing",
    "PlatformAdvice",
    "Statement",
    "WithNeighbours",
    "advise",
    "parse_needs",
]
