"""Tiles in shared memory: copies, the barriers that count them, products, clusters, mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.device.memory.tensor_map import TiledMemory
from quod.device.protocol import AnyDevice
from quod.errors import KernelError
from quod.kernel import (
    F32,
    I32,
    U16,
    U32,
    U64,
    Builder,
    Pointer,
    Value,
    bf16,
    f16,
    f32,
    i8,
    i32,
    kernel,
    u32,
    u64,
)
from quod.kernel.builder.tiles import TiledArray, TileOperand
from quod.kernel.errors import InterpreterError, TraceError, VerificationFailure
from quod.kernel.interpreter.interpreter import interpret
from quod.kernel.ir.types import Type
from tests.conftest import open_for_test
from tests.kernel.refusals import line_of
from tests.support.ptx_assembler import assemble, opcodes, sass, usage
from tests.support.tilings import IN_TEXTS_TOO

MACHINE = ptx_machine(128, "sm_90a")
COLUMNS = 64
WAYS = list(product((False, True), repeat=2))


def maps_of(device: Any, *arrays: tuple[Any, tuple[int, int, int], int]) -> Any:
    """The tensor maps of buffers, each with planes, height and length, and the lines of tiles."""
    return device.tensor_maps(tuple(TiledMemory(b.address, *s, n) for b, s, n in arrays))


# --- copies


@kernel(workgroup=128)
def copied(
    k: Builder, maps: Pointer[U64], x: Pointer[U16], length: U32, height: U32, planes: U32,
    column: U32, line: U32, plane: U32, y: Pointer[U32], *, lines: int,
) -> None:  # fmt: skip
    """Two tiles below each other, as they are in shared memory."""
    room, bars = k.shared(u32, 2 * lines * 32, alignment=1024), k.shared(u64, 1)
    array = TiledArray(x, maps, length, height, planes)
    k.tensor_map_acquire(maps)
    k.mbarrier_init(bars, 0)
    k.cluster_barrier()
    k.mbarrier_expect(bars, 0, 2 * lines * 128)
    k.copy_tile(room, 0, (bars, 0), array, (column, line, plane), lines)
    k.copy_tile(room, lines * 32, (bars, 0), array, (column, line + lines, plane), lines)
    k.mbarrier_wait(bars, 0, 0)
    with k.range(k.local_id(), 2 * lines * 32, 128) as words:
        y[words.index] = room[words.index]


def expected_tile(x: Any, column: int, line: int, plane: int, lines: int) -> Any:
    """Lines of 64 elements with their eight parts exchanged; zeros beyond the array."""
    wide = np.zeros((lines, COLUMNS), np.uint16)
    if plane < len(x):
        part = x[plane, line : line + lines, column : column + COLUMNS]
        wide[: part.shape[0], : part.shape[1]] = part
    parts = wide.reshape(lines, 8, 8)
    return np.stack([parts[i][np.arange(8) ^ i % 8] for i in range(lines)]).reshape(-1)


@IN_TEXTS_TOO
@pytest.mark.parametrize(
    ("shape", "start"),
    [
        ((1, 32, 64), (0, 0, 0)), ((2, 40, 72), (0, 0, 1)), ((2, 40, 72), (64, 3, 0)),
        ((3, 7, 8), (0, 0, 2)), ((1, 100, 136), (104, 90, 0)), ((1, 5, 8), (8, 5, 0)),
    ],
)  # fmt: skip
def test_copies_fill_out_of_range_lines_with_zeros(
    tiling: Any, shape: tuple[int, int, int], start: tuple[int, int, int]
) -> None:
    x = np.random.default_rng(3).integers(1, 1 << 16, shape).astype(np.uint16)
    source, y = tiling.upload(x), tiling.upload(np.full(1024, 7, np.uint32))
    maps = maps_of(tiling, (source, shape, 16))
    planes, height, length = shape
    compiled = tiling.compile(copied, lines=16)
    tiling.launch(compiled, 1, maps, source, length, height, planes, *start, y)
    words = np.zeros(1024, np.uint32)
    tiling.download(y, words)
    column, line, plane = start
    wanted = [expected_tile(x, column, line + offset, plane, 16) for offset in (0, 16)]
    assert np.array_equal(words.view(np.uint16), np.concatenate(wanted))


# --- products


@kernel(workgroup=128)
def multiplied(
    k: Builder, maps: Pointer[U64], a: Pointer[U16], b: Pointer[U16], c: Pointer[F32], *,
    element: Type, ways: tuple[bool, bool], columns: int,
) -> None:  # fmt: skip
    multiply(k, maps, a, b, c, element=element, ways=ways, columns=columns)


def multiply(
    k: Builder, maps: Value, a: Value, b: Value, c: Value, *, element: Type,
    ways: tuple[bool, bool], columns: int,
) -> None:  # fmt: skip
    """C = A B, of 64 by 64 and 64 by `columns`, of 16 bits: four products of 16 of K each."""
    rooms = [k.shared(u32, size * 32, alignment=1024) for size in (64, columns)]
    bars = k.shared(u64, 1)
    shapes = [(64, 64), (64, columns) if ways[1] else (columns, 64)]
    k.mbarrier_init(bars, 0)
    k.cluster_barrier()
    k.mbarrier_expect(bars, 0, (64 + columns) * 128)
    for at, (memory, along) in enumerate(zip((a, b), ways, strict=True)):
        height, length = (k.constant(size, u32) for size in shapes[at])
        array = TiledArray(memory, k.pointer_add(maps, 16 * at), length, height, k.constant(1, u32))
        k.tensor_map_acquire(array.tensor_map)
        for slab in range(0, columns if along and at else 64, 64):
            lines = 64 if along else (64, columns)[at]
            k.copy_tile(rooms[at], slab * 32, (bars, 0), array, (slab * along, 0, 0), lines)
    k.mbarrier_wait(bars, 0, 0)
    k.mma_begin()
    sums: tuple[Value, ...] = (k.constant(0, i32 if element is i8 else f32),) * (columns // 2)
    for step in range(4):
        first, second = (
            TileOperand(room, k.constant(step * (512 if along else 8), u32), along, 2048)
            for room, along in zip(rooms, ways, strict=True)
        )
        sums = k.mma_tiles(element, first, second, sums)
    k.mma_commit()
    sums = k.mma_wait(0, sums)
    lane = k.local_id() % 32
    row, column = k.local_id() // 32 * 16 + lane // 4, lane % 4 * 2
    for number, value in enumerate(sums):
        down, right = number // 2 % 2 * 8, number // 4 * 8 + number % 2
        c[(row + down) * columns + column + right] = value


def product_of(device: Any, a: Any, b: Any, element: Type, ways: tuple[bool, bool]) -> Any:
    """A B on the device; operands lie along K, or along the other axis."""
    columns = b.shape[1]
    operands = [a.T if ways[0] else a, b if ways[1] else b.T]
    bits = [
        x.astype(np.float16).view(np.uint16)
        if element is f16
        else (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)
        for x in map(np.ascontiguousarray, operands)
    ]
    memory = [device.upload(x) for x in (*bits, np.full((64, columns), np.nan, np.float32))]
    shapes = [(1, *x.shape) for x in bits]
    lines = [64 if along else x.shape[0] for along, x in zip(ways, bits, strict=True)]
    maps = maps_of(device, *zip(memory[:2], shapes, lines, strict=True))
    compiled = device.compile(multiplied, element=element, ways=ways, columns=columns)
    device.launch(compiled, 1, maps, *memory)
    products = np.zeros((64, columns), np.float32)
    device.download(memory[2], products)
    return products


@IN_TEXTS_TOO
@pytest.mark.parametrize("ways", WAYS, ids=str)
@pytest.mark.parametrize(("element", "columns"), [(f16, 64), (bf16, 128), (f16, 256)], ids=str)
def test_products_are_exact(
    tiling: Any, element: Type, columns: int, ways: tuple[bool, bool]
) -> None:
    random = np.random.default_rng(columns)
    a, b = random.integers(-9, 10, (64, 64)), random.integers(-9, 10, (64, columns))
    assert np.array_equal(product_of(tiling, a, b, element, ways), a @ b)


@kernel(workgroup=128)
def whole_multiplied(
    k: Builder, maps: Pointer[U64], a: Pointer[U16], b: Pointer[U16], c: Pointer[I32]
) -> None:
    multiply(k, maps, a, b, c, element=i8, ways=(False, False), columns=96)


@IN_TEXTS_TOO
def test_integer_products_are_exact(tiling: Any) -> None:
    """Two are an element of a tile: 128 of K."""
    random = np.random.default_rng(6)
    a, b = (random.integers(-128, 128, (rows, 128)).astype(np.int8) for rows in (64, 96))
    memory = [tiling.upload(x.view(np.uint16)) for x in (a, b)]
    memory.append(tiling.upload(np.full((64, 96), 7, np.int32)))
    shapes = [(1, rows, 64) for rows in (64, 96)]
    maps = maps_of(tiling, *zip(memory[:2], shapes, (64, 96), strict=True))
    tiling.launch(tiling.compile(whole_multiplied), 1, maps, *memory)
    products = np.zeros((64, 96), np.int32)
    tiling.download(memory[2], products)
    assert np.array_equal(products, a.astype(np.int32) @ b.T.astype(np.int32))


@IN_TEXTS_TOO
def test_tf32_uses_ten_mantissa_bits(tiling: Any) -> None:
    """An f32 is two elements of a tile: 32 of K. What is cut off is cut toward zero."""
    a, b = np.zeros((64, 32), np.float32), np.zeros((64, 32), np.float32)
    a[3, :2], b[5, :2] = (1 + 2.0**-10 + 2.0**-11, -1 - 2.0**-11), (1, 4)
    memory = [tiling.upload(x.view(np.uint16)) for x in (a, b)]
    memory.append(tiling.upload(np.full((64, 64), np.nan, np.float32)))
    maps = maps_of(tiling, *((x, (1, 64, 64), 64) for x in memory[:2]))
    compiled = tiling.compile(multiplied, element=f32, ways=(False, False), columns=64)
    tiling.launch(compiled, 1, maps, *memory)
    products = np.zeros((64, 64), np.float32)
    tiling.download(memory[2], products)
    assert products[3, 5] == 1 + 2.0**-10 - 4
    assert np.count_nonzero(products) == 1


@IN_TEXTS_TOO
def test_accumulators_have_f32_precision(tiling: Any) -> None:
    random = np.random.default_rng(8)
    a, b = (random.normal(size=(64, 64)).astype(np.float16).astype(np.float64) for _ in range(2))
    products = product_of(tiling, a, b, f16, (False, False))
    assert (np.abs(products - a @ b) <= 64 * 2.0**-22 * (np.abs(a) @ np.abs(b))).all()


@IN_TEXTS_TOO
@pytest.mark.parametrize("ways", WAYS, ids=str)
def test_one_element_at_a_time(tiling: Any, ways: tuple[bool, bool]) -> None:
    """Ones name the wrong place of whatever is exchanged."""
    random = np.random.default_rng(5)
    for _ in range(6):
        row, middle, column = (int(x) for x in random.integers(64, size=3))
        a, b = np.zeros((64, 64)), np.zeros((64, 64))
        a[row, middle], b[middle, column] = 1, 2
        products = product_of(tiling, a, b, f16, ways)
        assert products[row, column] == 2
        assert np.count_nonzero(products) == 1


# --- clusters


@kernel(workgroup=128)
def shared_out(
    k: Builder, maps: Pointer[U64], x: Pointer[U16], y: Pointer[U32], *, cluster: int
) -> None:
    """Each workgroup of a cluster copies eight lines for all of them."""
    k.cluster(cluster)
    room, bars = k.shared(u32, cluster * 256, alignment=1024), k.shared(u64, 1)
    sizes = [k.constant(size, u32) for size in (64, 8 * cluster, 1)]
    k.tensor_map_acquire(maps)
    k.mbarrier_init(bars, 0)
    k.cluster_barrier()
    k.mbarrier_expect(bars, 0, cluster * 1024)
    rank = k.cluster_rank()
    k.copy_tile(
        room, rank * 256, (bars, 0), TiledArray(x, maps, *sizes), (0, rank * 8, 0), 8,
        multicast=True,
    )  # fmt: skip
    k.mbarrier_wait(bars, 0, 0)
    with k.range(k.local_id(), cluster * 256, 128) as words:
        y[k.workgroup_id() * cluster * 256 + words.index] = room[words.index]
    k.cluster_barrier()


@pytest.mark.parametrize("cluster", [1, 2, 4])
def test_multicast_copies_reach_the_cluster(tiling: Any, cluster: int) -> None:
    x = np.arange(1, 1 + 8 * cluster * COLUMNS, dtype=np.uint16).reshape(1, 8 * cluster, COLUMNS)
    source = tiling.upload(x)
    count = 2 * cluster
    y = np.zeros((count, cluster * 256), np.uint32)
    target = tiling.upload(y)
    maps = maps_of(tiling, (source, x.shape, 8))
    tiling.launch(tiling.compile(shared_out, cluster=cluster), count, maps, source, target)
    tiling.download(target, y)
    wanted = expected_tile(x, 0, 0, 0, 8 * cluster)
    assert all(np.array_equal(row.view(np.uint16), wanted) for row in y)


def test_grid_must_be_a_multiple_of_the_cluster() -> None:
    traced = shared_out.trace(MACHINE, cluster=2)
    memory = [np.zeros(16, np.uint64), np.zeros(1024, np.uint16), np.zeros(2048, np.uint32)]
    with pytest.raises(InterpreterError, match="3 workgroups is not made of clusters of 2"):
        interpret(traced, 3, memory)


# --- mistakes

Ring = Callable[[Builder, Value, Value, TiledArray], None]


def ring(body: Ring) -> Any:
    """A kernel with room for 64 lines, an mbarrier and an array of 8 by 64."""

    def traced(k: Builder, maps: Pointer[U64], x: Pointer[U16]) -> None:
        room, bars = k.shared(u32, 2048, alignment=1024), k.shared(u64, 1)
        sizes = [k.constant(size, u32) for size in (64, 8, 1)]
        k.tensor_map_acquire(maps)
        k.mbarrier_init(bars, 0)
        k.cluster_barrier()
        body(k, room, bars, TiledArray(x, maps, *sizes))

    return kernel(workgroup=128)(traced)


def run(body: Ring) -> None:
    traced = ring(body).trace(MACHINE)
    interpret(traced, 1, [np.zeros(16, np.uint64), np.ones(512, np.uint16)])


def copy(k: Builder, room: Value, bars: Value, array: TiledArray, at: int = 0) -> None:
    k.copy_tile(room, at, (bars, 0), array, (0, 0, 0), 8)


def operand(k: Builder, room: Value, *, along: bool = False) -> TileOperand:
    return TileOperand(room, k.constant(0, u32), along, 0)


def whole(k: Builder) -> Value:
    return k.constant(0, i32)


def zeros(k: Builder) -> tuple[Value, ...]:
    return (k.constant(0.0, f32),) * 4


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda k, r, b, x: k.mbarrier_wait(b, 0, 0), "waits for ever: 0 bytes have come of 0"),
        (
            lambda k, r, b, x: (k.mbarrier_expect(b, 0, 512), copy(k, r, b, x),
                                k.mbarrier_wait(b, 0, 0)),
            "waits for ever: 1024 bytes have come of 512",
        ),
        (
            lambda k, r, b, x: (copy(k, r, b, x), k.mbarrier_wait(b, 0, 0)),
            "bytes have come of 0 that were not expected",
        ),
        (
            lambda k, r, b, x: (k.mbarrier_expect(b, 0, 1024), copy(k, r, b, x),
                                k.mbarrier_wait(b, 0, 0), k.mbarrier_wait(b, 0, 1)),
            "waits for ever: 0 bytes have come of 0",
        ),
        (lambda k, r, b, x: k.mbarrier_init(b, 0), "has made the mbarrier at byte 0 before"),
        (
            lambda k, r, b, x: (k.mbarrier_expect(b, 0, 1), k.mbarrier_expect(b, 0, 1)),
            "expects bytes twice",
        ),
        (lambda k, r, b, x: k.mbarrier_wait(b, 1, 0), "has an mbarrier beyond"),
        (
            lambda k, r, b, x: (copy(k, r, b, x), copy(k, r, b, x)),
            "copies to the shared memory of line [0-9]+ where a copy is on its way",
        ),
        (lambda k, r, b, x: copy(k, r, b, x, 4), "a tile begins at a multiple of 1024"),
        (lambda k, r, b, x: copy(k, r, b, x, 2048), "copies 1024 bytes to byte 8192"),
        (
            lambda k, r, b, x: (copy(k, r, b, x), k.store(x.source, 0, r[0])),
            "loads from the shared memory of line [0-9]+ what was not set",
        ),
        (
            lambda k, r, b, x: (k.mma_begin(), k.mma_tiles(f16, operand(k, r), operand(k, r),
                                                           zeros(k))),
            "multiplies what is not in",
        ),
    ],
)  # fmt: skip
def test_runtime_mistakes_are_reported(body: Ring, message: str) -> None:
    with pytest.raises(InterpreterError, match=message):
        run(body)


@kernel(workgroup=128)
def overwritten(
    k: Builder, maps: Pointer[U64], x: Pointer[U16], y: Pointer[F32], *, mistake: str
) -> None:
    """A tile that is multiplied, and copied over."""
    room, bars = k.shared(u32, 64 * 32, alignment=1024), k.shared(u64, 1)
    array = TiledArray(x, maps, *(k.constant(size, u32) for size in (64, 64, 1)))
    k.tensor_map_acquire(maps)
    k.mbarrier_init(bars, 0)
    k.cluster_barrier()
    for phase in range(2):
        k.mbarrier_expect(bars, 0, 64 * 128)
        k.copy_tile(room, 0, (bars, 0), array, (0, 0, 0), 64)  # here
        k.mbarrier_wait(bars, 0, phase)
        k.mma_begin()
        place = TileOperand(room, k.constant(0, u32), False, 0)
        sums = k.mma_tiles(f16, place, place, [k.constant(0.0, f32)] * 32)
        k.mma_commit()
        if mistake != "no wait" or phase:
            sums = k.mma_wait(0, sums)
            y[k.local_id()] = sums[0]
        if mistake != "no barrier":
            k.cluster_barrier(memory=mistake == "no wait")


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("no wait", "copies over a tile that a product is still reading"),
        ("no barrier", "changes in the shared memory of line .* a barrier is needed between"),
        ("", ""),
    ],
)
def test_tile_is_reusable_after_its_products(mistake: str, message: str) -> None:
    traced = overwritten.trace(MACHINE, mistake=mistake)
    memory = [np.zeros(16, np.uint64), np.full(4096, 0x3C00, np.uint16), np.zeros(128, np.float32)]
    if not mistake:
        interpret(traced, 1, memory)
        assert np.all(memory[2] == 16)
        return
    with pytest.raises(InterpreterError, match=message) as caught:
        interpret(traced, 1, memory)
    assert caught.value.location is not None
    assert caught.value.location.line == line_of(overwritten, "# here")


def looped(k: Builder, x: Pointer[F32], *, use: str) -> None:
    room = k.shared(u32, 2048, alignment=1024)
    place = TileOperand(room, k.constant(0, u32), False, 0)
    first = [x[at] for at in range(4)]
    if use == "before":
        x[8] = first[0]
        k.mma_tiles(f16, place, place, first)
    if use == "read":
        x[0] = k.mma_tiles(f16, place, place, first)[1]
    if use == "loop":
        sums = k.mma_tiles(f16, place, place, first)
        with k.range(0, 2, carry=list(sums)) as loop:
            loop.next(list(loop.carried))
        x[0] = loop.results[0]
    if use == "turned":
        with k.range(0, 2, carry=first) as loop:
            sums = k.mma_tiles(f16, place, place, loop.carried)
            loop.next([*sums[1:], sums[0]])
        x[0] = loop.results[0]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ("before", "a sum of products is used once more"),
        ("read", "store takes a sum of products that are under way; k.mma_wait gives it"),
        ("loop", "for takes a sum of products that are under way"),
        ("turned", "sums of products that are under way change places in the for"),
    ],
)
def test_pending_accumulators_are_not_moved(use: str, message: str) -> None:
    with pytest.raises(VerificationFailure, match=re.escape(message)):
        kernel(workgroup=128)(looped).trace(MACHINE, use=use)


def test_invalid_tiles_are_rejected_while_tracing() -> None:
    def in_a_branch(k: Builder, room: Value, bars: Value, x: TiledArray) -> None:
        with k.if_(k.local_id() < 1):
            k.mbarrier_expect(bars, 0, 4)

    with pytest.raises(VerificationFailure, match="not every instance reaches"):
        ring(in_a_branch).trace(MACHINE)
    for body, message in (
        (lambda k, r, b, x: k.copy_tile(r, 0, (b, 0), x, (0, 0, 0), 12), "a multiple of 8, not 12"),
        (lambda k, r, b, x: k.mma_tiles(f16, operand(k, r), operand(k, r), zeros(k)[:3]),
         "4 to 128 sums, a multiple of 4, not 3"),
        (lambda k, r, b, x: k.mma_tiles(i8, operand(k, r), operand(k, r), [whole(k)] * 20),
         "more than 16 sums has a multiple of 8, not 20"),
        (lambda k, r, b, x: k.mma_tiles(i8, operand(k, r, along=True), operand(k, r),
                                        [whole(k)] * 4), "tiles of i8 have lines along K"),
        (lambda k, r, b, x: k.mma_tiles(f32, operand(k, r), operand(k, r, along=True), zeros(k)),
         "tiles of f32 have lines along K"),
        (lambda k, r, b, x: k.mma_tiles(i8, operand(k, r), operand(k, r), zeros(k)),
         "mma_tiles takes"),
        (lambda k, r, b, x: (k.mma_commit(), k.mma_wait(1, k.mma_tiles(f16, operand(k, r),
                             operand(k, r), zeros(k)))), "a group that it does not wait for"),
        (lambda k, r, b, x: k.mbarrier_wait(r, 0, 0), "mbarrier_wait takes .ptr<u64, shared>"),
    ):  # fmt: skip
        with pytest.raises(VerificationFailure, match=message):
            ring(body).trace(MACHINE)
    for body, message in (
        (lambda k, r, b, x: k.cluster(3), "1, 2, 4 or 8 workgroups, not 3"),
        (lambda k, r, b, x: k.mma_tiles(u32, operand(k, r), operand(k, r), zeros(k)),
         "by the same type, or e4m3 by e5m2 in either order, not u32"),
        (lambda k, r, b, x: k.mma_wait(8), "pending must be .* 0 to 7"),
    ):  # fmt: skip
        with pytest.raises(TraceError, match=message):
            ring(body).trace(MACHINE)


def test_machines_without_tiles_are_rejected() -> None:
    for arch, missing in (("sm_80", "copies of tiles"), ("sm_120", "products of tiles")):
        with pytest.raises(VerificationFailure, match=f"needs {missing}"):
            multiplied.trace(ptx_machine(128, arch), element=f16, ways=(False, False), columns=64)
    with pytest.raises(
        VerificationFailure, match="4 subgroups of 32 each, not for a workgroup of 64"
    ):
        refuse_narrow()


def refuse_narrow() -> None:
    def narrow(k: Builder, x: Pointer[F32]) -> None:
        k.mma_begin()

    kernel(workgroup=64)(narrow).trace(ptx_machine(64, "sm_90a"))


# --- machine code


def test_tile_kernels_assemble_without_remarks() -> None:
    """Remarks C75xx are of sums that the assembler had to wait for or to move."""
    for traced, wanted in (
        (multiplied.trace(MACHINE, element=bf16, ways=(True, False), columns=256), "HGMMA"),
        (whole_multiplied.trace(MACHINE), "IGMMA"),
        (multiplied.trace(MACHINE, element=f32, ways=(False, False), columns=64), "HGMMA"),
        (shared_out.trace(MACHINE, cluster=2), "UTMALDG"),
    ):
        text = ptx.emit(traced, MACHINE)
        cubin, log = assemble(text, "sm_90a")
        assert "C75" not in log
        assert not usage(log).spill_store_bytes
        assert opcodes(sass(cubin))[wanted]
    assert ".target sm_90a" in ptx.emit(
        multiplied.trace(MACHINE, element=f16, ways=(False, False), columns=64), MACHINE
    )
    # Copies alone are of every architecture since.
    later = ptx_machine(128, "sm_120a")
    text = ptx.emit(shared_out.trace(later, cluster=2), later)
    assert ".target sm_120\n" in text
    assemble(text, "sm_120a")


@IN_TEXTS_TOO
def test_cpu_target_reports_the_reason(tiling: AnyDevice) -> None:
    with open_for_test("cpu") as device, pytest.raises(KernelError, match="copies of tiles"):
        device.compile(shared_out, cluster=2)
