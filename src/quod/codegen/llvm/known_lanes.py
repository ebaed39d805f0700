"""What every lane has of a value that follows from the numbers of the lanes alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.kernel.ops import NUMPY_TYPES, OPS
from quod.kernel.value import Value

Lanes = NDArray[Any]


def known_lanes(value: Value, lanes: int) -> Lanes | None:
    """The numbers of so many lanes, None where they are not known before the kernel runs."""
    return _known(value, lanes, {})


def _known(value: Value, lanes: int, found: dict[Value, Lanes | None]) -> Lanes | None:
    if value not in found:
        found[value] = _computed(value, lanes, found)
    return found[value]


def _computed(value: Value, lanes: int, found: dict[Value, Lanes | None]) -> Lanes | None:
    if value.constant is not None:
        return np.full(lanes, value.constant, NUMPY_TYPES[value.type])
    op = value.op
    if op is None:
        return None
    if op.name == "local_id":
        return np.arange(lanes, dtype=np.uint32)
    evaluate = OPS[op.name].evaluate
    if evaluate is None:
        return None
    operands = [_known(operand, lanes, found) for operand in op.operands]
    if any(operand is None for operand in operands):
        return None
    with np.errstate(all="ignore"):
        result = evaluate(*operands)
    return result if isinstance(result, np.ndarray) else None
