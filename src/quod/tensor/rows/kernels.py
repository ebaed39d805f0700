"""The row kernels: softmax and the norms, one function for every type, plan and device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from quod.kernel import Builder, KernelDefinition, Location, Value, bf16, f32, pointer, u32
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.registry import register
from quod.tensor.accesses import Values
from quod.tensor.elementwise.kernel import TYPES
from quod.tensor.rows.exponentials import Powers
from quod.tensor.rows.plan import RowPlan
from quod.tensor.rows.row import Access, Row, masked_terms, summed


def _softmax(
    k: Builder, rows: Value, width: Value, x: Value, y: Value, *, element: Type, plan: RowPlan
) -> None:
    """y[r] = softmax(x[r]) for each row r; a row has `width` accesses.

    The greatest element is subtracted from all before exponentiation.
    """
    row = Row(k, element, plan, rows, width)
    source = row.input_pointer(x)
    powers = Powers(k, row, source)
    scale = k.rcp(powers.total)
    row.store(
        source, row.output_pointer(y), lambda access: [powers.of(v) * scale for v in access.values]
    )


def _rms_norm(
    k: Builder, rows: Value, width: Value, epsilon: Value, x: Value, weight: Value, y: Value, *,
    element: Type, plan: RowPlan,
) -> None:  # fmt: skip
    """y[r] = x[r] / sqrt(mean(x[r]**2) + epsilon) * weight (Zhang and Sennrich, 2019)."""
    row = Row(k, element, plan, rows, width)
    weights_at, zero = row.vector_loader(weight), k.constant(0.0, f32)

    def squares(accesses: list[Access], carried: Values) -> Values:
        return (summed(masked_terms(k, accesses, lambda value: value * value), carried[0]),)

    source = row.input_pointer(x)
    (total,) = row.fold(source, (zero,), squares)
    scale = k.rsqrt(row.total(total) / row.length_f32 + epsilon)

    def result_of(access: Access) -> list[Value]:
        weights = weights_at(access)
        return [
            value * scale * weight for value, weight in zip(access.values, weights, strict=True)
        ]

    row.store(source, row.output_pointer(y), result_of)


def _layer_norm(
    k: Builder, rows: Value, width: Value, epsilon: Value, x: Value, weight: Value, bias: Value,
    y: Value, *, element: Type, plan: RowPlan,
) -> None:  # fmt: skip
    """y[r] = (x[r] - mean) / sqrt(variance + epsilon) * weight + bias (Ba, Kiros and Hinton, 2016).

    The variance is the mean of squared differences, which avoids cancellation.
    """
    row = Row(k, element, plan, rows, width)
    weights_at, biases_at, zero = (
        row.vector_loader(weight),
        row.vector_loader(bias),
        k.constant(0.0, f32),
    )
    source = row.input_pointer(x)

    def total_of(term: Callable[[Value], Value]) -> Value:
        def step(accesses: list[Access], carried: Values) -> Values:
            return (summed(masked_terms(k, accesses, term), carried[0]),)

        return row.total(row.fold(source, (zero,), step)[0])

    mean = total_of(lambda value: value) / row.length_f32
    variance = total_of(lambda value: (value - mean) * (value - mean)) / row.length_f32
    scale = k.rsqrt(variance + epsilon)

    def result_of(access: Access) -> list[Value]:
        elements = zip(access.values, weights_at(access), biases_at(access), strict=True)
        return [
            k.fma((value - mean) * scale, factor, summand) for value, factor, summand in elements
        ]

    row.store(source, row.output_pointer(y), result_of)


EMPTY: Mapping[str, Type] = MappingProxyType({})
_SHAPE: dict[str, ParameterType] = {"rows": u32, "width": u32}


def row_kernel(
    body: Any,
    element: Type,
    numbers: list[str],
    memory: str,
    other_pointers: Mapping[str, Type] = EMPTY,
) -> KernelDefinition:
    """Build the kernel for a function that processes rows.

    numbers: The names of f32 scalars.
    memory: The names of pointers to `element`.
    other_pointers: Pointers to other types, by name.
    """
    parameters: dict[str, ParameterType] = _SHAPE | dict.fromkeys(numbers, f32)
    parameters |= dict.fromkeys(memory.split(), pointer(element))
    parameters |= {name: pointer(type_) for name, type_ in other_pointers.items()}
    name = f"{body.__name__[1:]}_{element}"
    location = Location(body.__code__.co_filename, body.__code__.co_firstlineno)
    return KernelDefinition(name, body, parameters, location)


SOFTMAX = {element: row_kernel(_softmax, element, [], "x y") for element in TYPES}
RMS_NORM = {element: row_kernel(_rms_norm, element, ["epsilon"], "x weight y") for element in TYPES}
LAYER_NORM = {
    element: row_kernel(_layer_norm, element, ["epsilon"], "x weight bias y") for element in TYPES
}
"""The kernels by element type."""

for _name, _kernels in (("softmax", SOFTMAX), ("rms_norm", RMS_NORM), ("layer_norm", LAYER_NORM)):
    for _element in (f32, bf16):
        _plan = RowPlan(lanes=8, threads=8, vector=16 // _element.bytes, batch=4, single_step=True)
        register(f"tensor.{_name}_{_element}", _kernels[_element], element=_element, plan=_plan)
