"""Proofs of layered circuits on every device, against a model on plain integers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from quod.commitment import Hyrax, Ligero
from quod.commitment.scheme import Scheme
from quod.device.protocol import AnyDevice
from quod.device.runtime.stream import SubmittedStream
from quod.errors import InputError, VerificationError
from quod.field import EXTENSIONS, NAMED, FieldSpec
from quod.gkr import (
    Prover,
    VerifyingKey,
    error_terms,
    security_bits,
    verify,
)
from quod.layered import CircuitBuilder, LayeredCircuit
from quod.transcript import Hash
from tests.gkr.circuits import satisfied, with_other
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


@pytest.mark.thorough
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


def test_algebraic_hash_requires_a_recursive_key() -> None:
    """Recursive circuits have a layer a round, so that the delay has one hash a layer."""
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
def test_claims_are_combined_with_sha_256() -> None:
    """Hyrax opens the two claims of a layer of products by a sumcheck."""
    circuit, inputs, public = satisfied(NAMED["bn254.fr"], 8, layers=1, log_inputs=2)
    key = VerifyingKey.of(circuit, NAMED["bn254.fr"], commitment=Hyrax(), hash=Hash.SHA_256)
    proof = Prover("cpu", key, circuit).prove(inputs, public)
    verify(key, circuit, public, proof)
    with pytest.raises(VerificationError):
        verify(with_other(key, hash=Hash.SHA3_256), circuit, public, proof)


def test_gpu_code_agrees_with_the_model(gpu_device: AnyDevice) -> None:
    check(gpu_device, EXTENSIONS["m31.4"], 3, powers=False, layers=2, instances=2, log_inputs=2)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", one_and_others(range(6), always=[4]))
def test_more_circuits_agree_on_the_cpu(seed: int) -> None:
    field = EXTENSIONS["m31.4"]
    check("cpu", field, 10 + seed, layers=1 + seed % 4, instances=1 + seed, randoms=seed % 2 == 0)


@pytest.mark.parametrize(
    "form",
    one_and_others(
        [{"log_inputs": 3, "gates": 20, "instances": 40}, {"log_inputs": 6, "gates": 200}]
    ),
)
def test_layers_larger_than_a_workgroup(form: dict[str, Any]) -> None:
    """Rounds on large tables; the verifier checks them, because the model is slow."""
    field = EXTENSIONS["m31.4"]
    circuit, inputs, public = satisfied(field.modulus, 4, layers=2, **form)
    key = VerifyingKey.of(circuit, field)
    proof = Prover("cpu", key, circuit, instances=len(inputs)).prove(inputs, public)
    verify(key, circuit, public, proof, instances=len(inputs))


def test_batched_proofs_equal_single_proofs(device: AnyDevice) -> None:
    """A batch gives the same proofs as single calls."""
    field = EXTENSIONS["m31.4"]
    circuit, inputs, public = satisfied(field.modulus, 7, instances=3, log_inputs=2)
    key = VerifyingKey.of(circuit, field)
    proofs = Prover(device, key, circuit, batch=3).prove_many(inputs, public)
    for proof, row, public_row in zip(proofs, inputs, public, strict=True):
        assert proof == reference.prove(key, circuit, [row], [public_row])


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["m31.3", "bn254.fr"])
def test_layers_with_more_weights_than_a_thread_computes(gpu_device: AnyDevice, name: str) -> None:
    """GPU proofs equal those of the CPU, and verify."""
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


@pytest.mark.thorough
def test_concurrent_batches(gpu_device: AnyDevice, submitted: list[SubmittedStream]) -> None:
    """The host finishes one batch while the device works on the next; an error ends both."""
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
