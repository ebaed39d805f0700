"""Proofs of layered circuits on every device, against a model on plain integers."""

from __future__ import annotations

import pickle
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from quod.commitment import Hyrax, Ligero, Raw
from quod.commitment.scheme import Scheme
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import SubmittedStream
from quod.errors import InputError, MismatchError, QuodError, VerificationError
from quod.field import EXTENSIONS, NAMED, FieldSpec, Modulus, from_integers
from quod.frozen import replace
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
from quod.layered import CircuitBuilder, LayeredCircuit, Public
from quod.layered.circuit import KINDS, Gates, Layer
from quod.transcript import Hash
from tests.gkr.circuits import Rows, satisfied
from tests.reference import gkr as reference
from tests.support.submissions import are_under_way
from tests.support.thorough import one_and_others

FIELDS: dict[str, FieldSpec] = {
    "bn254.fr": NAMED["bn254.fr"],
    **{name: EXTENSIONS[name] for name in ("m31.4", "goldilocks.2")},
}


def check(
    device: AnyDevice | str, field: FieldSpec, seed: int, hash: Hash | None = None,
    recursive: bool = False, **form: Any,
) -> None:  # fmt: skip
    circuit, inputs, public = satisfied(field.modulus, seed, **form)
    key = VerifyingKey.of(circuit, field, hash=hash, recursive=recursive)
    proof = Prover(device, key, circuit, instances=len(inputs)).prove(inputs, public)
    assert proof == reference.prove(key, circuit, inputs, public)


@pytest.mark.crossed("device", "instances")
@pytest.mark.parametrize(
    ("instances", "name"),
    one_and_others([(1, "m31.4"), *((3, name) for name in FIELDS)]),
)
def test_agrees_with_the_model(device: AnyDevice, instances: int, name: str) -> None:
    check(device, FIELDS[name], 1, instances=instances, log_inputs=2)
    check(device, FIELDS[name], 2, instances=instances, log_inputs=2, randoms=True)


@pytest.mark.thorough
def test_sha_256_agrees_with_the_model(device: AnyDevice) -> None:
    check(
        device, FIELDS["m31.4"], 2, Hash.SHA_256, layers=2, instances=2, log_inputs=2, randoms=True
    )


@pytest.mark.parametrize(
    "name", one_and_others(["m31.4", "goldilocks.2", "baby_bear.4", "koala_bear.4"])
)
def test_poseidon2_agrees_with_the_model(device: AnyDevice, name: str) -> None:
    check(
        device, EXTENSIONS[name], 2, recursive=True, layers=2, instances=2, log_inputs=2,
        randoms=True,
    )  # fmt: skip


@pytest.mark.thorough
def test_poseidon2_on_gpus_agrees_with_the_model(gpu_device: AnyDevice) -> None:
    form: dict[str, Any] = {"powers": False, "layers": 1, "log_inputs": 2}
    check(gpu_device, EXTENSIONS["m31.4"], 3, recursive=True, **form)


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", one_and_others([Ligero(), None]))
def test_recursive_proofs_in_batches_and_of_ligero(scheme: Scheme | None) -> None:
    field = EXTENSIONS["m31.4"]
    circuit, inputs, public = satisfied(field.modulus, 8, layers=2, instances=3, log_inputs=2)
    key = VerifyingKey.of(circuit, field, commitment=scheme, recursive=True)
    prover = Prover("cpu", key, circuit, batch=2)
    proofs = prover.prove_many([[row] for row in inputs], [[row] for row in public])
    for row, proof in zip(public, proofs, strict=True):
        verify(key, circuit, [row], proof)
        with pytest.raises((VerificationError, InputError)):
            plain = with_other(key, hash=Hash.SHA3_256, recursive=False)
            verify(plain, circuit, [row], proof)


