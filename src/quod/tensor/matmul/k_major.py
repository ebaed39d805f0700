"""Transposition of operands to lines along k, as tensor cores require for 8-bit types and f32."""

from __future__ import annotations

from typing import Any, TypeVar

from quod.device.protocol import AnyDevice
from quod.frozen import replace
from quod.kernel.ir.types import FLOATS8
from quod.kernel.machine import Capability
from quod.tensor.arrays import Tensor, on_device
from quod.tensor.matmul.form import TransposeFlags
from quod.tensor.permute.transposition import transpose
from quod.tensor.rows.plan import WIDEST

_Form = TypeVar("_Form", bound=TransposeFlags)

LEAST = 256
"""The size from which transposing the operands is faster than a product without tensor cores."""


def is_along_k(form: TransposeFlags) -> bool:
    """Return true if lines of both operands are along k."""
    return form.transpose_b and not form.transpose_a


def along_k(
    device: AnyDevice, operands: tuple[Tensor, Tensor], form: _Form, sizes: tuple[int, int, int]
) -> tuple[list[Any], _Form]:
    """Return the memory of both operands with lines along k if that is faster, and the form.

    In a large product that tensor cores can multiply, an operand whose lines are not along k is
    transposed to new memory. Otherwise both operands and the form are returned unchanged.

    sizes: m, n and k.
    """
    a, b = operands
    is_large = min(sizes) >= LEAST and sizes[2] * a.element.bytes % WIDEST == 0
    is_float8 = a.element in FLOATS8
    capability = Capability.FLOAT8_CORES if is_float8 else Capability.TENSOR_CORES
    if not is_large or not device.machine(device.lanes).has(capability):
        return [a.memory, b.memory], form
    memory = [
        _transposed_operand(device, a) if form.transpose_a else a.memory,
        b.memory if form.transpose_b else _transposed_operand(device, b),
    ]
    return memory, replace(form, transpose_a=False, transpose_b=True)


def _transposed_operand(device: AnyDevice, operand: Tensor) -> Any:
    *leading, rows, columns = range(len(operand.shape))
    return transpose(device, on_device(device, operand.memory), (*leading, columns, rows))
