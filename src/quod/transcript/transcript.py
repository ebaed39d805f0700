"""The transcript of an interactive proof, from which a hash makes the verifier's challenges.

Fiat and Shamir, "How to prove yourself", 1986. The state is a chain of a hash
(`quod.hash.table`): after a message it is the digest of the state before, a header of four
bytes and the message. The header is the length of the message, three bytes little-endian, and its
label, so that no two different sequences of messages are hashed alike. A challenge is what the
state stands for in a field (`quod.transcript.elements`). `quod.transcript.chain` is the same inside
kernels. A hash over a field takes elements instead of bytes (`quod.hash.algebraic`).
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
        raise InputError(f"a message is bytes, not {shown_kind(message)}")


class Transcript:
    """Absorbs messages and gives challenges; `state` is the digest of all messages so far.

    `is_bound` says whether a commitment or a public input is among them (`check_bound`).
    """

    def __init__(
        self, state: bytes = START, *, drawn: bool = False, bound: bool = False,
        hash: Hash = Hash.SHA3_256, recursive: bool = False,
    ) -> None:  # fmt: skip
        """`drawn` says that a challenge was already drawn from this state, `bound` that its
        messages bind the prover to all tables. A hash over a field needs `recursive`."""
        argument: object = state
        if type(argument) is not bytes or len(argument) != DIGEST_BYTES:
            raise InputError(f"the state of a transcript is {DIGEST_BYTES} bytes")
        self.state, self.hash = state, checked_hash(hash, recursive)
        if hash.field is not None:
            decode(hash.field, state)
        self._drawn, self.is_bound = flag("drawn", drawn), flag("bound", bound)
        if bound and state == START:
            raise InputError("a transcript that has absorbed nothing binds nothing")

    def copy(self) -> Self:
        """Another transcript that goes on from here."""
        return self._from(self.state, drawn=self._drawn)

    def resume(self, state: bytes) -> None:
        """Goes on from a state whose challenge was drawn elsewhere."""
        self.state, self._drawn = self._from(state, drawn=True).state, True

    def _from(self, state: bytes, *, drawn: bool) -> Self:
        recursive = self.hash.is_algebraic
        transcript = type(self)(state, drawn=drawn, hash=self.hash, recursive=recursive)
        transcript.is_bound = self.is_bound
        return transcript

    def begin(self, protocol: str) -> None:
        """Absorb what comes first: the name of a protocol with its version, and of the hash."""
        argument: object = protocol
        if not isinstance(argument, str) or not argument.isascii():
            raise InputError(f"a protocol is named by text in ASCII, not {shown_kind(argument)}")
        self.absorb(Label.PROTOCOL, f"{protocol} {self.hash.value}".encode())

    def absorb(self, label: Label, message: bytes, field: FieldSpec | None = None) -> None:
        """Makes all later challenges depend on a message, of elements of a field if one is given.

        Those are absorbed as their bytes, unless the hash is over their prime field.
        """
        check_label(label)
        _check_bytes(message)
        self.state = self.hash.after(self.state, label, message, field)
        self._drawn = False
        # An empty message, such as that of a range, binds nothing.
        self.is_bound |= label in _BINDING and len(message) > 0

    def check_bound(self) -> None:
        """InputError unless a commitment or a public input was absorbed (labels COMMITMENT and
        PUBLIC_INPUT).

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
        """Bind all later challenges to a table by its digest, as a message COMMITMENT.

        table: elements of `field` in the form of memory (`quod.field.from_integers`). InputError
        for an array of another form, or without elements.
        """
        words = check_words(field, table)
        if not words.size:
            raise InputError("a table has elements; the digest of none binds nothing")
        check_canonical(field.modulus, words.reshape(-1, field.modulus.words))
        rows = np.ascontiguousarray(words).reshape(-1, field.modulus.words)
        elements = [(c,) for c in to_integers(field.modulus, rows)]
        self.absorb_digest(Label.COMMITMENT, field, encode(field.modulus, elements))

    def absorb_digest(
        self, label: Label, field: FieldSpec, data: bytes, *, before: bytes = b""
    ) -> None:
        """Absorb elements of a field, as `encode` has them, by a digest behind some bytes."""
        was_bound = self.is_bound
        self.absorb_digested(label, self.hash.digest_by_runs(data, field), before=before)
        if not data:
            # The digest of nothing, as that of no public inputs, binds nothing.
            self.is_bound = was_bound

    def absorb_digested(self, label: Label, digest: bytes, *, before: bytes = b"") -> None:
        """Absorb elements of which the digest (`Hash.digest_by_runs`) was made elsewhere."""
        check_label(label)
        _check_bytes(before)
        _check_bytes(digest)
        self.absorb(label, self.hash.function.behind(before, digest), self.hash.field)

    def absorb_elements(self, label: Label, field: FieldSpec, elements: Sequence[Plain]) -> None:
        """Absorb elements of a field as one message."""
        self.absorb(label, encode(field, check_elements(field, "the message", elements)), field)

    def challenge(self, field: FieldSpec) -> Plain:
        """An element of a field that all messages so far decide.

        A second one, without a message between, comes after an empty message ``NEXT``.
        """
        challenge_bits(field)
        self.hash.check_challenges(field)
        return challenge_of(field, self.draw())

    def draw(self) -> bytes:
        """The 32 bytes that a challenge is made of."""
        if self.state == START:
            raise InputError("a challenge is made of messages; this transcript has absorbed none")
        if self._drawn:
            self.absorb(Label.NEXT, b"")
        self._drawn = True
        return self.state

    def challenges(self, field: FieldSpec, count: int) -> list[Plain]:
        """Several challenges."""
        count = whole_number("the challenges", count, 0, 1 << 24)
        return [self.challenge(field) for _ in range(count)]
