"""The transcript of an interactive proof: a hash chain that derives the verifier's challenges.

Fiat and Shamir, "How to prove yourself", 1986. The state is 32 bytes. Absorbing a message hashes
(`quod.hash.table`) the state, a header of four bytes and the message. The header is the length of
the message, three bytes little-endian, and its label, so different sequences of messages have
different inputs to the hash. A challenge is derived from the state (`quod.transcript.elements`).
`quod.transcript.chain` is the same inside kernels. A hash over a field takes elements instead of
bytes (`quod.hash.algebraic`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from quod.errors import InputError
from quod.field.array import Words, check_canonical, check_words, to_integers
from quod.field.element_bytes import Plain, check_elements, decode, encode
from quod.field.spec import FieldSpec
from quod.hash.function import DIGEST_BYTES
from quod.hash.table import Hash, checked_hash
from quod.transcript.elements import challenge_bits, challenge_of
from quod.transcript.labels import Label, check_label
from quod.validation import flag, shown_kind, whole_number

START = bytes(DIGEST_BYTES)
"""The state before the first message."""

_BINDING = (Label.COMMITMENT, Label.PUBLIC_INPUT)
"""Labels of messages that bind a prover to tables: commitments, and digests of public values."""


def _check_bytes(message: object) -> None:
    if type(message) is not bytes:
        raise InputError(f"a message must be bytes, not {shown_kind(message)}")


class Transcript:
    """A transcript that absorbs messages and derives challenges.

    `state` depends on all messages so far. `is_bound` says whether a commitment or a public input
    was absorbed (`check_bound`).
    """

    def __init__(
        self, state: bytes = START, *, drawn: bool = False, bound: bool = False,
        hash: Hash = Hash.SHA3_256, recursive: bool = False,
    ) -> None:  # fmt: skip
        """Create a transcript, new or from a state.

        drawn: whether a challenge was already drawn from this state.
        bound: whether the absorbed messages bind the prover to all tables.
        recursive: required by a hash over a field.
        """
        untyped: object = state
        if type(untyped) is not bytes or len(untyped) != DIGEST_BYTES:
            raise InputError(f"the state of a transcript is {DIGEST_BYTES} bytes")
        self.state, self.hash = state, checked_hash(hash, recursive)
        if hash.field is not None:
            decode(hash.field, state)
        self._drawn, self.is_bound = flag("drawn", drawn), flag("bound", bound)
        if bound and state == START:
            raise InputError("a new transcript has absorbed no message, so bound must be False")

    def copy(self) -> Self:
        """Return an independent transcript with the same state."""
        return self._from(self.state, drawn=self._drawn)

    def resume(self, state: bytes) -> None:
        """Continue from a state whose challenge was already drawn elsewhere."""
        self.state, self._drawn = self._from(state, drawn=True).state, True

    def _from(self, state: bytes, *, drawn: bool) -> Self:
        recursive = self.hash.is_algebraic
        transcript = type(self)(state, drawn=drawn, hash=self.hash, recursive=recursive)
        transcript.is_bound = self.is_bound
        return transcript

    def begin(self, protocol: str) -> None:
        """Absorb the first message: a protocol's name and version, and the hash's name."""
        untyped: object = protocol
        if not isinstance(untyped, str) or not untyped.isascii():
            raise InputError(f"a protocol is named by text in ASCII, not {shown_kind(untyped)}")
        self.absorb(Label.PROTOCOL, f"{protocol} {self.hash.value}".encode())

    def absorb(self, label: Label, message: bytes, field: FieldSpec | None = None) -> None:
        """Absorb a message, of elements of `field` if it is given.

        Elements are absorbed as their bytes, unless the hash is over their prime field.
        """
        check_label(label)
        _check_bytes(message)
        self.state = self.hash.absorb(self.state, label, message, field)
        self._drawn = False
        # An empty message, such as that of a range, binds nothing.
        self.is_bound |= label in _BINDING and len(message) > 0

    def check_bound(self) -> None:
        """Raise InputError unless a message COMMITMENT or PUBLIC_INPUT was absorbed.

        A prover that is not bound to its tables can choose them after the challenges. Names of
        protocols and parameters bind nothing. The caller must ensure that *all* tables are bound.
        """
        if not self.is_bound:
            raise InputError(
                "the transcript binds no table, so that a prover could choose the tables after the "
                "challenges; first absorb a commitment to each table (Label.COMMITMENT) or its "
                "digest (Transcript.absorb_table)"
            )

    def absorb_table(self, field: FieldSpec, table: Words) -> None:
        """Absorb the digest of a table, as a message COMMITMENT.

        table: elements of `field` in the stored form (`quod.field.from_integers`). Raises
            InputError for an array of another form or without elements.
        """
        words = check_words(field, table)
        if not words.size:
            raise InputError("a table must have elements; a digest of no elements binds nothing")
        check_canonical(field.modulus, words.reshape(-1, field.modulus.words))
        rows = np.ascontiguousarray(words).reshape(-1, field.modulus.words)
        elements = [(c,) for c in to_integers(field.modulus, rows)]
        self.absorb_digest(Label.COMMITMENT, field, encode(field.modulus, elements))

    def absorb_digest(
        self, label: Label, field: FieldSpec, data: bytes, *, before: bytes = b""
    ) -> None:
        """Absorb the bytes `before`, then the digest of elements encoded by `encode`."""
        was_bound = self.is_bound
        self.absorb_digested(label, self.hash.digest_by_runs(data, field), before=before)
        if not data:
            # The digest of nothing, as that of no public inputs, binds nothing.
            self.is_bound = was_bound

    def absorb_digested(self, label: Label, digest: bytes, *, before: bytes = b"") -> None:
        """Absorb the bytes `before`, then a digest that was computed elsewhere.

        digest: in the form of `Hash.digest_by_runs`.
        """
        check_label(label)
        _check_bytes(before)
        _check_bytes(digest)
        self.absorb(label, self.hash.function.prefixed_digest(before, digest), self.hash.field)

    def absorb_elements(self, label: Label, field: FieldSpec, elements: Sequence[Plain]) -> None:
        """Absorb elements of a field as one message."""
        self.absorb(label, encode(field, check_elements(field, "the message", elements)), field)

    def challenge(self, field: FieldSpec) -> Plain:
        """Derive an element of a field from all messages so far.

        If no message was absorbed since the last challenge, an empty message ``NEXT`` is absorbed
        first.
        """
        challenge_bits(field)
        self.hash.check_challenges(field)
        return challenge_of(field, self.draw())

    def draw(self) -> bytes:
        """Return the 32 bytes from which a challenge is derived; see `challenge` for ``NEXT``."""
        if self.state == START:
            raise InputError("this transcript has absorbed no message to derive a challenge from")
        if self._drawn:
            self.absorb(Label.NEXT, b"")
        self._drawn = True
        return self.state

    def challenges(self, field: FieldSpec, count: int) -> list[Plain]:
        """Draw `count` challenges one after the other."""
        count = whole_number("the challenges", count, 0, 1 << 24)
        return [self.challenge(field) for _ in range(count)]
