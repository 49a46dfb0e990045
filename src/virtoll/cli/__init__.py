"""The command line. It prints and exits; everything else raises.

A command that starts guests runs twice. Outside it checks its input and enters the lab; inside it is the hidden command
of the same name with a leading ``in-lab``.

Each group of commands is a module, which imports what its options' declarations need. What a command works with is
imported inside it: every start pays for the imports at the top.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, NoReturn, TextIO

import typer

from virtoll.cli import (
    advise,
    campaign,
    claims,
    compare,
    explain,
    export,
    gate,
    history,
    host,
    image,
    listing,
    measuring,
    nested,
    new,
    pack,
    plan,
    query,
    report,
    reproduce,
    reproduce_plan,
    runs,
    selftest,
    setup,
    show,
    validation,
    verify,
    watch,
)
from virtoll.cli.groups import HELP, HOST, LOOK, MEASURE, READ, Cli
from virtoll.cli.help import VARIABLE, answer_the_shell, completion, show_help
from virtoll.cli.output import log_to_stderr, open_closed_streams, say, say_on_stderr, terminal_is_lost
from virtoll.cli.problems import told
from virtoll.errors import (
    NO_CURRENT_FOLDER,
    NO_MEMORY,
    Interrupted,
    StorageError,
    UsageError,
    VirtollError,
    as_written,
    disk_failure,
)
from virtoll.host.packages import search_system_folders
from virtoll.lab.debug import debug, wanted
from virtoll.lab.interrupts import disregard
from virtoll.version import __version__

app = Cli(name="virtoll", help="What a virtualisation platform costs against the bare host, on this machine.")
_TO_THE_AGENT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def main() -> None:
    """Entry point: turns an error into one sentence on standard error and its exit code."""
    # Looking for plugins of pydantic's, of which none is wanted, reads the metadata of all installed packages.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    search_system_folders()
    open_closed_streams()
    try:
        try:
            if VARIABLE in os.environ:
                answer_the_shell()
            if wanted():  # the half in the lab of a command with --verbose
                log_to_stderr()
            app(prog_name="virtoll")
        finally:
            sys.stdout.flush()  # what is left of it fails here, and not when Python ends
    except BrokenPipeError:
        _discard(sys.stdout)
        sys.exit(StorageError.exit_code)
    except VirtollError as error:
        _leave(told(error), error.exit_code)
    except KeyboardInterrupt:
        _leave(["virtoll: interrupted"], Interrupted.exit_code)
    except OSError as error:
        _leave_for_the_system(error)
    except MemoryError:
        _leave([f"virtoll: {NO_MEMORY}"], StorageError.exit_code)
    except Exception as error:
        if str(error) == "can't start new thread":
            _leave([f"virtoll: {NO_MEMORY}"], StorageError.exit_code)
        damage = _damage_of(error)
        if damage is None:
            raise
        _leave(told(damage), damage.exit_code)


def _leave_for_the_system(error: OSError) -> NoReturn:
    """End with the sentence for an error of the system's that no command has one for; else it is raised again."""
    if terminal_is_lost():
        _leave([], Interrupted.exit_code)
    if error.errno == errno.ENAMETOOLONG:  # of what a person gave: nothing here makes such names
        name = as_written(str(error.filename))
        _leave([f"virtoll: {name}: no file has so long a name; give another"], UsageError.exit_code)
    if error.errno == errno.ENOMEM:
        _leave([f"virtoll: {NO_MEMORY}"], StorageError.exit_code)
    if error.errno == errno.ENOENT and not _has_current_folder():
        _leave([f"virtoll: {NO_CURRENT_FOLDER}"], UsageError.exit_code)
    if error.errno in (errno.EACCES, errno.EPERM) and error.filename is not None:
        name = as_written(str(error.filename))
        _leave([f"virtoll: {name}: {error.strerror}; let yourself use it, or take a copy"], UsageError.exit_code)
    failed = disk_failure(error)  # what writes a file tells it better; a look at one may fail anywhere
    if failed is not None:
        _leave([f"virtoll: {failed}"], failed.exit_code)
    if error.errno != errno.ENOSPC or error.filename is not None:
        raise error
    _discard(sys.stdout)
    if isinstance(error.__context__, typer.TyperException):  # the standard error is full, which would show a wrong use
        _discard(sys.stderr)
        sys.exit(error.__context__.exit_code)
    sentence = f"virtoll: the standard output cannot be written: {error.strerror}; make room for it"
    _leave([sentence], StorageError.exit_code)


