"""Verification that a kernel acquires tensor maps before it copies with them.

The host writes a map as ordinary memory, and the copy engine may have an older version cached:
without `tensor_map_acquire` it may use the older version, which the interpreter cannot detect.
Source: PTX ISA 9.0, "fence.proxy.tensormap".
"""

from __future__ import annotations

from quod.kernel.errors import VerificationFailure
from quod.kernel.ir.nodes import Kernel, walk
from quod.kernel.verifier.pointer_roots import pointer_roots

_MAP = 4
"""The index of a copy's operand that is its tensor map."""


def check_maps(kernel: Kernel) -> None:
    """Raise VerificationFailure for a copy with a map from an argument without an acquire op."""
    roots, blocks = pointer_roots(kernel)
    ops = [op for block in blocks for op in walk(block)]
    acquired: set[int] = set()
    for op in ops:
        if op.name == "tensor_map_acquire":
            acquired |= roots.get(op.operands[0], set())
    for op in ops:
        if op.name != "copy_tile":
            continue
        maps = roots.get(op.operands[_MAP])
        if not maps or not maps <= acquired:
            raise VerificationFailure(
                "the tensor map of copy_tile is not known: k.tensor_map_acquire makes it so, "
                "before the first copy",
                op.location,
            )
