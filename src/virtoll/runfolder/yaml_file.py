"""From the text of a user's YAML file to what it says, or to one sentence with the line that is wrong.

Words are read as YAML 1.2 does (its core schema, section 10.3.2), and not as PyYAML by YAML 1.1: `yes` and `2026-11-27`
are texts, `1:30:00` is no number of seconds, `010` is ten, `1e3` a number. PyYAML also takes the last of two keys that
are alike, raises other errors than its own for a scalar that is none of
its tag, and builds what a few aliases of aliases stand for. Nothing here knows what the file is about: experiments
and claims are read so, by rooms that import nothing else in common.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from virtoll.errors import Problem, UsageError
from virtoll.runfolder.opened import open_file

MOST_BYTES: Final = 2**20
_MOST_NODES = 200_000  # with each alias counted as often as it stands there
_DEEPEST = 50
MOST_PROBLEMS: Final = 100
"""That are told of one file: who has more has given another file."""
_MOST_BITS = 1024  # of a whole number: of more digits Python does not even print it
_MERGE = "tag:yaml.org,2002:merge"
_LINE_END = re.compile(r"\r\n|\r|\n")
Path_ = tuple[str | int, ...]
"""A place in a file: the keys and the numbers in lists that lead there."""
# What PyYAML says -> what to do about it.
_SAID: Final = {
    "mapping values are not allowed here": "a ':' stands where no key can be; put the text in quotes, or indent as "
    "the lines above",
    "could not find expected ':'": "a ':' is missing after a key",
    "found undefined alias": "an alias (*) has no anchor (&) before it; add one, or put the text in quotes",
    "expected <block end>": "this is indented or written otherwise than the lines above it; line them up",
    "expected the node content": "a value is missing here",
    "but found another document": "a second document begins; give one file for each",
    "could not determine a constructor": "a tag (!) is not known; take it out, or put the text in quotes",
}

_TAG: Final = "tag:yaml.org,2002:"
_CORE: Final = {  # by tag: how a word begins, and what it is
    "null": ("~nN", r"~|null|Null|NULL|"),
    "bool": ("tTfF", r"true|True|TRUE|false|False|FALSE"),
    "int": ("-+0123456789", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"),
    "float": (
        "-+.0123456789",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    ),
    "merge": ("<", r"<<"),
}


class _Loader(yaml.SafeLoader):
    """PyYAML's, with the words of the core schema."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as PyYAML looks for it

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """A leading 0 does not make it octal."""
        word = self.construct_scalar(node)
        return int(word, 0 if word[:2] in ("0o", "0x") else 10)


class _Dumper(yaml.SafeDumper):
    """PyYAML's, which also quotes a text that is something else by the core schema."""

    yaml_implicit_resolvers: dict[str, Any] = {  # noqa: RUF012 - as above
        letter: list(known) for letter, known in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }


for _name, (_letters, _pattern) in _CORE.items():
    for _kind in (_Loader, _Dumper):
        _first = [*_letters, *([""] if _name == "null" else [])]
        _kind.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z"), _first)
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_yaml_int)


