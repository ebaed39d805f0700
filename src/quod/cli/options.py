"""The conversion of commands, options and groups to typer, for commands that `quick` leaves."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, get_args, get_type_hints

import typer

from quod.cli.parameters import Argument, Group, Option, WrongUsage


def typer_form(declared: Argument | Option) -> Any:
    """Convert an option or argument to typer's declaration."""
    if isinstance(declared, Argument):
        return typer.Argument(
            metavar=declared.metavar, help=declared.help, readable=declared.check_readable
        )
    return typer.Option(
        *declared.names, metavar=declared.metavar, help=declared.help, min=declared.least,
        max=declared.most, envvar=declared.environment,
        callback=None if declared.check is None else _callback(declared.check),
    )  # fmt: skip


def _callback(check: Callable[[Any], None]) -> Callable[[Any], Any]:
    """Convert a check to a typer callback, whose error names the option."""

    def callback(value: Any) -> Any:
        with _usage_errors():
            check(value)
        return value

    return callback


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Raise `WrongUsage` as the error that typer shows with the usage of the command."""
    try:
        yield
    except WrongUsage as error:
        raise typer.BadParameter(str(error)) from None


def typer_command(command: Callable[..., None]) -> Callable[..., None]:
    """Convert a command, whose parameters are declared as in `parameters`, for typer."""

    @functools.wraps(command)
    def call(**values: Any) -> None:
        with _usage_errors():
            command(**values)

    hints = get_type_hints(command, include_extras=True)
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        base, declared = get_args(hints[name])
        parameters.append(parameter.replace(annotation=Annotated[base, typer_form(declared)]))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def typer_group(group: Group) -> typer.Typer:
    """Convert a group with its commands and subgroups for typer."""
    app = typer.Typer(help=group.help, no_args_is_help=True)
    add_commands(app, group)
    return app


def add_commands(app: typer.Typer, group: Group) -> None:
    """Register the commands and groups of a group with a typer application."""
    for name, command in group.commands.items():
        if isinstance(command, Group):
            app.add_typer(typer_group(command), name=name)
        else:
            app.command(name)(typer_command(command))
