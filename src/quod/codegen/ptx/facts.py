"""Static facts about indices and addresses: known multiples and upper bounds.

A power of two that divides an address determines how wide an access may be. An upper bound proves
that a 32-bit sum does not wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.kernel.ir import types
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.types import PointerType
from quod.kernel.ir.value import Value

MOST = 1 << 63
"""The multiple of zero, which every power of two divides."""

BASE_ALIGNMENT = 16
"""The alignment of buffers and shared arrays, in bytes."""

_MAX_DEPTH = 48  # ops; longer chains are not index arithmetic


def power_of_two(number: int) -> int:
    """Return the largest power of two that divides a number."""
    return MOST if number == 0 else min(MOST, number & -number)


class Facts:
    """Facts about the values of one body; unknown values are multiples of 1.

    Multiples of pointers are in bytes. Integers wrap modulo a power of two, which preserves
    divisors that are powers of two.
    """

    def __init__(self, workgroup_size: int) -> None:
        self._workgroup_size = workgroup_size
        self._multiples: dict[Value, int] = {}
        self._maxima: dict[Value, int] = {}

    def assume(self, value: Value, multiple: int, maximum: int | None = None) -> None:
        """Set the facts of a value that is not the result of an op."""
        self._multiples[value] = multiple
        if maximum is not None:
            self._maxima[value] = maximum

    def assume_carried(
        self, carried: Sequence[Value], initial: Sequence[Value], following: Sequence[Value]
    ) -> None:
        """Set the multiples of a loop's carried values, as a fixed point over iterations."""
        outer_multiples = dict(self._multiples)
        multiples = [self.multiple(value) for value in initial]
        while True:
            self._multiples = dict(outer_multiples)
            self._multiples.update(zip(carried, multiples, strict=True))
            next_multiples = [
                min(m, self.multiple(v)) for m, v in zip(multiples, following, strict=True)
            ]
            if next_multiples == multiples:
                break
            multiples = next_multiples
        # Drop the multiples cached for values in the body, which predate inner loops' facts.
        self._multiples = outer_multiples
        self._multiples.update(zip(carried, multiples, strict=True))

    def multiple(self, value: Value, depth: int = 0) -> int:
        """Return the largest power of two known to divide a value."""
        divisor = self._multiples.get(value)
        if divisor is None:
            divisor = self._find_multiple(value, depth)
            self._multiples[value] = divisor
        return divisor

    def maximum(self, value: Value, depth: int = 0) -> int:
        """Return an upper bound of an unsigned value."""
        bound = self._maxima.get(value)
        if bound is None:
            type_maximum = (1 << value.type.bits) - 1
            bound = min(type_maximum, self._find_maximum(value, type_maximum, depth))
            self._maxima[value] = bound
        return bound

    def _find_multiple(self, value: Value, depth: int) -> int:
        op = value.op
        if op is None or depth > _MAX_DEPTH or value.type.kind in ("float", "bool", "carry"):
            return _type_multiple(value)
        number = value.constant
        if number is not None:
            return power_of_two(int(number))
        if op.definition.declares:
            return BASE_ALIGNMENT
        if op.name == "if":
            result_index = next(n for n, result in enumerate(op.results) if result is value)
            return min(
                self.multiple(region.yielded[result_index], depth + 1) for region in op.regions
            )
        rule = _MULTIPLES.get(op.name)
        if rule is None:
            return _type_multiple(value)
        if op.name == "pointer_add":
            assert isinstance(value.type, PointerType)
            step = self.multiple(op.operands[1], depth + 1) * value.type.element.bytes
            return min(self.multiple(op.operands[0], depth + 1), power_of_two(step))
        multiples = [self.multiple(operand, depth + 1) for operand in op.operands]
        return min(MOST, rule(op, multiples))

    def _find_maximum(self, value: Value, type_maximum: int, depth: int) -> int:
        op = value.op
        if op is None or depth > _MAX_DEPTH or value.type.kind != "unsigned":
            return type_maximum
        number = value.constant
        if number is not None:
            return int(number)
        if op.name == "local_id":
            return self._workgroup_size - 1
        if op.name == "load":
            pointer = op.operands[0].type
            assert isinstance(pointer, PointerType)
            return (1 << pointer.element.bits) - 1
        if op.name not in _MAXIMA:
            return type_maximum
        if any(operand.type.kind not in ("unsigned", "bool") for operand in op.operands):
            return type_maximum
        operand_bounds = [self.maximum(operand, depth + 1) for operand in op.operands]
        bound = _MAXIMA[op.name](op, operand_bounds)
        return type_maximum if bound is None or bound > type_maximum else bound