def test_hashes_over_fields_are_asked_for() -> None:
    """As their circuits are as deep as a layer a round, the chain has a hash for each layer."""
    field, depth = EXTENSIONS["m31.4"], 70
    builder = CircuitBuilder(field.modulus, 1)
    for _ in range(depth):
        builder.layer(1).add(0, 0)
    circuit = builder.finished()
    key = VerifyingKey.of(circuit, field, recursive=True)
    assert (key.hash, key.recursive, key.chain) == (Hash.POSEIDON2_M31, True, depth)
    assert VerifyingKey.of(circuit, field).hash is Hash.SHA3_256
    assert VerifyingKey.of(circuit, field, hash=Hash.POSEIDON2_M31, recursive=True) == key
    with pytest.raises(InputError, match="pass recursive=True"):
        VerifyingKey.of(circuit, field, hash=Hash.POSEIDON2_M31)
    with pytest.raises(InputError, match="pass recursive=True"):
        with_other(key, recursive=False)
    with pytest.raises(InputError, match="omit recursive"):
        VerifyingKey.of(circuit, field, hash=Hash.SHA_256, recursive=True)
    with pytest.raises(InputError, match="derives challenges in goldilocks"):
        VerifyingKey.of(circuit, field, hash=Hash.POSEIDON2_GOLDILOCKS, recursive=True)
    with pytest.raises(InputError, match="chain of 69 hashes is too short for 70 layers"):
        with_other(key, chain=depth - 1).check_circuit(circuit)
    other, *_ = satisfied(NAMED["bn254.fr"], 1)
    with pytest.raises(InputError, match=r"no hash over bn254\.fr for recursive verifiers"):
        VerifyingKey.of(other, NAMED["bn254.fr"], recursive=True)
    terms = error_terms(circuit, field, hash=key.hash)
    assert terms["the hash"] == Fraction(1, 1 << 118)
    builder = CircuitBuilder(field.modulus, 1)
    builder.layer(1).add(0, 0)
    circuit = builder.finished()
    key = VerifyingKey.of(circuit, field, recursive=True)
    fewer = security_bits(circuit, field, hash=key.hash)
    assert fewer == with_bits(key, circuit) < security_bits(circuit, field)


def with_bits(key: VerifyingKey, circuit: LayeredCircuit) -> int:
    """The most bits that a key may ask for."""
    bits = 0
    while True:
        try:
            with_other(key, bits=bits + 1).check_bits(circuit, 1, 0)
        except InputError:
            return bits
        bits += 1


@pytest.mark.thorough
def test_claims_are_combined_in_sha_256() -> None:
    """Hyrax opens the two claims of a layer of products by a sumcheck."""
    circuit, inputs, public = satisfied(NAMED["bn254.fr"], 8, layers=1, log_inputs=2)
    key = VerifyingKey.of(circuit, NAMED["bn254.fr"], commitment=Hyrax(), hash=Hash.SHA_256)
    proof = Prover("cpu", key, circuit).prove(inputs, public)
    verify(key, circuit, public, proof)
    with pytest.raises(VerificationError):
        verify(with_other(key, hash=Hash.SHA3_256), circuit, public, proof)


def test_the_code_of_gpus_agrees_with_the_model(gpu_device: AnyDevice) -> None:
    check(gpu_device, EXTENSIONS["m31.4"], 3, powers=False, layers=2, instances=2, log_inputs=2)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", one_and_others(range(6), always=[4]))
def test_more_circuits_agree_on_the_processor(seed: int) -> None:
    field = EXTENSIONS["m31.4"]
    check("cpu", field, 10 + seed, layers=1 + seed % 4, instances=1 + seed, randoms=seed % 2 == 0)


@pytest.mark.parametrize(
    "form",
    one_and_others(
        [{"log_inputs": 3, "gates": 20, "instances": 40}, {"log_inputs": 6, "gates": 200}]
    ),
)
def test_layers_beyond_a_workgroup(form: dict[str, Any]) -> None:
    """Rounds on large tables, too; by the verifier, as the model takes long."""
    field = EXTENSIONS["m31.4"]
    circuit, inputs, public = satisfied(field.modulus, 4, layers=2, **form)
    key = VerifyingKey.of(circuit, field)
    proof = Prover("cpu", key, circuit, instances=len(inputs)).prove(inputs, public)
    verify(key, circuit, public, proof, instances=len(inputs))


