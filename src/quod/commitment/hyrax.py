"""Hyrax: a commitment without set-up, whose size is the square root of the table's size.

Wahby, Tzialla, shelat, Thaler and Walfish, "Doubly-efficient zkSNARKs without trusted setup", IEEE
S&P 2018, section 6.1, without hiding. The table is a matrix, and the commitment is a Pedersen
commitment to each row. The polynomial's value at a point is a weighted sum of entries; each weight
is a row's factor times a column's factor. The prover sends the weighted sum of rows. The
verifier compares its commitment with the weighted sum of the rows' commitments, and computes the
weighted sum over its columns. A prover that can send another row knows a relation between the
bases.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from quod.commitment.claim_reduction import verify_reduction
from quod.commitment.hyrax_bases import GROUP, hashed_bases
from quod.commitment.rows import weighted_rows
from quod.commitment.scalars import (
    GroupCommitter,
    checked_log2_size,
    combined_errors,
    sum_of_multiples,
)
from quod.commitment.scheme import Claim, check_scheme_bits
from quod.curve.array import Point, from_points
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.errors import VerificationError
from quod.field.plain_element import PlainElement, coefficients_of
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.security import MIN_BITS
from quod.sumcheck.eq_reference import equalities
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader, ProofWriter


def log_rows(log2_size: int) -> int:
    """Return log2 of the number of rows: the first variables, which index rows."""
    return log2_size // 2


@frozen
class Hyrax:
    """Hyrax in BN254. **Not hiding.**

    A commitment has a point of G1 per row, an opening an element of Fr per column. Tables are over
    BN254's scalars. The bases are hashed to the curve (`quod.commitment.hyrax_bases`), and bases
    are cached by size. The scheme is binding if discrete logarithms in G1 are hard.
    """

    name = "hyrax"

    def parameters(self) -> str:
        """Return the text that a statement absorbs."""
        return "hyrax bn254.g1"

    def error_terms(self, field: FieldSpec, log2_size: int) -> dict[str, Fraction]:
        """Return the probability that reducing several claims to one accepts a false claim."""
        return combined_errors(field, checked_log2_size(field, log2_size))

    def committer(
        self, device: DeviceChoice, field: FieldSpec, log2_size: int, *,
        allow_bits: int = MIN_BITS,
    ) -> HyraxCommitter:  # fmt: skip
        """Upload the bases to a device, and return a prover."""
        check_scheme_bits(self, field, log2_size, allow_bits)
        return HyraxCommitter(resolve_device(device), checked_log2_size(field, log2_size))

    def read(
        self, reader: ProofReader, field: FieldSpec, log2_size: int, *,
        allow_bits: int = MIN_BITS,
    ) -> HyraxCommitment:  # fmt: skip
        """Read the commitments to all rows; raise InputError for malformed bytes."""
        check_scheme_bits(self, field, log2_size, allow_bits)
        log2_size = checked_log2_size(field, log2_size)
        rows = reader.points(Label.COMMITMENT, GROUP, 1 << log_rows(log2_size))
        return HyraxCommitment(field, log2_size, tuple(rows))


class HyraxCommitter(GroupCommitter):
    """A prover that commits to rows by MSMs over the same bases."""

    def __init__(self, device: AnyDevice, log2_size: int) -> None:
        row_variables = log_rows(log2_size)
        self._log_columns = log2_size - row_variables
        super().__init__(device, log2_size, hashed_bases(self._log_columns), 1 << row_variables)

    def open(self, claims: Sequence[Claim], writer: ProofWriter) -> None:
        """Send the weighted sum of all rows."""
        claim, table = self.reduce_claims(claims, writer)
        weights = equalities(self._field, claim.point[: log_rows(self._log2_size)])
        row = weighted_rows(
            self._device, self._field, table, coefficients_of(weights), self._log_columns
        )
        writer.elements(Label.OPENING, self._field, row)


@frozen
class HyraxCommitment:
    """The commitments to all rows; None for a row of zeros."""

    field: FieldSpec
    log2_size: int
    rows: tuple[Point, ...]

    def check(self, claims: Sequence[Claim], reader: ProofReader) -> None:
        """Verify an opening, with one inner product and one MSM; see `Commitment.check`."""
        field, log_columns = self.field, self.log2_size - log_rows(self.log2_size)
        claim = verify_reduction(field, self.log2_size, claims, reader)
        row = reader.elements(Label.OPENING, field, 1 << log_columns)
        row_variables = len(claim.point) - log_columns
        total = PlainElement.zero(field)
        weights = equalities(field, claim.point[row_variables:])
        for entry, weight in zip(PlainElement.from_coefficients(field, row), weights, strict=True):
            total += entry * weight
        if total.coefficients != claim.value:
            raise VerificationError("the sum of the table's rows has a different value at a point")
        points = np.concatenate([hashed_bases(log_columns), from_points(GROUP, self.rows)])
        factors = [-w for (w,) in coefficients_of(equalities(field, claim.point[:row_variables]))]
        if sum_of_multiples(GROUP, points, [*(e for (e,) in row), *factors]) is not None:
            raise VerificationError("the sum of the table's rows does not match the commitment")
