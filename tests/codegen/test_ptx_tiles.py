"""Texts with mbarriers, tiles and warpgroups that the PTX interpreter refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest

from quod.codegen.ptx import emitter as ptx
from quod.codegen.ptx.interpreter import interpret_ptx
from quod.codegen.ptx.machine import ptx_machine
from quod.kernel import F32, U16, U64, Builder, Pointer, f16, f32, kernel, u32, u64
from quod.kernel.builder.tiles import TiledArray, TileOperand
from quod.kernel.errors import InterpreterError
from quod.tensor.flash_attention.backward.warpgroup_kernels import ATTENTION_BACKWARD_KEYS_TILES
from quod.tensor.flash_attention.kernel import AttentionForm
from quod.tensor.flash_attention.plan import WARPGROUP_GRADIENT_PLANS
from tests.kernel.role_ring import COLUMNS, DEPTH, MACHINE, operands
from tests.kernel.test_role_tiles import multiplied
from tests.support.ptx_assembler import assemble

STEPS = 3
ADDRESSES = {1: 1 << 40, 2: 1 << 41}
MODULE = ptx.translate(multiplied.trace(MACHINE), MACHINE)


def run(text: str, addresses: dict[int, int] | None = None) -> bool:
    """Return whether the product is right."""
    a, b, wanted = operands(STEPS)
    maps = np.zeros((2, 16), np.uint64)
    for row, x, address in zip(maps, (a, b), ADDRESSES.values(), strict=True):
        row[:5] = STEPS * DEPTH, len(x), 1, len(x), address
    product = np.zeros_like(wanted)
    interpret_ptx(
        text, 1, [maps, a.view(np.uint16), b.view(np.uint16), STEPS, product],
        dynamic_shared=MODULE.dynamic_shared_bytes,
        addresses=ADDRESSES if addresses is None else addresses,
    )  # fmt: skip
    return np.array_equal(product, wanted)


def test_unmodified_text_runs() -> None:
    assert run(MODULE.text)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (r", 1073741888\}", ", 64}", "has a matrix of another swizzle than 128 bytes"),
        (r"@%p\d+ (cp\.async\.bulk)", r"\1", "where a copy is on its way"),
        (r"(mbarrier\.init.*), 8;", r"\1, 7;", "which has all its arrivals"),
        (r"(mbarrier\.init.*), 8;", r"\1, 9;", "waits for ever: 1 of 9 arrivals are missing"),
        (r"  bar\.sync 0;\n", "", "has an mbarrier that it may not know of yet"),
        (r"  @%p\d+ mbarrier\.init.*, 1;\n", "", "has no mbarrier at"),
        (r"  @%p\d+ mbarrier\.arrive\.shared.*\n", "", "8 of 8 arrivals are missing"),
        (r"  wgmma\.wait_group.*\n", "", "copies over a tile that a product still reads"),
        (r"k16\.f32", "k8.f32", "has no shape m64n64k8"),
        (r", 1, 1, 0, 0;", ", 1, -1, 0, 0;", "has other immediates than are known here"),
        (r"f32\.f16\.f16", "f16.f16.f16", "is nothing of warpgroups that is known here"),
        (r"try_wait\.parity", "try_wait", "is no wait for an mbarrier that is known here"),
        (r"arrive\.shared", "arrive.release.shared", "does nothing with an mbarrier that is known"),
        (r"b64 _, (.*\], 24576)", r"b64 %rd0, \1", "keeps the state of an mbarrier"),
        (r"tensor\.3d", "tensor.2d", "is no copy of tiles that is known here"),
        (r"\[(%rd\d+), \{(%r\d+), ", r"[\1, {\2, \2, ", "moves 3 words, and .* are 4"),
        (r", (24576);", r", 8;", "waits for ever: 8 of 8 arrivals are missing"),
        (r"\.minnctapersm 1", ".minnctapersm 1\n.reqnctapercluster 2, 1, 1", "clusters of workgr"),
        (r"  (wgmma\.fence)", r"  @%p0 \1", "stands under a predicate, and waits for all"),
    ],
)
def test_invalid_texts_are_rejected(old: str, new: str, message: str) -> None:
    text = re.sub(old, new, MODULE.text)
    assert text != MODULE.text
    with pytest.raises(InterpreterError, match=message):
        run(text)


def test_tensor_maps_must_be_arguments() -> None:
    with pytest.raises(InterpreterError, match="has a tensor map of 1099511627776, no argument's"):
        run(MODULE.text, {2: 1 << 41})


@kernel(workgroup=256)
def stored_tiles(k: Builder, y: Pointer[F32]) -> None:
    """A warpgroup stores ones, which another multiplies."""
    room, bars, local = k.shared(u32, 2048, alignment=1024), k.shared(u64, 1), k.local_id()
    k.mbarrier_init(bars, 0, 4)
    k.barrier()
    with k.if_(k.subgroup_id() < 4) as first:
        for at in range(0, 2048, 128):
            room[local + at] = k.constant(0x3C003C00, u32)
        k.mbarrier_arrive(bars, 0)
        k.named_barrier_arrive(1, 256)
    with first.otherwise():
        k.mbarrier_wait(bars, 0, 0)
        k.named_barrier(1, 256)
        k.mma_begin()
        place = TileOperand(room, k.constant(0, u32))
        sums = k.mma_tiles(f16, place, place, [k.constant(0.0, f32)] * 32)
        k.mma_commit()
        y[local - 128] = k.mma_wait(0, sums)[0]


def test_stores_before_tile_operations_are_fenced() -> None:
    """Tile copies and products see stores only after a fence before the barrier."""
    text = ptx.emit(stored_tiles.trace(machine := ptx_machine(256, "sm_90a")), machine)
    stored = np.zeros(128, np.float32)
    interpret_ptx(text, 1, [stored])
    assert (stored == 16).all()
    lines = [line.strip() for line in text.splitlines()]
    barriers = [at for at, line in enumerate(lines) if line.startswith("bar.")]
    assert len(barriers) == 4
    assert all(lines[at - 1] == "fence.proxy.async.shared::cta;" for at in barriers)
    assert assemble(text, "sm_90a")[0]
    # Here instances store to no array that tiles are in.
    assert "proxy.async" not in MODULE.text
    backward = ATTENTION_BACKWARD_KEYS_TILES[f16].trace(
        ptx_machine(256, "sm_90a"), element=f16, plan=WARPGROUP_GRADIENT_PLANS[64],
        form=AttentionForm(False),
    )  # fmt: skip
    text = ptx.emit(backward, machine)
    assert "st.shared" in text
    assert "proxy.async" not in text


def test_wgmma_requires_the_whole_warpgroup() -> None:
    """One warp of the warpgroup exits early."""
    lines = MODULE.text.splitlines()
    at = next(number for number, line in enumerate(lines) if "setmaxnreg.inc" in line)
    thread = next(line.split()[1] for line in lines if line.endswith("%tid.x;"))
    skip = [f"  shr.u32 %r0, {thread} 5;", "  setp.eq.u32 %p0, %r0, 7;", "  @%p0 bra after1;"]
    text = "\n".join([*lines[: at + 1], *skip, *lines[at + 1 :]]) + "\n"
    with pytest.raises(InterpreterError, match="does not come where its warpgroup does"):
        run(text)


@kernel(workgroup=128)
def left_behind(k: Builder, maps: Pointer[U64], x: Pointer[U16]) -> None:
    """Ends before its tile has come."""
    room, arrived = k.shared(u32, 8 * 32, alignment=1024), k.shared(u64, 1)
    array = TiledArray(x, maps, *(k.constant(size, u32) for size in (64, 8, 1)))
    k.tensor_map_acquire(maps)
    k.mbarrier_init(arrived, 0)
    k.barrier()
    k.mbarrier_expect(arrived, 0, 1024)
    k.copy_tile(room, 0, (arrived, 0), array, (0, 0, 0), 8)


def test_tile_copies_must_be_waited_for() -> None:
    maps = np.zeros(16, np.uint64)
    maps[:5] = COLUMNS, 8, 1, 8, 1 << 40
    text = ptx.emit(left_behind.trace(MACHINE), MACHINE)
    arguments = [maps, np.zeros(8 * COLUMNS, np.uint16)]
    with pytest.raises(InterpreterError, match="ends while this tile is on its way to it"):
        interpret_ptx(text, 1, arguments, addresses=ADDRESSES)
