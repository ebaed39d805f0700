"""GKR with commitments to its inputs."""

from __future__ import annotations

from typing import Any

import pytest

from quod.commitment import HyperKzg, Hyrax, Ligero, ReferenceString, Scheme
from quod.errors import InputError, VerificationError
from quod.field import EXTENSIONS, NAMED, FieldSpec
from quod.gkr import Prover, VerifyingKey, verify
from tests.gkr.circuits import satisfied

FIELD = NAMED["bn254.fr"]


@pytest.mark.parametrize(
    ("name", "field"),
    [pytest.param("hyrax", FIELD, marks=pytest.mark.thorough),
     pytest.param("hyperkzg", FIELD, marks=pytest.mark.thorough), ("ligero", EXTENSIONS["m31.4"]),
     pytest.param("ligero", EXTENSIONS["goldilocks.2"], marks=pytest.mark.thorough)],
    ids=["hyrax", "hyperkzg", "ligero-m31.4", "ligero-goldilocks.2"],
)  # fmt: skip
def test_circuits_whose_inputs_are_committed_to(name: str, field: FieldSpec) -> None:
    schemes: dict[str, Scheme] = {
        "hyrax": Hyrax(),
        "ligero": Ligero(),
        "hyperkzg": HyperKzg(ReferenceString.of_tau(1 << 200, 5, insecure=True)),
    }
    p = field.modulus.value
    circuit, inputs, public = satisfied(field.modulus, 3, instances=3)
    key = VerifyingKey.of(circuit, field, commitment=schemes[name])
    proof = Prover("cpu", key, circuit, instances=3).prove(inputs, public)
    verify(key, circuit, public, proof, instances=3)
    wrong: Any = [*public[:2], [*public[2][:-1], (public[2][-1] + 1) % p]]
    with pytest.raises(VerificationError):
        verify(key, circuit, wrong, proof, instances=3)
    for place in range(0, len(proof), 29 if field is FIELD else 499):
        changed = bytearray(proof)
        changed[place] ^= 1 << place % 8
        with pytest.raises((VerificationError, InputError)):
            verify(key, circuit, public, bytes(changed), instances=3)
    with pytest.raises(InputError):
        verify(key, circuit, public, proof[:-1], instances=3)


def test_keys_depend_on_the_reference_string() -> None:
    # The circuit of the test before, whose kernels there are.
    circuit, inputs, public = satisfied(FIELD, 3, instances=3)
    keys = [
        VerifyingKey.of(circuit, FIELD, commitment=HyperKzg(string))
        for string in (ReferenceString.of_tau(tau, 5, insecure=True) for tau in (5, 6))
    ]
    proof = Prover("cpu", keys[0], circuit, instances=3).prove(inputs, public)
    verify(keys[0], circuit, public, proof, instances=3)
    with pytest.raises((VerificationError, InputError)):
        verify(keys[1], circuit, public, proof, instances=3)
