"""Batch decompression of points of a twisted Edwards curve on a device.

Encodings are those of `quod.curve.edwards.encoding` with the signs of Zcash. One kernel takes the
square roots of all points, by the method of Tonelli and Shanks with digits of four bits: with
p - 1 = 2**s * m, it finds the logarithm of (u/v)**m in the group of order 2**s digit by digit, and
needs no inversion (Sarkar, "Computing square roots faster than the Tonelli-Shanks/Bernstein
algorithm", IACR ePrint 2020/1407).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from quod.curve.edwards.affine import EdwardsPair
from quod.curve.edwards.curve import EdwardsCurve
from quod.curve.edwards.encoding import decode_edwards
from quod.curve.edwards.operations import to_edwards_points
from quod.curve.edwards.point import EdwardsArithmetic, EdwardsPoint
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.errors import InputError
from quod.field.array import Words, canonical
from quod.field.element import Element
from quod.field.moduli import Modulus
from quod.field.prime import PrimeField
from quod.frozen import frozen
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.errors import TraceError
from quod.kernel.ir import types
from quod.kernel.ir.value import Operand, Value
from quod.validation import exact_bytes

_DIGIT_BITS = 4
_ON_CURVE, _UNSIGNED_ZERO, _LARGE_ORDER = 1, 2, 4


@frozen(eq=False)
class DecompressedPoints:
    """The points of n encodings.

    points: affine points as in `quod.curve.edwards.operations`, unspecified if off the curve.
    is_on_curve: per encoding, whether y is below the modulus and a point has it.
    is_canonical: whether it is on the curve, and not x = 0 with a sign, which ZIP 216 forbids.
    has_small_order: whether the order of a point on the curve divides the cofactor.
    """

    points: Words
    is_on_curve: NDArray[np.bool_]
    is_canonical: NDArray[np.bool_]
    has_small_order: NDArray[np.bool_]


@kernel
def edwards_decompress(
    k: Builder,
    count: U32,
    ordinates: Pointer[U64],
    signs: Pointer[U32],
    points: Pointer[U64],
    verdicts: Pointer[U32],
    *,
    curve: EdwardsCurve,
) -> None:
    """points[i] = the point with y = ordinates[i], an integer below p, and the sign of x signs[i].

    verdicts[i] has the bits `_ON_CURVE`, `_UNSIGNED_ZERO` (x is not 0 or has no sign) and
    `_LARGE_ORDER` (the order of the point does not divide the cofactor). Raises TraceError for a
    cofactor that is no power of two, and for a field with less than four factors 2 in p - 1.
    """
    if curve.cofactor.bit_count() != 1 or curve.fq.two_adicity < _DIGIT_BITS:
        raise TraceError(
            f"points of {curve.name} are not decompressed in kernels: the cofactor must be a power "
            f"of two, and p - 1 divisible by 2**{_DIGIT_BITS}"
        )
    law, i = EdwardsArithmetic(k, curve), k.global_id()
    f = law.field
    corrections = f.table(_corrections(curve.fq))
    with k.if_(i < count):
        y = f.bounded(f.load(ordinates, i) * f.constant(curve.fq.montgomery_radix))
        y_squared = f.square(y)
        numerator = f.bounded(f.one() - y_squared)
        shifted = y_squared * f.constant(curve.d)
        denominator = f.bounded(law.a_times(f.one()) - shifted)
        x = _root_of_ratio(k, f, corrections, numerator, denominator)
        is_on_curve = f.is_zero(f.square(x) * denominator - numerator)
        x_is_zero = f.is_zero(x)
        # The words of x over the radix are those of the integer x.
        inverse_radix = pow(curve.fq.montgomery_radix, -1, curve.fq.value)
        parity = f.to_words(x * f.constant(inverse_radix))[0].cast(types.u32) & 1
        sign = signs[i]
        x = f.select(parity == sign, x, f.bounded(f.negate(x)))
        element_index = i.cast(types.u64) * 2
        f.store(points, element_index, x)
        f.store(points, element_index + 1, y)
        point = EdwardsPoint(x, y, f.one(), x * y)
        for _ in range(curve.cofactor.bit_length() - 1):
            point = law.double(point)
        is_small = f.is_zero(point.x) & f.is_zero(point.y - point.z)
        zero = k.constant(0, types.u32)
        verdict = k.select(is_on_curve, k.constant(_ON_CURVE, types.u32), zero)
        verdict |= k.select(x_is_zero & (sign != 0), zero, k.constant(_UNSIGNED_ZERO, types.u32))
        verdict |= k.select(is_small, zero, k.constant(_LARGE_ORDER, types.u32))
        verdicts[i] = verdict


def _root_of_ratio(
    k: Builder, f: PrimeField, corrections: Value, numerator: Element, denominator: Element
) -> Element:
    """Return a square root of numerator/denominator, or any element if there is none.

    corrections: the table of `_corrections`. The denominator is not 0; the numerator may be.
    """
    s, m = _parts(f.modulus)
    # With w = (u * v**(2**(s + 1) - 1))**((m - 1)/2) * v**(2**s - 1), the square of u*w is
    # u/v times the error u*v*w**2 = (u/v)**m, whose order divides 2**s.
    ones = f.bounded(_power_of_ones(f, denominator, s))
    base = f.bounded(f.square(ones) * denominator * numerator)
    power = f.bounded(f.power(base, (m - 1) // 2) * ones)
    root = f.bounded(power * numerator)
    error = f.bounded(root * power * denominator)
    first_bits = s % _DIGIT_BITS

    def without_digit(
        root: Element, error: Element, squarings: Operand, row: Value, excess: int
    ) -> tuple[Element, Element]:
        """Remove a digit, of 4 - excess bits, from the logarithm of the error."""
        with k.range(0, squarings, carry=error) as loop:
            loop.next(f.bounded(f.square(loop.carried)))
        word = f.to_words(loop.results)[0]
        digit = k.constant(0, types.u32)
        for value, stored in enumerate(_digit_words(f.modulus, word.type.bits)):
            is_value = word == k.constant(stored, word.type)
            digit = k.select(is_value, k.constant(value >> excess, types.u32), digit)
        index = (row << _DIGIT_BITS) + digit
        correction = f.load(corrections, index.cast(types.u64))
        return f.bounded(root * correction), f.bounded(error * f.square(correction))

    if first_bits:
        first_row = k.constant(0, types.u32)
        root, error = without_digit(
            root, error, s - first_bits, first_row, _DIGIT_BITS - first_bits
        )  # fmt: skip
    with k.range(0, s // _DIGIT_BITS, carry=(root, error)) as digits:
        squarings = (s - first_bits - _DIGIT_BITS) - digits.index * _DIGIT_BITS
        row = digits.index + 1 if first_bits else digits.index
        root, error = digits.carried
        digits.next(without_digit(root, error, squarings, row, 0))
    result: Element = digits.results[0]
    return result


def _power_of_ones(f: PrimeField, a: Element, count: int) -> Element:
    """Return a**(2**count - 1)."""
    result, ones = a, 1
    for bit in bin(count)[3:]:
        result = f.bounded(f.square_times(result, ones) * result)
        ones *= 2
        if bit == "1":
            result = f.bounded(f.square(result) * a)
            ones += 1
    return result


def _parts(modulus: Modulus) -> tuple[int, int]:
    """Return s and the odd m with p - 1 = 2**s * m."""
    return modulus.two_adicity, (modulus.value - 1) >> modulus.two_adicity


@cache
def _two_power_root(modulus: Modulus) -> int:
    """Return an element of order 2**s."""
    p, (_, m) = modulus.value, _parts(modulus)
    non_residue = next(g for g in range(2, p) if pow(g, (p - 1) // 2, p) != 1)
    return pow(non_residue, m, p)


@cache
def _corrections(modulus: Modulus) -> list[int]:
    """Return, for the digits d at each bit b, g**(-(2**b * d // 2)) for a g of order 2**s.

    The square of this factor removes the digit from the logarithm of an error. The first digit of a
    square is even. It has s modulo 4 bits, if that is not 0.
    """
    p, (s, _) = modulus.value, _parts(modulus)
    inverse = pow(_two_power_root(modulus), -1, p)
    return [
        pow(inverse, (digit << shift) // 2, p)
        for shift in _digit_shifts(s)
        for digit in range(1 << _DIGIT_BITS)
    ]


def _digit_shifts(s: int) -> list[int]:
    """Return the lowest bit of each digit."""
    first_bits = s % _DIGIT_BITS
    return [0] * bool(first_bits) + list(range(first_bits, s, _DIGIT_BITS))


@cache
def _digit_words(modulus: Modulus, bits: int) -> list[int]:
    """Return the lowest word in memory of each power of an element of order 16."""
    s, _ = _parts(modulus)
    root = pow(_two_power_root(modulus), 1 << s - _DIGIT_BITS, modulus.value)
    words = [
        modulus.to_montgomery(pow(root, digit, modulus.value)) & (1 << bits) - 1
        for digit in range(1 << _DIGIT_BITS)
    ]
    assert len(set(words)) == len(words)
    return words


def decompress(
    device: AnyDevice, curve: EdwardsCurve, encodings: Sequence[bytes]
) -> DecompressedPoints:
    """Decode points of a curve whose cofactor is a power of two, such as Jubjub.

    encodings: bytes of the size that `encode_edwards` writes; raises InputError for other sizes.
    """
    size, count = curve.fq.bytes, len(encodings)
    data = b"".join(exact_bytes("a point", encoding, size) for encoding in encodings)
    ordinates = np.frombuffer(data, "<u4").astype(np.uint32).reshape(count, curve.fq.words)
    signs = ordinates[:, -1] >> 31
    ordinates[:, -1] &= 0x7FFF_FFFF
    is_below = canonical(curve.fq, ordinates)
    ordinates[~is_below] = 0
    points, verdicts = unwritten(count, 2, curve.fq.words), unwritten(count, 1)
    if count:
        compiled = device.compile(edwards_decompress, curve=curve)
        groups = -(-count // device.lanes)
        device.launch(compiled, groups, count, ordinates, signs, points, verdicts)
        check_written(device, "points", points)
        check_written(device, "which encodings are points", verdicts)
    verdict = verdicts[:, 0]
    is_on_curve = is_below & (verdict & _ON_CURVE != 0)
    return DecompressedPoints(
        points, is_on_curve, is_on_curve & (verdict & _UNSIGNED_ZERO != 0),
        is_on_curve & (verdict & _LARGE_ORDER == 0),
    )  # fmt: skip


def decompressed_edwards(
    device: AnyDevice, curve: EdwardsCurve, encodings: Sequence[bytes]
) -> list[EdwardsPair | InputError]:
    """Decode points as `decode_edwards` does with Zcash's signs, without the check of the subgroup.

    An invalid encoding gives the InputError of `decode_edwards` in place of its point.
    """
    size = curve.fq.bytes
    sized = [data if len(data) == size else bytes(size) for data in encodings]
    decoded = decompress(device, curve, sized)
    points = to_edwards_points(curve, decoded.points)
    return [
        point if is_canonical and padded is data else _decode_single(curve, data)
        for data, padded, point, is_canonical in zip(
            encodings, sized, points, decoded.is_canonical, strict=True
        )
    ]


def _decode_single(curve: EdwardsCurve, data: bytes) -> EdwardsPair | InputError:
    try:
        return decode_edwards(curve, data, check_subgroup=False)
    except InputError as error:
        return error
