"""The public key of a contributor's secret, which proves that the contributor knew it.

For a secret s, a random point P of G1, and a point Q of G2 hashed from the transcript, P and s*P,
the key is P, s*P and s*Q: nobody can compute s*Q without s (Bowe, Gabizon and Miers, eprint
2017/1050). snarkjs calls them g1_s, g1_sx and g2_spx.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn

from quod.ceremony.chacha import ChaChaStream
from quod.ceremony.multiples import secret_multiples
from quod.ceremony.point_bytes import uncompressed_points
from quod.ceremony.random_points import hash_to_g2, next_g1
from quod.ceremony.ratio import same_ratio
from quod.ceremony.secret import Secret
from quod.curve.array import Point, from_points, to_points
from quod.curve.group import Group
from quod.curve.groups import PairingGroup
from quod.curve.parameters import G1Point, G2Point, PairingCurve
from quod.curve.weierstrass.operations import first_bad_point
from quod.device.discovery import resolve_device
from quod.errors import InputError
from quod.field.array import Words
from quod.formats.iden3 import SectionReader
from quod.frozen import frozen

Digest = Callable[[bytes], bytes]
"""A function that hashes the transcript followed by its argument, P and s*P uncompressed."""


@frozen
class PublicKey:
    """A public key: P, s*P and s*Q, as integers; None is infinity."""

    g1_s: G1Point
    g1_sx: G1Point
    g2_spx: G2Point

    @classmethod
    def of(cls, curve: PairingCurve, secret: Secret, g1_s: G1Point, digest: Digest) -> PublicKey:
        """Return the key of a secret; P is `g1_s`, from `random_g1` or from a beacon."""
        g1_sx = multiple_of(curve, 1, g1_s, secret)
        q = hash_to_g2(curve, digest(_first_bytes(curve, g1_s, g1_sx)))
        return cls(g1_s, g1_sx, multiple_of(curve, 2, q, secret))

    def is_proof(self, curve: PairingCurve, digest: Digest) -> bool:
        """Return whether s*P and s*Q have the same s, not 0; points must be in their groups."""
        g1_bytes = _first_bytes(curve, self.g1_s, self.g1_sx)
        q = hash_to_g2(curve, digest(g1_bytes))
        return same_ratio(curve, (self.g1_s, self.g1_sx), (q, self.g2_spx))

    def first_bytes(self, curve: PairingCurve) -> bytes:
        """Return P and s*P, uncompressed."""
        return _first_bytes(curve, self.g1_s, self.g1_sx)

    def second_bytes(self, curve: PairingCurve) -> bytes:
        """Return s*Q, uncompressed."""
        return uncompressed_points(resolve_device("cpu"), group_of(curve, 2), [self.g2_spx])


def group_of(curve: PairingCurve, degree: int) -> Group:
    """Return G1 (degree 1) or G2 (degree 2) of a curve."""
    return PairingGroup(curve.name, degree)


def random_g1(curve: PairingCurve) -> G1Point:
    """Return a random point of G1, which need not be secret."""
    return next_g1(curve, ChaChaStream(os.urandom(32)))


def multiple_of(curve: PairingCurve, degree: int, point: Point, secret: Secret) -> Any:
    """Return secret * point, computed on the CPU."""
    group = group_of(curve, degree)
    products = secret_multiples(
        resolve_device("cpu"), group, from_points(group, [point]), secret.words[None]
    )
    return to_points(group, products)[0]


def take_point(section: SectionReader, curve: PairingCurve, degree: int, what: str) -> Any:
    """Read the next point of a section, as integers.

    Raises InputError, with `what` and the offset, if it is infinity or outside its group.
    """
    group = group_of(curve, degree)
    start = section.offset
    words = section.words(1, *group.shape, what=what)
    check_point(group, words, lambda why: section.fail(f"{what} {why}", start))
    return to_points(group, words)[0]


def check_point(group: Group, words: Words, fail: Callable[[str], NoReturn]) -> None:
    """Call `fail` with the fault of an array of one point at infinity or outside its group."""
    bad_point = first_bad_point(resolve_device("cpu"), group, words, subgroup=True, infinity=False)
    if bad_point is not None:
        fail(bad_point[1])


def point_data(curve: PairingCurve, degree: int, *points: Point) -> bytes:
    """Return the bytes of points in files; the inverse of `take_point`."""
    return from_points(group_of(curve, degree), points).astype("<u4").tobytes()


def _first_bytes(curve: PairingCurve, g1_s: G1Point, g1_sx: G1Point) -> bytes:
    """Return P and s*P, uncompressed; raise InputError if one is infinity."""
    if g1_s is None or g1_sx is None:
        raise InputError("a key of a contribution has a point at infinity: its secret is 0")
    return uncompressed_points(resolve_device("cpu"), group_of(curve, 1), [g1_s, g1_sx])
