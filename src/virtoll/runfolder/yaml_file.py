"""From the text of a user's YAML file to what it says, or to one sentence with the line that is wrong.

PyYAML alone takes the last of two keys that are alike, raises other errors than its own for a scalar that is none of
its tag, and builds what a few aliases of aliases stand for. Nothing here knows what the file is about: experiments
and claims are read so, by rooms that import nothing else in common.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from virtoll.errors import UsageError

MOST_BYTES: Final = 2**20
_MOST_NODES = 200_000  # with each alias counted as often as it stands there
_DEEPEST = 50
_MERGE = "tag:yaml.org,2002:merge"


def read_text(path: Path) -> str:
    """The text of a file; `UsageError` where it cannot be read, is not UTF-8, or has more than `MOST_BYTES`."""
    try:
        with path.open("rb") as file:
            found = file.read(MOST_BYTES + 1)
        if len(found) > MOST_BYTES:
            raise UsageError(f"{path}: is larger than {MOST_BYTES >> 20} MiB; split it")
        return found.decode("utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror}); give a readable UTF-8 YAML file") from error
    except UnicodeDecodeError as error:
        line = found[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}: line {line}: cannot be read as UTF-8; save it so") from error


def parse_yaml(text: str, name: str) -> Any:
    """What a text says; `UsageError` that begins with ``name`` and tells the line where it is no YAML."""
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _Checked(loader, name).nodes(node, 0)
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (error.context, error.problem) if part)
        raise UsageError(f"{name}: {_line(mark)}not valid YAML ({' '.join(said.split())}); correct it") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{name}: not valid YAML ({' '.join(str(error).split())}); correct it") from error
    except RecursionError as error:
        raise UsageError(f"{name}: lists and mappings are nested too deeply; nest at most {_DEEPEST}") from error


class _Checked:
    """Looks at all nodes of a file before anything is built of them."""

    def __init__(self, loader: yaml.SafeLoader, name: str) -> None:
        self._loader = loader
        self._name = name
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
        below = sum(self.nodes(one, depth + 1) for one in self._parts(node))
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
                if (key.tag, key.value) in keys:
                    raise self._wrong(key, f"key {key.value!r} is there twice in one mapping; keep one of them")
                keys.add((key.tag, key.value))
        return [one for pair in node.value for one in pair]

    def _scalar(self, node: yaml.ScalarNode) -> None:
        """`UsageError` for one that is none of its tag, such as the date 2026-13-45, or that no file can hold."""
        if node.tag == _MERGE:
            return
        try:
            node.value.encode("utf-8")
            self._loader.construct_object(node)
        except UnicodeEncodeError as error:
            raise self._wrong(node, f"{node.value[:40]!r} has half of a character; take it out") from error
        except (ValueError, AttributeError) as error:
            kind = node.tag.rsplit(":", 1)[-1]
            shown = node.value if len(node.value) <= 40 else f"{node.value[:40]}..."
            raise self._wrong(node, f"{shown!r} is read as {kind}, and is none; write it in quotes") from error

    def _wrong(self, node: yaml.Node, said: str) -> UsageError:
        return UsageError(f"{self._name}: {_line(node.start_mark)}{said}")


def _line(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f"line {mark.line + 1}: "
