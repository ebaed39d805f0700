"""Grumpkin, whose fields are those of BN254 swapped: Aztec, "A cycle of curves with BN254"."""

from quod.curve.weierstrass.curve import Curve
from quod.field.moduli import BN254_FQ, BN254_FR

GRUMPKIN = Curve.unchecked(
    name="grumpkin",
    fq=BN254_FR,
    fr=BN254_FQ,
    a=0,
    b=BN254_FR.value - 17,
    generator=(1, 17631683881184975370165255887551781615748388533673675138860),
)
