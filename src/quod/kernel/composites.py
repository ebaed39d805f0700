"""Parameters that are several numbers: what a launch and a trace make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from quod.errors import DeviceError
from quod.kernel.errors import TraceError
from quod.kernel.ir import Location
from quod.kernel.types import Type
from quod.kernel.value import Composite, ParameterType, Value

if TYPE_CHECKING:
    from quod.kernel.builder import Builder
    from quod.kernel.compiled import Compiled


class Declared(Protocol):
    """What is asked of a kernel's definition."""

    @property
    def function(self) -> Any: ...
    @property
    def parameters(self) -> Mapping[str, ParameterType]: ...
    @property
    def location(self) -> Location: ...


def resolved(definition: Declared, static: Mapping[str, Any]) -> dict[str, ParameterType]:
    """The parameters of a kernel for its static arguments; TraceError if one is missing."""
    known = (getattr(definition.function, "__kwdefaults__", None) or {}) | dict(static)
    found: dict[str, ParameterType] = {}
    for name, type_ in definition.parameters.items():
        try:
            found[name] = type_.resolved(known) if isinstance(type_, Composite) else type_
        except ValueError as error:
            raise TraceError(f"parameter {name} {error}", definition.location) from None
    return found


def slots(parameters: Mapping[str, ParameterType]) -> dict[str, Type]:
    """The numbers and pointers that parameters are made of, by names that no two of them share."""
    found: dict[str, Type] = {}
    for name, type_ in parameters.items():
        if not isinstance(type_, Composite):
            found[name] = type_
            continue
        for number, part in enumerate(type_.slots):
            own = f"{name}_{number}"
            while own in found or own in parameters:
                own += "_"
            found[own] = part
    return found


def joined(
    k: Builder, parameters: Mapping[str, ParameterType], values: Sequence[Value], location: Location
) -> tuple[Any, ...]:
    """What a kernel's function is called with, of a value a slot."""
    given, rest = [], iter(values)
    k.location = location
    for type_ in parameters.values():
        if isinstance(type_, Composite):
            given.append(type_.joined(k, [next(rest) for _ in type_.slots]))
        else:
            given.append(next(rest))
    k.location = None
    return tuple(given)


def split(kernel: Compiled, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments of a launch, one a slot; DeviceError for one that does not fit."""
    parameters = kernel.parameters
    if len(arguments) != len(parameters):
        raise DeviceError(
            f"kernel {kernel.name} takes {len(parameters)} arguments ({', '.join(parameters)}), "
            f"not {len(arguments)}"
        )
    found: list[Any] = []
    for (name, type_), argument in zip(parameters.items(), arguments, strict=True):
        if not isinstance(type_, Composite):
            found.append(argument)
            continue
        try:
            found += type_.split(argument)
        except ValueError as error:
            raise DeviceError(f"argument {name} of kernel {kernel.name} {error}") from None
    return tuple(found)
