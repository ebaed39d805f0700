"""The two sides of the protocol, and what both of them know.

`Party` is the prover, which computes and writes each message, or the verifier, which reads it. Both
draw the same challenges, check the same equations and collect the same linear claims about the
committed columns and weights. The tables of a sumcheck are functions, which only a prover calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from quod.errors import VerificationError
from quod.field.element_bytes import Plain
from quod.frozen import frozen
from quod.inference.transformer.proof.key import Key, column_blocks
from quod.inference.transformer.proof.layout import LinearClaim, Term, evaluate_terms
from quod.inference.transformer.proof.lookups import Columns, Run
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.proof.vectors import FIELD, Vector, subtract
from quod.inference.transformer.rounding import Integers
from quod.lookup.verifier import Reduced as LookupReduced
from quod.sumcheck.polynomial import SumOfProducts
from quod.transcript.transcript import Transcript

Point = Sequence[Plain]


@frozen(eq=False)
class Sum:
    """A sum over the hypercube that a sumcheck has reduced.

    claim: the sum.
    point: the point of the tables' values.
    values: a value per table, (tables, 2), for the caller to check or to claim.
    """

    claim: Vector
    point: Point
    values: Vector


class Party(Protocol):
    """The prover's or the verifier's side; each method sends or reads a message."""

    transcript: Transcript

    @property
    def arrays(self) -> Mapping[str, Integers]:
        """The committed arrays; only for a prover's tables."""

    @property
    def derived(self) -> Mapping[str, Integers]:
        """The arrays that are not committed to; only for a prover's tables."""

    def weights(self, name: str) -> Integers:
        """The weights of a kind of matrix; only for a prover's tables."""

    def commit(self) -> None:
        """Commit to the columns, or read the commitment."""

    def lookup(self, run: Run) -> LookupReduced:
        """Run a lookup argument."""

    def value(self, compute: Callable[[], Vector]) -> Vector:
        """Send or read an element, of shape (2,)."""

    def sum(
        self, polynomial: SumOfProducts, variables: int, tables: Callable[[], list[Vector]],
        claim: Vector | None = None,
    ) -> Sum:  # fmt: skip
        """Run a sumcheck; a claim that the verifier does not know is sent before it."""

    def open_columns(self, claims: Sequence[LinearClaim]) -> None:
        """Prove linear claims about the committed columns."""

    def open_weights(self, name: str, claims: Sequence[LinearClaim]) -> None:
        """Prove linear claims about one of the commitments to weights."""


class Context:
    """One run of the protocol: what both sides know, and the claims so far."""

    def __init__(self, side: Party, key: Key, statement: Statement, columns: Columns) -> None:
        self.side, self.key, self.statement, self.columns = side, key, statement, columns
        self.claims: list[LinearClaim] = []
        self.weight_claims: dict[str, list[LinearClaim]] = {name: [] for name in key.weights}

    def challenge(self, variables: int) -> list[Plain]:
        """Return the coordinates of a random point."""
        return self.side.transcript.challenges(FIELD, variables)

    def claim(self, value: Vector, *terms: Term) -> None:
        """Add a claim about the columns."""
        self.claims.append(LinearClaim(terms, value))

    def claim_weights(self, value: Vector, *terms: Term) -> None:
        """Add a claim about weights; the part of all commitments but the last is sent."""
        by_commitment = {
            name: tuple(term for term in terms if term.array in layout.arrays)
            for name, layout in self.key.weights.items()
        }
        *earlier, last = [name for name, part in by_commitment.items() if part]
        for name in earlier:
            part = by_commitment[name]
            part_value = self.side.value(partial(self._value, part))
            self.weight_claims[name].append(LinearClaim(part, part_value))
            value = subtract(value, part_value)
        self.weight_claims[last].append(LinearClaim(by_commitment[last], value))

    def _value(self, terms: Sequence[Term]) -> Vector:
        """Return the value of terms of weights; only for a prover."""
        blocks = {}
        for term in terms:
            kind, start = term.array.split(".")
            width = term.columns.shape[0] if term.columns is not None else 0
            blocks[term.array] = self.side.weights(kind)[:, int(start) : int(start) + width]
        return evaluate_terms(terms, blocks)

    def matrix_terms(self, name: str, rows: Vector, columns: Vector) -> list[Term]:
        """Return the terms of a kind of matrix, from weights of its rows and of its columns."""
        return [
            Term(f"{name}.{start}", rows, columns[start : start + (1 << log_width)])
            for start, log_width in column_blocks(len(columns))
        ]


def require(value: Vector, expected: Vector, what: str) -> None:
    """Raise VerificationError unless two elements are equal."""
    if not np.array_equal(value, expected):
        raise VerificationError(f"{what} differ from those of the proof")
