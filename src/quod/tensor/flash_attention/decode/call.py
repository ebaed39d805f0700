"""Attention of few queries with many keys, as in autoregressive decoding."""

from __future__ import annotations

import math
from typing import Any

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.frozen import frozen, replace
from quod.tensor.arrays import AnyArray, Tensor
from quod.tensor.flash_attention.decode.kernel import decode_kernel
from quod.tensor.flash_attention.decode.lines import DecodeForm
from quod.tensor.flash_attention.decode.plan import MAX_PARTS, plan_decode, plan_parts
from quod.tensor.flash_attention.heads import heads_of, results_of
from quod.tensor.flash_attention.partial_results import ATTENTION_PARTS, MAX_STORE
from quod.tensor.rows.plan import plan_groups, widest
from quod.tensor.rows.row import LOG2_E
from quod.validation import whole_number


def attention_decode(
    device: DeviceChoice, q: AnyArray, k: AnyArray, v: AnyArray, *, scale: float | None = None,
    causal: bool = True, lengths: AnyArray | None = None, log_sums: AnyArray | None = None,
    parts: int | None = None, out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return softmax(scale * q k^T) v for few queries and many keys, in `out` or in new memory.

    The arguments are those of `attention`, but `causal` is true by default. `parts` is the number
    of parts of the keys that workgroups process in parallel, from 1 to 512; by default it is chosen
    for the device.
    """
    device = resolve_device(device)
    inputs = heads_of(device, q, k, v, scale=scale, causal=causal, lengths=lengths)
    target, out_tensor, sums = results_of(device, q, inputs.q, inputs.tensors, log_sums, out)
    queries, keys, _ = inputs.sizes
    form = DecodeForm(inputs.causal, inputs.lengths is not None, sums is not None)
    call = Decoding(
        inputs.q, queries, keys, inputs.k.shape[-3], form, inputs.scale, inputs.memory()
    )
    call.launch(device, out_tensor, sums, parts_of(parts))
    return target


def parts_of(parts: int | None) -> int | None:
    """Return a valid number of parts, or None; InputError for one that is out of range."""
    return None if parts is None else whole_number("parts", parts, 1, MAX_PARTS)


@frozen(eq=False)
class Decoding:
    """One call of the decode kernels.

    q: The queries, of shape (..., heads, queries, size).
    queries: The number of queries of a head.
    keys: The maximum number of keys of a sequence.
    heads: The number of key heads of a sequence.
    form: The masks, outputs and memory layout.
    scale: The factor of the products q k^T.
    pages: The number of pages in memory; 0 if keys are not paged.
    """

    q: Tensor
    queries: int
    keys: int
    heads: int
    form: DecodeForm
    scale: float
    memory: list[Any]
    """The memory of q, keys and values, then of lengths and the page table if `form` has them."""
    pages: int = 0

    def launch(
        self, device: AnyDevice, out_tensor: Tensor, sums: Tensor | None, parts: int | None
    ) -> None:
        """Launch the kernels; if `parts` is None, choose the number of parts."""
        if not math.prod(self.q.shape):
            return
        element, size, all_rows = self.q.element, self.q.columns, self.q.rows
        rows = self.queries * self.q.shape[-3] // self.heads
        plan = plan_decode(device, element, size, rows)
        groups = all_rows // rows * -(-rows // plan.rows)
        parts = parts or plan_parts(device, plan, groups, self.keys)
        split = parts > 1
        form = replace(
            self.form, causal=self.form.causal and self.queries > 1, split=split,
            sums=self.form.sums and not split,
        )  # fmt: skip
        compiled = device.compile(
            decode_kernel(element, form), lanes=plan.lanes, element=element, plan=plan, form=form
        )
        results = [out_tensor.memory, *([] if sums is None else [sums.memory])]
        outputs = results
        if split:
            outputs = [device.allocate(4 * parts * all_rows * (size + 2), zero=False)]
        device.launch(
            compiled, groups * parts, self.queries, self.keys, self.heads, size, rows, parts,
            self.pages, all_rows, self.scale * LOG2_E, *self.memory, *outputs,
        )  # fmt: skip
        if not split:
            return
        row_plan = plan_groups(device, widest(element, size, MAX_STORE), size)
        combine_kernel = device.compile(
            ATTENTION_PARTS[element, sums is not None], lanes=row_plan.lanes, element=element,
            plan=row_plan,
        )  # fmt: skip
        device.launch(
            combine_kernel, row_plan.groups(all_rows), all_rows, size, parts, *outputs, *results
        )
