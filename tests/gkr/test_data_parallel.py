"""The data-parallel prover on every device, against a model on plain integers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from quod.commitment import Ligero
from quod.device.discovery import open_device
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field import EXTENSIONS, NAMED, FieldSpec
from quod.gkr import Prover, VerifyingKey, verify
from quod.gkr.reduction import Reduction
from quod.layered import CircuitBuilder, Random
from quod.transcript import Hash
from tests.gkr.circuits import satisfied
from tests.gkr.test_gkr import FIELDS
from tests.reference import gkr as reference
from tests.reference import gkr_columns as from_the_text
from tests.support.thorough import one_and_others


def check(
    device: AnyDevice | str, field: FieldSpec, seed: int, hash: Hash = Hash.SHA3_256, **form: Any
) -> None:
    circuit, inputs, public = satisfied(field.modulus, seed, **form)
    key = VerifyingKey.of(circuit, field, hash=hash, reduction=Reduction.DATA_PARALLEL)
    prover = Prover(device, key, circuit, instances=len(inputs))
    proof = prover.prove(inputs, public)
    assert proof == reference.prove(key, circuit, inputs, public)


@pytest.mark.crossed("device", "name")
@pytest.mark.parametrize(
    ("instances", "name"),
    one_and_others(
        [(5, "m31.4"), (1, "m31.4"), (5, "bn254.fr"), (5, "goldilocks.2")],
    ),
)
def test_agrees_with_the_model(device: AnyDevice, instances: int, name: str) -> None:
    check(device, FIELDS[name], 1, instances=instances, log_inputs=2, layers=2)
    check(
        device, FIELDS[name], 2, instances=instances, log_inputs=2, layers=2, powers=False,
        randoms=True,
    )  # fmt: skip


@pytest.mark.thorough
def test_sha_256_agrees_with_the_model(device: AnyDevice) -> None:
    check(device, FIELDS["m31.4"], 2, Hash.SHA_256, layers=2, instances=2, log_inputs=2)


def test_gpu_code_agrees_with_the_model(gpu_device: AnyDevice) -> None:
    check(gpu_device, EXTENSIONS["m31.4"], 3, powers=False, layers=2, instances=2, log_inputs=2)


@pytest.mark.parametrize("instances", [pytest.param(1, marks=pytest.mark.thorough), 3])
def test_circuits_without_rounds_read_no_round_memory(
    gpu_device: AnyDevice, instances: int
) -> None:
    """One instance, and layers of sums alone; the interpreter reports extra reads."""
    builder = CircuitBuilder(NAMED["m31"], log_inputs=1)
    layer = builder.layer(1)
    layer.add(0, 1, 2)
    layer.add(0, 0, -1)
    if instances == 1:
        layer.multiply(1, 0, 1)
    circuit, inputs = builder.finished(zeros=1), [[2, 1]] * instances
    key = VerifyingKey.of(circuit, EXTENSIONS["m31.4"], reduction=Reduction.DATA_PARALLEL)
    prover = Prover(gpu_device, key, circuit, instances=instances, batch=2)
    statements, public = [inputs, inputs], [[[]] * instances] * 2
    proofs = prover.prove_many(statements, public, check=False)
    assert proofs == [reference.prove(key, circuit, inputs)] * 2


@pytest.mark.parametrize("instances", one_and_others([3, 16, 33, 100]))
def test_every_instance_count_agrees_on_the_cpu(instances: int) -> None:
    """Counts below and above a vector, and large enough for separate rows."""
    field = EXTENSIONS["m31.3" if instances > 32 else "m31.4"]
    circuit, inputs, public = satisfied(
        field.modulus, instances, instances=instances, layers=2, log_inputs=2, gates=6
    )
    key = VerifyingKey.of(circuit, field, reduction=Reduction.DATA_PARALLEL, allow_bits=0)
    prover = Prover("cpu", key, circuit, instances=instances, allow_bits=0)
    proof = prover.prove(inputs, public)
    assert proof == reference.prove(key, circuit, inputs, public)


def test_rounds_after_a_pass_for_two() -> None:
    """Columns of a circuit of products alone are folded in turns."""
    field = EXTENSIONS["m31.4"]
    for instances in (16, 40):
        check("cpu", field, 5, layers=2, gates=30, log_inputs=4, instances=instances, powers=False)


def test_more_values_than_a_message_has_digests_of() -> None:
    """Seven runs of values are three messages."""
    check(open_device("cpu"), EXTENSIONS["m31.4"], 11, log_inputs=8, gates=300, layers=2)


@pytest.mark.parametrize("randoms", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_batched_proofs_equal_single_proofs(device: AnyDevice, randoms: bool) -> None:
    """A batch gives the same proofs as single calls."""
    field = EXTENSIONS["m31.4"]
    circuit, inputs, public = satisfied(
        field.modulus, 7, instances=6, log_inputs=2, layers=2, randoms=randoms
    )
    key = VerifyingKey.of(circuit, field, reduction=Reduction.DATA_PARALLEL)
    pairs = [slice(at, at + 2) for at in (0, 2, 4)]
    proofs = Prover(device, key, circuit, instances=2, batch=2).prove_many(
        [inputs[pair] for pair in pairs], [public[pair] for pair in pairs]
    )
    for proof, pair in zip(proofs, pairs, strict=True):
        assert proof == reference.prove(key, circuit, inputs[pair], public[pair])


@pytest.mark.thorough
def test_a_commitment_opens_one_claim() -> None:
    field = EXTENSIONS["m31.4"]
    circuit, inputs, public = satisfied(field.modulus, 3, instances=12, log_inputs=3)
    key = VerifyingKey.of(circuit, field, commitment=Ligero(), reduction=Reduction.DATA_PARALLEL)
    proof = Prover("cpu", key, circuit, instances=12).prove(inputs, public)
    verify(key, circuit, public, proof, instances=12)


@pytest.mark.thorough
def test_wrong_outputs_are_reported() -> None:
    field = EXTENSIONS["m31.4"]
    circuit, inputs, public = satisfied(field.modulus, 5, instances=3)
    public[1][2] = (public[1][2] + 7) % field.modulus.value
    key = VerifyingKey.of(circuit, field, reduction=Reduction.DATA_PARALLEL)
    with pytest.raises(InputError, match="output 0 of the circuit of instance 1 is 7"):
        Prover("cpu", key, circuit, instances=3).prove(inputs, public)


@pytest.mark.thorough
def test_recursive_proofs_agree_with_the_model(device: AnyDevice) -> None:
    """Runs of values and their digests are absorbed as elements."""
    field = EXTENSIONS["m31.4"]
    circuit, inputs, public = satisfied(field.modulus, 4, instances=3, log_inputs=2, layers=2)
    key = VerifyingKey.of(circuit, field, recursive=True, reduction=Reduction.DATA_PARALLEL)
    proof = Prover(device, key, circuit, instances=3).prove(inputs, public)
    assert proof == reference.prove(key, circuit, inputs, public)
    verify(key, circuit, public, proof, instances=3)


@pytest.mark.parametrize(("seed", "instances"), one_and_others([(3, 1), (1, 5)]))
def test_verifier_written_from_the_specification_agrees(seed: int, instances: int) -> None:
    """Both verifiers agree on proofs, and on proofs with a flipped bit."""
    field = EXTENSIONS["m31.4"]
    circuit, inputs, public = satisfied(field.modulus, seed, instances=instances)
    key = VerifyingKey.of(circuit, field, reduction=Reduction.DATA_PARALLEL)
    assert from_the_text.digest(circuit) == circuit.digest
    proof = Prover("cpu", key, circuit, instances=instances).prove(inputs, public)
    from_the_text.check(circuit, key.chain, public, proof)
    generator = random.Random(seed)
    for _ in range(10):
        wrong = bytearray(proof)
        wrong[generator.randrange(len(wrong))] ^= 1 << generator.randrange(8)
        with pytest.raises(from_the_text.Invalid):
            from_the_text.check(circuit, key.chain, public, bytes(wrong))
    with pytest.raises(from_the_text.Invalid):
        from_the_text.check(circuit, key.chain, public, proof + bytes(4))


def test_specification_covers_challenges_and_unclaimed_gates() -> None:
    """Gates with unused outputs count for the degree and the values sent."""
    field = EXTENSIONS["m31.4"]
    builder = CircuitBuilder(field.modulus, log_inputs=2)
    first = builder.layer(2)
    first.add(0, 0)
    first.add(0, 1, -1)
    second = builder.layer(2)
    second.add(0, 0)
    second.power(3, 2, 5)
    last = builder.layer(1)
    last.multiply(0, 0, 0, Random(1))
    last.add(0, 0, Random(0))
    circuit = builder.finished(zeros=1)
    key = VerifyingKey.of(circuit, field, reduction=Reduction.DATA_PARALLEL)
    inputs = [[a, a, 2, a + 5] for a in range(6)]
    proof = Prover("cpu", key, circuit, instances=6).prove(inputs, [[]] * 6)
    from_the_text.check(circuit, key.chain, [[]] * 6, proof)
