"""Who reads how far the CPUs of a trial are from each other, and what becomes of a reading that fails."""

from __future__ import annotations

import pytest
from tests.support.agents import OperationAgent
from tests.support.facts import assert_facts
from tests.support.hand_overs import BUSY, reading

from virtoll.agent.hand_over import MOST_PAIRS, HandOverAround, HandOverReader, hand_over_around
from virtoll.agent.operations.hand_over import HandOverReply, HandOverRequest
from virtoll.errors import AgentError, GuestDied, GuestError
from virtoll.runfolder.hand_over import HandOverSpan


def test_all_cpus_are_read_against_the_first_one() -> None:
    agent = OperationAgent(hand_over=HandOverReply((reading(50), reading(60, (1, 2)))))
    with hand_over_around(HandOverReader(agent, (1, 0, 2))) as around:
        assert around.span == HandOverSpan((reading(50), reading(60, (1, 2))), ())
    assert [request.pairs for request in agent.requests(HandOverRequest)] == [((1, 0), (1, 2))] * 2
    assert around.span is not None
    assert around.span.after == around.span.before


def test_a_large_guest_is_read_at_its_first_cpus() -> None:
    assert len(HandOverReader(OperationAgent(), tuple(range(64))).pairs) == MOST_PAIRS


def test_nobody_reads_where_no_agent_is_on_the_host() -> None:
    with hand_over_around(None) as around:
        pass
    assert around.span is None


@pytest.mark.parametrize("cpus", [(), (3,)])
def test_without_two_cpus_the_reason_is_kept_and_nobody_is_asked(cpus: tuple[int, ...]) -> None:
    agent = OperationAgent()
    with hand_over_around(HandOverReader(agent, cpus)) as around:
        pass
    assert around.span is not None
    assert (around.span.before, around.span.after, agent.asked) == ((), (), [])
    assert_facts(str(around.span.reason), "two CPUs", len(cpus))


def test_an_agent_that_cannot_read_costs_no_trial() -> None:
    agent = OperationAgent(hand_over=AgentError("unsupported", "no such operation"))
    with hand_over_around(HandOverReader(agent, (1, 0))) as around:
        pass
    assert around.span is not None
    assert (around.span.before, around.span.after) == ((), ())
    assert_facts(str(around.span.reason), "no such operation")
    assert agent.operations() == ["hand-over"], "it is not asked again"


def test_an_agent_that_is_gone_is_a_failure() -> None:
    agent = OperationAgent(hand_over=GuestDied("the lab's agent ended"))
    with pytest.raises(GuestDied), hand_over_around(HandOverReader(agent, (1, 0))):
        pass


def test_what_fails_in_between_keeps_the_reading_before_it() -> None:
    reader = HandOverReader(OperationAgent(hand_over=HandOverReply((reading(50),))), (1, 0))
    spans: list[HandOverAround] = []

    def fail() -> None:
        with hand_over_around(reader) as around:
            spans.append(around)
            raise GuestError("the guest died")

    with pytest.raises(GuestError):
        fail()
    assert [around.span for around in spans] == [HandOverSpan((reading(50),), ())]


def test_a_reading_that_is_missing_is_not_zero() -> None:
    assert reading(None).round_trip_ns is None
    assert reading(None).reason == BUSY
