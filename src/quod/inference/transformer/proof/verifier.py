"""The verifier of a language model's answers, in NumPy and plain Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from quod.commitment.ligero.verifier import LigeroCommitment
from quod.commitment.scheme import Claim
from quod.errors import InputError
from quod.field.element_bytes import decode
from quod.inference.parts import split_parts
from quod.inference.transformer.proof.context import Sum, require
from quod.inference.transformer.proof.key import SCHEME, Key
from quod.inference.transformer.proof.layout import Layout, LinearClaim
from quod.inference.transformer.proof.lookups import Columns, Run
from quod.inference.transformer.proof.openings import combine_claims
from quod.inference.transformer.proof.protocol import run_protocol
from quod.inference.transformer.proof.soundness import check_soundness
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.proof.vectors import FIELD, Vector, element, elements, plain
from quod.inference.transformer.rounding import Integers
from quod.lookup import verifier as lookups
from quod.security import MIN_BITS
from quod.sumcheck import verifier as sumchecks
from quod.sumcheck.polynomial import SumOfProducts
from quod.transcript.labels import Label
from quod.transcript.messages import ProofReader
from quod.transcript.transcript import Transcript
from quod.validation import shown_kind

_ELEMENT_BYTES = 16


def verify(key: Key, statement: Statement, proof: bytes, *, allow_bits: int = MIN_BITS) -> None:
    """Verify that the model of a key chose the tokens of a statement.

    VerificationError if the proof does not hold. InputError for malformed bytes, with their offset,
    for tokens that the model does not have, and if `error_terms` leave fewer bits than
    `allow_bits`.
    """
    statement.check(key)
    check_soundness(key, statement, allow_bits)
    columns = Columns(key, statement)
    reader = _VerifierParty(key, columns, proof, statement.begin(key))
    run_protocol(reader, key, statement, columns)
    reader.end()


class _VerifierParty:
    """The verifier's side."""

    def __init__(self, key: Key, columns: Columns, proof: object, transcript: Transcript) -> None:
        if type(proof) is not bytes:
            raise InputError(f"a proof must be bytes, not {shown_kind(proof)}")
        self.transcript = transcript
        self._key, self._columns = key, columns
        self._parts = iter([*split_parts(proof)])
        self._commitment: LigeroCommitment | None = None
        self._start = self._end = 0

    @property
    def arrays(self) -> Mapping[str, Integers]:
        raise AssertionError("a verifier has no columns")

    derived = arrays

    def weights(self, name: str) -> Integers:
        raise AssertionError("a verifier has no weights")

    def commit(self) -> None:
        reader = self._reader()
        self._commitment = SCHEME.read(reader, FIELD, self._columns.layout.log2_size, allow_bits=0)
        reader.end()

    def lookup(self, run: Run) -> lookups.Reduced:
        return lookups.verify(run.statement, self._part(), transcript=self.transcript, allow_bits=0)

    def value(self, compute: Callable[[], Vector]) -> Vector:
        reader = self._reader()
        (value,) = reader.elements(Label.VALUES, FIELD, 1)
        reader.end()
        return element(value)

    def sum(
        self, polynomial: SumOfProducts, variables: int, tables: Callable[[], list[Vector]],
        claim: Vector | None = None,
    ) -> Sum:  # fmt: skip
        if claim is None:
            part = self._part()
            if len(part) != _ELEMENT_BYTES:
                self._fail(f"a sum has {len(part)} bytes, not {_ELEMENT_BYTES}")
            claim = element(decode(FIELD, part, offset=self._start)[0])
        statement = sumchecks.Statement(FIELD, polynomial, variables, plain(claim))
        reduced = sumchecks.verify(
            statement, self._part(), transcript=self.transcript, allow_bits=0
        )
        return Sum(claim, reduced.point, elements(reduced.values))

    def open_columns(self, claims: Sequence[LinearClaim]) -> None:
        assert self._commitment is not None
        self._open(self._columns.layout, self._commitment, claims)

    def open_weights(self, name: str, claims: Sequence[LinearClaim]) -> None:
        layout = self._key.weights[name]
        shape = SCHEME.shape(FIELD, layout.log2_size)
        self._open(layout, LigeroCommitment(shape, self._key.roots[name]), claims)

    def _open(
        self, layout: Layout, commitment: LigeroCommitment, claims: Sequence[LinearClaim]
    ) -> None:
        terms, value = combine_claims(self.transcript, claims)
        result = self.sum(SumOfProducts.product(2), layout.log2_size, list, value)
        require(result.values[1], layout.weights_at(terms, result.point), "the weights of claims")
        reader = self._reader()
        commitment.check([Claim(tuple(result.point), plain(result.values[0]))], reader)
        reader.end()

    def end(self) -> None:
        """Raise InputError if bytes follow the last part."""
        if next(self._parts, None) is not None:
            self._fail("bytes follow the last part of the proof")

    def _reader(self) -> ProofReader:
        return ProofReader(self._part(), self.transcript)

    def _part(self) -> bytes:
        part = next(self._parts, None)
        if part is None:
            self._start = self._end
            self._fail("the proof ends before its last part")
        self._start, data = part
        self._end = self._start + len(data)
        return data

    def _fail(self, message: str) -> NoReturn:
        raise InputError(message, offset=self._start)
