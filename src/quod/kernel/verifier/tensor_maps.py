"""Which tensor maps a kernel has made known before it copies by them.

The host writes a map as ordinary memory, which the copying unit may have an older copy of: without
`tensor_map_acquire` it may copy by that. No interpreter would notice. Source: PTX ISA 9.0,
"fence.proxy.tensormap".
"""

from __future__ import annotations

from quod.kernel.errors import VerificationFailure
from quod.kernel.ir.nodes import Kernel, walk
from quod.kernel.verifier.pointer_roots import pointer_roots

_MAP = 4
"""Which operand of a copy its map is."""


def check_maps(kernel: Kernel) -> None:
    """VerificationFailure for a copy by a map of an argument none of whose maps was made known."""
    roots, blocks = pointer_roots(kernel)
    ops = [op for block in blocks for op in walk(block)]
    known: set[int] = set()
    for op in ops:
        if op.name == "tensor_map_acquire":
            known |= roots.get(op.operands[0], set())
    for op in ops:
        if op.name != "copy_tile":
            continue
        maps = roots.get(op.operands[_MAP])
        if not maps or not maps <= known:
            raise VerificationFailure(
                "the tensor map of copy_tile is not known: k.tensor_map_acquire makes it so, "
                "before the first copy",
                op.location,
            )
