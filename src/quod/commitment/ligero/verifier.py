"""The verifier of Ligero's openings, on plain integers."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul

from quod.commitment.ligero.merkle import leaves_of, root, siblings
from quod.commitment.ligero.shape import LigeroShape, coordinates
from quod.commitment.scheme import Claim
from quod.errors import VerificationError
from quod.field.element_bytes import Plain, decode
from quod.field.plain_element import PlainElement, coefficients_of
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.function import DIGEST_BYTES
from quod.sumcheck.eq_reference import equalities, equality
from quod.sumcheck.verifier import read_rounds
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader


@frozen
class LigeroCommitment:
    """A commitment as the verifier reads it: the root of a Merkle tree."""

    shape: LigeroShape
    root: bytes

    def check(self, claims: Sequence[Claim], reader: ProofReader) -> None:
        """Read an opening and verify it.

        Raises VerificationError if it does not prove the claims, and InputError for malformed
        bytes.
        """
        shape, field = self.shape, self.shape.field
        checked_claims, factors, total = shape.combine(reader.transcript, claims)
        last_claim, r = read_rounds(reader, field, degree=2, variables=shape.log_rows, claim=total)
        combination = reader.elements(Label.OPENING, field, shape.code.message)
        expected = PlainElement.zero(field)
        for claim, factor in zip(checked_claims, factors, strict=True):
            upper, lower = claim.point[: shape.log_rows], claim.point[shape.log_rows :]
            weight = factor * equality(field, upper, r)
            expected += weight * value_at(field, combination, lower)
        if expected != last_claim:
            raise VerificationError("the combination of rows does not match the claims")
        column_indices = shape.draw_columns(reader.transcript)
        columns = self._read_columns(reader, column_indices)
        self._check_columns(column_indices, columns, r, combination)

    def _read_columns(self, reader: ProofReader, column_indices: list[int]) -> list[list[int]]:
        """Read the opened columns; raise VerificationError unless the root binds them."""
        shape, modulus = self.shape, self.shape.code.modulus
        size, start = shape.rows * modulus.bytes, reader.offset
        leaves: list[bytes] = []

        def leaf_digests(data: bytes) -> bytes:
            starts = range(0, len(data), size)
            leaves.extend(leaves_of(shape.hash, [data[index : index + size] for index in starts]))
            return b"".join(leaves)

        data = reader.message(Label.OPENING, size * len(column_indices), absorbed=leaf_digests)
        entries = [entry for (entry,) in decode(modulus, data, offset=start)]
        count = len(siblings(shape.code.log_length, column_indices))
        digests = reader.message(Label.OPENING, DIGEST_BYTES * count)
        others = [
            digests[index : index + DIGEST_BYTES] for index in range(0, len(digests), DIGEST_BYTES)
        ]
        if root(shape.hash, shape.code.log_length, column_indices, leaves, others) != self.root:
            raise VerificationError("the opened columns do not match the commitment")
        return [entries[index : index + shape.rows] for index in range(0, len(entries), shape.rows)]

    def _check_columns(
        self,
        column_indices: list[int],
        columns: list[list[int]],
        r: list[Plain],
        combination: list[Plain],
    ) -> None:
        """Check that each column, combined like the rows, equals its element of the word."""
        field, code = self.shape.field, self.shape.code
        weights = coordinates(coefficients_of(equalities(field, r)))
        for weight, coefficient_row in zip(weights, coordinates(combination), strict=True):
            codeword_values = code.values_at(coefficient_row, column_indices)
            for value, column in zip(codeword_values, columns, strict=True):
                if (sum(map(mul, weight, column)) - value) % code.modulus.value:
                    raise VerificationError("an opened column does not match the combination")


def value_at(field: FieldSpec, table: Sequence[Plain], point: Sequence[Plain]) -> PlainElement:
    """Evaluate at a point the multilinear polynomial with the given values on the hypercube."""
    p, indices = field.modulus.value, range(field.degree)
    parts: list[Sequence[int]] = list(coordinates(table))
    units = [
        PlainElement(field, tuple(int(index == unit_index) for index in indices))
        for unit_index in indices
    ]
    for coordinate in PlainElement.from_coefficients(field, point):
        half = len(parts[0]) // 2
        # Multiplication by the coordinate is linear in the coefficients; the products of the
        # coordinate with the basis elements (`units`) are the columns of its matrix.
        images = coordinates(coefficients_of([unit * coordinate for unit in units]))
        slopes = list(zip(*(map(int.__sub__, part[half:], part[:half]) for part in parts)))
        parts = [
            [(low + sum(map(mul, image, slope))) % p for low, slope in zip(part[:half], slopes)]
            for part, image in zip(parts, images, strict=True)
        ]
    return PlainElement(field, tuple(part[0] for part in parts))
