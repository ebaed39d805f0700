"""How indices differ between the lanes of a vector."""

from __future__ import annotations

from quod.kernel.uniformity import Uniformity
from quod.kernel.value import Value


class LaneStrides:
    """How much an index grows from one lane to the next, where that is a known constant."""

    def __init__(self, uniformity: Uniformity) -> None:
        self._uniformity = uniformity
        self._known: dict[Value, int | None] = {}

    def of(self, value: Value) -> int | None:
        if not self._uniformity.is_varying(value):
            return 0
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: Value) -> int | None:
        op = value.op
        if op is None:
            return None
        if op.name == "local_id":
            return 1
        if op.name == "convert" and value.type.bits >= op.operands[0].type.bits:
            return self.of(op.operands[0])
        if op.name in ("add", "sub", "mul", "shl"):
            a, b = (self.of(operand) for operand in op.operands)
            if a is None or b is None:
                return None
            if op.name in ("add", "sub"):
                return a + b if op.name == "add" else a - b
            x, y = (operand.constant for operand in op.operands)
            if op.name == "mul" and isinstance(y, int):
                return a * y
            if op.name == "mul" and isinstance(x, int):
                return b * x
            if op.name == "shl" and isinstance(y, int):
                return a << y
        return None
