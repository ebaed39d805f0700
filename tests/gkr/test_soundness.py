"""The verifier of layered circuits rejects false statements, at the stated security level."""

from __future__ import annotations

import random

import pytest

from quod.commitment import Hyrax, Ligero, Raw
from quod.commitment.scheme import Scheme
from quod.errors import InputError, MismatchError, VerificationError
from quod.field import EXTENSIONS, NAMED, Modulus
from quod.gkr import (
    Prover,
    Reduction,
    Verifier,
    VerifyingKey,
    error_terms,
    security_bits,
    verify,
)
from quod.gkr.statement import Statement
from quod.layered import CircuitBuilder, LayeredCircuit
from quod.transcript import Hash
from tests.gkr.circuits import Rows, satisfied, with_other
from tests.reference import gkr as reference


def other_reduction(key: VerifyingKey) -> Reduction:
    (other,) = set(Reduction) - {key.reduction}
    return other


Proven = tuple[VerifyingKey, LayeredCircuit, Rows, Rows, bytes]

# Of one instance a proof by columns has no rounds: the values of all layers, whatever is drawn.
PROVEN = [
    pytest.param((1, Reduction.TWO_PHASE), marks=pytest.mark.thorough),
    (2, Reduction.TWO_PHASE),
    (2, Reduction.DATA_PARALLEL),
]


@pytest.fixture(scope="module", params=PROVEN, ids=str)
def proven(request: pytest.FixtureRequest) -> Proven:
    instances, reduction = request.param
    circuit, inputs, public = satisfied(
        NAMED["m31"], 5, layers=2, gates=5, instances=instances, randoms=True
    )
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"], reduction=reduction)
    return key, circuit, inputs, public, reference.prove(key, circuit, inputs, public)


def test_mutated_proofs_are_refused(proven: Proven) -> None:
    key, circuit, inputs, public, proof = proven
    count = len(inputs)
    for place in range(0, len(proof), 5):
        changed = bytearray(proof)
        changed[place] ^= 1 << place % 8
        with pytest.raises((VerificationError, InputError)):
            verify(key, circuit, public, bytes(changed), instances=count)
    for wrong in (proof[:-1], proof + b"\0", b"", proof[4:], proof * 2):
        with pytest.raises((VerificationError, InputError)):
            verify(key, circuit, public, wrong, instances=count)
    p = circuit.field.value
    for place in range(0, len(proof), 4):
        number = int.from_bytes(proof[place : place + 4], "little") + p
        if number < 1 << 32:
            other = proof[:place] + number.to_bytes(4, "little") + proof[place + 4 :]
            with pytest.raises(InputError, match="not below the modulus"):
                verify(key, circuit, public, other, instances=count)


def test_other_statements_are_refused(proven: Proven) -> None:
    key, circuit, inputs, public, proof = proven
    count = len(inputs)
    verify(key, circuit, public, proof, instances=count)
    other, *_ = satisfied(circuit.field, 6, layers=2, gates=5)
    with pytest.raises(MismatchError):
        verify(key, other, public, proof, instances=count)
    for place in range(circuit.public):
        changed = [list(row) for row in public]
        for row in changed:
            row[place] = (row[place] + 1) % circuit.field.value
        with pytest.raises(VerificationError):
            verify(key, circuit, changed, proof, instances=count)
    for wrong in (
        with_other(key, field=EXTENSIONS["m31.3"], bits=0),
        with_other(key, chain=key.chain + 1),
        with_other(key, hash=Hash.SHA_256),
        with_other(key, reduction=other_reduction(key)),
    ):
        with pytest.raises((VerificationError, InputError)):
            verify(wrong, circuit, public, proof, instances=count, allow_bits=0)
    with pytest.raises(InputError, match="chain of 63 hashes is too short"):
        verify(with_other(key, chain=63), circuit, public, proof, instances=count)
    longer = [*public, public[-1]]
    with pytest.raises((VerificationError, InputError)):
        verify(key, circuit, longer, proof, instances=count + 1)


