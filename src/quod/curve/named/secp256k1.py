"""secp256k1: SEC 2, "Recommended Elliptic Curve Domain Parameters", 2.4.1."""

from quod.curve.weierstrass.curve import Curve
from quod.field.moduli import SECP256K1_FQ, SECP256K1_FR

SECP256K1 = Curve.unchecked(
    name="secp256k1",
    fq=SECP256K1_FQ,
    fr=SECP256K1_FR,
    a=0,
    b=7,
    generator=(
        0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
        0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
    ),
)
