"""The errors of Virtoll: one base class, few kinds; each message is one sentence that ends in what to do next.

Libraries raise them; only the command line prints them and turns ``exit_code`` into the process's own.
An error below ``GuestError`` costs the trials of one guest, never the run.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from reprlib import Repr
from typing import Any, Final, Literal, Self

# What a file of the user's must have at a place, where pydantic's words are those of Python.
_SHAPES: Final[Mapping[str, str]] = {
    "model_type": "must be a mapping of keys",
    "dict_type": "must be a mapping of keys",
    "list_type": "must be a list",
    "string_type": "must be a text (in quotes where YAML reads it as something else)",
    "string_too_short": "must not be empty",
}


class _Written(Repr):
    """Values as a YAML file has them; short, since a few aliases of aliases may stand for more than fits in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxlong, self.maxother = 2, 100, 100, 100

    def repr_bool(self, value: bool, _level: int) -> str:
        """As YAML 1.2 has it, whichever of its words stood there."""
        return str(value).lower()

    def repr_NoneType(self, _value: None, _level: int) -> str:  # noqa: N802 - as Repr looks for it
        """A key without a value, or null."""
        return "nothing"

    def repr_date(self, value: date, _level: int) -> str:
        """As it stood there."""
        return value.isoformat()

    repr_datetime = repr_date


as_written: Final = _Written().repr
"""A value of a user's file for a sentence about it: as the file has it, and not as Python has it."""


_CLONE_MARKS: Final = ("Cargo.toml", "crates", "tools")  # what a clone of the repository has at its top
DEB_INSTALLER: Final = "dpkg"
"""What the file INSTALLER of a Debian package's metadata says (`tools/deb.py` writes it); pip writes its own name."""
Installation = Literal["clone", "wheel", "deb"]
"""How this package was installed."""
Lack = Literal["agent", "agent and image", "image", "platforms", "for all users", "pyvmomi", "data"]
"""What an installation lacks, or has of another version."""
_SAME_VERSION: Final = "install the same version of Virtoll on both sides"
_SET_UP: Final = "run 'virtoll setup' once with a network"
_SET_UP_PLATFORMS: Final = "'virtoll setup --platforms', with Go 1.21 or newer,"
REMEDIES: Final[Mapping[Lack, Mapping[Installation, str]]] = {
    "agent": {
        "clone": "run 'make agent'",
        "wheel": "install Virtoll again from a wheel of this machine's kind, which carries it",
        "deb": "install Virtoll's Debian package of this machine's kind again, which carries it",
    },
    "agent and image": {
        "clone": "rebuild agent and image with 'make agent image'",
        "wheel": _SAME_VERSION,
        "deb": _SAME_VERSION,
    },
    "image": {"clone": "run 'make image' once with a network", "wheel": _SET_UP, "deb": _SET_UP},
    "platforms": {"clone": "'make platforms'", "wheel": _SET_UP_PLATFORMS, "deb": _SET_UP_PLATFORMS},
    "for all users": {
        "clone": "move the clone to where all users may look, such as /opt",
        "wheel": "install the wheel again for all users: pipx install --global ./virtoll-*.whl",
        "deb": "let all users look into it: chmod 0755 that folder",
    },
    "pyvmomi": {
        "clone": "run 'make setup' again, which installs it",
        "wheel": "install Virtoll's wheel again as 'virtoll[esxi]'",
        "deb": "install Virtoll's Debian package again, which carries it",
    },
    "data": {
        "clone": "run 'make setup-dev', which installs it",
        "wheel": "install Virtoll's wheel again as 'virtoll[data]'",
        "deb": "install Virtoll's wheel beside it as 'virtoll[data]': the Debian package does without",
    },
}


def clone_folder() -> Path | None:
    """The top of the clone of the repository that the package runs from; None where it was installed."""
    top = Path(__file__).resolve().parents[2]
    return top if all((top / mark).exists() for mark in _CLONE_MARKS) else None