def load_yaml(text: str) -> Any:
    """What a text says that was read before; ``yaml.YAMLError``."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe one


def dump_yaml(value: Any, **style: Any) -> str:
    """A value as text, which says the same when it is read here or by YAML 1.1; ``style`` as of ``yaml.dump``."""
    return str(yaml.dump(value, Dumper=_Dumper, **style))


def read_text(path: Path) -> str:
    """The text of a file; `UsageError` where it cannot be read, is not UTF-8, or has more than `MOST_BYTES`."""
    try:
        with open_file(path) as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(f"{path}: is larger than {MOST_BYTES >> 20} MiB; split it")
        return data.decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give a readable UTF-8 YAML file") from error
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}: line {line}: cannot be read as UTF-8; save it so") from error


def parse_yaml(text: str, name: str) -> Any:
    """What a text says; `UsageError` that begins with ``name`` and tells the line where it is no YAML."""
    document = read_yaml(text, name)
    if document.twice:
        raise UsageError.of(document.twice)
    return document.value


def read_yaml(text: str, name: str) -> YamlText:
    """As `parse_yaml`, with where each key stands; a key that is there twice is told by ``twice``."""
    whole = _Lines(text, name)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return YamlText(whole, None, None, ())
        checked = _Checked(loader, whole)
        checked.nodes(node, 0)
        if checked.problems:
            raise UsageError.of([*checked.problems, *checked.twice])
        return YamlText(whole, node, loader.construct_document(node), tuple(checked.twice))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UsageError.of([whole.problem(mark, None, f"not valid YAML: {_in_words(error, whole)}")]) from error
    except yaml.reader.ReaderError as error:
        sentence = f"not valid YAML: no file may hold the character U+{ord(text[error.position]):04X}; take it out"
        raise UsageError.of([whole.at(error.position, error.position + 1, sentence)]) from error
    except yaml.YAMLError as error:
        raise UsageError(f"{name}: not valid YAML ({' '.join(str(error).split())}); correct it") from error
    except RecursionError as error:
        raise UsageError(f"{name}: lists and mappings are nested too deeply; nest at most {_DEEPEST}") from error


def _in_words(error: yaml.MarkedYAMLError, whole: _Lines) -> str:
    """What PyYAML found, in words that say what to do; its own words where there are no better ones."""
    problem, context = error.problem or "", error.context or ""
    since = ""
    if error.context_mark is not None:
        since = f" (it begins in line {whole.line_of(error.context_mark.index)})"
    if problem.startswith("expected ',' or ']'"):
        return f"a ',' or the closing ']' of a list is missing{since}"
    if problem.startswith("expected ',' or '}'"):
        return f"a ',' or the closing '}}' of a mapping is missing{since}"
    if "\\t" in problem and "cannot start any token" in problem:
        return "a tab stands where only spaces can; write spaces"
    if "quoted scalar" in context and "end of stream" in problem:
        return f"the closing quote of a text is missing{since}"
    if "<stream end>" in problem:
        return f"the file ends where a value or a closing bracket is missing{since}"
    for words, sentence in _SAID.items():
        if words in problem:
            return sentence
    return f"{' '.join(f'{context} {problem}'.split())}; correct it"


@dataclass(frozen=True)
class YamlText:
    """A file of the user's: what it says, and where in it each key stands.

    ``twice``: keys that are there twice in one mapping, of which the value has the last; whoever reads the value tells
    them with whatever else is wrong.
    """

    whole: _Lines
    root: yaml.Node | None
    value: Any
    twice: tuple[Problem, ...]

    def problem(self, path: Path_, sentence: str, key: str, *, on_key: bool = False, part: str = "") -> Problem:
        """What is wrong at a place in the file, or at the nearest above it that the file has.

        ``path``: keys and numbers in lists, from the top. ``key``: the same in words. ``on_key``: the key itself is
        wrong, and not its value.
        """
        key_node, node, depth = self.node(path)
        shown = node
        if depth < len(path) or on_key or (node is not None and node.start_mark.index == node.end_mark.index):
            shown = key_node or node
        mark = None if shown is None else shown.start_mark
        end = None if shown is None else shown.end_mark
        placed = self.whole.problem(mark, end, sentence)
        nowhere = depth == 0  # the file as a whole: no line of it shows what is missing
        return replace(placed, key=key, part=part, text="" if nowhere else placed.text)

    def depth(self, path: Path_) -> int:
        """How many parts of a path the file has."""
        return self.node(path)[2]

    def node(self, path: Path_) -> tuple[yaml.Node | None, yaml.Node | None, int]:
        """The key, the value, and how many parts of the path there are in the file."""
        key: yaml.Node | None = None
        node = self.root
        for depth, part in enumerate(path):
            if isinstance(node, yaml.MappingNode):
                pairs = [(name, value) for name, value in node.value if name.value == str(part)]
                if not pairs:
                    return key, node, depth
                key, node = pairs[-1]  # what is merged into it stands before its own
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                key, node = None, node.value[part]
            else:
                return key, node, depth
        return key, node, len(path)


class _Lines:
    """A text with its name, in which places are told by line and column."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self.name = name

    def line_of(self, index: int) -> int:
        """From 1."""
        return len(_LINE_END.findall(self._text, 0, index)) + 1

    def problem(self, mark: yaml.Mark | None, end: yaml.Mark | None, sentence: str) -> Problem:
        """What is wrong from one mark of PyYAML's to another; without any, in the whole file."""
        if mark is None:
            return Problem(self.name, sentence)
        return self.at(mark.index, mark.index + 1 if end is None else end.index, sentence)

    def at(self, index: int, end: int, sentence: str) -> Problem:
        """What is wrong from a character to another; at the end of the text its last line is meant."""
        if index >= len(self._text):
            index = max(len(self._text.rstrip()) - 1, 0)
        starts = [0, *(match.end() for match in _LINE_END.finditer(self._text, 0, index))]
        start = starts[-1] + (len(starts) == 1 and self._text.startswith("\ufeff"))
        after = _LINE_END.search(self._text, index)
        line = self._text[start : after.start() if after else len(self._text)]
        column = max(index - start, 0)
        length = max(min(end - index, len(line.rstrip()) - column), 1)
        return Problem(self.name, sentence, line=len(starts), column=column + 1, length=length, text=line)


