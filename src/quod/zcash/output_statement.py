"""What the proof of an Output is about, with the checks that the circuit leaves to verifiers.

Zcash protocol specification, 4.5 and 7.4: cv and epk are encoded as Quod's strict decoder takes
them and are not of small order, cmu is canonical.
"""

from __future__ import annotations

from quod.curve.edwards.affine import EdwardsPair, edwards_group, edwards_pair
from quod.curve.edwards.encoding import decode_edwards
from quod.curve.named.jubjub import JUBJUB
from quod.errors import InputError
from quod.frozen import frozen
from quod.hash.arguments import element
from quod.validation import exact_bytes
from quod.zcash.scalars import encoded


@frozen
class OutputStatement:
    """The value commitment cv, the ephemeral key epk, and cmu.

    InputError, which names it, for a point that is off the curve or of small order, and a cmu that
    is not below the modulus.
    """

    cv: EdwardsPair
    epk: EdwardsPair
    cmu: int

    def __post_init__(self) -> None:
        for name, given in (("cv", self.cv), ("epk", self.epk)):
            point = edwards_pair(name, JUBJUB, given)
            if edwards_group(JUBJUB).has_small_order(point):
                raise InputError(f"{name} is a point of small order")
            self.__dict__[name] = point
        self.__dict__.update(cmu=element("cmu", self.cmu, JUBJUB.fq))

    @classmethod
    def from_bytes(cls, cv: bytes, epk: bytes, cmu: bytes) -> OutputStatement:
        """Of 32 bytes each; InputError names the one that consensus refuses, and why."""
        points = (_decoded("cv", cv), _decoded("epk", epk))
        return cls(*points, int.from_bytes(exact_bytes("cmu", cmu, 32), "little"))

    @property
    def public(self) -> list[int]:
        """The five public inputs of the circuit."""
        return [*self.cv, *self.epk, self.cmu]

    def to_bytes(self) -> tuple[bytes, bytes, bytes]:
        """The bytes of cv, epk and cmu."""
        return encoded(self.cv), encoded(self.epk), self.cmu.to_bytes(32, "little")


def _decoded(name: str, data: bytes) -> EdwardsPair:
    try:
        return decode_edwards(JUBJUB, exact_bytes(name, data, 32), check_subgroup=False)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
