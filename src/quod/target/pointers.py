"""Which of a kernel's memory parameters it may store to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quod.kernel.ir import Block, Function, Kernel, Op, walk
from quod.kernel.types import PointerType
from quod.kernel.value import Value


def stored_parameters(kernel: Kernel) -> list[int]:
    """Indices of the parameters through which the kernel may store or add, in order.

    A pointer may come to be through pointer arithmetic, loops, branches and calls; where it can be
    that of several parameters, all of them count.
    """
    roots: dict[Value, set[int]] = {
        argument: {index}
        for index, argument in enumerate(kernel.block.arguments)
        if isinstance(argument.type, PointerType)
    }
    functions: dict[int, Function] = {}
    edges = list(_edges(kernel.block, functions))
    changed = True
    while changed:
        changed = False
        for source, target in edges:
            found, known = roots.get(source), roots.setdefault(target, set())
            if found and not found <= known:
                known |= found
                changed = True
    stored: set[int] = set()
    for block in (kernel.block, *(function.block for function in functions.values())):
        for op in walk(block):
            if op.name in ("store", "atomic_add"):
                stored |= roots.get(op.operands[0], set())
    return sorted(stored)


def _edges(block: Block, functions: dict[int, Function]) -> Iterator[tuple[Value, Value]]:
    """From each pointer to the pointers that are the same or derived from it."""
    for op in walk(block):
        for sources, targets in _flows(op, functions):
            for source, target in zip(sources, targets, strict=True):
                if isinstance(target.type, PointerType):
                    yield source, target
        if op.name == "call":
            function = op.attributes["function"]
            if id(function) not in functions:
                functions[id(function)] = function
                yield from _edges(function.block, functions)


def _flows(
    op: Op, functions: dict[int, Function]
) -> Iterable[tuple[tuple[Value, ...], tuple[Value, ...]]]:
    match op.name:
        case "pointer_add" | "pointer_cast":
            yield op.operands[:1], op.results
        case "call":
            block = op.attributes["function"].block
            yield op.operands, block.arguments
            yield block.yielded, op.results
        case "if":
            for region in op.regions:
                yield region.yielded, op.results
        case "for":
            (region,) = op.regions
            carried = region.arguments[1:]
            yield op.operands[3:], carried
            yield region.yielded, carried
            yield carried, op.results
        case "while":
            head, body = op.regions
            yield op.operands, head.arguments
            yield body.yielded, head.arguments
            yield head.arguments, op.results
