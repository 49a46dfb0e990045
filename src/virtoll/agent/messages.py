"""Messages of the agent's protocol as types: read from JSON with every field checked, written as they were reported.

Main types: ``Message`` (fields by name, frozen) and ``Request`` (a message that names its operation and its reply).
What the operations are is ``operations/``.

These classes are made at each start of the command line, also where no agent is asked: a message class costs some
microseconds, a dataclass half a millisecond. Annotations are looked at when the first such message is read.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import types
from collections.abc import Callable, Mapping
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from virtoll.errors import ProtocolError, remedy_for

REBUILD = remedy_for("agent and image")
JsonObject = Mapping[str, Any]
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
_Reader = Callable[[Any], object]


class Unfit(Exception):
    """A value that its field does not take: where it is, from the message's top on, and what it is not."""

    def __init__(self, what: str, place: tuple[str, ...] = ()) -> None:
        super().__init__(what)
        self.what = what
        self.place = place

    def below(self, name: str) -> Unfit:
        """The same, seen from the field or list that holds it."""
        return Unfit(self.what, (name, *self.place))


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Message:
    """Fields by name; a subclass declares them as annotations, with a default where they may be left out.

    A field that was not given has its default and is not written. Keys that no field declares are kept and written
    again, at every depth: an agent may be newer than its controller.
    """

    __slots__ = ("__dict__", "_unknown")
    _unknown: JsonObject
    _fields: ClassVar[tuple[str, ...]] = ()
    _required: ClassVar[frozenset[str]] = frozenset()
    _readers: ClassVar[Mapping[str, _Reader]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        inherited = (name for base in cls.__bases__ if issubclass(base, Message) for name in base._fields)
        names = (name for name, kind in vars(cls).get("__annotations__", {}).items() if "ClassVar" not in kind)
        cls._fields = tuple(dict.fromkeys((*inherited, *names)))
        cls._required = frozenset(name for name in cls._fields if not hasattr(cls, name))

    def __init__(self, **fields: object) -> None:
        if wrong := (fields.keys() - set(self._fields)) | (self._required - fields.keys()):
            raise ValueError(f"{type(self).__name__}: no such field, or none given: {', '.join(sorted(wrong))}")
        self.__dict__.update(fields)
        object.__setattr__(self, "_unknown", {})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name}: a message does not change")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and type(self) is type(other) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_json(), sort_keys=True))

    def __repr__(self) -> str:
        fields = {**vars(self), **self._unknown}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"

    def but(self, **changes: object) -> Self:
        """The same message with other values for some fields."""
        return self.of(self, **changes)

    @classmethod
    def of(cls, other: Message, **changes: object) -> Self:
        """A message of this type with all that another one has, and other values for some fields."""
        return cls._made({**vars(other), **changes}, other._unknown)

    @classmethod
    def _made(cls, fields: Mapping[str, Any], unknown: JsonObject) -> Self:
        message = cls(**fields)
        object.__setattr__(message, "_unknown", unknown)
        return message

    @classmethod
    def _reading(cls) -> Mapping[str, _Reader]:
        """How each field is read; found out once."""
        if "_readers" not in cls.__dict__:
            hints = get_type_hints(cls)
            cls._readers = {name: _reader(hints[name]) for name in cls._fields}
        return cls._readers

    def to_json(self) -> dict[str, Any]:
        """The message as a JSON object."""
        return {**{name: _plain(value) for name, value in vars(self).items()}, **self._unknown}

    def unknown(self) -> list[str]:
        """Keys that no field declares, as paths, here and in all that is below."""
        below = [(name, value) for name, value in vars(self).items()]
        return [*self._unknown, *(f"{name}.{path}" for name, value in below for path in _unknown_in(value))]

    @classmethod
    def from_json(cls, reported: object) -> Self:
        """The message that a JSON object tells; ``Unfit`` where it is not one."""
        if not isinstance(reported, Mapping):
            raise Unfit(f"is {_short(reported)} and not an object")
        readers = cls._reading()
        fields: dict[str, object] = {}
        for name, reader in readers.items():
            if name in reported:
                try:
                    fields[name] = reader(reported[name])
                except Unfit as error:
                    raise error.below(name) from None
            elif name in cls._required:
                raise Unfit("is missing", (name,))
        return cls._made(fields, {key: reported[key] for key in reported if key not in readers})

    @classmethod
    def read(cls, reported: object, what: str) -> Self:
        """As ``from_json``; the ``ProtocolError`` says ``what`` was wrong, in which field, and what to do."""
        try:
            return cls.from_json(reported)
        except Unfit as error:
            field = ".".join(error.place) or "the answer"
            raise ProtocolError(f"{what}: {field} {error.what}; {REBUILD}") from error


