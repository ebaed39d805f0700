"""The op table, filled by `scalar`, `matrix` and `tile`."""

from __future__ import annotations

from typing import Any

from quod.frozen import field_names
from quod.kernel.ops.definition import Evaluate, OpDefinition

OPS: dict[str, OpDefinition] = {}

_DEFAULTS = {name: getattr(OpDefinition, name, None) for name in field_names(OpDefinition) or ()}


def define(
    group: str, name: str, signature: str, doc: str, evaluate: Evaluate | None = None, **traits: Any
) -> None:
    """Add a row; traits named by one capital letter are the types of that type variable."""
    operands, _, results = signature.partition("->")
    variables = {key: traits.pop(key) for key in [*traits] if len(key) == 1}
    fields = {
        "name": name, "operands": tuple(operands.split()), "results": tuple(results.split()),
        "doc": doc, "variables": variables, "evaluate": evaluate, "group": group,
    }  # fmt: skip
    # Positional arguments are faster than keywords, and this runs at the start of each process.
    OPS[name] = OpDefinition(*(_DEFAULTS | fields | traits).values())
