"""HyperKZG's prover: commitments to the table and its folds by MSMs, and one quotient."""

from __future__ import annotations

from collections.abc import Sequence

from quod.commitment.polynomial_kernels import add_multiple, fold_pairs, record_quotient
from quod.commitment.reference_string import ReferenceString
from quod.commitment.rows import downloaded, weighted_rows
from quod.commitment.scalars import GROUP, GroupCommitter, committed
from quod.commitment.scheme import Claim
from quod.commitment.three_points import drawn_point
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import from_integers
from quod.field.moduli import Modulus
from quod.transcript.labels import Label
from quod.transcript.messages import ProofWriter

_TABLES = 5
"""The memory of an opening, in tables: folds, their combination, two quotients and scalars."""

_LOG_SMALL = 8
"""log2 of the length of the longest fold that is committed to in one batch with shorter folds."""


class HyperKzgCommitter(GroupCommitter):
    """A prover of HyperKZG for tables of one size, with the powers of a reference string."""

    def __init__(self, device: AnyDevice, log2_size: int, reference: ReferenceString) -> None:
        count = 1 << log2_size
        if count > len(reference):
            raise InputError(
                f"the reference string has {len(reference)} powers, too few for "
                f"2**{log2_size} coefficients; read more powers or use a larger file"
            )
        super().__init__(device, log2_size, reference.powers_g1[:count], rows=1)

    def open(self, claims: Sequence[Claim], writer: ProofWriter) -> None:
        """Send commitments to the folds and the quotient, and the folds' values at three points."""
        claim, table = self.reduce_claims(claims, writer)
        field, p = self._field, self._field.value
        self._device.check_budget("an opening", _TABLES * table.nbytes)
        folds = _Folds(self._device, field, table, self._log2_size)
        folds.fill([x for (x,) in reversed(claim.point)])
        points = [committed(self._bases, fold)[0] for fold in folds.large[1:]]
        if folds.small is not None:
            points += committed(self._bases, folds.small, folds.rows)
        writer.points(Label.OPENING, GROUP, points)
        r = drawn_point(writer.transcript, field)
        values: list[int] = []
        for fold in folds.large:
            values += self._values(fold, r)
        for row in folds.small_rows():
            values += _values_at_r_and_minus_r(p, r, row)
        values.append(self._values(table, r * r % p)[0])
        writer.elements(Label.VALUES, field, [(value,) for value in values])
        (q,) = writer.transcript.challenge(field)
        writer.points(
            Label.OPENING, GROUP, committed(self._bases, self._quotient(folds.every, q, r))
        )

    def _values(self, coefficients: Buffer, r: int) -> tuple[int, int]:
        """Return the values at r and -r of a polynomial of 2**n coefficients, n at least 1."""
        field, p = self._field, self._field.value
        variables = (coefficients.nbytes // field.bytes).bit_length() - 1
        log_columns = (variables + 1) // 2
        step = pow(r, 1 << log_columns, p)
        weights = _powers(p, step, 1 << (variables - log_columns))
        # Rows have an even length, so the weights of rows are the same at -r as at r.
        row = weighted_rows(
            self._device, field, coefficients, [(weight,) for weight in weights], log_columns
        )
        return _values_at_r_and_minus_r(p, r, [e for (e,) in row])

    def _quotient(self, folds: Sequence[Buffer], q: int, r: int) -> Buffer:
        """Divide the sum of q**i * folds[i] by (X^2 - r^2) * (X - r^2); return the quotient."""
        device, field, p = self._device, self._field, self._field.value
        total = device.allocate(folds[0].nbytes, zero=False)
        factors = device.upload(from_integers(field, _powers(p, q, len(folds))))
        recording = device.stream("quotient").record()
        recording.copy(folds[0], total)
        kernel = device.compile(add_multiple, field=field)
        for number, fold in enumerate(folds[1:], start=1):
            count = fold.nbytes // field.bytes
            recording.launch(
                kernel, -(-count // kernel.lanes), count, factors, number, fold, total,
                label="quotient",
            )  # fmt: skip
        r_squared = r * r % p
        count = folds[0].nbytes // field.bytes
        for stride in (2, 1):
            total, count = record_quotient(
                recording, device, field, total, count, stride, r_squared
            )
        recording.finish().run()
        return total


class _Folds:
    """The table and its folds of two entries and more, on a device.

    Each fold of `large` has its own buffer. The other folds are `rows` rows of `small`, padded with
    zeros, so that one batch commits to all of them and the host reads them.
    """

    def __init__(
        self, device: AnyDevice, field: Modulus, table: Buffer, log2_size: int
    ) -> None:  # fmt: skip
        self._device, self._field = device, field
        self._log_row = min(_LOG_SMALL, log2_size - 1)
        # The small folds have 2**log_row, ..., 4, 2 entries: log_row rows.
        self.rows, size = self._log_row, field.bytes
        self.large = [table]
        for log_count in range(log2_size - 1, self._log_row, -1):
            self.large.append(device.allocate(size << log_count))
        row_bytes = size << self._log_row
        self.small = device.allocate(self.rows * row_bytes) if self.rows else None
        self.every = [*self.large]
        for fold_index in range(self.rows):
            assert self.small is not None
            start = fold_index * row_bytes
            self.every.append(self.small.slice(start, start + (row_bytes >> fold_index)))

    def fill(self, point: Sequence[int]) -> None:
        """Compute all folds; `point` has the coordinates of the last variable first."""
        device, field = self._device, self._field
        recording = device.stream("folds").record()
        kernel = device.compile(fold_pairs, field=field)
        for source, target, x in zip(self.every, self.every[1:], point):
            count = target.nbytes // field.bytes
            recording.launch(
                kernel, -(-count // kernel.lanes), count, device.upload(from_integers(field, [x])),
                source, target, label="folds",
            )  # fmt: skip
        recording.finish().run()

    def small_rows(self) -> list[list[int]]:
        """Return the entries of the small folds."""
        if self.small is None:
            return []
        size = 1 << self._log_row
        elements = downloaded(self._device, self._field, self.small, self.rows * size, "folds")
        entries = [entry for (entry,) in elements]
        return [entries[index * size :][: size >> index] for index in range(self.rows)]


def _values_at_r_and_minus_r(p: int, r: int, coefficients: Sequence[int]) -> tuple[int, int]:
    """Return the values at r and -r."""
    powers = _powers(p, r, len(coefficients))
    terms = [power * entry for power, entry in zip(powers, coefficients, strict=True)]
    even, odd = sum(terms[::2]), sum(terms[1::2])
    return (even + odd) % p, (even - odd) % p


def _powers(p: int, base: int, count: int) -> list[int]:
    powers = [1]
    for _ in range(count - 1):
        powers.append(powers[-1] * base % p)
    return powers
