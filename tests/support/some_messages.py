"""Message classes with one field of each kind; a test may have them made anew by reloading this module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from virtoll.agent.messages import Message, Request


class Part(Message):
    """Below another."""

    count: int
    share: float | None = None


class Base(Message):
    """What others have too."""

    NOT_A_FIELD: ClassVar[int] = 7
    name: str


class Whole(Base):
    """One field of each kind."""

    size: int = 0
    share: float = 0.5
    on: bool = False
    blob: bytes = b""
    nothing: None = None
    word: Literal["yes", "no"] = "yes"
    many: tuple[int, ...] = ()
    pair: tuple[int, str] = (0, "")
    by_name: Mapping[str, int] = {}
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    parts_by_name: Mapping[str, Part] = {}
    either: int | str | tuple[int, ...] = 0
    any_thing: Any = None
    some_object: object = None


class Other(Base):
    """The same field as `Base` has, and no more."""


class Ask(Request[Part], op="ask"):
    """A request."""

    why: str = ""


class AskMore(Ask, op="ask-more"):
    """One that takes another's reply."""


class Unnamed(Request[Part]):
    """Without an operation of its own."""
