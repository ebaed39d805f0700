"""Openings of linear claims about one commitment: their combination, and the prover's sumcheck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from quod.commitment.claim_reduction import weigh_corners
from quod.commitment.scheme import Claim
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.field.element_bytes import encode
from quod.inference.transformer.proof.key import SCHEME
from quod.inference.transformer.proof.layout import Layout, LinearClaim, Term
from quod.inference.transformer.proof.vectors import (
    FIELD,
    Vector,
    add,
    element,
    from_integers,
    log2_ceil,
    multiply,
    outer,
    padded,
    plain,
    powers,
    words,
)
from quod.inference.transformer.rounding import Integers
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.run import SumcheckRun
from quod.sumcheck.shape import Shape
from quod.sumcheck.verifier import Reduced, Statement, verify
from quod.transcript.labels import Label
from quod.transcript.messages import ProofWriter
from quod.transcript.transcript import Transcript


def combine_claims(
    transcript: Transcript, claims: Sequence[LinearClaim]
) -> tuple[list[Term], Vector]:
    """Absorb the values of claims, and return the terms and the value of their combination."""
    transcript.absorb_elements(Label.CLAIM, FIELD, [plain(claim.value) for claim in claims])
    factors = powers(transcript.challenge(FIELD), len(claims))
    terms, value = [], element(0)
    for factor, claim in zip(factors, claims, strict=True):
        value = add(value, multiply(factor, claim.value))
        terms += [
            Term(term.array, multiply(term.rows, factor), term.columns) for term in claim.terms
        ]
    return terms, value


_COMMITTED_BYTES = 40
"""Bytes of device memory for each entry of a committed table: the table, and its words."""
_OPENED_BYTES = 40
"""Bytes for each entry while a table is opened: a copy, the weights, and the folded tables."""


def check_memory(device: AnyDevice, what: str, layouts: Sequence[Layout]) -> None:
    """Raise DeviceError if commitments of these layouts do not fit a device's memory."""
    sizes = [1 << layout.log2_size for layout in layouts]
    device.check_budget(what, _COMMITTED_BYTES * sum(sizes) + _OPENED_BYTES * max(sizes))


class CommittedTable:
    """CommittedTable arrays on a device, and openings of linear claims about them."""

    def __init__(self, device: AnyDevice, layout: Layout, values: Mapping[str, Integers]) -> None:
        self._device, self._layout = device, layout
        self._committer = SCHEME.committer(device, FIELD, layout.log2_size, allow_bits=0)
        self._table = device.upload(words(from_integers(layout.pack(values))))

    def commit(self, writer: ProofWriter) -> None:
        """Send the commitment."""
        self._committer.commit(self._table, writer)

    def open(self, transcript: Transcript, claims: Sequence[LinearClaim]) -> list[bytes]:
        """Prove claims; return the messages of the sumcheck, and those of the opening."""
        terms, value = combine_claims(transcript, claims)
        reduced, messages = self._sumcheck(transcript, terms, value)
        writer = ProofWriter(transcript)
        self._committer.open([Claim(reduced.point, reduced.values[0])], writer)
        return [messages, writer.getvalue()]

    def _sumcheck(
        self, transcript: Transcript, terms: Sequence[Term], value: Vector
    ) -> tuple[Reduced, bytes]:
        product, variables = SumOfProducts.product(2), self._layout.log2_size
        shape = Shape(FIELD, product, in_base=1, has_point=False, hash=transcript.hash)
        run = SumcheckRun(self._device, shape, variables)
        run.set_table(0, self._table)
        self._write_weights(terms, run.table(1))
        statement = Statement(FIELD, product, variables, plain(value))
        # The device continues a copy; `verify` absorbs the messages into the transcript itself.
        absorbed = transcript.copy()
        statement.absorb(absorbed)
        rounds = run.prove(plain(value), absorbed.state, timeline=None)
        messages = rounds.messages + encode(FIELD, rounds.values)
        return verify(statement, messages, transcript=transcript, allow_bits=0), messages

    def _write_weights(self, terms: Sequence[Term], target: Buffer) -> None:
        """Write the weights of all entries to a table of 2**log2_size elements."""
        device, element_bytes = self._device, 4 * FIELD.words
        recording = device.stream("weights").record()
        recording.fill(target, 0)
        recording.finish().run()
        recording = device.stream("weights").record()
        kernel = device.compile(weigh_corners, field=FIELD)
        for name, array in self._layout.arrays.items():
            array_terms = [term for term in terms if term.array == name]
            if not array_terms:
                continue
            start, size = self._layout.starts[name], array.rows << array.log_width
            entries = target.slice(start * element_bytes, (start + size) * element_bytes)
            if any(term.columns is None for term in array_terms):
                device.upload(words(_weights_of(array_terms)), into=entries)
                continue
            log_rows = log2_ceil(array.rows)
            highs = np.concatenate([padded(term.rows, log_rows) for term in array_terms])
            lows = np.concatenate(
                [term.columns for term in array_terms if term.columns is not None]
            )
            recording.launch(
                kernel, -(-size // kernel.lanes), size, array.log_width, log_rows, len(array_terms),
                device.upload(words(lows)), device.upload(words(highs)), entries, label="weights",
            )  # fmt: skip
        recording.finish().run()


def _weights_of(terms: Sequence[Term]) -> Vector:
    """Return the sum of the weights of an array's terms, of shape (entries, 2)."""
    weights = np.zeros((1, 1, 2), np.uint64)
    for term in terms:
        matrix = term.rows if term.columns is None else outer(term.rows, term.columns)
        weights = add(weights, matrix)
    return weights.reshape(-1, 2)