def _has_current_folder() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _damage_of(error: Exception) -> VirtollError | None:
    """What a run's records made fail, whichever command read them; None for a mistake of Virtoll's own.

    A command that reads a run has imported the module; the others start without it.
    """
    damage = sys.modules.get("virtoll.runfolder.damage")
    if damage is None:
        return None
    debug("%s", "".join(traceback.format_exception(error)))
    damage_error: VirtollError | None = damage.damage_of(error)
    return damage_error


def _leave(last_words: Iterable[str], code: int) -> NoReturn:
    """End with this exit code, also where the terminal that would show the last words was closed."""
    if code == Interrupted.exit_code:
        disregard()  # a second Ctrl-C while Python ends would be printed with a traceback
    if terminal_is_lost():
        _discard(sys.stdout)
        sys.exit(code)
    try:
        for line in last_words:
            say_on_stderr(line)
    except OSError:  # the standard error is full: the exit code still says what it was
        _discard(sys.stderr)
    sys.exit(code)


def _discard(stream: TextIO) -> None:
    """What is left of a stream is not written when Python ends, which would end with an exit code of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _tell_version(enabled: bool) -> None:
    if enabled:
        say(f"virtoll {__version__}")
        raise typer.Exit


# Eager: what typer reads of all other parameters costs the import of pydantic.
Version = Annotated[bool, typer.Option("--version", help="Print the version.", callback=_tell_version, is_eager=True)]


@app.callback(invoke_without_command=True)
def _options(version: Version = False) -> None:
    del version


_COMMANDS: Mapping[str, tuple[Callable[..., None], ...]] = {
    MEASURE: (
        runs.run,
        runs.resume,
        runs.extend,
        watch.watch,
        explain.explain,
        reproduce.reproduce,
        runs.consolidation,
        selftest.selftest,
    ),
    READ: (
        report.report,
        claims.claims,
        advise.advise,
        compare.compare,
        gate.gate,
        history.history,
        export.export,
        query.query,
        pack.pack,
        pack.unpack,
        verify.verify,
        validation.validation,
    ),
    LOOK: (plan.plan, new.new),
    HOST: (setup.setup, host.doctor, host.clean, host.shell),
    HELP: (completion,),
}
for _use, _commands in _COMMANDS.items():
    for _command in _commands:
        app.command(rich_help_panel=_use)(_command)
app.command("help", rich_help_panel=HELP)(show_help)
app.command(context_settings=_TO_THE_AGENT, rich_help_panel=HOST)(host.wire)
app.add_typer(listing.app, name="list", rich_help_panel=LOOK)
app.add_typer(show.app, name="show", rich_help_panel=LOOK)
app.add_typer(campaign.app, name="campaign", rich_help_panel=MEASURE)
app.add_typer(image.app, name="image", rich_help_panel=HOST)
app.add_typer(nested.app, name="nested", rich_help_panel=HOST)
app.command("in-lab-run", hidden=True)(measuring.in_lab_run)
app.command("in-lab-consolidation", hidden=True)(measuring.in_lab_consolidation)
app.command("in-lab-resume", hidden=True)(measuring.in_lab_resume)
app.command("in-lab-extend", hidden=True)(measuring.in_lab_extend)
app.command("in-lab-explain", hidden=True)(explain.in_lab_explain)
app.command("in-lab-doctor", hidden=True)(host.in_lab_doctor)
app.command("in-lab-platforms", hidden=True)(reproduce_plan.in_lab_platforms)
app.command("in-lab-shell", hidden=True)(host.in_lab_shell)
