"""WGSL rules of control flow, with variables for results of branches and carried values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from quod.codegen.wgsl.body import LEVELS, BodyEmitter, Rule
from quod.codegen.wgsl.types import type_text
from quod.errors import KernelError
from quod.kernel.ir.nodes import Block, Op
from quod.kernel.ir.passes import is_without_effect
from quod.kernel.ir.value import Value

CUT_SHORT = "cut_short"
"""The variable that is set if the driver has ended a loop early."""

_NAME = re.compile(r"v\d+(\.m\d+)?|a\d+|\d+u|true|false")
"""Texts that need no copy in a parallel assignment, unless they are among its targets."""


def _if(body: BodyEmitter, op: Op) -> None:
    condition = body.text_of(op.operands[0])
    # SwiftShader's compile time doubles with each unused result in a chain of branches.
    used_indices = [i for i, result in enumerate(op.results) if body.is_read(result)]
    results = [body.fresh() for _ in used_indices]
    for name, i in zip(results, used_indices, strict=True):
        body.add(f"var {name}: {type_text(op.results[i].type)};")
        body.names[op.results[i]] = name
    then, otherwise = op.regions
    body.add(f"if ({condition}) {{")
    _side(body, then, results, used_indices)
    if len(otherwise.ops) > 1 or results:
        body.add("} else {")
        _side(body, otherwise, results, used_indices)
    body.add("}")


def _side(
    body: BodyEmitter, region: Block, results: Sequence[str], used_indices: Sequence[int]
) -> None:
    body.region(region)
    _assign(body, results, [region.yielded[i] for i in used_indices])


def _assign(body: BodyEmitter, targets: Sequence[str], values: Sequence[Value]) -> None:
    """Assign variables in parallel: all values are read before any variable is set."""
    texts = [body.text_of(value) for value in values]
    pairs = [(t, text) for t, text in zip(targets, texts, strict=True) if t != text]
    if len(pairs) > 1:
        for i, (target, text) in enumerate(pairs):
            if not _NAME.fullmatch(text) or text in targets:
                name = body.fresh()
                body.add_inside(f"let {name} = {text};")
                pairs[i] = (target, name)
    for target, text in pairs:
        body.add_inside(f"{target} = {text};")


def _variables(body: BodyEmitter, values: Sequence[Value]) -> list[str]:
    names = []
    for value in values:
        name = body.fresh()
        body.add(f"var {name} = {body.text_of(value)};")
        names.append(name)
    return names


def _for(body: BodyEmitter, op: Op) -> None:
    (region,) = op.regions
    start, stop, step = op.operands[:3]
    variables = _variables(body, op.operands[3:])
    index = body.fresh()
    stop_text = body.text_of(stop, LEVELS["shift"])
    if not stop_text.isidentifier() and stop.constant is None:
        stop_text = body.let(stop_text)
    increment = body.text_of(step, LEVELS["product"])
    declaration = f"var {index} = {body.text_of(start)};"
    watched = body.module.watches_loops
    if watched:
        body.add(declaration)
    loop_start = ";" if watched else declaration
    body.add(f"for ({loop_start} {index} < {stop_text}; {index} += {increment}) {{")
    body.names[region.arguments[0]] = index
    body.names.update(zip(region.arguments[1:], variables, strict=True))
    body.region(region)
    _assign(body, variables, region.yielded)
    body.add("}")
    if watched:
        body.add(f"if ({index} < {stop_text}) {{ {CUT_SHORT} = true; }}")
    body.names.update(zip(op.results, variables, strict=True))


def _while(body: BodyEmitter, op: Op) -> None:
    head, region = op.regions
    variables = _variables(body, op.operands)
    body.names.update(zip(head.arguments, variables, strict=True))
    body.add("loop {")
    body.region(head, region)
    (condition,) = head.yielded
    body.add_inside(f"if (!({body.text_of(condition)})) {{ break; }}")
    body.region(region)
    _assign(body, variables, region.yielded)
    body.add("}")
    if body.module.watches_loops:
        # Evaluate the condition again instead of setting a flag at the regular exit: compilers
        # assume that this exit is taken, and would replace the flag by a constant.
        if not is_without_effect(head):
            raise KernelError(
                f"{op.location}: what a while loop does before its condition has an effect, "
                "which a driver that ends loops early does not allow: put that behind the "
                "condition, or run the kernel on the processor"
            )
        body.add("{")
        body.region(head, region)
        body.add_inside(f"if ({body.text_of(condition)}) {{ {CUT_SHORT} = true; }}")
        body.add("}")
    body.names.update(zip(op.results, variables, strict=True))


RULES: dict[str, Rule] = {
    "call": BodyEmitter.emit_call,
    "if": _if,
    "for": _for,
    "while": _while,
}
