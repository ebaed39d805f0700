"""LLVM rules of control flow: branches on uniform conditions, masks on divergent ones."""

from __future__ import annotations

from quod.codegen.llvm.body import BodyEmitter, Rule
from quod.codegen.llvm.first_lane import of_lane0
from quod.codegen.llvm.types import scalar_name
from quod.kernel.ir.nodes import Block, Op
from quod.kernel.ir.value import Value


def _mask_type(body: BodyEmitter) -> str:
    return f"<{body.lanes} x i1>"


def _combine(body: BodyEmitter, mask: str | None, condition: str) -> str:
    if mask is None:
        return condition
    return body.fresh(f"and {_mask_type(body)} {mask}, {condition}")


def _any_lane(body: BodyEmitter, mask: str) -> str:
    bits = body.fresh(f"bitcast {_mask_type(body)} {mask} to i{body.lanes}")
    return body.fresh(f"icmp ne i{body.lanes} {bits}, 0")


def _emit_if(body: BodyEmitter, op: Op) -> None:
    (condition,) = op.operands
    if body.is_varying(condition):
        _emit_divergent_if(body, op, body.get(condition))
        return
    sides = [(body.new_label("then"), op.regions[0]), (body.new_label("else"), op.regions[1])]
    merge = body.new_label("merge")
    (then_label, _), (else_label, _) = sides
    body.line(f"br i1 {body.get(condition)}, label %{then_label}, label %{else_label}")
    incoming = []
    for label, region in sides:
        body.start(label)
        values = body.emit_block(region, list(map(body.is_varying, op.results)))
        incoming.append((values, body.label))
        body.line(f"br label %{merge}")
    body.start(merge)
    for index, result in enumerate(op.results):
        choices = ", ".join(f"[ {values[index]}, %{label} ]" for values, label in incoming)
        body.names[result] = body.fresh(f"phi {body.type_of(result)} {choices}")


def _emit_divergent_if(body: BodyEmitter, op: Op, condition: str) -> None:
    outer_mask = body.mask
    then_region, else_region = op.regions
    negated = body.fresh(f"xor {_mask_type(body)} {condition}, splat (i1 true)")
    then_values = _emit_side(body, op, then_region, _combine(body, outer_mask, condition))
    else_values = None
    if len(else_region.ops) > 1 or op.results:
        else_values = _emit_side(body, op, else_region, _combine(body, outer_mask, negated))
    body.mask = outer_mask
    if else_values is None:
        return
    for result, a, b in zip(op.results, then_values, else_values, strict=True):
        kind = body.type_of(result)
        text = f"select {_mask_type(body)} {condition}, {kind} {a}, {kind} {b}"
        body.names[result] = body.fresh(text)


def _emit_side(body: BodyEmitter, op: Op, region: Block, mask: str) -> list[str]:
    """Emit one side of a divergent branch, skipped at run time if no lane needs it."""
    if len(region.ops) == 1:
        return [body.get(value, varying=True) for value in region.yielded]
    run_label, after_label = body.new_label("run"), body.new_label("after")
    entry_label = body.label
    body.line(f"br i1 {_any_lane(body, mask)}, label %{run_label}, label %{after_label}")
    body.start(run_label)
    body.mask = mask
    values = body.emit_block(region, [True] * len(op.results))
    exit_label = body.label
    body.line(f"br label %{after_label}")
    body.start(after_label)
    results = []
    for result, value in zip(op.results, values, strict=True):
        choices = f"[ {value}, %{exit_label} ], [ zeroinitializer, %{entry_label} ]"
        results.append(body.fresh(f"phi {body.type_of(result, varying=True)} {choices}"))
    return results


class _Phis:
    """The phi nodes of a loop's carried values, completed after its body is emitted."""

    def __init__(
        self, body: BodyEmitter, carried: tuple[Value, ...], initial: list[str], entry_label: str
    ) -> None:
        self._body = body
        self._carried = carried
        self._initial = initial
        self._entry_label = entry_label
        self._lines = []
        for value in carried:
            body.names[value] = body.reserve()
            self._lines.append(body.line(""))

    def close(self, next_values: list[str], latch: str) -> None:
        for line, value, initial_value, next_value in zip(
            self._lines, self._carried, self._initial, next_values, strict=True
        ):
            body = self._body
            text = (
                f"{body.names[value]} = phi {body.type_of(value)} "
                f"[ {initial_value}, %{self._entry_label} ], [ {next_value}, %{latch} ]"
            )
            body.patch(line, text)


def _emit_next_values(
    body: BodyEmitter, carried: tuple[Value, ...], region: Block, active: str | None
) -> list[str]:
    """Emit the next carried values; lanes that have left the loop keep theirs."""
    values = []
    yielded = body.emit_block(region, list(map(body.is_varying, carried)))
    for value, name in zip(carried, yielded, strict=True):
        if active is not None:
            kind = body.type_of(value)
            old_value = body.names[value]
            name = body.fresh(
                f"select {_mask_type(body)} {active}, {kind} {name}, {kind} {old_value}"
            )
        values.append(name)
    return values


