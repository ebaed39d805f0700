"""Byte encodings of single points that other programs use.

Points are affine pairs of plain integers, None for infinity. Every decoder accepts exactly the
bytes that its encoder writes. It rejects coordinates of p or more, flags that contradict each other
or the point, stray bits, points off the curve and, unless check_subgroup=False, points outside the
subgroup of order r. Encoders take points as decoders return them. Errors are `InputError`.

| functions                 | curve             | form                                             |
|---------------------------|-------------------|--------------------------------------------------|
| ``*_zcash_*``             | BLS12-381         | Zcash protocol specification 5.4.9.2; IETF       |
|                           |                   | draft-irtf-cfrg-pairing-friendly-curves, app. C  |
| ``*_eip2537_*``           | BLS12-381         | EIP-2537: coordinates padded to 64 bytes         |
| ``*_eip196_*``            | BN254 G1          | EIP-196                                          |
| ``*_eip197_*``            | BN254 G2          | EIP-197: coefficient of u first                  |
| ``*_arkworks_*``          | BN254, BLS12-377  | ark-serialize 0.4 and later: little-endian       |
| ``*_point``               | every group       | the arkworks form, in Quod's own messages        |
"""

from __future__ import annotations

from functools import cache
from typing import Any, Generic, Literal

from quod.curve.affine_law import AffineGroup, plain_point
from quod.curve.array import Point
from quod.curve.coordinates import C
from quod.curve.group import Group
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.named.bn254 import BN254
from quod.curve.parameters import Fq2Element, G1Point, G2Point, PairingCurve
from quod.curve.weierstrass.affine import affine_group, g1_group, g2_group
from quod.errors import InputError
from quod.frozen import frozen
from quod.validation import flag, plain_bytes


@frozen
class _Layout(Generic[C]):
    """The byte layout of coordinates.

    size: bytes of an element of Fq.
    high_coefficient_first: the order of an extension's coefficients.
    """

    group: AffineGroup[C]
    size: int
    byteorder: Literal["little", "big"]
    high_coefficient_first: bool

    @property
    def coordinate_size(self) -> int:
        return self.size * self.group.field.degree

    def pack(self, value: C) -> bytes:
        parts = self.group.field.coefficients(value)
        if self.high_coefficient_first:
            parts = parts[::-1]
        return b"".join(part.to_bytes(self.size, self.byteorder) for part in parts)

    def unpack(self, data: bytes, coordinate: str) -> C:
        """Decode one coordinate; `coordinate` is its name in messages, such as x."""
        parts = tuple(
            int.from_bytes(data[start : start + self.size], self.byteorder)
            for start in range(0, len(data), self.size)
        )
        if any(part >= self.group.field.p for part in parts):
            raise InputError(f"{self.group.name}: {coordinate} is not below the modulus")
        if self.high_coefficient_first:
            parts = parts[::-1]
        return self.group.field.from_coefficients(parts)

    def checked_point(self, point: tuple[C, C] | None) -> tuple[C, C] | None:
        """Return a caller's point as tuples; raises InputError unless coordinates are below p."""
        field = self.group.field
        plain: tuple[C, C] | None = plain_point(point, field.degree, f"{self.group.name}: a point")
        for value in plain or ():
            if any(not 0 <= part < field.p for part in field.coefficients(value)):
                raise InputError(f"{self.group.name}: a coordinate is not below the modulus")
        return plain

    def checked_bytes(self, data: object, coordinates: int) -> bytes:
        """Return a caller's bytes; raises InputError unless they are those of `coordinates`."""
        expected = coordinates * self.coordinate_size
        encoded = plain_bytes(f"{self.group.name}: a point", data)
        if len(encoded) != expected:
            raise InputError(f"{self.group.name}: expected {expected} bytes, not {len(encoded)}")
        return encoded

    def checked_point_bytes(self, data: object, compressed: bool, check_subgroup: bool) -> bytes:
        """Return the caller's bytes of a point, after checks of both arguments and the length."""
        flag("check_subgroup", check_subgroup)
        return self.checked_bytes(data, 1 if compressed else 2)

    def checked(self, x: C, y: C, check_subgroup: bool) -> tuple[C, C]:
        """Return the point (x, y), after checks of the curve's equation and as `in_subgroup`."""
        if not self.group.contains((x, y)):
            raise InputError(f"{self.group.name}: the point is not on the curve")
        return self.in_subgroup((x, y), check_subgroup)

    def in_subgroup(self, point: tuple[C, C], check_subgroup: bool) -> tuple[C, C]:
        """Return the point; with `check_subgroup`, raise InputError outside the subgroup."""
        if check_subgroup and not self.group.in_subgroup(point):
            raise InputError(f"{self.group.name}: the point is not in the subgroup of order r")
        return point

    def point_at(self, x: C, larger: bool) -> tuple[C, C]:
        """Return the point at x with the larger or the smaller y."""
        field = self.group.field
        y = field.square_root(self.group.right_side(x))
        if y is None:
            raise InputError(f"{self.group.name}: no point of the curve has this x")
        if field.is_larger(y) != larger:
            y = field.negate(y)
            if field.is_larger(y) != larger:  # y = 0 is its own opposite
                raise InputError(f"{self.group.name}: the sign bit is set although y is 0")
        return x, y

    # Plain: x then y, all zero for infinity.

    def encode_plain(self, point: tuple[C, C] | None) -> bytes:
        point = self.checked_point(point)
        if point is None:
            return bytes(2 * self.coordinate_size)
        return self.pack(point[0]) + self.pack(point[1])

    def decode_plain(self, data: bytes, check_subgroup: bool) -> tuple[C, C] | None:
        data = self.checked_point_bytes(data, False, check_subgroup)
        if not any(data):
            return None
        middle = self.coordinate_size
        x, y = self.unpack(data[:middle], "x"), self.unpack(data[middle:], "y")
        return self.checked(x, y, check_subgroup)


