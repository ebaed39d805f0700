"""Asynchronous copies and atomics in the interpreter: what is caught, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quod.codegen.pointers import pointer_uses
from quod.kernel import U32, U64, Builder, KernelDefinition, Pointer, i32, kernel, u8, u32, u64
from quod.kernel.errors import InterpreterError, TraceError, VerificationFailure
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.parse import parse
from quod.kernel.verifier.verify import verify
from tests.kernel.machines import EIGHT
from tests.kernel.refusals import line_of, refuses

ROOM = "the shared memory of line {}"


def run(definition: KernelDefinition, x: Any) -> None:
    interpret(definition.trace(EIGHT), 1, [x])


def stops(definition: KernelDefinition, message: str, size: int = 32) -> None:
    with pytest.raises(InterpreterError) as caught:
        run(definition, np.arange(size, dtype=np.uint32))
    room = ROOM.format(line_of(definition, "k.shared"))
    expected = f"instance {message.replace('ROOM', room)}"
    assert str(caught.value) == f"{__file__}:{line_of(definition, '# here')}: {expected}"


UNSET = "0 of workgroup 0 loads from ROOM what was not set"


def test_unawaited_copy_is_reported() -> None:
    @kernel
    def no_wait(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        k.copy_async(room, i, x, i)
        k.copy_async_commit()
        k.barrier()
        x[i] = room[i]  # here

    @kernel
    def no_commit(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        k.copy_async(room, i, x, i)
        k.copy_async_wait()
        x[i] = room[i]  # here

    @kernel
    def too_few(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        k.copy_async(room, i, x, i)
        k.copy_async_commit()
        k.copy_async_wait(1)
        x[i] = room[i]  # here

    @kernel
    def set_before(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        room[i] = i
        k.copy_async(room, i, x, i)
        x[i] = room[i]  # here

    for definition in (no_wait, no_commit, too_few, set_before):
        stops(definition, UNSET)


def test_each_instance_waits_for_its_own() -> None:
    @kernel
    def some_wait(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        k.copy_async(room, i, x, i)
        k.copy_async_commit()
        with k.if_(i != 5):
            k.copy_async_wait()
        x[i] = room[i]  # here

    @kernel
    def no_barrier(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        k.copy_async(room, i, x, i)
        k.copy_async_commit()
        k.barrier()
        k.copy_async_wait()
        x[i] = room[i ^ 1]  # here

    @kernel
    def some_commit(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        k.copy_async(room, i, x, i)
        with k.if_(i < 6):
            k.copy_async_commit()
        k.copy_async_wait()
        x[i] = room[i]  # here

    stops(some_wait, UNSET.replace("0", "5", 1))
    stops(some_commit, UNSET.replace("0", "6", 1))
    stops(
        no_barrier,
        "0 of workgroup 0 loads from ROOM what another instance stored; a barrier is needed "
        "between",
    )


def test_copy_races_with_other_instances() -> None:
    @kernel
    def read_before(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        room[i] = i
        k.barrier()
        x[i] = room[i ^ 1]
        k.copy_async(room, i, x, i)  # here

    @kernel
    def written_before(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        room[i ^ 1] = i
        k.copy_async(room, i, x, i)  # here

    changes = "0 of workgroup 0 changes in ROOM what another instance {}; a barrier is needed "
    stops(read_before, changes.format("loaded") + "between")
    stops(written_before, changes.format("stored") + "between")


def test_stores_to_a_pending_copy_target_are_rejected() -> None:
    """The order of store and copy is undefined; barriers do not wait for copies."""

    @kernel
    def stored(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        k.copy_async(room, i, x, i)
        k.copy_async_commit()
        room[i] = i  # here

    @kernel
    def stored_by_others(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        k.copy_async(room, i, x, i)
        k.copy_async_commit()
        k.barrier()
        room[i ^ 1] = i  # here

    @kernel
    def copied_again(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        k.copy_async(room, i, x, i)
        k.copy_async(room, i, x, i ^ 1)  # here

    @kernel
    def filled_by_others(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        k.copy_async(room, i, x, i)
        k.copy_async_commit()
        k.barrier()
        k.copy_async(room, i ^ 1, x, i, where=i > 9)  # here

    @kernel
    def at_once(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        k.copy_async(room, 0, x, k.local_id())  # here

    @kernel
    def waited_for(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        i = k.local_id()
        k.copy_async(room, i, x, i)
        k.copy_async_commit()
        k.copy_async_wait()
        room[i] = room[i] + 1
        k.copy_async(room, i, x, i)
        k.copy_async_commit()
        k.copy_async_wait()
        x[i] = room[i] + 1

    way = "0 of workgroup 0 {} to ROOM where a copy is on its way; it is to be waited for before"
    for definition in (stored, stored_by_others):
        stops(definition, way.format("stores"))
    for definition in (copied_again, filled_by_others):
        stops(definition, way.format("copies"))
    stops(at_once, "0 of workgroup 0 copies to ROOM where another instance copies to at once")
    words = np.arange(8, dtype=np.uint32)
    run(waited_for, words)
    assert words.tolist() == list(range(1, 9))


def test_copy_source_and_target_are_checked() -> None:
    @kernel
    def odd_source(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 32)
        k.copy_async(room, k.local_id() * 4, x, k.local_id() + 1, 4)  # here

    @kernel
    def odd_target(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 32)
        k.copy_async(room, k.local_id() * 2 + 1, x, k.local_id() * 2, 2)  # here

    @kernel
    def source_outside(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 32)
        k.copy_async(room, k.local_id() * 4, x, k.local_id() * 4 + 4, 4)  # here

    @kernel
    def target_outside(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 31)
        k.copy_async(room, k.local_id() * 4, x, k.local_id() * 4, 4)  # here

    place = "{} of workgroup 0 copies {} bytes at byte {} of {}, which is not a multiple of {}"
    stops(odd_source, place.format(0, 16, 4, "x", 16))
    stops(odd_target, place.format(0, 8, 4, "ROOM", 8))
    stops(source_outside, "7 of workgroup 0 loads element 32 of x, which has 32 of type u32")
    stops(target_outside, "7 of workgroup 0 copies to element 31 of ROOM, which has 31 of type u32")


def test_unused_unawaited_copies_are_harmless() -> None:
    @kernel
    def forgotten(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        k.copy_async(room, k.local_id(), x, k.local_id())

    x = np.arange(8, dtype=np.uint32)
    run(forgotten, x)
    assert x.tolist() == list(range(8))


def test_copies_that_are_refused() -> None:
    def global_to_global(k: Builder, x: Pointer[U32]) -> None:
        k.copy_async(x, 0, x, 4)  # here

    def other_elements(k: Builder, x: Pointer[U64]) -> None:
        room = k.shared(u32, 8)
        k.copy_async(room, 0, x, 0, 2)  # here

    def three_words(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        k.copy_async(room, 0, x, 0, 3)  # here

    def two_bytes(k: Builder, x: Pointer[U32]) -> None:
        room = k.shared(u32, 8)
        k.copy_async(room.cast(u8), 0, x.cast(u8), 0, 2)  # here

    def much_pending(k: Builder, x: Pointer[U32]) -> None:
        k.copy_async_wait(-1)  # here

    def no_pointer(k: Builder, x: Pointer[U32]) -> None:
        k.copy_async(x[0], 0, x, 0)  # here

    to_global = "from ptr<u32, global> to ptr<u32, global>"
    for body, message in (
        (global_to_global, f"copy_async copies from global to shared memory, not {to_global}"),
        (
            other_elements,
            "copy_async copies elements of one type, not ptr<u64, global> to ptr<u32, shared>",
        ),
        (three_words, "copy_async copies 4, 8 or 16 bytes, not 3 elements of u32"),
        (two_bytes, "copy_async copies 4, 8 or 16 bytes, not 2 elements of u8"),
        (much_pending, "0 to 65535 groups of copies may be pending, not -1"),
    ):
        refuses(body, VerificationFailure, message)
    refuses(no_pointer, TraceError, "only a pointer can be copied to, not a u32")


def test_atomics_that_are_refused() -> None:
    def signed(k: Builder, x: Pointer[U32]) -> None:
        k.atomic_max(x.cast(i32), 0, 1)  # here

    refuses(signed, TraceError, "atomic_max works on u32 and u64, not on i32")
    text = """kernel @k(%x: ptr<u32, global>, %w: u64) workgroup 8 shared 0 {{
%0: u32 = const 0
%1: {} = {}
yield
}}
"""
    for result, op, message in (
        (
            "u32", "atomic_min %x, %0, %w",
            "atomic_min through ptr<u32, global> works on u32, not u64",
        ),
        ("u64", "atomic_or %x, %0, %0", "atomic_or through ptr<u32, global> works on u32, not u64"),
        (
            "u32", "atomic_compare_exchange %x, %0, %0",
            "atomic_compare_exchange has 4 operands, not 3",
        ),
    ):  # fmt: skip
        with pytest.raises(VerificationFailure) as caught:
            verify(parse(text.format(result, op), "broken.ir"))
        assert str(caught.value) == f"broken.ir:3: {message}"


def test_atomics_count_as_stores() -> None:
    @kernel
    def changes(k: Builder, a: Pointer[U32], b: Pointer[U32], c: Pointer[U64]) -> None:
        k.atomic_exchange(b, 0, a[0])
        k.atomic_compare_exchange(c, 0, 1, 2)
        room = k.shared(u32, 4)
        k.copy_async(room, 0, a, 0, 4)

    uses = pointer_uses(changes.trace(EIGHT))
    assert (uses.stored, uses.atomic) == ((1, 2), (1, 2))


def test_contended_atomics_are_serialised() -> None:
    @kernel
    def chain(k: Builder, x: Pointer[U32], w: Pointer[U64]) -> None:
        i = k.local_id()
        x[i + 1] = k.atomic_exchange(x, 0, i + 10)
        w[i + 1] = k.atomic_compare_exchange(w, 0, i.cast(u64), i.cast(u64) + 1)

    x, w = np.zeros(9, np.uint32), np.zeros(9, np.uint64)
    interpret(chain.trace(EIGHT), 1, [x, w])
    assert x.tolist() == [17, 0, *range(10, 17)]
    assert w.tolist() == [8, *range(8)]
