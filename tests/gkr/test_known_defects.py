"""Defects found in other provers and verifiers, each with tests that Quod does not have it.

`ROWS` says which are whose; tests of other files are named there as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np
import pytest

from quod.device.discovery import open_device
from quod.errors import DeviceError, InputError, MismatchError, VerificationError
from quod.field import EXTENSIONS, NAMED, FieldSpec
from quod.field.element_bytes import Plain, encode
from quod.gkr import Prover, Reduction, VerifyingKey, error_terms, verify
from quod.layered import CircuitBuilder, LayeredCircuit, Public, Random
from quod.layered.circuit import Gates, Layer
from quod.transcript import Label, Transcript
from tests.formats import test_circuit6 as circuit6_files
from tests.gkr import test_files as files
from tests.gkr import test_gkr as agreement
from tests.gkr import test_invalid as invalid
from tests.gkr import test_soundness as soundness
from tests.gkr import test_toy_fields as toy_fields
from tests.layered import test_circuit6 as circuit6
from tests.layered.gadgets import test_poseidon as poseidon
from tests.lookup import test_lookup as lookup
from tests.reference import gkr as reference
from tests.sumcheck import test_prover as sumcheck
from tests.support.thorough import one_and_others

FIELD = EXTENSIONS["m31.4"]


def circuit_of(*, layers: int = 2) -> LayeredCircuit:
    """Layers of products and a random coefficient; input 3 is in no gate."""
    builder = CircuitBuilder(NAMED["m31"], 2, public=2)
    first = builder.layer(1)
    first.multiply(0, 0, 1)
    first.add(1, 2, Random(0))
    for _ in range(layers - 2):
        middle = builder.layer(1)
        middle.add(0, 0)
        middle.power(1, 1, 2)
    last = builder.layer(1)
    last.multiply(0, 0, 1)
    last.constant(1, Public(0))
    last.add(1, 1, Public(1))
    return builder.finished()


INPUTS, PUBLIC = [0, 7, 11, 5], [0, 0]
CIRCUIT = circuit_of()


class Case:
    """A proof of an instance, or by columns of two: with one there are no rounds."""

    def __init__(self, reduction: Reduction, *, recursive: bool = False) -> None:
        self.reduction = reduction
        self.key = VerifyingKey.of(CIRCUIT, FIELD, reduction=reduction, recursive=recursive)
        self.inputs = [INPUTS]
        if reduction is Reduction.DATA_PARALLEL:
            self.inputs.append([9, 0, 3, 1])
        self.public = [PUBLIC] * len(self.inputs)
        self.proof = reference.prove(self.key, CIRCUIT, self.inputs, self.public)

    @property
    def input_bytes(self) -> int:
        return sum(4 * len(row) for row in self.inputs)


CASES = {reduction: Case(reduction) for reduction in Reduction}
RECURSIVE = Case(Reduction.TWO_PHASE, recursive=True)
KEY, PROOF = CASES[Reduction.TWO_PHASE].key, CASES[Reduction.TWO_PHASE].proof


@pytest.fixture(params=Reduction)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


STATEMENT = [
    Label.PROTOCOL, Label.FIELD, Label.PARAMETERS, Label.CIRCUIT, Label.INSTANCES,
    Label.PUBLIC_INPUT, Label.COMMITMENT,
]  # fmt: skip


class Traced(Transcript):
    """Notes what a verifier absorbs and draws, and may absorb another byte in one place."""

    trace: list[tuple[Any, bytes | Plain]]
    changed: tuple[int, int] | None

    def absorb(self, label: Label, message: bytes, field: FieldSpec | None = None) -> None:
        place, byte = type(self).changed or (-1, 0)
        if len(self.trace) == place:
            message = message[:byte] + bytes([message[byte] ^ 1]) + message[byte + 1 :]
        super().absorb(label, message, field)
        if label != Label.NEXT:
            self.trace.append((label, message))

    def challenge(self, field: FieldSpec) -> Plain:
        drawn = super().challenge(field)
        self.trace.append((field, drawn))
        return drawn


Verifier = Callable[..., list[tuple[Any, bytes | Plain]]]


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Verifier:
    """Verifies, and gives the trace; with `changed` a byte of a message is another one."""
    monkeypatch.setattr("quod.gkr.key.Transcript", Traced)

    def run(
        case: Case, proof: bytes | None = None, *, changed: tuple[int, int] | None = None
    ) -> list[tuple[Any, bytes | Plain]]:
        trace: list[tuple[Any, bytes | Plain]] = []
        Traced.trace, Traced.changed = trace, changed
        proof = case.proof if proof is None else proof
        # By columns true values agree with what is claimed wherever they are combined.
        is_lenient = case.reduction is Reduction.DATA_PARALLEL
        refused = suppress(VerificationError) if is_lenient else pytest.raises(VerificationError)
        with refused if changed else nullcontext():
            verify(case.key, CIRCUIT, case.public, proof, instances=len(case.public))
        return trace

    return run


def challenges(trace: list[tuple[Any, bytes | Plain]]) -> list[Plain]:
    return [value for what, value in trace if isinstance(value, tuple)]


def test_each_byte_that_is_absorbed_changes_the_next_challenge(
    case: Case, traced: Verifier
) -> None:
    """Bytes of the statement, the commitment and all rounds and values but the last."""
    honest = traced(case)
    assert [what for what, _ in honest[: len(STATEMENT)]] == STATEMENT
    last = max(at for at, (_, value) in enumerate(honest) if isinstance(value, tuple))
    for place, (_, message) in enumerate(honest[:last]):
        for byte in range(len(message) if isinstance(message, bytes) else 0):
            other = traced(case, changed=(place, byte))
            before = len(challenges(honest[:place]))
            assert challenges(honest)[:before] == challenges(other)[:before]
            assert challenges(honest)[before] != challenges(other)[before]


@pytest.mark.parametrize("step", one_and_others([13, 1]))
def test_each_byte_of_a_statement_changes_the_first_challenge_of_poseidon2(
    traced: Verifier, step: int
) -> None:
    honest = traced(RECURSIVE)
    first = challenges(honest)[0]
    assert first != challenges(traced(CASES[Reduction.TWO_PHASE]))[0]
    for place, label in enumerate(STATEMENT):
        what, message = honest[place]
        assert what == label
        for byte in {*range(0, len(message), step), len(message) - 1}:
            other = traced(RECURSIVE, changed=(place, byte))
            assert challenges(other)[0] != first


def digest_of_run(data: bytes) -> bytes:
    """Return the digest of data no longer than a run."""
    return hashlib.sha3_256(data + b"\0").digest()


def test_statement_covers_everything_known_in_advance(case: Case, traced: Verifier) -> None:
    said = dict(traced(case)[: len(STATEMENT)])
    public = encode(CIRCUIT.field, [(value,) for row in case.public for value in row])
    assert said[Label.CIRCUIT] == CIRCUIT.digest == case.key.circuit
    assert said[Label.INSTANCES] == len(case.public).to_bytes(8, "little")
    assert said[Label.PUBLIC_INPUT] == (2).to_bytes(8, "little") + digest_of_run(public)
    assert str(case.key.chain).encode() in bytes(said[Label.PARAMETERS])
    assert str(FIELD.modulus.value).encode() in bytes(said[Label.FIELD])


def test_all_proof_bytes_are_absorbed(case: Case, traced: Verifier) -> None:
    """The inputs as their digest, all that follows in its order: as it is, and by columns values by
    the digest of a run, filled up with zeros, in a message of three."""
    inputs, proof = case.input_bytes, case.proof
    messages = [(label, message) for label, message in traced(case) if isinstance(message, bytes)]
    assert dict(messages)[Label.COMMITMENT] == digest_of_run(proof[:inputs])
    sent = [(label, message) for label, message in messages if label in (Label.ROUND, Label.VALUES)]
    if case.reduction is Reduction.TWO_PHASE:
        assert b"".join(message for _, message in sent) == proof[inputs:]
        return
    assert [label for label, _ in sent] == [Label.ROUND, Label.VALUES] * 2
    at = inputs
    for (label, message), size in zip(sent, (2 * 16, 2 * 16, 2 * 16, 4 * 16), strict=True):
        read = proof[at : at + size]
        at += size
        if label == Label.VALUES:
            run = Transcript()
            run.absorb(label, read.ljust(32 * 16, b"\0"))
            read = run.state.ljust(3 * 32, b"\0")
        assert message == read
    assert at == len(proof)


def test_random_coefficients_are_in_the_challenge_field(case: Case, traced: Verifier) -> None:
    trace = traced(case)
    assert {what for what, value in trace if isinstance(value, tuple)} == {FIELD}
    assert all(challenges(trace)[0][1:])
    assert error_terms(CIRCUIT, FIELD)["random coefficients"] * 2**122 < 1


def test_random_coefficients_depend_on_the_commitment(case: Case, traced: Verifier) -> None:
    """Inputs that no gate uses change them too."""
    coefficients = set()
    for value in range(8):
        inputs = [[*row[:3], value] for row in case.inputs]
        proof = reference.prove(case.key, CIRCUIT, inputs, case.public)
        coefficients.add(challenges(traced(case, proof))[0])
    assert len(coefficients) == 8


def test_claims_are_combined_with_later_challenges(case: Case, traced: Verifier) -> None:
    """Each challenge follows new messages, except those drawn together."""
    trace = [what if isinstance(value, bytes) else None for what, value in traced(case)]
    chain = [Label.CHAIN] * case.key.chain
    begin = [*STATEMENT, *chain, None, *chain, *[None] * CIRCUIT.log_outputs]
    rounds = [Label.ROUND, None]
    if case.reduction is Reduction.DATA_PARALLEL:
        # A round over the instances, and a point at which 2 values, then 4, are combined.
        expected = [None, *rounds, Label.VALUES, None, *rounds, Label.VALUES, None, None]
    else:
        # The upper layer's products over 2 values, a factor, and the lower layer's over 4.
        products, lower = [*rounds, Label.VALUES], [*rounds * 2, Label.VALUES]
        expected = [*products, *products, None, *lower, *lower]
    assert trace == [*begin, *expected]


@pytest.mark.parametrize("reduction", Reduction)
def test_missing_or_repeated_layers_are_rejected(reduction: Reduction) -> None:
    """One layer's messages are omitted or doubled, or the circuit has fewer layers."""
    tall, short = circuit_of(layers=4), circuit_of(layers=3)
    key, of_short = (
        VerifyingKey.of(circuit, FIELD, reduction=reduction) for circuit in (tall, short)
    )
    proof = reference.prove(key, tall, [INPUTS], [PUBLIC])
    verify(key, tall, PUBLIC, proof)
    other = reference.prove(of_short, short, [INPUTS], [PUBLIC])
    size = 16
    inputs = 4 * len(INPUTS)
    for start in range(inputs, len(proof), size):
        for stop in range(start + size, len(proof) + 1, size):
            for wrong in (proof[:start] + proof[stop:], proof[:stop] + proof[start:]):
                with pytest.raises((InputError, VerificationError)):
                    verify(key, tall, PUBLIC, wrong)
    for wrong in (other, b"", proof[:inputs], proof + other):
        with pytest.raises((InputError, VerificationError)):
            verify(key, tall, PUBLIC, wrong)


