"""Batch decompression of BLS12-381 points in the Zcash form on a device.

Decompression spends its time on square roots: 0.1 ms each on plain integers, and three for a point
of G2. Here two launches compute the square roots of all points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from quod.curve.array import Point
from quod.curve.encoding.points import decode_zcash_g1, decode_zcash_g2
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.errors import InputError
from quod.field.array import from_integers, to_integers
from quod.field.moduli import Modulus
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, kernel

_SIZE = 48
_COMPRESSED, _INFINITY, _SIGN = 0x80, 0x40, 0x20


@kernel
def square_root_candidates(
    k: Builder, n: U32, a: Pointer[U64], out: Pointer[U64], *, modulus: Modulus
) -> None:
    """out[i] = a[i]**((p + 1)/4): a square root of a[i], if it has one and p is 3 modulo 4."""
    f, i = prime_field(k, modulus), k.global_id()
    with k.if_(i < n):
        f.store(out, i, f.power(f.bounded(f.load(a, i)), (modulus.value + 1) // 4))


def square_roots(device: AnyDevice, modulus: Modulus, integers: Sequence[int]) -> list[int | None]:
    """Return a square root of each integer below p, or None for a non-square.

    Raises ValueError unless p is 3 modulo 4.
    """
    p = modulus.value
    if p % 4 != 3:
        raise ValueError(f"{modulus.name} is not 3 modulo 4")
    if not integers:
        return []
    out = unwritten(len(integers), modulus.words)
    compiled = device.compile(square_root_candidates, modulus=modulus)
    squares = from_integers(modulus, integers)
    device.launch(compiled, -(-len(squares) // device.lanes), len(squares), squares, out)
    check_written(device, "square roots", out)
    roots = to_integers(modulus, out)
    return [root if root * root % p == integer else None for root, integer in zip(roots, integers)]


def decompressed(
    device: AnyDevice, g1: Sequence[bytes], g2: Sequence[bytes]
) -> tuple[list[Point | InputError], list[Point | InputError]]:
    """Decode compressed points: g1 of 48 bytes each, g2 of 96.

    An invalid encoding gives the InputError of `decode_zcash_g1` or `decode_zcash_g2` in place of
    its point. Points are on the curve, but may be outside the subgroup of order r.
    """
    law1, law2, fq = g1_group(BLS12_381), g2_group(BLS12_381), BLS12_381.fq
    p = fq.value
    g1_xs = [_numbers(data) if len(data) == _SIZE else None for data in g1]
    g2_xs = [_numbers(data) if len(data) == 2 * _SIZE else None for data in g2]
    g1_squares = [None if x is None else law1.right_side(x[0]) for x in g1_xs]
    # The coefficient of u is first.
    g2_squares = [None if u is None else law2.right_side((u[1], u[0])) for u in g2_xs]
    norms = [None if t is None else (t[0] * t[0] + t[1] * t[1]) % p for t in g2_squares]
    roots = iter(square_roots(device, fq, [a for a in (*g1_squares, *norms) if a is not None]))
    g1_ys = [None if a is None else next(roots) for a in g1_squares]
    norm_roots = [None if a is None else next(roots) for a in norms]
    half = (p + 1) // 2
    real_candidates: list[int] = []
    for square, norm_root in zip(g2_squares, norm_roots, strict=True):
        if square is not None and norm_root is not None:
            # One of the two is a square: the square of the real part of the root.
            real_candidates += [
                (square[0] + norm_root) * half % p,
                (square[0] - norm_root) * half % p,
            ]
    roots = iter(square_roots(device, fq, real_candidates))
    g2_ys = [
        None if square is None or norm_root is None else _root(roots, square, p)
        for square, norm_root in zip(g2_squares, norm_roots, strict=True)
    ]

    def decode_g1(index: int) -> Point | InputError:
        x, y, data = g1_xs[index], g1_ys[index], g1[index]
        if x is None or not y:
            return _decode_single(decode_zcash_g1, data)
        return x[0], y if law1.field.is_larger(y) == bool(data[0] & _SIGN) else p - y

    def decode_g2(index: int) -> Point | InputError:
        u, y, data = g2_xs[index], g2_ys[index], g2[index]
        if u is None or y is None:
            return _decode_single(decode_zcash_g2, data)
        larger = law2.field.is_larger(y) == bool(data[0] & _SIGN)
        return (u[1], u[0]), y if larger else law2.field.negate(y)

    return [decode_g1(i) for i in range(len(g1))], [decode_g2(i) for i in range(len(g2))]


def _root(roots: Iterator[int | None], square: tuple[int, int], p: int) -> tuple[int, int] | None:
    """Return a root of an element of Fq2, from roots of the candidates for its squared real part.

    Takes two items of `roots`. Returns None for elements of Fq and for non-squares.
    """
    real, other = next(roots), next(roots)
    real = real or other
    # Elements of Fq and non-squares are left to the decoder of single points.
    if not real or not square[1]:
        return None
    root = (real, square[1] * pow(2 * real, -1, p) % p)
    c0, c1 = (root[0] * root[0] - root[1] * root[1]) % p, 2 * root[0] * root[1] % p
    return root if (c0, c1) == square else None


def _numbers(data: bytes) -> list[int] | None:
    """Return the integers in the encoding of a finite compressed point, the coefficient of u first.

    Returns None if a flag is wrong, the point is infinity or an integer is not below q.
    """
    if data[0] & (_COMPRESSED | _INFINITY) != _COMPRESSED:
        return None
    plain = bytes([data[0] & 0x1F]) + data[1:]
    coordinates = [
        int.from_bytes(plain[start : start + _SIZE], "big") for start in range(0, len(plain), _SIZE)
    ]
    return coordinates if all(number < BLS12_381.fq.value for number in coordinates) else None


def _decode_single(decode: Any, data: bytes) -> Point | InputError:
    try:
        point: Point = decode(data, check_subgroup=False)
        return point
    except InputError as error:
        return error
