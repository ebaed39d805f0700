"""Constant folding and algebraic identities."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Recorder, Value
from quod.kernel.ops.scalar import NUMPY_TYPES, OPS


def fold(
    builder: Recorder, name: str, operands: Sequence[Value], result_types: Sequence[Type]
) -> Value | None:
    """Return a simpler value equal to the op's result, or None.

    Identities apply to integers and bools; ops on floats are folded only if all are constant.
    """
    numbers = [operand.constant for operand in operands]
    if name == "select" and operands[1] is operands[2]:
        return operands[1]
    if numbers.count(None) == len(numbers):
        return None
    definition = OPS[name]
    evaluate = definition.evaluate
    if evaluate is not None and None not in numbers:
        arrays = [
            np.array([number], NUMPY_TYPES[operand.type])
            for number, operand in zip(numbers, operands, strict=True)
        ]
        with np.errstate(all="ignore"):
            result = evaluate(*arrays)
        assert isinstance(result, np.ndarray)
        return builder.constant(result[0].item(), result_types[0])
    if name == "select":
        condition, a, b = operands
        if condition.constant is None:
            return None
        return a if condition.constant else b
    if len(operands) != 2:
        return None
    a, b = operands
    if definition.commutative and a.constant is not None:
        a, b = b, a
    if b.constant is None:
        return None
    is_identity = _neutral_operands(name, b.type).get(b.constant)
    if is_identity is None:
        return None
    return a if is_identity else b


@cache
def _neutral_operands(name: str, type_: Type) -> dict[int | float, bool]:
    """Return the op's identity (True) and absorber (False) as numbers of a type, if it has them."""
    if type_.kind not in ("unsigned", "signed", "bool"):
        return {}
    row, low = OPS[name], -(1 << (type_.bits - 1)) if type_.kind == "signed" else 0
    pairs = ((row.absorber, False), (row.identity, True))
    return {
        (number - low) % (1 << type_.bits) + low: is_identity
        for number, is_identity in pairs
        if number is not None
    }
