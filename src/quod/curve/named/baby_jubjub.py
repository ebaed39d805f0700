"""Baby Jubjub, over the scalar field of BN254: EIP-2494; circomlib uses it.

The generator is the specification's base point, of prime order.
"""

from quod.curve.edwards.curve import EdwardsCurve
from quod.field.moduli import BN254_FR, Modulus

BABY_JUBJUB = EdwardsCurve.unchecked(
    name="baby_jubjub",
    fq=BN254_FR,
    fr=Modulus.unchecked(
        "baby_jubjub.fr",
        2736030358979909402780800718157159386076813972158567259200215660948447373041,
    ),
    a=168700,
    d=168696,
    generator=(
        5299619240641551281634865583518297030282874472190772894086521144482721001553,
        16950150798460657717958625567821834550301663161624707787222815936182638968203,
    ),
    cofactor=8,
)
