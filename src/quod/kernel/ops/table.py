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
    """Adds a row; traits of one capital letter are the types of a variable."""
    operands, _, results = signature.partition("->")
    variables = {key: traits.pop(key) for key in [*traits] if len(key) == 1}
    own = {
        "name": name, "operands": tuple(operands.split()), "results": tuple(results.split()),
        "doc": doc, "variables": variables, "evaluate": evaluate, "group": group,
    }  # fmt: skip
    # By position: named values would be arranged first, at the start of every process.
    OPS[name] = OpDefinition(*(_DEFAULTS | own | traits).values())
