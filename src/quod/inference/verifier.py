"""The verifier of inferences, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from quod.commitment.ligero.shape import MAX_CLAIMS
from quod.commitment.scheme import Claim, Commitment
from quod.errors import InputError
from quod.field.element_bytes import Plain
from quod.inference.parts import split_parts
from quod.inference.protocol import Point, ProtocolRun
from quod.inference.statement import SCHEME, VerifyingKey, begin, check_public, moved
from quod.lookup import verifier as lookups
from quod.lookup.statement import Statement as Lookup
from quod.security import MIN_BITS
from quod.sumcheck import verifier as sumchecks
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader
from quod.transcript.transcript import Transcript
from quod.validation import shown_kind


def verify(
    key: VerifyingKey, images: object, logits: object, proof: bytes, *,
    allow_bits: int = MIN_BITS,
) -> None:  # fmt: skip
    """Verify that logits are those of the images under the key's committed weights.

    images: integers in 0 to 127, a row per image.
    logits: a row per image.
    VerificationError if the proof does not hold. InputError for other arguments, for malformed
    bytes, with their offset, and if `error_terms` leave fewer bits than `allow_bits`. A key is
    checked at its first use (`VerifyingKey.check_weights`).
    """
    values, sums = check_public(key, images, logits)
    key.check_bits(len(values), allow_bits)
    key.check_weights(allow_bits=allow_bits)
    transcript = begin(key, values, sums)
    reader = _Reader(key, proof, transcript, len(values))
    try:
        ProtocolRun(reader, key, values, sums).run()
        reader.end()
    except InputError as error:
        raise moved(error, offset=reader.start) from None


class _Reader:
    """The verifier's side; `verify` has already checked the security bits of the whole proof."""

    def __init__(
        self, key: VerifyingKey, proof: object, transcript: Transcript, images: int
    ) -> None:
        if type(proof) is not bytes:
            raise InputError(f"a proof must be bytes, not {shown_kind(proof)}")
        self.transcript = transcript
        # Split the whole proof first, so that errors about lengths have their offset in the proof.
        self._key, self._parts = key, iter([*split_parts(proof)])
        layout = key.layout(images)
        self._log_table = layout.log_block + layout.log_blocks
        self._commitment: Commitment | None = None
        self.start = 0
        """The offset in the proof of the part that was read last."""
        self._end = 0

    def end(self) -> None:
        """Raise InputError if bytes follow the last part."""
        if next(self._parts, None) is not None:
            self._fail("there is more behind the last part of the proof")

    def commit(self) -> None:
        reader = self._reader()
        self._commitment = SCHEME.read(reader, self._key.field, self._log_table, allow_bits=0)
        reader.end()

    def lookup(self, statement: Lookup) -> lookups.Reduced:
        return lookups.verify(statement, self._part(), transcript=self.transcript, allow_bits=0)

    def values(self, point: Point, count: int) -> list[Plain]:
        reader = self._reader()
        values = reader.elements(Label.VALUES, self._key.field, count)
        reader.end()
        return values

    def inner(
        self, statement: sumchecks.Statement, layer: int, rows: Point, images: Point
    ) -> sumchecks.Reduced:
        return sumchecks.verify(statement, self._part(), transcript=self.transcript, allow_bits=0)

    def row(self, statement: sumchecks.Statement, layer: int, columns: Point) -> sumchecks.Reduced:
        return sumchecks.verify(statement, self._part(), transcript=self.transcript, allow_bits=0)

    def open_columns(self, claims: Sequence[Claim]) -> None:
        assert self._commitment is not None
        self._check(self._commitment, claims)

    def open_weights(self, claims: Sequence[Claim]) -> None:
        self._check(self._key.weights, claims)

    def _check(self, commitment: Commitment, claims: Sequence[Claim]) -> None:
        for opening_claims in claims_by_opening(claims):
            reader = self._reader()
            commitment.check(opening_claims, reader)
            reader.end()

    def _part(self) -> bytes:
        entry = next(self._parts, None)
        if entry is None:
            self._fail("the proof ends before its last part")
        self.start, part = entry
        self._end = self.start + len(part)
        return part

    def _fail(self, message: str) -> NoReturn:
        """Raise InputError at the end of the last part; the offset counts from its start."""
        raise InputError(message, offset=self._end - self.start)

    def _reader(self) -> ProofReader:
        return ProofReader(self._part(), self.transcript)


def claims_by_opening(claims: Sequence[Claim]) -> Iterator[Sequence[Claim]]:
    """Yield the claims of each opening."""
    for start in range(0, len(claims), MAX_CLAIMS):
        yield claims[start : start + MAX_CLAIMS]
