"""What may be compared with what: hosts, builds of the agent, units, and guests that are what was asked for."""

from __future__ import annotations

import pytest
from tests.support.by_hand import boot_record
from tests.support.facts import assert_facts

from virtoll.runfolder.records import BootRecord
from virtoll.stats.comparability import (
    Identity,
    agents_by_platform,
    machine_of,
    unlike_facts,
    why_incomparable,
    why_platform_incomparable,
)

HOST, OTHER = "0123456789abcdef", "fedcba9876543210"


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (Identity(HOST, "a", "ns"), Identity(HOST, "a", "ns"), None),
        (Identity(None, None, None), Identity(HOST, "a", "ns"), None),
        (Identity(HOST, "a", "ns"), Identity(None, None, None), None),
        (Identity(HOST, "a", "ns"), Identity(OTHER, "b", "s"), ("host", HOST[:12], OTHER[:12])),
        (Identity(HOST, HOST, "ns"), Identity(HOST, OTHER, "s"), ("agent", HOST[:12], OTHER[:12])),
        (Identity(HOST, None, "ns"), Identity(None, "b", "s"), ("unit", "ns", "s")),
    ],
)
def test_the_first_that_differs_is_why(one: Identity, other: Identity, why: tuple[str, ...] | None) -> None:
    """What is not known is no difference."""
    assert_reason(why_incomparable(one, other), why)


def assert_reason(reason: str | None, facts: tuple[str | int, ...] | None) -> None:
    """There is a reason with these facts, or none."""
    assert (reason is None) == (facts is None)
    assert_facts(reason or "", *(facts or ()))


def test_a_machine_is_its_name_its_cpus_and_what_is_below_them() -> None:
    host = {
        "hostname_hash": "c",
        "cpu_model": "Synthetic",
        "cpus": 2,
        "hypervisor": "kvm",
        "fingerprint": "f",
        "kernel": 1,
    }
    assert machine_of(host) == ("c", "Synthetic", "2", "kvm")
    assert machine_of({**host, "hostname_hash": None}) == ("f",)
    assert machine_of({"fingerprint": "f"}) == ("f",)


def boot(platform: str, agent: object = None, *mismatches: str) -> BootRecord:
    facts = None if agent is None else {"agent_sha256": agent}
    return boot_record(facts, platform=platform, mismatches=mismatches)


def test_builds_of_the_agent_are_those_that_guests_said_they_run() -> None:
    boots = [boot("a", "1"), boot("b"), boot("a", "2"), boot("a", "1"), boot_record({}, platform="d")]
    expected = {"a": {"1", "2"}, "b": set(), "d": set()}
    assert agents_by_platform(boots) == {name: frozenset(own) for name, own in expected.items()}


@pytest.mark.parametrize(
    ("agents", "why"),
    [
        ({"p": {"1"}, "base": {"1"}}, None),
        ({"p": set(), "base": {"1"}}, None),
        ({"p": {"1"}}, None),
        ({"base": {"1"}}, None),
        ({"p": {"1"}, "base": {"2"}}, ("agent", 1, 2)),
        ({"p": {"1", "2"}, "base": {"1"}}, ("p", 2, "agent")),
        ({"p": {"1"}, "base": {"1", "2", "3"}}, ("base", 3, "agent")),
        ({"p": {"1"}, "base": {"1"}, "q": {"3", "4"}}, None),
    ],
)
def test_a_platform_that_ran_another_agent_is_not_compared(
    agents: dict[str, set[str]], why: tuple[str | int, ...] | None
) -> None:
    found = {name: frozenset(own) for name, own in agents.items()}
    assert_reason(why_platform_incomparable(found, "p", "base"), why)


@pytest.mark.parametrize(
    ("own", "base", "unlike"),
    [
        ((), (), ()),
        (("CPUs: asked 1: inside 2", "memory: asked 1, inside 2"), (), ("CPUs", "memory")),
        (("memory: asked 1, inside 2",), ("memory: asked 1, inside 9",), ()),
        ((), ("memory: asked 1, inside 9",), ()),
        ((), ("CPU quota: none", "CPUs: asked 1, inside 2"), ("CPUs", "CPU quota")),
        (("CPUs: asked 1, inside 2",), ("CPUs: asked 1, inside 4", "clock: another"), ()),
        (("clock: another",), (), ()),
    ],
)
def test_a_guest_unlike_what_was_asked_for_is_told_beyond_the_baselines(
    own: tuple[str, ...], base: tuple[str, ...], unlike: tuple[str, ...]
) -> None:
    """Each mismatch counts in whichever of a platform's starts it was; a baseline that limits no memory is none."""
    boots = [boot("p", None, one) for one in own] + [boot("p"), boot("q", None, "CPUs: x", "memory: y")]
    assert unlike_facts([*boots, boot("base", None, *base)], "p", "base") == unlike
    assert unlike_facts(boots, "p", "base") == (), "of a baseline that was never started nothing is known"
    assert unlike_facts([boot("base", None, "CPUs: asked 1, inside 2")], "p", "base") == ()
