"""The choice of device functions to inline."""

from __future__ import annotations

from quod.kernel.ir.nodes import Block, Function, Kernel, walk

INLINE_OPS = 1024
"""The maximum ops of a function that is inlined at several call sites.

A call passes 12 words in registers and the others, mostly of field elements, through memory.
"""

INLINE_TOTAL = 1 << 14
"""The maximum ops of a kernel after inlining: assembly time grows superlinearly."""


def inlined_functions(kernel: Kernel) -> set[int]:
    """Return the ids of the functions to inline: those marked, called once, or small.

    If inlining small functions makes the kernel too large, those that add the most ops are called.
    """
    order = _callees_first(kernel)
    called: set[int] = set()
    while True:
        inlined, site_counts = _choose(kernel, order, called)
        sizes = _sizes(order, inlined)
        called_ops = sum(sizes[id(function)] for function in order if id(function) not in inlined)
        repeated = [
            function
            for function in order
            if id(function) in inlined and not function.inline and site_counts[id(function)] > 1
        ]
        if not repeated or _size(kernel.block, sizes, inlined) + called_ops <= INLINE_TOTAL:
            return inlined
        growth = {
            id(function): sizes[id(function)] * (site_counts[id(function)] - 1)
            for function in repeated
        }
        called.add(max(growth, key=growth.__getitem__))


def _choose(
    kernel: Kernel, order: list[Function], called: set[int]
) -> tuple[set[int], dict[int, int]]:
    """Return the functions to inline, except those in `called`, and the call sites of each."""
    small: set[int] = set()
    sizes: dict[int, int] = {}
    for function in order:
        size = sizes[id(function)] = _size(function.block, sizes, small)
        if function.inline or (size <= INLINE_OPS and id(function) not in called):
            small.add(id(function))
    site_counts = dict.fromkeys(sizes, 0)
    inlined: set[int] = set()
    _count_calls(kernel.block, 1, site_counts)
    for function in reversed(order):
        key = id(function)
        if key in small or site_counts[key] == 1:
            inlined.add(key)
        _count_calls(function.block, site_counts[key] if key in inlined else 1, site_counts)
    return inlined, site_counts


def _count_calls(block: Block, copies: int, site_counts: dict[int, int]) -> None:
    for op in walk(block):
        if op.name == "call":
            site_counts[id(op.attributes["function"])] += copies


def _callees_first(kernel: Kernel) -> list[Function]:
    order: list[Function] = []
    seen: set[int] = set()

    def visit(block: Block) -> None:
        for op in walk(block):
            if op.name == "call":
                function: Function = op.attributes["function"]
                if id(function) not in seen:
                    seen.add(id(function))
                    visit(function.block)
                    order.append(function)

    visit(kernel.block)
    return order


def _sizes(order: list[Function], inlined: set[int]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for function in order:
        sizes[id(function)] = _size(function.block, sizes, inlined)
    return sizes


def _size(block: Block, sizes: dict[int, int], inlined: set[int]) -> int:
    """Count the ops of a region, including those of functions inlined into it."""
    total = 0
    for op in walk(block):
        if op.name == "call":
            callee = id(op.attributes["function"])
            total += sizes[callee] if callee in inlined else 1
        elif not op.definition.unwritten:
            total += 1
    return total
