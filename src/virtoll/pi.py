"""The digits of pi, computed a second way: what Super Pi's answer is checked against.

Chudnovsky's series by binary splitting (D. V. and G. V. Chudnovsky, 1988; Haible and Papanikolaou, 1998), in the exact
decimal arithmetic of Python's own library (libmpdec, whose multiplication of long numbers is a number-theoretic
transform): another formula, another base and another multiplication than the agent's Gauss-Legendre.
"""

from __future__ import annotations

import decimal
import functools
import hashlib
from decimal import Decimal

_A, _B, _C = 13_591_409, 545_140_134, 640_320
_DIGITS_PER_TERM = 14.181647
_GUARD_DIGITS = 16
# Runs of so few terms are split in Python's integers, which are quicker while they are short.
_SHORT = 64


@functools.lru_cache(maxsize=32)
def pi_sha256(digits: int) -> str:
    """SHA-256 (hex) of "3." and the first ``digits`` decimals of pi, truncated; a few seconds for a million digits."""
    return hashlib.sha256(pi_text(digits).encode()).hexdigest()


def pi_text(digits: int) -> str:
    """ "3." and the first ``digits`` (>= 1) decimals of pi, truncated, not rounded."""
    if digits < 1:
        raise ValueError("digits must be at least 1")
    working = digits + _GUARD_DIGITS
    # Products are exact in as many digits as they need; what has no end is cut at the working precision.
    exact = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
    cut = decimal.Context(prec=working + 2, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, rounding=decimal.ROUND_DOWN)
    _, q, t = _split(0, int(working / _DIGITS_PER_TERM) + 2, exact)
    root = cut.multiply(Decimal(426_880), cut.sqrt(Decimal(10_005)))
    pi = cut.divide(cut.multiply(cut.plus(q), root), cut.plus(t))
    return str(pi.quantize(Decimal(1).scaleb(-digits), decimal.ROUND_DOWN, cut))


def _split(first: int, last: int, exact: decimal.Context) -> tuple[Decimal, Decimal, Decimal]:
    """P, Q and T of the terms first .. last - 1 of Chudnovsky's series."""
    if last - first <= _SHORT:
        p, q, t = _split_short(first, last)
        return Decimal(p), Decimal(q), Decimal(t)
    middle = (first + last) // 2
    p1, q1, t1 = _split(first, middle, exact)
    p2, q2, t2 = _split(middle, last, exact)
    times = exact.multiply
    return times(p1, p2), times(q1, q2), exact.add(times(t1, q2), times(p1, t2))


def _split_short(first: int, last: int) -> tuple[int, int, int]:
    if last - first == 1:
        p = 1 if first == 0 else (6 * first - 5) * (2 * first - 1) * (6 * first - 1)
        q = 1 if first == 0 else first**3 * _C**3 // 24
        t = p * (_A + _B * first)
        return p, q, -t if first % 2 else t
    middle = (first + last) // 2
    p1, q1, t1 = _split_short(first, middle)
    p2, q2, t2 = _split_short(middle, last)
    return p1 * p2, q1 * q2, t1 * q2 + p1 * t2
