"""Inputs that the signature of a circuit's function declares.

    def age(system: ConstraintSystem, latest: Public, birthday: Annotated[PrivateBits, 16]): ...

A list, bits and bytes have their number as in `Annotated[PrivateBits, 16]`. Each parameter receives
the signals of `ConstraintSystem.private`, `public`, `private_bits` and so on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

from quod.errors import InputError
from quod.frozen import frozen
from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem
from quod.validation import whole_number


@frozen
class InputType:
    """The type of an input: its kind as in `Input.kind`, and whether it is public."""

    kind: str
    public: bool = False

    @property
    def is_counted(self) -> bool:
        """True if the type has a number of elements, bits or bytes."""
        return self.kind in ("list", "bits", "bytes")


Private = Annotated[Signal, InputType("field")]
"""A private number."""
Public = Annotated[Signal, InputType("field", public=True)]
"""A public number."""
PrivateList = Annotated[list[Signal], InputType("list")]
"""Private numbers, `Annotated[PrivateList, 3]`."""
PublicList = Annotated[list[Signal], InputType("list", public=True)]
"""Public numbers."""
PrivateBits = Annotated[list[Signal], InputType("bits")]
"""The bits of a private number, least first, `Annotated[PrivateBits, 16]`."""
PrivateBytes = Annotated[list[Signal], InputType("bytes")]
"""The bits of private bytes, least first in each, `Annotated[PrivateBytes, 32]`."""
PrivatePoint = Annotated[list[Signal], InputType("point")]
"""The two coordinates of a private point, which no constraint puts on a curve."""
PublicPoint = Annotated[list[Signal], InputType("point", public=True)]
"""The two coordinates of a public point."""


def declared_inputs(function: Callable[..., object], system: ConstraintSystem) -> list[Any]:
    """Declare the inputs of a function's parameters after the first; return their signals.

    Parameters with a default value are no inputs. Raises InputError for a parameter without a type
    of this module, and for a wrong number of elements.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())[1:]
    except (TypeError, ValueError):
        return []
    inputs = [
        parameter for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]  # fmt: skip
    for each in parameters:
        is_variadic = each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        if is_variadic and each.annotation is not each.empty:
            raise InputError(f"the parameter {each.name!r} must be one input, not many")
    if not inputs:
        return []
    routine = function if inspect.isroutine(function) else type(function).__call__
    hints = _hints(routine)
    declared = [_declared(system, each.name, hints.get(each.name)) for each in inputs]
    code = getattr(routine, "__code__", None)
    if code is not None:
        # The constraints of bits are on the line of the function's definition.
        system.row_codes[:] = [code] * system.rows
        system.row_instructions[:] = [0] * system.rows
    return declared


def _hints(routine: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations of a function's parameters."""
    try:
        return get_type_hints(routine, include_extras=True)
    except Exception as error:
        raise InputError(
            f"an annotation of the circuit's function cannot be evaluated: {error}"
        ) from error


def _declared(system: ConstraintSystem, name: str, hint: Any) -> Signal | list[Signal]:
    """Declare an input of an annotated type; return its signals."""
    metadata = getattr(hint, "__metadata__", ())
    types = [entry for entry in metadata if isinstance(entry, InputType)]
    counts = [entry for entry in metadata if not isinstance(entry, InputType)]
    if len(types) != 1:
        raise InputError(
            f"the parameter {name!r} of the circuit's function has no type of an input; annotate "
            "it, for instance with quod.r1cs.Private"
        )
    (type,) = types
    if len(counts) != int(type.is_counted):
        example = f"Annotated[{'Public' if type.public else 'Private'}{type.kind.title()}, 16]"
        raise InputError(
            f"the parameter {name!r} takes a number of elements, as in {example}"
            if type.is_counted
            else f"the type of the parameter {name!r} takes no number of elements"
        )
    if type.kind == "field":
        return system.public(name) if type.public else system.private(name)
    if type.kind == "point":
        return system.public_point(name) if type.public else system.private_point(name)
    count = whole_number(f"the number of elements of {name!r}", counts[0], 1)
    if type.kind == "list":
        return system.public(name, count) if type.public else system.private(name, count)
    return (system.private_bits if type.kind == "bits" else system.private_bytes)(name, count)
