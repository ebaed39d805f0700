"""Stride analysis: the differences of indices between the lanes of a vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quod.codegen.llvm.settled import settled
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.value import Value
from quod.kernel.verifier.uniformity import Uniformity

_LOG_LANES = 10
"""The base-2 logarithm of the maximum number of lanes."""


class LaneStrides:
    """The strides of indices from one lane to the next, if they are known constants."""

    def __init__(self, uniformity: Uniformity) -> None:
        self._uniformity = uniformity
        self._known: dict[Value, int | None] = {}
        self._carried: set[Value] = set()
        self._unwrapped: dict[Value, bool] = {}

    def of(self, value: Value) -> int | None:
        return settled(value, self._known, self._operands, self._find)

    def count(self, index: Value, start: Value, step: Value) -> None:
        """Register a loop's index: with a uniform step it keeps the stride of its start."""
        self._unwrapped[index] = self.never_wraps(start)
        if self.of(step) == 0:
            self._known[index] = self.of(start)

    def carry(self, carried: Iterable[Value]) -> None:
        """Register values carried by loops or passed to functions, of which nothing is known."""
        self._carried.update(carried)

    def never_wraps(self, value: Value) -> bool:
        """Return whether no lane's index has wrapped around below zero: nothing is subtracted.

        Sums may have overflowed in the index's own width, but not in a narrower one before a
        widening.
        """
        return settled(value, self._unwrapped, self._unwrapped_operands, self._is_unwrapped)

    def _is_unwrapped(self, value: Value) -> bool:
        if value.op is None:
            return value not in self._carried
        may_wrap = value.op.name not in _UNWRAPPED_OPERANDS or self._widens_a_sum(value.op)
        return not may_wrap and all(
            self._unwrapped[operand] for operand in self._unwrapped_operands(value)
        )

    def _unwrapped_operands(self, value: Value) -> tuple[Value, ...]:
        rule = None if value.op is None else _UNWRAPPED_OPERANDS.get(value.op.name)
        return () if value.op is None or rule is None else rule(value.op)

    def _widens_a_sum(self, op: Op) -> bool:
        """Return whether an op widens a varying value that may have overflowed in some lanes."""
        if op.name != "convert":
            return False
        (operand,) = op.operands
        is_local_id = operand.op is not None and operand.op.name == "local_id"
        is_wider = op.results[0].type.bits > operand.type.bits
        return is_wider and self._uniformity.is_varying(operand) and not is_local_id

    def _operands(self, value: Value) -> tuple[Value, ...]:
        """Return the operands that determine a value's stride."""
        op = value.op
        if op is None or op.name not in _RULES or not value.type.is_integer:
            return ()
        return op.operands if self._uniformity.is_varying(value) else ()

    def _find(self, value: Value) -> int | None:
        if not self._uniformity.is_varying(value):
            return 0
        op = value.op
        rule = None if op is None or not value.type.is_integer else _RULES.get(op.name)
        if op is None or rule is None:
            return None
        strides = [self._known[operand] for operand in op.operands]
        known_strides = [stride for stride in strides if stride is not None]
        lane_stride = rule(op, known_strides) if len(known_strides) == len(strides) else None
        return None if lane_stride is None else _as_number(lane_stride, value.type.bits)


def _as_number(stride: int, bits: int) -> int | None:
    """Interpret a stride as a signed number; None if it is so large that lanes may wrap around."""
    half = 1 << (bits - 1)
    stride = (stride + half) % (2 * half) - half
    return stride if abs(stride) < half >> _LOG_LANES else None


def _conversion(op: Op, strides: list[int]) -> int | None:
    return strides[0] if op.results[0].type.bits >= op.operands[0].type.bits else None


def _product(op: Op, strides: list[int]) -> int | None:
    x, y = (operand.constant for operand in op.operands)
    if isinstance(y, int):
        return strides[0] * y
    return strides[1] * x if isinstance(x, int) else None


def _shifted(op: Op, strides: list[int]) -> int | None:
    amount = op.operands[1].constant
    return strides[0] << amount % op.results[0].type.bits if isinstance(amount, int) else None


_RULES: dict[str, Callable[[Op, list[int]], int | None]] = {
    "local_id": lambda op, strides: 1,
    "convert": _conversion,
    "add": lambda op, strides: strides[0] + strides[1],
    "sub": lambda op, strides: strides[0] - strides[1],
    "mul": _product,
    "shl": _shifted,
}
"""The stride of an op's result as a function of its operands' strides."""


def _nothing(_op: Op) -> tuple[Value, ...]:
    return ()


def _first(op: Op) -> tuple[Value, ...]:
    return op.operands[:1]


def _every(op: Op) -> tuple[Value, ...]:
    return op.operands


_UNWRAPPED_OPERANDS: dict[str, Callable[[Op], tuple[Value, ...]]] = {
    "local_id": _nothing,
    "workgroup_id": _nothing,
    "const": _nothing,
    "add": _every,
    "mul": _every,
    "min": _every,
    "convert": _first,
    "div": _first,
    "rem": _first,
    "shl": _first,
    "shr": _first,
}
"""The ops that do not subtract, with the operands that must not have wrapped around either."""
