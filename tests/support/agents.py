"""Agents that answer from a script, behind the seam of the real ones.

What they leave out is as a real one reported it.
"""

from __future__ import annotations

import functools
import json
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any, TypeVar

from tests.support.repository import RECORDED

from virtoll.agent.client import AgentModel, ChannelMark
from virtoll.agent.messages import Message, Request

Asked = TypeVar("Asked", bound=Request[Any])


@functools.cache
def _recorded_text(op: str) -> str:
    return (RECORDED / "protocol" / f"{op}.json").read_text(encoding="utf-8")


def recorded_reply(op: str) -> dict[str, Any]:
    """What a real agent answered to that operation."""
    reply: dict[str, Any] = json.loads(_recorded_text(op))["reply"]
    return reply


def completed(reported: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    """``reported`` with what it leaves out of ``whole``, in objects below too that are not empty."""
    below = {
        name: completed(value, whole[name])
        for name, value in reported.items()
        if value and isinstance(value, Mapping) and isinstance(whole.get(name), Mapping)
    }
    return {**whole, **reported, **below}


class ScriptedAgent(AgentModel):
    """Gives for each request as much of the reply as a test is about; keeps what it was ``asked``."""

    def __init__(self) -> None:
        self.channel_marks: deque[ChannelMark] = deque()
        self.ended = False
        self.asked: list[Request[Message]] = []

    @abstractmethod
    def tell(self, request: Request[Message]) -> Mapping[str, Any]:
        """A part of the reply, as JSON; the rest is completed."""

    def answer(self, request: Request[Message]) -> Message:
        """The whole reply."""
        self.asked.append(request)
        return request.reply.from_json(completed(self.tell(request), recorded_reply(request.op)))

    def operations(self) -> list[str]:
        """The names of what it was asked, in order."""
        return [request.op for request in self.asked]

    def requests(self, kind: type[Asked]) -> list[Asked]:
        """What it was asked of one operation, in order."""
        return [request for request in self.asked if isinstance(request, kind)]
