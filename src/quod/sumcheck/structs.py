"""Structs that the kernels of sumchecks take."""

from __future__ import annotations

from quod.kernel import U32, Pointer, Struct


class SumcheckSizes(Struct):
    """A batch of sumchecks, the variables of each, and those of the lower pyramid of eq."""

    batch: U32
    log_size: U32
    log_low: U32


class InputTables(Struct):
    """The tables before the first fold: those of the prime field, and those of its extension."""

    base: Pointer[U32]
    extended: Pointer[U32]


class SumcheckMemory(Struct):
    """The small arrays of a batch, as in `quod.sumcheck.memory`."""

    equality: Pointer[U32]
    progress: Pointer[U32]
    proof: Pointer[U32]
