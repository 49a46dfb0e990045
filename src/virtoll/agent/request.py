"""What is requested of an agent, as types: a request names its operation and the type of its reply.

Main type: ``Request``. What the operations are is ``operations/``. A key that is at its default is not sent; a reply
with a key that its type does not know is an error, since the agent is of this Virtoll's build.
"""

from __future__ import annotations

import math
from typing import Any, Generic, TypeVar, get_args, get_origin

import msgspec

from virtoll.errors import ProtocolError, remedy_for
from virtoll.runfolder.record import Record

REBUILD = remedy_for("agent and image")
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1

Reply_co = TypeVar("Reply_co", bound=Record, covariant=True)


class Message(Record, omit_defaults=True):
    """A part of a request."""


class Request(Message, Generic[Reply_co], tag_field="op"):
    """What is requested of an agent: ``class Ask(Request[Reply], tag="ask")``."""

    @property
    def op(self) -> str:
        """The operation's name."""
        return str(self.__struct_config__.tag)

    @property
    def reply(self) -> type[Record]:
        """What the agent replies."""
        base = next(base for base in vars(type(self))["__orig_bases__"] if get_origin(base) is Request)
        reply: type[Record] = get_args(base)[0]
        return reply

    def read_reply(self, reply: object, who: str) -> Reply_co:
        """The reply from its JSON; ``ProtocolError`` if it is not the operation's."""
        kind: type[Any] = self.reply
        message: Reply_co = read_message(kind, reply, f"{who} answered '{self.op}' wrongly")
        return message


R = TypeVar("R", bound=Record)


def read_message(kind: type[R], document: object, what: str) -> R:
    """A message from its JSON; the ``ProtocolError`` says ``what`` was wrong, in which field, and what to do."""
    try:
        message = msgspec.convert(document, kind)
        _refuse_large_numbers(document)
    except ValueError as error:
        raise ProtocolError(f"{what}: {error}; {REBUILD}") from error
    return message


def _refuse_large_numbers(value: object) -> None:
    """ValueError for a number that no agent has: one that is not finite, or not of 64 bits."""
    if isinstance(value, dict):
        for part in value.values():
            _refuse_large_numbers(part)
    elif isinstance(value, list):
        for part in value:
            _refuse_large_numbers(part)
    elif isinstance(value, int):
        if not _SMALLEST <= value <= _LARGEST:
            raise ValueError(f"{value:.3g} is not a number of 64 bits")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number")
