"""Messages as types: each kind of field is read, refused and written as the protocol says, at every depth."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from tests.support import some_messages as kinds
from tests.support.facts import Command, Fact, refused

from virtoll.agent.messages import REBUILD, Unfit
from virtoll.errors import ProtocolError


@pytest.fixture(autouse=True)
def made_anew() -> None:
    """What a class finds out of its fields is kept: each test sees it found out."""
    importlib.reload(kinds)


GOOD: dict[str, list[object]] = {
    "name": ["", "a"],
    "size": [0, -(2**63), 2**64 - 1],
    "share": [0, 1.5, -0.5, 2**64 - 1],
    "on": [True, False],
    "nothing": [None],
    "word": ["yes", "no"],
    "by_name": [{}, {"a": 1}],
    "either": [1, "a", [1, 2]],
    "any_thing": [None, {"a": [1]}, 1e999],
    "some_object": [1, "a"],
    "part": [None, {"count": 1}, {"count": 1, "share": None}],
    "parts_by_name": [{"a": {"count": 3}}],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in GOOD.items() for value in values])
def test_what_a_field_takes_is_written_as_it_was_read(field: str, value: object) -> None:
    reported = {"name": "n", field: value}
    read = kinds.Whole.from_json(reported)
    assert read.to_json() == reported
    assert type(read.to_json()[field]) is type(value)
    assert read.unknown() == []


def test_lists_are_tuples_and_bytes_are_base64() -> None:
    reported = {"name": "n", "many": [1, 2], "pair": [3, "x"], "blob": "/wo=", "parts": [{"count": 1}]}
    read = kinds.Whole.from_json(reported)
    assert (read.many, read.pair, read.blob) == ((1, 2), (3, "x"), b"\xff\n")
    assert read.parts == (kinds.Part(count=1),)
    assert read.parts[0].count == 1
    assert read.to_json() == reported
    assert (read.size, read.word, read.NOT_A_FIELD) == (0, "yes", 7), "what was not given has its default"
    given = kinds.Whole(name="n", many=(1,), by_name={"a": 1})
    assert given.to_json() == {"name": "n", "many": [1], "by_name": {"a": 1}}
    anything = kinds.Whole(name="n", any_thing=[kinds.Part(count=1), b"\xff"])
    assert anything.to_json()["any_thing"] == [{"count": 1}, "/w=="]


LONG = "x" * 100
BITS = ("whole number", "64 bits")


@pytest.mark.parametrize(
    ("given", "place", "facts"),
    [
        ({"name": 5}, "name", (5, "text")),
        ({"name": None}, "name", ("null", "text")),
        ({}, "name", ("missing",)),
        ({"size": True}, "size", ("True", "whole number")),
        ({"size": 1.0}, "size", (1.0, "whole number")),
        ({"size": 2**64}, "size", (2**64, *BITS)),
        ({"size": -(2**63) - 1}, "size", (-(2**63) - 1, *BITS)),
        ({"share": "1"}, "share", ("'1'", "number")),
        ({"share": float("nan")}, "share", ("nan", "64 bits")),
        ({"share": float("inf")}, "share", ("inf", "64 bits")),
        ({"on": 1}, "on", (1, "true", "false")),
        ({"blob": "no base64"}, "blob", ("'no base64'", "base64")),
        ({"blob": 5}, "blob", (5, "base64")),
        ({"blob": "ä"}, "blob", ("'ä'", "base64")),
        ({"nothing": 0}, "nothing", (0, "null")),
        ({"word": "perhaps"}, "word", ("'perhaps'", "yes", "no")),
        ({"many": 5}, "many", (5, "list")),
        ({"many": {"0": 1}}, "many", ("{'0': 1}", "list")),
        ({"many": [1, "x"]}, "many.1", ("'x'", "whole number")),
        ({"pair": [1]}, "pair", (1, 2)),
        ({"pair": [1, "a", 2]}, "pair", (3, 2)),
        ({"pair": [1, 2]}, "pair.1", (2, "text")),
        ({"by_name": [1]}, "by_name", ("[1]", "object")),
        ({"by_name": {"a": 1, "b": "x"}}, "by_name.b", ("'x'", "whole number")),
        ({"part": 5}, "part", (5, "object")),
        ({"part": {}}, "part.count", ("missing",)),
        ({"part": {"count": 1, "share": "x"}}, "part.share", ("'x'", "number")),
        ({"parts": [{"count": 1}, {"count": None}]}, "parts.1.count", ("null", "whole number")),
        ({"parts_by_name": {"a": {"count": "x"}}}, "parts_by_name.a.count", ("'x'", "whole number")),
        ({"either": 1.5}, "either", (1.5, "whole number")),
        ({"either": [1, "x"]}, "either.1", ("'x'", "whole number")),
        ({"name": [LONG]}, "name", (f"['{'x' * 38}", "text")),
    ],
)
def test_what_a_field_does_not_take_is_refused_with_its_place(
    given: dict[str, Any], place: str, facts: tuple[Fact, ...]
) -> None:
    """Of several kinds that a field may have, the one that was read furthest complains."""
    reported = given if "name" in given or not given else {"name": "n", **given}
    with refused(*facts, error=Unfit, without=(LONG,)) as raised:
        kinds.Whole.from_json(reported)
    assert ".".join(getattr(raised.value, "place", ())) == place
    with refused("guest 1", place, *facts, Command(REBUILD), error=ProtocolError):
        kinds.Whole.read(reported, "guest 1")


@pytest.mark.parametrize(("reported", "shown"), [([1], "[1]"), (None, "null"), ("text", "'text'")])
def test_what_is_no_object_is_no_message(reported: object, shown: str) -> None:
    with refused("x", shown, "object", error=ProtocolError):
        kinds.Whole.read(reported, "x")
    with refused("guest 2", "'ask'", shown, error=ProtocolError):
        kinds.Ask().read_reply(reported, "guest 2")


def test_unknown_fields_are_kept_and_named_at_every_depth() -> None:
    reported = {
        "name": "n",
        "new": 1,
        "part": {"count": 1, "newer": None},
        "parts": [{"count": 1}, {"count": 2, "newest": []}],
        "parts_by_name": {"a": {"count": 3, "least": 0}},
        "by_name": {"b": 1},
    }
    read = kinds.Whole.from_json(reported)
    assert read.to_json() == reported
    assert read.unknown() == ["new", "part.newer", "parts.1.newest", "parts_by_name.a.least"]
    changed = read.but(size=3)
    assert changed.to_json() == {**reported, "size": 3}
    assert kinds.Other.of(kinds.Base.from_json({"name": "n", "new": 1})).to_json() == {
        "name": "n",
        "new": 1,
    }
    assert kinds.Other.of(kinds.Base(name="n"), name="m") == kinds.Other(name="m")


def test_messages_are_equal_where_type_and_content_are() -> None:
    one, same = kinds.Base(name="n"), kinds.Base(name="n")
    assert one == same
    assert hash(one) == hash(same) != hash(kinds.Base(name="m"))
    assert one != kinds.Base(name="m")
    assert one != kinds.Other(name="n"), "another type"
    assert one != {"name": "n"}
    assert {one, same, kinds.Base(name="m")} == {one, kinds.Base(name="m")}
    assert hash(kinds.Whole(name="n", size=1, on=True)) == hash(kinds.Whole(on=True, name="n", size=1)), (
        "in whatever order"
    )
    assert repr(kinds.Base.from_json({"name": "n", "new": 1})) == "Base(name='n', new=1)"


def test_a_message_has_its_fields_and_no_other_and_does_not_change() -> None:
    with refused("Base", "name, other, this", error=ValueError):
        kinds.Base(this=1, other=2)  # type: ignore[call-arg]
    with refused("Part", "count", error=ValueError, without=("share",)):
        kinds.Part(share=0.5)  # type: ignore[call-arg]
    with refused("Other", "size", error=ValueError):
        kinds.Other.of(kinds.Base(name="n"), size=1)
    with refused("Base.name", error=AttributeError):
        kinds.Base(name="n").name = "m"  # type: ignore[misc]


def test_a_request_names_its_operation_and_its_reply() -> None:
    assert (kinds.Ask.op, kinds.Ask.reply) == ("ask", kinds.Part)
    assert (kinds.AskMore.op, kinds.AskMore.reply) == ("ask-more", kinds.Part)
    assert kinds.AskMore(why="x").to_json() == {"why": "x"}
    assert kinds.AskMore().read_reply({"count": 2}, "guest") == kinds.Part(count=2)
    assert kinds.Unnamed.op == ""
