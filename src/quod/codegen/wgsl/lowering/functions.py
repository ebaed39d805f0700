"""Lowering of device functions, specialised by the arrays that their pointers refer to."""

from __future__ import annotations

from collections.abc import Sequence

from quod.codegen.wgsl import rules, subgroups
from quod.codegen.wgsl.lowering.body import Lowered, LoweredPointer, Lowering, Rule, begins
from quod.codegen.wgsl.lowering.subgroups import exchanges
from quod.errors import KernelError
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Function, Op, walk
from quod.kernel.ir.types import PointerType
from quod.kernel.ir.value import Value

_PLAIN_TYPES = frozenset({types.bool_, types.u32, types.i32, types.f32})
_EXPRESSIBLE_OPS = rules.RULES.keys() | subgroups.ID_RULES.keys()
"""The ops that WGSL can express without lowering."""


def _call(lowering: Lowering, op: Op) -> None:
    function: Function = op.attributes["function"]
    inputs = lowering.lowered(op.operands)
    if _is_plain(lowering, function):
        new_values = lowering.tracer.record(
            "call", lowering.flat(op.operands), function.result_types, {"function": function}
        )
        lowering.bind(op.results, new_values, [None] * len(op.results))
        return
    arrays = [operand.array for operand in inputs if isinstance(operand, LoweredPointer)]
    if exchanges(lowering, function):
        arrays += [array for array in (lowering.exchange, lowering.votes) if array is not None]
    roots = tuple(map(lowering.root, arrays))
    pointer_forms = tuple(
        (value.element, begins(value)) for value in inputs if isinstance(value, LoweredPointer)
    )  # fmt: skip
    key = (id(function), tuple(map(id, roots)), pointer_forms)
    if key not in lowering.functions:
        lowering.functions[key] = _lower_function(lowering, function, inputs, arrays, op)
    lowered = lowering.functions[key]
    passed_operands = [value for value in op.operands if not begins(lowering.values[value])]
    new_values = lowering.tracer.record(
        "call", (*arrays, *lowering.flat(passed_operands)), lowered.result_types,
        {"function": lowered}, (), op.location,
    )  # fmt: skip
    lowering.bind(op.results, new_values, [None] * len(op.results))


def _is_plain(lowering: Lowering, function: Function) -> bool:
    """Return whether WGSL can express a function as it is, such as a field multiplication."""
    if id(function) not in lowering.plain:
        values = [*function.block.arguments]
        plain = True
        for op in walk(function.block):
            values += op.results
            values += [value for region in op.regions for value in region.arguments]
            if op.name == "call":
                plain = plain and _is_plain(lowering, op.attributes["function"])
            elif not op.regions:
                plain = plain and (op.definition.unwritten or op.name in _EXPRESSIBLE_OPS)
        plain = plain and all(value.type in _PLAIN_TYPES for value in values)
        lowering.plain[id(function)] = plain
        if plain:
            lowering.tracer.functions.append(function)
    return lowering.plain[id(function)]


def _lower_function(
    lowering: Lowering,
    function: Function,
    lowered_operands: Sequence[Lowered],
    arrays: Sequence[Value],
    op: Op,
) -> Function:
    """Lower a function; its arrays become its first parameters."""
    k = lowering.k
    if any(isinstance(value.type, PointerType) for value in function.block.yielded):
        raise KernelError(f"{op.location}: a function that gives a pointer; give an index")
    exchange, votes = lowering.exchange, lowering.votes

    def body(builder: Builder, array_parameters: list[Value], flat: list[Value]) -> list[Value]:
        for parameter, array in zip(array_parameters, arrays, strict=True):
            lowering.roots[parameter] = lowering.root(array)
        arrays_in_order = iter(array_parameters)
        like = [
            LoweredPointer(next(arrays_in_order), model.offset, model.element)
            if isinstance(model, LoweredPointer)
            else model
            for model in lowered_operands
        ]
        passed_indices = [i for i, model in enumerate(lowered_operands) if not begins(model)]
        lowering.bind(
            [function.block.arguments[i] for i in passed_indices],
            flat,
            [like[i] for i in passed_indices],
        )
        for argument, model in zip(function.block.arguments, like, strict=True):
            if isinstance(model, LoweredPointer) and begins(model):
                lowering.values[argument] = LoweredPointer(
                    model.array, lowering.zero(), model.element
                )
        if exchanges(lowering, function):
            lowering.exchange = None if exchange is None else next(arrays_in_order)
            lowering.votes = None if votes is None else next(arrays_in_order)
        return lowering.block(function.block)

    pairs = zip(function.block.arguments, lowered_operands, strict=True)
    flat_types = lowering.types_of(
        [argument for argument, lowered_value in pairs if not begins(lowered_value)]
    )
    parameters = [Value(type_, k) for type_ in flat_types]
    lowered, _ = lowering.tracer.trace_function(
        function.name, body, [*arrays, *parameters],
        lambda values: (list(values[: len(arrays)]), list(values[len(arrays) :])),
        function.inline,
    )  # fmt: skip
    lowering.exchange, lowering.votes = exchange, votes
    lowered.location = function.location
    return lowered


RULES: dict[str, Rule] = {"call": _call}
