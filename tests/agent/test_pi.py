"""The digits of pi against mpmath, another implementation by other people."""

from __future__ import annotations

import hashlib

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.facts import refused

from virtoll.agent.pi import pi_sha256, pi_text

MOST = 20_000
with mpmath.workdps(MOST + 20):
    REFERENCE = mpmath.nstr(mpmath.mp.pi, MOST + 15, strip_zeros=False)


@given(st.integers(1, MOST))
def test_the_digits_are_mpmaths(digits: int) -> None:
    assert pi_text(digits) == REFERENCE[: digits + 2]


@pytest.mark.parametrize("digits", [1, 2, 13, 14, 15, 761, 762, 767, 768])
def test_truncated_and_not_rounded(digits: int) -> None:
    """Around the first term's end, and at the six nines of decimals 762 to 767, where rounding would carry."""
    assert pi_text(digits) == REFERENCE[: digits + 2]


def test_the_hash_is_of_the_text() -> None:
    assert pi_text(5) == "3.14159"
    assert pi_sha256(5) == hashlib.sha256(b"3.14159").hexdigest()


def test_no_digits_are_refused() -> None:
    with refused("digits", 1, error=ValueError):
        pi_text(0)
