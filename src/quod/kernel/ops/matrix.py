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
        "Four matrices of 8 by 8 halves out of shared memory. Instance i of the subgroup points to "
        "row i % 8 of matrix i // 8: 16 bytes, at a multiple of as many, stored before the last "
        "barrier. Of each matrix it gets elements 2 * (i % 4) and the next one of row i // 4, in "
        "one word.",
        T=(types.u32,), I=(types.u32,),
    )  # fmt: skip
    row(
        "load_matrices_transposed", "ptr<T> I -> u32 u32 u32 u32",
        "The same of the transposed matrices: of column i // 4, from rows 2 * (i % 4) and the "
        "next.",
        T=(types.u32,), I=(types.u32,),
    )  # fmt: skip
    row = partial(
        define, "Matrices of a subgroup", capability=Capability.MATRIX_STORES,
        requires_uniformity=True,
        effect="write", access="store", type_rule="store_matrices", cost="memory",
    )  # fmt: skip
    row(
        "store_matrices", "ptr<T> I ... ->",
        "Stores 1, 2 or 4 matrices of 8 by 8 halves, of which each instance of the subgroup has a "
        "word, to shared memory: as `load_matrices` would give them. Instance i points to row i % "
        "8 of matrix i // 8; what those behind the last matrix point to does not matter. Where "
        "`transposed` holds it is as `load_matrices_transposed` would give them.",
        T=(types.u32,), I=(types.u32,),
    )  # fmt: skip
    row = partial(
        define, "Matrices of a subgroup", capability=Capability.TENSOR_CORES,
        requires_uniformity=True,
        effect="subgroup", step="mma",
    )  # fmt: skip
    of_a_product = "u32 u32 u32 u32 u32 u32 f32 f32 f32 f32 -> f32 f32 f32 f32"
    row(
        "mma_f16", of_a_product,
        "A B + C of a subgroup, with A of 16 by 16 f16, B of 16 by 8 and C of 16 by 8 f32. Words "
        "of two elements, the first in the low half. With g = i // 4 and t = i % 4, instance i has "
        "A[g, 2t], A[g + 8, 2t], A[g, 2t + 8] and A[g + 8, 2t + 8] with the next of the row each, "
        "B[2t, g] and B[2t + 8, g] with the next of the column, C[g, 2t], C[g, 2t + 1], C[g + 8, "
        "2t] and C[g + 8, 2t + 1]. Products are exact; sums may be truncated at each step.",
    )  # fmt: skip
    row("mma_bf16", of_a_product, "The same of bf16.")
    row(
        "mma_tf32", of_a_product,
        "The same of f32, of which 10 bits behind the point count: A is 16 by 8 and B 8 by 8. "
        "Instance i has A[g, t], A[g + 8, t], A[g, t + 4] and A[g + 8, t + 4], B[t, g] and B[t + "
        "4, g].",
    )  # fmt: skip
    row(
        "mma_i8", "u32 u32 u32 u32 u32 u32 i32 i32 i32 i32 -> i32 i32 i32 i32",
        "The same of i8, four in a word, with sums of i32, modulo 2**32: A is 16 by 32 and B 32 by "
        "8. Instance i has A[g, 4t], A[g + 8, 4t], A[g, 4t + 16] and A[g + 8, 4t + 16] with the "
        "next three of the row each, B[4t, g] and B[4t + 16, g] with the next three of the column.",
    )  # fmt: skip
    row = partial(row, capability=Capability.FLOAT8_CORES)
    row("mma_e4m3", of_a_product, "The same of e4m3, four in a word as i8, with sums of f32.")
    row("mma_e5m2", of_a_product, "The same of e5m2.")
    row("mma_e4m3_e5m2", of_a_product, "The same of e4m3 in A and e5m2 in B.")
    row("mma_e5m2_e4m3", of_a_product, "The same of e5m2 in A and e4m3 in B.")
