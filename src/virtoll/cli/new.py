"""``virtoll new``: writes a commented experiment, from options or from what a person answers on a terminal."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from virtoll.cli import complete
from virtoll.cli.output import say
from virtoll.errors import Interrupted, UsageError

Answer = TypeVar("Answer")
_BASELINE, _CONTROL = "native", "native-again"
_ROLES: Final = {
    _BASELINE: "the baseline: all others are compared with it",
    _CONTROL: "the A/A control: what differs between the two is noise",
}
_NAME, _BLOCKS = "my-experiment", 3
_WIDTH: Final = 100

FileArgument = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="File to write; without it, NAME.yaml in this folder.")
]
QuestionOption = Annotated[
    str | None, typer.Option("--question", metavar="TEXT", help="What the experiment should answer.")
]
PlatformsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--platform",
        metavar="PLATFORM",
        help="Platforms to compare with the host (separated by commas). Repeatable.",
        autocompletion=complete.platforms,
    ),
]
WorkloadsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--workload",
        metavar="WORKLOAD",
        help="Workloads to measure (separated by commas). Repeatable.",
        autocompletion=complete.workloads,
    ),
]
BlocksOption = Annotated[
    int | None, typer.Option("--blocks", metavar="N", min=1, max=1000, help="Number of blocks; 3 without it.")
]
NameOption = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name of the experiment; without it, the file's.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace the file where there is one.")]


def new(
    file: FileArgument = None,
    *,
    question: QuestionOption = None,
    platform: PlatformsOption = None,
    workload: WorkloadsOption = None,
    blocks: BlocksOption = None,
    name: NameOption = None,
    force: ForceOption = False,
) -> None:
    """Write a commented experiment, from options or from answers.

    What no option says is asked for on a terminal. The bare host and its A/A control are added.
    """
    if file is not None:
        _refuse_what_is_there(file, force)
    options = {"--question": question, "--platform": platform, "--workload": workload}
    missing = [option for option, value in options.items() if not value]
    if missing and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(f"there is no terminal to ask on; give {' and '.join(missing)} too")
    from virtoll.platforms import PLATFORMS
    from virtoll.workloads import WORKLOADS

    ask = bool(missing)
    question = _text(question) if question else _asked("Question that it should answer", None, _text)
    platforms = _named(
        platform, PLATFORMS, "platform", "Platforms to compare with the host, with commas (virtoll list platforms)"
    )
    workloads = _named(workload, WORKLOADS, "workload", "Workloads to measure, with commas (virtoll list workloads)")
    if blocks is None:
        blocks = _asked("Blocks: more find smaller differences", str(_BLOCKS), _number) if ask else _BLOCKS
    name = _free_name(name, file, force, ask)
    file = file if file is not None else _file_of(name)
    text = "".join(f"{line}\n" for line in _lines(name, question, platforms, workloads, blocks))
    _refuse_what_does_not_load(text, file)
    _write(file, text, force)
    added = [f"{label} ({_ROLES[label]})" for label in (_BASELINE, _CONTROL) if label not in platforms]
    if added:
        say(f"added: {' and '.join(added)}")
    say(f"written: {file}; next: virtoll plan {file}")


def _free_name(name: str | None, file: Path | None, force: bool, ask: bool) -> str:
    """The experiment's name, of which no file is there yet."""

    def free(answer: str) -> str:
        _refuse_what_is_there(file if file is not None else _file_of(answer), force)
        return _label(answer)

    if name is None:
        suggested = _label_of(file.stem) if file is not None else _NAME
        name = _asked("Name", suggested, free) if ask else suggested
    return free(name)


def _file_of(name: str) -> Path:
    return Path(f"{name}.yaml")


def _refuse_what_is_there(file: Path, force: bool) -> None:
    if file.exists() and not force:
        raise UsageError(f"{file} is there already; name another file, or replace it with --force")


def _asked(question: str, suggested: str | None, check: Callable[[str], Answer]) -> Answer:
    """A person's answer, asked for again until it is right."""

    def checked(answer: str) -> Answer:
        try:
            return check(answer)
        except UsageError as error:
            raise typer.BadParameter(str(error)) from error

    try:
        answer: Answer = typer.prompt(question, default=suggested, value_proc=checked)
    except typer.Abort as end:
        raise Interrupted("nothing was written") from end
    return answer


