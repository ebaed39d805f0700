"""Constant folding and algebraic identities."""

from __future__ import annotations

from collections.abc import Sequence

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
    if len(operands) != 2 or operands[0].type.kind not in ("unsigned", "signed", "bool"):
        return None
    a, b = operands
    if definition.commutative and a.constant is not None:
        a, b = b, a
    number = b.constant
    if number is None:
        return None
    # Compare modulo 2**bits: -1 stands for all ones.
    mask = (1 << b.type.bits) - 1
    for constant, value in ((definition.identity, a), (definition.absorber, b)):
        if constant is not None and (int(number) ^ constant) & mask == 0:
            return value
    return None
