"""Loads and stores of many words by few of the lanes of a vector."""

from __future__ import annotations

import numpy as np

from quod.codegen.llvm import emitter as llvm
from quod.kernel import U32, U64, Builder, Pointer, kernel, types
from tests.support.executors import executors, run_everywhere

_WORDS = 48


@kernel
def move_some(k: Builder, count: U32, given: Pointer[U64], out: Pointer[U64]) -> None:
    """Every third row of 48 words, with twice the row's first word kept across the store."""
    i = k.global_id()
    kept = k.shared(types.u64, _WORDS * k.workgroup_size)
    with k.range(0, _WORDS) as loop:
        kept[loop.index * k.workgroup_size + k.local_id()] = given[i * _WORDS + loop.index]
    with k.if_((i < count) & (i % 3 == 1)):
        k.store(out, i * _WORDS, *k.load(given, i * _WORDS, _WORDS))
    with k.range(0, _WORDS) as loop:
        place = loop.index * k.workgroup_size + k.local_id()
        out[(16 + i) * _WORDS + loop.index] = kept[place]


def test_scratch_memory_holds_all_words_of_a_lane() -> None:
    """Beyond it lies the stack: an overrun need not show in any result."""
    machine = executors()[0].machine
    assert machine.workgroup_size == 8
    assert f"alloca [{8 * _WORDS} x i8]" in llvm.emit(move_some.trace(machine), machine)


def test_idle_lanes_neither_read_nor_write_beyond_their_scratch_memory() -> None:
    given = np.arange(16 * _WORDS, dtype=np.uint64)
    found = run_everywhere(move_some, 2, [14, given, np.zeros(32 * _WORDS, np.uint64)])[1]
    rows = found.reshape(32, _WORDS)
    for i in range(16):
        moved = i < 14 and i % 3 == 1
        assert np.array_equal(rows[i], given.reshape(16, -1)[i] * moved)
        assert np.array_equal(rows[16 + i], given.reshape(16, -1)[i])