# Zcash and IETF: three flags in the top bits of the first byte.

_COMPRESSED, _INFINITY, _SIGN = 0x80, 0x40, 0x20


def _encode_zcash(layout: _Layout[C], point: tuple[C, C] | None, compressed: bool) -> bytes:
    point = layout.checked_point(point)
    size = layout.coordinate_size * (1 if compressed else 2)
    flags = _COMPRESSED if compressed else 0
    if point is None:
        return bytes([flags | _INFINITY]) + bytes(size - 1)
    data = bytearray(layout.pack(point[0]))
    if compressed:
        flags |= _SIGN if layout.group.field.is_larger(point[1]) else 0
    else:
        data += layout.pack(point[1])
    data[0] |= flags
    return bytes(data)


def _decode_zcash(
    layout: _Layout[C], data: bytes, compressed: bool, check_subgroup: bool
) -> tuple[C, C] | None:
    data = layout.checked_point_bytes(data, compressed, check_subgroup)
    flags = data[0]
    data = bytes([flags & 0x1F]) + data[1:]
    if bool(flags & _COMPRESSED) != compressed:
        form = "a compressed" if compressed else "an uncompressed"
        raise InputError(f"{layout.group.name}: the flags are not those of {form} point")
    if flags & _INFINITY:
        if flags & _SIGN or any(data):
            raise InputError(f"{layout.group.name}: infinity has bits set besides its flag")
        return None
    if compressed:
        point = layout.point_at(layout.unpack(data, "x"), bool(flags & _SIGN))
        return layout.in_subgroup(point, check_subgroup)
    if flags & _SIGN:
        raise InputError(f"{layout.group.name}: an uncompressed point has no sign bit")
    middle = layout.coordinate_size
    x, y = layout.unpack(data[:middle], "x"), layout.unpack(data[middle:], "y")
    return layout.checked(x, y, check_subgroup)


_ZCASH_G1 = _Layout(g1_group(BLS12_381), 48, "big", True)
_ZCASH_G2 = _Layout(g2_group(BLS12_381), 48, "big", True)


def encode_zcash_g1(point: G1Point, *, compressed: bool = True) -> bytes:
    """Encode a point of BLS12-381 G1 in 48 bytes, or 96 uncompressed."""
    return _encode_zcash(_ZCASH_G1, point, compressed)


def decode_zcash_g1(
    data: bytes, *, compressed: bool = True, check_subgroup: bool = True
) -> G1Point:
    """Decode a point of BLS12-381 G1 from 48 bytes, or 96 uncompressed."""
    return _decode_zcash(_ZCASH_G1, data, compressed, check_subgroup)


