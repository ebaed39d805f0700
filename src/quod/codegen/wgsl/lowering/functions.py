"""Lowering of device functions, specialised by the arrays that their pointers refer to."""

from __future__ import annotations

from collections.abc import Sequence

from quod.codegen.wgsl import rules, subgroups
from quod.codegen.wgsl.lowering.body import Lowered, Lowering, Place, Rule, begins
from quod.codegen.wgsl.lowering.subgroups import exchanges
from quod.errors import KernelError
from quod.kernel.builder.builder import Builder
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Function, Op, walk
from quod.kernel.ir.types import PointerType
from quod.kernel.ir.value import Value

_PLAIN_TYPES = frozenset({types.bool_, types.u32, types.i32, types.f32})
_WRITTEN = rules.RULES.keys() | subgroups.PLACES.keys()
"""The ops that WGSL can express without lowering."""


def _call(lowering: Lowering, op: Op) -> None:
    function: Function = op.attributes["function"]
    given = lowering.lowered(op.operands)
    if _is_plain(lowering, function):
        made = lowering.tracer.record(
            "call", lowering.flat(op.operands), function.result_types, {"function": function}
        )
        lowering.bind(op.results, made, [None] * len(op.results))
        return
    arrays = [one.array for one in given if isinstance(one, Place)]
    if exchanges(lowering, function):
        arrays += [one for one in (lowering.exchange, lowering.votes) if one is not None]
    roots = tuple(map(lowering.root, arrays))
    places = tuple(
        (one.element, begins(one)) for one in given if isinstance(one, Place)
    )  # fmt: skip
    key = (id(function), tuple(map(id, roots)), places)
    if key not in lowering.functions:
        lowering.functions[key] = _lower_function(lowering, function, given, arrays, op)
    lowered = lowering.functions[key]
    passed = [value for value in op.operands if not begins(lowering.values[value])]
    made = lowering.tracer.record(
        "call", (*arrays, *lowering.flat(passed)), lowered.result_types,
        {"function": lowered}, (), op.location,
    )  # fmt: skip
    lowering.bind(op.results, made, [None] * len(op.results))


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
                plain = plain and (op.definition.unwritten or op.name in _WRITTEN)
        plain = plain and all(value.type in _PLAIN_TYPES for value in values)
        lowering.plain[id(function)] = plain
        if plain:
            lowering.tracer.functions.append(function)
    return lowering.plain[id(function)]


def _lower_function(
    lowering: Lowering,
    function: Function,
    given: Sequence[Lowered],
    arrays: Sequence[Value],
    op: Op,
) -> Function:
    """Lower a function; its arrays become its first parameters."""
    k = lowering.k
    if any(isinstance(value.type, PointerType) for value in function.block.yielded):
        raise KernelError(f"{op.location}: a function that gives a pointer; give an index")
    exchange, votes = lowering.exchange, lowering.votes

    def body(builder: Builder, own: list[Value], flat: list[Value]) -> list[Value]:
        for inner, array in zip(own, arrays, strict=True):
            lowering.roots[inner] = lowering.root(array)
        there = iter(own)
        like = [
            Place(next(there), one.offset, one.element) if isinstance(one, Place) else one
            for one in given
        ]
        passed = [i for i, one in enumerate(given) if not begins(one)]
        lowering.bind(
            [function.block.arguments[i] for i in passed], flat, [like[i] for i in passed]
        )
        for argument, one in zip(function.block.arguments, like, strict=True):
            if isinstance(one, Place) and begins(one):
                lowering.values[argument] = Place(one.array, lowering.zero(), one.element)
        if exchanges(lowering, function):
            lowering.exchange = None if exchange is None else next(there)
            lowering.votes = None if votes is None else next(there)
        return lowering.block(function.block)

    pairs = zip(function.block.arguments, given, strict=True)
    flat_types = lowering.types_of([argument for argument, one in pairs if not begins(one)])
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
