"""Hosts over SSH that behave oddly: some of those of ``benches/survive/odd_hosts.py``."""

from __future__ import annotations

import pytest
from benches.survive.odd_hosts import BEHAVIOURS, odd_hosts

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]
SOME = (
    "as it should",
    "steering letters before the output",
    "output without end",
    "steering complaints",
    "no JSON of the agent",
    "no room in /tmp",
)


def test_an_odd_host_costs_one_sentence_and_keeps_nothing() -> None:
    told = list(odd_hosts({name: BEHAVIOURS[name] for name in SOME}))
    assert [one.behaviour for one in told] == list(SOME)
    assert [(one.behaviour, one.wrong) for one in told if one.wrong] == []