Reply_co = TypeVar("Reply_co", bound=Message, covariant=True)


class Request(Message, Generic[Reply_co]):
    """What is asked of an agent: ``class Ask(Request[Reply], op="ask")``."""

    op: ClassVar[str]
    reply: ClassVar[type[Message]]

    def __init_subclass__(cls, op: str = "") -> None:
        super().__init_subclass__()
        cls.op = op
        for base in cls.__dict__.get("__orig_bases__", ()):
            if get_origin(base) is Request:
                (cls.reply,) = get_args(base)

    def read_reply(self, reported: object, who: str) -> Reply_co:
        """The reply from its JSON; ``ProtocolError`` where it is not the operation's."""
        kind: type[Any] = self.reply
        reply: Reply_co = kind.read(reported, f"{who} answered '{self.op}' wrongly")
        return reply


def _plain(value: object) -> Any:
    """A field's value as JSON has it."""
    if value is None or isinstance(value, str | int | float):  # most are, and the other questions take longer
        return value
    if isinstance(value, Message):
        return value.to_json()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _unknown_in(value: object) -> list[str]:
    if isinstance(value, Message):
        return value.unknown()
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, tuple) else ()
    return [f"{name}.{path}" for name, part in parts for path in _unknown_in(part)]


def _short(value: object) -> str:
    return "null" if value is None else repr(value)[:40]


def _reader(kind: Any) -> _Reader:
    """How a value of that type is read; ``Unfit`` where it is of another one."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return functools.partial(_one_of, [_reader(argument) for argument in arguments])
    if origin is Literal:
        return functools.partial(_word, arguments)
    if origin is tuple:
        readers = [_reader(argument) for argument in arguments if argument is not Ellipsis]
        return functools.partial(_list, readers, endless=Ellipsis in arguments)
    if origin is Mapping:
        return functools.partial(_mapping, _reader(arguments[1]))
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    read: _Reader = kind.from_json
    return read


def _one_of(readers: list[_Reader], value: Any) -> object:
    complaints = []
    for reader in readers:
        try:
            return reader(value)
        except Unfit as error:
            complaints.append(error)
    raise max(complaints, key=lambda complaint: len(complaint.place))


def _word(words: tuple[object, ...], value: Any) -> object:
    if value not in words:
        raise Unfit(f"is {_short(value)} and none of {', '.join(map(str, words))}")
    return value


def _list(readers: list[_Reader], value: Any, *, endless: bool) -> object:
    if not isinstance(value, list | tuple):
        raise Unfit(f"is {_short(value)} and not a list")
    if not endless and len(value) != len(readers):
        raise Unfit(f"has {len(value)} parts and not {len(readers)}")
    parts = []
    for place, part in enumerate(value):
        try:
            parts.append(readers[0 if endless else place](part))
        except Unfit as error:
            raise error.below(str(place)) from None
    return tuple(parts)


def _mapping(reader: _Reader, value: Any) -> object:
    if not isinstance(value, Mapping):
        raise Unfit(f"is {_short(value)} and not an object")
    values = {}
    for name, part in value.items():
        try:
            values[name] = reader(part)
        except Unfit as error:
            raise error.below(name) from None
    return values


def _exactly(kinds: tuple[type, ...], words: str) -> _Reader:
    """A value of one of these types; true and false are no numbers."""

    def read(value: Any) -> object:
        if type(value) not in kinds:
            raise Unfit(f"is {_short(value)} and not {words}")
        return value

    return read


def _number(kinds: tuple[type, ...], words: str) -> _Reader:
    """The same for numbers that agents can have: those of 64 bits, and finite ones."""
    exactly = _exactly(kinds, words)

    def read(value: Any) -> object:
        number: Any = exactly(value)
        if not _SMALLEST <= number <= _LARGEST:  # what is no number is not between them either
            raise Unfit(f"is {_short(value)} and not {words} of 64 bits")
        return value

    return read


def _bytes(value: Any) -> object:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Unfit(f"is {_short(value)} and not base64") from None


def _anything(value: Any) -> object:
    return value


_SIMPLE: Mapping[object, _Reader] = {
    Any: _anything,
    object: _anything,
    bytes: _bytes,
    int: _number((int,), "a whole number"),
    float: _number((int, float), "a number"),
    bool: _exactly((bool,), "true or false"),
    str: _exactly((str,), "a text"),
    type(None): _exactly((type(None),), "null"),
}
