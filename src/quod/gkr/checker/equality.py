"""Kernels that expand eq tables at points of challenges.

Workgroup proof * tiles + tile computes one tile of one proof, and stores the run's ticket for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.any_field import field_arithmetic
from quod.field.spec import FieldSpec
from quod.gkr.checker.messages import NONE
from quod.gkr.checker.structs import PerProof, Tiles
from quod.kernel import U32, Builder, Pointer, kernel, u32
from quod.kernel.ir.value import Value

FACTOR_ROW, TABLE_ROW = 6, 9
"""The lengths of both kinds of rows."""


@kernel
def expand_factors(
    k: Builder,
    tiles: Tiles,
    rows: Pointer[U32],
    coordinates: Pointer[U32],
    challenges: PerProof,
    factors: PerProof,
    run_start: Pointer[U32],
    tile_tickets: PerProof,
    *,
    field: FieldSpec,
) -> None:
    """Expand eq of some coordinates at all hypercube points, times a challenge.

    A row has the first entry, the first coordinate and the number of coordinates, the challenge or
    `NONE`, and the first hypercube point of the tile and the one after its last. `coordinates` are
    indices of challenges.
    """
    f = field_arithmetic(k, field, inlined=True)
    proof, tile = k.workgroup_id() // tiles.count, k.workgroup_id() % tiles.count + tiles.first
    out, first, count, scale, start, stop = k.load(rows, tile * FACTOR_ROW, FACTOR_ROW)
    challenges_start = proof * challenges.stride
    scale_factor = f.bounded(
        f.load(challenges.entries, challenges_start + k.select(scale == NONE, 0, scale))
    )
    initial = f.select(scale == NONE, f.bounded(f.one()), scale_factor)
    with k.range(k.local_id() + start, stop, k.workgroup_size) as loop:
        hypercube_point = loop.index
        with k.range(0, count, carry=initial) as bits:
            (challenge_index,) = k.load(coordinates, first + bits.index)
            coordinate = f.bounded(f.load(challenges.entries, challenges_start + challenge_index))
            bit = (hypercube_point >> (count - 1 - bits.index)) & 1
            factor = f.select(bit != 0, coordinate, f.bounded(1 - coordinate))
            bits.next(f.bounded(bits.carried * factor))
        f.store(factors.entries, proof * factors.stride + out + hypercube_point, bits.results)
    with k.if_(k.local_id() == 0):
        k.store(tile_tickets.entries, proof * tile_tickets.stride + tile, *k.load(run_start, 0))


@kernel
def expand_tables(
    k: Builder,
    tiles: Tiles,
    first_tag: U32,
    rows: Pointer[U32],
    factors: PerProof,
    tables: PerProof,
    run_start: Pointer[U32],
    tile_tickets: PerProof,
    *,
    field: FieldSpec,
) -> None:
    """Expand the eq table of a point, or the sum of two such tables, from factors.

    A row has the first entry, log2 of the number of lower factors, the first upper and the first
    lower factor of both points, the number of entries before the zeros, and the range of the tile's
    upper factors.
    """
    f = field_arithmetic(k, field, inlined=True)
    proof, tile = k.workgroup_id() // tiles.count, k.workgroup_id() % tiles.count + tiles.first
    out, log_low, high, low, high_2, low_2, nonzero_count, start, stop = k.load(
        rows, tile * TABLE_ROW, TABLE_ROW
    )
    factors_start = proof * factors.stride
    size = k.constant(1, u32) << log_low

    def expand(points: Sequence[tuple[Value, Value]]) -> None:
        with k.range(start, stop) as outer:
            uppers = [
                f.bounded(f.load(factors.entries, factors_start + index + outer.index))
                for index, _ in points
            ]
            with k.range(k.local_id(), size, k.workgroup_size) as inner:
                lowers = [
                    f.bounded(f.load(factors.entries, factors_start + index + inner.index))
                    for _, index in points
                ]
                entry = f.bounded(f.sum_of_products(list(zip(uppers, lowers, strict=True))))
                entry_index = (outer.index << log_low) + inner.index
                entry = f.select(entry_index < nonzero_count, entry, f.bounded(f.zero()))
                f.store(tables.entries, proof * tables.stride + out + entry_index, entry)

    with k.if_(high_2 == NONE) as branch:
        expand([(high, low)])
    with branch.otherwise():
        expand([(high, low), (high_2, low_2)])
    with k.if_(k.local_id() == 0):
        k.store(
            tile_tickets.entries,
            proof * tile_tickets.stride + first_tag + tile,
            *k.load(run_start, 0),
        )
