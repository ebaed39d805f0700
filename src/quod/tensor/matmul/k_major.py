"""Operands transposed to lines along k, as tensor cores need for 8-bit types and f32."""

from __future__ import annotations

from typing import Any, TypeVar

from quod.device.protocol import AnyDevice
from quod.frozen import replace
from quod.kernel.ir.types import FLOATS8
from quod.kernel.machine import Capability
from quod.tensor.arrays import Tensor, reached
from quod.tensor.matmul.form import TransposeFlags
from quod.tensor.permute.transposition import transpose
from quod.tensor.rows.plan import WIDEST

_Form = TypeVar("_Form", bound=TransposeFlags)

LEAST = 256
"""The sizes from which transposing operands is faster than a product without tensor cores."""


def is_along_k(form: TransposeFlags) -> bool:
    """Return true if lines of both operands are along k."""
    return form.transpose_b and not form.transpose_a


def along_k(
    device: AnyDevice, operands: tuple[Tensor, Tensor], form: _Form, sizes: tuple[int, int, int]
) -> tuple[list[Any], _Form]:
    """Return the memory of both operands, and their form.

    Operands of a large product that tensor cores support are transposed to new memory if their
    lines are not along k; others are returned as they are.

    sizes: m, n and k.
    """
    a, b = operands
    suits = min(sizes) >= LEAST and sizes[2] * a.element.bytes % WIDEST == 0
    floats = a.element in FLOATS8
    needed = Capability.FLOAT8_CORES if floats else Capability.TENSOR_CORES
    if not suits or not device.machine(device.lanes).has(needed):
        return [a.memory, b.memory], form
    memory = [
        _turned(device, a) if form.transpose_a else a.memory,
        b.memory if form.transpose_b else _turned(device, b),
    ]
    return memory, replace(form, transpose_a=False, transpose_b=True)


def _turned(device: AnyDevice, operand: Tensor) -> Any:
    *leading, rows, columns = range(len(operand.shape))
    return transpose(device, reached(device, operand.memory), (*leading, columns, rows))
