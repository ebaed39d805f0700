"""Pointer provenance: the parameters or declared arrays that a pointer may be derived from."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

from quod.kernel.ir.nodes import Block, Function, Kernel, Op, walk
from quod.kernel.ir.types import PointerType
from quod.kernel.ir.value import Value

Root = TypeVar("Root", bound=Hashable)


def pointer_roots(kernel: Kernel) -> tuple[dict[Value, set[int]], list[Block]]:
    """Map each pointer to the indices of the parameters that it may be derived from.

    Follows pointer arithmetic, loops, branches and calls; a pointer may be derived from several
    parameters.
    Also returns the bodies that run: the kernel's and those of called functions.
    """
    return _propagate(
        kernel,
        {
            argument: {index}
            for index, argument in enumerate(kernel.block.arguments)
            if isinstance(argument.type, PointerType)
        },
    )


def array_roots(kernel: Kernel) -> tuple[dict[Value, set[Value]], list[Block]]:
    """Map each pointer to the declared arrays it may be derived from, as `pointer_roots` does."""
    blocks = [kernel.block, *(function.block for function in kernel.functions)]
    declared = (op for block in blocks for op in walk(block) if op.definition.declares)
    return _propagate(kernel, {op.results[0]: {op.results[0]} for op in declared})


def _propagate(
    kernel: Kernel, roots: dict[Value, set[Root]]
) -> tuple[dict[Value, set[Root]], list[Block]]:
    functions: dict[int, Function] = {}
    edges = list(_edges(kernel.block, functions))
    changed = True
    while changed:
        changed = False
        for source, target in edges:
            sources, targets = roots.get(source), roots.setdefault(target, set())
            if sources and not sources <= targets:
                targets |= sources
                changed = True
    return roots, [kernel.block, *(function.block for function in functions.values())]


def _edges(block: Block, functions: dict[int, Function]) -> Iterator[tuple[Value, Value]]:
    """Yield pairs of a pointer and another pointer that equals it or is derived from it."""
    for op in walk(block):
        if not (op.definition.derives_pointer or op.regions or op.name == "call"):
            continue
        for sources, targets in _flows(op):
            for source, target in zip(sources, targets, strict=True):
                if isinstance(target.type, PointerType):
                    yield source, target
        if op.name == "call":
            function = op.attributes["function"]
            if id(function) not in functions:
                functions[id(function)] = function
                yield from _edges(function.block, functions)


def _flows(op: Op) -> Iterable[tuple[tuple[Value, ...], tuple[Value, ...]]]:
    """Yield (sources, targets): each target may take the value of the source at its index."""
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
