"""Validation of the arguments of gadgets."""

from __future__ import annotations

from quod.errors import InputError
from quod.layered.program import Program
from quod.layered.wire import Wire, wire_of
from quod.validation import shown_kind


def wires_of(
    what: str, program: Program, wires: object, count: int | None = None, *, least: int = 0
) -> list[Wire]:
    """Return a list of wires of the program; ints become constants.

    InputError if there are not `count` wires, or fewer than `least`.
    """
    if not isinstance(wires, (list, tuple)):
        raise InputError(f"{what} must be a list of wires, not {shown_kind(wires)}")
    if count is not None and len(wires) != count:
        raise InputError(f"{what} must be {count} wires, not {len(wires)}")
    if len(wires) < least:
        raise InputError(f"{what} must be at least {least} wires, not {len(wires)}")
    return [wire_of(program, wire) for wire in wires]