def test_several_proofs_side_by_side(device: AnyDevice) -> None:
    """A batch gives what its proofs give one by one."""
    field = EXTENSIONS["m31.4"]
    circuit, inputs, public = satisfied(field.modulus, 7, instances=3, log_inputs=2)
    key = VerifyingKey.of(circuit, field)
    proofs = Prover(device, key, circuit, batch=3).prove_many(inputs, public)
    for proof, row, public_row in zip(proofs, inputs, public, strict=True):
        assert proof == reference.prove(key, circuit, [row], [public_row])


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["m31.3", "bn254.fr"])
def test_layers_of_more_weights_than_an_instance_makes(gpu_device: AnyDevice, name: str) -> None:
    """The bytes of a GPU are the processor's, and verify."""
    field = EXTENSIONS.get(name) or NAMED[name]
    builder = CircuitBuilder(field.modulus, log_inputs=5)
    zero, last = builder.layer(5), builder.layer(6)
    for place in range(32):
        for coefficient in (1, -1):
            zero.multiply(place, place, (place + 1) % 32, coefficient)
            zero.add(place, 7 * place % 32, coefficient)
    for place in range(64):
        last.multiply(place, place % 32, 5 * place % 32)
    circuit = builder.finished(zeros=64)
    key = VerifyingKey.of(circuit, field, allow_bits=0)
    rows = [[3 + place + at for place in range(32)] for at in range(2)]
    prover, other = (
        Prover(device, key, circuit, batch=2, allow_bits=0) for device in (gpu_device, "cpu")
    )
    proofs = prover.prove_many(rows, [()] * 2, check=False)
    assert proofs == other.prove_many(rows, [()] * 2)
    for proof in proofs:
        verify(key, circuit, [], proof, allow_bits=0)


def test_batches_in_progress_at_once(
    gpu_device: AnyDevice, submitted: list[SubmittedStream]
) -> None:
    """While the device works on one the host finishes another, and an error ends both."""
    field = EXTENSIONS["m31.4"]
    form: dict[str, Any] = {"powers": False, "layers": 1, "log_inputs": 2, "gates": 2}
    circuit, inputs, public = satisfied(field.modulus, 7, instances=3, **form)
    key = VerifyingKey.of(circuit, field)
    prover = Prover(gpu_device, key, circuit)
    wanted = [
        reference.prove(key, circuit, [row], [public_row])
        for row, public_row in zip(inputs, public, strict=True)
    ]
    assert prover.prove_many(inputs, public, check=False) == wanted
    wrong = [list(row) for row in public]
    wrong[1][-1] = (wrong[1][-1] + 1) % circuit.field.value
    with pytest.raises(InputError, match="of proof 1 is"):
        prover.prove_many(inputs, wrong, check=False)
    assert not are_under_way(submitted)
    assert prover.prove_many(inputs[:1], public[:1], check=False) == wanted[:1]
    single = Prover(gpu_device, key, circuit, batch=2, in_progress=1)
    assert single.prove_many(inputs, public, check=False) == wanted


def with_other(key: VerifyingKey, **parts: Any) -> VerifyingKey:
    return replace(key, **parts)


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


def test_padding_is_not_told_from_a_statement(proven: Proven) -> None:
    """Three instances and four of which the last are equal are two statements."""
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
    """By the prover, and what the model proves of them by the verifier."""
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


def test_values_of_outputs_are_told() -> None:
    circuit, inputs, public = satisfied(NAMED["m31"], 5, layers=2, gates=5)
    public[0][2] = (public[0][2] + 7) % circuit.field.value
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"])
    with pytest.raises(InputError, match="output 0 of the circuit is 7 with these inputs, not 0"):
        Prover("cpu", key, circuit).prove(inputs, public)


