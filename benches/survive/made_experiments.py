"""Experiments as nobody should write them: drawn by Hypothesis from the JSON Schema and from the presets.

Main functions: ``experiments`` (the bytes of a file, with what was done to it) and ``values`` (odd values for any key).
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import yaml
from hypothesis import strategies as st

from virtoll.experiment.parse import presets
from virtoll.experiment.schema import SCHEMA_FILE

Place = tuple[str | int, ...]
Made = tuple[str, bytes]
"""What was done, and the file."""

HOSTILE: Final = (
    "",
    " ",
    "../../../../etc/passwd",
    "/etc/passwd",
    "a/b",
    "..",
    "x" * 300,
    "x" * 100_000,
    "\x1b[31mred\x1b]0;title\x07",
    "\x9b31m",
    "\0",
    "\u202eright to left",
    "\u200b",
    "名前",
    "é",
    "🦀",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    '=HYPERLINK("http://x","y")',
    "@SUM(1)",
    "{{ 7*7 }}",
    "{% raw %}",
    "%s%n%(x)s",
    "{0.__class__}",
    "$(touch x)",
    "`touch x`",
    "; touch x",
    "| touch x",
    "-rf",
    "--help",
    "a\nb",
    "a\r\nb",
    "a\tb",
    "null",
    "1e999",
    "0x10",
    "1_000",
    "12:30:45",
    "2026-01-01",
    "nan",
    "1GiB",
    "-1MiB",
    "99999999EiB",
    "9" * 5000,
    "native:*",
    "*:*",
    "[",
    "[!",
    "runc:",
    "https://example.invalid/x#sha256=00",
)
NUMBERS: Final = (0, -1, 1, 2, 3.5, -0.0, 1e308, 1e-320, 10**30, 10**400, 2**63, -(2**63) - 1, 16**6000)
OTHERS: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": ""},
    {1: 2},
    [{}],
    float("nan"),
    float("inf"),
    -float("inf"),
)
KEYS: Final = (
    "",
    "name",
    "blocks",
    "plattforms",
    "__class__",
    "\x1b[31m",
    "名前",
    "sizes",
    "x" * 2000,
    "0",
    "a.b",
    "a[0]",
)
_LETTERS: Final = string.ascii_letters + string.digits + " .:/=*-_"
_DEEP: Final = 12


def values() -> st.SearchStrategy[Any]:
    """A value that some key may hold by mistake or on purpose."""
    return st.one_of(
        st.one_of(st.sampled_from(HOSTILE), st.sampled_from(NUMBERS), st.sampled_from(OTHERS)),
        st.text(max_size=20),
        st.integers(),
        st.floats(),
        st.recursive(
            st.one_of(st.text(max_size=5), st.integers(), st.none()),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=6,
        ),
        st.integers(min_value=10, max_value=300).map(_nested),
    )


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@cache
def _presets() -> tuple[tuple[str, str], ...]:
    return tuple((path.stem, path.read_text(encoding="utf-8")) for path in sorted(presets().glob("*.yaml")))


@cache
def _definitions() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))["definitions"]
    return found


def _referred(reference: str) -> Any:
    """What a JSON pointer into the schema leads to."""
    found: Any = {"definitions": _definitions()}
    for part in reference.removeprefix("#/").split("/"):
        found = found[int(part) if isinstance(found, list) else part]
    return found


def places(value: object, path: Place = ()) -> Iterator[Place]:
    """Every place in a document but its top."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from places(one, (*path, key))


def with_value(value: Any, path: Place, new: Any) -> Any:
    """The document with another value at a place."""
    if not path:
        return new
    if isinstance(value, dict):
        return {key: with_value(one, path[1:], new) if key == path[0] else one for key, one in value.items()}
    return [with_value(one, path[1:], new) if place == path[0] else one for place, one in enumerate(value)]


def at(value: Any, path: Place) -> Any:
    """What stands at a place."""
    for part in path:
        value = value[part]
    return value


def without(value: Any, path: Place) -> Any:
    """The document without what stands at a place."""
    parent = at(value, path[:-1])
    if isinstance(parent, dict):
        return with_value(value, path[:-1], {key: one for key, one in parent.items() if key != path[-1]})
    return with_value(value, path[:-1], [one for number, one in enumerate(parent) if number != path[-1]])


