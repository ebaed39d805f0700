"""Loads and stores of many words by few of the lanes of a vector."""

from __future__ import annotations

import numpy as np
import pytest

from quod.codegen.llvm import emitter as llvm
from quod.device import open_device
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from tests.support.executors import executors, run_everywhere
from tests.support.thorough import one_and_others

_WORDS = 48


@kernel
def move_some(k: Builder, count: U32, source: Pointer[U64], out: Pointer[U64]) -> None:
    """Every third row of 48 words, with twice the row's first word kept across the store."""
    i = k.global_id()
    kept = k.shared(types.u64, _WORDS * k.workgroup_size)
    with k.range(0, _WORDS) as loop:
        kept[loop.index * k.workgroup_size + k.local_id()] = source[i * _WORDS + loop.index]
    with k.if_((i < count) & (i % 3 == 1)):
        k.store(out, i * _WORDS, *k.load(source, i * _WORDS, _WORDS))
    with k.range(0, _WORDS) as loop:
        place = loop.index * k.workgroup_size + k.local_id()
        out[(16 + i) * _WORDS + loop.index] = kept[place]


def test_scratch_memory_holds_all_words_of_a_lane() -> None:
    """Beyond the scratch memory is the stack, where an overrun may go unnoticed."""
    machine = executors()[0].machine
    assert machine.workgroup_size == 8
    assert f"alloca [{8 * _WORDS} x i8]" in llvm.emit(move_some.trace(machine), machine)


def test_inactive_lanes_stay_within_scratch_memory() -> None:
    source = np.arange(16 * _WORDS, dtype=np.uint64)
    outputs = run_everywhere(move_some, 2, [14, source, np.zeros(32 * _WORDS, np.uint64)])[1]
    rows = outputs.reshape(32, _WORDS)
    for i in range(16):
        moved = i < 14 and i % 3 == 1
        assert np.array_equal(rows[i], source.reshape(16, -1)[i] * moved)
        assert np.array_equal(rows[16 + i], source.reshape(16, -1)[i])


@kernel
def reversed_in_groups(k: Builder, n: U32, source: Pointer[U32], out: Pointer[U64]) -> None:
    """Through shared memory, and by halves as long as a number is even."""
    kept, local, i = k.shared(types.u32, k.workgroup_size), k.local_id(), k.global_id()
    kept[local] = k.constant(0, types.u32)
    with k.if_(i < n):
        kept[local] = source[i]
    k.barrier()
    with k.if_(i < n):
        with k.while_(kept[k.workgroup_size - 1 - local]) as loop:
            value = loop.carried
            loop.check((value != 0) & ((value & 1) == 0))
            loop.next(value >> 1)
        out[i] = loop.results.cast(types.u64)


@pytest.mark.parametrize("lanes", one_and_others([63, 64, 65, 128, 1024], always=[63, 64, 65, 128]))
def test_workgroups_wider_than_a_mask_word(lanes: int) -> None:
    """Workgroup sizes written for GPUs run on a CPU too."""
    groups, n = 2, 2 * lanes - 3
    numbers = np.arange(1, n + 1, dtype=np.uint32)
    out = np.zeros(n, np.uint64)
    with open_device("cpu") as device:
        device.launch(
            device.compile(reversed_in_groups, lanes=lanes), groups, n, numbers, out
        )  # fmt: skip
    padded = np.concatenate([numbers, np.zeros(3, np.uint32)]).reshape(groups, lanes)
    turned = padded[:, ::-1].reshape(-1)[:n]
    assert out.tolist() == [int(v) // (int(v) & -int(v) or 1) for v in turned]