def test_the_proof_whose_outputs_are_wrong_is_told() -> None:
    """Its number is that among all, not that in its batch; padding is no further output."""
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


@pytest.mark.parametrize(("reduction", "most"), [("places", 2**20), ("columns", 2**22)])
def test_more_instances_than_there_are_variables_for(reduction: str, most: int) -> None:
    builder = CircuitBuilder(NAMED["m31"], log_inputs=10)
    builder.layer(1).multiply(0, 0, 1)
    circuit = builder.finished()
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"], reduction=Reduction(reduction))
    for role in (Prover, Verifier):
        with pytest.raises(InputError, match=f"prove at most {most:,} at a time"):
            role("cpu", key, circuit, instances=most + 1)


def test_a_public_input_that_multiplies_is_the_same_everywhere() -> None:
    circuit, inputs, public = satisfied(NAMED["m31"], 5, instances=2)
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"])
    public[1][0] = (public[1][0] + 1) % circuit.field.value
    with pytest.raises(InputError, match="public input 0 is a factor"):
        Prover("cpu", key, circuit, instances=2).prove(inputs, public)
    with pytest.raises(InputError, match="public input 0 is a factor"):
        verify(key, circuit, public, b"", instances=2)


def test_few_bits_are_refused() -> None:
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


def test_terms_by_columns() -> None:
    """Rounds over the instances alone, and a coordinate for each that values are combined at."""
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
def test_terms_of_layers_and_of_the_commitment_add_up(scheme: Scheme) -> None:
    """Whatever both call them."""
    field = EXTENSIONS["m31.4"] if isinstance(scheme, Ligero) else NAMED["bn254.fr"]
    circuit, *_ = satisfied(field.modulus, 1, layers=4)
    ours = error_terms(circuit, field, instances=4)
    theirs = scheme.error_terms(field, circuit.log_inputs + 2)
    both = error_terms(circuit, field, instances=4, commitment=scheme)
    assert set(ours) & set(theirs) == {"claims combined"}
    assert sum(both.values()) == sum(ours.values()) + sum(theirs.values())


def test_false_statements_pass_on_toy_fields_as_often_as_theory_allows() -> None:
    """The model's proofs of unsatisfied circuits: no more are accepted than the bound says."""
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


def gates(output: list[int], *inputs: list[int]) -> Gates:
    arrays = [np.array(numbers, np.uint32) for numbers in (output, *inputs, [0] * len(output))]
    return Gates(arrays[0], tuple(arrays[1:-1]), arrays[-1])


def test_circuits_that_are_none_are_refused() -> None:
    field = NAMED["m31"]
    none = {kind: gates([], *([[]] * count)) for kind, count in KINDS.items()}
    square = np.zeros((1, 1), np.uint32)
    nothing: Any = None
    listed: Any = [0]
    wrong: Any
    for wrong in (
        {"add": gates([4], [0])}, {"add": gates([0], [8])}, {"multiply": gates([0], [0], [8])},
        {"add": gates([0])}, {"constant": gates([4])}, {"add": gates([0], [0, 1])}, {"other": none},
        {"add": None}, {"add": Gates(*[nothing] * 3)}, {"add": Gates(listed, (listed,), listed)},
        {"add": Gates(square, (square,), square)},
        {"add": Gates(np.zeros(1), (np.zeros(1),), np.zeros(1))},
    ):  # fmt: skip
        with pytest.raises(InputError):
            LayeredCircuit(field, 3, [1], [Layer(2, {**none, **wrong})])
    for wrong in ([], None, [Layer(0, none)], [Layer(40, none)], [Layer(2, nothing)], [nothing]):
        with pytest.raises(InputError):
            LayeredCircuit(field, 3, [1], wrong)
    with pytest.raises(InputError):
        LayeredCircuit(field, 3, [], [Layer(2, {**none, "add": gates([0], [0])})])
    builder = CircuitBuilder(field, 3)
    for wrong in (1.5, None, True):
        with pytest.raises(InputError):
            builder.layer(1).add(0, 0, wrong)
    for wrong in (0, 6, 1.0, None):
        with pytest.raises(InputError):
            builder.layer(1).power(0, 0, wrong)
    with pytest.raises(InputError):
        builder.layer(1).unary(0, 0, [1] * 7)
    builder = CircuitBuilder(field, 3, public=2)
    builder.layer(1).add(0, 0, Public(2))
    with pytest.raises(InputError, match="public input 2 is out of range"):
        builder.finished()
    for wrong in (0, 3, None):
        circuit = CircuitBuilder(field, 3)
        circuit.layer(1)
        if wrong is not None:
            with pytest.raises(InputError):
                circuit.finished(zeros=wrong)


