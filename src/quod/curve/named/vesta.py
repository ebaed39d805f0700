"""Vesta, whose fields are those of Pallas swapped: "The Pasta Curves" (Electric Coin Co., 2020)."""

from quod.curve.weierstrass.curve import Curve
from quod.field.moduli import PALLAS_FQ, PALLAS_FR

VESTA = Curve.unchecked(
    name="vesta", fq=PALLAS_FR, fr=PALLAS_FQ, a=0, b=5, generator=(PALLAS_FR.value - 1, 2)
)
