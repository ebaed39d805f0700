"""Which tensor maps a kernel has made known before it copies by them.

The host writes a map as ordinary memory, which the copying unit may have an older copy of: without
`tensor_map_acquire` it may copy by that. No interpreter would notice. Source: PTX ISA 9.0,
"fence.proxy.tensormap".
"""

from __future__ import annotations

from quod.kernel.errors import VerificationFailure
from quod.kernel.ir import Kernel, Op, walk
from quod.kernel.value import Value

_MAP = 4
"""Which operand of a copy its map is."""


def check_maps(kernel: Kernel) -> None:
    """VerificationFailure for a copy by maps of an argument none of which was made known.

    Of a map that cannot be told, as in a function, it is enough that the kernel makes some known.
    """
    blocks = [kernel.block, *(function.block for function in kernel.functions)]
    ops = [op for block in blocks for op in walk(block)]
    known = {_argument(op, 0) for op in ops if op.name == "tensor_map_acquire"}
    for op in ops:
        if op.name != "copy_tile":
            continue
        maps = _argument(op, _MAP)
        if maps not in known and (maps in kernel.block.arguments or not known):
            raise VerificationFailure(
                "the tensor map of copy_tile is not known: k.tensor_map_acquire makes it so, "
                "before the first copy",
                op.location,
            )


def _argument(op: Op, at: int) -> Value:
    value = op.operands[at]
    while value.op is not None and value.op.definition.derives_pointer:
        value = value.op.operands[0]
    return value
