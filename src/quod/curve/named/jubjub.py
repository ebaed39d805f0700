"""Jubjub, over the scalar field of BLS12-381: Zcash protocol specification, 5.4.9.3.

The generator is that of arkworks (ark-ed-on-bls12-381).
"""

from quod.curve.edwards.curve import EdwardsCurve
from quod.field.moduli import BLS12_381_FR, Modulus

JUBJUB = EdwardsCurve.unchecked(
    name="jubjub",
    fq=BLS12_381_FR,
    fr=Modulus.unchecked(
        "jubjub.fr", 0x0E7DB4EA6533AFA906673B0101343B00A6682093CCC81082D0970E5ED6F72CB7
    ),
    a=-1,
    d=-10240 * pow(10241, -1, BLS12_381_FR.value) % BLS12_381_FR.value,
    generator=(
        8076246640662884909881801758704306714034609987455869804520522091855516602923,
        13262374693698910701929044844600465831413122818447359594527400194675274060458,
    ),
    cofactor=8,
)
