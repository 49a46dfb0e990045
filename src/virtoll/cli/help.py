"""``virtoll help`` and ``virtoll completion``: what a person asks of the command line itself."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from virtoll.cli import topics
from virtoll.cli.groups import Commands
from virtoll.cli.output import say
from virtoll.errors import UsageError

VARIABLE: Final = "_VIRTOLL_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")
_WIDTH: Final = 78
# typer's own takes the words that bash has split, also at ':' and '='. This one gives the line itself, and takes off
# what bash has split off from what is offered.
_BASH: Final = """\
_virtoll_completion() {
    local IFS=$' \\t\\n' line="${COMP_LINE:0:COMP_POINT}" words typed
    read -r -a words <<< "$line"
    typed="${line##*[[:space:]]}"
    local number=$(( ${#words[@]} - 1 ))
    [[ -z $typed ]] && number=$(( number + 1 ))
    mapfile -t COMPREPLY < <(
        COMP_WORDS="$line" COMP_CWORD="$number" _VIRTOLL_COMPLETE=complete_bash "$1" 2>/dev/null
    )
    COMPREPLY=( "${COMPREPLY[@]#"${typed%"${typed##*[:=]}"}"}" )
}
complete -o default -o nosort -F _virtoll_completion virtoll
"""


def _names(ctx: typer.Context) -> list[str]:
    """What help can be asked of."""
    root = ctx.find_root()
    known = root.command.visible(root) if isinstance(root.command, Commands) else {}
    return [*known, *topics.TOPICS]


def show_help(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="A command such as 'run' or 'image show', or a topic: environment, exit-codes.",
            autocompletion=_names,
        ),
    ] = None,
) -> None:
    """Print the help of a command, or on a topic."""
    if names and len(names) == 1 and names[0] in topics.TOPICS:
        _show_topic(names[0])
        return
    at = context.find_root()
    for name in names or ():
        known = at.command.visible(at) if isinstance(at.command, Commands) else {}
        if name not in known:
            allowed = ", ".join([*known, *(topics.TOPICS if at.parent is None else ())])
            raise UsageError(
                f"{at.command_path} has no command {name!r}; choose one of: {allowed}"
                if known
                else f"{at.command_path} has no commands below it; leave out {name!r}"
            )
        command = known[name]
        at = type(at)(command, info_name=name, parent=at, **command.context_settings)
    say(at.get_help())


def _show_topic(topic: str) -> None:
    import textwrap

    say(f"{topics.TOPICS[topic]}:")
    for term, meaning in topics.lines(topic):
        say("")
        say(f"  {term}")
        say(textwrap.fill(meaning, _WIDTH, initial_indent="    ", subsequent_indent="    ", break_long_words=False))


def completion(
    context: typer.Context,
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", autocompletion=lambda: SHELLS)],
) -> None:
    """Print the completion script of bash, zsh or fish.

    bash: source <(virtoll completion bash). zsh: the same, after compinit. fish: virtoll completion fish | source.
    To keep it, put that line into the shell's start-up file.
    """
    if shell not in SHELLS:
        raise UsageError(f"there is no completion for {shell!r}; choose one of: {', '.join(SHELLS)}")
    if shell == "bash":
        sys.stdout.write(_BASH)
        return
    from typer.completion import shell_complete

    answer_the_shell()
    shell_complete(context.find_root().command, {}, "virtoll", VARIABLE, f"source_{shell}")


def answer_the_shell() -> None:
    """Let typer know the shells, so that it answers what their scripts ask by ``_VIRTOLL_COMPLETE``."""
    from typer.completion import get_completion_inspect_parameters

    get_completion_inspect_parameters()  # what its own options are made of, which are not offered here
