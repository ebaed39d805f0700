"""Lowering of branches and loops."""

from __future__ import annotations

from quod.codegen.int64.forms import Wide
from quod.codegen.wgsl.lowering.body import Lowering, Rule
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Op


def _if(lowering: Lowering, op: Op) -> None:
    tracer = lowering.tracer
    condition = lowering.value(op.operands[0])
    regions, results = [], []
    for region in op.regions:
        block = tracer.open_region(())
        flat = lowering.block(region)
        results.append(lowering.lowered(region.yielded))
        tracer.close_region(flat, op.location)
        regions.append(block)
    lowering.check_same_arrays(results[0], results[1], op)
    values = tracer.record(
        "if", (condition,), lowering.types_of(op.results), {}, tuple(regions), op.location
    )
    lowering.bind(op.results, values, results[0])


def _for(lowering: Lowering, op: Op) -> None:
    tracer = lowering.tracer
    (region,) = op.regions
    index_type = op.operands[0].type
    if index_type in (types.u64, types.i64) and not lowering.wide.native:
        _wide_for(lowering, op)
        return
    bounds = [lowering.wide.whole(lowering.values[value]) for value in op.operands[:3]]
    initial = lowering.lowered(op.operands[3:])
    initial_parts = lowering.flat(op.operands[3:])
    block = tracer.open_region([bounds[0].type, *(value.type for value in initial_parts)])
    lowering.values[region.arguments[0]] = lowering.wide.joined(index_type, [block.arguments[0]])
    lowering.bind(region.arguments[1:], block.arguments[1:], initial)
    next_parts = lowering.block(region)
    lowering.check_same_arrays(initial, lowering.lowered(region.yielded), op)
    tracer.close_region(next_parts, op.location)
    new_values = tracer.record(
        "for",
        (*bounds, *initial_parts),
        [value.type for value in initial_parts],
        {},
        (block,),
        op.location,
    )
    lowering.bind(op.results, new_values, initial)


def _wide_for(lowering: Lowering, op: Op) -> None:
    """Lower a loop with a wide index to a `while` loop."""
    tracer, wide = lowering.tracer, lowering.wide
    (region,) = op.regions
    type_ = op.operands[0].type
    stop, step = (lowering.values[value] for value in op.operands[1:3])
    assert isinstance(stop, Wide)
    assert isinstance(step, Wide)
    initial = lowering.lowered(op.operands[3:])
    initial_parts = lowering.flat(op.operands[:1]) + lowering.flat(op.operands[3:])
    head = tracer.open_region([value.type for value in initial_parts])
    index = wide.joined(type_, head.arguments[:2])
    assert isinstance(index, Wide)
    condition = wide.compare("lt", index, stop)
    body = tracer.open_region(())
    lowering.values[region.arguments[0]] = index
    lowering.bind(region.arguments[1:], head.arguments[2:], initial)
    next_parts = lowering.block(region)
    lowering.check_same_arrays(initial, lowering.lowered(region.yielded), op)
    tracer.close_region([*wide.parts(wide.add(index, step)), *next_parts], op.location)
    tracer.close_region((condition,), op.location)
    new_values = tracer.record(
        "while",
        initial_parts,
        [value.type for value in initial_parts],
        {},
        (head, body),
        op.location,
    )
    lowering.bind(op.results, new_values[2:], initial)


def _while(lowering: Lowering, op: Op) -> None:
    tracer = lowering.tracer
    head, region = op.regions
    initial = lowering.lowered(op.operands)
    initial_parts = lowering.flat(op.operands)
    new_head = tracer.open_region([value.type for value in initial_parts])
    lowering.bind(head.arguments, new_head.arguments, initial)
    (condition,) = lowering.block(head)
    body = tracer.open_region(())
    next_parts = lowering.block(region)
    lowering.check_same_arrays(initial, lowering.lowered(region.yielded), op)
    tracer.close_region(next_parts, op.location)
    tracer.close_region((condition,), op.location)
    new_values = tracer.record(
        "while",
        initial_parts,
        [value.type for value in initial_parts],
        {},
        (new_head, body),
        op.location,
    )
    lowering.bind(op.results, new_values, initial)


RULES: dict[str, Rule] = {"if": _if, "for": _for, "while": _while}
