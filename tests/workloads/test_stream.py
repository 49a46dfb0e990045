"""STREAM: rates of its kernels, and what its arrays hold at the end."""

from __future__ import annotations

import struct

import pytest
from tests.support.timed_jobs import assert_entry_refused, timed_job


@pytest.mark.parametrize(("key", "value", "least", "most"), [("rounds", 1, 2, 200), ("threads", 0, 1, 1024)])
def test_what_does_not_fit_is_refused(key: str, value: int, least: int, most: int) -> None:
    assert_entry_refused({"workload": "stream", key: value}, key, value, least, most)


def test_streams_rates_are_of_the_best_round_but_the_first() -> None:
    kernels = {
        name: {"bytes": 1_600_000, "round_ns": [1, 400_000, 200_000, 300_000]} for name in ("copy", "scale", "triad")
    }
    result = {"kernels": {**kernels, "add": {"bytes": 2_400_000, "round_ns": [9, 600_000]}}}
    figures = timed_job("stream").figures(result)
    assert figures is not None
    assert figures["copy_rate"] == 8e9
    assert figures["copy_mean_rate"] == pytest.approx(1_600_000 * 3e9 / 900_000)
    assert figures["add_rate"] == 4e9
    assert {metric.name for metric in timed_job("stream").metrics} - {"duration"} <= set(figures)


@pytest.mark.parametrize("rounds", [2, 10, 200])
def test_streams_arrays_grow_fifteenfold_a_round(rounds: int) -> None:
    expected = timed_job("stream", rounds=rounds).expected_check()
    assert expected is not None
    a, b, c = (struct.unpack(">d", bytes.fromhex(word))[0] for word in expected.split())
    assert a == pytest.approx(2 * 15.0**rounds, rel=1e-13)
    assert b == pytest.approx(6 * 15.0 ** (rounds - 1), rel=1e-13)
    assert c == pytest.approx(8 * 15.0 ** (rounds - 1), rel=1e-13)
