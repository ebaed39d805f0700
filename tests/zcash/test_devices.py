"""Sapling's Output under the key of the ceremony: one seed gives the same bytes on every device."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from quod import zcash as sapling
from quod.device.protocol import AnyDevice, in_host_memory
from quod.groth16 import ProvingKey
from quod.zcash.output import output_circuit, output_inputs

ADDRESS = "aef180f6e34e354b888f81a6b13ea336ddb7a67bb09a0e68e9d3cfb39210831ea3a296ba09a922060fd38b"
SEED = bytes(range(32))


@pytest.mark.thorough
@pytest.mark.fixtures
def test_the_same_proof_on_every_device(device: AnyDevice, shared_fixtures: Path) -> None:
    circuit = output_circuit()
    note = sapling.Note.from_seed(
        sapling.PaymentAddress.from_bytes(bytes.fromhex(ADDRESS)), 5000, SEED
    )
    inputs = output_inputs(note, sapling.ephemeral_secret(SEED), 1 << 200)
    parameters = shared_fixtures / "zcash" / "sapling-output.params"
    with closing(ProvingKey.from_bellman(parameters, circuit.r1cs)) as key:
        expected = key.prove(circuit.witness(inputs), seed=7)
        assert key.verifying_key.verify(expected[1], expected[0])
    with closing(ProvingKey.from_bellman(parameters, circuit.r1cs, device=device)) as key:
        assert key.prove(circuit.witness(inputs), seed=7) == expected
        if not in_host_memory(device):
            (resident,) = circuit.witnesses([inputs], device=device)
            assert key.prove(resident, seed=7) == expected