def _unwrapped_lanes(
    body: BodyEmitter, start: Value, stride: int | None, predicate: str
) -> str | None:
    """Emit, as i32, the number of a lane whose loop index has not wrapped around.

    `first_lane` widens lane 0's index to i64 by the index of this lane. It is lane 0, or the lane
    that `prefix_masks` has for the mask of the enclosing loop, unless the index wraps around
    between lane 0 and the last lane: then it is the last lane. None if the active lanes are not
    known to be a prefix of the lanes.
    """
    if stride is None or stride < 0:
        return None
    if not (body.lane0_is_active and body.strides.never_wraps(start)):
        return None
    scalar, last_lane = scalar_name(start.type), body.lanes - 1
    lane0_index = of_lane0(body, start)
    last_index = body.fresh(f"add {scalar} {lane0_index}, {last_lane * stride}")
    wraps = body.fresh(f"icmp {predicate} {scalar} {last_index}, {lane0_index}")
    default_lane = "0" if body.mask is None else body.prefix_masks[body.mask]
    return body.fresh(f"select i1 {wraps}, i32 {last_lane}, i32 {default_lane}")


def _emit_for(body: BodyEmitter, op: Op) -> None:
    start, stop, step = op.operands[:3]
    (region,) = op.regions
    index, carried = region.arguments[0], region.arguments[1:]
    divergent = body.is_varying(index)
    # With a uniform step, the index keeps the stride of its start. Carried values may wrap around.
    body.strides.count(index, start, step)
    body.strides.carry(carried)
    initial = [
        body.get(value, varying=body.is_varying(argument))
        for value, argument in zip((start, *op.operands[3:]), region.arguments, strict=True)
    ]
    stop_text = body.get(stop, varying=divergent)
    increment = body.get(step, varying=divergent)
    outer_mask = body.mask
    predicate = "slt" if index.type.kind == "signed" else "ult"
    unwrapped_lane = None
    if divergent and body.strides.of(stop) == 0:
        unwrapped_lane = _unwrapped_lanes(body, start, body.strides.of(index), predicate)
    header, body_label, exit_label = (body.new_label(hint) for hint in ("head", "body", "done"))
    entry_label = body.label
    body.line(f"br label %{header}")
    body.start(header)
    phis = _Phis(body, region.arguments, initial, entry_label)
    kind = body.type_of(index)
    active_line, active = (body.line(""), body.reserve()) if divergent else (0, None)
    in_range = body.fresh(f"icmp {predicate} {kind} {body.names[index]}, {stop_text}")
    if active is None:
        running, active_mask = in_range, None
    else:
        active_mask = body.fresh(f"and {_mask_type(body)} {active}, {in_range}")
        running = _any_lane(body, active_mask)
        if unwrapped_lane is not None:
            body.prefix_masks[active_mask] = unwrapped_lane
        body.mask = active_mask
    body.line(f"br i1 {running}, label %{body_label}, label %{exit_label}")
    body.start(body_label)
    next_values = _emit_next_values(body, carried, region, active_mask)
    advanced = body.fresh(f"add {kind} {body.names[index]}, {increment}")
    phis.close([advanced, *next_values], body.label)
    if active is not None:
        initial_mask = outer_mask or "splat (i1 true)"
        text = (
            f"{active} = phi {_mask_type(body)} [ {initial_mask}, %{entry_label} ], "
            f"[ {active_mask}, %{body.label} ]"
        )
        body.patch(active_line, text)
    body.line(f"br label %{header}")
    body.start(exit_label)
    body.mask = outer_mask
    for result, argument in zip(op.results, carried, strict=True):
        body.names[result] = body.names[argument]


def _emit_while(body: BodyEmitter, op: Op) -> None:
    head, region = op.regions
    body.strides.carry(head.arguments)
    divergent = body.is_varying(head.yielded[0])
    initial = [
        body.get(value, varying=body.is_varying(argument))
        for value, argument in zip(op.operands, head.arguments, strict=True)
    ]
    outer_mask = body.mask
    header, body_label, exit_label = (body.new_label(hint) for hint in ("head", "body", "done"))
    entry_label = body.label
    body.line(f"br label %{header}")
    body.start(header)
    phis = _Phis(body, head.arguments, initial, entry_label)
    active_line, active = (body.line(""), body.reserve()) if divergent else (0, None)
    if active is not None:
        body.mask = active
    (condition,) = body.emit_block(head, [divergent])
    active_mask = None
    if active is None:
        body.line(f"br i1 {condition}, label %{body_label}, label %{exit_label}")
    else:
        active_mask = body.fresh(f"and {_mask_type(body)} {active}, {condition}")
        body.line(f"br i1 {_any_lane(body, active_mask)}, label %{body_label}, label %{exit_label}")
        body.mask = active_mask
    body.start(body_label)
    next_values = _emit_next_values(body, head.arguments, region, active_mask)
    phis.close(next_values, body.label)
    if active is not None:
        initial_mask = outer_mask or "splat (i1 true)"
        text = (
            f"{active} = phi {_mask_type(body)} [ {initial_mask}, %{entry_label} ], "
            f"[ {active_mask}, %{body.label} ]"
        )
        body.patch(active_line, text)
    body.line(f"br label %{header}")
    body.start(exit_label)
    body.mask = outer_mask
    for result, argument in zip(op.results, head.arguments, strict=True):
        body.names[result] = body.names[argument]


RULES: dict[str, Rule] = {
    "call": BodyEmitter.emit_call,
    "if": _emit_if,
    "for": _emit_for,
    "while": _emit_while,
}
