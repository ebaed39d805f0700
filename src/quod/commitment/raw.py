"""No commitment: the table itself, which the verifier evaluates."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from quod.commitment.scheme import (
    Claim,
    check_claims,
    check_reader,
    check_size,
    check_table,
    check_writer,
)
from quod.device.buffer import Buffer
from quod.device.discovery import DeviceChoice, resolve_device
from quod.device.protocol import AnyDevice
from quod.device.written import UNWRITTEN, not_written
from quod.errors import VerificationError
from quod.field.array import Words, canonical, from_montgomery, words_to_integers
from quod.field.plain_extension import add, scaled
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.sumcheck.corners import equalities
from quod.transcript.elements import Plain
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader, ProofWriter


@frozen
class Raw:
    """The table is in the proof, its SHA3-256 in the transcript; claims take no further message."""

    @property
    def name(self) -> str:
        """By which commands know the scheme."""
        return "raw"

    def parameters(self) -> str:
        """The text that a statement absorbs."""
        return "raw"

    def error_terms(self, field: FieldSpec, log2_size: int) -> dict[str, Fraction]:
        """Nothing goes wrong by chance."""
        check_size(field, log2_size)
        return {}

    def committer(self, device: DeviceChoice, field: FieldSpec, log2_size: int) -> RawCommitter:
        """A prover, which takes no memory of the device."""
        return RawCommitter(resolve_device(device), field, check_size(field, log2_size))

    def read(self, reader: ProofReader, field: FieldSpec, log2_size: int) -> RawCommitment:
        """Reads a table; InputError for what is none."""
        log2_size = check_size(field, log2_size)
        check_reader(reader)
        table = reader.digested_words(Label.COMMITMENT, field.modulus, 1 << log2_size)
        return RawCommitment(field, log2_size, table)


class RawCommitter:
    """Sends tables as they are."""

    def __init__(self, device: AnyDevice, field: FieldSpec, log2_size: int) -> None:
        self._device, self._field, self._log2_size = device, field, log2_size

    @cached_property
    def _words(self) -> Words:
        """Room for a table: fresh memory of such a size costs more than what is copied into it."""
        return np.empty((1 << self._log2_size, self._field.modulus.words), np.uint32)

    def commit(self, table: Buffer, writer: ProofWriter) -> None:
        """Sends the table."""
        field = self._field.modulus
        check_table(self._field, self._log2_size, table)
        check_writer(writer)
        words = self._words
        words.fill(UNWRITTEN)
        self._device.download(table, words)
        if not canonical(field, words).all():
            raise not_written(self._device, "a table")
        if field.montgomery_radix != 1:
            words = from_montgomery(self._device, field, words)
        data = words.astype("<u4", copy=False).tobytes()
        writer.digested(Label.COMMITMENT, field, data)

    def open(self, claims: Sequence[Claim], writer: ProofWriter) -> None:
        """Sends nothing."""
        check_claims(self._field, self._log2_size, claims)
        check_writer(writer)


@frozen(eq=False)
class RawCommitment:
    """A table that was read: its integers below p as words, not in Montgomery form."""

    field: FieldSpec
    log2_size: int
    table: Words

    def check(self, claims: Sequence[Claim], reader: ProofReader) -> None:
        """VerificationError for a claim that is false."""
        check_reader(reader)
        entries = words_to_integers(self.field.modulus, self.table)
        for claim in check_claims(self.field, self.log2_size, claims):
            if evaluated(self.field, entries, claim.point) != claim.value:
                raise VerificationError("the committed table has another value at a point")


def evaluated(field: FieldSpec, table: Sequence[int], point: Sequence[Plain]) -> Plain:
    """The value at a point of the multilinear polynomial with a table over the prime field."""
    total: Plain = (0,) * field.degree
    for weight, entry in zip(equalities(field, point), table, strict=True):
        total = add(field, total, scaled(field, weight, entry))
    return total