def _named(values: Sequence[str] | None, known: Collection[str], what: str, question: str) -> list[str]:
    """The names that options have, or else a person's answer; each is one that there is."""

    def names(text: str) -> list[str]:
        chosen = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not chosen:
            raise UsageError(f"no {what} is named; give one or more")
        for name in chosen:
            if name not in known:
                from virtoll.experiment.near import choices

                raise UsageError(f"{what} {name!r} is not known; {choices(name, known, f'virtoll list {what}s')}")
        return chosen

    return names(",".join(values)) if values else _asked(question, None, names)


def _text(answer: str) -> str:
    if not answer.strip():
        raise UsageError("the question is empty; say what the experiment should answer")
    return " ".join(answer.split())


def _number(answer: str) -> int:
    if not (answer.strip().isdecimal() and 1 <= int(answer) <= 1000):
        raise UsageError(f"{answer!r} is no number of blocks; give a whole number from 1 to 1000")
    return int(answer)


def _label(answer: str) -> str:
    from virtoll.experiment.model import LABEL_PATTERN, LABEL_WORDS

    if not re.fullmatch(LABEL_PATTERN, answer):
        raise UsageError(f"{answer!r} is not a name; allowed: {LABEL_WORDS}")
    return answer


def _label_of(stem: str) -> str:
    """A file's name as an experiment's."""
    return re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("._-")[:63] or _NAME


def _lines(name: str, question: str, platforms: Sequence[str], workloads: Sequence[str], blocks: int) -> Iterator[str]:
    """The file, line by line."""
    from virtoll.experiment.schema import SCHEMA_FILE
    from virtoll.platforms import PLATFORMS
    from virtoll.runfolder.yaml_file import dump_yaml
    from virtoll.workloads import WORKLOADS

    if not re.search(r"\s", str(SCHEMA_FILE)):  # editors end it at a space
        yield f"# yaml-language-server: $schema={SCHEMA_FILE}"
    yield "# 'virtoll plan' with this file says what will run and how long it takes; 'virtoll run' measures it."
    yield "# 'virtoll show platform NAME' and 'virtoll show workload NAME' have the keys of an entry."
    yield f"name: {dump_yaml(name).splitlines()[0]}"
    yield from dump_yaml({"question": question}, allow_unicode=True, width=_WIDTH).splitlines()
    yield ""
    yield "# What is compared. An entry with keys is a mapping; a list of values makes a platform of each:"
    yield "#   - {platform: qemu-tcg, nic: [virtio-net, e1000]}"
    yield "platforms:"
    whole = [_BASELINE, _CONTROL, *(label for label in platforms if label not in _ROLES)]
    yield from _entries({platform: _ROLES.get(platform, PLATFORMS[platform].title) for platform in whole})
    yield f"baseline: {_BASELINE}"
    yield ""
    yield "# What is measured, at the size of a first try. A list of values measures each:"
    yield "#   - {workload: superpi, digits: [65536, 262144]}"
    yield "workloads:"
    yield from _entries(
        {workload: f"{WORKLOADS[workload].title}: {WORKLOADS[workload].metrics[0].words}" for workload in workloads}
    )
    yield ""
    yield "# What every guest is given."
    yield "guest: {vcpus: 1, memory: 256MiB}"
    yield ""
    yield "# A block boots each platform once, and measures each workload in short rounds. More blocks show"
    yield "# smaller differences; {least: 3, most: 12, until: decided} adds blocks until all is decided."
    yield f"blocks: {blocks}"
    yield "rounds: 5"
    yield "seed: 1  # of the random order"


def _entries(words: dict[str, str]) -> Iterator[str]:
    wide = max(map(len, words))
    for name, comment in words.items():
        yield f"  - {name.ljust(wide)}  # {comment}"


def _refuse_what_does_not_load(text: str, file: Path) -> None:
    """A platform or workload that is nothing without keys of its own is for a file that its user writes."""
    from virtoll.experiment.parse import parse_experiment
    from virtoll.pipeline.preview import catalogue

    try:
        parse_experiment(text, file, catalogue())
    except UsageError as error:
        sentence = error.problems[0].said if error.problems else str(error)
        raise UsageError(f"nothing is written, as it would not load: {sentence}") from error


def _write(file: Path, text: str, force: bool) -> None:
    from virtoll.runfolder.jsonlines import write_whole

    try:
        if file.exists() and not force:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        write_whole(file, text)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}; name another file") from error
