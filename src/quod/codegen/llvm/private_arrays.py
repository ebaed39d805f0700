"""Private arrays of vector lanes: their layout, and the addresses of their elements.

A lane's array is contiguous if its pointer is used for more than loads and stores. Otherwise equal
indices of all lanes are adjacent, so an access with a uniform index is one vector load or store.
Gathers and scatters in its place take several times as long to compile and to run.
"""

from __future__ import annotations

from collections.abc import Collection

from quod.codegen.llvm.body import BodyEmitter
from quod.kernel.ir.nodes import Block, walk
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value


def interleaved_arrays(block: Block) -> Collection[Value]:
    """Return the pointers of private arrays that only loads and stores of a block use."""
    # Arrays are declared outside of nested regions.
    pointers = {op.results[0] for op in block.ops if op.definition.declares == "private"}
    for op in walk(block) if pointers else ():
        is_plain = op.definition.access not in (None, "atomic", "copy")
        pointers.difference_update(op.operands[1:] if is_plain else op.operands)
    return pointers


def store_active_lanes(body: BodyEmitter, kind: str, value: str, address: str, align: int) -> None:
    """Store a vector to private memory; inactive lanes keep their elements."""
    if body.mask is not None:
        previous = body.fresh(f"load {kind}, ptr {address}, align {align}")
        masks = body.vector("i1")
        value = body.fresh(f"select {masks} {body.mask}, {kind} {value}, {kind} {previous}")
    body.line(f"store {kind} {value}, ptr {address}, align {align}")


def interleaved_alignment(body: BodyEmitter, element: Type) -> int:
    """Return the alignment in bytes of the elements of all lanes; arrays begin at 64 bytes."""
    nbytes = element.bytes * body.lanes
    return min(64, nbytes & -nbytes)