def _type_multiple(value: Value) -> int:
    """Return the multiple implied by a value's type: a pointer is aligned to its element."""
    return value.type.element.bytes if isinstance(value.type, PointerType) else 1


def _shifted_multiple(op: Op, multiples: list[int]) -> int:
    amount = op.operands[1].constant
    return 1 if amount is None else multiples[0] << (int(amount) % op.operands[0].type.bits)


_MULTIPLES: dict[str, Callable[[Op, list[int]], int]] = {
    "add": lambda op, multiples: min(multiples),
    "sub": lambda op, multiples: min(multiples),
    "mul": lambda op, multiples: multiples[0] * multiples[1],
    "mul_wide": lambda op, multiples: multiples[0] * multiples[1],
    "shl": _shifted_multiple,
    "and": lambda op, multiples: max(multiples),
    "or": lambda op, multiples: min(multiples),
    "xor": lambda op, multiples: min(multiples),
    "neg": lambda op, multiples: multiples[0],
    "min": lambda op, multiples: min(multiples),
    "max": lambda op, multiples: min(multiples),
    "rem": lambda op, multiples: min(multiples),
    "select": lambda op, multiples: min(multiples[1:]),
    "uniform": lambda op, multiples: multiples[0],
    "convert": lambda op, multiples: multiples[0] if op.operands[0].type.is_integer else 1,
    "bitcast": lambda op, multiples: multiples[0] if op.operands[0].type.is_integer else 1,
    "pointer_cast": lambda op, multiples: multiples[0],
    "pointer_add": lambda op, multiples: min(multiples),
}


def _shifted_down(op: Op, maxima: list[int]) -> int | None:
    amount = op.operands[1].constant
    return None if amount is None else maxima[0] >> (int(amount) % op.operands[0].type.bits)


def _shifted_up(op: Op, maxima: list[int]) -> int | None:
    amount = op.operands[1].constant
    return None if amount is None else maxima[0] << (int(amount) % op.operands[0].type.bits)


def _remainder(op: Op, maxima: list[int]) -> int:
    divisor = op.operands[1].constant
    return min(maxima[0], int(divisor) - 1) if divisor else maxima[0]


def _quotient(op: Op, maxima: list[int]) -> int | None:
    divisor = op.operands[1].constant
    return maxima[0] // int(divisor) if divisor else None


_MAXIMA: dict[str, Callable[[Op, list[int]], int | None]] = {
    "add": lambda op, maxima: sum(maxima),
    "mul": lambda op, maxima: maxima[0] * maxima[1],
    "mul_wide": lambda op, maxima: maxima[0] * maxima[1],
    "shl": _shifted_up,
    "shr": _shifted_down,
    "and": lambda op, maxima: min(maxima),
    "or": lambda op, maxima: (1 << max(maximum.bit_length() for maximum in maxima)) - 1,
    "xor": lambda op, maxima: (1 << max(maximum.bit_length() for maximum in maxima)) - 1,
    "min": lambda op, maxima: min(maxima),
    "max": lambda op, maxima: max(maxima),
    "rem": _remainder,
    "div": _quotient,
    "select": lambda op, maxima: max(maxima[1:]),
    "uniform": lambda op, maxima: maxima[0],
    "convert": lambda op, maxima: maxima[0] if op.results[0].type is not types.bool_ else 1,
}
