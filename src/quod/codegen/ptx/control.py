"""PTX rules of control flow: loops and branches, with predicated instructions for short branches.

Each value is one register, set once. Carried values of loops and results of branches are moved into
dedicated registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.codegen.ptx.body import BodyEmitter, Rule
from quod.codegen.ptx.types import bits_or_float, register_kind, suffix
from quod.kernel.ir.nodes import Block, Op
from quod.kernel.ir.value import Value

PREDICATED_LINES = 6
"""Instructions of the longest branch that becomes predicated instructions."""

_PREDICATED_EFFECTS = ("none", "read", "write")


def _branch(body: BodyEmitter, op: Op) -> str:
    diverges = body.uniformity.diverges(op) and not body.module.makes_roles(op)
    return "bra" if diverges else "bra.uni"


def _move(body: BodyEmitter, target: str, value: Value, source: str) -> None:
    if target != source:
        body.line(f"mov.{bits_or_float(value.type)} {target}, {source};")


def _registers(body: BodyEmitter, values: Sequence[Value]) -> list[str]:
    """Allocate and assign a new register for each value."""
    registers = [body.new(register_kind(value.type)) for value in values]
    body.names.update(zip(values, registers, strict=True))
    return registers


# --- branches


def _emit_if(body: BodyEmitter, op: Op) -> None:
    (condition,) = op.operands
    then, otherwise = op.regions
    if condition.constant is not None:
        taken_region = then if condition.constant else otherwise
        body.emit_block(taken_region)
        for result, value in zip(op.results, taken_region.yielded, strict=True):
            body.names[result] = body.register(value)
        return
    predicate = body.get(condition)
    targets = _registers(body, op.results)
    if _is_short(then) and _is_short(otherwise) and _emit_predicated(body, op, predicate, targets):
        return
    body.at(op.location)
    jump = _branch(body, op)
    after_label = body.new_label("after")
    two_sides = len(otherwise.ops) > 1 or bool(op.results)
    else_label = body.new_label("else") if two_sides else after_label
    body.line(f"@!{predicate} {jump} {else_label};")
    _emit_side(body, then, targets)
    if two_sides:
        body.line(f"bra {after_label};")
        body.start(else_label)
        _emit_side(body, otherwise, targets)
    body.start(after_label)


def _emit_side(body: BodyEmitter, region: Block, targets: Sequence[str]) -> None:
    body.emit_block(region)
    for target, value in zip(targets, region.yielded, strict=True):
        _move(body, target, value, body.get(value))


def _is_short(region: Block) -> bool:
    return len(region.ops) <= PREDICATED_LINES and all(
        op.definition.unwritten
        or (
            not op.regions
            and not op.definition.requires_uniformity
            and op.definition.effect in _PREDICATED_EFFECTS
        )
        for op in region.ops
    )


def _emit_predicated(body: BodyEmitter, op: Op, predicate: str, targets: Sequence[str]) -> bool:
    """Emit both sides predicated and return True, if they are short enough; else emit nothing."""
    checkpoint = body.checkpoint()
    begin = body.mark()
    _emit_side(body, op.regions[0], targets)
    middle = body.mark()
    _emit_side(body, op.regions[1], targets)
    if body.mark() - begin > PREDICATED_LINES:
        body.rewind(checkpoint)
        return False
    body.guard(begin, middle, f"@{predicate}")
    body.guard(middle, body.mark(), f"@!{predicate}")
    return True


# --- loops


def _start_loop(
    body: BodyEmitter, arguments: Sequence[Value], initial: Sequence[Value]
) -> list[str]:
    sources = [body.get(value) for value in initial]
    targets = _registers(body, arguments)
    for target, value, source in zip(targets, arguments, sources, strict=True):
        _move(body, target, value, source)
    return targets


def _next_values(body: BodyEmitter, targets: Sequence[str], values: Sequence[Value]) -> None:
    """Move the yielded values to the carried registers, as a parallel copy."""
    sources = [body.get(value) for value in values]
    overwritten = set(targets)
    for index, (target, value, source) in enumerate(zip(targets, values, sources, strict=True)):
        if source in overwritten and source != target:
            sources[index] = body.new(register_kind(value.type))
            _move(body, sources[index], value, source)
    for target, value, source in zip(targets, values, sources, strict=True):
        _move(body, target, value, source)


def _emit_for(body: BodyEmitter, op: Op) -> None:
    start, stop, step = op.operands[:3]
    (region,) = op.regions
    index, carried = region.arguments[0], region.arguments[1:]
    facts = body.facts
    bound = facts.maximum(stop) - 1 if stop.type.kind == "unsigned" else None
    multiple = min(facts.multiple(start), facts.multiple(step))
    facts.assume(index, multiple, None if bound is None else max(0, bound))
    facts.assume_carried(carried, op.operands[3:], region.yielded)
    jump, kind = _branch(body, op), suffix(index.type)
    counter, *targets = _start_loop(body, region.arguments, (start, *op.operands[3:]))
    stop_text, increment = body.get(stop), body.get(step)
    loop_label, done_label = body.new_label("loop"), body.new_label("done")
    runs_at_least_once = start.constant is not None and stop.constant is not None and (
        start.constant < stop.constant
    )  # fmt: skip
    if not runs_at_least_once:
        is_empty = body.fresh("p", f"setp.ge.{kind}", f"{counter}, {stop_text}")
        body.line(f"@{is_empty} {jump} {done_label};")
    body.start(loop_label)
    body.emit_block(region)
    body.at(op.location)
    _next_values(body, targets, region.yielded)
    body.line(f"add.{kind} {counter}, {counter}, {increment};")
    continues = body.fresh("p", f"setp.lt.{kind}", f"{counter}, {stop_text}")
    body.line(f"@{continues} {jump} {loop_label};")
    _finish_loop(body, op, carried, done_label, targets)


def _emit_while(body: BodyEmitter, op: Op) -> None:
    head, region = op.regions
    body.facts.assume_carried(head.arguments, op.operands, region.yielded)
    jump = _branch(body, op)
    targets = _start_loop(body, head.arguments, op.operands)
    loop_label, done_label = body.new_label("loop"), body.new_label("done")
    body.start(loop_label)
    body.emit_block(head)
    body.at(op.location)
    condition = body.get(head.yielded[0])
    body.line(f"@!{condition} {jump} {done_label};")
    body.emit_block(region)
    body.at(op.location)
    _next_values(body, targets, region.yielded)
    body.line(f"bra {loop_label};")
    _finish_loop(body, op, head.arguments, done_label, targets)


def _finish_loop(
    body: BodyEmitter, op: Op, carried: Sequence[Value], done_label: str, targets: Sequence[str]
) -> None:
    body.start(done_label)
    for result, argument, target in zip(op.results, carried, targets, strict=True):
        body.names[result] = target
        body.facts.assume(result, body.facts.multiple(argument))


RULES: dict[str, Rule] = {
    "call": BodyEmitter.emit_call,
    "if": _emit_if,
    "for": _emit_for,
    "while": _emit_while,
}
