"""How commands are declared and how their help looks: ``Cli`` makes a group of them, each command is a ``Command``.

Help names what a reader gives (RUN, FILE, N) and no type of Python's. The first screen has one sentence a command, by
use; a group without arguments prints its help and exits with 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

MEASURE: Final = "Measure"
READ: Final = "Read results"
LOOK: Final = "Look around"
HOST: Final = "This host"
HELP: Final = "Help"
USES: Final = (MEASURE, READ, LOOK, HOST, HELP)
"""The headings of the first screen, in its order; a command says its own as ``rich_help_panel``."""
Added = TypeVar("Added", bound=Callable[..., Any])
_OTHERS: Final = "Commands"
_WHOLE: Final = 1000  # characters: a sentence is never cut


class Command(TyperCommand):
    """A command whose arguments are named as its usage names them."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """``[OPTIONS] EXPERIMENT [RUN]...``: what may be left out is in brackets."""
        pieces = [self.options_metavar or ""]
        for argument in _arguments(self, ctx):
            name = argument.display_name_raw if argument.required else f"[{argument.display_name_raw}]"
            pieces.append(f"{name}..." if argument.nargs != 1 else name)
        return pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options, each with its words."""
        arguments = []
        for argument in _arguments(self, ctx):
            record = argument.get_help_record(ctx)
            if record is not None:
                arguments.append((argument.display_name_raw, record[1]))
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        options = [
            parameter.get_help_record(ctx)
            for parameter in self.get_params(ctx)
            if not isinstance(parameter, TyperArgument)
        ]
        with formatter.section("Options"):
            formatter.write_dl([record for record in options if record is not None])


class Commands(TyperGroup):
    """A group of commands, in whose help they stand by use."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without arguments the help is what was asked for."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """One sentence a command, in sections by use."""
        shown: dict[str, list[tuple[str, str]]] = {use: [] for use in (*USES, _OTHERS)}
        for name, command in self.visible(ctx).items():
            use = command.rich_help_panel if isinstance(command, TyperCommand | TyperGroup) else None
            shown[use if use in USES else _OTHERS].append((name, summary(command)))
        widest = max((len(name) for rows in shown.values() for name, _ in rows), default=0)
        for use, rows in shown.items():
            if rows:
                with formatter.section(use):
                    formatter.write_dl([(name.ljust(widest), sentence) for name, sentence in rows])

    def visible(self, ctx: Any) -> dict[str, Any]:
        """The commands that help lists, by name, in the order in which they were added."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {name: command for name, command in commands.items() if command is not None and not command.hidden}


class Cli(typer.Typer):
    """A group of commands to which functions are added by ``command``."""

    def __init__(self, *, help: str, name: str | None = None) -> None:  # noqa: A002 - as typer calls it
        """``help``: one sentence of what the commands are for."""
        super().__init__(
            name=name,
            cls=Commands,
            help=help,
            add_completion=False,  # 'virtoll completion' prints the script: see help.py
            context_settings={"help_option_names": ["-h", "--help"]},
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Added], Added]:
        """As typer's, with the help of ``Command``."""
        return super().command(name, cls=Command, **settings)


def summary(command: Any) -> str:
    """The first sentence of a command's help."""
    return str(command.get_short_help_str(_WHOLE))


def _arguments(command: TyperCommand, ctx: Any) -> list[TyperArgument]:
    return [
        parameter
        for parameter in command.get_params(ctx)
        if isinstance(parameter, TyperArgument) and not parameter.hidden
    ]
