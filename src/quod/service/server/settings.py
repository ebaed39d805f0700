"""Configuration sources: quod.toml, then environment variables, then flags, each overriding.

A variable is called ``QUOD_SERVE_`` plus the field names joined by ``__``, as in
``QUOD_SERVE_LISTEN__HTTP='["127.0.0.1:8080"]'``. Its value is parsed as TOML, or taken as text if
it is not TOML. Errors name the file, variable or flag and the field, never the value.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from quod.errors import InputError
from quod.formats.source import read_small
from quod.service.server.config import Config

PREFIX: Final = "QUOD_SERVE_"
_MAX_BYTES: Final = 1 << 20

Fields = tuple[str, ...]


def read_config(
    path: str | os.PathLike[str] | None,
    flags: Mapping[Fields, object],
    environment: Mapping[str, str] | None = None,
) -> Config:
    """Read the configuration from a file, if given, environment variables and flags.

    flags: values by field names.
    Raises InputError for unknown fields and invalid values.
    """
    values: dict[str, Any] = {}
    sources: dict[Fields, str] = {}
    if path is not None:
        values = _read_file(Path(path))
        sources[()] = os.fspath(path)
    for name, text in sorted((os.environ if environment is None else environment).items()):
        if name.startswith(PREFIX):
            fields = tuple(name.removeprefix(PREFIX).lower().split("__"))
            _put(values, fields, _value(text), name)
            sources[fields] = name
    for fields, value in flags.items():
        flag = f"--{fields[-1].replace('_', '-')}"
        _put(values, fields, value, flag)
        sources[fields] = flag
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise _input_error(error, sources) from None


def _read_file(path: Path) -> dict[str, Any]:
    text = read_small(path, limit=_MAX_BYTES, what="the configuration of a server", empty=True)
    try:
        return tomllib.loads(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        # Messages of tomllib contain a position and at most one character of the text.
        reason = " ".join(str(error).split()) if isinstance(error, tomllib.TOMLDecodeError) else ""
        raise InputError(f"is not TOML: {reason or type(error).__name__}", path=path) from None


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return text


def _put(values: dict[str, Any], fields: Fields, value: object, source: str) -> None:
    for name in fields[:-1]:
        inner = values.setdefault(name, {})
        if not isinstance(inner, dict):
            raise InputError(f"{name} is not a section", path=source)
        values = inner
    values[fields[-1]] = value


def _input_error(error: ValidationError, sources: Mapping[Fields, str]) -> InputError:
    """Convert a validation error: its source, field and reason, without the value."""
    errors = error.errors(include_input=False, include_url=False, include_context=False)
    # A misspelled field is also one that is missing, which says less.
    details = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    field_path = tuple(str(part) for part in details["loc"])
    source = next(
        (sources[field_path[:length]] for length in range(len(field_path), -1, -1)
         if field_path[:length] in sources),
        "the configuration",
    )  # fmt: skip
    message = details["msg"].removeprefix("Value error, ")
    if details["type"] == "extra_forbidden":
        message = "unknown field"
    elif details["type"] in ("tuple_type", "list_type"):
        message = 'must be a list, as ["..."]'
    elif details["type"] == "path_type":
        message = "must be a path"
    elif details["type"] in ("model_type", "dict_type"):
        message = f"must be a section, [{'.'.join(field_path)}]"
    elif details["type"] == "missing":
        message = "is required"
        source = sources.get((), "the configuration")
    return InputError(
        ": ".join([".".join(field_path), message] if field_path else [message]), path=source
    )
