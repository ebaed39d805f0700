"""Points that follow from a hash, as snarkjs draws them for its transcripts."""

from __future__ import annotations

from quod.ceremony.chacha import ChaChaStream
from quod.curve.affine_law import AffineGroup
from quod.curve.coordinates import C
from quod.curve.parameters import G1Point, G2Point, PairingCurve
from quod.curve.weierstrass.affine import g1_group, g2_group


def next_g1(curve: PairingCurve, stream: ChaChaStream) -> G1Point:
    """The next point of G1."""
    return _drawn(g1_group(curve), curve, stream)


def next_g2(curve: PairingCurve, stream: ChaChaStream) -> G2Point:
    """The next point of G2."""
    return _drawn(g2_group(curve), curve, stream)


def hash_to_g2(curve: PairingCurve, digest: bytes) -> G2Point:
    """The point of G2 that the first 32 bytes of a digest stand for."""
    return next_g2(curve, ChaChaStream(digest))


def _drawn(law: AffineGroup[C], curve: PairingCurve, stream: ChaChaStream) -> tuple[C, C] | None:
    """x and the sign of y are drawn until the curve has such a point; then the cofactor."""
    field = law.field
    while True:
        x = field.from_coefficients(
            tuple(stream.next_element(curve.fq) for _ in range(field.degree))
        )
        larger = stream.next_u32() & 1 == 1
        y = field.square_root(law.right_side(x))
        if y is not None:
            break
    if field.is_larger(y) != larger:
        y = field.negate(y)
    return law.multiply(law.cofactor, (x, y))
