"""The groups that points live in, as kernels and plans name them."""

from __future__ import annotations

from functools import cached_property

from quod.curve.parameters import CURVES, G1Parameters, G2Parameters, PairingCurve
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec
from quod.frozen import frozen


@frozen
class Group:
    """The subgroup of order r of E(Fq) (``g1``) or of its twist over Fq2 (``g2``).

    An affine point in memory is x then y, each of `degree` field elements; (0, 0) stands for
    infinity, as in snarkjs's files.
    """

    curve_name: str
    degree: int

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """``curve.g1`` or ``curve.g2``."""
        return f"{self.curve_name}.g{self.degree}"

    @property
    def curve(self) -> PairingCurve:
        return CURVES[self.curve_name]

    @property
    def coordinates(self) -> Modulus:
        """The modulus of the coordinates."""
        return self.curve.fq

    @cached_property
    def field(self) -> FieldSpec:
        """The field of the coordinates."""
        if self.degree == 1:
            return self.coordinates
        return self.curve.tower.fq2

    @property
    def scalars(self) -> Modulus:
        """The modulus of the scalars, the order of the group."""
        return self.curve.fr

    @property
    def parameters(self) -> G1Parameters | G2Parameters:
        return self.curve.g1 if self.degree == 1 else self.curve.g2

    @cached_property
    def coordinate_words(self) -> int:
        """64-bit words of one coordinate in memory."""
        return self.coordinates.words // 2 * self.degree

    @property
    def point_words(self) -> int:
        """64-bit words of an affine point in memory."""
        return 2 * self.coordinate_words

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one point in a host array of 32-bit words."""
        words = self.coordinates.words
        return (2, words) if self.degree == 1 else (2, 2, words)


GROUPS: dict[str, Group] = {
    group.name: group for name in CURVES for group in (Group(name, 1), Group(name, 2))
}
