"""Rows of the op table: tiles copied by the tensor memory accelerator, and their products.

Sources: PTX ISA 9.0, "Asynchronous Data Movement", "mbarrier" and "Asynchronous Warpgroup Level
Matrix Multiply-Accumulate".
"""

from __future__ import annotations

from functools import partial

from quod.kernel.ir import types
from quod.kernel.machine import Capability
from quod.kernel.ops.table import define

LINE = 128
"""Bytes in a line of a tile in shared memory: 64 elements of 16 bits."""

COLUMNS = LINE // 2
"""16-bit elements in a line."""

PATTERN = 8 * LINE
"""The period of the 128-byte swizzle, in bytes."""

MATRIX_ROWS, MATRIX_DEPTH = 64, 16
"""The shape of A in one product: rows, and elements along K (of 16-bit types)."""


SHORT = ("i8", "e4m3", "e5m2", "e4m3_e5m2", "e5m2_e4m3")
"""Element types of 8-bit products; a pair if A and B have different types."""

IN_TILES = ("f16", "bf16", *SHORT, "f32")
"""Element types of products of tiles."""


CLUSTERS = (1, 2, 4, 8)
"""Supported cluster sizes in workgroups."""

MBARRIER_COUNTS = range(1, 1 << 20)
"""The valid arrival counts of an mbarrier phase."""

REGISTER_COUNTS = range(24, 257, 8)
"""The valid register counts per instance of a role."""

SUBGROUP = 32
"""Instances of a subgroup on machines that multiply tiles."""

WARPGROUP = 4 * SUBGROUP
"""Instances that compute one product collectively."""
LOG2_WARPGROUP = WARPGROUP.bit_length() - 1


