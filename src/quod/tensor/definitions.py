"""Kernel definitions with parameter types chosen at runtime, such as one kernel per type."""

from __future__ import annotations

from collections.abc import Callable

from quod.kernel import KernelDefinition, Location
from quod.kernel.ir.value import ParameterType


def definition(
    name: str, function: Callable[..., None], /, *, constant: tuple[str, ...] = (),
    **parameters: ParameterType,
) -> KernelDefinition:  # fmt: skip
    """Define a kernel from a function; `parameters` are the types of its parameters, in order.

    `constant` names pointers to memory that nothing stores to during a launch, as in `kernel`.
    """
    code = function.__code__
    location = Location(code.co_filename, code.co_firstlineno)
    return KernelDefinition(name, function, parameters, location, constant=constant)
