"""The cross-entropy of rows of logits, with its gradient."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import not_written
from quod.errors import InputError
from quod.kernel.ir.types import f32, u32
from quod.tensor.arrays import (
    AnyArray,
    Tensor,
    allocate_float32,
    check_apart,
    float32_tensor,
    indices,
    tensor,
    tensor_like,
)
from quod.tensor.rows.cross_entropy_kernels import COUNT_TARGETS, CROSS_ENTROPY, LOSS_TOTAL
from quod.tensor.rows.plan import plan_rows
from quod.tensor.scalars import real
from quod.validation import choice, whole_number

Reduction = Literal["mean", "sum", "none"]
_U32_RANGE = 1 << 32
_NOT_COUNTED = -1.0
"""A sentinel that no count equals."""


def cross_entropy(
    device: DeviceChoice, logits: AnyArray, targets: AnyArray, *, ignore_index: int = -100,
    reduction: Reduction = "mean", gradient: AnyArray | None = None, gradient_scale: float = 1.0,
    check: bool = True, out: AnyArray | None = None,
) -> Any:  # fmt: skip
    """Return log(sum(exp(x))) - x[target] for each row x of the logits, in `out` or new memory.

    `logits` have the shape (..., classes), as in `softmax`, and `targets`, of int32 or uint32, the
    shape (...). A row whose target equals `ignore_index` as 32 bits has loss 0 and gradient 0,
    whatever its logits. The result is f32. With reduction "none" it is the losses, in the shape of
    `targets`. Otherwise its shape is (1,): with "sum" the sum of the losses, with "mean" that sum
    divided by the number of targets that are not ignored, or 0 if all are ignored.

    `gradient` receives the gradient of the result (with "none" that of the sum) times
    `gradient_scale`. It is like `logits`, and may be the same memory: logits are read once if a row
    fits the registers, twice if not.

    With `check`, a target that is neither a class nor `ignore_index` raises InputError before
    anything is stored; the host downloads eight bytes for that. Without it, such a row has the loss
    3.4028235e38 and the gradient 0; the target is never used as an index. A row with NaN or plus
    infinity, or with only minus infinity, has the loss NaN.

    Raises InputError, which names the argument, if a type, shape or value is not as described;
    DeviceError if the device cannot access the memory of an argument.
    """
    device = resolve_device(device)
    choice("reduction", reduction, ("mean", "sum", "none"))
    ignored = whole_number("ignore_index", ignore_index, -_U32_RANGE // 2, _U32_RANGE - 1)
    scale = real("gradient_scale", gradient_scale)
    x = tensor(device, "logits", logits)
    if len(x.shape) < 2:
        raise InputError(f"logits must have the axes rows and classes at least, not {x.text}")
    target_classes = indices(device, "targets", targets)
    if x.shape[:-1] != target_classes.shape:
        raise InputError(
            f"targets must be of shape {x.shape[:-1]}, as the rows of logits are, not "
            f"{target_classes.shape}"
        )
    gradient_tensor = None if gradient is None else tensor_like(device, "gradient", gradient, x)
    shape = target_classes.shape if reduction == "none" else (1,)
    out_memory = allocate_float32(device, logits, x, shape) if out is None else out
    out_tensor = float32_tensor(device, "out", out_memory, shape)
    check_apart(out_tensor, x, target_classes, gradient_tensor)
    if gradient_tensor is not None:
        check_apart(gradient_tensor, x, same=True)
        check_apart(gradient_tensor, target_classes)
    if x.rows and not x.columns:
        raise InputError(f"logits has the shape {x.shape}; a row has a class at least")
    counts = _counts(
        device, x, target_classes, ignored % _U32_RANGE, mean=reduction == "mean", check=check
    )
    if check and x.rows:
        _check_targets(device, x, target_classes, ignored, counts)
    losses: Any = out_tensor.memory
    if reduction != "none":
        losses = device.allocate(4 * max(1, x.rows), zero=not x.rows)
    _launch_rows(
        device, x, target_classes, ignored % _U32_RANGE, scale, counts, losses, gradient_tensor
    )
    if reduction != "none":
        width = max(1, x.rows)
        plan = plan_rows(device, f32, width)
        compiled = device.compile(LOSS_TOTAL, lanes=plan.lanes, plan=plan)
        device.launch(compiled, 1, width // plan.vector, losses, counts, out_tensor.memory)
    return out_memory


def _counts(
    device: AnyDevice, x: Tensor, targets: Tensor, ignored: int, *, mean: bool, check: bool
) -> Buffer:
    """Count targets; return in device memory the loss's divisor and the number of wrong targets."""
    if not x.rows or not (mean or check):
        return device.upload(np.array([1, 0], np.float32))
    # If the sentinel remains, the launch did not store the counts.
    sentinels = np.full(2, _NOT_COUNTED, np.float32)
    counts = device.upload(sentinels) if check else device.allocate(8, zero=False)
    plan = plan_rows(device, u32, x.rows)
    compiled = device.compile(COUNT_TARGETS, lanes=plan.lanes, plan=plan)
    width = x.rows // plan.vector
    device.launch(compiled, 1, width, x.columns, ignored, int(mean), targets.memory, counts)
    return counts


def _check_targets(
    device: AnyDevice, x: Tensor, targets: Tensor, ignored: int, counts: Buffer
) -> None:
    """Raise InputError, naming the first wrong target, if there is one."""
    host_counts = np.empty(2, np.float32)
    device.download(counts, host_counts)
    if not host_counts[1]:
        return
    were_counted = host_counts[1] != _NOT_COUNTED
    host_targets = targets.memory
    if isinstance(host_targets, Buffer):
        host_targets = np.empty(targets.shape, targets.dtype)
        device.download(targets.memory, host_targets)
    wrong = ((host_targets < 0) | (host_targets >= x.columns)) & (
        host_targets.view(np.uint32) != ignored % _U32_RANGE
    )
    wrong_indices = np.argwhere(wrong)
    if not (were_counted and len(wrong_indices)):
        raise not_written(device, "how many targets are no classes")
    first_wrong = tuple(map(int, wrong_indices[0]))
    index_text = ", ".join(map(str, first_wrong))
    raise InputError(
        f"targets[{index_text}] is {host_targets[first_wrong]}, and the {x.columns} classes are "
        f"counted from 0; {len(wrong_indices)} such, and {ignored} would be ignored"
    )


def _launch_rows(
    device: AnyDevice, x: Tensor, targets: Tensor, ignored: int, scale: float, counts: Buffer,
    losses: Any, gradient_tensor: Tensor | None,
) -> None:  # fmt: skip
    """Launch the kernel of the losses, and of the gradient if `gradient_tensor` is given."""
    if not math.prod(x.shape):
        return
    plan = plan_rows(device, x.element, x.columns)
    kernel = CROSS_ENTROPY[x.element, gradient_tensor is not None]
    compiled = device.compile(kernel, lanes=plan.lanes, element=x.element, plan=plan)
    memory = [x.memory, targets.memory, counts, losses]
    if gradient_tensor is not None:
        memory.append(gradient_tensor.memory)
    width = x.columns // plan.vector
    device.launch(compiled, plan.groups(x.rows), x.rows, width, ignored, scale, *memory)
