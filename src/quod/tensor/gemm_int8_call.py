"""The function of products of 8-bit integers: what it takes, and its launch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.frozen import replace
from quod.kernel.types import i32
from quod.tensor.along_k import along_k, is_along_k
from quod.tensor.arrays import (
    Given,
    Tensor,
    bytes_of,
    check_apart,
    integers,
    numbers,
    of_numbers,
    reached,
    sums,
)
from quod.tensor.gemm_call import shape_of_product, tensor_maps
from quod.tensor.gemm_int8_kernel import GEMM_INT8, GEMM_INT8_TILES, Int8Form
from quod.tensor.gemm_plan import TilePlan, plan_gemm_int8
from quod.tensor.gemm_tiles import in_halves
from quod.validation import flag


def gemm_int8(
    device: DeviceChoice, a: Given, b: Given, *, row_scales: Given | None = None,
    column_scales: Given | None = None, bias: Given | None = None, transpose_a: bool = False,
    transpose_b: bool = False, out: Given | None = None,
) -> Any:  # fmt: skip
    """A B of int8, exactly, or numbers made of it; gives `out`, or what is made for it.

    Shapes are those of `gemm`: `a` is (..., m, k), or (..., k, m) with `transpose_a`; `b` is (k, n)
    or (n, k) for all products, or has the leading axes of `a`. Without what follows the result is
    int32. Sums are modulo 2**32 either way: none is that large for k below 131,072.

    `row_scales`, of the shape of `a` without k, and `column_scales`, of that of `b` without k, are
    float32, and so is `bias`, (n,). Where one of them is given the result is (sum * row's scale) *
    column's scale + bias, each step rounded to float32, and at last to the type of `out`: float32,
    float16 or bfloat16; float32 if none is given. That is a product of matrices quantised by rows
    and by columns (Dettmers et al., LLM.int8(), 2022, section 2.1).

    Tensor cores take operands whose lines are along k, `transpose_b` without `transpose_a`, with k
    a multiple of 16. Others are turned first if the product is large, or multiplied without them,
    with the same result to the bit. InputError, with the name of the argument, for what does not
    fit; DeviceError for memory that the device does not reach.
    """
    device = resolve_device(device)
    first, second = bytes_of(device, "a", a), bytes_of(device, "b", b)
    form = Int8Form(
        flag("transpose_a", transpose_a), flag("transpose_b", transpose_b), row_scales is not None,
        column_scales is not None, bias is not None,
    )  # fmt: skip
    shape, depth = shape_of_product(first, second, form)
    beside = {
        "row_scales": _numbers(device, "row_scales", row_scales, shape[:-1]),
        "column_scales": _numbers(
            device, "column_scales", column_scales, (*second.shape[:-2], shape[-1])
        ),
        "bias": _numbers(device, "bias", bias, shape[-1:]),
    }
    scaled = any(each is not None for each in beside.values())
    if out is None:
        out = (numbers if scaled else integers)(device, a, first, shape)
    made = _result(device, out, shape, scaled=scaled)
    check_apart(made, first, second, *beside.values())
    if not math.prod(shape):
        return out
    m, n = shape[-2:]
    operands, form = along_k(device, (first, second), form, (m, n, depth))
    batch, own = math.prod(shape[:-2]), int(len(second.shape) > 2)
    if depth == 0:
        depth, form = 1, replace(form, transpose_a=False, transpose_b=False)
        operands = [device.upload(np.zeros(batch * size, np.int8)) for size in (m, n)]
    pitches = m if form.transpose_a else depth, depth if form.transpose_b else n, n
    plan = plan_gemm_int8(
        device, made.element, (m, n, depth), pitches, batch,
        along_k=is_along_k(form),
    )  # fmt: skip
    kernels = GEMM_INT8
    sizes: list[Any] = [m, n, depth, own]
    if isinstance(plan, TilePlan):
        operands = [reached(device, memory) for memory in operands]
        planes = batch, batch if own else 1
        halves = m, n, in_halves(first.element, depth)
        maps = tensor_maps(device, operands, halves, planes, (False, False), plan)
        kernels, sizes = GEMM_INT8_TILES, [m, n, depth, batch, own, maps]
    compiled = device.compile(
        kernels[made.element], lanes=plan.lanes, element=made.element, plan=plan, form=form
    )
    # What is not read has other memory of the type in its place.
    read = [each.memory for each in beside.values() if each is not None]
    spare = read[0] if read else device.allocate(16, zero=False)
    memory = [spare if each is None else each.memory for each in beside.values()]
    device.launch(compiled, plan.groups(m, n) * batch, *sizes, *operands, *memory, made.memory)
    return out


def _numbers(
    device: AnyDevice, name: str, value: Given | None, shape: tuple[int, ...]
) -> Tensor | None:
    return None if value is None else of_numbers(device, name, value, shape)


def _result(device: AnyDevice, out: Given, shape: tuple[int, ...], *, scaled: bool) -> Tensor:
    found = sums(device, "out", out)
    if found.shape != shape:
        raise InputError(f"out must be of shape {shape}, not {found.text}")
    if scaled == (found.element is i32):
        wanted = "float32, float16 or bfloat16 with scales or bias" if scaled else "int32"
        raise InputError(f"out must be {wanted}, not {found.text}")
    return found