def define_tile_ops() -> None:
    """Add the rows to the op table."""
    row = partial(
        define, "Clusters and tiles in shared memory", capability=Capability.TILE_COPIES,
        effect="write", cost="memory", requires_uniformity=True,
    )  # fmt: skip
    row(
        "cluster_rank", "-> u32", "Index of this workgroup in its cluster.",
        effect="none", cost="other", requires_uniformity=False, interpreter_function="identity",
    )  # fmt: skip
    row(
        "cluster_barrier", "->",
        "Waits for all instances of all workgroups of the cluster. Without `memory` it orders only "
        "accesses of tile copies and products to shared memory, not instances' loads and stores.",
        effect="barrier", cost="barriers", type_rule="cluster_barrier", blocks=True,
    )  # fmt: skip
    row(
        "mbarrier_init", "ptr<T,shared> I ->",
        "Makes pointer[index] an mbarrier. A phase ends when `count` arrivals have been made and "
        "all expected bytes have been copied. Other instances may use the mbarrier after a "
        "barrier, other workgroups after a cluster barrier.",
        type_rule="mbarrier_init", T=(types.u64,), I=(types.u32,),
    )  # fmt: skip
    row(
        "mbarrier_expect", "ptr<T,shared> I u32 ->",
        "Adds to the expected bytes of the phase of the mbarrier pointer[index], and arrives once.",
        type_rule="with_mbarrier", arrives="one", T=(types.u64,), I=(types.u32,),
    )  # fmt: skip
    row(
        "mbarrier_arrive", "ptr<T,shared> I ->",
        "Each subgroup arrives once at the mbarrier pointer[index]. Instances that wait for the "
        "phase see the subgroup's earlier stores.",
        type_rule="with_mbarrier", arrives="each", makes_roles=True, T=(types.u64,), I=(types.u32,),
    )  # fmt: skip
    row(
        "mbarrier_wait", "ptr<T,shared> I u32 ->",
        "Waits until a phase of the mbarrier pointer[index] has ended; the last operand, modulo "
        "2, is the phase's number, from 0. All instances then see what was copied in the phase.",
        cost="barriers", type_rule="with_mbarrier", blocks=True, T=(types.u64,), I=(types.u32,),
    )  # fmt: skip
    row(
        "tensor_map_acquire", "ptr<T,global> ->",
        "Makes a tensor map that the host wrote before the launch visible to `copy_tile`.",
        type_rule="tensor_map_acquire", interpreter_function="nothing", T=(types.u64,),
    )  # fmt: skip
    row(
        "copy_tile",
        "ptr<u32,shared> u32 ptr<u64,shared> u32 ptr<u64,global> ptr<u32,global> u32 u32 u32 u32 "
        "u32 u32 ->",
        "Starts to copy a tile of `lines` lines of 128 bytes (64 elements of 16 bits) to shared "
        "memory, at an address that is a multiple of 1024 bytes; an mbarrier counts the bytes. "
        "Operands: the target pointer and its index; the mbarrier's pointer and index; the tensor "
        "map; the source pointer; the source's elements per line, lines per plane, and planes; the "
        "element, line and plane at which the tile begins. The source is a contiguous array, and "
        "its tensor map describes it by the same numbers. Elements of the tile outside the array "
        "are zeros. In line i, chunk j of 16 bytes is stored at chunk j xor i % 8 (the 128-byte "
        "swizzle). With `multicast` all workgroups of the cluster get the tile, and each one's "
        "mbarrier counts the bytes.",
        type_rule="copy_tile", is_asynchronous=True,
    )  # fmt: skip
    row = partial(
        define, "Matrices of four subgroups", capability=Capability.WARPGROUPS, effect="write",
        requires_uniformity=True,
    )  # fmt: skip
    row(
        "mma_begin", "->", "Must precede products whose sums other ops have set or changed.",
        interpreter_function="nothing",
    )  # fmt: skip
    row(
        "mma_tiles", "... -> ...",
        "Starts to add A B to the sums C of a warpgroup (four subgroups). A and B are in tiles "
        "laid out as by `copy_tile`. Their shapes are 64 by 16 and 16 by n for f16 and bf16; 64 "
        "by 32 and 32 by n for i8 (sums are i32 modulo 2**32) and for e4m3 and e5m2 (about 14 "
        "bits of a sum are significant); 64 by 8 and 8 by n for f32 (of which 10 mantissa bits "
        "are used). In a tile, two 8-bit elements, or half an f32, take 16 bits. Operands: a "
        "pointer and the index of a word for A, the same for B, and n/2 sums, whose registers the "
        "results replace. Lines of a tile run along K. For f16 and bf16, `a_along` or `b_along` "
        "makes them run along the other axis; `a_apart` or `b_apart` is then the distance in words "
        "between consecutive blocks of 64 elements on that axis. With g = i % 32 // 4, t = i % 4 "
        "and r = 16 (i // 32) + g, instance i of the warpgroup holds, of columns 8j to 8j + 7, "
        "C[r, 8j + 2t], C[r, 8j + 2t + 1], C[r + 8, 8j + 2t] and C[r + 8, 8j + 2t + 1].",
        type_rule="mma_tiles", varies="always", tied=4, is_asynchronous=True,
    )  # fmt: skip
    row(
        "mma_rows", "... -> ...",
        "As `mma_tiles`, with A in registers. Operands: four words of A, of two elements each (the "
        "first in the low half); a pointer and the index of a word for B; and the sums. With r and "
        "t of `mma_tiles`, the words of instance i of the warpgroup begin with A[r, 2t], A[r + 8, "
        "2t], A[r, 2t + 8] and A[r + 8, 2t + 8], each followed by the next element of its row. "
        "Sums of two blocks of 8 columns, rounded and packed, have this layout.",
        type_rule="mma_rows", varies="always", tied=6, is_asynchronous=True,
    )  # fmt: skip
    row("mma_commit", "->", "Forms a group of the products started since the last group.")
    row(
        "mma_wait", "... -> ...",
        "Waits until all groups of products except the last `pending` are done; returns its "
        "operands, the sums of groups that are done.",
        type_rule="mma_wait", cost="barriers",
        tied=0, waits=True,
    )  # fmt: skip
