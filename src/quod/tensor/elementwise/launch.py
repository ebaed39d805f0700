"""Launches of elementwise kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import KernelDefinition
from quod.tensor.arrays import Tensor
from quod.tensor.rows.plan import plan_elements

_MAX_ACCESSES = (1 << 31) - 1
"""The limit of accesses of a tensor, which kernels count in 32-bit words."""


def launch_flat(
    device: AnyDevice, kernel: KernelDefinition, numbers: Sequence[Any],
    tensors: Sequence[Tensor],
) -> None:  # fmt: skip
    """Launch an elementwise kernel with scalars (`numbers`) and tensors of one shape.

    Raises InputError for more than 2^31 accesses.
    """
    elements = math.prod(tensors[0].shape)
    if not elements:
        return
    widest = max((operand.element for operand in tensors), key=lambda element: element.bytes)
    plan = plan_elements(device, widest, elements, len(tensors))
    count = access_count(tensors[0].name, elements, plan.vector)
    compiled = device.compile(kernel, lanes=plan.lanes, plan=plan)
    memory = [operand.memory for operand in tensors]
    device.launch(compiled, plan.groups(elements), count, *numbers, *memory)


def access_count(name: str, elements: int, vector: int) -> int:
    """Return the number of accesses of a tensor, each to a vector of elements.

    Raises InputError if a launch cannot index them.
    """
    count = elements // vector
    if count > _MAX_ACCESSES:
        raise InputError(f"{name} has {elements} elements, which are too many at once")
    return count
