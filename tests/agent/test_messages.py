"""Messages as types: each kind of field is read, refused and written as the protocol says, at every depth."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest
from tests.support import some_messages as kinds

from virtoll.agent.messages import REBUILD, Unfit, _exactly, _number
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
    read = kinds.Whole.from_json(
        {"name": "n", "many": [1, 2], "pair": [3, "x"], "blob": "/wo=", "parts": [{"count": 1}]}
    )
    assert (read.many, read.pair, read.blob) == ((1, 2), (3, "x"), b"\xff\n")
    assert read.parts == (kinds.Part(count=1),)
    assert read.parts[0].count == 1
    assert read.to_json() == {
        "name": "n",
        "many": [1, 2],
        "pair": [3, "x"],
        "blob": "/wo=",
        "parts": [{"count": 1}],
    }
    assert (read.size, read.word, read.NOT_A_FIELD) == (0, "yes", 7), "what was not given has its default"
    assert kinds.Whole(name="n", many=(1,), by_name={"a": 1}).to_json() == {
        "name": "n",
        "many": [1],
        "by_name": {"a": 1},
    }
    assert kinds.Whole(name="n", any_thing=[kinds.Part(count=1), b"\xff"]).to_json()["any_thing"] == [
        {"count": 1},
        "/w==",
    ]


LONG = "x" * 100


@pytest.mark.parametrize(
    ("given", "place", "what"),
    [
        ({"name": 5}, "name", "is 5 and not a text"),
        ({"name": None}, "name", "is null and not a text"),
        ({}, "name", "is missing"),
        ({"size": True}, "size", "is True and not a whole number"),
        ({"size": 1.0}, "size", "is 1.0 and not a whole number"),
        ({"size": 2**64}, "size", "is 18446744073709551616 and not a whole number of 64 bits"),
        ({"size": -(2**63) - 1}, "size", "is -9223372036854775809 and not a whole number of 64 bits"),
        ({"share": "1"}, "share", "is '1' and not a number"),
        ({"share": float("nan")}, "share", "is nan and not a number of 64 bits"),
        ({"share": float("inf")}, "share", "is inf and not a number of 64 bits"),
        ({"on": 1}, "on", "is 1 and not true or false"),
        ({"blob": "no base64"}, "blob", "is 'no base64' and not base64"),
        ({"blob": 5}, "blob", "is 5 and not base64"),
        ({"blob": "ä"}, "blob", "is 'ä' and not base64"),
        ({"nothing": 0}, "nothing", "is 0 and not null"),
        ({"word": "perhaps"}, "word", "is 'perhaps' and none of yes, no"),
        ({"many": 5}, "many", "is 5 and not a list"),
        ({"many": {"0": 1}}, "many", "is {'0': 1} and not a list"),
        ({"many": [1, "x"]}, "many.1", "is 'x' and not a whole number"),
        ({"pair": [1]}, "pair", "has 1 parts and not 2"),
        ({"pair": [1, "a", 2]}, "pair", "has 3 parts and not 2"),
        ({"pair": [1, 2]}, "pair.1", "is 2 and not a text"),
        ({"by_name": [1]}, "by_name", "is [1] and not an object"),
        ({"by_name": {"a": 1, "b": "x"}}, "by_name.b", "is 'x' and not a whole number"),
        ({"part": 5}, "part", "is 5 and not an object"),
        ({"part": {}}, "part.count", "is missing"),
        ({"part": {"count": 1, "share": "x"}}, "part.share", "is 'x' and not a number"),
        ({"parts": [{"count": 1}, {"count": None}]}, "parts.1.count", "is null and not a whole number"),
        ({"parts_by_name": {"a": {"count": "x"}}}, "parts_by_name.a.count", "is 'x' and not a whole number"),
        ({"either": 1.5}, "either", "is 1.5 and not a whole number"),
        ({"either": [1, "x"]}, "either.1", "is 'x' and not a whole number"),
        ({"name": [LONG]}, "name", f"is ['{'x' * 38} and not a text"),
    ],
)
def test_what_a_field_does_not_take_is_said_with_its_place(given: dict[str, Any], place: str, what: str) -> None:
    """Of several kinds that a field may have, the one that was read furthest complains."""
    reported = given if "name" in given or not given else {"name": "n", **given}
    with pytest.raises(Unfit) as refused:
        kinds.Whole.from_json(reported)
    assert (".".join(refused.value.place), refused.value.what, str(refused.value)) == (place, what, what)
    with pytest.raises(ProtocolError, match=f"^guest 1: {re.escape(f'{place} {what}; {REBUILD}')}$"):
        kinds.Whole.read(reported, "guest 1")


@pytest.mark.parametrize(("reported", "told"), [([1], "[1]"), (None, "null"), ("text", "'text'")])
def test_what_is_no_object_is_no_message(reported: object, told: str) -> None:
    with pytest.raises(ProtocolError, match=f"^x: the answer is {re.escape(told)} and not an object; "):
        kinds.Whole.read(reported, "x")
    with pytest.raises(ProtocolError, match=r"^guest 2 answered 'ask' wrongly: the answer is "):
        kinds.Ask().read_reply(reported, "guest 2")


def test_what_a_newer_agent_tells_is_kept_and_named_at_every_depth() -> None:
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
    assert kinds.Base._reading() is kinds.Base._reading(), "how fields are read is found out once"
    assert one != kinds.Base(name="m")
    assert one != kinds.Other(name="n"), "another type"
    assert one != {"name": "n"}
    assert {one, same, kinds.Base(name="m")} == {one, kinds.Base(name="m")}
    assert hash(kinds.Whole(name="n", size=1, on=True)) == hash(kinds.Whole(on=True, name="n", size=1)), (
        "in whatever order"
    )
    assert repr(kinds.Base.from_json({"name": "n", "new": 1})) == "Base(name='n', new=1)"


def test_a_message_has_its_fields_and_no_other_and_does_not_change() -> None:
    with pytest.raises(ValueError, match=r"^Base: no such field, or none given: name, other, this$"):
        kinds.Base(this=1, other=2)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"^Part: no such field, or none given: count$"):
        kinds.Part(share=0.5)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match=r"^Base.name: a message does not change$"):
        kinds.Base(name="n").name = "m"  # type: ignore[misc]


def test_a_request_names_its_operation_and_its_reply() -> None:
    assert (kinds.Ask.op, kinds.Ask.reply, kinds.AskMore.op, kinds.AskMore.reply) == (
        "ask",
        kinds.Part,
        "ask-more",
        kinds.Part,
    )
    assert kinds.AskMore(why="x").to_json() == {"why": "x"}
    assert kinds.AskMore().read_reply({"count": 2}, "guest") == kinds.Part(count=2)
    assert kinds.Unnamed.op == ""


def test_a_number_has_64_bits_and_is_one_of_its_kinds() -> None:
    read = _number((int,), "a whole number")
    assert [read(one) for one in (0, -(2**63), 2**64 - 1)] == [0, -(2**63), 2**64 - 1]
    for wrong, what in (
        (2**64, "is 18446744073709551616 and not a whole number of 64 bits"),
        (-(2**63) - 1, "is -9223372036854775809 and not a whole number of 64 bits"),
        (1.0, "is 1.0 and not a whole number"),
        (True, "is True and not a whole number"),
    ):
        with pytest.raises(Unfit, match=f"^{re.escape(what)}$"):
            read(wrong)
    assert _exactly((str,), "a text")("a") == "a"
    with pytest.raises(Unfit, match=r"^is null and not a text$"):
        _exactly((str,), "a text")(None)
