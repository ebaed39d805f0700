"""Kernels that expand eq at points of challenges.

A workgroup does one tile of the work of one proof, workgroup proof * tiles + tile, and leaves the
ticket of the run for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.extension import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.checker.messages import NONE
from quod.gkr.checker.parameters import PerProof, Tiles
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.ir.value import Value

FACTOR_ROW, TABLE_ROW = 6, 9
"""Numbers of each kind of row."""


@kernel
def expand_factors(
    k: Builder,
    tiles: Tiles,
    rows: Pointer[U32],
    coordinates: Pointer[U32],
    challenges: PerProof,
    factors: PerProof,
    begun: Pointer[U32],
    made: PerProof,
    *,
    field: FieldSpec,
) -> None:
    """eq of some coordinates at all their corners, times a challenge.

    A row is the first entry, the first of the coordinates and their number, the challenge or
    `NONE`, and the corners from where to where the tile goes; `coordinates` are challenges.
    """
    f = field_arithmetic(k, field, inlined=True)
    proof, tile = k.workgroup_id() // tiles.count, k.workgroup_id() % tiles.count + tiles.first
    out, first, count, scale, start, stop = k.load(rows, tile * FACTOR_ROW, FACTOR_ROW)
    own = proof * challenges.stride
    known = f.carried(f.load(challenges.entries, own + k.select(scale == NONE, 0, scale)))
    begin = f.select(scale == NONE, f.carried(f.one()), known)
    with k.range(k.local_id() + start, stop, k.workgroup_size) as loop:
        corner = loop.index
        with k.range(0, count, carry=begin) as bits:
            (place,) = k.load(coordinates, first + bits.index)
            w = f.carried(f.load(challenges.entries, own + place))
            bit = (corner >> (count - 1 - bits.index)) & 1
            chosen = f.select(bit != 0, w, f.carried(1 - w))
            bits.next(f.carried(bits.carried * chosen))
        f.store(factors.entries, proof * factors.stride + out + corner, bits.results)
    with k.if_(k.local_id() == 0):
        k.store(made.entries, proof * made.stride + tile, *k.load(begun, 0))


@kernel
def expand_tables(
    k: Builder,
    tiles: Tiles,
    first_tag: U32,
    rows: Pointer[U32],
    factors: PerProof,
    tables: PerProof,
    begun: Pointer[U32],
    made: PerProof,
    *,
    field: FieldSpec,
) -> None:
    """Tables of eq of one point, or of the sum of two, from the factors of their halves.

    A row is the first entry, the logarithm of the lower factors, where the upper and the lower
    factors of both points begin, how many entries are not 0, and which upper factors are the
    tile's.
    """
    f = field_arithmetic(k, field, inlined=True)
    proof, tile = k.workgroup_id() // tiles.count, k.workgroup_id() % tiles.count + tiles.first
    out, log_low, high, low, high_2, low_2, zeros, start, stop = k.load(
        rows, tile * TABLE_ROW, TABLE_ROW
    )
    own = proof * factors.stride
    size = k.constant(1, u32) << log_low

    def expand(points: Sequence[tuple[Value, Value]]) -> None:
        with k.range(start, stop) as outer:
            uppers = [
                f.carried(f.load(factors.entries, own + at + outer.index)) for at, _ in points
            ]
            with k.range(k.local_id(), size, k.workgroup_size) as inner:
                lowers = [
                    f.carried(f.load(factors.entries, own + at + inner.index)) for _, at in points
                ]
                entry = f.carried(f.sum_of_products(list(zip(uppers, lowers, strict=True))))
                place = (outer.index << log_low) + inner.index
                entry = f.select(place < zeros, entry, f.carried(f.zero()))
                f.store(tables.entries, proof * tables.stride + out + place, entry)

    with k.if_(high_2 == NONE) as branch:
        expand([(high, low)])
    with branch.otherwise():
        expand([(high, low), (high_2, low_2)])
    with k.if_(k.local_id() == 0):
        k.store(made.entries, proof * made.stride + first_tag + tile, *k.load(begun, 0))
