"""Multiples of generators by windows of bits, and Sapling's Pedersen hash, in a circuit.

A point of a table is selected by bits, as a sum over products of the bits (inclusion and
exclusion). So a window takes two or three constraints, whatever the points of its table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import count, islice

from quod.curve.edwards.affine import EdwardsPair, edwards_group
from quod.curve.named.jubjub import JUBJUB
from quod.hash.hash_to_jubjub import find_group_hash
from quod.r1cs.gadgets.bellman.booleans import Boolean, conjunction, constants, scaled, weighted
from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem
from quod.zcash.circuit.points import SCALE, EdwardsPoint, MontgomeryPoint

_P = JUBJUB.fq.value
_GROUP = edwards_group(JUBJUB)
_WINDOW_BITS = 3
_SEGMENT_WINDOWS = 63
_PREFIX_WINDOWS = 2

Coefficients = tuple[int, ...]
"""Weights of the 2^n products of n bits; entry i is for the product of the bits set in i."""


def interpolated(values: Sequence[int]) -> Coefficients:
    """Decompose a table of 2^n values into a weighted sum of products of n bits.

    The sum is the value whose index has these bits.
    """
    coefficients = list(values)
    step = 1
    while step < len(coefficients):
        for index in range(len(coefficients)):
            if index & step:
                coefficients[index] -= coefficients[index ^ step]
        step *= 2
    return tuple([coefficient % _P for coefficient in coefficients])


@cache
def _fixed_windows(generator: EdwardsPair, number: int) -> list[tuple[Coefficients, Coefficients]]:
    """Return the coefficients of u and of v, per window, of the table 0 to 7 times its base."""
    tables = []
    for _ in range(number):
        table = [(0, 1)]
        for _ in range(1 << _WINDOW_BITS):
            table.append(_GROUP.add(table[-1], generator))
        generator = table.pop()
        tables.append((interpolated([p[0] for p in table]), interpolated([p[1] for p in table])))
    return tables


def fixed_multiple(
    system: ConstraintSystem, generator: EdwardsPair, bits: Sequence[Boolean]
) -> EdwardsPoint:
    """Multiply a generator by a number, given by its bits, least significant first."""
    result: EdwardsPoint | None = None
    windows = list(_windows(bits))
    for window, tables in zip(windows, _fixed_windows(generator, len(windows)), strict=True):
        point = _select_point(system, window, tables)
        result = point if result is None else result.add(point)
    assert result is not None
    return result


def _windows(bits: Sequence[Boolean]) -> Iterable[list[Boolean]]:
    """Yield three bits at a time; the last window is padded with zeros."""
    for start in range(0, len(bits), _WINDOW_BITS):
        window = list(bits[start : start + _WINDOW_BITS])
        yield window + constants(0, _WINDOW_BITS - len(window))


def _select_point(
    system: ConstraintSystem, bits: list[Boolean], tables: tuple[Coefficients, Coefficients]
) -> EdwardsPoint:
    """Return the point that three bits select from a table of eight."""
    first, second, third = bits
    coordinates = system.wire(), system.wire()
    product = conjunction(system, second, third)
    selector = scaled(system, first, 1)
    for wire, k in zip(coordinates, tables, strict=True):
        factor = weighted(system, [(True, k[1]), (second, k[3]), (third, k[5]), (product, k[7])])
        constant_part = weighted(
            system, [(True, k[0]), (second, k[2]), (third, k[4]), (product, k[6])]
        )
        # The coordinate is constant_part + factor * the first bit.
        system.enforce(factor, selector, wire - constant_part)
    return EdwardsPoint(system, *coordinates)


@cache
def _pedersen_windows(
    personalisation: bytes, segment: int
) -> list[tuple[Coefficients, Coefficients]]:
    """Return the coefficients of x and y, per window of a segment, of 1 to 4 times its base."""
    base = find_group_hash(personalisation, segment.to_bytes(4, "little"))
    tables = []
    for _ in range(_SEGMENT_WINDOWS):
        table = [base]
        for _ in range(3):
            table.append(_GROUP.add(table[-1], base))
        points = [_montgomery(point) for point in table]
        tables.append((interpolated([p[0] for p in points]), interpolated([p[1] for p in points])))
        base = _GROUP.double(_GROUP.double(table[-1]))
    return tables


def _montgomery(point: EdwardsPair) -> tuple[int, int]:
    """Convert a point to Montgomery form."""
    u, v = point
    x = (1 + v) * pow(1 - v, -1, _P) % _P
    return x, x * pow(u, -1, _P) * SCALE % _P


def pedersen(
    system: ConstraintSystem,
    personalisation: Sequence[int],
    message: Sequence[Boolean],
    generators: bytes,
) -> EdwardsPoint:
    """Return the point that is Sapling's Pedersen hash (specification, 5.4.1.7).

    personalisation: six bits, which precede the message.
    generators: the personalisation, 8 bytes, of the group hashes to the segments' generators.
    """
    prefix = pedersen_prefix(system, personalisation, generators)
    return pedersen_after_prefix(system, prefix, message, generators)


def pedersen_prefix(
    system: ConstraintSystem, personalisation: Sequence[int], generators: bytes
) -> MontgomeryPoint:
    """Return the sum of the two windows of a personalisation, for `pedersen_after_prefix`."""
    windows = _windows([*map(bool, personalisation)])
    with system.namespace("segment 0"):
        return _segment(system, windows, _pedersen_windows(generators, 0)[:_PREFIX_WINDOWS])


def pedersen_after_prefix(
    system: ConstraintSystem, prefix: MontgomeryPoint, message: Sequence[Boolean], generators: bytes
) -> EdwardsPoint:
    """Return the hash of a message whose personalisation has the sum `prefix`; see `pedersen`."""
    windows = iter(_windows(message))
    result: EdwardsPoint | None = None
    for segment in count():
        tables = _pedersen_windows(generators, segment)
        if not segment:
            tables = tables[_PREFIX_WINDOWS:]
        segment_windows = list(islice(windows, len(tables)))
        if segment and not segment_windows:
            break
        with system.namespace(f"segment {segment}"):
            point = _segment(
                system, segment_windows, tables, None if segment else prefix
            ).to_edwards()
            result = point if result is None else point.add(result)
    assert result is not None
    return result


def _segment(
    system: ConstraintSystem,
    windows: Iterable[list[Boolean]],
    tables: list[tuple[Coefficients, Coefficients]],
    start: MontgomeryPoint | None = None,
) -> MontgomeryPoint:
    """Return `start` plus the points that the windows select from the first tables."""
    result = start
    for bits, (x, y) in zip(windows, tables, strict=False):
        point = _select_signed_point(system, bits, x, y)
        result = point if result is None else point.add(result)
    assert result is not None
    return result


def _select_signed_point(
    system: ConstraintSystem, bits: list[Boolean], x: Coefficients, y: Coefficients
) -> MontgomeryPoint:
    """Return the point that two bits select from a table of four, negated if the third is 1."""
    first, second, sign = bits
    signed_y = system.wire()
    product = conjunction(system, first, second)

    def coordinate(k: Coefficients) -> Signal:
        return weighted(system, [(True, k[0]), (first, k[1]), (second, k[2]), (product, k[3])])

    unsigned_y = coordinate(y)
    # 2 * y * sign = y - signed y: the signed y is y or -y.
    system.enforce(2 * unsigned_y, scaled(system, sign, 1), unsigned_y - signed_y)
    return MontgomeryPoint(system, coordinate(x), signed_y)
