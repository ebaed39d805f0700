"""Gradients of attention: arguments and launches."""

from __future__ import annotations

import math
from typing import Any

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.tensor_map import TiledMemory
from quod.device.protocol import AnyDevice
from quod.tensor.arrays import Given, check_apart, like, reached, result, results
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
    device: DeviceChoice, gradient: Given, q: Given, k: Given, v: Given, y: Given,
    log_sums: Given, *, scale: float | None = None, causal: bool = False,
    lengths: Given | None = None, out: tuple[Given, Given, Given] | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the gradients of `q`, `k` and `v`; `gradient` is that of y = attention(q, k, v).

    `log_sums` is the tensor that `attention` stored; pass the same `scale`, `causal` and `lengths`.
    `gradient` and `y` are like `q`. The results have the types and shapes of `q`, `k` and `v`;
    `out` takes the three, and overlaps no argument. Where heads of queries share keys, their
    gradients are added in the order of heads; sums are f32, in a fixed order. On tensor cores,
    weights and their gradients are rounded to the type: in f16, those above 65,504 are infinite.
    Arrays and errors are as in `attention`.
    """
    device = resolve_device(device)
    results("q, k and v", 3, out)
    given = heads_of(device, q, k, v, scale=scale, causal=causal, lengths=lengths)
    slopes, forward = like(device, "gradient", gradient, given.q), like(device, "y", y, given.q)
    sums = given.of_queries(device, "log_sums", log_sums)
    models = (given.q, given.k, given.v)
    targets = (
        [result(device, *pair) for pair in zip((q, k, v), models, strict=True)]
        if out is None
        else list(out)
    )
    made = [
        like(device, f"out[{number}]", target, model)
        for number, (target, model) in enumerate(zip(targets, models, strict=True))
    ]
    for number, each in enumerate(made):
        check_apart(each, slopes, forward, sums, *given.given, *made[:number])
    numbers = device.allocate(8 * max(1, given.q.rows), zero=False)
    if math.prod(given.q.shape):
        memory = [each.memory for each in (slopes, forward, sums)]
        launch_rows(device, ATTENTION_ROWS[given.q.element], given.q, (), [*memory, numbers], 2)
    memory = given.memory()
    read = [slopes.memory if math.prod(slopes.shape) else memory[0], *memory]
    read.insert(4, numbers)
    if math.prod(given.q.shape):
        _launch(device, ATTENTION_BACKWARD_QUERIES, given, read, [made[0].memory], 0)
    if math.prod(given.k.shape):
        _launch(device, ATTENTION_BACKWARD_KEYS, given, read, [one.memory for one in made[1:]], 1)
    return targets[0], targets[1], targets[2]


def _launch(
    device: AnyDevice, kernels: Any, given: Heads, read: list[Any], stored: list[Any], of: int
) -> None:
    """Launch a kernel whose rows are queries, or keys if `of` is 1."""
    element, (queries, keys, size) = given.q.element, given.sizes
    form = AttentionForm(given.causal, given.lengths is not None)
    rows = math.prod((given.q, given.k)[of].shape[:-1])
    whole = bool(queries and keys) and not form.lengths
    plan = plan_gradients(
        device, element, size, len(stored), rows=rows, whole=whole, causal=form.causal
    )
    if isinstance(plan, WarpgroupGradientPlan):
        _by_warpgroups(device, given, plan, form, read, stored, of)
        return
    compiled = device.compile(
        kernels[element, form.lengths], lanes=plan.lanes, element=element, plan=plan, form=form
    )
    heads = math.prod((given.q, given.k)[of].shape[:-2])
    groups = -(-(queries, keys)[of] // plan.tile[0]) * heads
    device.launch(
        compiled, groups, queries, keys, size, given.heads, given.shared_by, given.q.rows,
        given.scale * LOG2_E, given.scale, *read, *stored,
    )  # fmt: skip


def _by_warpgroups(
    device: Any, given: Heads, plan: WarpgroupGradientPlan, form: AttentionForm, read: list[Any],
    stored: list[Any], of: int,
) -> None:  # fmt: skip
    element, (queries, keys, size) = given.q.element, given.sizes
    gradient, q, k, v = (reached(device, one) for one in read[:4])
    heads = math.prod(given.q.shape[:-2]), given.of_keys
    rows, lines = plan.tile
    maps = device.tensor_maps(tuple(
        TiledMemory(one.address, heads[at], (queries, keys)[at], size, (rows, lines)[at != of])
        for one, at in ((q, 0), (gradient, 0), (k, 1), (v, 1))
    ))  # fmt: skip
    kernels = (ATTENTION_BACKWARD_QUERIES_TILES, ATTENTION_BACKWARD_KEYS_TILES)[of]
    compiled = device.compile(
        kernels[element], lanes=plan.lanes, element=element, plan=plan, form=form
    )
    device.launch(
        compiled, -(-(queries, keys)[of] // rows) * heads[of], queries, keys, heads[0],
        given.shared_by, given.scale * LOG2_E, given.scale, maps, gradient, q, k, v, read[4],
        *stored,
    )  # fmt: skip
