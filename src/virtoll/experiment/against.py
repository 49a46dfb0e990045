"""Two builds or settings in one run: each platform that a setting concerns is there as it is (A) and with it (B).

A setting is a parameter of the platforms (``runtime=crun``), a folder of programs or one program, or the package of a
guest kernel (``kernel=FILE.deb``). Main type: ``Sides``. Nothing is started; of files only names and kinds are looked
at.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from virtoll.errors import UsageError
from virtoll.experiment.complaints import validated
from virtoll.experiment.model import LABEL_PATTERN, Build, Catalogue, PlatformChoice
from virtoll.experiment.near import did_you_mean, near
from virtoll.experiment.topology import Testbed
from virtoll.runfolder.yaml_file import parse_yaml

SUFFIX = ".b"
"""What the label of a platform with the settings has behind that of the platform as it is."""
_KERNEL = "kernel"
_KEY_AND_VALUE = re.compile(r"([a-z][a-z0-9_]*)=(.*)", re.DOTALL)
_ALLOWED = "give KEY=VALUE, a folder of programs, or a program's path"


@dataclass(frozen=True)
class Sides:
    """The platforms that are left, of each pair A and then B; ``unconcerned``: the labels of those that are not."""

    platforms: tuple[PlatformChoice, ...]
    pairs: tuple[tuple[str, str], ...]
    unconcerned: tuple[str, ...]


def located_setting(text: str, folder: Path) -> str:
    """A setting whose path, if it has one, is absolute; ``folder``: what a path is relative to."""
    match = _KEY_AND_VALUE.fullmatch(text)
    if match is None:
        return os.path.normpath(folder.absolute() / text)
    if match[1] == _KERNEL and match[2]:
        return f"{_KERNEL}={os.path.normpath(folder.absolute() / match[2])}"
    return text


def file_of(setting: str) -> Path | None:
    """The file or folder that a located setting names; None where it is a parameter."""
    match = _KEY_AND_VALUE.fullmatch(setting)
    if match is None:
        return Path(setting)
    return Path(match[2]) if match[1] == _KERNEL else None


def sides_of(
    settings: Sequence[str],
    platforms: Sequence[PlatformChoice],
    standing: Collection[str | None],
    catalogue: Catalogue,
    testbed: Testbed | None = None,
) -> Sides:
    """The platforms with their twins; ``standing``: the labels of baseline and control, which are there once.

    ``settings``: as ``located_setting`` gives them. ``UsageError`` in one sentence, which begins with the setting,
    where one cannot be used or concerns no platform.
    """
    others = [choice for choice in platforms if choice.label not in standing]
    twins = {choice.label: choice for choice in others}
    concerned: set[str] = set()
    for text in sorted(
        settings, key=lambda setting: file_of(setting) is not None
    ):  # which programs a platform starts may be one of its parameters
        changed = {
            label: with_it for label, twin in twins.items() if (with_it := _with(text, twin, catalogue)) is not None
        }
        if not changed:
            raise UsageError(f"{text!r} concerns no platform that is measured; {_what_would(text, others, catalogue)}")
        twins |= changed
        concerned |= changed.keys()
    kept: list[PlatformChoice] = []
    pairs: list[tuple[str, str]] = []
    for choice in platforms:
        if choice.label in standing:
            kept.append(choice)
        elif choice.label in concerned:
            twin = replace(twins[choice.label], label=_label(choice.label, platforms), stands_for=None)
            kept += [choice, twin]
            pairs.append((choice.label, twin.label))
            _refuse_conflict(twin, testbed)
    return Sides(tuple(kept), tuple(pairs), tuple(choice.label for choice in others if choice.label not in concerned))


def _label(label: str, platforms: Sequence[PlatformChoice]) -> str:
    made = f"{label}{SUFFIX}"
    if any(choice.label == made for choice in platforms):
        raise UsageError(
            f"{made!r} is to be the label of {label} with the setting, and is another platform's; rename it"
        )
    if re.fullmatch(LABEL_PATTERN, made) is None:
        raise UsageError(f"{made!r} is to be the label of {label} with the setting, and is too long; rename {label}")
    return made


def _refuse_conflict(choice: PlatformChoice, testbed: Testbed | None) -> None:
    """What an entry of the file with these parameters would be refused for."""
    conflict = choice.parameters.conflict(testbed)
    if conflict is not None:
        raise UsageError(f"{choice.label} cannot have the setting: key '{conflict[0]}': {conflict[1]}")
    far = choice.parameters.needs_far_side
    if far is not None and testbed is None and (choice.host is None or choice.host.nested is None):
        raise UsageError(
            f"{choice.label} cannot have {far!r}, which needs generator and sink on another host; add 'testbed'"
        )


def _with(text: str, choice: PlatformChoice, catalogue: Catalogue) -> PlatformChoice | None:
    """The platform with a setting; None where that does not concern it."""
    match = _KEY_AND_VALUE.fullmatch(text)
    if match is None:
        return _with_programs(text, choice, catalogue)
    key, value = match[1], match[2]
    if key in type(choice.parameters).model_fields:
        return _with_parameter(text, key, value, choice)
    return _with_kernel(text, Path(value), choice, catalogue) if key == _KERNEL else None


def _with_parameter(text: str, key: str, value: str, choice: PlatformChoice) -> PlatformChoice:
    """As the file's key would be read: the value is YAML."""
    try:
        values = {**choice.parameters.model_dump(exclude_unset=True), key: parse_yaml(value, "its value")}
        parameters = validated(type(choice.parameters), values, Path(choice.label), "")
    except UsageError as error:
        reason = "; ".join(problem.said for problem in error.problems) or str(error)
        raise UsageError(f"{text!r} cannot be set for {choice.label}: {reason}") from error
    return replace(choice, parameters=parameters)


