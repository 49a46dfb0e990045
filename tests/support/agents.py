"""Agents that answer from a script, behind the seam of the real ones.

What they leave out is as a real one reported it.
"""

from __future__ import annotations

import functools
import json
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tests.support.repository import RECORDED

from virtoll.agent.client import AgentModel, ChannelMark, Reply
from virtoll.agent.request import Request
from virtoll.runfolder.record import Record
from virtoll.runfolder.traffic_records import Processor

Asked = TypeVar("Asked", bound=Request[Any])
Told = Mapping[str, Any] | Record
Answer = Told | Exception | Callable[[Any], Told]
"""A reply, a part of it, an error that is raised, or a function of the request that gives a reply or a part."""


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


def processor_times(cpu: int = 0) -> Processor:
    """A processor that did nothing."""
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    return Processor.from_json({"cpu": cpu, **{f"{name}_ns": 0 for name in names}})


class OperationAgent(AgentModel):
    """Has an answer for each operation that it knows, named with ``_`` for ``-``: as much of it as a test is about.

    It keeps what it was ``asked``, and each request's deadline.
    """

    def __init__(self, **answers: Answer) -> None:
        self.channel_marks: deque[ChannelMark] = deque()
        self.ended = False
        self.asked: list[Request[Record]] = []
        self.answers = answers
        self.deadlines: list[float] = []

    def ask(self, request: Request[Reply], deadline_seconds: float = 60.0) -> Reply:
        """The answer, at once."""
        self.deadlines.append(deadline_seconds)
        return super().ask(request, deadline_seconds)

    def answer(self, request: Request[Record]) -> Record:
        """The whole reply."""
        self.asked.append(request)
        told = self.tell(request)
        if isinstance(told, Record):
            return told
        return request.reply.from_json(completed(told, recorded_reply(request.op)))

    def tell(self, request: Request[Record]) -> Told:
        """The operation's answer; a test that asks for another operation is wrong."""
        answer = self.answers[request.op.replace("-", "_")]
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer

    @property
    def patience(self) -> list[float]:
        """The deadlines that it was given, each once, in s."""
        return sorted({round(seconds, 3) for seconds in self.deadlines})

    def operations(self) -> list[str]:
        """The names of what it was asked, in order."""
        return [request.op for request in self.asked]

    def requests(self, kind: type[Asked]) -> list[Asked]:
        """What it was asked of one operation, in order."""
        return [request for request in self.asked if isinstance(request, kind)]