class _Valid:
    """Values as the schema has them; a seeded generator, since a whole document asks for more than is shrunk."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    def value(self, schema: Any, depth: int = 0) -> Any:
        """One value of a schema."""
        if schema is True or not schema:
            return self._dice.choice(HOSTILE)
        if "$ref" in schema:
            return self.value(_referred(schema["$ref"]), depth)
        for key in ("anyOf", "allOf"):
            if key in schema:
                rest = {name: one for name, one in schema.items() if name not in (key, "default", "description")}
                chosen = self._dice.choice(schema[key])
                return self.value({**rest, **chosen} if isinstance(chosen, dict) else rest, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._dice.choice(schema["enum"])
        kind = schema.get("type", "string")
        kind = self._dice.choice(kind) if isinstance(kind, list) else kind
        return getattr(self, f"_{kind}")(schema, depth)

    def _object(self, schema: Any, depth: int) -> dict[str, Any]:
        known = schema.get("properties", {})
        required = schema.get("required", ())
        share = 0.25 if depth < _DEEP else 0.0
        keys = [key for key in known if key in required or self._dice.random() < share]
        if len(keys) < schema.get("minProperties", 0) and known:
            keys.append(self._dice.choice(list(known)))
        return {key: self.value(known[key], depth + 1) for key in keys}

    def _array(self, schema: Any, depth: int) -> list[Any]:
        least = schema.get("minItems", 0)
        most = min(schema.get("maxItems", least + 2), least + 2)
        return [self.value(schema.get("items", True), depth + 1) for _ in range(self._dice.randint(least, most))]

    def _string(self, schema: Any, _depth: int) -> str:
        if "pattern" in schema:
            sizes = ("64MiB", "1GiB", "100kB", "2.5 MB", "0", "512")
            names = ("alpha", "b-1", "x", "native", "runc", "0000:00:01.0", "/dev/x", "env:X", "vmnic0", "127.0.0.1")
            return self._dice.choice(sizes if "\\d*" in schema["pattern"] else names)
        length = self._dice.randint(schema.get("minLength", 0), 12)
        return "".join(self._dice.choice(_LETTERS) for _ in range(length))

    def _integer(self, schema: Any, _depth: int) -> int:
        low = int(schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1))
        high = int(schema.get("maximum", schema.get("exclusiveMaximum", low + 1001) - 1))
        return self._dice.choice([low, max(low, high), self._dice.randint(low, max(low, min(high, low + 20)))])

    def _number(self, schema: Any, _depth: int) -> float:
        low = float(schema.get("minimum", schema.get("exclusiveMinimum", 0.0)))
        high = float(schema.get("maximum", schema.get("exclusiveMaximum", low + 10)))
        return self._dice.choice([low, high, self._dice.uniform(low, high)])

    def _boolean(self, _schema: Any, _depth: int) -> bool:
        return self._dice.random() < 0.5

    def _null(self, _schema: Any, _depth: int) -> None:
        return None


@st.composite
def _of_schema(draw: st.DrawFn) -> Made:
    dice = draw(st.randoms(use_true_random=True))
    kind = draw(st.sampled_from(("experiment", "experiment", "experiment", "consolidation")))
    return f"schema {kind}", dumped(_Valid(dice).value({"$ref": f"#/definitions/{kind}"}))


@st.composite
def _mutated(draw: st.DrawFn) -> Made:
    """A preset with one to three places changed."""
    _, text = draw(st.sampled_from(_presets()))
    document, done = yaml.safe_load(text), []
    for _ in range(draw(st.integers(1, 3))):
        there = list(places(document))
        if not there:
            break
        place = draw(st.sampled_from(there))
        how = draw(st.sampled_from(("value", "value", "of schema", "without", "key", "twice")))
        done.append(how)
        if how == "value":
            document = with_value(document, place, draw(values()))
        elif how == "of schema":
            document = with_value(document, place, _part_of_schema(draw(st.randoms(use_true_random=True)), place))
        elif how == "without":
            document = without(document, place)
        elif how == "twice":
            document = with_value(document, place, [at(document, place)] * 2)
        else:
            parent = at(document, place[:-1])
            if isinstance(parent, dict):
                key = draw(st.one_of(st.sampled_from(KEYS), st.text(max_size=8)))
                document = with_value(document, place[:-1], {**parent, key: draw(values())})
    return f"preset, {' + '.join(done)}", dumped(document, draw(st.booleans()))


def _part_of_schema(dice: random.Random, place: Place) -> Any:
    """What the schema has at a key of this name anywhere."""
    found = [
        one["properties"][place[-1]]
        for one in _definitions().values()
        if isinstance(one, dict) and place[-1] in one.get("properties", {})
    ]
    return _Valid(dice).value(dice.choice(found)) if found else dice.choice(HOSTILE)


class _Everything(yaml.SafeDumper):
    """Aliases are left out, so that a document repeats as it is."""

    def ignore_aliases(self, _data: object) -> bool:
        """All of them."""
        return True


def dumped(document: Any, flow: bool = False) -> bytes:
    """As YAML; what no YAML can hold is written as an escape."""
    limit_free = _as_yaml(document)
    text = yaml.dump(
        limit_free, Dumper=_Everything, sort_keys=False, allow_unicode=True, default_flow_style=flow, width=10**9
    )
    return text.encode("utf-8", errors="surrogatepass")


def _as_yaml(value: Any) -> Any:
    """Numbers of more digits than Python prints as hexadecimal ones."""
    if isinstance(value, dict):
        return {key: _as_yaml(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_as_yaml(one) for one in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**4000:
        return _Number(hex(value))
    return value


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


_Everything.add_representer(_Number, lambda dumper, data: dumper.represent_scalar("tag:yaml.org,2002:int", str(data)))


def _bomb(text: bytes, _at: int) -> bytes:
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [b"a%d: &a%d [%s]" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 12)]
    return b"\n".join(lines) + b"\n" + text


def _merge_bomb(text: bytes, _at: int) -> bytes:
    lines = [b"m0: &m0 {k0: 1}"]
    lines += [b"m%d: &m%d {<<: [%s], k%d: 1}" % (n, n, b", ".join([b"*m%d" % (n - 1)] * 9), n) for n in range(1, 12)]
    return b"\n".join(lines) + b"\n" + text


def _put(what: bytes) -> Callable[[bytes, int], bytes]:
    return lambda text, at: text[:at] + what + text[at:]


def _line(what: bytes) -> Callable[[bytes, int], bytes]:
    def put(text: bytes, at: int) -> bytes:
        start = text.rfind(b"\n", 0, at) + 1
        return text[:start] + what + b"\n" + text[start:]

    return put


def _value(what: bytes) -> Callable[[bytes, int], bytes]:
    """In the place of a value, behind the ': ' that comes next."""

    def put(text: bytes, at: int) -> bytes:
        start = text.find(b": ", at)
        start = start if start >= 0 else text.find(b": ")
        end = text.find(b"\n", start)
        return text[: start + 2] + what + text[end:]

    return put


TEXTS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "aliases of aliases": _bomb,
    "merges of merges": _merge_bomb,
    "alias of itself": _line(b"loop: &l [*l]"),
    "mapping of itself": _line(b"loop: &l {a: *l}"),
    "merge of itself": _line(b"loop: &l {<<: *l}"),
    "merge of a list": _line(b"loop: {<<: [1, 2]}"),
    "anchors": lambda text, at: _value(b"&x 1")(text, at) + b"more: *x\n",
    "python tag": _value(b"!!python/object/apply:os.system ['touch /tmp/virtoll-inputs-reached']"),
    "python name": _value(b"!!python/name:os.system"),
    "own tag": _value(b"!virtoll {a: 1}"),
    "binary": _value(b"!!binary aGVsbG8="),
    "bad binary": _value(b"!!binary '*'"),
    "set": _value(b"!!set {a, b}"),
    "ordered map": _value(b"!!omap [a: 1]"),
    "pairs": _value(b"!!pairs [a: 1, a: 2]"),
    "timestamp": _value(b"!!timestamp 2026-13-45"),
    "int": _value(b"!!int x"),
    "float": _value(b"!!float x"),
    "bool": _value(b"!!bool maybe"),
    "null": _value(b"!!null x"),
    "str": _value(b"!!str [1]"),
    "map of a scalar": _value(b"!!map x"),
    "list of a scalar": _value(b"!!seq x"),
    "many digits": _value(b"9" * 5000),
    "many hexadecimal digits": _value(b"0x" + b"f" * 20_000),
    "many sexagesimal digits": _value(b"1" + b":59" * 3000),
    "escaped NUL": _value(rb'"a\0b"'),
    "escaped surrogate": _value(rb'"\ud800"'),
    "escaped control": _value(rb'"\e[31m"'),
    "sequence as key": _line(b"? [a, b]\n: 1"),
    "mapping as key": _line(b"? {a: b}\n: 1"),
    "key is null": _line(b"null: 1"),
    "key is true": _line(b"true: 1"),
    "key is a date": _line(b"2026-01-01: 1"),
    "key is not a number": _line(b".nan: 1"),
    "key twice": _line(b"name: other\nname: another"),
    "two documents": _line(b"---"),
    "document end": _line(b"..."),
    "directive": lambda text, _at: b"%YAML 9.9\n---\n" + text,
    "tag directive": lambda text, _at: b"%TAG ! tag:x,2000:\n---\n" + text,
    "BOM": lambda text, _at: b"\xef\xbb\xbf" + text,
    "UTF-16": lambda text, _at: text.decode(errors="replace").encode("utf-16"),
    "UTF-32": lambda text, _at: text.decode(errors="replace").encode("utf-32"),
    "Latin-1": _put(b"\xe9\xe8"),
    "half a character": _put(b"\xe2\x82"),
    "surrogate": _put(b"\xed\xa0\x80"),
    "overlong": _put(b"\xc0\xaf"),
    "NUL": _put(b"\0"),
    "control": _put(b"\x1b[2J"),
    "C1": _put(b"\xc2\x9b31m"),
    "tab": _line(b"\tname: x"),
    "next line": _put(b"\xc2\x85"),
    "line separator": _put(b"\xe2\x80\xa8"),
    "carriage returns": lambda text, _at: text.replace(b"\n", b"\r"),
    "CRLF": lambda text, _at: text.replace(b"\n", b"\r\n"),
    "cut": lambda text, at: text[:at],
    "empty": lambda _text, _at: b"",
    "a list": lambda text, _at: b"- " + text.replace(b"\n", b"\n  "),
    "deep flow": _value(b"[" * 5000),
    "deep mappings": _value(b"{a: " * 3000),
    "deep block": lambda text, _at: text + b"".join(b" " * n + b"k:\n" for n in range(300)),
    "deep dashes": _value(b"\n" + b"- " * 3000 + b"x"),
    "long line": _value(b"x" * 900_000),
    "many keys": lambda text, _at: text + b"".join(b"k%d: 1\n" % n for n in range(20_000)),
    "many items": _value(b"[" + b"a, " * 60_000 + b"]"),
    "too large": lambda text, _at: text + b"#" * (2 << 20),
    "JSON": lambda text, _at: json.dumps(yaml.safe_load(text), default=str).encode(),
    "ELF": lambda _text, _at: b"\x7fELF" + bytes(200),
    "gzip": lambda _text, _at: b"\x1f\x8b\x08" + bytes(50),
}


@st.composite
def _texts(draw: st.DrawFn) -> Made:
    """A preset with its text changed."""
    _, text = draw(st.sampled_from(_presets()))
    data = text.encode()
    how = draw(st.sampled_from(list(TEXTS)))
    return f"text, {how}", TEXTS[how](data, draw(st.integers(0, len(data))))


@st.composite
def _noise(draw: st.DrawFn) -> Made:
    """A preset with bytes flipped, put in or left out."""
    _, text = draw(st.sampled_from(_presets()))
    data = bytearray(text.encode())
    for _ in range(draw(st.integers(1, 6))):
        at_ = draw(st.integers(0, max(len(data) - 1, 0)))
        how = draw(st.sampled_from(("flip", "put", "cut")))
        if how == "flip" and data:
            data[at_] ^= 1 << draw(st.integers(0, 7))
        elif how == "put":
            data[at_:at_] = draw(
                st.one_of(
                    st.binary(max_size=4),
                    st.sampled_from(
                        [b":", b"- ", b"[", b"{", b"'", b'"', b"&", b"*", b"!", b"|", b">", b"#", b"%", b"@"]
                    ),
                )
            )
        else:
            del data[at_ : at_ + draw(st.integers(1, 30))]
    return "bytes", bytes(data)


def experiments() -> st.SearchStrategy[Made]:
    """A file, with what was done to it."""
    return st.one_of(_of_schema(), _mutated(), _mutated(), _texts(), _noise())
