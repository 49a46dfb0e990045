#!/usr/bin/env python3
"""Writes the manual pages: one of all, and one for each command that help lists, made of the command line's own code.

`.venv/bin/python tools/manual.py [FOLDER]` (`make man`) writes `virtoll.1`, `virtoll-run.1` and so on into
`build/man`, or the folder. As with git and gh, `man virtoll-image-show` is the page of `virtoll image show`.

Commands, arguments, options, exit codes and environment variables come from `virtoll.cli`; what is said here alone is
files and examples. The date is that of `$SOURCE_DATE_EPOCH`, else of the commit that is checked out, else none.
click-man, which does the same for click, wants click's own classes, and typer has its own copy of them.
Exit code: 0.
"""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperArgument

from virtoll import __version__
from virtoll.cli import app, topics
from virtoll.cli.groups import USES, Commands, summary

ROOT: Final = Path(__file__).resolve().parent.parent
WIDTH: Final = 78
FILES: Final = (
    ("runs/", "In the current folder: a folder for each run, with its report in report/index.html."),
    ("/var/cache/virtoll", "Guest images, and whatever else is built once; root's."),
    ("~/.cache/virtoll", "The same of another user."),
    ("/run/virtoll", "What a run or a tuning must undo, also after a crash; root's."),
)
"""Where something is kept when no environment variable says otherwise."""
EXAMPLES: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "virtoll": (
        ("virtoll doctor", "What works on this host, and how to mend the rest."),
        ("virtoll plan quick", "What the experiment 'quick' will run, and how long it will take."),
        ("virtoll run quick", "Measure it, and write the report."),
        ("virtoll report latest --open", "Open the report of the last run."),
    ),
    "virtoll run": (
        ("virtoll run quick", "A preset."),
        ("virtoll run mine.yaml --platform native,runc --blocks 6", "Parts of an experiment of your own."),
        ("virtoll run mattos2012 --size paper", "A paper's experiment, as the paper ran it."),
    ),
    "virtoll resume": (("virtoll resume latest", "Continue the last run."),),
    "virtoll extend": (("virtoll extend latest --blocks +6", "Six more blocks of the last run."),),
    "virtoll plan": (("virtoll plan quick --trials", "Each trial, in its order."),),
    "virtoll advise": (
        ('virtoll advise latest --need "router 64B 200kpps loss<0.1%"', "Which platforms forward that."),
    ),
    "virtoll export": (("virtoll export latest --format junit", "Thresholds as the tests of a CI."),),
    "virtoll setup": (("virtoll setup --print", "What is missing; nothing is changed."),),
    "virtoll image": (("virtoll image show full", "The packages of an image, with their licences."),),
    "virtoll help": (("virtoll help exit-codes", "What each exit code means."),),
}
"""By command: lines to be typed, with what they are for."""
BESIDE: Final = ("ip-netns(8)", "namespaces(7)", "cgroups(7)", "qemu(1)", "runc(8)")


class Entry(NamedTuple):
    """A command that help lists: its path in words, what typer knows of it, and the context that it is asked in."""

    path: str
    command: Any
    context: Any


def entries() -> Iterator[Entry]:
    """All of them, the program itself first."""
    command: Any = typer.main.get_command(app)
    context = command.context_class(command, info_name="virtoll", **command.context_settings)
    yield from _below(Entry("virtoll", command, context))


def _below(entry: Entry) -> Iterator[Entry]:
    yield entry
    for one in _commands(entry):
        yield from _below(one)


def _commands(entry: Entry) -> Iterator[Entry]:
    """The commands right below a group; none below a command."""
    if isinstance(entry.command, Commands):
        for name, command in entry.command.visible(entry.context).items():
            inner = command.context_class(command, info_name=name, parent=entry.context, **command.context_settings)
            yield Entry(f"{entry.path} {name}", command, inner)


def pages(date: str) -> dict[str, str]:
    """By file name the text of each page; `date` as YYYY-MM-DD, or empty."""
    known = list(entries())
    return {f"{_file(entry.path)}.1": page(entry, [one.path for one in known], date) for entry in known}


