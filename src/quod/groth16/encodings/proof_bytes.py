"""Proofs as the concatenated bytes of their points, in the encodings of several programs."""

from __future__ import annotations

from typing import Any

from quod.curve.array import Point
from quod.curve.encoding import points as encoding
from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.parameters import PairingCurve
from quod.errors import InputError
from quod.frozen import frozen
from quod.groth16.proof import Proof
from quod.validation import flag, plain_bytes

DAMAGED = "the proof is damaged or forged"


@frozen
class PointForm:
    """The point encoding of a program for one curve.

    It is the Zcash encoding over BLS12-381, and the encoding of arkworks over other curves.

    program: the program's name in error messages.
    curve: the pairing curve.
    """

    program: str
    curve: PairingCurve

    def size(self, degree: int, *, compressed: bool = True) -> int:
        """Return the bytes of a point of G1 (`degree` 1) or G2 (2)."""
        # Flags need no additional byte: 48 bytes have room for three beside 381 bits, and the
        # coordinates of other curves leave room for two.
        return self.curve.fq.bytes * degree * (1 if compressed else 2)

    def encode(self, degree: int, point: Point, *, compressed: bool) -> bytes:
        """Encode a point."""
        if self.curve is BLS12_381:
            zcash = encoding.encode_zcash_g1 if degree == 1 else encoding.encode_zcash_g2
            return zcash(point, compressed=compressed)
        arkworks = encoding.encode_arkworks_g1 if degree == 1 else encoding.encode_arkworks_g2
        return arkworks(self.curve, point, compressed=compressed)

    def decode(
        self, degree: int, data: bytes, *, compressed: bool, check_subgroup: bool = True
    ) -> Point:
        """Decode a point; raises InputError as the decoders of `quod.curve.encoding.points` do."""
        options: dict[str, Any] = {"compressed": compressed, "check_subgroup": check_subgroup}
        if self.curve is BLS12_381:
            zcash = encoding.decode_zcash_g1 if degree == 1 else encoding.decode_zcash_g2
            return zcash(data, **options)
        arkworks = encoding.decode_arkworks_g1 if degree == 1 else encoding.decode_arkworks_g2
        return arkworks(self.curve, data, **options)

    @property
    def proof_bytes(self) -> int:
        """The bytes of a compressed proof; an uncompressed proof has twice as many."""
        return sum(end - start for _, _, start, end in self.parts())

    def parts(self, scale: int = 1) -> list[tuple[str, int, int, int]]:
        """Return the name, degree and byte range (start, end) of each point of a proof.

        scale: 1 for a compressed proof, 2 for an uncompressed proof.
        """
        ranges, start = [], 0
        for name, degree in (("pi_a", 1), ("pi_b", 2), ("pi_c", 1)):
            end = start + scale * self.size(degree)
            ranges.append((name, degree, start, end))
            start = end
        return ranges


def encode_proof(form: PointForm, proof: Proof, *, compressed: bool) -> bytes:
    """Encode a proof; raise InputError for another curve, and for infinity in a proof."""
    if proof.curve != form.curve.name:
        raise InputError(f"proofs of {form.program} are over {form.curve.name}, not {proof.curve}")
    points = {"pi_a": proof.a, "pi_b": proof.b, "pi_c": proof.c}
    for name, point in points.items():
        if point is None:
            raise InputError(f"{name} is the point at infinity; no honest proof has it")
    return b"".join(
        form.encode(degree, points[name], compressed=compressed)
        for name, degree, _, _ in form.parts()
    )


def decode_proof(form: PointForm, data: object, *, check_subgroup: bool, name: str | None) -> Proof:
    """Decode a proof, whose length determines whether it is compressed.

    name: the source of the data, for error messages. Raises InputError for a malformed proof.
    """
    data, size = checked_bytes(form, data), form.proof_bytes
    check_subgroup = flag("check_subgroup", check_subgroup)
    if len(data) not in (size, 2 * size):
        raise InputError(
            f"a proof of {form.program} has {size} bytes, or {2 * size} uncompressed, not "
            f"{len(data)}; check that the right file was given",
            path=name,
            # The first byte that is missing or superfluous.
            offset=min(
                len(data),
                size if len(data) < 2 * size else 2 * size,
            ),
        )
    scale = len(data) // size
    points = []
    for part, degree, start, end in form.parts(scale):
        try:
            point = form.decode(
                degree, data[start:end], compressed=scale == 1, check_subgroup=check_subgroup
            )
            points.append(finite(point))
        except InputError as error:
            raise located(error, name, part, start) from None
    return Proof(form.curve.name, *points)


def checked_bytes(form: PointForm, data: object) -> bytes:
    """Return a proof as bytes; raise InputError for a value that is not bytes-like."""
    return plain_bytes(f"a proof of {form.program}", data)


def finite(point: Any) -> Any:
    """Return the point; raise InputError for infinity."""
    if point is None:
        raise InputError("it is the point at infinity; no honest proof has it")
    return point


def located(error: InputError, name: str | None, part: str, offset: int) -> InputError:
    """Return an error of a point, extended by its name and offset; `name` is the file's."""
    return InputError(f"{error}; {DAMAGED}", path=name, section=part, offset=offset)