def test_public_inputs_are_as_many_as_the_circuit_has() -> None:
    for public in ([], [0], [0, 0, 0], [[0, 0], [0, 0]], [[]]):
        with pytest.raises(InputError):
            verify(KEY, CIRCUIT, public, PROOF)
    with pytest.raises(InputError):
        verify(KEY, CIRCUIT, [], PROOF, instances=0)


@pytest.mark.parametrize("reduction", Reduction)
def test_provers_check_proofs_and_raise_on_failure(
    reduction: Reduction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device computes wrongly; `verify` returns for valid proofs and raises for others."""
    circuit = circuit_of(layers=3)
    key = VerifyingKey.of(circuit, FIELD, reduction=reduction)
    with open_device("cpu") as device:
        prover = Prover(device, key, circuit)
        proof = prover.prove(INPUTS, PUBLIC)
        assert verify(key, circuit, PUBLIC, proof) is None  # type: ignore[func-returns-value]
        download = type(device).download

        def wrong(self: Any, buffer: Any, target: Any) -> None:
            download(self, buffer, target)
            if target.shape == (1, prover._in_progress[0]._sent.shape[1]):
                target[0, 5] ^= 1

        monkeypatch.setattr(type(device), "download", wrong)
        with pytest.raises(DeviceError, match="made a proof that does not verify"):
            prover.prove(INPUTS, PUBLIC)
        assert prover.prove(INPUTS, PUBLIC, check=False) != proof


def test_a_circuit_is_its_digest() -> None:
    """Every change gives another digest; rebuilding the circuit gives the same one."""
    digests = {CIRCUIT.digest}
    parts = {name: getattr(CIRCUIT, name) for name in ("field", "log_inputs", "coefficients")}
    sizes = {"public": CIRCUIT.public, "zeros": CIRCUIT.zeros}

    def note(layers: tuple[Layer, ...] = CIRCUIT.layers, **changed: Any) -> None:
        merged = {**parts, **sizes, **changed}
        other = LayeredCircuit(
            merged["field"], merged["log_inputs"], merged["coefficients"], layers,
            public=merged["public"], zeros=merged["zeros"],
        )  # fmt: skip
        assert other.digest not in digests
        digests.add(other.digest)
        with pytest.raises(MismatchError):
            verify(KEY, other, [0] * other.public, PROOF)

    note(field=NAMED["baby_bear"])
    note(log_inputs=3)
    note(public=3)
    note(zeros=1)
    table = CIRCUIT.coefficients
    note(coefficients=(*table, 5))
    for place, was in enumerate(table):
        new = type(was)(1 - was.number) if isinstance(was, (Public, Random)) else was + 1
        note(coefficients=(*table[:place], new, *table[place + 1 :]))
    for number, layer in enumerate(CIRCUIT.layers):
        for kind, gates in layer.gates.items():
            columns = [gates.output, *gates.inputs, gates.coefficient]
            for at, column in enumerate(columns):
                for row in range(len(column)):
                    changed = [column.copy() for column in columns]
                    changed[at][row] ^= 1
                    note(with_gates(number, {kind: changed}))
            if len(gates):
                note(with_gates(number, {kind: [np.repeat(column, 2) for column in columns]}))
                note(with_gates(number, {kind: [column[:0] for column in columns]}))
    assert circuit_of().digest == CIRCUIT.digest


def with_gates(number: int, changed: dict[str, list[Any]]) -> tuple[Layer, ...]:
    """The layers, with other columns for a kind of gates of one."""
    layers = list(CIRCUIT.layers)
    gates = dict(layers[number].gates)
    for kind, (output, *inputs, coefficient) in changed.items():
        gates[kind] = Gates(output, tuple(inputs), coefficient)
    layers[number] = Layer(layers[number].log_size, gates)
    return tuple(layers)


ROWS: dict[str, list[Callable[..., None]]] = {
    "Expander #315: public inputs are not in the transcript": [
        test_each_byte_that_is_absorbed_changes_the_next_challenge,
        test_statement_covers_everything_known_in_advance,
        soundness.test_every_part_of_the_statement_changes_the_first_challenge,
    ],
    "Expander's verifier does not compare outputs with 0": [
        soundness.test_outputs_that_are_not_zero_are_refused,
    ],
    "Expander draws random coefficients from the circuit's field": [
        test_random_coefficients_are_in_the_challenge_field,
        toy_fields.test_random_coefficients_cancel_at_the_rate_of_their_degree,
    ],
    "ExpanderCompilerCollection draws them before the commitments": [
        test_random_coefficients_depend_on_the_commitment,
    ],
    "Expander's loaders stop at counts and tags that are wrong": [
        circuit6_files.test_damaged_circuits_are_refused,
        circuit6_files.test_every_truncation_is_refused,
        circuit6_files.test_damaged_witnesses_are_refused,
        circuit6.test_unprovable_files_are_rejected,
        files.test_invalid_keys_are_rejected,
    ],
    "binius64 #1350: public inputs and rounds are not in the transcript": [
        test_each_byte_that_is_absorbed_changes_the_next_challenge,
        soundness.test_other_statements_are_refused,
    ],
    "provekit #321, #360, #363: values unabsorbed, no instance, lengths off by one": [
        test_all_proof_bytes_are_absorbed,
        test_public_inputs_are_as_many_as_the_circuit_has,
        invalid.test_invalid_inputs_are_rejected,
    ],
    "lambdaworks #1012: the verifier loops over the proof's layers": [
        test_missing_or_repeated_layers_are_rejected,
        soundness.test_mutated_proofs_are_refused,
    ],
    "Plonky3 #2081, #2135: claims behind their factor, bytes that nothing reads": [
        test_claims_are_combined_with_later_challenges,
        test_all_proof_bytes_are_absorbed,
        toy_fields.test_cancelling_false_claims_pass_at_the_expected_rate,
        toy_fields.test_false_data_parallel_rounds_pass_at_the_bounded_rate,
    ],
    "lambda_vm #485: a look-up's column that nothing binds": [
        lookup.test_a_cheating_prover_is_refused,
        lookup.test_false_multiplicities_pass_on_toy_fields_at_the_bounded_rate,
    ],
    "ICICLE, risc0 #3798: a verdict that is overlooked, wrong proofs of GPUs": [
        test_provers_check_proofs_and_raise_on_failure,
        sumcheck.test_idle_device_is_detected,
    ],
    "Ziren #524: too few partial rounds of Poseidon2": [
        poseidon.test_poseidon2_of_published_vectors,
        poseidon.test_poseidon_of_published_digests,
    ],
    "Expander #295: the product of sums for the sum of products": [
        sumcheck.test_agrees_with_the_model,
        agreement.test_agrees_with_the_model,
    ],
    "gnark #1512: a circuit under the name of another": [
        test_a_circuit_is_its_digest,
        invalid.test_digested_circuit_is_immutable,
    ],
    "swanky #44: a random combination that is none": [
        toy_fields.test_false_rounds_pass_at_the_bounded_rate,
        soundness.test_false_statements_pass_on_toy_fields_as_often_as_theory_allows,
    ],
}


def test_every_documented_defect_has_tests() -> None:
    assert all(rows and all(row.__name__.startswith("test_") for row in rows)
               for rows in ROWS.values())  # fmt: skip
