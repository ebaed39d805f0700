"""The structs of the kernels of sumchecks."""

from __future__ import annotations

from quod.kernel import U32, Pointer, Struct


class SumcheckSizes(Struct):
    """The sizes of a batch of sumchecks.

    batch: the number of sumchecks.
    log_size: the number of variables of each.
    log_low: the number of variables of the lower eq table.
    """

    batch: U32
    log_size: U32
    log_low: U32


class InputTables(Struct):
    """The tables before the first fold: over the prime field, and over the field of challenges.

    parameters: further input of the shape's source, if it has one.
    """

    base: Pointer[U32]
    extended: Pointer[U32]
    parameters: Pointer[U32]


class SumcheckMemory(Struct):
    """The small arrays of a batch; see `quod.sumcheck.memory`."""

    equality: Pointer[U32]
    progress: Pointer[U32]
    proof: Pointer[U32]
