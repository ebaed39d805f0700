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
from quod.tensor.arrays import AnyArray, Tensor, float32_tensor, on_device
from quod.tensor.matmul.call import tensor_maps
from quod.tensor.matmul.k_major import along_k, is_along_k
from quod.tensor.matmul.plan import CorePlan, GemmPlan, TilePlan, workgroups
from quod.tensor.matmul.scaled import ScaledForm
from quod.tensor.matmul.tiles import in_halves

Plan = Callable[..., GemmPlan | CorePlan | TilePlan]
"""A function that plans a product of 8-bit matrices.

It takes the device, the result type, (m, n, k), the pitches of A, B and C, the number of products,
and whether lines of both operands are along k.
"""


def launch_scaled(
    device: AnyDevice, tensors: tuple[Tensor, Tensor], epilogue_operands: Sequence[Tensor | None],
    target: Tensor, depth: int, form: ScaledForm, plan_of: Plan,
    kernels: tuple[Mapping[Type, KernelDefinition], Mapping[Type, KernelDefinition]],
    **static: Any,
) -> None:  # fmt: skip
    """Launch a product of 8-bit matrices.

    epilogue_operands: Row scales, column scales and bias, each of which may be None.
    depth: k.
    plan_of: Chooses the plan.
    kernels: The kernels by result type, without and with warpgroups.
    static: Further static arguments of the kernels.
    """
    a_tensor, b_tensor = tensors
    *leading, m, n = target.shape
    memory, form = along_k(device, tensors, form, (m, n, depth))
    batch, separate_b = math.prod(leading), int(len(b_tensor.shape) > 2)
    if depth == 0:
        # Kernels need elements to load: k = 1 with zeros gives the same result.
        depth, form = 1, replace(form, transpose_a=False, transpose_b=False)
        memory = [device.upload(np.zeros(batch * size, a_tensor.dtype)) for size in (m, n)]
    pitches = m if form.transpose_a else depth, depth if form.transpose_b else n, n
    plan = plan_of(
        device, target.element, (m, n, depth), pitches, batch, along_k=is_along_k(form)
    )  # fmt: skip
    kernels_by_type = kernels[0]
    scalars: list[Any] = [m, n, depth, separate_b]
    if isinstance(plan, TilePlan):
        memory = [on_device(device, array) for array in memory]
        planes = batch, batch if separate_b else 1
        halves = m, n, in_halves(a_tensor.element, depth)
        maps = tensor_maps(device, memory, halves, planes, (False, False), plan)
        kernels_by_type, scalars = kernels[1], [m, n, depth, batch, separate_b, maps]
    compiled = device.compile(
        kernels_by_type[target.element], lanes=plan.lanes, element=target.element, plan=plan,
        form=form,
        **static,
    )  # fmt: skip
    # Absent terms are not read, so other memory of the type replaces them.
    present_memory = [term.memory for term in epilogue_operands if term is not None]
    placeholder = present_memory[0] if present_memory else device.allocate(16, zero=False)
    term_memory = [placeholder if term is None else term.memory for term in epilogue_operands]
    device.launch(
        compiled,
        workgroups(device, plan, m, n, batch),
        *scalars,
        *memory,
        *term_memory,
        target.memory,
    )


def epilogue_operand(
    device: AnyDevice, name: str, value: AnyArray | None, shape: tuple[int, ...]
) -> Tensor | None:
    """Return scales or a bias as an f32 tensor of a shape, or None if there is none."""
    return None if value is None else float32_tensor(device, name, value, shape)