def page(entry: Entry, paths: Sequence[str], date: str) -> str:
    """One page in the man(7) language; `paths`: those of all commands."""
    name = _file(entry.path)
    lines = [
        ".\\\" Written by tools/manual.py from the command line's own code.",
        f'.TH {roff(name).upper()} 1 "{date}" "Virtoll {__version__}" "Virtoll"',
        *_section("NAME", [f"{roff(name)} \\- {roff(summary(entry.command).rstrip('.'))}"]),
        *_section("SYNOPSIS", _synopsis(entry)),
        *_section("DESCRIPTION", _paragraphs(entry.command.help or "")),
        *_section("ARGUMENTS", _terms(_records(entry, arguments=True), italic=True)),
        *_section("OPTIONS", _terms(_records(entry, arguments=False))),
        *_section("COMMANDS", _listed(entry)),
        *_section("EXIT STATUS", _terms(topics.lines("exit-codes"))),
    ]
    if entry.path == "virtoll":
        lines += _section("ENVIRONMENT", _terms(topics.lines("environment")))
        lines += _section("FILES", _terms(FILES, italic=True))
    else:
        lines += _section("ENVIRONMENT", ["Environment variables and files are in", ".BR virtoll (1)."])
    lines += _section("EXAMPLES", _examples(EXAMPLES.get(entry.path, ())))
    lines += _section("SEE ALSO", _references(entry.path, paths))
    return "\n".join(lines) + "\n"


def roff(text: str) -> str:
    """A text as it stands, whatever of it means something to roff; an apostrophe stays what can be typed."""
    known = {"\\": "\\e", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"}
    shown = "".join(known.get(one, one if one.isascii() else f"\\[u{ord(one):04X}]") for one in text)
    # In an option or a command's name a hyphen is what is typed; in prose it may end a line.
    return re.sub(r"(?<!\S)(?:\\\(aq)?-\S+|(?<!\S)virtoll-\S+", lambda match: match[0].replace("-", "\\-"), shown)


def _file(path: str) -> str:
    return path.replace(" ", "-")


def _section(title: str, lines: Iterable[str]) -> list[str]:
    """A section, or nothing where it would be empty."""
    body = list(lines)
    return [f".SH {title}", *body] if body else []


def _text(text: str) -> list[str]:
    """Lines of a text, none of which looks like a request."""
    folded = textwrap.wrap(roff(" ".join(text.split())), WIDTH, break_long_words=False, break_on_hyphens=False)
    return [f"\\&{line}" if line.startswith(".") else line for line in folded]


def _paragraphs(text: str) -> list[str]:
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        lines += [*([".PP"] if lines else []), *_text(paragraph)]
    return lines


def _terms(records: Iterable[tuple[str, str]], *, italic: bool = False) -> list[str]:
    """A list of terms, each with its words indented below it."""
    font = "I" if italic else "B"
    return [line for term, words in records for line in (".TP", f"\\f{font}{roff(term)}\\fR", *_text(words))]


def _records(entry: Entry, *, arguments: bool) -> Iterator[tuple[str, str]]:
    """Arguments or options of a command, with their words as help has them."""
    for one in entry.command.get_params(entry.context):
        record = one.get_help_record(entry.context)
        if record is not None and isinstance(one, TyperArgument) == arguments:
            yield (one.display_name_raw if arguments else record[0]), record[1]


def _synopsis(entry: Entry) -> list[str]:
    pieces = " ".join(entry.command.collect_usage_pieces(entry.context))
    return [f".B {roff(entry.path)}", f".I {roff(pieces)}"]


def _listed(entry: Entry) -> list[str]:
    """The commands of a group by use, as its help has them."""
    found = list(_commands(entry))
    uses = {one.path: one.command.rich_help_panel for one in found}
    lines: list[str] = []
    for use in (*USES, None):
        own = [one for one in found if (uses[one.path] if uses[one.path] in USES else None) == use]
        lines += [f".SS {use}"] if use is not None and own else []
        for one in own:
            lines += [".TP", f".BR {roff(_file(one.path))} (1)", *_text(summary(one.command))]
    return lines


def _examples(examples: Sequence[tuple[str, str]]) -> list[str]:
    return [line for typed, words in examples for line in (".TP", f"\\fB{roff(typed)}\\fR", *_text(words))]


def _references(path: str, paths: Sequence[str]) -> list[str]:
    """The pages right above and below; of the program itself also those of others."""
    above = [path.rpartition(" ")[0]] if " " in path else []
    below = [one for one in paths if one.rpartition(" ")[0] == path]
    asked = [*(f"{_file(one)}(1)" for one in (*above, *below)), *(BESIDE if not above else ())]
    named = [one.partition("(") for one in asked]
    ends = [*[","] * (len(named) - 1), ""]
    return [f".BR {roff(name)} ({rest}{end}" for (name, _, rest), end in zip(named, ends, strict=True)]


def date_of_pages() -> str:
    """The day of `$SOURCE_DATE_EPOCH`, else of the commit that is checked out; empty where there is neither."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        asked = subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        epoch = asked.stdout.strip()
    return datetime.fromtimestamp(int(epoch), UTC).date().isoformat() if epoch else ""


def write(folder: Path) -> None:
    """Writes all pages into a folder; a page of a command that is gone is removed."""
    folder.mkdir(parents=True, exist_ok=True)
    made = pages(date_of_pages())
    for old in folder.glob("virtoll*.1"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="ascii")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "man")
