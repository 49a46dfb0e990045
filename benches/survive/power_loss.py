"""What a disk may hold after the power was lost: every prefix of recorded changes, with every legal loss of the rest.

The method of ALICE (Pillai et al., OSDI 2014) and CrashMonkey (Mohan et al., OSDI 2018). A change is durable once its
file or folder was synced after it: writes by the file's fsync, names by the folder's. Nothing else is. Of the changes
that are not durable any may be lost, whatever came after it, and of a write a part. A rename is whole or not there.

Main types: `Crash`, one state. Main function: `crashes`. It knows nothing of what the files mean.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benches.survive.faulty_disk import Change

_ROOT = 0
_WRITES = frozenset({"write", "truncate"})
_NAMES = frozenset({"create", "mkdir", "symlink", "link", "unlink", "rename", "exchange"})
_TORN = ("half", "zeros")


@dataclass(frozen=True)
class Crash:
    """A state: the first ``length`` changes had been asked for, and those of ``lost`` did not reach the disk.

    ``torn``: what of the last write that was not durable is there: ``half`` of it, or ``zeros`` of its length; empty:
    all of it. ``told``: the names of the marks that were set before.
    """

    length: int
    lost: frozenset[int]
    torn: str = ""
    told: tuple[str, ...] = ()


@dataclass
class _Node:
    content: bytearray = field(default_factory=bytearray)
    link: bytes | None = None
    names: dict[str, int] | None = None


def crashes(changes: Sequence[Change], chance: random.Random, since: int = 0, others: int = 2) -> Iterator[Crash]:
    """The states at each length from ``since`` on, of the changes that are not durable.

    Nothing lost, all lost, each lost alone, each kept alone, the last write torn, and ``others`` at random.
    """
    for length in range(since, len(changes) + 1):
        told = tuple(one.name for one in changes[:length] if one.kind == "told")
        loose = not_durable(changes[:length])
        every = frozenset(loose)
        lost = {frozenset[int](), every}
        lost |= {frozenset({one}) for one in loose} | {every - {one} for one in loose}
        lost |= {frozenset(one for one in loose if chance.random() < 0.5) for _ in range(others if loose else 0)}
        for one in sorted(lost, key=sorted):
            yield Crash(length, one, "", told)
        writes = [one for one in loose if changes[one].kind == "write"]
        if writes:
            for torn in _TORN:
                yield Crash(length, frozenset(), torn, told)


def not_durable(changes: Sequence[Change]) -> list[int]:
    """Places of the changes that no sync followed."""
    writes: dict[int, list[int]] = {}
    names: dict[int, list[int]] = {}
    durable: set[int] = set()
    for place, one in enumerate(changes):
        if one.kind in _WRITES:
            writes.setdefault(one.node, []).append(place)
        elif one.kind in _NAMES:
            for folder in {one.folder, *([one.to_folder] if one.kind in ("rename", "exchange") else [])}:
                names.setdefault(folder, []).append(place)
        elif one.kind == "fsync":
            durable.update(writes.pop(one.node, ()))
            durable.update(names.pop(one.node, ()))
    return [place for place, one in enumerate(changes) if one.kind in _WRITES | _NAMES and place not in durable]


def tree(changes: Sequence[Change], crash: Crash) -> dict[str, bytes | None]:
    """The files and folders of a state by their paths: contents, None for a folder, of a link ``-> target``."""
    nodes: dict[int, _Node] = {_ROOT: _Node(names={})}
    last = max((n for n in not_durable(changes[: crash.length]) if changes[n].kind == "write"), default=None)
    for place, one in enumerate(changes[: crash.length]):
        if one.kind in ("create", "mkdir", "symlink"):  # what it is was settled with its number
            nodes[one.node] = _Node(link=one.data if one.kind == "symlink" else None)
            nodes[one.node].names = {} if one.kind == "mkdir" else None
        if place in crash.lost:
            continue
        if one.kind in _WRITES:
            _write(nodes.setdefault(one.node, _Node()), one, crash.torn if place == last else "")
        elif one.kind in _NAMES:
            _rename(nodes, one)
    return dict(_walk(nodes, _ROOT, ""))


def laid_out(found: dict[str, bytes | None], into: Path) -> None:
    """Write a state's files below an empty folder."""
    for path, content in found.items():
        target = into / path
        if content is None:
            target.mkdir()
        elif content.startswith(b"-> "):
            target.symlink_to(os.fsdecode(content[3:]))
        else:
            target.write_bytes(content)


def _write(node: _Node, one: Change, torn: str) -> None:
    if one.kind == "truncate":
        del node.content[one.offset :]
        node.content.extend(bytes(one.offset - len(node.content)))
        return
    data = {"": one.data, "half": one.data[: len(one.data) // 2], "zeros": bytes(len(one.data))}[torn]
    if len(node.content) < one.offset:
        node.content.extend(bytes(one.offset - len(node.content)))
    node.content[one.offset : one.offset + len(data)] = data


def _rename(nodes: dict[int, _Node], one: Change) -> None:
    """A change of names; a folder that is not reached any more keeps its own."""
    names = nodes[one.folder].names
    assert names is not None  # it is a folder
    if one.kind in ("create", "mkdir", "symlink", "link"):
        names[one.name] = one.node
        return
    if one.kind == "unlink":
        names.pop(one.name, None)
        return
    others = nodes[one.to_folder].names
    assert others is not None  # as well
    if one.kind == "exchange":
        names[one.name] = one.offset
    else:
        names.pop(one.name, None)
    others[one.to_name] = one.node


def _walk(nodes: dict[int, _Node], number: int, path: str) -> Iterator[tuple[str, bytes | None]]:
    for name, below in sorted((nodes[number].names or {}).items()):
        node = nodes[below]
        where = f"{path}/{name}" if path else name
        if node.names is not None:
            yield where, None
            yield from _walk(nodes, below, where)
        else:
            yield where, bytes(node.content) if node.link is None else b"-> " + node.link
