"""Gradients of attention: arguments and launches."""

from __future__ import annotations

import math
from typing import Any

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.tensor_map import TiledMemory
from quod.device.protocol import AnyDevice
from quod.tensor.arrays import (
    AnyArray,
    allocate_like,
    check_apart,
    check_results,
    on_device,
    tensor_like,
)
from quod.tensor.flash_attention.backward.kernels import (
    ATTENTION_BACKWARD_KEYS,
    ATTENTION_BACKWARD_QUERIES,
    ATTENTION_ROWS,
)
from quod.tensor.flash_attention.backward.warpgroup_kernels import (
    ATTENTION_BACKWARD_KEYS_TILES,
    ATTENTION_BACKWARD_QUERIES_TILES,
)
from quod.tensor.flash_attention.heads import Heads, heads_of
from quod.tensor.flash_attention.kernel import AttentionForm
from quod.tensor.flash_attention.plan import WarpgroupGradientPlan, plan_gradients
from quod.tensor.rows.functions import launch_rows
from quod.tensor.rows.row import LOG2_E


def attention_backward(
    device: DeviceChoice, gradient: AnyArray, q: AnyArray, k: AnyArray, v: AnyArray, y: AnyArray,
    log_sums: AnyArray, *, scale: float | None = None, causal: bool = False,
    lengths: AnyArray | None = None, out: tuple[AnyArray, AnyArray, AnyArray] | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the gradients of `q`, `k` and `v`; `gradient` is that of y = attention(q, k, v).

    `log_sums` is the tensor that `attention` stored; pass the same `scale`, `causal` and `lengths`.
    `gradient` and `y` have the type and shape of `q`. The results have the types and shapes of `q`,
    `k` and `v`; `out` is a tuple of three tensors that receive them and overlap no argument. The
    gradients of query heads that share a key head are added in the order of heads; sums are f32, in
    a fixed order. On tensor cores, weights and their gradients are rounded to the element type, so
    in f16 those above 65,504 become infinite. Arrays and errors are as in `attention`.
    """
    device = resolve_device(device)
    check_results("q, k and v", 3, out)
    inputs = heads_of(device, q, k, v, scale=scale, causal=causal, lengths=lengths)
    output_gradient, output = (
        tensor_like(device, "gradient", gradient, inputs.q),
        tensor_like(device, "y", y, inputs.q),
    )
    log_sum_tensor = inputs.of_queries(device, "log_sums", log_sums)
    input_tensors = (inputs.q, inputs.k, inputs.v)
    targets = (
        [allocate_like(device, *pair) for pair in zip((q, k, v), input_tensors, strict=True)]
        if out is None
        else list(out)
    )
    out_tensors = [
        tensor_like(device, f"out[{position}]", target, prototype)
        for position, (target, prototype) in enumerate(zip(targets, input_tensors, strict=True))
    ]
    for position, out_tensor in enumerate(out_tensors):
        check_apart(
            out_tensor,
            output_gradient,
            output,
            log_sum_tensor,
            *inputs.tensors,
            *out_tensors[:position],
        )
    row_statistics = device.allocate(8 * max(1, inputs.q.rows), zero=False)
    if math.prod(inputs.q.shape):
        memory = [operand.memory for operand in (output_gradient, output, log_sum_tensor)]
        launch_rows(
            device, ATTENTION_ROWS[inputs.q.element], inputs.q, (), [*memory, row_statistics], 2
        )
    memory = inputs.memory()
    arguments = [output_gradient.memory if math.prod(output_gradient.shape) else memory[0], *memory]
    # Kernels take them after the gradient, q, k and v.
    arguments.insert(4, row_statistics)
    if math.prod(inputs.q.shape):
        _launch(device, ATTENTION_BACKWARD_QUERIES, inputs, arguments, [out_tensors[0].memory], 0)
    if math.prod(inputs.k.shape):
        _launch(
            device,
            ATTENTION_BACKWARD_KEYS,
            inputs,
            arguments,
            [out_tensor.memory for out_tensor in out_tensors[1:]],
            1,
        )
    return targets[0], targets[1], targets[2]


def _launch(
    device: AnyDevice,
    kernels: Any,
    inputs: Heads,
    arguments: list[Any],
    outputs: list[Any],
    side: int,
) -> None:
    """Launch a kernel whose rows are queries (`side` 0) or keys (`side` 1)."""
    element, (queries, keys, size) = inputs.q.element, inputs.sizes
    form = AttentionForm(inputs.causal, inputs.lengths is not None)
    rows = math.prod((inputs.q, inputs.k)[side].shape[:-1])
    fixed_lengths = bool(queries and keys) and not form.lengths
    plan = plan_gradients(
        device,
        element,
        size,
        len(outputs),
        rows=rows,
        uniform=fixed_lengths,
        causal=form.causal,
    )
    if isinstance(plan, WarpgroupGradientPlan):
        _by_warpgroups(device, inputs, plan, form, arguments, outputs, side)
        return
    compiled = device.compile(
        kernels[element, form.lengths], lanes=plan.lanes, element=element, plan=plan, form=form
    )
    heads = math.prod((inputs.q, inputs.k)[side].shape[:-2])
    groups = -(-(queries, keys)[side] // plan.tile[0]) * heads
    device.launch(
        compiled, groups, queries, keys, size, inputs.heads, inputs.shared_by, inputs.q.rows,
        inputs.scale * LOG2_E, inputs.scale, *arguments, *outputs,
    )  # fmt: skip


def _by_warpgroups(
    device: Any, inputs: Heads, plan: WarpgroupGradientPlan, form: AttentionForm,
    arguments: list[Any],
    outputs: list[Any], side: int,
) -> None:  # fmt: skip
    """Launch a kernel on warpgroups; see `_launch`. Rows are of `side`, lines of the other side."""
    element, (queries, keys, size) = inputs.q.element, inputs.sizes
    gradient, q, k, v = (on_device(device, array) for array in arguments[:4])
    head_counts = math.prod(inputs.q.shape[:-2]), inputs.of_keys
    rows, lines = plan.tile
    maps = device.tensor_maps(tuple(
        TiledMemory(
            array.address, head_counts[side_index], (queries, keys)[side_index], size,
            (rows, lines)[side_index != side],
        )
        for array, side_index in ((q, 0), (gradient, 0), (k, 1), (v, 1))
    ))  # fmt: skip
    kernels = (ATTENTION_BACKWARD_QUERIES_TILES, ATTENTION_BACKWARD_KEYS_TILES)[side]
    compiled = device.compile(
        kernels[element], lanes=plan.lanes, element=element, plan=plan, form=form
    )
    device.launch(
        compiled, -(-(queries, keys)[side] // rows) * head_counts[side], queries, keys,
        head_counts[0], inputs.shared_by, inputs.scale * LOG2_E, inputs.scale, maps, gradient, q, k,
        v, arguments[4], *outputs,
    )  # fmt: skip