def encode_zcash_g2(point: G2Point, *, compressed: bool = True) -> bytes:
    """Encode a point of BLS12-381 G2 in 96 bytes, or 192 uncompressed; coefficient of u first."""
    return _encode_zcash(_ZCASH_G2, point, compressed)


def decode_zcash_g2(
    data: bytes, *, compressed: bool = True, check_subgroup: bool = True
) -> G2Point:
    """Decode a point of BLS12-381 G2 from 96 bytes, or 192 uncompressed; coefficient of u first."""
    return _decode_zcash(_ZCASH_G2, data, compressed, check_subgroup)


# Ethereum: plain big-endian coordinates.

_EIP2537_G1 = _Layout(g1_group(BLS12_381), 64, "big", False)
_EIP2537_G2 = _Layout(g2_group(BLS12_381), 64, "big", False)
_EIP196_G1 = _Layout(g1_group(BN254), 32, "big", False)
_EIP197_G2 = _Layout(g2_group(BN254), 32, "big", True)


def encode_eip2537_g1(point: G1Point) -> bytes:
    """Encode a point of BLS12-381 G1 in 128 bytes: x, y, each with 16 zero bytes in front."""
    return _EIP2537_G1.encode_plain(point)


def decode_eip2537_g1(data: bytes, *, check_subgroup: bool = True) -> G1Point:
    """Decode a point of BLS12-381 G1 from 128 bytes.

    Of the EIP's precompiles, only addition accepts points outside the subgroup.
    """
    return _EIP2537_G1.decode_plain(data, check_subgroup)


def encode_eip2537_g2(point: G2Point) -> bytes:
    """Encode a point of BLS12-381 G2 in 256 bytes: x.c0, x.c1, y.c0, y.c1, 64 bytes each."""
    return _EIP2537_G2.encode_plain(point)


def decode_eip2537_g2(data: bytes, *, check_subgroup: bool = True) -> G2Point:
    """Decode a point of BLS12-381 G2 from 256 bytes."""
    return _EIP2537_G2.decode_plain(data, check_subgroup)


def decode_eip2537_fp(data: bytes) -> int:
    """Decode an element of BLS12-381 Fq from 64 bytes, the input of the map to G1."""
    return _EIP2537_G1.unpack(_EIP2537_G1.checked_bytes(data, 1), "u")


def decode_eip2537_fp2(data: bytes) -> Fq2Element:
    """Decode an element of BLS12-381 Fq2 from 128 bytes, c0 first, the input of the map to G2."""
    return _EIP2537_G2.unpack(_EIP2537_G2.checked_bytes(data, 1), "u")


def encode_eip196_g1(point: G1Point) -> bytes:
    """Encode a point of BN254 G1 in 64 bytes: x, y."""
    return _EIP196_G1.encode_plain(point)


def decode_eip196_g1(data: bytes) -> G1Point:
    """Decode a point of BN254 G1 from 64 bytes; every point of the curve is in G1."""
    return _EIP196_G1.decode_plain(data, False)


def encode_eip197_g2(point: G2Point) -> bytes:
    """Encode a point of BN254 G2 in 128 bytes: x.c1, x.c0, y.c1, y.c0."""
    return _EIP197_G2.encode_plain(point)


def decode_eip197_g2(data: bytes, *, check_subgroup: bool = True) -> G2Point:
    """Decode a point of BN254 G2 from 128 bytes: x.c1, x.c0, y.c1, y.c0."""
    return _EIP197_G2.decode_plain(data, check_subgroup)


# arkworks: little-endian, two flags in the top bits of the last byte, also on uncompressed points.

_ARKWORKS_NEGATIVE, _ARKWORKS_INFINITY = 0x80, 0x40


def _arkworks(curve: PairingCurve, degree: int) -> _Layout[Any]:
    if curve is BLS12_381:
        raise InputError("arkworks encodes bls12_381 in the Zcash form: use the zcash functions")
    return _layout_with_flags(g1_group(curve) if degree == 1 else g2_group(curve), curve.fq.bits)


