"""The kernels of the norm of gradients, and of gradient clipping."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from quod.frozen import replace
from quod.kernel import Builder, KernelDefinition, Location, Value, f32, pointer, u32
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.registry import register
from quod.tensor.accesses import Values
from quod.tensor.elementwise.kernel import TYPES, flat_kernel
from quod.tensor.rows.plan import FlatPlan, RowPlan
from quod.tensor.rows.row import Access, Row, masked_terms, summed

_SCALES = (2.0**60, 1.0, 2.0**-80)
"""Scales of the numbers before they are squared, for the low, middle and high sum.

Sums of 2^31 squares neither overflow nor underflow in the sum that is used (Blue, A portable
Fortran program to find the Euclidean norm, 1978).
"""
_LOW, _HIGH = 2.0**-60, 2.0**-40
"""The low sum is used if the middle sum is below _LOW, the high sum if that is at least _HIGH."""
_NORM_ADDEND = 1e-6
"""Added to the norm that divides; PyTorch adds the same number."""


def _square_sums(
    k: Builder, rows: Value, width: Value, count: Value, first: Value, x: Value, low: Value,
    middle: Value, high: Value, *, element: Type, plan: RowPlan,
) -> None:  # fmt: skip
    """Sum the squares of each row at each scale, into element `first` + row of the three sums."""
    row = Row(k, element, plan, rows, width, count=count)

    def step(accesses: list[Access], carried: Values) -> Values:
        return tuple(
            summed(masked_terms(k, accesses, _square(scale)), total)
            for scale, total in zip(_SCALES, carried, strict=True)
        )

    lane_sums = row.fold(row.input_pointer(x), (k.constant(0.0, f32),) * len(_SCALES), step)
    for memory, lane_sum in zip((low, middle, high), lane_sums, strict=True):
        row.put(k.pointer_add(memory, first), row.total(lane_sum))


def _square(scale: float) -> Callable[[Value], Value]:
    """Return the function that squares a number times a scale."""

    def square(value: Value) -> Value:
        scaled = value if scale == 1 else value * scale
        return scaled * scaled

    return square


def _norm(
    k: Builder, width: Value, low: Value, middle: Value, high: Value, norm: Value, *, plan: RowPlan
) -> None:
    """norm[0] = the square root of the sum of all partial sums, at one of the scales."""
    row = Row(k, f32, plan, k.constant(1, u32), width)
    low_and_high = row.vector(low), row.vector(high)

    def step(accesses: list[Access], carried: Values) -> Values:
        other_accesses = [
            [
                replace(access, load=partial(row.load, vector, access.read_index))
                for access in accesses
            ]
            for vector in low_and_high
        ]
        accesses_by_scale = (other_accesses[0], accesses, other_accesses[1])
        return tuple(
            summed(masked_terms(k, scale_accesses, lambda value: value), total)
            for scale_accesses, total in zip(accesses_by_scale, carried, strict=True)
        )

    lane_sums = row.fold(row.input_pointer(middle), (k.constant(0.0, f32),) * len(_SCALES), step)
    sums = [row.total(lane_sum) for lane_sum in lane_sums]
    small, usual, large = (
        k.sqrt(total) * (1 / scale) for total, scale in zip(sums, _SCALES, strict=True)
    )
    row.put(norm, k.select(sums[2] >= _HIGH, large, k.select(sums[1] < _LOW, small, usual)))


def clip_factor(k: Builder, max_norm: Value, norm: Value) -> Value:
    """Return the factor that limits gradients of norm `norm` to the norm `max_norm`."""
    return k.minimum(max_norm / (norm + _NORM_ADDEND), 1.0)


def _clip(k: Builder, most: Value, norm: Value, x: Value) -> list[Value]:
    """x * min(1, most / (norm + 1e-6)) (Pascanu, Mikolov and Bengio, 2013)."""
    return [x * clip_factor(k, most, norm)]


_PARTS = dict.fromkeys(("low", "middle", "high"), pointer(f32))


def _square_sums_kernel(element: Type) -> KernelDefinition:
    numbers: dict[str, ParameterType] = dict.fromkeys(("rows", "width", "count", "first"), u32)
    parameters: dict[str, ParameterType] = numbers | {"x": pointer(element)} | _PARTS
    code = _square_sums.__code__
    location = Location(code.co_filename, code.co_firstlineno)
    return KernelDefinition(f"square_sums_{element}", _square_sums, parameters, location)


SQUARE_SUMS = {element: _square_sums_kernel(element) for element in TYPES}
CLIP = {
    element: flat_kernel(
        f"clip_{element}", _clip, "most", {"x": element}, {"x": element}, held={"norm": 1}
    )
    for element in TYPES
}
"""The kernels by element type."""
NORM = KernelDefinition(
    "norm", _norm, {"width": u32, **_PARTS, "norm": pointer(f32)},
    Location(_norm.__code__.co_filename, _norm.__code__.co_firstlineno),
)  # fmt: skip

register("tensor.norm", NORM, plan=RowPlan(lanes=8, threads=8, vector=4, batch=4, single_step=True))
for _element in (TYPES[0], TYPES[2]):
    _vector = 16 // _element.bytes
    _plan = RowPlan(lanes=8, threads=8, vector=_vector, batch=4, single_step=False)
    register(f"tensor.square_sums_{_element}", SQUARE_SUMS[_element], element=_element, plan=_plan)
    _flat = FlatPlan(lanes=8, vector=_vector, batch=1, steps=1)
    register(f"tensor.clip_{_element}", CLIP[_element], plan=_flat)
