"""The typer application of the command line."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any

import typer.core
import typer.main

from quod import __version__
from quod.cli.command_tree import COMMANDS
from quod.cli.options import add_commands
from quod.names import nearest
from quod.wording import alternatives


class RootGroup(typer.core.TyperGroup):
    """The root command: lists commands in the tree's order and suggests known ones."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(COMMANDS.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See `TyperGroup`; the error for an unknown word suggests commands that end with it."""
        if args and args[0] not in self.commands:
            paths = self._paths(ctx)
            close = args[0] if args[0] in paths else nearest(args[0], paths)
            if close is not None:
                suggestions = alternatives(f"'quod {path}'" for path in paths[close])
                ctx.fail(f"No such command {args[0]!r}. Did you mean {suggestions}?")
        return super().resolve_command(ctx, args)

    def _paths(self, ctx: Any) -> dict[str, list[str]]:
        """Return the paths of commands and groups, keyed by their last word."""
        paths: dict[str, list[str]] = {}

        def add(group: Any, prefix: str) -> None:
            for name in group.list_commands(ctx):
                path = f"{prefix}{name}"
                paths.setdefault(name, []).append(path)
                if isinstance(group.commands[name], typer.core.TyperGroup):
                    add(group.commands[name], f"{path} ")

        add(self, "")
        return paths


class App(typer.Typer):
    """The application. Its tree of commands takes a tenth of a second to build, once a process."""

    @cached_property
    def built(self) -> Any:
        """The root command, with all others."""
        return typer.main.get_command(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command line; see `typer.Typer`."""
        return self.built(*args, **kwargs)


app = App(
    name="quod",
    cls=RootGroup,
    help=COMMANDS.help,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
add_commands(app, COMMANDS)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"quod {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Prove and verify on CPUs and GPUs."""
