"""Pallas: "The Pasta Curves" (Electric Coin Co., 2020)."""

from quod.curve.weierstrass.curve import Curve
from quod.field.moduli import PALLAS_FQ, PALLAS_FR

PALLAS = Curve.unchecked(
    name="pallas", fq=PALLAS_FQ, fr=PALLAS_FR, a=0, b=5, generator=(PALLAS_FQ.value - 1, 2)
)
