"""Launches of kernels whose elements are all alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.kernel import KernelDefinition
from quod.tensor.arrays import Tensor
from quod.tensor.plan import plan_elements

_MOST = (1 << 31) - 1


def launch_flat(
    device: AnyDevice, kernel: KernelDefinition, numbers: Sequence[float],
    tensors: Sequence[Tensor],
) -> None:  # fmt: skip
    """Runs a kernel over tensors of one shape; InputError for more than 2^31 accesses."""
    elements = math.prod(tensors[0].shape)
    if not elements:
        return
    widest = max((each.element for each in tensors), key=lambda element: element.bytes)
    plan = plan_elements(device, widest, elements, len(tensors))
    count = elements // plan.vector
    if count > _MOST:
        raise InputError(f"{tensors[0].name} has {elements} elements, which are too many at once")
    compiled = device.compile(kernel, lanes=plan.lanes, plan=plan)
    memory = [each.memory for each in tensors]
    device.launch(compiled, plan.groups(elements), count, *numbers, *memory)
