"""The short form of ``benches/survive/kills.py``: victims and signals that ``tests/lab`` has not.

There the launcher, PID 1, the controller and all processes together are killed; here one of each other kind is hit.
"""

from __future__ import annotations

import os

import pytest
from benches.survive.kills import Case, carry_out, cases, experiment, table, why_no_starving
from benches.survive.victims import ROLES
from tests.support.playground import playground

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(1800)]
SMALL = ("native", "netns")


def hit(
    action: str, victim: str, awaited: str, *, root: bool, platforms: tuple[str, ...] = SMALL, traffic: bool = False
) -> Case:
    """One as soon as the run has said ``awaited``."""
    return Case(1, action, victim, platforms, root=root, traffic=traffic, awaited=awaited, delay=0.0)


SHORT = {
    "janitor": hit("kill", "janitor", "1/6 ", root=True, platforms=("native", "podman")),
    "the lab's agent": hit("kill", "agent of the lab", "1/6 ", root=True, traffic=True),
    "peer": hit("kill", "agent of the peer", "2/6 ", root=False),
    "storm": hit("storm", "launcher", "1/6 ", root=True),
    "terminal": hit("terminal", "launcher", "starting n", root=False),
    "memory": hit("memory", "agent of netns", "starting n", root=True),
}


def is_extended(item: pytest.Function) -> bool:
    """What takes longer: engines, machines, and a stop of some seconds."""
    return item.originalname == "test_the_long_forms_first_cases" or item.name.endswith("[peer]")


def check(case: Case) -> None:
    """Carry it out; the seed of the long form's cases is in their number."""
    outcome = carry_out(case)
    print(case.words, outcome.said)
    assert outcome.wrong == []
    assert outcome.met


@pytest.mark.parametrize("name", SHORT)
def test_who_is_hit_leaves_nothing_and_loses_nothing(name: str) -> None:
    if os.geteuid() == 0 and not SHORT[name].root:
        with playground(root=False):  # skips where an ordinary user cannot start Virtoll
            pass
    if SHORT[name].action == "memory" and (why := why_no_starving()) is not None:
        pytest.skip(why)
    check(SHORT[name])


@pytest.mark.parametrize("action", ["kill", "stop", "memory"])
def test_the_long_forms_first_cases(action: str) -> None:
    if action == "memory" and (why := why_no_starving()) is not None:
        pytest.skip(why)
    for case in [one for one in cases(5, 18) if one.action == action][:3]:
        check(case)


def test_a_seed_gives_the_same_cases_with_every_victim_and_both_users() -> None:
    drawn = cases(100, 18)
    assert drawn == cases(100, 18)
    assert drawn != cases(100, 19)
    killed = [one for one in drawn if one.action == "kill"]
    assert len(killed) == 100
    assert {one.victim for one in killed} == {*ROLES, "any of the lab"}
    assert {one.root for one in killed} == {True, False}
    assert {one.action: 20 for one in drawn if one.action != "kill"} == {
        name: sum(one.action == name for one in drawn) for name in ("stop", "terminal", "storm", "memory")
    }
    for one in drawn:
        role = ROLES.get(one.victim)
        assert role is None or not role.platforms or role.platforms[0] in one.platforms
        assert "superpi" in experiment(one.platforms, traffic=one.traffic)
    assert table([]).count("\n") == 1
