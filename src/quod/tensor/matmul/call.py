"""Matrix products: arguments and launches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.memory.tensor_map import TiledMemory
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import replace
from quod.kernel.ir.types import FLOATS8, Type, f32
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_like,
    check_apart,
    on_device,
    tensor,
    tensor_like,
)
from quod.tensor.matmul.epilogue import FUNCTIONS
from quod.tensor.matmul.form import GemmForm, TransposeFlags
from quod.tensor.matmul.k_major import along_k, is_along_k
from quod.tensor.matmul.kernel import GEMM
from quod.tensor.matmul.plan import TILE_DEPTH, TilePlan, plan_gemm, workgroups
from quod.tensor.matmul.tiles import in_halves
from quod.tensor.matmul.warpgroups.kernel import GEMM_TILES
from quod.tensor.scalars import real
from quod.validation import choice

Activation = Literal["gelu", "silu"]


def gemm(
    device: DeviceChoice, a: AnyArray, b: AnyArray, *, bias: AnyArray | None = None,
    activation: Activation | None = None, residual: AnyArray | None = None, scale: float = 1.0,
    transpose_a: bool = False, transpose_b: bool = False, tf32: bool = False,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return activation(scale * (A B) + bias) + residual, in `out` or in new memory.

    `a` has the shape (..., m, k), or (..., k, m) with `transpose_a`. `b` has the shape (k, n), or
    (n, k) with `transpose_b`; it is shared by all products, unless it has the leading axes of `a`
    as well. `bias` is (n,); `residual` and `out` are (..., m, n). `activation`, "gelu" or "silu",
    is applied in f32 before the residual is added. All tensors have the same type, f32, f16 or
    bf16, and are contiguous in C order, as in `softmax`. `out` may be `residual`, but must overlap
    no other argument. Sums are f32, in a fixed order; a result is rounded once to its type. With
    k = 0 the product is 0.

    With `tf32`, f32 elements may be rounded toward zero to 10 fraction bits, so that tensor cores
    can multiply them. This requires that k is a multiple of 4 and that lines of both operands are
    along k, i.e. `transpose_b` without `transpose_a`; for a large product, other operands are
    transposed first.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    form = GemmForm(
        transpose_a, transpose_b, bias is not None,
        residual is not None,
        None if activation is None else choice("activation", activation, tuple(FUNCTIONS)),
    )  # fmt: skip
    a_tensor, b_tensor = tensor(device, "a", a), tensor(device, "b", b)
    shape, depth = shape_of_product(a_tensor, b_tensor, form)
    prototype = Tensor("c", a_tensor.memory, a_tensor.element, a_tensor.dtype, shape)
    epilogue_operands = {
        "bias": None if bias is None else _of_shape(device, "bias", bias, a_tensor, shape[-1:]),
        "residual": None
        if residual is None
        else _of_shape(device, "residual", residual, a_tensor, shape),
    }
    factor = real("scale", scale)
    target = allocate_like(device, a, prototype) if out is None else out
    out_tensor = _of_shape(device, "out", target, a_tensor, shape)
    check_apart(out_tensor, a_tensor, b_tensor, epilogue_operands["bias"])
    check_apart(out_tensor, epilogue_operands["residual"], same=True)
    if not math.prod(shape):
        return target
    m, n = shape[-2:]
    batch = math.prod(shape[:-2])
    operands = [a_tensor.memory, b_tensor.memory]
    tf32 = tf32 and a_tensor.element is f32
    if tf32:
        operands, form = along_k(device, (a_tensor, b_tensor), form, (m, n, depth))
    if depth == 0:
        # Kernels need elements to load: k = 1 with zeros gives the same result.
        depth, form = 1, replace(form, transpose_a=False, transpose_b=False)
        operands = [device.upload(np.zeros(batch * size, a_tensor.dtype)) for size in (m, n)]
    launch = product_launch(
        device, a_tensor.element, operands, out_tensor.memory, (m, n, depth), form,
        epilogue_operands=[None if x is None else x.memory for x in epilogue_operands.values()],
        batch=batch,
        batch_b=len(b_tensor.shape) > 2, scale=factor, tf32=tf32 and is_along_k(form),
    )  # fmt: skip
    device.launch(*launch)
    return target


def product_launch(
    device: AnyDevice, element: Type, operands: list[Any], out: Any, sizes: tuple[int, int, int],
    form: GemmForm, *, epilogue_operands: Sequence[Any] = (None, None), batch: int = 1,
    batch_b: bool = False, scale: float = 1.0, tf32: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the launch of a product, as the arguments of `device.launch` or of a recording.

    They are the compiled kernel, the number of workgroups, and the kernel's arguments.

    operands: The memory of A and B.
    sizes: m, n and k.
    epilogue_operands: The memory of bias and residual.
    batch: The number of products.
    batch_b: Each product of the batch has its own B; otherwise all share one.
    """
    m, n, depth = sizes
    pitches = m if form.transpose_a else depth, depth if form.transpose_b else n, n
    plan = plan_gemm(device, element, sizes, pitches, batch, tf32=tf32)
    kernels = GEMM
    scalars: list[Any] = [m, n, depth, int(batch_b), scale]
    if isinstance(plan, TilePlan):
        operands = [on_device(device, memory) for memory in operands]
        planes = batch, batch if batch_b else 1
        along = form.transpose_a, not form.transpose_b
        halves = m, n, in_halves(element, depth)
        maps = tensor_maps(device, operands, halves, planes, along, plan)
        kernels, scalars = GEMM_TILES, [m, n, depth, batch, int(batch_b), scale, maps]
    compiled = device.compile(
        kernels[element], lanes=plan.lanes, element=element, plan=plan, form=form
    )
    # Absent terms are not read, so any memory of the type replaces them.
    memory = [
        *operands,
        *[operands[0] if operand is None else operand for operand in epilogue_operands],
        out,
    ]
    return compiled, workgroups(device, plan, m, n, batch), *scalars, *memory


