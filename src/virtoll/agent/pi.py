"""The digits of pi, computed a second way: what Super Pi's answer is checked against.

Chudnovsky's series by binary splitting (D. V. and G. V. Chudnovsky, 1988; Haible and Papanikolaou, 1998), in Python's
own integers: another formula, another language and another multiplication than the agent's Gauss-Legendre.
"""

from __future__ import annotations

import functools
import hashlib
import math
import sys

_A, _B, _C = 13_591_409, 545_140_134, 640_320
_DIGITS_PER_TERM = 14.181647
_GUARD_DIGITS = 16


@functools.lru_cache(maxsize=32)
def pi_sha256(digits: int) -> str:
    """SHA-256 (hex) of "3." and the first ``digits`` decimals of pi, truncated; about a second for 200 000 digits."""
    return hashlib.sha256(pi_text(digits).encode()).hexdigest()


def pi_text(digits: int) -> str:
    """ "3." and the first ``digits`` (>= 1) decimals of pi, truncated, not rounded."""
    if digits < 1:
        raise ValueError("digits must be at least 1")
    working = digits + _GUARD_DIGITS
    _, q, t = _split(0, int(working / _DIGITS_PER_TERM) + 2)
    unity = 10 ** (2 * working)
    scaled = (q * 426_880 * math.isqrt(10_005 * unity)) // t
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        text = str(scaled // 10**_GUARD_DIGITS)
    finally:
        sys.set_int_max_str_digits(limit)
    return f"{text[0]}.{text[1:]}"


def _split(first: int, last: int) -> tuple[int, int, int]:
    """P, Q and T of the terms first .. last - 1 of Chudnovsky's series."""
    if last - first == 1:
        p = 1 if first == 0 else (6 * first - 5) * (2 * first - 1) * (6 * first - 1)
        q = 1 if first == 0 else first**3 * _C**3 // 24
        t = p * (_A + _B * first)
        return p, q, -t if first % 2 else t
    middle = (first + last) // 2
    p1, q1, t1 = _split(first, middle)
    p2, q2, t2 = _split(middle, last)
    return p1 * p2, q1 * q2, t1 * q2 + p1 * t2
