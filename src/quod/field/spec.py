"""What fixes a coordinate field: the static argument of kernels that work over Fq and Fq2."""

from __future__ import annotations

from quod.field.moduli import Modulus
from quod.frozen import frozen


@frozen
class FieldSpec:
    """Fq, or Fq2 = Fq[u]/(u^2 - non_residue).

    In memory an element of Fq2 is c0 and then c1 of ``c0 + c1*u``, each as in `Modulus`.
    """

    modulus: Modulus
    degree: int = 1
    non_residue: int | None = None

    def __post_init__(self) -> None:
        if self.degree not in (1, 2):
            raise ValueError(f"a coordinate field has degree 1 or 2, not {self.degree}")
        if (self.non_residue is None) != (self.degree == 1):
            raise ValueError("an extension is fixed by a non-residue, a prime field by none")

    @property
    def words(self) -> int:
        """32-bit words of an element in memory."""
        return self.degree * self.modulus.words
