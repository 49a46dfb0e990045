"""Command lines and environment variables that nobody means, for every command; and the files that users write.

Main functions: ``lines`` (a command line with variables, drawn by Hypothesis), ``files`` (a damaged file of a user's,
and the command that reads it) and ``STRANGE`` (what stands in the place of a file).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import typer.main
from benches.survive.made_experiments import HOSTILE, TEXTS, at, dumped, places, values, with_value, without
from hypothesis import strategies as st

from virtoll import cli
from virtoll.reference.published import reference_yaml

NAMES: Final = (
    "quick", "mattos2012", "models", "native", "runc", "qemu-kvm", "superpi", "forward", "latest", "runc:*", "1", "0",
    "-1", "+1", "99999999999999999999", "9" * 5000, "+" + "9" * 5000, "1e400", "nan", "5%", "1GiB", "schlosser2011",
    "memory=2GiB", "decided", "paper", "host", "cost", "values", "junit", "select 1", "select * from samples",
    "explain analyze copy (select 1) to 'reached'", "copy (select 1) to 'reached'",
    "select * from read_text('/etc/passwd')",
    "select * from read_csv('/etc/passwd')", "attach 'reached.db'", "install httpfs", "load '/tmp/x.so'",
    "select getenv('HOME')", "from glob('/*')", "pragma database_list", "select * from range(3)",
    "router 64B 200kpps loss<0.1%", "oltp p99<20ms", "runc: superpi: cost > 50%", "a=b", "=", "a=ssh:b", ",", ":",
    "a" * 5000, "s3://x/y", "file:///etc/passwd", "\udcff\udcfe", "%(x)s", "\\", "'", '"',
)  # fmt: skip
VARIABLES: Final = (
    "VIRTOLL_RUNS", "VIRTOLL_CACHE", "VIRTOLL_STATE", "VIRTOLL_AGENT", "VIRTOLL_KERNEL", "VIRTOLL_NODES", "VIRTOLL_LAB",
    "VIRTOLL_QUIET", "VIRTOLL_VERBOSE", "VIRTOLL_TESTBED", "VIRTOLL_TUNED", "VIRTOLL_OUTSIDE", "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "HOME", "TMPDIR", "PATH", "LANG", "LC_ALL", "TZ", "COLUMNS", "NO_COLOR",
    "SUDO_USER", "SLURM_ARRAY_TASK_ID",
)  # fmt: skip


def commands() -> list[tuple[tuple[str, ...], Any]]:
    """Every command with its words, hidden ones too."""

    def below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield words, command
            return
        for name, one in inner.items():
            yield from below(one, (*words, name))

    return list(below(typer.main.get_command(cli.app), ()))


def words(folder: Path) -> tuple[str, ...]:
    """Values of arguments and options, among them paths of what ``strange`` made in a folder."""
    there = tuple(str(path) for path in sorted(folder.iterdir()))
    usable = (one for one in HOSTILE if "\0" not in one)
    return (
        *NAMES,
        *(one.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape") for one in usable),
        *there,
    )


@st.composite
def lines(
    draw: st.DrawFn, known: Sequence[tuple[tuple[str, ...], Any]], given: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Words of a command line, and variables."""
    path, command = draw(st.sampled_from(known))
    word = st.one_of(
        st.sampled_from(given),
        st.sampled_from(given),
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=10),
    )
    found: list[str] = []
    usual = next(one for one in given if one.endswith("/run"))
    right = st.sampled_from((usual, usual, "quick", "models", "native", "select platform from runs"))
    for one in command.params:
        if one.param_type_name == "argument":
            most = 3 if one.nargs == -1 else 1
            found += draw(st.lists(st.one_of(right, word), min_size=int(one.required), max_size=most))
        elif draw(st.integers(0, 7)) == 0:
            found.append(draw(st.sampled_from(one.opts)))
            if not one.is_flag:
                found.append(draw(word))
    if draw(st.integers(0, 19)) == 0:
        found.insert(draw(st.integers(0, len(found))), draw(word))
    variables = {}
    if draw(st.integers(0, 3)) == 0:
        for _ in range(draw(st.integers(1, 2))):
            value = draw(word).encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
            variables[draw(st.sampled_from(VARIABLES))] = value
    return [*path, *found], variables


