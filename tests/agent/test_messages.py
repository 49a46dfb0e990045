"""Messages as types: what is written, what is refused and with which place, and how a request knows its reply."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.facts import Command, Fact, refused

from virtoll.agent.request import REBUILD, Message, Request, read_message
from virtoll.errors import ProtocolError
from virtoll.runfolder.record import Record


class Part(Record):
    """Below another."""

    count: int
    share: float | None = None


class Whole(Record):
    """A field of each kind that counts."""

    name: str
    size: int = 0
    share: float = 0.5
    blob: bytes = b""
    parts: tuple[Part, ...] = ()
    by_name: dict[str, Part] = msgspec.field(default_factory=dict)
    anything: Any = None


class Shape(Message):
    """A part of requests."""

    name: str
    many: tuple[int, ...] = ()


class Ask(Request[Part], tag="ask"):
    """A request."""

    why: str = ""


class AskShape(Shape, Request[Whole], tag="ask-shape"):
    """One with all that a shape has."""


def test_a_reply_is_written_with_every_field_and_read_again() -> None:
    whole = Whole.from_json({"name": "n", "blob": "/wo=", "parts": [{"count": 1}]})
    assert (whole.blob, whole.parts) == (b"\xff\n", (Part(1),))
    assert whole.to_json() == {
        "name": "n",
        "size": 0,
        "share": 0.5,
        "blob": "/wo=",
        "parts": [{"count": 1, "share": None}],
        "by_name": {},
        "anything": None,
    }
    assert Whole.from_json(whole.to_json()) == whole


def test_a_request_is_written_without_its_defaults() -> None:
    assert Ask().to_json() == {"op": "ask"}
    assert AskShape(name="n", many=(1, 2)).to_json() == {"op": "ask-shape", "name": "n", "many": [1, 2]}


@pytest.mark.parametrize(
    ("document", "place", "facts"),
    [
        ({"name": 5}, "name", ("str", "int")),
        ({"name": None}, "name", ("str", "null")),
        ({}, "name", ("missing",)),
        ({"name": "n", "size": True}, "size", ("int", "bool")),
        ({"name": "n", "size": 1.5}, "size", ("int", "float")),
        ({"name": "n", "size": 2**64}, "", ("64 bits",)),
        ({"name": "n", "size": -(2**63) - 1}, "", ("64 bits",)),
        ({"name": "n", "share": float("inf")}, "", ("finite",)),
        ({"name": "n", "anything": {"a": [1e999]}}, "", ("finite",)),
        ({"name": "n", "blob": "no base64"}, "blob", ("base64",)),
        ({"name": "n", "parts": [{"count": 1}, {"count": None}]}, "parts[1].count", ("int", "null")),
        ({"name": "n", "by_name": {"a": {}}}, "by_name", ("missing", "count")),
        ({"name": "n", "new": 1}, "", ("unknown", "new")),
        ({"name": "n", "parts": [{"count": 1, "new": 1}]}, "parts[0]", ("unknown", "new")),
        ([1], "", ("object", "array")),
        (None, "", ("object", "null")),
    ],
)
def test_what_a_message_does_not_take_is_refused_with_its_place(
    document: object, place: str, facts: tuple[Fact, ...]
) -> None:
    with refused("guest 1", *([place] if place else []), *facts, Command(REBUILD), error=ProtocolError):
        read_message(Whole, document, "guest 1")


def test_a_message_of_another_type_takes_the_fields_and_changes() -> None:
    shape = Shape(name="n", many=(1,))
    assert AskShape.from_record(shape, many=(2,)) == AskShape(name="n", many=(2,))
    assert shape.replace(name="m") == Shape(name="m", many=(1,))
    assert shape != AskShape.from_record(shape), "another type"
    with pytest.raises(TypeError):
        Ask.from_record(shape)
    with pytest.raises(AttributeError):
        shape.name = "m"  # type: ignore[misc]


def test_a_request_names_its_operation_and_its_reply() -> None:
    assert (Ask().op, Ask().reply) == ("ask", Part)
    assert (AskShape(name="n").op, AskShape(name="n").reply) == ("ask-shape", Whole)
    assert Ask().read_reply({"count": 2}, "guest") == Part(count=2)
    with refused("guest 2", "'ask'", "count", Command(REBUILD), error=ProtocolError):
        Ask().read_reply({}, "guest 2")
