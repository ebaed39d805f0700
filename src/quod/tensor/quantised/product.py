"""The kernel that multiplies a matrix of blocks by a vector without writing its values anywhere.

One skeleton for all formats: a workgroup has some rows, its instances share the places of these
rows, and what they found is added up at the end. On a processor neighbouring instances, the lanes
of a vector, take neighbouring places, so that bytes and activations load as vectors and scales
once; on a GPU an instance takes as many places as it loads at a time, and scales are spread over
them.
Activations are f32, and sums too.
"""

from __future__ import annotations

from collections.abc import Iterator

from quod.kernel import F32, U8, U32, Builder, Pointer, Value, f32, kernel
from quod.kernel.machine import Capability
from quod.tensor.quantised.decoders import DECODERS, BlockDecoder, Place


@kernel
def multiply_blocks(
    k: Builder,
    rows: U32,
    blocks_per_row: U32,
    blocks: Pointer[U8],
    x: Pointer[F32],
    y: Pointer[F32],
    *,
    form: str,
    width: int,
    at_once: int,
) -> None:
    """y = the matrix by x: y[r] = sum of values[r, c] * x[c].

    A workgroup has `at_once` rows, an instance `width` places at a time.
    """
    decoder, lane = DECODERS[form].begun(k), k.local_id()
    room = room_for_sums(k, at_once)
    first = k.workgroup_id() * at_once
    # Rows beyond the last are the last again, and not stored.
    wanted = [k.minimum(first + number, rows - 1) * blocks_per_row for number in range(at_once)]
    zeros = tuple([k.constant(0.0, f32)] * (at_once * _chains(decoder, width, k.workgroup_size)))
    if width == 1 and decoder.positions % k.workgroup_size == 0:
        with k.range(0, blocks_per_row, carry=zeros) as loop:
            sums = list(loop.carried)
            for chain, (group, start) in enumerate(_places(decoder, k.workgroup_size)):
                for number, row in enumerate(wanted):
                    at = chain % _CHAINS * at_once + number
                    position = lane + start
                    sixteen = start // 16 if k.workgroup_size <= 16 else position >> 4
                    place = Place(row + loop.index, group, position, sixteen, 1)
                    sums[at] = _added(k, decoder, blocks, x, place, loop.index, sums[at])
            loop.next(tuple(sums))
    else:
        parts = decoder.positions // width
        units = blocks_per_row * (decoder.groups * parts)
        with k.range(lane, units, k.workgroup_size, carry=zeros) as loop:
            position, rest = loop.index % parts * width, loop.index // parts
            part, block = rest % decoder.groups, rest // decoder.groups
            sums = []
            for row, total in zip(wanted, loop.carried):
                place = Place(row + block, part, position, position >> 4, width)
                sums.append(_added(k, decoder, blocks, x, place, block, total))
            loop.next(tuple(sums))
    totals = [_sum_of(loop.results[number::at_once]) for number in range(at_once)]
    for number, total in enumerate(sums_of_workgroup(k, totals, room)):
        with k.if_((lane == 0) & (first + number < rows)):
            y[first + number] = total


_CHAINS = 4
"""Sums of a row that do not wait for one another, where all places of a block are unrolled."""


def _chains(decoder: BlockDecoder, width: int, lanes: int) -> int:
    if width > 1 or decoder.positions % lanes:
        return 1
    return min(_CHAINS, len(list(_places(decoder, lanes))))


def _places(decoder: BlockDecoder, lanes: int) -> Iterator[tuple[int, int]]:
    """The groups of a block and the first places in them, for `lanes` instances side by side."""
    for group in range(decoder.groups):
        for start in range(0, decoder.positions, lanes):
            yield group, start


def _added(
    k: Builder, decoder: BlockDecoder, blocks: Value, x: Value, place: Place, column: Value,
    total: Value,
) -> Value:  # fmt: skip
    """A sum, and the products of what an instance has of a block, number `column` in its row."""
    width = place.width
    for run in decoder.decode(k, blocks, place):
        at = column * decoder.elements + run.start
        if width == 1:
            total = k.fma(run.fused(k)[0], x[at], total)
            continue
        count = 4 if width % 4 == 0 else width
        given = [v for part in range(0, width, count) for v in k.load(x, at + part, count)]
        products = run.integers[0] * given[0]
        for number, value in zip(run.integers[1:], given[1:]):
            products = k.fma(number, value, products)
        total = k.fma(run.scale, products, total)
        if run.minimum is not None:
            # The sum of activations is the same for all rows: recorded once.
            total = total - run.minimum * _sum_of(given)
    return total


def _sum_of(values: list[Value] | tuple[Value, ...]) -> Value:
    """Added pair by pair."""
    found = list(values)
    while len(found) > 1:
        pairs = [a + b for a, b in zip(found[::2], found[1::2])]
        found = pairs + found[len(found) & ~1 :]
    return found[0]


def room_for_sums(k: Builder, count: int) -> Value | None:
    """Shared memory for so many sums of a workgroup: where one subgroup does not hold it."""
    alone = k.machine.has(Capability.SUBGROUPS) and k.subgroup_size >= k.workgroup_size
    if k.workgroup_size == 1 or alone:
        return None
    return k.shared(f32, count * k.workgroup_size)


def sums_of_workgroup(k: Builder, sums: list[Value], room: Value | None) -> list[Value]:
    """Sums over the workgroup, in its first instance."""
    if room is None:
        return sums if k.workgroup_size == 1 else [k.subgroup_sum(value) for value in sums]
    size, lane = k.workgroup_size, k.local_id()
    for number, value in enumerate(sums):
        room[lane + number * size] = value
    k.barrier()
    while size > 1:
        half = (size + 1) // 2
        with k.if_(lane + half < size):
            for number in range(len(sums)):
                at = lane + number * k.workgroup_size
                room[at] = room[at] + room[at + half]
        k.barrier()
        size = half
    return [room[number * k.workgroup_size] for number in range(len(sums))]