class _Checked:
    """Looks at all nodes of a file before anything is built of them."""

    def __init__(self, loader: yaml.SafeLoader, whole: _Lines) -> None:
        self._loader = loader
        self._whole = whole
        self.problems: list[Problem] = []  # of single values
        self.twice: list[Problem] = []
        self._counts: dict[int, int] = {}
        self._open: set[int] = set()

    def nodes(self, node: yaml.Node, depth: int) -> int:
        """How many nodes there are in and below one, aliases by what they stand for; `UsageError` for what is wrong."""
        known = self._counts.get(id(node))
        if known is not None:
            return known
        if id(node) in self._open:
            raise self._wrong(node, "an alias stands inside of what it is an alias of; write it out")
        if depth > _DEEPEST:
            raise self._wrong(node, f"lists and mappings are nested too deeply; nest at most {_DEEPEST}")
        if isinstance(node, yaml.ScalarNode):
            self._scalar(node)
        self._open.add(id(node))
        below = sum(self.nodes(part, depth + 1) for part in self._parts(node))
        self._open.remove(id(node))
        if below > _MOST_NODES:
            raise self._wrong(node, "its aliases make it too large; use fewer of them")
        self._counts[id(node)] = below + 1
        return below + 1

    def _parts(self, node: yaml.Node) -> list[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            return list(node.value)
        if not isinstance(node, yaml.MappingNode):
            return []
        keys: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in keys and len(self.twice) < MOST_PROBLEMS:
                    sentence = f"key {key.value!r} is there twice in one mapping; keep one of them"
                    self.twice.append(self._whole.problem(key.start_mark, key.end_mark, sentence))
                keys.add((key.tag, key.value))
        return [part for pair in node.value for part in pair]

    def _scalar(self, node: yaml.ScalarNode) -> None:
        """`UsageError` for one that is none of its tag, such as the date 2026-13-45, or that no file can hold."""
        if node.tag == _MERGE or len(self.problems) >= MOST_PROBLEMS:
            return
        try:
            node.value.encode("utf-8")
            value = self._loader.construct_object(node)
            if isinstance(value, int) and value.bit_length() > _MOST_BITS:
                shown = f"{node.value[:40]}..."
                sentence = f"{shown!r} is a number of more than {_MOST_BITS} bits; write a smaller one"
                self.problems.append(self._whole.problem(node.start_mark, node.end_mark, sentence))
        except UnicodeEncodeError as error:
            raise self._wrong(node, f"{node.value[:40]!r} has half of a character; take it out") from error
        except (ValueError, AttributeError, LookupError, ArithmeticError):  # as of PyYAML's constructors
            kind = node.tag.rsplit(":", 1)[-1]
            shown = node.value if len(node.value) <= 40 else f"{node.value[:40]}..."
            sentence = f"{shown!r} is read as {kind}, and is none; write it in quotes"
            self.problems.append(self._whole.problem(node.start_mark, node.end_mark, sentence))

    def _wrong(self, node: yaml.Node, sentence: str) -> UsageError:
        return UsageError.of([self._whole.problem(node.start_mark, node.end_mark, sentence)])
