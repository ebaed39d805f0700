"""Validation of the arguments of gadgets."""

from __future__ import annotations

from quod.errors import InputError
from quod.layered.program import Program
from quod.layered.wire import Wire, wire_of
from quod.validation import shown_kind


def wires_of(
    what: str, program: Program, given: object, count: int | None = None, *, least: int = 0
) -> list[Wire]:
    """Return a list of wires of the program; ints become constants.

    InputError if there are not `count` wires, or fewer than `least`.
    """
    if not isinstance(given, (list, tuple)):
        raise InputError(f"{what}: a list of wires, not {shown_kind(given)}")
    if count is not None and len(given) != count:
        raise InputError(f"{what}: {count} wires, not {len(given)}")
    if len(given) < least:
        raise InputError(f"{what}: at least {least} wires, not {len(given)}")
    return [wire_of(program, one) for one in given]