def installation() -> Installation:
    """How this package was installed: a clone is around it, or the metadata beside it says who installed it."""
    if clone_folder() is not None:
        return "clone"
    installers = Path(__file__).resolve().parents[1].glob("virtoll-*.dist-info/INSTALLER")
    by = {file.read_text(encoding="utf-8").strip() for file in installers}
    return "deb" if DEB_INSTALLER in by else "wheel"


def remedy_for(lack: Lack) -> str:
    """What to do about it, as a message's end: in a clone by make, elsewhere by what is there.

    Of ``platforms`` it is the command alone, of which the message says more.
    """
    return REMEDIES[lack][installation()]


class VirtollError(Exception):
    """Anything that Virtoll itself found wrong; ``exit_code`` is what the command line exits with."""

    exit_code = 1


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a file of the user's.

    ``file``: as it was given. ``said``: what is wrong and what to do, with the key. ``key``: in words, empty for the
    whole; ``place``: its parts as the file has them, keys and numbers in lists. ``part``: which part of the file is
    meant where the file has several, such as ``size paper``. ``line``, ``column``: from 1, the column in characters;
    None where it is nowhere. ``text``: that line as it stands, empty where it shows nothing; ``length``: how many of
    its characters are meant.
    """

    file: str
    said: str
    key: str = ""
    part: str = ""
    line: int | None = None
    column: int | None = None
    length: int = 1
    text: str = ""
    place: tuple[str | int, ...] = ()

    @property
    def sentence(self) -> str:
        """With the file; the key says where, or else the line."""
        part = f", {self.part}" if self.part else ""
        line = f"line {self.line}: " if self.line is not None and not self.key and self.text else ""
        return f"{self.file}{part}: {line}{self.said}"

    @property
    def located(self) -> str:
        """``file:line:column: what is wrong``, as editors read it."""
        at = self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"
        return f"{at}: {self.part}: {self.said}" if self.part else f"{at}: {self.said}"


class UsageError(VirtollError):
    """Bad input: names the file, key or host setting and what to do; nothing was started and nothing lost.

    ``problems``: what is wrong, one by one and with places, where that is known; the message has a line for each.
    """

    exit_code = 2
    problems: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> Self:
        """An error of all of these; each is told once."""
        once = tuple(dict.fromkeys(problems))
        error = cls("\n".join(problem.sentence for problem in once))
        error.problems = once
        return error


class RunFolderError(UsageError):
    """A run folder that cannot be read or written as it stands."""


class StorageError(VirtollError):
    """A measurement could not be stored (disk full, read-only): the run stops, what is stored stays whole."""


_OF_A_DISK: Final = frozenset(
    {errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.ESTALE, errno.EUCLEAN, errno.ENXIO, errno.ENODEV}
)


def disk_failure(error: OSError) -> StorageError | None:
    """An error that a disk gives at any call, as a sentence that names the file; None for any other, or without one."""
    if error.errno not in _OF_A_DISK or error.filename is None:
        return None
    where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
    return StorageError(
        f"cannot use {where}: {error.strerror}. What is stored is intact; see to its disk, then try again."
    )


NO_MEMORY: Final = (
    "there is not enough memory for this; free some or raise the limit ('ulimit -v', the container's), then try again"
)
"""What a command says that ends for a lack of memory."""


NO_CURRENT_FOLDER: Final = "the current folder was deleted; change to another ('cd'), or give absolute paths"
"""What a command says that needs it."""


class DrawingError(VirtollError):
    """A figure was not drawn because what draws has ended: no report was written, and the run is as it was."""


class LabError(VirtollError):
    """The lab's namespaces could not be made, or something in them could not be set up."""


class ImageError(VirtollError):
    """The guest image could not be built or found."""


class AgentUnusable(ImageError):
    """The agent is not there, is another machine's, or may not be executed: nothing can be measured with it."""

    exit_code = 2


class GuestError(VirtollError):
    """One guest failed: its own trials are lost, the run goes on."""


