"""The kernels of reductions: along rows, and over the rows of a matrix."""

from __future__ import annotations

import functools
from typing import Any

from quod.frozen import frozen
from quod.kernel import Builder, KernelDefinition, Location, Value, bf16, f16, f32, pointer, u32
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import ParameterType
from quod.kernel.registry import register
from quod.tensor.accesses import Values
from quod.tensor.reductions.operations import operation, types_of
from quod.tensor.rows.column_sums import SLAB, ColumnPlan, Columns
from quod.tensor.rows.plan import RowPlan
from quod.tensor.rows.row import Access, Row, in_pairs


@frozen
class ReductionForm:
    """One step of a reduction.

    name: The reduction: "sum", "mean", "max", "min", "argmax" or "argmin".
    first: The step reads elements; other steps read the carried numbers of the step before.
    last: The step stores results; other steps store the carried numbers of parts of rows.
    """

    name: str
    first: bool = True
    last: bool = True

    def read(self, element: Type) -> tuple[Type, ...]:
        """Return the types of the inputs."""
        return (element,) if self.first else types_of(self.name)

    def stored(self, element: Type) -> tuple[Type, ...]:
        """Return the types of the outputs."""
        if not self.last:
            return types_of(self.name)
        return (u32,) if self.name.startswith("arg") else (element,)


def _along_rows(
    k: Builder, rows: Value, width: Value, count: Value, parts: Value, divisor: Value,
    *memory: Value, element: Type, plan: RowPlan, form: ReductionForm,
) -> None:  # fmt: skip
    """Reduce each row, or each part of `width` accesses of rows of `count` accesses."""
    reduction = operation(k, form.name)
    read, stored = memory[: len(form.read(element))], memory[len(form.read(element)) :]
    split: dict[str, Any] = {} if form.last else {"count": count, "parts": parts}
    row = Row(k, form.read(element)[0], plan, rows, width, shared=reduction.types, **split)
    other_rows = [row.input_pointer(each) for each in read[1:]]

    def step(accesses: list[Access], carried: Values) -> Values:
        terms = []
        for access in accesses:
            others = [row.load(each, access.read_index) for each in other_rows]
            for number, values in enumerate(zip(access.values, *others, strict=True)):
                column = row.before + access.read_index * plan.vector + number
                term = reduction.of(values[0], column) if form.first else values
                if access.in_range is not None and not reduction.is_idempotent:
                    term = tuple(
                        k.select(access.in_range, *pair)
                        for pair in zip(term, reduction.initial(), strict=True)
                    )
                terms.append(term)
        return reduction.combined(carried, in_pairs(terms, reduction.combined))

    lane_state = row.fold(row.input_pointer(read[0]), reduction.initial(), step)
    total = row.all_combined(lane_state, reduction.combined)
    results = (reduction.result(total, divisor),) if form.last else total
    for target, value in zip(stored, results, strict=True):
        row.put(target, value)


def _over_rows(
    k: Builder, rows: Value, width: Value, count: Value, parts: Value, divisor: Value,
    *memory: Value, element: Type, plan: ColumnPlan, form: ReductionForm,
) -> None:  # fmt: skip
    """Reduce each column of a slab; a matrix of `rows` rows has `parts` slabs."""
    reduction = operation(k, form.name)
    columns = Columns(k, plan, width)
    types = form.read(element)
    read, stored = memory[: len(types)], memory[len(types) :]
    matrix_start, slab_start = columns.slab // parts * rows, columns.slab % parts * SLAB

    def terms(row: Value) -> list[Values]:
        """Return the carried numbers of each element of a row."""
        numbers = [columns.load(*each, row) for each in zip(read, types, strict=True)]
        if form.first:
            return [reduction.of(value, row - matrix_start) for value in numbers[0]]
        return list(zip(*numbers, strict=True))

    def step(carried: Values, rows_in_step: list[Value]) -> Values:
        states = list(zip(*columns.split(carried), strict=True))
        terms_by_column = zip(*[terms(row) for row in rows_in_step], strict=True)
        combined = [
            reduction.combined(state, in_pairs(list(column_terms), reduction.combined))
            for state, column_terms in zip(states, terms_by_column, strict=True)
        ]
        return tuple(value for kind in zip(*combined, strict=True) for value in kind)

    initial = tuple(value for value in reduction.initial() for _ in range(columns.width))
    slab_rows = k.minimum(rows - slab_start, k.constant(SLAB, u32))
    results = columns.split(columns.fold(matrix_start + slab_start, slab_rows, initial, step))
    if form.last:
        pairs = zip(*results, strict=True)
        results = [tuple(reduction.result(each, divisor) for each in pairs)]
    for target, kind, values in zip(stored, form.stored(element), results, strict=True):
        columns.store(target, kind, columns.slab, values)


@functools.cache
def reduction_kernel(element: Type, form: ReductionForm, *, along: bool) -> KernelDefinition:
    """Return the kernel of a step: within rows if `along`, over rows if not."""
    body: Any = _along_rows if along else _over_rows
    parameters: dict[str, ParameterType] = dict.fromkeys(("rows", "width", "count", "parts"), u32)
    parameters["divisor"] = f32
    for name, types in (("x", form.read(element)), ("y", form.stored(element))):
        parameters |= {f"{name}{number}": pointer(each) for number, each in enumerate(types)}
    way = "along" if along else "over"
    location = Location(body.__code__.co_filename, body.__code__.co_firstlineno)
    return KernelDefinition(f"{form.name}_{way}_rows_{element}", body, parameters, location)


for _element, _form in (
    (bf16, ReductionForm("mean")), (f32, ReductionForm("max", last=False)),
    (f16, ReductionForm("argmin", first=False)),
):  # fmt: skip
    _vector = 4 if not _form.first else 16 // _element.bytes
    register(
        f"tensor.{_form.name}_along_rows_{_element}",
        reduction_kernel(_element, _form, along=True), element=_element, form=_form,
        plan=RowPlan(lanes=8, threads=8, vector=_vector, batch=4, single_step=False),
    )  # fmt: skip
    register(
        f"tensor.{_form.name}_over_rows_{_element}",
        reduction_kernel(_element, _form, along=False), element=_element, form=_form,
        plan=ColumnPlan(lanes=8, vector=4, batch=1),
    )  # fmt: skip
