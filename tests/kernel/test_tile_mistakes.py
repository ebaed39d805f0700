"""Kernels that misuse accumulators, tiles and mbarriers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.emulated.device import EmulatedDevice
from quod.device.memory.tensor_map import TiledMemory
from quod.errors import KernelError
from quod.frozen import replace
from quod.kernel import (
    F32,
    U16,
    U64,
    Builder,
    Pointer,
    Value,
    bf16,
    f16,
    f32,
    function,
    i8,
    i32,
    kernel,
    u32,
    u64,
)
from quod.kernel.builder.tiles import TiledArray, TileOperand
from quod.kernel.errors import InterpreterError, TraceError, VerificationFailure
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.parse import parse
from quod.kernel.ir.text import to_text
from quod.kernel.verifier.verify import verify

MACHINE = ptx_machine(128, "sm_90a")

# --- sums

Body = Callable[[Builder, TileOperand, Value], None]


def place_of(k: Builder, room: Value) -> TileOperand:
    return TileOperand(room, k.constant(0, u32))


def trace(body: Body) -> Any:
    def traced(k: Builder, y: Pointer[F32]) -> None:
        body(k, place_of(k, k.shared(u32, 2048, alignment=1024)), y)

    return kernel(workgroup=128)(traced).trace(MACHINE)


def four(k: Builder, y: Value) -> list[Value]:
    return [y[k.local_id() + at] for at in range(4)]


def product(k: Builder, tile: TileOperand, sums: Any) -> tuple[Value, ...]:
    k.mma_begin()
    return k.mma_tiles(f16, tile, tile, sums)


def done(k: Builder, tile: TileOperand, sums: Any) -> tuple[Value, ...]:
    sums = product(k, tile, sums)
    k.mma_commit()
    return k.mma_wait(0, sums)


def one_value_in_all_places(k: Builder, tile: TileOperand, y: Value) -> None:
    y[0] = done(k, tile, k.mma_wait(0, [y[0]] * 4))[0]


def used_beside_a_wait(k: Builder, tile: TileOperand, y: Value) -> None:
    accumulators = four(k, y)
    y[0] = done(k, tile, k.mma_wait(0, accumulators))[0] + accumulators[0]


def waited_for_twice(k: Builder, tile: TileOperand, y: Value) -> None:
    sums = product(k, tile, four(k, y))
    k.mma_commit()
    first, second = k.mma_wait(0, sums), k.mma_wait(0, sums)
    y[0] = done(k, tile, first)[0] + second[0]


def in_every_round(k: Builder, tile: TileOperand, y: Value) -> None:
    accumulators = four(k, y)
    with k.range(0, 3):
        y[0] = done(k, tile, accumulators)[0]


def before_the_check(k: Builder, tile: TileOperand, y: Value) -> None:
    with k.while_([k.constant(0, u32), *four(k, y)]) as loop:
        sums = done(k, tile, loop.carried[1:])
        loop.check(loop.carried[0] < 3)
        loop.next([loop.carried[0] + 1, *sums])
    y[0] = loop.results[1]


@function
def under_way(k: Builder, room: Value, a: Value, b: Value, c: Value, d: Value) -> Any:
    return product(k, place_of(k, room), [y * 2 for y in (a, b, c, d)])


@function
def of_the_caller(k: Builder, room: Value, a: Value, b: Value, c: Value, d: Value) -> Any:
    return done(k, place_of(k, room), [a, b, c, d])


@function
def same(k: Builder, value: Value) -> Value:
    return value


def through_a_function(k: Builder, tile: TileOperand, y: Value) -> None:
    y[0] = under_way(k, tile.pointer, *four(k, y))[0]


def of_a_caller(k: Builder, tile: TileOperand, y: Value) -> None:
    accumulators = four(k, y)
    y[0] = of_the_caller(k, tile.pointer, *accumulators)[0] + accumulators[0]


def by_another_name(k: Builder, tile: TileOperand, y: Value) -> None:
    accumulators = four(k, y)
    y[0] = done(k, tile, [same(k, value) for value in accumulators])[0] + accumulators[0]


def of_whole_numbers(
    k: Builder, tile: TileOperand, accumulators: list[Value], signed: list[Value]
) -> Value:
    """Sums that are other numbers of as many bits, and these afterwards."""
    k.mma_begin()
    sums = k.mma_tiles(i8, tile, tile, signed)
    k.mma_commit()
    return k.mma_wait(0, sums)[0] + (accumulators[0] >> 1).cast(i32)


def converted(k: Builder, tile: TileOperand, y: Value) -> None:
    accumulators = [k.bitcast(value, u32) for value in four(k, y)]
    y[0] = of_whole_numbers(
        k, tile, accumulators, [value.cast(i32) for value in accumulators]
    ).cast(f32)


def of_the_same_bits(k: Builder, tile: TileOperand, y: Value) -> None:
    accumulators = [k.local_id() + at for at in range(4)]
    y[0] = of_whole_numbers(
        k, tile, accumulators, [k.bitcast(value, i32) for value in accumulators]
    ).cast(f32)


def in_a_later_group(k: Builder, tile: TileOperand, y: Value) -> None:
    sums = product(k, tile, four(k, y))
    with k.if_(k.workgroup_id() < 1):
        k.mma_commit()
        y[0] = k.mma_wait(1, sums)[0]


def of_a_loop_without_groups(k: Builder, tile: TileOperand, y: Value) -> None:
    with k.range(0, 3, carry=four(k, y)) as loop:
        loop.next(list(product(k, tile, loop.carried)))
    k.mma_commit()
    y[0] = k.mma_wait(1, loop.results)[0]


def of_another_shape(k: Builder, tile: TileOperand, y: Value) -> None:
    sums = product(k, tile, four(k, y))
    k.mma_begin()
    k.mma_tiles(f32, tile, tile, sums)


def of_another_shape_in_a_loop(k: Builder, tile: TileOperand, y: Value) -> None:
    with k.range(0, 3, carry=four(k, y)) as loop:
        k.mma_begin()
        sums = k.mma_tiles(f32, tile, tile, loop.carried)
        loop.next(list(k.mma_rows(bf16, [k.constant(0, u32)] * 4, tile, sums)))


def without_a_begin(k: Builder, tile: TileOperand, y: Value) -> None:
    k.mma_tiles(f16, tile, tile, [k.constant(0.0, f32)] * 4)


def set_after_the_begin(k: Builder, tile: TileOperand, y: Value) -> None:
    k.mma_begin()
    k.mma_tiles(f16, tile, tile, four(k, y))


def begun_in_a_branch(k: Builder, tile: TileOperand, y: Value) -> None:
    accumulators = four(k, y)
    with k.if_(k.workgroup_id() < 1):
        k.mma_begin()
    k.mma_tiles(f16, tile, tile, accumulators)


def begun_before_a_loop(k: Builder, tile: TileOperand, y: Value) -> None:
    accumulators = four(k, y)
    k.mma_begin()
    with k.range(0, 3, carry=accumulators) as loop:
        loop.next(list(k.mma_tiles(f16, tile, tile, loop.carried)))


def waited_for_before(k: Builder, tile: TileOperand, y: Value) -> None:
    k.mma_tiles(f16, tile, tile, done(k, tile, four(k, y)))


def rows_of_words_set_later(k: Builder, tile: TileOperand, y: Value) -> None:
    sums = product(k, tile, four(k, y))
    k.mma_rows(f16, [k.workgroup_id() + at for at in range(4)], tile, sums)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        *(
            (body, "takes registers that were set since the last k.mma_begin()")
            for body in (
                without_a_begin,
                set_after_the_begin,
                begun_in_a_branch,
                begun_before_a_loop,
                waited_for_before,
                rows_of_words_set_later,
            )
        ),
        (of_another_shape, "mma_tiles takes a sum of products of another shape"),
        (of_another_shape_in_a_loop, "takes a sum of products of another shape"),
        (one_value_in_all_places, "a sum of products is used once more"),
        (used_beside_a_wait, "a sum of products is used once more"),
        (waited_for_twice, "a sum of products is used once more"),
        (in_every_round, "mma_tiles takes sums of outside the loop or function"),
        (before_the_check, "mma_tiles takes sums of outside the loop or function"),
        (through_a_function, "the function under_way gives sums of products that are under way"),
        (of_a_caller, "mma_tiles takes sums of outside the loop or function"),
        (by_another_name, "mma_tiles takes a sum that call gives, which may be in the register"),
        (converted, "mma_tiles takes a sum that convert gives, which may be in the register"),
        (of_the_same_bits, "mma_tiles takes a sum that bitcast gives, which may be in the"),
        (in_a_later_group, "mma_wait takes sums of a group that it does not wait for"),
        (of_a_loop_without_groups, "mma_wait takes sums of a group that it does not wait for"),
    ],
)
def test_sums_have_registers_of_their_own(body: Body, message: str) -> None:
    with pytest.raises(VerificationFailure, match=re.escape(message)) as caught:
        trace(body)
    assert str(caught.value.location).startswith(__file__)


def test_pending_accumulators_are_loop_carried() -> None:
    """A loop with a check too, one whose products are one group with what follows, and one whose
    sums are of several types of as many bits."""

    def checked(k: Builder, tile: TileOperand, y: Value) -> None:
        with k.while_([k.constant(0, u32), *four(k, y)]) as loop:
            loop.check(loop.carried[0] < 3)
            sums = product(k, tile, loop.carried[1:])
            k.mma_commit()
            loop.next([loop.carried[0] + 1, *sums])
        y[0] = k.mma_wait(0, loop.results[1:])[0]

    def one_group(k: Builder, tile: TileOperand, y: Value) -> None:
        with k.range(0, 3, carry=four(k, y)) as loop:
            loop.next(list(product(k, tile, loop.carried)))
        k.mma_commit()
        y[0] = k.mma_wait(0, loop.results)[0]

    def halves(k: Builder, tile: TileOperand, y: Value) -> None:
        with k.range(0, 3, carry=four(k, y)) as loop:
            sums = product(k, tile, loop.carried)
            loop.next(list(k.mma_tiles(bf16, tile, tile, sums)))
        k.mma_commit()
        sums = product(k, tile, k.mma_wait(0, loop.results))
        k.mma_commit()
        finished = k.mma_wait(0, sums)
        k.mma_begin()
        k.mma_tiles(f32, tile, tile, finished)

    trace(checked)
    trace(one_group)
    trace(halves)


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0])
def test_constants_are_there_before_products(number: float) -> None:
    """Zero is no sum that anything is added to; others are moved to registers before a fence."""

    def constant(k: Builder, tile: TileOperand, y: Value) -> None:
        y[k.local_id()] = done(k, tile, [k.constant(number, f32)] * 4)[0]

    lines = ptx.emit(trace(constant), MACHINE).splitlines()
    (at,) = (at for at, line in enumerate(lines) if "wgmma.mma_async" in line)
    sums = re.findall(r"%f\d+", lines[at].partition("}")[0])
    moved = [line for line in lines[:at] if any(f" {register}, 0f" in line for register in sums)]
    predicate = re.findall(r"%p\d+", lines[at])[0]
    (setp,) = (line for line in lines if f" {predicate}, 0, 0" in line)
    if number == 0 and math.copysign(1, number) == 1:
        assert not moved
        assert "setp.ne" in setp
        return
    assert len(moved) == len(sums) == 4
    assert "setp.eq" in setp
    fences = [place for place, line in enumerate(lines[:at]) if "wgmma.fence" in line]
    assert fences[-1] > max(map(lines.index, moved))


# --- while a kernel runs

Ring = Callable[[Builder, Value, Value, TiledArray], None]


def array_of(k: Builder, x: Value, maps: Value) -> TiledArray:
    return TiledArray(x, maps, *(k.constant(size, u32) for size in (64, 8, 1)))


def run(body: Ring, *, alignment: int = 1024, barrier: bool = True, cluster: int = 1) -> Any:
    """Runs a kernel with room for 64 lines, two mbarriers and an array of 8 by 64."""

    def traced(k: Builder, maps: Pointer[U64], x: Pointer[U16]) -> None:
        k.cluster(cluster)
        room, bars = k.shared(u32, 2048, alignment=alignment), k.shared(u64, 256, alignment=1024)
        k.tensor_map_acquire(maps)
        k.mbarrier_init(bars, 0)
        k.mbarrier_init(bars, 1)
        if barrier:
            k.cluster_barrier()
        body(k, room, bars, array_of(k, x, maps))

    traced_kernel = kernel(workgroup=128)(traced).trace(MACHINE)
    interpret(traced_kernel, 2, [np.zeros(16, np.uint64), np.ones(512, np.uint16)])


def copied(
    k: Builder, room: Value, bars: Value, x: TiledArray, *, column: int = 0, bar: int = 0
) -> None:
    k.mbarrier_expect(bars, bar, 8192)
    k.copy_tile(room, 0, (bars, bar), x, (column, 0, 0), 64)


def arrived(k: Builder, room: Value, bars: Value, x: TiledArray) -> None:
    copied(k, room, bars, x)
    k.mbarrier_wait(bars, 0, 0)


def multiplied(first: int, *, along: bool = False) -> Ring:
    """A product of what is `first` words after the beginning."""

    def body(k: Builder, room: Value, bars: Value, x: TiledArray) -> None:
        arrived(k, room, bars, x)
        tile = TileOperand(room, k.constant(first, u32), along)
        k.mma_begin()
        k.mma_tiles(f16, tile._replace(first=k.constant(0, u32)), tile, [k.constant(0.0, f32)] * 4)

    return body


def waited_for_elsewhere(k: Builder, room: Value, bars: Value, x: TiledArray) -> None:
    copied(k, room, bars, x)
    k.mbarrier_wait(k.pointer_add(bars, k.local_id() % 2), 0, 0)


def never_waited_for(k: Builder, room: Value, bars: Value, x: TiledArray) -> None:
    copied(k, room, bars, x)


def stored_over(k: Builder, room: Value, bars: Value, x: TiledArray) -> None:
    k.store(bars, 1, k.constant(0, u64))


def loaded(k: Builder, room: Value, bars: Value, x: TiledArray) -> None:
    k.store(bars, 2, k.load(bars, 1)[0])


def copied_over(k: Builder, room: Value, bars: Value, x: TiledArray) -> None:
    k.mbarrier_expect(bars, 0, 1024)
    k.copy_tile(k.cast(bars, u32), 0, (bars, 0), x, (0, 0, 0), 8)


def before_the_array(k: Builder, room: Value, bars: Value, x: TiledArray) -> None:
    copied(k, room, bars, x, column=(1 << 32) - 8)


def waited_for_by_another(k: Builder, room: Value, bars: Value, x: TiledArray) -> None:
    """A wait of workgroup 0 says nothing of the products of workgroup 1."""
    arrived(k, room, bars, x)
    tile = place_of(k, room)
    k.mma_begin()
    k.mma_tiles(f16, tile, tile, [k.constant(0.0, f32)] * 4)
    k.mma_commit()
    with k.if_(k.workgroup_id() < 1):
        k.mma_wait(0)
    k.cluster_barrier()
    copied(k, room, bars, x, bar=1)
    k.mbarrier_wait(bars, 1, 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (waited_for_elsewhere, "has an operand of mbarrier_wait that differs between instances"),
        (never_waited_for, "workgroup 0 ends while this tile is on its way to it"),
        (stored_over, "stores to the shared memory of line [0-9]+ where an mbarrier is"),
        (loaded, "loads from the shared memory of line [0-9]+ what was not set"),
        (copied_over, "copies to the shared memory of line [0-9]+ where an mbarrier is"),
        (before_the_array, "a tile that begins at .4294967288, 0, 0.: places go to 2147483647"),
        (multiplied(1), "multiplies a matrix from byte 4 of"),
        (multiplied(28), "multiplies a matrix from byte 112 of"),
        (multiplied(32), "multiplies a matrix from byte 128 of"),
        (multiplied(8, along=True), "multiplies a matrix from byte 32 of"),
        (waited_for_by_another, "workgroup 1 copies over a tile that a product is still reading"),
    ],
)  # fmt: skip
def test_tile_mistakes_are_detected(body: Ring, message: str) -> None:
    with pytest.raises(InterpreterError, match=message) as caught:
        run(body)
    assert str(caught.value.location).startswith(__file__)


def test_tile_memory_alignment_is_checked() -> None:
    run(multiplied(24))
    run(multiplied(0, along=True))
    with pytest.raises(InterpreterError, match="begins at a multiple of 16 bytes"):
        run(arrived, alignment=16)


def test_mbarriers_require_a_cluster_barrier() -> None:
    def to_all(k: Builder, room: Value, bars: Value, x: TiledArray) -> None:
        k.barrier()
        k.copy_tile(room, 0, (bars, 0), x, (0, 0, 0), 64, multicast=True)

    for body, cluster in ((arrived, 1), (to_all, 2)):
        with pytest.raises(InterpreterError, match="has an mbarrier that others do not know of"):
            run(body, barrier=False, cluster=cluster)


# --- while it is traced


@pytest.mark.parametrize("wrong", [None, 3, "xyz", object(), (1,), f32])
@pytest.mark.parametrize(
    "body",
    [
        lambda k, r, b, x, wrong: k.copy_tile(r, 0, wrong, x, (0, 0, 0), 8),
        lambda k, r, b, x, wrong: k.copy_tile(r, 0, (b, 0), wrong, (0, 0, 0), 8),
        lambda k, r, b, x, wrong: k.copy_tile(r, 0, (b, 0), x, wrong, 8),
        lambda k, r, b, x, wrong: k.mma_tiles(f16, wrong, place_of(k, r), []),
        lambda k, r, b, x, wrong: k.mma_tiles(f16, place_of(k, r), wrong, []),
        lambda k, r, b, x, wrong: k.mma_tiles(f16, place_of(k, r), place_of(k, r), wrong),
        lambda k, r, b, x, wrong: k.mma_rows(f16, wrong, place_of(k, r), []),
        lambda k, r, b, x, wrong: k.mma_rows(f16, [x.length] * 4, wrong, []),
        lambda k, r, b, x, wrong: k.mma_rows(f16, [x.length] * 4, place_of(k, r), wrong),
        lambda k, r, b, x, wrong: k.mma_wait(0, wrong),
    ],
)
def test_invalid_arguments_are_named(body: Any, wrong: object) -> None:
    with pytest.raises(TraceError):
        run(lambda k, r, b, x: body(k, r, b, x, wrong))


def test_matrix_strides_are_bounded() -> None:
    def far(k: Builder, room: Value, bars: Value, x: TiledArray) -> None:
        tile = TileOperand(room, k.constant(0, u32), True, 1 << 16)
        k.mma_tiles(f16, tile, tile, [k.constant(0.0, f32)] * 4)

    with pytest.raises(VerificationFailure, match="a_apart a multiple of 256 words below 65536"):
        run(far)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cluster 2", "cluster 3", "a cluster has 1, 2, 4 or 8 workgroups, not 3"),
        ("cluster 2", "cluster 0", "a cluster has 1, 2, 4 or 8 workgroups, not 0"),
        ("alignment = 1024", "alignment = 1024.0", "an array begins at a multiple of one of"),
    ],
)
def test_a_text_has_the_same_bounds(old: str, new: str, message: str) -> None:
    def traced(k: Builder, y: Pointer[F32]) -> None:
        k.cluster(2)
        k.shared(f32, 4, alignment=1024)
        k.cluster_barrier()

    text = to_text(kernel(workgroup=128)(traced).trace(MACHINE))
    verify(parse(text), MACHINE)
    with pytest.raises(VerificationFailure, match=message):
        verify(parse(text.replace(old, new)), MACHINE)


@pytest.mark.parametrize("which", ["none", "another"])
def test_tensor_maps_must_be_acquired(which: str) -> None:
    @kernel(workgroup=128)
    def traced(k: Builder, maps: Pointer[U64], others: Pointer[U64], x: Pointer[U16]) -> None:
        room, bars = k.shared(u32, 2048, alignment=1024), k.shared(u64, 1)
        if which == "another":
            k.tensor_map_acquire(others)
        k.mbarrier_init(bars, 0)
        k.barrier()
        arrived(k, room, bars, array_of(k, x, k.pointer_add(maps, 16)))

    message = "the tensor map of copy_tile is not known: k.tensor_map_acquire makes it so"
    with pytest.raises(VerificationFailure, match=message):
        traced.trace(MACHINE)


@pytest.mark.parametrize("wrong", [{"length": 128}, {"height": 9}, {"planes": 2}, {"lines": 8}])
def test_tensor_maps_must_be_kernel_arguments(wrong: dict[str, int]) -> None:
    @kernel(workgroup=128)
    def traced(k: Builder, maps: Pointer[U64], x: Pointer[U16]) -> None:
        room, bars = k.shared(u32, 2048, alignment=1024), k.shared(u64, 1)
        k.tensor_map_acquire(maps)
        k.mbarrier_init(bars, 0)
        k.cluster_barrier()
        arrived(k, room, bars, array_of(k, x, maps))

    with EmulatedDevice() as device:
        x = device.upload(np.ones(4096, np.uint16))
        right = TiledMemory(x.address, planes=1, height=8, length=64, lines=64)
        compiled = device.compile(traced)
        device.launch(compiled, 1, device.tensor_maps((right,)), x)
        with pytest.raises(KernelError, match="their tensor map says"):
            device.launch(compiled, 1, device.tensor_maps((replace(right, **wrong),)), x)
