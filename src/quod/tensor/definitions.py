"""Kernels whose parameters are known where they are made, such as one for each type of elements."""

from __future__ import annotations

from collections.abc import Callable

from quod.kernel import KernelDefinition, Location
from quod.kernel.ir.value import ParameterType


def definition(
    name: str, function: Callable[..., None], /, *, constant: tuple[str, ...] = (),
    **parameters: ParameterType,
) -> KernelDefinition:  # fmt: skip
    """The kernel of a function with parameters of these types, in their order; those of the names
    `constant` as of `kernel`."""
    code = function.__code__
    location = Location(code.co_filename, code.co_firstlineno)
    return KernelDefinition(name, function, parameters, location, constant=constant)
