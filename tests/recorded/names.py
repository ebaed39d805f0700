"""Collect the names that files, peers and operators rely on.

Each entry of a list is one name with what it stands for: a later version may add entries, and
must keep those that are recorded.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import quod
from quod import errors
from quod.cli.app import app
from quod.gkr import Reduction
from quod.service.protocol import quod_pb2
from quod.transcript import Hash, Label

SOURCES = Path(quod.__file__).parent

_PROTOCOL, _ROUTE = r"quod [a-z ]+ \d+", r"/(v1|health|metrics)[a-z0-9/{}_]*"
_METRIC, _VARIABLE = r"quod_[a-z_]*[a-z]", r"QUOD_[A-Z_]+"
_NAMED = re.compile(f'"({_PROTOCOL}|{_ROUTE}|{_METRIC}|{_VARIABLE})|extra=')


def names() -> dict[str, list[str]]:
    """Return the sorted names of each kind."""
    literals = list(_literals())
    return {
        "labels": [f"{label.value} {label.name}" for label in Label],
        "hashes": sorted(hash.value for hash in Hash),
        "reductions": sorted(reduction.value for reduction in Reduction),
        "protocols": _matching(literals, _PROTOCOL),
        "errors": sorted(_exit_codes()),
        "commands": sorted(_commands(app.built, "quod")),
        "messages": sorted(_messages()),
        "routes": _matching(literals, _ROUTE),
        "metrics": _matching(literals, _METRIC),
        "environment": _matching(literals, _VARIABLE),
        "log fields": sorted(set(_log_fields())),
    }


@functools.cache
def _nodes() -> list[ast.AST]:
    """The constants and keywords of all sources with a name, which are parsed once."""
    paths = [path for path in sorted(SOURCES.rglob("*.py")) if not path.name.endswith("_pb2.py")]
    texts = [text for path in paths if _NAMED.search(text := path.read_text())]
    return [
        node
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant | ast.keyword)
    ]


def _literals() -> Iterator[str]:
    for node in _nodes():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _matching(literals: list[str], pattern: str) -> list[str]:
    return sorted({text for text in literals if re.fullmatch(pattern, text)})


def _log_fields() -> Iterator[str]:
    """Yield the keys of `extra` in calls of loggers."""
    for node in _nodes():
        if isinstance(node, ast.keyword) and node.arg == "extra":
            if isinstance(node.value, ast.Dict):
                for key in node.value.keys:
                    if isinstance(key, ast.Constant):
                        yield str(key.value)


def _exit_codes() -> Iterator[str]:
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, errors.QuodError):
            yield f"{name} {value.exit_code}"


def _commands(command: Any, path: str) -> Iterator[str]:
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from _commands(subcommand, f"{path} {name}")
    for parameter in command.params:
        for option in parameter.opts + parameter.secondary_opts:
            yield f"{path} {option}"


def _messages() -> Iterator[str]:
    for message in quod_pb2.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            yield f"{message.name}.{field.name} {field.number} {field.type}"
    for service in quod_pb2.DESCRIPTOR.services_by_name.values():
        for method in service.methods:
            yield f"{service.name}.{method.name}"
    for enum in quod_pb2.DESCRIPTOR.enum_types_by_name.values():
        for value in enum.values:
            yield f"{enum.name}.{value.name} {value.number}"
