"""Which of a kernel's memory parameters it stores to, and how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quod.frozen import frozen
from quod.kernel.ir import Block, Function, Kernel, Op, walk
from quod.kernel.types import PointerType
from quod.kernel.value import Value


@frozen
class PointerUses:
    """Indices of parameters, in order: stored through in any way, and changed atomically."""

    stored: tuple[int, ...]
    atomic: tuple[int, ...]


def pointer_uses(kernel: Kernel) -> PointerUses:
    """What a kernel may do through the pointers among its parameters.

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
            sources, known = roots.get(source), roots.setdefault(target, set())
            if sources and not sources <= known:
                known |= sources
                changed = True
    stored: set[int] = set()
    atomic: set[int] = set()
    for block in (kernel.block, *(function.block for function in functions.values())):
        for op in walk(block):
            access = op.definition.access
            if access not in (None, "load"):
                found = roots.get(op.operands[0], set())
                stored |= found
                if access == "atomic":
                    atomic |= found
    return PointerUses(tuple(sorted(stored)), tuple(sorted(atomic)))


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
    if op.definition.derives_pointer:
        yield op.operands[:1], op.results
    elif op.name == "call":
        block = op.attributes["function"].block
        yield op.operands, block.arguments
        yield block.yielded, op.results
    elif op.definition.repeats:
        yield op.initial, op.carried
        yield op.regions[-1].yielded, op.carried
        yield op.carried, op.results
    else:
        for region in op.regions:
            yield region.yielded, op.results
