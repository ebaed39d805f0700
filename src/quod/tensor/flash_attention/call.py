"""Attention: arguments and launches."""

from __future__ import annotations

import math
from typing import Any

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.tensor_map import TiledMemory
from quod.tensor.arrays import AnyArray, Tensor, on_device
from quod.tensor.flash_attention.heads import Heads, heads_of, results_of
from quod.tensor.flash_attention.kernel import ATTENTION, AttentionForm
from quod.tensor.flash_attention.plan import WarpgroupPlan, heads_together, plan_attention
from quod.tensor.flash_attention.warpgroup_kernel import WARPGROUP_ATTENTION
from quod.tensor.rows.row import LOG2_E


def attention(
    device: DeviceChoice, q: AnyArray, k: AnyArray, v: AnyArray, *, scale: float | None = None,
    causal: bool = False, lengths: AnyArray | None = None, log_sums: AnyArray | None = None,
    out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return softmax(scale * q k^T) v of each head, in `out` or in new memory.

    `q` has the shape (..., heads, queries, size), `k` and `v` (..., kv_heads, keys, size), with the
    same leading axes, which index the sequences. kv_heads divides heads; heads / kv_heads adjacent
    query heads share a key head. `size` is at most 256. All tensors have the same type, f32, f16 or
    bf16, and are contiguous in C order, as in `softmax`; sums are f32, and a result is rounded
    once. `scale` is positive, by default 1 / sqrt(size). With `causal`, query i sees the keys up to
    i + keys - queries, so the last query sees all keys. `lengths`, of int32 or uint32, has the
    shape of the leading axes, or (1,) without them. It gives the number of keys of each sequence,
    all of which the last query sees; a length that is negative or exceeds `keys` means all keys.
    The result of a query that sees no key is 0.

    `log_sums` receives log(sum(exp(scale * q k^T))) of each query, for `attention_backward`. It is
    f32 of shape (..., heads, queries), with -3.4028235e38 for a query that sees no key. `out` has
    the type and shape of `q`. Neither may overlap an argument.

    Raises InputError, which names the argument, for tensors of a wrong type or shape, and
    DeviceError for memory that the device cannot access.
    """
    device = resolve_device(device)
    inputs = heads_of(device, q, k, v, scale=scale, causal=causal, lengths=lengths)
    target, out_tensor, sums = results_of(device, q, inputs.q, inputs.tensors, log_sums, out)
    if not math.prod(inputs.q.shape):
        return target
    element, (queries, keys, size) = inputs.q.element, inputs.sizes
    form = AttentionForm(inputs.causal, inputs.lengths is not None, sums is not None)
    head_count = math.prod(inputs.q.shape[:-2])
    plan = plan_attention(
        device, element, queries, size, head_count, uniform=keys > 0 and not form.lengths
    )  # fmt: skip
    if isinstance(plan, WarpgroupPlan):
        _by_warpgroups(device, inputs, plan, form, out_tensor, sums)
        return target
    compiled = device.compile(
        ATTENTION[element, form.lengths, form.sums], lanes=plan.lanes, element=element, plan=plan,
        form=form,
    )  # fmt: skip
    memory = [*inputs.memory(), out_tensor.memory, *([] if sums is None else [sums.memory])]
    groups = -(-queries // plan.tile[0]) * head_count
    device.launch(
        compiled, groups, queries, keys, size, inputs.heads, inputs.shared_by,
        inputs.scale * LOG2_E, *memory,
    )  # fmt: skip
    return target


def _by_warpgroups(
    device: Any, heads: Heads, plan: WarpgroupPlan, form: AttentionForm, out_tensor: Tensor,
    sums: Tensor | None,
) -> None:  # fmt: skip
    """Launch the kernel on warpgroups, with tensor maps for tiles of queries, keys and values."""
    element, (queries, keys, size) = heads.q.element, heads.sizes
    head_count = math.prod(heads.q.shape[:-2])
    memory = [on_device(device, array) for array in heads.memory()]
    rows, columns = plan.tile
    maps = device.tensor_maps((
        TiledMemory(memory[0].address, head_count, queries, size, rows),
        *(TiledMemory(array.address, heads.of_keys, keys, size, columns) for array in memory[1:]),
    ))  # fmt: skip
    compiled = device.compile(
        WARPGROUP_ATTENTION[element, form.sums],
        lanes=plan.lanes,
        element=element,
        plan=plan,
        form=form,
    )
    results = [out_tensor.memory, *([] if sums is None else [sums.memory])]
    device.launch(
        compiled, -(-queries // rows) * head_count, queries, keys, head_count, heads.shared_by,
        heads_together(keys, size, heads.shared_by), heads.scale * LOG2_E, maps, *memory, *results,
    )  # fmt: skip
