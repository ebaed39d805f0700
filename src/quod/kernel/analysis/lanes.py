"""What is known, before a kernel runs, of how a value differs between the lanes of a workgroup.

A value is a base that all lanes share, known or not, plus an offset for each lane; or it varies in
a way that is not known, for a reason. So the distance between the addresses of two lanes is exact
wherever it does not depend on data, be it affine in the lane's index or not (a swizzle, say).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Literal

import numpy as np

from quod.frozen import frozen
from quod.kernel.ir import Location, Op
from quod.kernel.ops import NUMPY_TYPES, OPS
from quod.kernel.semantics import Array, convert

Kind = Literal["data", "stride", "boundary", "other lane", "control", "arithmetic"]

WARP = 32

_FAR = 1 << 60  # offsets beyond are no distances that mean anything
MOST = 1 << 62
"""A power of two that any other divides: that of the base 0."""


@frozen
class Reason:
    """Why a value varies: what it comes from, and where that stands."""

    kind: Kind
    location: Location

    def __str__(self) -> str:
        return _REASONS[self.kind]


_REASONS: dict[Kind, str] = {
    "data": "depends on data loaded at",
    "stride": "has a distance between lanes that is known at run time only, at",
    "boundary": "compares the lane with a limit at",
    "other lane": "takes what other lanes have at",
    "control": "depends on the way that a lane took at",
    "arithmetic": "is computed of the lane in a way that is not followed, at",
}


@frozen(eq=False)
class Lanes:
    """A value over lanes. `base` is None where the offsets are the value itself.

    `multiple` is a power of two that divides the base. Without offsets, `reason` says why; it may
    then be known all the same that the lanes of each warp agree (`by_warp`).
    """

    offsets: Array | None
    base: Hashable | None = None
    multiple: int = MOST
    reason: Reason | None = None
    by_warp: bool = False

    @property
    def uniform_in_warps(self) -> bool:
        """Whether the lanes of each warp have the same value."""
        if self.offsets is None:
            return self.by_warp
        first = np.arange(len(self.offsets)) // WARP * WARP
        return bool((self.offsets == self.offsets[first]).all())

    @property
    def known(self) -> bool:
        return self.offsets is not None and self.base is None

    @property
    def uniform(self) -> bool:
        """Whether all lanes have the same value."""
        return self.offsets is not None and bool((self.offsets == self.offsets[0]).all())

    @property
    def number(self) -> int | None:
        """The value, if it is known and the same for all lanes."""
        if self.known and self.uniform:
            assert self.offsets is not None
            return int(self.offsets[0])
        return None


def varying(kind: Kind, location: Location) -> Lanes:
    return Lanes(None, reason=Reason(kind, location))


def shared_unknown(lanes: int, multiple: int = 1) -> Lanes:
    """A value that is the same for all lanes, and not known."""
    return Lanes(np.zeros(lanes, np.int64), object(), multiple)


def known(values: Array) -> Lanes:
    return Lanes(values.astype(np.int64))


def power_of_two(number: int) -> int:
    """The largest power of two that divides a number."""
    return MOST if number == 0 else min(MOST, number & -number)


def _reason(operands: list[Lanes]) -> Reason | None:
    """Of several reasons data counts most."""
    reasons = [operand.reason for operand in operands if operand.reason is not None]
    if not reasons:
        return None
    return next((reason for reason in reasons if reason.kind == "data"), reasons[0])


def _followed(operands: list[Lanes], op: Op) -> Lanes | None:
    """What follows without looking at the op: varying operands vary, shared ones are shared."""
    reason = _reason(operands)
    if reason is not None:
        by_warp = all(operand.uniform_in_warps for operand in operands)
        return Lanes(None, reason=reason, by_warp=by_warp)
    if all(operand.uniform for operand in operands) and not all(o.known for o in operands):
        assert operands[0].offsets is not None
        return shared_unknown(len(operands[0].offsets))
    return None


def _add(a: Lanes, b: Lanes, sign: int) -> Lanes:
    assert a.offsets is not None
    assert b.offsets is not None
    offsets = a.offsets + sign * b.offsets
    if sign < 0 and a.base == b.base:
        return Lanes(offsets)
    if b.base is None:
        return Lanes(offsets, a.base, a.multiple)
    base: Hashable = b.base if a.base is None and sign > 0 else (sign, a.base, b.base)
    return Lanes(offsets, base, min(a.multiple, b.multiple))


def _scale(a: Lanes, factor: int) -> Lanes | None:
    assert a.offsets is not None
    if int(np.abs(a.offsets).max()) * abs(factor) > _FAR:
        return None
    base = None if a.base is None else ("*", a.base, factor)
    return Lanes(a.offsets * factor, base, min(MOST, a.multiple * power_of_two(factor)))


def _multiply(a: Lanes, b: Lanes, op: Op) -> Lanes | None:
    for one, other in ((a, b), (b, a)):
        number = one.number
        if number is not None:
            return _scale(other, number)
    return varying("stride", op.location)


def _low_bits(a: Lanes, bits: int) -> Lanes | None:
    """a modulo 2**bits, if the base has no part in it."""
    assert a.offsets is not None
    if a.multiple >= 1 << bits:
        return Lanes(a.offsets & ((1 << bits) - 1))
    return None


def _shift_down(a: Lanes, bits: int) -> Lanes | None:
    assert a.offsets is not None
    if a.multiple >= 1 << bits:
        base = None if a.base is None else (">>", a.base, bits)
        return Lanes(a.offsets >> bits, base, MOST if base is None else a.multiple >> bits)
    return None


def _exponent(number: int | None) -> int | None:
    if number is None or number <= 0 or number & (number - 1):
        return None
    return number.bit_length() - 1


def _bitwise(a: Lanes, b: Lanes, op: Op) -> Lanes | None:
    """and with ones at the bottom; or and xor of what lies below the base's lowest bit."""
    if b.base is not None:
        a, b = b, a
    if b.base is not None or b.offsets is None or a.offsets is None:
        return None
    if op.name == "and":
        bits = _exponent(None if b.number is None else b.number + 1)
        return None if bits is None else _low_bits(a, bits)
    if any(((x < 0) | (x >= a.multiple)).any() for x in (a.offsets, b.offsets)):
        return None
    both: Callable[[Array, Array], Array] = np.bitwise_or if op.name == "or" else np.bitwise_xor
    return Lanes(both(a.offsets, b.offsets), a.base, a.multiple)


