"""Sizes, drawn columns and combined claims, which prover and verifier compute in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

from quod.commitment.ligero.code import Code
from quod.commitment.scheme import Claim, check_claims
from quod.errors import InputError
from quod.field.element_bytes import Plain
from quod.field.plain_element import PlainElement
from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.hash.function import DIGEST_BYTES
from quod.hash.table import Hash
from quod.transcript.labels import Label
from quod.transcript.transcript import Transcript

MAX_CLAIMS = 8
"""The largest number of claims in one opening."""

_NUMBER_BYTES = 4


@frozen
class LigeroShape:
    """A matrix of 2**log_rows rows, which are messages of a code.

    The first log_rows bits of a hypercube point are the row's index, the others the column's.
    """

    field: FieldSpec
    log_rows: int
    code: Code
    column_bits: int
    hash: Hash = Hash.SHA3_256

    @property
    def rows(self) -> int:
        """The number of rows of the matrix."""
        return 1 << self.log_rows

    @property
    def log2_size(self) -> int:
        """The number of variables of the polynomial."""
        return self.log_rows + self.code.log_message

    @property
    def opened(self) -> int:
        """The number of columns to open."""
        return self._columns[0]

    @property
    def miss(self) -> Fraction:
        """The probability that no opened column is wrong in a word outside the decoding radius."""
        return self._columns[1]

    @cached_property
    def _columns(self) -> tuple[int, Fraction]:
        """Return the smallest sufficient number of columns, and their probability to miss an error.

        A word that does not decode to the sent message differs from that message's word in more
        columns than the unique decoding radius, half the distance of the code.
        """
        length, code = self.code.length, self.code
        wrong_columns = (length - code.message - 1) // 2 + 1
        count, missing_draws, all_draws = 0, 1, 1
        while missing_draws << self.column_bits > all_draws:
            missing_draws *= length - wrong_columns - count
            all_draws *= length - count
            count += 1
        return count, Fraction(missing_draws, all_draws)

    def draw_columns(self, transcript: Transcript) -> list[int]:
        """Draw the indices of the columns to open, in ascending order."""
        indices: set[int] = set()
        while len(indices) < self.opened:
            digest = transcript.draw()
            for index in range(0, DIGEST_BYTES, _NUMBER_BYTES):
                number = int.from_bytes(digest[index : index + _NUMBER_BYTES], "little")
                # The length is a power of two, so the remainder is uniform.
                if len(indices) < self.opened:
                    indices.add(number % self.code.length)
        return sorted(indices)

    def combine(
        self, transcript: Transcript, claims: Sequence[Claim]
    ) -> tuple[list[Claim], list[PlainElement], PlainElement]:
        """Combine claims by powers of a challenge.

        Returns the claims, the factor of each, and the sum of their values times factors.
        InputError for more than `MAX_CLAIMS`, and for a transcript that binds no table
        (`Transcript.check_bound`).
        """
        transcript.check_bound()
        claim_list = check_claims(self.field, self.log2_size, claims)
        if len(claim_list) > MAX_CLAIMS:
            raise InputError(
                f"{len(claim_list)} claims are too many for one opening; the limit is {MAX_CLAIMS}"
            )
        field = self.field
        for claim in claim_list:
            transcript.absorb_elements(Label.POINT, field, claim.point)
            transcript.absorb_elements(Label.CLAIM, field, [claim.value])
        factors, total = [PlainElement.one(field)], PlainElement(field, claim_list[0].value)
        if len(claim_list) > 1:
            challenge = PlainElement(field, transcript.challenge(field))
            for claim in claim_list[1:]:
                factors.append(factors[-1] * challenge)
                total += factors[-1] * PlainElement(field, claim.value)
        return claim_list, factors, total


def coordinates(elements: Sequence[Plain]) -> list[tuple[int, ...]]:
    """Transpose elements: return all first coefficients, then all second ones, and so on."""
    return list(zip(*elements, strict=True))
