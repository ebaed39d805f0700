"""The raw scheme: the proof contains the table, and the verifier evaluates it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from quod.commitment.raw_prover import RawCommitter
from quod.commitment.scheme import (
    Claim,
    check_claims,
    check_scheme_bits,
    check_size,
)
from quod.device.discovery import DeviceChoice, resolve_device
from quod.errors import VerificationError
from quod.field.array import Words, words_to_integers
from quod.field.element_bytes import Plain
from quod.field.plain_element import PlainElement
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.security import MIN_BITS
from quod.sumcheck.eq_reference import equalities
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader


@frozen
class Raw:
    """The raw scheme: the proof contains the table, the transcript absorbs its digest.

    An opening has no messages.
    """

    @property
    def name(self) -> str:
        """The scheme's name on the command line."""
        return "raw"

    def parameters(self) -> str:
        """Return the parameters as the text that a statement absorbs."""
        return "raw"

    def error_terms(self, field: FieldSpec, log2_size: int) -> dict[str, Fraction]:
        """Return no terms: a false claim is never accepted."""
        check_size(log2_size)
        return {}

    def committer(
        self, device: DeviceChoice, field: FieldSpec, log2_size: int, *,
        allow_bits: int = MIN_BITS,
    ) -> RawCommitter:  # fmt: skip
        """Return a prover, with memory for canonical elements if memory has another form."""
        check_scheme_bits(self, field, log2_size, allow_bits)
        return RawCommitter(resolve_device(device), field, check_size(log2_size))

    def read(
        self, reader: ProofReader, field: FieldSpec, log2_size: int, *,
        allow_bits: int = MIN_BITS,
    ) -> RawCommitment:  # fmt: skip
        """Read a table; raises InputError for malformed bytes."""
        check_scheme_bits(self, field, log2_size, allow_bits)
        log2_size = check_size(log2_size)
        table = reader.digested_words(Label.COMMITMENT, field.modulus, 1 << log2_size)
        return RawCommitment(field, log2_size, table)


@frozen(eq=False)
class RawCommitment:
    """A table as the verifier reads it: integers below p as words, not in Montgomery form."""

    field: FieldSpec
    log2_size: int
    table: Words

    def check(self, claims: Sequence[Claim], reader: ProofReader) -> None:
        """Evaluate the table; raise VerificationError for a false claim."""
        entries = words_to_integers(self.field.modulus, self.table)
        for claim in check_claims(self.field, self.log2_size, claims):
            if evaluated(self.field, entries, claim.point).coefficients != claim.value:
                raise VerificationError("the committed table has a different value at a point")


def evaluated(field: FieldSpec, table: Sequence[int], point: Sequence[Plain]) -> PlainElement:
    """Evaluate at a point the multilinear polynomial of a table over the prime field."""
    total = PlainElement.zero(field)
    for weight, entry in zip(equalities(field, point), table, strict=True):
        total += weight * entry
    return total
