"""Edwards BLS12, over the scalar field of BLS12-377: Bowe et al., "Zexe" (S&P 2020)."""

from quod.curve.edwards.curve import EdwardsCurve
from quod.field.moduli import BLS12_377_FR, Modulus

EDWARDS_BLS12 = EdwardsCurve.unchecked(
    name="edwards_bls12",
    fq=BLS12_377_FR,
    fr=Modulus.unchecked(
        "edwards_bls12.fr",
        2111115437357092606062206234695386632838870926408408195193685246394721360383,
    ),
    a=-1,
    d=3021,
    generator=(
        4497879464030519973909970603271755437257548612157028181994697785683032656389,
        4357141146396347889246900916607623952598927460421559113092863576544024487809,
    ),
    cofactor=4,
)
