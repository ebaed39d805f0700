"""Parameters of several slots, such as structs and field elements, in a launch and a trace.

A slot is one number or pointer argument of the compiled kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from quod.errors import DeviceError
from quod.kernel.builder.structs import free_name, join_slots, slots_of, without_structs
from quod.kernel.errors import TraceError
from quod.kernel.ir.nodes import Location
from quod.kernel.ir.types import PointerType, Type, u32
from quod.kernel.ir.value import Composite, ParameterType, Value
from quod.validation import shown, whole_number

if TYPE_CHECKING:
    from quod.kernel.builder.tracer import Tracer
    from quod.kernel.compiled import Compiled


class Declared(Protocol):
    """The attributes of a kernel definition that this module reads."""

    @property
    def function(self) -> Any: ...
    @property
    def parameters(self) -> Mapping[str, ParameterType]: ...
    @property
    def location(self) -> Location: ...


def resolved(definition: Declared, static: Mapping[str, Any]) -> dict[str, ParameterType]:
    """Return the parameters for static arguments; TraceError if a needed one is missing."""
    defaults = getattr(definition.function, "__kwdefaults__", None) or {}
    arguments = defaults | dict(static)
    parameters: dict[str, ParameterType] = {}
    for name, type_ in definition.parameters.items():
        try:
            parameters[name] = type_.resolved(arguments) if isinstance(type_, Composite) else type_
        except ValueError as error:
            raise TraceError(f"parameter {name} {error}", definition.location) from None
    return parameters


def slots(parameters: Mapping[str, ParameterType], axes: int = 1) -> dict[str, Type]:
    """Return the slots of parameters, followed by the workgroup counts of all axes but the last."""
    slots = slots_of(parameters)
    for axis in range(axes - 1):
        slots[free_name(f"grid_{axis}", slots)] = u32
    return slots


def are_single_slots(parameters: Mapping[str, ParameterType]) -> list[bool]:
    """Return per slot whether it is a number or pointer, not a part of an element."""
    flags: list[bool] = []
    for type_ in without_structs(parameters).values():
        flags += [False] * len(type_.slots) if isinstance(type_, Composite) else [True]
    return flags


def pointers_of(
    parameters: Mapping[str, ParameterType], slots: Mapping[str, Type],
    constant_names: Sequence[str], location: Location,
) -> tuple[str, ...]:  # fmt: skip
    """Return the pointer slots of `constant_names`, the parameters that are declared constant.

    Raises TraceError for a parameter that has none: only an array can be constant.
    """
    remaining, pointers = iter(slots.items()), {}
    for name, type_ in parameters.items():
        count = len(type_.slots) if isinstance(type_, Composite) else 1
        parameter_slots = islice(remaining, count)
        pointers[name] = [slot for slot, kind in parameter_slots if isinstance(kind, PointerType)]
    for name in constant_names:
        if not pointers[name]:
            raise TraceError(
                f"parameter {name} is {parameters[name]}, but only an array can be constant",
                location,
            )
    return tuple(slot for name in parameters if name in constant_names for slot in pointers[name])


def joined(
    tracer: Tracer,
    parameters: Mapping[str, ParameterType],
    values: Sequence[Value],
    location: Location,
) -> tuple[Any, ...]:
    """Assemble the arguments of a kernel's function from one value per slot."""
    remaining = iter(values)
    tracer.location = location
    arguments = join_slots(tracer.builder, parameters, remaining)
    tracer.grid = tuple(remaining)
    tracer.location = None
    return tuple(arguments)


def split(kernel: Compiled, groups: Any, arguments: Sequence[Any]) -> tuple[int, tuple[Any, ...]]:
    """Return the total number of workgroups and one argument per slot.

    DeviceError for a grid or argument that does not match the kernel.
    """
    parameters = kernel.parameters
    if len(arguments) != len(parameters):
        raise DeviceError(
            f"kernel {kernel.name} takes {len(parameters)} arguments ({', '.join(parameters)}), "
            f"not {len(arguments)}"
        )
    values: list[Any] = []
    for (name, type_), argument in zip(parameters.items(), arguments, strict=True):
        # isinstance of an abstract class is slower, and this runs at each launch.
        if isinstance(type_, Type):
            values.append(argument)
            continue
        try:
            values += type_.split(argument)
        except ValueError as error:
            raise DeviceError(f"argument {name} of kernel {kernel.name} {error}") from None
    axes = 1 + len(kernel.slots) - len(values)
    if axes == 1 and type(groups) is int and 0 <= groups <= 0xFFFFFFFF:
        return groups, tuple(values)
    extents = _extents(kernel, groups, axes)
    return math.prod(extents), (*values, *extents[:-1])


def _extents(kernel: Compiled, groups: Any, axes: int) -> tuple[int, ...]:
    """Return the number of workgroups along each axis; raises DeviceError for invalid `groups`."""
    counts = groups if isinstance(groups, tuple) else (groups,)
    try:
        extents = tuple(whole_number("it", n, 0, 0xFFFFFFFF, error=DeviceError) for n in counts)
    except DeviceError:
        extents = ()
    if len(extents) != axes:
        expected_extents = "a whole number" if axes == 1 else f"{axes} whole numbers, one an axis"
        extents_text = ", ".join(map(shown, counts))
        raise DeviceError(
            f"kernel {kernel.name} was launched with {extents_text} workgroups; give "
            f"{expected_extents}"
        )
    return extents
