"""The shared options in typer's form, for the commands that it parses."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from quod.cli import outputs as checks
from quod.cli import parameters
from quod.cli.parameters import Argument, Option, WrongUsage


def typer_form(declared: Argument | Option) -> Any:
    """An option or argument as typer declares it."""
    if isinstance(declared, Argument):
        return typer.Argument(metavar=declared.metavar, help=declared.help)
    return typer.Option(
        *declared.names, metavar=declared.metavar, help=declared.help, min=declared.least
    )


Device = Annotated[str, typer_form(parameters.DEVICE)]
AsJson = Annotated[bool, typer_form(parameters.AS_JSON)]
Force = Annotated[bool, typer_form(parameters.FORCE)]
InsecureTestKey = Annotated[bool, typer_form(parameters.INSECURE_TEST_KEY)]
Quiet = Annotated[bool, typer_form(parameters.QUIET)]
Resume = Annotated[bool, typer_form(parameters.RESUME)]
Timings = Annotated[bool, typer_form(parameters.TIMINGS)]
Trace = Annotated[Path | None, typer_form(parameters.TRACE)]


def typer_command(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters are declared as in `parameters`, for typer."""

    @functools.wraps(command)
    def call(**values: Any) -> None:
        try:
            command(**values)
        except WrongUsage as error:
            raise typer.BadParameter(str(error)) from None

    hints = get_type_hints(command, include_extras=True)
    own = []
    for name, parameter in inspect.signature(command).parameters.items():
        base, declared = get_args(hints[name])
        own.append(parameter.replace(annotation=Annotated[base, typer_form(declared)]))
    call.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in own}
    return call


def check_outputs(
    outputs: list[Path], inputs: list[Path], *, exclusive: Collection[Path] = ()
) -> None:
    """See `quod.cli.outputs.check_outputs`; in place of `WrongUsage`, `typer.BadParameter`."""
    try:
        checks.check_outputs(outputs, inputs, exclusive=exclusive)
    except WrongUsage as error:
        raise typer.BadParameter(str(error)) from None
