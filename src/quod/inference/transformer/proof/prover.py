"""The prover of a language model's answers, on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from quod.device.discovery import DeviceChoice, resolve_device
from quod.errors import DeviceError, InputError, VerificationError
from quod.field.array import to_integers
from quod.field.element_bytes import encode
from quod.frozen import replace
from quod.inference.parts import join_parts
from quod.inference.transformer.program import Program
from quod.inference.transformer.proof.context import Sum
from quod.inference.transformer.proof.key import key_of, weight_integers
from quod.inference.transformer.proof.layout import LinearClaim
from quod.inference.transformer.proof.lookups import Columns, Run, multiplicities_name
from quod.inference.transformer.proof.openings import CommittedTable, check_memory
from quod.inference.transformer.proof.protocol import run_protocol
from quod.inference.transformer.proof.soundness import check_soundness
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.proof.vectors import (
    FIELD,
    Vector,
    element,
    elements,
    from_integers,
    plain,
    words,
)
from quod.inference.transformer.proof.verifier import verify
from quod.inference.transformer.proof.witness import Witness
from quod.inference.transformer.rounding import Integers
from quod.lookup import prover as lookups
from quod.lookup.statement import Range
from quod.lookup.verifier import Reduced as LookupReduced
from quod.security import MIN_BITS
from quod.sumcheck import prover as sumchecks
from quod.sumcheck.polynomial import SumOfProducts
from quod.transcript.labels import Label
from quod.transcript.messages import ProofWriter
from quod.transcript.transcript import Transcript
from quod.validation import exact_bytes, instance


class Prover:
    """A prover that has committed to a model's weights.

    program: the model's integer program, with its weights.
    model: the SHA-256 of the model's file.
    Raises DeviceError before any work if the device has too little memory.
    """

    def __init__(self, device: DeviceChoice, program: Program, model: bytes) -> None:
        hint = "open one with quod.inference.transformer.transformer.open_program"
        self.program = instance("the program", program, Program, hint)
        self.device, model = resolve_device(device), exact_bytes("the model's digest", model, 32)
        key = key_of(program, model, {})
        check_memory(self.device, "proofs of the model", [*key.weights.values()])
        self.committed, roots = {}, {}
        for name, layout in key.weights.items():
            blocks = {}
            for block, array in layout.arrays.items():
                kind, start = block.split(".")
                first = int(start)
                integers = weight_integers(program, kind)
                blocks[block] = integers[:, first : first + (1 << array.log_width)]
            self.committed[name] = CommittedTable(self.device, layout, blocks)
            writer = ProofWriter(Transcript())
            self.committed[name].commit(writer)
            roots[name] = writer.getvalue()
        self.key = replace(key, roots=roots)

    def prove(self, statement: Statement, *, allow_bits: int = MIN_BITS) -> bytes:
        """Prove a statement; the proof is verified before it is returned.

        InputError for tokens that the model does not choose, and for values that cannot be proved.
        """
        instance("the statement", statement, Statement, "pass Statement(tokens, prompt)")
        statement.check(self.key)
        check_soundness(self.key, statement, allow_bits)
        columns = Columns(self.key, statement)
        layouts = [*self.key.weights.values(), columns.layout]
        check_memory(self.device, f"a proof of {len(statement.tokens)} tokens", layouts)
        witness = Witness(self.key, self.program, statement)
        writer = _ProverParty(self, columns, witness, statement.begin(self.key))
        try:
            run_protocol(writer, self.key, statement, columns)
            proof = writer.proof()
            verify(self.key, statement, proof, allow_bits=allow_bits)
        except VerificationError as error:
            raise lookups.wrong_proof(self.device, error) from None
        return proof


class _ProverParty:
    """The prover's side."""

    def __init__(
        self, prover: Prover, columns: Columns, witness: Witness, transcript: Transcript
    ) -> None:
        self.transcript, self.parts = transcript, list[bytes]()
        self._prover, self._columns = prover, columns
        self._device = prover.device
        self.arrays: dict[str, Integers] = witness.arrays
        self.derived: dict[str, Integers] = witness.sums
        self.weights: Callable[[str], Integers] = cache(
            lambda name: weight_integers(prover.program, name)
        )

    def proof(self) -> bytes:
        """Return all parts, each after its length."""
        return join_parts(self.parts)

    def commit(self) -> None:
        before = {
            "residual.before": np.concatenate([
                np.zeros_like(self.arrays["residual"][: self._prover.key.width]),
                self.arrays["residual"][: -self._prover.key.width],
            ])
        }  # fmt: skip
        self._lookups = {}
        arrays = {**self.arrays, **before}
        for name, lookup in self._columns.runs.items():
            values = [words(from_integers(v)) for v in lookup.values(arrays, self.derived)]
            table = Range(16) if lookup.table is None else [
                words(from_integers(part)) for part in lookup.table
            ]  # fmt: skip
            column = values[0] if len(values) == 1 else values
            try:
                counts = lookups.multiplicities(self._device, FIELD, [column], table)
            except InputError as error:
                raise InputError(f"a value cannot be proved: lookup of {name}: {error}") from None
            self._lookups[name] = column, table, counts
            array = self._columns.layout.arrays[multiplicities_name(name)]
            integers = np.array(to_integers(FIELD.modulus, counts), np.int64)
            self.arrays[array.name] = integers.reshape(array.rows, 1 << array.log_width)
        self._committed = CommittedTable(self._device, self._columns.layout, self.arrays)
        writer = ProofWriter(self.transcript)
        self._committed.commit(writer)
        self.parts.append(writer.getvalue())

    def lookup(self, run: Run) -> LookupReduced:
        column, table, counts = self._lookups[run.name]
        # The whole proof is verified at its end.
        proof = lookups.prove(
            self._device, FIELD, [column], table, counts, transcript=self.transcript,
            allow_bits=0, check=False,
        )  # fmt: skip
        self.parts.append(proof.data)
        return proof.reduced

    def value(self, compute: Callable[[], Vector]) -> Vector:
        value = compute()
        writer = ProofWriter(self.transcript)
        writer.elements(Label.VALUES, FIELD, [plain(value)])
        self.parts.append(writer.getvalue())
        return value

    def sum(
        self, polynomial: SumOfProducts, variables: int, tables: Callable[[], list[Vector]],
        claim: Vector | None = None,
    ) -> Sum:  # fmt: skip
        proof = sumchecks.prove(
            self._device, FIELD, polynomial,
            [words(table) for table in tables()],
            transcript=self.transcript, allow_bits=0,
        )  # fmt: skip
        value = element(proof.statement.claim)
        if claim is None:
            self.parts.append(encode(FIELD, [proof.statement.claim]))
        elif not np.array_equal(claim, value):
            raise DeviceError(f"{self._device.name} computed another sum than is claimed")
        self.parts.append(proof.data)
        return Sum(value, proof.reduced.point, elements(proof.reduced.values))

    def open_columns(self, claims: Sequence[LinearClaim]) -> None:
        self.parts += self._committed.open(self.transcript, claims)

    def open_weights(self, name: str, claims: Sequence[LinearClaim]) -> None:
        self.parts += self._prover.committed[name].open(self.transcript, claims)
