"""Points that are derived from a hash, as in snarkjs's transcripts."""

from __future__ import annotations

from quod.ceremony.chacha import ChaChaStream
from quod.curve.affine_law import AffineGroup
from quod.curve.coordinates import C
from quod.curve.parameters import G1Point, G2Point, PairingCurve
from quod.curve.weierstrass.affine import g1_group, g2_group


def next_g1(curve: PairingCurve, stream: ChaChaStream) -> G1Point:
    """Return the next random point of G1."""
    return _next_point(g1_group(curve), curve, stream)


def next_g2(curve: PairingCurve, stream: ChaChaStream) -> G2Point:
    """Return the next random point of G2."""
    return _next_point(g2_group(curve), curve, stream)


def hash_to_g2(curve: PairingCurve, digest: bytes) -> G2Point:
    """Hash to G2: return the point that is derived from the first 32 bytes of a digest."""
    return next_g2(curve, ChaChaStream(digest))


def _next_point(
    law: AffineGroup[C], curve: PairingCurve, stream: ChaChaStream
) -> tuple[C, C] | None:
    """Draw x and the sign of y until the curve has such a point; return it times the cofactor."""
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
