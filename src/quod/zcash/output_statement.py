"""The statement of an Output proof, with the checks that verifiers make outside the circuit.

Zcash protocol specification, 4.5 and 7.4: the encodings of cv and epk are canonical, these points
are not of small order, and cmu is canonical.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from quod.curve.edwards.affine import EdwardsPair
from quod.curve.named.jubjub import JUBJUB
from quod.frozen import frozen
from quod.hash.arguments import element
from quod.zcash.scalars import encoded
from quod.zcash.statement_fields import decode_number, decode_point, statement_point


@frozen
class OutputStatement:
    """The statement of an Output.

    cv: the value commitment.
    epk: the ephemeral key.
    cmu: the u-coordinate of the note commitment.
    Raises InputError, with the field's name, for a point off the curve or of small order, and a cmu
    not below the modulus.
    """

    what: ClassVar[str] = "an Output"
    fields: ClassVar[tuple[str, ...]] = ("cv", "epk", "cmu")
    public_inputs: ClassVar[int] = 5

    cv: EdwardsPair
    epk: EdwardsPair
    cmu: int

    def __post_init__(self) -> None:
        for name, coordinates in (("cv", self.cv), ("epk", self.epk)):
            self.__dict__[name] = statement_point(name, coordinates)
        self.__dict__.update(cmu=element("cmu", self.cmu, JUBJUB.fq))

    @classmethod
    def from_bytes(cls, cv: bytes, epk: bytes, cmu: bytes) -> OutputStatement:
        """Decode three fields of 32 bytes; raise InputError, with its name, for an invalid one."""
        return cls(decode_point("cv", cv), decode_point("epk", epk), decode_number("cmu", cmu))

    @classmethod
    def from_public(cls, public: Sequence[int]) -> OutputStatement:
        """Return the statement with these public inputs; raise InputError as the constructor."""
        cv_u, cv_v, epk_u, epk_v, cmu = public
        return cls((cv_u, cv_v), (epk_u, epk_v), cmu)

    @property
    def public(self) -> list[int]:
        """The five public inputs of the circuit."""
        return [*self.cv, *self.epk, self.cmu]

    def to_bytes(self) -> tuple[bytes, bytes, bytes]:
        """Return the bytes of cv, epk and cmu, 32 each."""
        return encoded(self.cv), encoded(self.epk), self.cmu.to_bytes(32, "little")
