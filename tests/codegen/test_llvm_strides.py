"""Loops with consecutive accesses by their lanes, and loops that only seem to have them."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from quod.codegen.llvm import emitter as llvm
from quod.kernel import U32, U64, Builder, Pointer, f32, kernel, u32, u64
from tests.support.executors import executors, run_everywhere

Way = Literal[
    "beside",
    "some",
    "inner",
    "down",
    "own step",
    "own stop",
    "twice",
    "every other",
    "from below",
    "far below",
]

WAYS: dict[Way, bool] = {
    "beside": True, "some": True, "inner": True, "down": False, "own step": False,
    "own stop": True, "twice": True, "every other": False, "from below": True, "far below": True,
}  # fmt: skip
"""Ways, and whether lanes are neighbours in them, so that nothing is gathered."""


@kernel
def walk(
    k: Builder, count: U32, source: Pointer[U32], out: Pointer[U32], *, way: Way
) -> None:  # fmt: skip
    """out[i] = source[i] + 7 + the number of the visit, for the places that a way leads to."""
    local, size = k.local_id(), k.workgroup_size

    def visit(place: object, number: object) -> None:
        out[place] = source[place] + 7 + number  # type: ignore[index, operator]

    if way == "down":
        with k.range(0, (count - k.minimum(local, count)) // size) as loop:
            visit(count - 1 - local - loop.index * size, 0)
    elif way == "own step":
        with k.range(local, count, local + 1) as loop:
            k.atomic_max(out, loop.index, source[loop.index] + 7)
    elif way == "own stop":
        with k.range(local, count - k.minimum(local, count), size) as loop:
            visit(loop.index, 0)
    elif way == "twice":
        with k.range(0, 2) as outer, k.range(local, count, size) as loop:
            visit(loop.index, outer.index)
    elif way == "every other":
        with k.range(2 * local, count, 2 * size) as loop:
            visit(loop.index, 0)
    elif way == "from below":
        # The first lanes begin below 0, which is beyond the end.
        with k.range(local - 3, count, size) as loop:
            visit(loop.index, 0)
    elif way == "far below":
        with k.range(0, 2, carry=k.constant(0, u32) - 5) as outer:
            with k.range(outer.carried + local, count, size) as loop:
                visit(loop.index, 0)
            outer.next(outer.carried + 1)
    elif way == "some":
        with k.if_(local % 3 == 1), k.range(local, count, size) as loop:
            visit(loop.index, 0)
    elif way == "inner":
        with k.range(local, count, size) as loop, k.if_(source[loop.index] % 2 == 1):
            visit(loop.index, 0)
    else:
        with k.range(local, count, size) as loop:
            visit(loop.index, 0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 21, 32])
def test_strided_loops_match_the_interpreter(way: Way, count: int) -> None:
    """Every executor matches the interpreter, also with inactive last lanes."""
    source = np.random.default_rng(count).integers(0, 1000, 64).astype(np.uint32)
    run_everywhere(walk, 1, [count, source, np.zeros(64, np.uint32)], per_workgroup=True, way=way)


FAR = 0xFFFF_FFFD
"""Three below 0 where words of 32 bits wrap around."""

Place = Literal["times -1", "shifted out", "saturated", "rounded", "behind a number", "inner"]
PLACES: tuple[Place, ...] = (
    "times -1", "shifted out", "saturated", "rounded", "behind a number", "inner",
)  # fmt: skip


@kernel
def gathered(
    k: Builder, first: U32, source: Pointer[U64], out: Pointer[U64], *, place: Place
) -> None:
    """out[i] = a sum of entries at places that seem to be as far apart as instances, or are not."""
    local, size = k.local_id(), k.workgroup_size
    if place in ("behind a number", "inner"):
        turns = 2 if place == "inner" else 1
        nothing = k.constant(0, u64)
        with k.range(local, turns * size, size, carry=nothing) as outer:
            with k.range(local + first, 20, size, carry=outer.carried) as loop:
                wide = loop.index.cast(u64) + 3
                loop.next(loop.carried + source[loop.index] + source[wide])
            outer.next(loop.results)
        out[local] = outer.results
        return
    at = {
        "times -1": lambda: local * 0xFFFF_FFFF + 40,
        "shifted out": lambda: ((local << 31) << 1) + (local << 33),
        "saturated": lambda: (local.cast(f32) - 3.0).cast(u32),
        "rounded": lambda: (local.cast(f32) + 16777216.0).cast(u32) - 16777216,
    }[place]()
    out[local] = source[at] + sum(k.load(source, at, 2))


@pytest.mark.parametrize("place", PLACES)
def test_wrapping_indices(place: Place) -> None:
    """Factor 2**32 - 1 counts down, sums wrap to 0, and floats are not indices."""
    source = np.random.default_rng(1).integers(0, 1000, 64).astype(np.uint64)
    arguments = [FAR, source, np.zeros(64, np.uint64)]
    run_everywhere(gathered, 1, arguments, per_workgroup=True, place=place)


Start = Literal["of the loop", "of an inner loop", "of a loop before", "shifted"]
STARTS: tuple[Start, ...] = ("of the loop", "of an inner loop", "of a loop before", "shifted")


@kernel
def widened(
    k: Builder, first: U32, end: U64, source: Pointer[U64], out: Pointer[U64], *, start: Start
) -> None:
    """out[i] = a sum of entries at words of 64 bits, made of sums of 32 that wrap around for some
    instances."""
    local, size = k.local_id(), k.workgroup_size
    total, begin = k.constant(0, u64), (local + first).cast(u64)
    if start in ("of the loop", "of a loop before"):
        with k.range(begin, end, k.constant(size, u64), carry=total) as loop:
            loop.next(loop.carried + source[loop.index] + source[loop.index + 1])
        total = loop.results
    if start != "of the loop":
        with k.range(local + first, 20, size, carry=total) as outer:
            total, wide = outer.carried, outer.index.cast(u64)
            if start == "of an inner loop":
                with k.range(wide, end, k.constant(size, u64), carry=total) as loop:
                    loop.next(loop.carried + source[loop.index])
                outer.next(loop.results)
            else:
                outer.next(
                    total + source[begin if start == "of a loop before" else (wide << 1) - wide]
                )
        total = outer.results
    out[local] = total


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("first", [0, 5, FAR])
def test_index_sums_wrap_before_widening(start: Start, first: int) -> None:
    """Lanes that wrap in 32 bits are not adjacent in 64 bits."""
    source = np.random.default_rng(2).integers(0, 1000, 64).astype(np.uint64)
    arguments = [first, 20, source, np.zeros(64, np.uint64)]
    run_everywhere(widened, 1, arguments, per_workgroup=True, start=start)


@pytest.mark.parametrize("way", WAYS)
def test_gather_is_used_only_for_irregular_strides(way: Way) -> None:
    machine = executors()[0].machine
    text = llvm.emit(walk.trace(machine, way=way), machine)
    assert ("masked.gather" not in text) == WAYS[way]