class ProgramMissing(GuestError):
    """A program that is needed is not installed on its host."""

    def __init__(self, program: str, message: str) -> None:
        """``program``: its name; ``message``: the sentence."""
        super().__init__(message)
        self.program = program


class CommandFailed(GuestError):
    """A program ended with another code than 0; ``complaint`` is the line of its ``stderr`` in which it says why."""

    def __init__(
        self, argv: Sequence[str], returncode: int, complaint: str, where: str = "", *, stderr: str = ""
    ) -> None:
        """``where``: the host, as the sentence begins with it."""
        super().__init__(f"{where}'{' '.join(argv[:3])}' ended with {returncode}: {complaint}")
        self.argv = tuple(argv)
        self.returncode = returncode
        self.complaint = complaint
        self.stderr = stderr


class HostUnreachable(GuestError):
    """The connection to a host failed, so that nothing ran there; ``complaint`` is what the connection reported."""

    def __init__(self, host: str, complaint: str, remedy: str) -> None:
        """``remedy``: what to look at, as the sentence ends; empty where nothing can be done about it."""
        super().__init__(f"{host} cannot be reached: {complaint}" + (f"; {remedy}" if remedy else ""))
        self.complaint = complaint


class GuestNotReady(GuestError):
    """A guest did not report ready within its deadline."""


class GuestDied(GuestError):
    """A guest's process or its agent's channel ended while it was needed."""


class AgentError(GuestError):
    """The agent answered an error; ``kind`` is the protocol's error kind."""

    def __init__(self, kind: str, message: str) -> None:
        """Keep the protocol's error kind beside its sentence."""
        super().__init__(message)
        self.kind = kind


class GuestCannot(AgentError):
    """A guest is well and cannot do what a workload needs, found out by trying: that trial is skipped."""

    def __init__(self, message: str) -> None:
        """One sentence; the error kind is the one by which an agent says the same."""
        super().__init__("unsupported", message)


class NeighbourFailed(GuestError):
    """One of several guests failed, and with it the trial of all; ``guest`` is that guest in words."""

    def __init__(self, guest: str, cause: GuestError, number: int = 1) -> None:
        """The sentence names the guest and what it failed of; ``number``: which of them it is, from 1."""
        super().__init__(f"{guest} failed: {cause}")
        self.guest = guest
        self.cause = cause
        self.number = number


class ProtocolError(GuestError):
    """What came over the agent's channel is not the protocol, or another version of it."""


class ThresholdMissed(VirtollError):
    """A gate's threshold is missed: all was measured, and a platform does not keep to it, or became slower."""

    exit_code = 3


class ThresholdNotTold(VirtollError):
    """A gate cannot tell: what was measured leaves a threshold open, or the bare host differs from itself."""

    exit_code = 4


class Interrupted(VirtollError):
    """The user ended the run: it is whole on disk and can be resumed."""

    exit_code = 130


def complaint(error: Mapping[str, Any], key: str, known: str) -> str:
    """A sentence for one of pydantic's errors about a file of the user's: the key, what is wrong, what is allowed.

    ``error``: a member of its ``errors()``. ``key``: in words, empty for the whole. ``known``: which keys there are.
    """
    if error["type"] == "value_error":
        sentence = str(error["ctx"]["error"])
    elif error["type"] == "extra_forbidden":
        sentence = f"not known; {known}"
    elif error["type"] == "missing":
        sentence = "is missing; add it"
    elif error["type"] == "too_short":
        least = error["ctx"]["min_length"]
        sentence = f"must have at least {least} of what it lists, got {error['ctx']['actual_length']}"
    elif error["type"] in _SHAPES:
        sentence = f"{_SHAPES[error['type']]}, got {as_written(error['input'])}"
    else:
        sentence = f"{error['msg'][:1].lower()}{error['msg'][1:]}, got {as_written(error['input'])}"
    return f"key '{key}': {sentence}" if key else sentence
