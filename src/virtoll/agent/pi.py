"""The digits of pi, computed a second way: what Super Pi's answer is checked against.

Chudnovsky's series by binary splitting (D. V. and G. V. Chudnovsky, 1988; Haible and Papanikolaou, 1998), in Python's
``decimal``, which multiplies long numbers by number-theoretic transforms: another formula, another base, another
language and another multiplication than the agent's Gauss-Legendre.
"""

from __future__ import annotations

import decimal
import functools
import hashlib
from decimal import Decimal

_A, _B, _C = 13_591_409, 545_140_134, 640_320
_DIGITS_PER_TERM = 14.181647
_GUARD_DIGITS = 16
_FLOAT_DIGITS = 15
_TERMS_AT_ONCE = 16


@functools.lru_cache(maxsize=32)
def pi_sha256(digits: int) -> str:
    """SHA-256 (hex) of "3." and the first ``digits`` decimals of pi, truncated; a second for 200 000 digits."""
    return hashlib.sha256(pi_text(digits).encode()).hexdigest()


def pi_text(digits: int) -> str:
    """ "3." and the first ``digits`` (>= 1) decimals of pi, truncated, not rounded."""
    if digits < 1:
        raise ValueError("digits must be at least 1")
    working = digits + _GUARD_DIGITS
    with decimal.localcontext(_precision(working)):
        _, q, t = _split(0, int(working / _DIGITS_PER_TERM) + 2)
        pi = q * 426_880 * 10_005 * _inverse_root(10_005, working) / t
        return str(pi)[: len("3.") + digits]


def _precision(digits: int) -> decimal.Context:
    return decimal.Context(prec=digits, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


def _inverse_root(number: int, digits: int) -> Decimal:
    """1 / sqrt(number) by Newton's method, each step with twice the digits; ``Decimal.sqrt`` takes 60 times as long."""
    steps = [digits]
    while steps[-1] > _FLOAT_DIGITS:
        steps.append(steps[-1] // 2 + 2)
    root = Decimal(number**-0.5)
    for step in reversed(steps):
        with decimal.localcontext(_precision(step + 2)):
            root += root * (1 - number * root * root) / 2
    return root


def _split(first: int, last: int) -> tuple[Decimal, Decimal, Decimal]:
    """P, Q and T of the terms first .. last - 1 of Chudnovsky's series."""
    if last - first <= _TERMS_AT_ONCE:
        p, q, t = _split_few(first, last)
        return Decimal(p), Decimal(q), Decimal(t)
    middle = (first + last) // 2
    p1, q1, t1 = _split(first, middle)
    p2, q2, t2 = _split(middle, last)
    return p1 * p2, q1 * q2, t1 * q2 + p1 * t2


def _split_few(first: int, last: int) -> tuple[int, int, int]:
    """The same of a few terms, whose whole numbers are short."""
    if last - first == 1:
        p = 1 if first == 0 else (6 * first - 5) * (2 * first - 1) * (6 * first - 1)
        q = 1 if first == 0 else first**3 * _C**3 // 24
        t = p * (_A + _B * first)
        return p, q, -t if first % 2 else t
    middle = (first + last) // 2
    p1, q1, t1 = _split_few(first, middle)
    p2, q2, t2 = _split_few(middle, last)
    return p1 * p2, q1 * q2, t1 * q2 + p1 * t2
