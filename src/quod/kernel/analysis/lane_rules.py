"""Transfer functions of the lane analysis: one rule per kind of op that the analysis can follow.

A row of the op table names its rule as `lane_rule`; without one the result varies if an operand
does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from quod.frozen import frozen
from quod.kernel.analysis.lanes import (
    FAR,
    MOST,
    Lanes,
    Reason,
    known,
    power_of_two,
    shared_unknown,
    varying,
)
from quod.kernel.ir.nodes import Op
from quod.kernel.ops.scalar import NUMPY_TYPES
from quod.kernel.ops.semantics import Array


@frozen
class LaneRule:
    """The transfer function of a kind of op.

    follow: returns the result for operands that differ between lanes, None if not known.
    multiple: returns a power of two that divides a result common to all lanes.
    """

    follow: Callable[[Op, list[Lanes]], Lanes | None]
    multiple: Callable[[Op, list[Lanes]], int]


def _reason(operands: list[Lanes]) -> Reason | None:
    """Return the reason why operands vary, preferring dependence on data; None if none varies."""
    reasons = [operand.reason for operand in operands if operand.reason is not None]
    if not reasons:
        return None
    return next((reason for reason in reasons if reason.kind == "data"), reasons[0])


def _common_result(operands: list[Lanes], op: Op) -> Lanes | None:
    """Return a result that does not depend on the op, or None if the op's rule must decide.

    The result varies if an operand varies, and is uniform if all operands are uniform.
    """
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
    if int(np.abs(a.offsets).max()) * abs(factor) > FAR:
        return None
    base = None if a.base is None else ("*", a.base, factor)
    return Lanes(a.offsets * factor, base, min(MOST, a.multiple * power_of_two(factor)))


def _low_bits(a: Lanes, bits: int) -> Lanes | None:
    """Return `a` modulo 2**bits if its base is a multiple of 2**bits, else None."""
    assert a.offsets is not None
    if a.multiple >= 1 << bits:
        return Lanes(a.offsets & ((1 << bits) - 1))
    return None


def _shift_down(a: Lanes, bits: int) -> Lanes | None:
    """Return `a` shifted right if its base is a multiple of 2**bits, else None."""
    assert a.offsets is not None
    if a.multiple >= 1 << bits:
        base = None if a.base is None else (">>", a.base, bits)
        return Lanes(a.offsets >> bits, base, MOST if base is None else a.multiple >> bits)
    return None


def _exponent(number: int | None) -> int | None:
    """Return log2 of a power of two, None for other numbers."""
    if number is None or number <= 0 or number & (number - 1):
        return None
    return number.bit_length() - 1


def _evaluate_known(op: Op, operands: list[Lanes]) -> Lanes | None:
    """Evaluate an op on operands that are all known; None if it cannot be evaluated exactly."""
    type_ = op.results[0].type
    evaluate_as, evaluate = op.definition.evaluate_as, op.definition.evaluate
    if evaluate_as is not None:
        values = _operand_array(operands[0], op)
        return None if values is None else _known_lanes(evaluate_as(values, type_))
    if evaluate is None or len(op.results) != 1:
        return None
    arrays = [_operand_array(operand, op, index) for index, operand in enumerate(operands)]
    if any(values is None for values in arrays):
        return None
    with np.errstate(all="ignore"):
        evaluated = evaluate(*arrays)
    return None if isinstance(evaluated, tuple) else _known_lanes(evaluated)


def _operand_array(operand: Lanes, op: Op, index: int = 0) -> Array | None:
    type_ = op.operands[index].type
    if type_.kind not in ("unsigned", "signed", "bool") or operand.offsets is None:
        return None
    with np.errstate(all="ignore"):
        return operand.offsets.astype(NUMPY_TYPES[type_])


def _known_lanes(values: Array) -> Lanes | None:
    if values.dtype.kind == "f" or (values.dtype == np.uint64 and (values > FAR).any()):
        return None
    return known(values)


def combine(op: Op, operands: list[Lanes]) -> Lanes:
    """Return the first result of an op that computes."""
    common_result = _common_result(operands, op)
    if common_result is not None:
        return _with_multiple(op, operands, common_result)
    if all(operand.known for operand in operands):
        exact = _evaluate_known(op, operands)
        if exact is not None:
            return exact
        offsets = operands[0].offsets
        assert offsets is not None
        if all(operand.uniform for operand in operands):
            return shared_unknown(len(offsets))
        return varying("arithmetic", op.location)
    rule = RULES.get(op.definition.lane_rule)
    result = None if rule is None else rule.follow(op, operands)
    return result if result is not None else varying("arithmetic", op.location)


def _with_multiple(op: Op, operands: list[Lanes], result: Lanes) -> Lanes:
    """Add to a uniform result the power of two that divides it."""
    if result.offsets is None or op.results[0].type.kind == "bool":
        return result
    rule = RULES.get(op.definition.lane_rule)
    multiple = 1 if rule is None else rule.multiple(op, operands)
    return Lanes(result.offsets, result.base, multiple)


def _divisor(value: Lanes) -> int:
    assert value.offsets is not None
    return min(value.multiple, power_of_two(int(value.offsets[0])))


# --- rules


def _sum(op: Op, operands: list[Lanes]) -> Lanes | None:
    a, b = operands
    return _add(a, b, 1)


def _difference(op: Op, operands: list[Lanes]) -> Lanes | None:
    a, b = operands
    return _add(a, b, -1)


def _negation(op: Op, operands: list[Lanes]) -> Lanes | None:
    return _scale(operands[0], -1)


def _product(op: Op, operands: list[Lanes]) -> Lanes | None:
    a, b = operands
    for factor, other in ((a, b), (b, a)):
        number = factor.number
        if number is not None:
            return _scale(other, number)
    return varying("stride", op.location)


def _shift_amount(op: Op, operands: list[Lanes]) -> int | None:
    number = operands[1].number
    return None if number is None else number % op.results[0].type.bits


def _shift_left(op: Op, operands: list[Lanes]) -> Lanes | None:
    bits = _shift_amount(op, operands)
    return None if bits is None else _scale(operands[0], 1 << bits)


def _shift_right(op: Op, operands: list[Lanes]) -> Lanes | None:
    bits = _shift_amount(op, operands)
    return None if bits is None else _shift_down(operands[0], bits)


def _quotient(op: Op, operands: list[Lanes]) -> Lanes | None:
    bits = _exponent(operands[1].number)
    return None if bits is None else _shift_down(operands[0], bits)


def _remainder(op: Op, operands: list[Lanes]) -> Lanes | None:
    bits = _exponent(operands[1].number)
    return None if bits is None else _low_bits(operands[0], bits)


def _base_first(operands: list[Lanes]) -> tuple[Lanes, Lanes]:
    """Return the operands, one without a base as the second."""
    a, b = operands
    return (a, b) if b.base is None else (b, a)


def _conjunction(op: Op, operands: list[Lanes]) -> Lanes | None:
    """Return the bitwise and with a mask of low bits."""
    a, b = _base_first(operands)
    number = None if b.base is not None else b.number
    bits = _exponent(None if number is None else number + 1)
    return None if bits is None else _low_bits(a, bits)


def _below_base(op: Op, operands: list[Lanes]) -> Lanes | None:
    """Return the bitwise or, or exclusive or, with numbers below the base's divisor.
    Such numbers change the offsets only.
    """
    a, b = _base_first(operands)
    if b.base is not None or b.offsets is None or a.offsets is None:
        return None
    if any(((x < 0) | (x >= a.multiple)).any() for x in (a.offsets, b.offsets)):
        return None
    evaluate = op.definition.evaluate
    assert evaluate is not None
    offsets = evaluate(a.offsets, b.offsets)
    assert not isinstance(offsets, tuple)
    return Lanes(offsets, a.base, a.multiple)


def _unchanged(op: Op, operands: list[Lanes]) -> Lanes | None:
    return operands[0] if op.results[0].type.is_integer else None


def _comparison(op: Op, operands: list[Lanes]) -> Lanes | None:
    a, b = operands
    if a.base == b.base:
        return combine(op, [Lanes(a.offsets), Lanes(b.offsets)])
    by_warp = a.uniform_in_warps and b.uniform_in_warps
    return Lanes(None, reason=Reason("boundary", op.location), by_warp=by_warp)


def _choice(op: Op, operands: list[Lanes]) -> Lanes | None:
    condition, a, b = operands
    if a.offsets is None or b.offsets is None or condition.offsets is None:
        return None
    if condition.known and a.base == b.base:
        return Lanes(np.where(condition.offsets != 0, a.offsets, b.offsets), a.base, a.multiple)
    if condition.uniform and (a.offsets == b.offsets).all():
        return Lanes(a.offsets, object(), min(a.multiple, b.multiple))
    return None


def _unfollowed(op: Op, operands: list[Lanes]) -> Lanes | None:
    return None


# --- the power of two that divides a result common to all lanes


def _divisor_of_all(op: Op, operands: list[Lanes]) -> int:
    return min(map(_divisor, operands))


def _divisor_of_any(op: Op, operands: list[Lanes]) -> int:
    return max(map(_divisor, operands))


def _divisor_of_chosen(op: Op, operands: list[Lanes]) -> int:
    return min(map(_divisor, operands[1:]))


def _divisor_of_product(op: Op, operands: list[Lanes]) -> int:
    a, b = map(_divisor, operands)
    return min(MOST, a * b)


def _divisor_of_shifted(op: Op, operands: list[Lanes]) -> int:
    bits = _shift_amount(op, operands)
    return 1 if bits is None else min(MOST, _divisor(operands[0]) << bits)


def _no_divisor(op: Op, operands: list[Lanes]) -> int:
    return 1


RULES: dict[str, LaneRule] = {
    "sum": LaneRule(_sum, _divisor_of_all),
    "difference": LaneRule(_difference, _divisor_of_all),
    "extreme": LaneRule(_unfollowed, _divisor_of_all),
    "negation": LaneRule(_negation, _no_divisor),
    "product": LaneRule(_product, _divisor_of_product),
    "left": LaneRule(_shift_left, _divisor_of_shifted),
    "right": LaneRule(_shift_right, _no_divisor),
    "quotient": LaneRule(_quotient, _no_divisor),
    "remainder": LaneRule(_remainder, _no_divisor),
    "conjunction": LaneRule(_conjunction, _divisor_of_any),
    "below base": LaneRule(_below_base, _divisor_of_all),
    "conversion": LaneRule(_unchanged, _divisor_of_all),
    "same bits": LaneRule(_unchanged, _no_divisor),
    "comparison": LaneRule(_comparison, _no_divisor),
    "choice": LaneRule(_choice, _divisor_of_chosen),
}
"""The rules by the name in the `lane_rule` field of the op table."""
