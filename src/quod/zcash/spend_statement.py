"""The statements of Spend and Convert proofs, with the checks that verifiers make.

Zcash protocol specification, 4.4 and 7.3: the encodings of cv and rk are canonical, these points
are not of small order, and the anchor is canonical. The nullifier is any 32 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from quod.curve.edwards.affine import EdwardsPair
from quod.curve.named.jubjub import JUBJUB
from quod.frozen import frozen
from quod.hash.arguments import element
from quod.validation import exact_bytes
from quod.zcash.scalars import encoded
from quod.zcash.statement_fields import decode_number, decode_point, statement_point

_PACKED_BITS = 254


@frozen
class SpendStatement:
    """The statement of a Spend, of Sapling or of MASP.

    cv: the value commitment.
    anchor: the root of the tree that has the note.
    nullifier: 32 bytes.
    rk: the key of the Spend's signature.
    Raises InputError, with the field's name, for a point off the curve or of small order, and an
    anchor not below the modulus.
    """

    what: ClassVar[str] = "a Spend"
    fields: ClassVar[tuple[str, ...]] = ("cv", "anchor", "nullifier", "rk")
    public_inputs: ClassVar[int] = 7

    cv: EdwardsPair
    anchor: int
    nullifier: bytes
    rk: EdwardsPair

    def __post_init__(self) -> None:
        cv, rk = statement_point("cv", self.cv), statement_point("rk", self.rk)
        anchor = element("the anchor", self.anchor, JUBJUB.fq)
        nullifier = exact_bytes("the nullifier", self.nullifier, 32)
        self.__dict__.update(cv=cv, anchor=anchor, nullifier=nullifier, rk=rk)

    @classmethod
    def from_bytes(cls, cv: bytes, anchor: bytes, nullifier: bytes, rk: bytes) -> SpendStatement:
        """Decode four fields of 32 bytes; raise InputError, with its name, for an invalid one."""
        return cls(
            decode_point("cv", cv), decode_number("the anchor", anchor), nullifier,
            decode_point("rk", rk),
        )  # fmt: skip

    @classmethod
    def from_public(cls, public: Sequence[int]) -> SpendStatement:
        """Return the statement with these public inputs; raise InputError as the constructor."""
        rk_u, rk_v, cv_u, cv_v, anchor, low, high = public
        nullifier = (high << _PACKED_BITS | low).to_bytes(32, "little")
        return cls((cv_u, cv_v), anchor, nullifier, (rk_u, rk_v))

    @property
    def public(self) -> list[int]:
        """The seven public inputs of the circuit."""
        high, low = divmod(int.from_bytes(self.nullifier, "little"), 1 << _PACKED_BITS)
        return [*self.rk, *self.cv, self.anchor, low, high]

    def to_bytes(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Return the bytes of cv, anchor, nullifier and rk, 32 each."""
        anchor = self.anchor.to_bytes(32, "little")
        return encoded(self.cv), anchor, self.nullifier, encoded(self.rk)


@frozen
class ConvertStatement:
    """The statement of a Convert of MASP.

    cv: the value commitment.
    anchor: the root of the tree that has the allowed conversion.
    Raises InputError as `SpendStatement`.
    """

    what: ClassVar[str] = "a Convert"
    fields: ClassVar[tuple[str, ...]] = ("cv", "anchor")
    public_inputs: ClassVar[int] = 3

    cv: EdwardsPair
    anchor: int

    def __post_init__(self) -> None:
        anchor = element("the anchor", self.anchor, JUBJUB.fq)
        self.__dict__.update(cv=statement_point("cv", self.cv), anchor=anchor)

    @classmethod
    def from_bytes(cls, cv: bytes, anchor: bytes) -> ConvertStatement:
        """Decode two fields of 32 bytes; raise InputError, with its name, for an invalid one."""
        return cls(decode_point("cv", cv), decode_number("the anchor", anchor))

    @classmethod
    def from_public(cls, public: Sequence[int]) -> ConvertStatement:
        """Return the statement with these public inputs; raise InputError as the constructor."""
        u, v, anchor = public
        return cls((u, v), anchor)

    @property
    def public(self) -> list[int]:
        """The three public inputs of the circuit."""
        return [*self.cv, self.anchor]

    def to_bytes(self) -> tuple[bytes, bytes]:
        """Return the bytes of cv and anchor, 32 each."""
        return encoded(self.cv), self.anchor.to_bytes(32, "little")