def test_padded_instances_are_another_statement(proven: Proven) -> None:
    """Three instances, and four with an equal last pair, are different statements."""
    key, circuit, inputs, public, _ = proven
    three = [inputs[-1]] * 3, [public[-1]] * 3
    proof = reference.prove(key, circuit, *three)
    verify(key, circuit, three[1], proof, instances=3)
    with pytest.raises(VerificationError):
        verify(key, circuit, [public[-1]] * 4, proof, instances=4)


def test_every_part_of_the_statement_changes_the_first_challenge(proven: Proven) -> None:
    key, circuit, _, public, _ = proven
    states = set()
    other = with_other(key, bits=0, field=EXTENSIONS["m31.3"])
    changed = [list(row) for row in public]
    changed[-1][-1] ^= 1
    for varied, rows in (
        (key, public), (key, changed), (other, public), (key, [*public, public[0]]),
        (with_other(key, chain=key.chain + 1), public),
        (with_other(key, commitment=Other()), public), (with_other(key, hash=Hash.SHA_256), public),
        (with_other(key, reduction=other_reduction(key)), public),
    ):  # fmt: skip
        transcript = varied.transcript()
        Statement(varied, circuit, rows, len(rows), allow_bits=0).begin(transcript)
        states.add(transcript.state)
    assert len(states) == 8
    digests = {circuit.digest}
    for field, value in (("zeros", circuit.zeros - 1), ("public", circuit.public + 1)):
        again = LayeredCircuit(
            circuit.field, circuit.log_inputs, circuit.coefficients, circuit.layers,
            public=circuit.public, zeros=circuit.zeros,
        )  # fmt: skip
        setattr(again, field, value)
        digests.add(again.digest)
    assert len(digests) == 3


class Other(Raw):
    """A commitment of another name."""

    def parameters(self) -> str:
        return "other"


def test_outputs_that_are_not_zero_are_refused(proven: Proven) -> None:
    """The prover rejects them, and the verifier rejects the model's proof."""
    key, circuit, inputs, public, _ = proven
    count, p = len(inputs), circuit.field.value
    changed = [list(row) for row in public]
    changed[-1][2] = (changed[-1][2] + 1) % p
    where = "of instance 1 is not 0" if count > 1 else "of the circuit is not 0"
    with pytest.raises(InputError, match=where):
        Prover("cpu", key, circuit, instances=count).prove(inputs, changed)
    with pytest.raises(VerificationError):
        proof = reference.prove(key, circuit, inputs, changed)
        verify(key, circuit, changed, proof, instances=count)


def test_error_names_the_wrong_output() -> None:
    circuit, inputs, public = satisfied(NAMED["m31"], 5, layers=2, gates=5)
    public[0][2] = (public[0][2] + 7) % circuit.field.value
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"])
    with pytest.raises(InputError, match="output 0 of the circuit is 7 with these inputs, not 0"):
        Prover("cpu", key, circuit).prove(inputs, public)


def test_error_names_the_proof_with_wrong_outputs() -> None:
    """Proofs are numbered across batches; padding is not an output."""
    circuit, inputs, public = satisfied(NAMED["m31"], 5, layers=2, gates=5, instances=3)
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"])
    prover = Prover("cpu", key, circuit, instances=3, batch=2)
    wrong = [
        *public[:2],
        [*public[2][:2], (public[2][2] + 7) % circuit.field.value, *public[2][3:]],
    ]
    said = "output 0 of the circuit of instance 2 of proof 2 is 7 with these inputs, not 0$"
    with pytest.raises(InputError, match=said):
        prover.prove_many([inputs] * 3, [public, public, wrong])


