"""Named extensions, from which proof systems draw their challenges.

Elements have the same coefficients as in Stwo and Plonky3 (M31, degree 4 over degree 2), Expander
and Plonky3 (M31, degree 3), Plonky3 and SP1 (BabyBear, KoalaBear), Plonky2 and Plonky3 (Goldilocks,
degree 2), and Winterfell (Goldilocks, degree 3).
"""

from __future__ import annotations

from quod.field.moduli import BABY_BEAR, GOLDILOCKS, KOALA_BEAR, M31, NAMED
from quod.field.spec import Extension
from quod.names import NameTable

M31_2 = Extension.unchecked_binomial("m31.2", M31, 2, -1)
"""M31[i]/(i^2 + 1), the complex numbers modulo M31 (CM31)."""

M31_3 = Extension.unchecked_binomial("m31.3", M31, 3, 5)
"""M31[x]/(x^3 - 5): 93 bits, too few for the soundness of most proofs."""

M31_4 = Extension.unchecked_binomial("m31.4", M31_2, 2, (2, 1))
"""M31[i][u]/(u^2 - 2 - i) (QM31). An element is (a, b, c, d) for a + b*i + (c + d*i)*u."""

BABY_BEAR_4 = Extension.unchecked_binomial("baby_bear.4", BABY_BEAR, 4, 11)
KOALA_BEAR_4 = Extension.unchecked_binomial("koala_bear.4", KOALA_BEAR, 4, 3)
GOLDILOCKS_2 = Extension.unchecked_binomial("goldilocks.2", GOLDILOCKS, 2, 7)

GOLDILOCKS_3 = Extension.unchecked_polynomial("goldilocks.3", GOLDILOCKS, (-1, -1, 0, 1))
"""Goldilocks[x]/(x^3 - x - 1): 192 bits."""

_ALL = (M31_2, M31_3, M31_4, BABY_BEAR_4, KOALA_BEAR_4, GOLDILOCKS_2, GOLDILOCKS_3)


def _elsewhere(name: str) -> str | None:
    if name not in NAMED:
        return None
    names = [extension.name for extension in _ALL if extension.modulus is NAMED[name]]
    extensions = f"; its extensions are {', '.join(names)}" if names else ""
    return f"quod.field.NAMED has it{extensions}"


EXTENSIONS: dict[str, Extension] = NameTable(
    "quod.field.EXTENSIONS", "an extension", {extension.name: extension for extension in _ALL},
    _elsewhere,
)  # fmt: skip
"""All named extensions; those of curve coordinates are in `quod.curve`."""
