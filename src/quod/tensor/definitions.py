"""Kernels whose parameters are known where they are made, such as one for each type of elements."""

from __future__ import annotations

from collections.abc import Callable

from quod.kernel import KernelDefinition, Location
from quod.kernel.value import ParameterType


def definition(
    name: str, function: Callable[..., None], **parameters: ParameterType
) -> KernelDefinition:
    """The kernel of a function with parameters of these types, in their order."""
    code = function.__code__
    return KernelDefinition(
        name, function, parameters, Location(code.co_filename, code.co_firstlineno)
    )
