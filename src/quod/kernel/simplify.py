"""Folding: constants, and identities that hold for every value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.kernel import types
from quod.kernel.ops import NUMPY_TYPES, OPS
from quod.kernel.types import Type
from quod.kernel.value import Recorder, Value

_RIGHT_ZERO_IS_IDENTITY = frozenset({"add", "sub", "or", "xor", "shl", "shr"})
_COMMUTATIVE = frozenset({"add", "or", "xor", "and", "mul"})


def fold(
    builder: Recorder, name: str, operands: Sequence[Value], result_types: Sequence[Type]
) -> Value | None:
    """A simpler value equal to the op's result, or None. Floats are folded only if all constant."""
    if not operands:
        return None
    evaluate = OPS[name].evaluate
    if evaluate is not None and all(operand.constant is not None for operand in operands):
        arrays = [np.array([value.constant], NUMPY_TYPES[value.type]) for value in operands]
        with np.errstate(all="ignore"):
            result = evaluate(*arrays)
        assert isinstance(result, np.ndarray)
        return builder.constant(result[0].item(), result_types[0])
    if name == "select":
        condition, a, b = operands
        if condition.constant is not None:
            return a if condition.constant else b
        return a if a is b else None
    if len(operands) != 2 or operands[0].type.kind not in ("unsigned", "signed", "bool"):
        return None
    a, b = operands
    if name in _COMMUTATIVE and a.constant is not None:
        a, b = b, a
    return _fold_right_constant(builder, name, a, b)


def _fold_right_constant(builder: Recorder, name: str, a: Value, b: Value) -> Value | None:
    number = b.constant
    if number is None:
        return None
    if number == 0:
        if name in _RIGHT_ZERO_IS_IDENTITY:
            return a
        if name in ("and", "mul", "mul_hi") and a.type is not types.bool_:
            return builder.constant(0, a.type)
    if number == 1 and name in ("mul", "div"):
        return a
    if name == "and" and a.type.kind == "unsigned" and number == (1 << a.type.bits) - 1:
        return a
    if a.type is types.bool_:
        if name == "and":
            return a if number else b
        if name == "or":
            return b if number else a
    return None