def _with_programs(text: str, choice: PlatformChoice, catalogue: Catalogue) -> PlatformChoice | None:
    """Guests of another host are started with what that has, and not with files of this machine."""
    path = Path(text)
    if not path.exists():
        raise UsageError(f"{text!r}: there is no such folder or program; {_ALLOWED}")
    if _is_elsewhere(choice):
        return None
    programs = {}
    for name in catalogue.programs(choice):
        file = path / name if path.is_dir() else path
        if file.name == name and file.is_file():
            programs[name] = file
    for file in programs.values():
        if not os.access(file, os.X_OK):
            raise UsageError(f"{text!r}: {file} cannot be executed; make it executable (chmod +x)")
    if not programs:
        return None
    build = choice.build or Build()
    return replace(choice, build=replace(build, programs=tuple(sorted({**dict(build.programs), **programs}.items()))))


def _with_kernel(text: str, file: Path, choice: PlatformChoice, catalogue: Catalogue) -> PlatformChoice | None:
    if not file.is_file() or file.suffix != ".deb":
        raise UsageError(f"{text!r}: there is no such file; give the path of a Debian package (.deb) of a kernel")
    if _is_elsewhere(choice) or not catalogue.boots_kernel(choice):
        return None
    return replace(choice, build=replace(choice.build or Build(), kernel=file))


def _is_elsewhere(choice: PlatformChoice) -> bool:
    """Whether its guests are on another host than this machine."""
    return choice.parameters.elsewhere is not None or (choice.host is not None and not choice.host.local)


def _what_would(text: str, others: Sequence[PlatformChoice], catalogue: Catalogue) -> str:
    """What of the experiment a setting of this kind could concern, as a sentence ends."""
    match = _KEY_AND_VALUE.fullmatch(text)
    if not others:
        return "it has none besides baseline and control; add one"
    if match is None:
        here = (choice for choice in others if not _is_elsewhere(choice))
        names = sorted({name for choice in here for name in catalogue.programs(choice)})
        return f"programs that they start: {', '.join(names) or 'none'}"
    if match[1] == _KERNEL:
        return "none of them boots the image's kernel on this machine; take one that does, such as qemu-tcg"
    keys = sorted({key for choice in others for key in type(choice.parameters).model_fields})
    return f"{did_you_mean(near(match[1], keys))}their keys: {', '.join(keys) or 'none'}"
