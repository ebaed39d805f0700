"""A minimal parser for very short commands, which avoids loading typer.

It accepts a subset of typer's syntax with the same meaning. Everything else (requests for help,
mistakes, unusual spellings of options) is left to typer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from quod.cli.parameters import Argument, Option


def parse(command: Callable[..., None], words: Sequence[str]) -> dict[str, Any] | None:
    """Parse the arguments of a command; None if typer must parse the words."""
    hints = _type_hints(command)
    argument_names: list[str] = []
    options: dict[str, tuple[str, bool | None]] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        parameter_spec = hints[name].__metadata__[0]
        if isinstance(parameter_spec, Argument):
            argument_names.append(name)
            continue
        assert isinstance(parameter_spec, Option)
        if not isinstance(parameter.default, bool):
            options |= dict.fromkeys(_names(name, parameter_spec), (name, None))
            continue
        options |= dict.fromkeys(_names(name, parameter_spec), (name, True))
        if not parameter_spec.names:
            options[f"--no-{_dashed(name)}"] = name, False
    texts = _argument_texts(words, argument_names, options)
    if texts is None:
        return None
    values: dict[str, Any] = {}
    for name, value in texts.items():
        values[name] = value if isinstance(value, bool) else _converted(hints[name], value)
        if values[name] is None:
            return None
    return values


@functools.cache
def _type_hints(command: Callable[..., None]) -> Mapping[str, Any]:
    """Return the evaluated annotations of a command, which a resident helper parses repeatedly."""
    return get_type_hints(command, include_extras=True)


def _names(name: str, option: Option) -> tuple[str, ...]:
    return option.names or (f"--{_dashed(name)}",)


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _argument_texts(
    words: Sequence[str],
    argument_names: Sequence[str],
    options: Mapping[str, tuple[str, bool | None]],
) -> dict[str, str | bool] | None:
    """Return the given parameters by name, flags as booleans, others as text; or None."""
    texts: dict[str, str | bool] = {}
    arguments: list[str] = []
    remaining = iter(words)
    for word in remaining:
        if not word.startswith("-"):
            arguments.append(word)
            continue
        option, equals, text = word.partition("=")
        if option not in options:
            return None
        name, flag = options[option]
        if name in texts:
            return None
        if flag is not None:
            if equals:
                return None
            texts[name] = flag
            continue
        if equals and not option.startswith("--"):
            return None
        text = text if equals else next(remaining, "")
        if text.startswith("-"):
            return None
        texts[name] = text
    if len(arguments) != len(argument_names):
        return None
    return texts | dict(zip(argument_names, arguments))


def _converted(hint: Any, text: str) -> Any:
    """Convert text to a parameter's type; None if typer must parse it."""
    base = get_args(hint)[0]
    parameter_type = next((part for part in get_args(base) if part is not NoneType), base)
    if not text:
        return None
    if parameter_type is int:
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= 1000 else None
    return parameter_type(text) if parameter_type in (Path, str) else None
