"""Which device functions of a kernel are copied to their callers."""

from __future__ import annotations

from quod.kernel.ir import Block, Function, Kernel, walk

INLINE_OPS = 1024
"""Ops of the largest function that is copied to several places.

A call passes 12 words in registers and the others, field elements mostly, through memory.
"""

INLINE_TOTAL = 1 << 16
"""Ops that the copies of one function may add up to: the assembler's time grows with them."""


def inlined_functions(kernel: Kernel) -> set[int]:
    """The ids of the functions that are copied: marked so, called once, or small."""
    order = _callees_first(kernel)
    sizes: dict[int, int] = {}
    for function in order:
        sizes[id(function)] = _size(function.block, sizes)
    sites: dict[int, int] = {}
    inlined: set[int] = set()

    def count(block: Block, copies: int) -> None:
        for op in walk(block):
            if op.name == "call":
                callee = id(op.attributes["function"])
                sites[callee] = sites.get(callee, 0) + copies

    count(kernel.block, 1)
    for function in reversed(order):
        key = id(function)
        size, times = sizes[key], sites[key]
        small = size <= INLINE_OPS and size * times <= INLINE_TOTAL
        if function.inline or times == 1 or small:
            inlined.add(key)
        count(function.block, times if key in inlined else 1)
    return inlined


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


def _size(block: Block, sizes: dict[int, int]) -> int:
    """Ops of a region, with those of the small functions that it calls."""
    total = 0
    for op in walk(block):
        if op.name == "call":
            function: Function = op.attributes["function"]
            size = sizes[id(function)]
            total += size if function.inline or size <= INLINE_OPS else 1
        elif op.name not in ("const", "yield"):
            total += 1
    return total