def _layout_with_flags(group: AffineGroup[C], bits: int) -> _Layout[C]:
    """Return a layout whose coordinates have at least two spare bits, for the flags.

    bits: the length of the modulus.
    """
    return _Layout(group, (bits + 2 + 7) // 8, "little", False)


def _encode_arkworks(layout: _Layout[C], point: tuple[C, C] | None, compressed: bool) -> bytes:
    point = layout.checked_point(point)
    size = layout.coordinate_size * (1 if compressed else 2)
    if point is None:
        return bytes(size - 1) + bytes([_ARKWORKS_INFINITY])
    data = bytearray(layout.pack(point[0]))
    if not compressed:
        data += layout.pack(point[1])
    if layout.group.field.is_larger(point[1]):
        data[-1] |= _ARKWORKS_NEGATIVE
    return bytes(data)


def _decode_arkworks(
    layout: _Layout[C], data: bytes, compressed: bool, check_subgroup: bool
) -> tuple[C, C] | None:
    data = layout.checked_point_bytes(data, compressed, check_subgroup)
    flags = data[-1] & 0xC0
    negative = bool(flags & _ARKWORKS_NEGATIVE)
    data = data[:-1] + bytes([data[-1] & 0x3F])
    if flags & _ARKWORKS_INFINITY:
        if negative or any(data):
            raise InputError(f"{layout.group.name}: infinity has bits set besides its flag")
        return None
    if compressed:
        return layout.in_subgroup(
            layout.point_at(layout.unpack(data, "x"), negative), check_subgroup
        )
    middle = layout.coordinate_size
    x, y = layout.unpack(data[:middle], "x"), layout.unpack(data[middle:], "y")
    if layout.group.field.is_larger(y) != negative:
        raise InputError(f"{layout.group.name}: the sign bit contradicts y")
    return layout.checked(x, y, check_subgroup)


def encode_arkworks_g1(curve: PairingCurve, point: G1Point, *, compressed: bool = True) -> bytes:
    """Encode a point of G1 in 32 bytes (BN254) or 48 (BLS12-377), twice that uncompressed."""
    return _encode_arkworks(_arkworks(curve, 1), point, compressed)


def decode_arkworks_g1(
    curve: PairingCurve, data: bytes, *, compressed: bool = True, check_subgroup: bool = True
) -> G1Point:
    """Decode a point of G1 from 32 bytes (BN254) or 48 (BLS12-377), twice that uncompressed."""
    return _decode_arkworks(_arkworks(curve, 1), data, compressed, check_subgroup)


def encode_arkworks_g2(curve: PairingCurve, point: G2Point, *, compressed: bool = True) -> bytes:
    """Encode a point of G2 in 64 bytes (BN254) or 96 (BLS12-377); c0 first.

    Uncompressed points take twice as many bytes.
    """
    return _encode_arkworks(_arkworks(curve, 2), point, compressed)


def decode_arkworks_g2(
    curve: PairingCurve, data: bytes, *, compressed: bool = True, check_subgroup: bool = True
) -> G2Point:
    """Decode a point of G2 from 64 bytes (BN254) or 96 (BLS12-377); c0 first.

    Uncompressed points take twice as many bytes.
    """
    return _decode_arkworks(_arkworks(curve, 2), data, compressed, check_subgroup)


@cache
def _layout_of(group: Group) -> _Layout[Any]:
    return _layout_with_flags(affine_group(group), group.coordinates.bits)


def point_bytes(group: Group, *, compressed: bool = True) -> int:
    """Return the number of bytes of a point that `encode_point` writes."""
    return _layout_of(group).coordinate_size * (1 if compressed else 2)


def encode_point(group: Group, point: Point, *, compressed: bool = True) -> bytes:
    """Encode a point of any group: x, or x and y, little-endian, coefficient c0 first.

    The highest bit of the last byte is set if y > -y, the next bit if the point is infinity. A
    coordinate has the fewest bytes that hold it and two flags. For BN254 and BLS12-377 this is the
    form of arkworks.
    """
    return _encode_arkworks(_layout_of(group), point, compressed)


def decode_point(group: Group, data: bytes, *, compressed: bool = True) -> Point:
    """Decode the bytes that `encode_point` wrote; the point must be in the subgroup of order r."""
    return _decode_arkworks(_layout_of(group), data, compressed, check_subgroup=True)
