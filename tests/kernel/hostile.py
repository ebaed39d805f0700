"""Operands that break things: zero, one, all ones, the ends of every range."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import numpy as np

from quod.kernel.ir import types
from quod.kernel.ir.types import Type
from quod.kernel.ops.scalar import NUMPY_TYPES

Number = int | float | bool


def _integers(bits: int, signed: bool) -> list[int]:
    edges = {0, 1, 2, 3, 7, 31, 32, 33, 52, 63, 64, 65, 0x5555_5555, 0x0123_4567}
    for power in {7, 8, 15, 16, 26, 31, 32, 51, 52, 53, 62, 63, bits - 1}:
        edges |= {(1 << power) - 1, 1 << power, (1 << power) + 1}
    values = {value for edge in edges for value in (edge, -edge, ~edge)}
    low = -(1 << (bits - 1)) if signed else 0
    high = 1 << (bits - signed)
    wrapped = {(value - low) % (1 << bits) + low for value in values}
    assert all(low <= value < high for value in wrapped)
    return sorted(wrapped)


def _floats(bits: int) -> list[float]:
    code, integer, mantissa = ("f", "I", 23) if bits == 32 else ("d", "Q", 52)

    def made(pattern: int) -> float:
        number: float = struct.unpack(f"<{code}", struct.pack(f"<{integer}", pattern))[0]
        return number

    one_bits = {32: 127, 64: 1023}[bits] << mantissa
    infinity = ((1 << (bits - 1 - mantissa)) - 1) << mantissa
    patterns = [
        0, 1, 2, (1 << mantissa) - 1, 1 << mantissa, one_bits, one_bits + 1, one_bits - 1,
        infinity - 1, infinity, infinity | 1 << (mantissa - 1),
    ]  # fmt: skip
    values = [made(pattern) for pattern in patterns]
    values += [0.5, 1.5, 2.5, 3.0, 1e-3, 2.0**24, 2.0**24 - 1, 2.0**31, 2.0**32, 2.0**63, 2.0**64]
    values += [2.0**32 - 512, 2.0**63 * (1 - 2.0**-24), 255.75, 16777217.0, 1 / 3]
    narrow = [float(NUMPY_TYPES[types.f32](v)) if bits == 32 else v for v in values]  # type: ignore[arg-type]
    return [sign * value for value in narrow for sign in (1, -1)]


def hostile(type_: Type) -> list[Number]:
    """Values of one type."""
    if type_ is types.bool_ or type_ is types.cc:
        return [False, True]
    if type_.kind == "float":
        return list(_floats(type_.bits))
    return list(_integers(type_.bits, type_.kind == "signed"))


def hostile_arrays(operand_types: list[Type], limit: int = 4096) -> list[np.ndarray[Any, Any]]:
    """Combinations of hostile values, one array an operand; a fixed sample if they are many."""
    choices = [hostile(type_) for type_ in operand_types]
    total = int(np.prod([len(choice) for choice in choices]))
    if total <= limit:
        rows = list(itertools.product(*choices))
    else:
        random = np.random.default_rng(total)
        rows = [
            tuple(choice[int(random.integers(len(choice)))] for choice in choices)
            for _ in range(limit)
        ]
    count = -(-len(rows) // 8) * 8
    rows += rows[:1] * (count - len(rows))
    columns = list(zip(*rows, strict=True))
    return [
        np.array(column, NUMPY_TYPES[type_])
        for column, type_ in zip(columns, operand_types, strict=True)
    ]