def test_what_a_digest_is_of_does_not_change() -> None:
    """A verifier's circuit is the one that was compared with its key, whoever made the arrays."""
    none = {kind: gates([], *([[]] * count)) for kind, count in KINDS.items()}
    add_gates, kinds = gates([0], [1]), dict(none)
    kinds["add"] = add_gates
    circuit = LayeredCircuit(NAMED["m31"], 3, [1, 2], [Layer(2, kinds)])
    digest = circuit.digest
    add_gates.coefficient[0], kinds["add"] = 1, none["add"]
    kept: Any = circuit.layers[0].gates
    assert kept["add"].coefficient.tolist() == [0]
    assert circuit.digest == digest
    with pytest.raises(ValueError, match="read-only"):
        kept["add"].output[0] = 1
    assert pickle.loads(pickle.dumps(circuit)).digest == digest
    with pytest.raises(InputError, match="a Public or a Random"):
        LayeredCircuit(NAMED["m31"], 3, [type("Other", (Public,), {})(0)], [Layer(2, none)])


def test_keys_that_are_none_are_refused() -> None:
    """Among them those whose number of bits no proof is below."""
    circuit, *_ = satisfied(NAMED["m31"], 1, layers=1)
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"])
    wrong: Any
    for name, wrong_values in {
        "circuit": (None, circuit.digest.hex(), bytearray(circuit.digest), b""),
        "commitment": (None,),
        "chain": (None, "64", 64.5, True, 0, -1, 1 << 40),
        "bits": (None, "100", 1.5, float("nan"), -1), "reduction": (None, "columns", 1, Reduction),
    }.items():  # fmt: skip
        for wrong in wrong_values:
            with pytest.raises(InputError):
                with_other(key, **{name: wrong})
    assert type(with_other(key, chain=np.int64(64)).chain) is int


def test_inputs_that_are_none_are_refused() -> None:
    circuit, (inputs,), (public,) = satisfied(NAMED["m31"], 1, powers=False, layers=1)
    p = circuit.field.value
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"])
    prover = Prover("cpu", key, circuit)
    wrong: Any
    for wrong in (
        inputs[:-1], [*inputs[:-1], -1], [*inputs[:-1], p], None, "text", [inputs, inputs], [],
        np.zeros(3, np.uint32), np.full((1, len(inputs), 1), p, np.uint32), np.zeros(8),
        np.array(inputs, np.uint32), np.array([inputs], np.uint32),
        np.array(inputs, np.uint32).reshape(2, 4, 1),
    ):  # fmt: skip
        with pytest.raises(QuodError):
            prover.prove(wrong, public)
    for wrong in ([], None, "abc", [*public[:-1], p], [*public[:-1], 2.0], [public, public]):
        with pytest.raises(QuodError):
            prover.prove(inputs, wrong)
        with pytest.raises(QuodError):
            verify(key, circuit, wrong, b"")
    for wrong in (0, -1, 1 << 60, None, 1.0):
        with pytest.raises(InputError):
            Prover("cpu", key, circuit, instances=wrong)
        with pytest.raises(InputError):
            verify(key, circuit, public, b"", instances=wrong)
    table = from_integers(circuit.field, inputs)[None]
    assert prover.prove(table, public) == prover.prove(inputs, public)
    assert prover.prove(table[0], public) == prover.prove(inputs, public)
