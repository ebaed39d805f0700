"""The base class of groups of points: the description that kernels and plans use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

from quod.curve.parameters import G1Parameters, G2Parameters
from quod.field.moduli import Modulus
from quod.field.spec import FieldSpec


class Group(ABC):
    """A subgroup of prime order of a short Weierstrass curve over Fq or Fq2.

    An affine point in memory is x then y, each of `degree` field elements; (0, 0) stands for
    infinity, as in snarkjs's files.
    """

    if TYPE_CHECKING:
        # Some subclasses have these as dataclass fields, which a property here would shadow.
        @property
        def name(self) -> str: ...
        @property
        def degree(self) -> int: ...

    @property
    @abstractmethod
    def coordinates(self) -> Modulus:
        """The modulus of the coordinates."""

    @property
    @abstractmethod
    def scalars(self) -> Modulus:
        """The modulus of the scalars, the order of the group."""

    @property
    @abstractmethod
    def parameters(self) -> G1Parameters | G2Parameters:
        """The equation, the generator and the cofactor."""

    @cached_property
    def field(self) -> FieldSpec:
        """The field of the coordinates."""
        return self.coordinates

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
