"""Rows of the op table: matrix fragments in the registers of a subgroup.

Source: PTX ISA 9.0, "ldmatrix", "stmatrix" and "mma".
"""

from __future__ import annotations

from functools import partial

from quod.kernel.ir import types
from quod.kernel.machine import Capability
from quod.kernel.ops.table import define


def define_matrix_ops() -> None:
    """Add the rows to the op table."""
    row = partial(
        define, "Matrices of a subgroup", capability=Capability.TENSOR_CORES,
        requires_uniformity=True,
        effect="read", access="load", type_rule="load_matrices", varies="always", cost="memory",
    )  # fmt: skip
    row(
        "load_matrices", "ptr<T> I -> u32 u32 u32 u32",
        "Loads four matrices of 8 by 8 16-bit elements from shared memory. Instance i of the "
        "subgroup points to row i % 8 of matrix i // 8: 16 aligned bytes, stored before the last "
        "barrier. Of each matrix, instance i gets one word with elements 2 * (i % 4) and 2 * (i % "
        "4) + 1 of row i // 4.",
        T=(types.u32,), I=(types.u32,),
    )  # fmt: skip
    row(
        "load_matrices_transposed", "ptr<T> I -> u32 u32 u32 u32",
        "As `load_matrices`, but instance i gets column i // 4 of rows 2 * (i % 4) and "
        "2 * (i % 4) + 1.",
        T=(types.u32,), I=(types.u32,),
    )  # fmt: skip
    row = partial(
        define, "Matrices of a subgroup", capability=Capability.MATRIX_STORES,
        requires_uniformity=True,
        effect="write", access="store", type_rule="store_matrices", cost="memory",
    )  # fmt: skip
    row(
        "store_matrices", "ptr<T> I ... ->",
        "Stores 1, 2 or 4 matrices of 8 by 8 16-bit elements to shared memory. Each instance of "
        "the subgroup has a word of each matrix, in the layout of `load_matrices` (of "
        "`load_matrices_transposed` if `transposed` is true). Instance i points to row i % 8 of "
        "matrix i // 8; the pointers of instances beyond the last matrix are ignored.",
        T=(types.u32,), I=(types.u32,),
    )  # fmt: skip
    row = partial(
        define, "Matrices of a subgroup", capability=Capability.TENSOR_CORES,
        requires_uniformity=True,
        effect="subgroup", interpreter_function="mma",
    )  # fmt: skip
    product_signature = "u32 u32 u32 u32 u32 u32 f32 f32 f32 f32 -> f32 f32 f32 f32"
    row(
        "mma_f16", product_signature,
        "Computes A B + C in a subgroup: A is 16 by 16 and B 16 by 8, of f16; C is 16 by 8, of "
        "f32. A word has two elements, the first in the low half. "
        "With g = i // 4 and t = i % 4, the "
        "words of instance i begin with A[g, 2t], A[g + 8, 2t], A[g, 2t + 8] and A[g + 8, 2t + "
        "8], each followed by the next element of its row, and with B[2t, g] and B[2t + 8, g], "
        "each followed by the next element of its column. Its sums are C[g, 2t], C[g, 2t + 1], "
        "C[g + 8, 2t] and C[g + 8, 2t + 1]. Products are exact; sums may be truncated at each "
        "step.",
    )  # fmt: skip
    row("mma_bf16", product_signature, "As `mma_f16`, with bf16.")
    row(
        "mma_tf32", product_signature,
        "As `mma_f16`, with f32 truncated to 10 mantissa bits: A is 16 by 8 and B 8 by 8. "
        "Instance i has A[g, t], A[g + 8, t], A[g, t + 4] and A[g + 8, t + 4], B[t, g] and B[t + "
        "4, g].",
    )  # fmt: skip
    row(
        "mma_i8", "u32 u32 u32 u32 u32 u32 i32 i32 i32 i32 -> i32 i32 i32 i32",
        "As `mma_f16`, with i8, four in a word, and i32 sums modulo 2**32: A is 16 by 32 and B 32 "
        "by 8. The words of instance i begin with A[g, 4t], A[g + 8, 4t], A[g, 4t + 16] and A[g + "
        "8, 4t + 16], each followed by the next three elements of its row, and with B[4t, g] and "
        "B[4t + 16, g], each followed by the next three of its column.",
    )  # fmt: skip
    row = partial(row, capability=Capability.FLOAT8_CORES)
    row("mma_e4m3", product_signature, "As `mma_i8`, with e4m3 and f32 sums.")
    row("mma_e5m2", product_signature, "As `mma_i8`, with e5m2 and f32 sums.")
    row("mma_e4m3_e5m2", product_signature, "As `mma_e4m3`, with e5m2 in B.")
    row("mma_e5m2_e4m3", product_signature, "As `mma_e4m3`, with e5m2 in A.")