def _of_known(op: Op, operands: list[Lanes]) -> Lanes | None:
    """The op itself, of numbers that are all known."""
    type_ = op.results[0].type
    if op.name == "convert":
        values = _typed(operands[0], op)
        return None if values is None else _back(convert(values, type_))
    evaluate = OPS[op.name].evaluate
    if evaluate is None or len(op.results) != 1:
        return None
    given = [_typed(operand, op, at) for at, operand in enumerate(operands)]
    if any(values is None for values in given):
        return None
    with np.errstate(all="ignore"):
        made = evaluate(*given)
    return None if isinstance(made, tuple) else _back(made)


def _typed(operand: Lanes, op: Op, at: int = 0) -> Array | None:
    type_ = op.operands[at].type
    if type_.kind not in ("unsigned", "signed", "bool") or operand.offsets is None:
        return None
    with np.errstate(all="ignore"):
        return operand.offsets.astype(NUMPY_TYPES[type_])


def _back(values: Array) -> Lanes | None:
    if values.dtype.kind == "f" or (values.dtype == np.uint64 and (values > _FAR).any()):
        return None
    return known(values)


def combine(op: Op, operands: list[Lanes]) -> Lanes:
    """The one result of an op that computes."""
    followed = _followed(operands, op)
    if followed is not None:
        return _with_multiple(op, operands, followed)
    if all(operand.known for operand in operands):
        exact = _of_known(op, operands)
        if exact is not None:
            return exact
        lanes = operands[0].offsets
        assert lanes is not None
        if all(operand.uniform for operand in operands):
            return shared_unknown(len(lanes))
        return varying("arithmetic", op.location)
    found: Lanes | None = None
    a, b = operands[0], operands[-1]
    match op.name:
        case "add":
            found = _add(a, b, 1)
        case "sub":
            found = _add(a, b, -1)
        case "mul" | "mul_wide":
            found = _multiply(a, b, op)
        case "neg":
            found = _scale(a, -1)
        case "shl" if b.number is not None:
            found = _scale(a, 1 << b.number % op.results[0].type.bits)
        case "shr" if b.number is not None:
            found = _shift_down(a, b.number % op.results[0].type.bits)
        case "div":
            bits = _exponent(b.number)
            found = None if bits is None else _shift_down(a, bits)
        case "rem":
            bits = _exponent(b.number)
            found = None if bits is None else _low_bits(a, bits)
        case "and" | "or" | "xor":
            found = _bitwise(a, b, op)
        case "convert" | "bitcast" if op.results[0].type.is_integer:
            found = a
        case "eq" | "ne" | "lt" | "le":
            if a.base == b.base:
                return combine(op, [Lanes(a.offsets), Lanes(b.offsets)])
            by_warp = a.uniform_in_warps and b.uniform_in_warps
            found = Lanes(None, reason=Reason("boundary", op.location), by_warp=by_warp)
        case "select":
            found = _select(operands)
    return found if found is not None else varying("arithmetic", op.location)


def _select(operands: list[Lanes]) -> Lanes | None:
    condition, a, b = operands
    if a.offsets is None or b.offsets is None or condition.offsets is None:
        return None
    if condition.known and a.base == b.base:
        return Lanes(np.where(condition.offsets != 0, a.offsets, b.offsets), a.base, a.multiple)
    if condition.uniform and (a.offsets == b.offsets).all():
        return Lanes(a.offsets, object(), min(a.multiple, b.multiple))
    return None


def _with_multiple(op: Op, operands: list[Lanes], result: Lanes) -> Lanes:
    """A shared result with the power of two that divides it."""
    if result.offsets is None or op.results[0].type.kind == "bool":
        return result
    parts = [_whole_multiple(operand) for operand in operands]
    match op.name:
        case "add" | "sub" | "min" | "max" | "or" | "xor" | "uniform" | "convert":
            multiple = min(parts)
        case "select":
            multiple = min(parts[1:])
        case "mul" | "mul_wide":
            multiple = min(MOST, parts[0] * parts[1])
        case "shl" if operands[1].number is not None:
            multiple = min(MOST, parts[0] << operands[1].number % op.results[0].type.bits)
        case "and":
            multiple = max(parts)
        case _:
            multiple = 1
    return Lanes(result.offsets, result.base, multiple)


def _whole_multiple(value: Lanes) -> int:
    assert value.offsets is not None
    return min(value.multiple, power_of_two(int(value.offsets[0])))
