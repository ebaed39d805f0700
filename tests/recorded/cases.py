"""Small proofs, keys and files of each protocol, made from fixed inputs.

Each case writes files into a folder and checks files of that kind. `python -m tests.recorded.make`
writes them to tests/data/recorded; the tests make them again and compare.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from quod.ceremony import Beacon, add_beacon, new_powers, prepare
from quod.ceremony import verify as verify_powers
from quod.commitment import HyperKzg, Hyrax, Ligero, Raw, ReferenceString, Scheme
from quod.device import open_device
from quod.field import EXTENSIONS, NAMED, FieldSpec, from_integers
from quod.gkr import (
    Prover,
    Reduction,
    VerifyingKey,
    read_proof,
    read_public_inputs,
    read_verifying_key,
    verify,
    write_proof,
    write_public_inputs,
    write_verifying_key,
)
from quod.groth16 import Proof, ProvingKey
from quod.groth16 import VerifyingKey as Groth16Key
from quod.groth16.phase2 import add_beacon as beacon_key
from quod.groth16.phase2 import new_key, verify_from_r1cs
from quod.inference import Prover as NetworkProver
from quod.inference import read_proof as read_inference
from quod.inference import read_verifying_key as read_network_key
from quod.inference import verify as verify_inference
from quod.inference import write_proof as write_inference
from quod.inference import write_verifying_key as write_network_key
from quod.layered import read_circuit, write_circuit
from quod.lookup import Range, Statement, prove_committed, verify_committed
from quod.transcript import Hash
from tests.commitment import tables
from tests.gkr.circuits import satisfied
from tests.inference.networks import image_rows, perceptron_of

DATA = Path(__file__).resolve().parents[1] / "data"
RECORDED = DATA / "recorded"
_CIRCUITS = DATA / "formats"
_BEACON = Beacon(bytes(range(1, 33)), 10)


class Case(NamedTuple):
    """One protocol with fixed parameters.

    write: Writes the case's files into a folder.
    check: Reads the files of a folder and verifies them; raises a QuodError otherwise.
    """

    write: Callable[[Path], None]
    check: Callable[[Path], None]


def _field(name: str) -> FieldSpec:
    return EXTENSIONS[name] if name in EXTENSIONS else NAMED[name]


def _gkr(field: str, reduction: Reduction, scheme: Scheme, hash: Hash, instances: int) -> Case:
    challenges = _field(field)
    circuit, inputs, public = satisfied(challenges.modulus, 7, instances=instances)
    rows = (inputs, public) if instances > 1 else (inputs[0], public[0])

    def write(folder: Path) -> None:
        key = VerifyingKey.of(
            circuit, challenges, commitment=scheme, hash=hash, reduction=reduction
        )  # fmt: skip
        prover = Prover("cpu", key, circuit, instances=instances)
        write_circuit(folder / "circuit.qcir", circuit)
        write_verifying_key(folder / "key.json", key, circuit)
        write_public_inputs(folder / "public.json", public)
        write_proof(folder / "proof.qgkp", key, instances, prover.prove(*rows))

    def check(folder: Path) -> None:
        circuit = read_circuit(folder / "circuit.qcir")
        key = read_verifying_key(folder / "key.json", circuit)
        file = read_proof(folder / "proof.qgkp")
        file.check(key, instances)
        values = read_public_inputs(folder / "public.json", circuit)
        single = values if instances > 1 else values[0]
        verify(key, circuit, single, file.proof, instances=file.instances)

    return Case(write, check)


def _lookup(field: str, scheme: Scheme, hash: Hash) -> Case:
    challenges = _field(field)
    generator = random.Random(5)
    column = [generator.randrange(16) for _ in range(32)]
    statement = Statement(challenges, 1, 5, Range(4))

    def write(folder: Path) -> None:
        values = from_integers(challenges.modulus, column)
        proof = prove_committed("cpu", challenges, [values], Range(4), scheme=scheme, hash=hash)
        (folder / "proof.bin").write_bytes(proof)

    def check(folder: Path) -> None:
        verify_committed(statement, (folder / "proof.bin").read_bytes(), scheme=scheme, hash=hash)

    return Case(write, check)


def _opening(scheme: Scheme, field: str) -> Case:
    statement = tables.statement(_field(field), 4, 2)

    def write(folder: Path) -> None:
        proof, state = tables.prove(scheme, open_device("cpu"), statement)
        (folder / "opening.bin").write_bytes(proof)
        (folder / "state.bin").write_bytes(state)

    def check(folder: Path) -> None:
        state = tables.verify(scheme, statement, (folder / "opening.bin").read_bytes())
        assert state == (folder / "state.bin").read_bytes()

    return Case(write, check)


def _inference() -> Case:
    images = image_rows(2, 3, seed=2)

    def write(folder: Path) -> None:
        prover = NetworkProver("cpu", perceptron_of((3, 4, 2, 3), seed=1))
        inference = prover.prove(images)
        write_network_key(folder / "key.qivk", prover.key)
        write_inference(folder / "proof.qinp", prover.key, inference.logits, inference.proof)

    def check(folder: Path) -> None:
        key, proof = read_network_key(folder / "key.qivk"), read_inference(folder / "proof.qinp")
        proof.check(key, len(images))
        verify_inference(key, images, proof.logits, proof.proof)

    return Case(write, check)


def _groth16(curve: str) -> Case:
    circuit = _CIRCUITS / curve

    def write(folder: Path) -> None:
        key = ProvingKey.from_zkey(circuit / "circuit.zkey")
        proof, public = key.prove(circuit / "witness.wtns", seed=3)
        (folder / "proof.json").write_text(proof.to_json())
        (folder / "public.json").write_text(json.dumps([str(value) for value in public]))

    def check(folder: Path) -> None:
        key = Groth16Key.from_json(circuit / "verification_key.json")
        proof = Proof.from_json(folder / "proof.json")
        assert key.verify(json.loads((folder / "public.json").read_text()), proof)

    return Case(write, check)


def _powers(curve: str) -> Case:
    def write(folder: Path) -> None:
        new_powers(curve, 2, folder / "new.ptau")
        add_beacon(folder / "new.ptau", folder / "beacon.ptau", _BEACON, name="recorded")
        prepare(folder / "beacon.ptau", folder / "prepared.ptau")

    def check(folder: Path) -> None:
        for name in ("beacon.ptau", "prepared.ptau"):
            verify_powers(folder / name)

    return Case(write, check)


def _circuit_key(curve: str) -> Case:
    circuit = _CIRCUITS / curve / "circuit.r1cs"

    def write(folder: Path) -> None:
        prepare(_CIRCUITS / curve / "powers.ptau", folder / "powers.ptau")
        new_key(circuit, folder / "powers.ptau", folder / "initial.zkey")
        beacon_key(folder / "initial.zkey", folder / "circuit.zkey", _BEACON, name="recorded")

    def check(folder: Path) -> None:
        verify_from_r1cs(circuit, folder / "powers.ptau", folder / "circuit.zkey")

    return Case(write, check)


CASES: dict[str, Case] = {
    "gkr-places-raw": _gkr("m31.4", Reduction.TWO_PHASE, Raw(), Hash.SHA3_256, 1),
    "gkr-places-ligero": _gkr("goldilocks.2", Reduction.TWO_PHASE, Ligero(), Hash.SHA_256, 4),
    "gkr-places-bn254": _gkr("bn254.fr", Reduction.TWO_PHASE, Raw(), Hash.SHA3_256, 2),
    "gkr-columns-raw": _gkr("m31.4", Reduction.DATA_PARALLEL, Raw(), Hash.SHA3_256, 4),
    "gkr-columns-ligero": _gkr("koala_bear.4", Reduction.DATA_PARALLEL, Ligero(), Hash.SHA3_256, 4),
    "lookup-raw": _lookup("m31.4", Raw(), Hash.SHA3_256),
    "lookup-ligero": _lookup("koala_bear.4", Ligero(), Hash.SHA_256),
    "opening-raw": _opening(Raw(), "m31.4"),
    "opening-hyrax": _opening(Hyrax(), "bn254.fr"),
    "opening-ligero": _opening(Ligero(), "goldilocks.2"),
    "opening-hyperkzg": _opening(
        HyperKzg(ReferenceString.of_tau(0x1234567890ABCDEF << 180, 5, insecure=True)),
        "bn254.fr",
    ),
    "inference": _inference(),
    "groth16-bn254": _groth16("bn254"),
    "groth16-bls12_381": _groth16("bls12_381"),
    "circuit-key-bn254": _circuit_key("bn254"),
    "circuit-key-bls12_381": _circuit_key("bls12_381"),
    "powers-bn254": _powers("bn254"),
    "powers-bls12_381": _powers("bls12_381"),
}
