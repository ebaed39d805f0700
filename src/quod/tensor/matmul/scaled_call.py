"""Launches of products of 8-bit matrices with scales and a bias."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quod.device.protocol import AnyDevice
from quod.frozen import replace
from quod.kernel import KernelDefinition
from quod.kernel.ir.types import Type
from quod.tensor.arrays import Given, Tensor, of_numbers, reached
from quod.tensor.matmul.call import tensor_maps
from quod.tensor.matmul.k_major import along_k, is_along_k
from quod.tensor.matmul.plan import CorePlan, GemmPlan, TilePlan
from quod.tensor.matmul.scaled import ScaledForm
from quod.tensor.matmul.tiles import in_halves

Plan = Callable[..., GemmPlan | CorePlan | TilePlan]
"""A function that plans a product of 8-bit matrices.

It takes the device, the result type, (m, n, k), the pitches of A, B and C, the number of products,
and whether lines of both operands are along k.
"""


def launch_scaled(
    device: AnyDevice, tensors: tuple[Tensor, Tensor], beside: Sequence[Tensor | None],
    target: Tensor, depth: int, form: ScaledForm, plan_of: Plan,
    kernels: tuple[Mapping[Type, KernelDefinition], Mapping[Type, KernelDefinition]],
    **static: Any,
) -> None:  # fmt: skip
    """Launch a product of 8-bit matrices.

    beside: Row scales, column scales and bias, each of which may be None.
    depth: k.
    kernels: The kernels by result type, and those for warpgroups.
    """
    first, second = tensors
    *leading, m, n = target.shape
    memory, form = along_k(device, tensors, form, (m, n, depth))
    batch, separate_b = math.prod(leading), int(len(second.shape) > 2)
    if depth == 0:
        depth, form = 1, replace(form, transpose_a=False, transpose_b=False)
        memory = [device.upload(np.zeros(batch * size, first.dtype)) for size in (m, n)]
    pitches = m if form.transpose_a else depth, depth if form.transpose_b else n, n
    plan = plan_of(
        device, target.element, (m, n, depth), pitches, batch, along_k=is_along_k(form)
    )  # fmt: skip
    chosen = kernels[0]
    sizes: list[Any] = [m, n, depth, separate_b]
    if isinstance(plan, TilePlan):
        memory = [reached(device, each) for each in memory]
        planes = batch, batch if separate_b else 1
        halves = m, n, in_halves(first.element, depth)
        maps = tensor_maps(device, memory, halves, planes, (False, False), plan)
        chosen, sizes = kernels[1], [m, n, depth, batch, separate_b, maps]
    compiled = device.compile(
        chosen[target.element], lanes=plan.lanes, element=target.element, plan=plan, form=form,
        **static,
    )  # fmt: skip
    # Absent terms are not read, so other memory of the type replaces them.
    read = [each.memory for each in beside if each is not None]
    spare = read[0] if read else device.allocate(16, zero=False)
    numbers = [spare if each is None else each.memory for each in beside]
    device.launch(compiled, plan.groups(m, n) * batch, *sizes, *memory, *numbers, target.memory)


def numbers_beside(
    device: AnyDevice, name: str, value: Given | None, shape: tuple[int, ...]
) -> Tensor | None:
    """Return scales or a bias as an f32 tensor of a shape, or None if there is none."""
    return None if value is None else of_numbers(device, name, value, shape)
