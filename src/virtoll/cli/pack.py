"""``virtoll pack`` and ``virtoll unpack``: a run as one file, to be shared."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from virtoll.api.folders import find_run, runs_directory
from virtoll.cli import options
from virtoll.cli.output import say, say_on_stderr
from virtoll.cli.verify import tell_damage
from virtoll.errors import StorageError, UsageError

_KEY_BYTES, _MOST_KEY_BYTES = 32, 1 << 20
_ARCHIVE: Final = "The archive; when not given, the run's name here, '.virtoll.tar.zst' behind."
ArchiveOption = Annotated[Path | None, typer.Option("--output", metavar="FILE", help=_ARCHIVE)]


def pack(
    run: options.Run = "latest",
    *,
    output: ArchiveOption = None,
    anonymous: Annotated[
        bool,
        typer.Option(
            "--anonymous", help="Replace names of hosts and users, addresses and paths; leave evidence and outputs out."
        ),
    ] = False,
    hide: Annotated[
        list[str] | None,
        typer.Option("--hide", metavar="WORD", help="With --anonymous: replace this word as well. Repeatable."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key",
            metavar="FILE",
            help="With --anonymous: what stand-ins are made with; $XDG_CONFIG_HOME/virtoll/pack.key when not given.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Make one small archive of a run, with digests.

    'report', 'claims' and all that reads a run take it as it is; 'unpack' makes a folder of it again.
    """
    from virtoll.runfolder.packing import ENDING, name_of
    from virtoll.runfolder.packing import pack as pack_folder
    from virtoll.runfolder.store import RunFolder
    from virtoll.runfolder.under_way import under_way

    if not anonymous and (hide or key is not None):
        raise UsageError("--hide and --key are for an anonymous archive; give --anonymous too, or leave them out")
    folder = find_run(run)
    tell_damage(folder)
    room = _room(output)
    with ExitStack() as stack:
        if anonymous:
            try:
                beside = stack.enter_context(under_way(room, ".virtoll-pack-"))
            except OSError as error:
                raise StorageError(f"cannot write below {room}: {error.strerror}; give another --output") from error
            folder = _anonymised(folder, beside / "run", key, hide or [])
        target = (output or Path(f"{name_of(RunFolder.open(folder))}{ENDING}")).absolute()
        if target.is_dir():
            raise UsageError(f"--output {target}: is a folder; give a file")
        if target.exists() and not force:
            raise UsageError(f"--output {target}: is there already; give another file, or --force")
        listed = pack_folder(folder, target)
    packed = target.stat().st_size
    say(f"packed: {target}, {packed / 1e6:.2g} MB of {listed.bytes / 1e6:.2g} MB, {len(listed.files)} files")
    if anonymous:
        say("anonymous: experiment, question and labels are in your own words; --hide replaces others")


def unpack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A packed run.")],
    *,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="FOLDER", help="The run's folder; its name below 'runs' when not given."),
    ] = None,
) -> None:
    """Make a run's folder of a packed run."""
    from virtoll.runfolder.jsonlines import sync_directory
    from virtoll.runfolder.placing import sync_tree
    from virtoll.runfolder.sums import UNDER_WAY
    from virtoll.runfolder.under_way import under_way
    from virtoll.runfolder.unpacking import unpack as unpack_into

    if not file.is_file():
        raise UsageError(f"{file}: is no file; give one that 'virtoll pack' wrote")
    place = into.absolute().parent if into is not None else runs_directory()
    try:
        place.mkdir(parents=True, exist_ok=True)
        with under_way(place, f".unpack{UNDER_WAY}") as beside:
            content = beside / "run"
            content.mkdir()
            listed = unpack_into(file.absolute(), content)
            target = into.absolute() if into is not None else place / listed.run
            if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
                raise UsageError(f"{target}: is there already; give another folder with --into")
            sync_tree(content)
            content.rename(target)
            sync_directory(place)
    except OSError as error:
        raise StorageError(f"cannot write below {place}: {error.strerror or error}; give another --into") from error
    say(f"unpacked: {target}")
    if listed.anonymised is not None:
        say("it is anonymous: names of hosts, users and places are stand-ins")


def _room(output: Path | None) -> Path:
    """Where an anonymous copy has room: where the archive will be."""
    place = output.absolute().parent if output is not None else Path.cwd()
    if not os.access(place, os.W_OK):
        raise UsageError(f"--output: {place} is no folder that can be written to; give a file in another")
    return place


def _anonymised(folder: Path, target: Path, key: Path | None, hide: list[str]) -> Path:
    from virtoll.runfolder.anonymous import anonymise

    target.mkdir()
    left_out = anonymise(folder, target, _key(key), _own_names(), hide)
    if left_out:
        shown = ", ".join(left_out[:3]) + (f" and {len(left_out) - 3} more" if len(left_out) > 3 else "")
        say_on_stderr(f"left out: {shown}")
    return target


def _own_names() -> dict[str, str]:
    """This machine's name, with and without its domain, and who uses it: a run may have been measured here."""
    import pwd

    from virtoll.runfolder.stand_ins import parts_of_host

    users = {os.environ.get("SUDO_USER", "")}
    with suppress(KeyError):  # a number without a name
        users.add(pwd.getpwuid(os.getuid()).pw_name)
    return parts_of_host(os.uname().nodename) | dict.fromkeys(users - {""}, "user")


def _key(key: Path | None) -> bytes:
    """The secret that stand-ins are made with: a file's content, which is made where nobody named one."""
    from virtoll.runfolder.opened import read_whole

    path = key or Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()) / "virtoll" / "pack.key"
    try:
        if key is None and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{secrets.token_hex(_KEY_BYTES)}\n")
        content = read_whole(path, _MOST_KEY_BYTES).strip()
    except OSError as error:
        raise UsageError(f"--key {path}: cannot be read or made ({error.strerror or error}); give another") from error
    if len(content) < _KEY_BYTES:
        raise UsageError(f"--key {path}: is too short to be a secret; it has {_KEY_BYTES} characters or more")
    return content
