"""Passes over a traced kernel."""

from __future__ import annotations

from quod.kernel.ir import Block, Kernel, walk
from quod.kernel.value import Value


def eliminate_dead_code(kernel: Kernel) -> None:
    """Removes ops without effects whose results nothing uses, and functions nothing calls."""
    bodies = [kernel.block, *(function.block for function in kernel.functions)]
    for body in bodies:
        _sweep(body, set())
    called: set[int] = set()
    pending = [kernel.block]
    while pending:
        for op in walk(pending.pop()):
            if op.name == "call" and id(op.attributes["function"]) not in called:
                called.add(id(op.attributes["function"]))
                pending.append(op.attributes["function"].block)
    kernel.functions = [function for function in kernel.functions if id(function) in called]


def _sweep(block: Block, used: set[Value]) -> None:
    """Removes dead ops backwards; `used` gathers what the kept ones need."""
    kept = []
    for op in reversed(block.ops):
        needed = not op.definition.removable or any(result in used for result in op.results)
        if not needed:
            continue
        for region in op.regions:
            _sweep(region, used)
        used.update(op.operands)
        kept.append(op)
    kept.reverse()
    block.ops[:] = kept