def strange(folder: Path) -> None:
    """What may stand in the place of a file."""
    os.mkfifo(folder / "pipe.yaml")
    (folder / "folder.yaml").mkdir()
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "passwd.yaml").symlink_to("/etc/passwd")
    (folder / "zero.yaml").symlink_to("/dev/zero")
    (folder / "null.yaml").symlink_to("/dev/null")
    (folder / "full.yaml").symlink_to("/dev/full")
    (folder / "memory.yaml").symlink_to("/proc/self/mem")
    (folder / "terminal.yaml").symlink_to("/dev/tty")
    (folder / "empty.yaml").touch()
    with (folder / "large.yaml").open("wb") as file:
        file.truncate(100 << 20)
    with (folder / "noise.yaml").open("wb") as file:
        file.write(bytes(range(256)) * 100)
    os.mknod(folder / "socket.yaml", stat.S_IFSOCK | 0o600)


_BOMB: Final = (
    '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    + ']><testsuites><testcase classname="tests.test_runc" name="x">&a11;</testcase></testsuites>'
).encode()
XML: Final = (
    _BOMB,
    b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><testsuites><testcase name="&f;"/></testsuites>',
    b"<testsuites>" + b"<a>" * 50_000,
    b"<testsuites>" + b"<a>" * 20_000 + b"</a>" * 20_000 + b"</testsuites>",
    b"<testsuites><testcase classname='tests.test_\xff'/></testsuites>",
    b'<?xml version="1.0" encoding="rot13"?><a/>',
    b'<?xml version="1.0" encoding="UTF-16"?><a/>',
    b"<a", b"", b"\0", b"<testsuites/>", b"<testsuites><testcase/></testsuites>",
    b"<testsuites><testcase classname='tests.test_runc' name='a[&#27;]'/></testsuites>",
    b"<testsuites><testcase classname='tests.test_guests' name='a[runc]'><skipped/></testcase></testsuites>",
)  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> tuple[str, str, bytes]:
    """Which of the files, what was done to it, and its bytes."""
    kind = draw(st.sampled_from(("claims", "claims", "needs", "key", "tests", "thresholds", "testbed", "campaign")))
    if kind == "tests":
        return kind, "XML", draw(st.one_of(st.sampled_from(XML), st.binary(max_size=40)))
    if kind == "key":
        return kind, "bytes", draw(st.one_of(st.binary(max_size=100), st.just(b"a" * 64), st.just(b"\xff" * 64)))
    document = _documents()[kind]
    if draw(st.booleans()):
        how = draw(st.sampled_from(list(TEXTS)))
        text = dumped(document)
        return kind, how, TEXTS[how](text, draw(st.integers(0, len(text))))
    for _ in range(draw(st.integers(1, 2))):
        there = list(places(document))
        if not there:
            break
        place = draw(st.sampled_from(there))
        if draw(st.booleans()):
            document = with_value(document, place, draw(values()))
        elif isinstance(at(document, place[:-1]), dict) and draw(st.booleans()):
            document = with_value(
                document, place[:-1], {**at(document, place[:-1]), draw(st.text(max_size=6)): draw(values())}
            )
        else:
            document = without(document, place)
    return kind, "value", dumped(document)


def _documents() -> dict[str, Any]:
    claims = reference_yaml("claims.yaml")[:4]
    testbed = {
        "generator": {"host": {"ssh": "bench@left"}, "interfaces": ["eth1"]},
        "sink": {"host": {"ssh": "bench@right"}, "interfaces": ["eth1"]},
        "hypervisor": {"host": "local", "interfaces": ["enp1s0", "enp2s0"]},
    }
    small = {"name": "mine", "question": "Is it so?", "platforms": ["native", "netns"], "workloads": ["forward"]}
    return {
        "claims": claims,
        "needs": ["router 64B 200kpps loss<0.1% + oltp p99<20ms", "guests 4 memory 128MiB"],
        "thresholds": {
            **small,
            "needs": ["router 64B 200kpps loss<0.1%"],
            "thresholds": ["netns: forward: cost > 50%"],
            "against": ["netns: memory=2GiB"],
            "skip": ["netns:*"],
            "study": "mattos2012",
        },
        "testbed": {**small, "testbed": testbed},
        "campaign": {"campaign": "0" * 64, "experiment": "quick", "blocks": 24, "created_realtime_ns": 0},
    }


def reader(kind: str, file: Path, run: Path, to: Path) -> list[str]:
    """The command that reads a user's file."""
    return {
        "claims": ["claims", str(run), "--claims", str(file)],
        "needs": ["advise", str(run), "--needs", str(file)],
        "key": [
            "pack",
            str(run),
            "--anonymous",
            "--key",
            str(file),
            "--output",
            str(to / "x.virtoll.tar.zst"),
            "--force",
        ],
        "tests": ["validation", str(run), "--tests", str(file)],
        "thresholds": ["plan", str(file)],
        "testbed": ["plan", str(file)],
        "campaign": ["campaign", "status", str(file.parent)],
    }[kind]
