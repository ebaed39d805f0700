"""Constant folding per lane: values that depend only on the lane's index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quod.codegen.llvm.settled import settled
from quod.kernel.ir.value import Value
from quod.kernel.ops.scalar import NUMPY_TYPES, OPS

Lanes = np.ndarray[Any, np.dtype[Any]]


class KnownLanes:
    """The values per lane that are known statically."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._known: dict[Value, Lanes | None] = {}

    def of(self, value: Value) -> Lanes | None:
        """Return a value's number in each lane, or None if not known."""
        return settled(value, self._known, _operands, self._computed)

    def _computed(self, value: Value) -> Lanes | None:
        if value.constant is not None:
            return np.full(self._lanes, value.constant, NUMPY_TYPES[value.type])
        op = value.op
        if op is None:
            return None
        if op.name == "local_id":
            return np.arange(self._lanes, dtype=np.uint32)
        evaluate = OPS[op.name].evaluate
        operands = [self._known[operand] for operand in _operands(value)]
        if evaluate is None or any(operand is None for operand in operands):
            return None
        with np.errstate(all="ignore"):
            result = evaluate(*operands)
        return result if isinstance(result, np.ndarray) else None


def _operands(value: Value) -> Sequence[Value]:
    """Return the operands that a value is evaluated from."""
    op = value.op
    if value.constant is not None or op is None or OPS[op.name].evaluate is None:
        return ()
    return op.operands