def test_weak_security_is_rejected() -> None:
    circuit, *_ = satisfied(NAMED["m31"], 1, layers=2)
    with pytest.raises(InputError, match="at least 100 are required"):
        VerifyingKey.of(circuit, EXTENSIONS["m31.3"])
    bits = security_bits(circuit, EXTENSIONS["m31.3"])
    assert 80 <= bits < 93
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.3"], allow_bits=bits)
    for call in (Prover, Verifier):
        with pytest.raises(InputError, match=f"at least 100 .* or pass allow_bits={bits}"):
            call("cpu", key, circuit)
        call("cpu", key, circuit, allow_bits=bits)
        with pytest.raises(
            InputError, match=f"at least {bits} .* or make the key with allow_bits="
        ):
            call("cpu", key, circuit, instances=1 << 20, allow_bits=0)
    with pytest.raises(InputError, match="at least 100 are required"):
        verify(key, circuit, [0], b"")
    with pytest.raises(InputError, match="the proof ends"):
        verify(key, circuit, [[0] * circuit.public], b"", allow_bits=bits)
    assert security_bits(circuit, EXTENSIONS["m31.4"]) > 110
    toy, *_ = satisfied(Modulus("toy.17", 17), 1)
    assert security_bits(toy, toy.field) == 0
    VerifyingKey.of(toy, toy.field, allow_bits=0)
    assert all(term > 0 for term in error_terms(circuit, EXTENSIONS["m31.4"]).values())


def test_data_parallel_error_terms() -> None:
    """Rounds over the instances only, and one term for each coordinate of combined values."""
    field = EXTENSIONS["m31.4"]
    builder = CircuitBuilder(field.modulus, 3)
    layer = builder.layer(2)
    layer.multiply(0, 0, 1)
    layer.power(1, 2, 5)
    builder.layer(4).add(0, 1)
    circuit = builder.finished()
    terms = error_terms(circuit, field, instances=9, reduction=Reduction.DATA_PARALLEL)
    likely = terms["the outputs' point"] / (4 + 4)
    assert terms["rounds of sumchecks"] == 5 * 4 * likely
    assert terms["claims combined"] == (3 + 2) * likely
    alone = error_terms(circuit, field, reduction=Reduction.DATA_PARALLEL)
    assert "rounds of sumchecks" not in alone
    assert alone["claims combined"] == terms["claims combined"]


@pytest.mark.parametrize("scheme", [Ligero(), Hyrax()])
def test_error_terms_of_layers_and_commitment_are_summed(scheme: Scheme) -> None:
    """A term name may occur in both."""
    field = EXTENSIONS["m31.4"] if isinstance(scheme, Ligero) else NAMED["bn254.fr"]
    circuit, *_ = satisfied(field.modulus, 1, layers=4)
    ours = error_terms(circuit, field, instances=4)
    theirs = scheme.error_terms(field, circuit.log_inputs + 2)
    both = error_terms(circuit, field, instances=4, commitment=scheme)
    assert set(ours) & set(theirs) == {"claims combined"}
    assert sum(both.values()) == sum(ours.values()) + sum(theirs.values())


def test_false_statements_pass_on_toy_fields_as_often_as_theory_allows() -> None:
    """The acceptance rate of false statements stays below the error bound."""
    toy, accepted, count = Modulus("toy.127", 127), 0, 150
    circuit, inputs, public = satisfied(toy, 2, log_inputs=1, layers=1, gates=3, powers=False)
    key = VerifyingKey.of(circuit, toy, allow_bits=0)
    bound = float(sum(error_terms(circuit, toy).values()))
    generator = random.Random(1)
    for _ in range(count):
        wrong = [*public[0][:2], *(generator.randrange(127) for _ in public[0][2:])]
        if wrong == public[0]:
            continue
        try:
            proof = reference.prove(key, circuit, inputs, [wrong])
            verify(key, circuit, wrong, proof, allow_bits=0)
            accepted += 1
        except VerificationError:
            pass
    # Some must pass, else nothing is measured.
    assert bound < 0.2
    assert 0 < accepted < count * (bound + 3 * (bound / count) ** 0.5)