def tensor_maps(
    device: Any, operands: list[Any], sizes: tuple[int, int, int], planes: tuple[int, int],
    along: tuple[bool, bool], plan: TilePlan,
) -> Buffer:  # fmt: skip
    """Return the tensor maps of A and B in device memory, for 16-bit units.

    sizes: m, n and k, in 16-bit units; see `in_halves`.
    planes: The number of matrices of A and of B.
    along: Whether lines of A, and of B, are along the long axis rather than K.
    """
    m, n, depth = sizes
    arrays = []
    for memory, count, extent, is_along, width, shares in (
        (operands[0], planes[0], m, along[0], plan.tile[0], 1),
        (operands[1], planes[1], n, along[1], plan.tile[1], plan.cluster),
    ):
        height, length = (depth, extent) if is_along else (extent, depth)
        box_lines = (TILE_DEPTH if is_along else width) // shares
        arrays.append(TiledMemory(memory.address, count, height, length, box_lines))
    maps: Buffer = device.tensor_maps(tuple(arrays))
    return maps


def shape_of_product(a: Tensor, b: Tensor, form: TransposeFlags) -> tuple[tuple[int, ...], int]:
    """Return the shape of the result, and k; InputError if the operands do not match."""
    for operand in (a, b):
        if len(operand.shape) < 2:
            raise InputError(f"{operand.name} must have at least two axes, not {operand.text}")
    if a.element is not b.element and not {a.element, b.element} <= {*FLOATS8}:
        raise InputError(f"b must be of {a.element}, as a is, not of {b.element}")
    if b.shape[:-2] not in ((), a.shape[:-2]):
        raise InputError(
            f"b must have no leading axes, or those of a, {a.shape[:-2]}, not {b.shape[:-2]}"
        )
    m, depth = a.shape[-2:][:: -1 if form.transpose_a else 1]
    depth_b, n = b.shape[-2:][:: -1 if form.transpose_b else 1]
    if depth_b != depth:
        raise InputError(f"the summed axis of b has {depth_b} elements, but that of a has {depth}")
    return (*a.shape[:-2], m, n), depth


def _of_shape(
    device: AnyDevice, name: str, value: AnyArray, prototype: Tensor, shape: tuple[int, ...]
) -> Tensor:
    expected = Tensor("a", prototype.memory, prototype.element, prototype.dtype, shape)
    return tensor_like(device, name, value, expected)
