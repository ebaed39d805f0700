"""Private inputs from vanilla proofs, real ones among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from quod import r1cs
from quod.errors import InputError
from quod.field.array import words_to_integers
from quod.filecoin import sector_shape
from quod.filecoin.circuits import (
    EmptySectorUpdateCircuit,
    FallbackPoStCircuit,
    StackedCircuit,
)
from quod.filecoin.circuits.private_inputs import (
    porep_private_inputs,
    post_private_inputs,
    update_private_inputs,
)
from quod.filecoin.files import parse_commit, parse_post_sector
from quod.filecoin.public_inputs import porep_inputs, post_inputs
from quod.filecoin.records import (
    CommitOutput,
    MerkleProof,
    PoStSectorProof,
    SectorProof,
    UpdatePartitionProof,
)
from quod.filecoin.registered_proofs import seal_proof
from quod.filecoin.sectors import UpdateShape
from quod.r1cs.inputs import Inputs
from tests.filecoin.circuits.instances import post_instance
from tests.filecoin.sealed import commit_output, post_sector

CURVE = "bls12_381"
NODE = bytes(32)
NO_NODE = b"\xff" * 32
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def test_the_last_sector_of_a_window_post_is_repeated() -> None:
    circuit = FallbackPoStCircuit((8,), 3, 2)
    inputs, public = post_instance(circuit, 2, 2)
    traced = r1cs.trace(circuit, CURVE)
    values = traced.values(inputs)
    assert not traced.check(values)
    assert values[1 : 1 + traced.public] == public + public[-3:]


def test_a_sector_of_a_winning_post_has_a_challenge() -> None:
    """The inclusion proofs of one sector are those of as many sectors of the circuit."""
    circuit = FallbackPoStCircuit((8,), 3, 1)
    inputs, public = post_instance(circuit, 1, 3)
    traced = r1cs.trace(circuit, CURVE)
    values = traced.values(inputs)
    assert not traced.check(values)
    assert values[1 : 1 + traced.public] == public


def test_proofs_that_do_not_fit() -> None:
    circuit = FallbackPoStCircuit((8,), 1, 2)
    leaf = MerkleProof(NODE, NODE, ())
    three = PoStSectorProof(1, NODE, (SectorProof((leaf,) * 3, NODE, NODE),))
    with pytest.raises(InputError, match=r"proofs\[0\] has 3 inclusion proofs, not a multiple of"):
        post_private_inputs(circuit, [three])
    with pytest.raises(InputError, match="the circuit has 1 to 1 sectors, not 0"):
        post_private_inputs(circuit, [])
    four = PoStSectorProof(1, NODE, (SectorProof((leaf,) * 4, NODE, NODE),))
    with pytest.raises(InputError, match="the circuit has 1 to 1 sectors, not 2"):
        post_private_inputs(circuit, [four])
    large = PoStSectorProof(1, NODE, (SectorProof((leaf,) * 2, NO_NODE, NODE),))
    with pytest.raises(InputError, match="comm_c is not below the modulus"):
        post_private_inputs(circuit, [large])
    output = CommitOutput(seal_proof(5), ((),), NODE, NODE, NODE, NODE, NODE)
    with pytest.raises(InputError, match="partition 0 has no challenges"):
        porep_private_inputs(output, 0)
    with pytest.raises(InputError, match="the partition"):
        porep_private_inputs(output, 1)
    update = EmptySectorUpdateCircuit((8,), UpdateShape(1, 1, 2, (1,)))
    with pytest.raises(InputError, match="a partition of an update has no challenges"):
        update_private_inputs(update, UpdatePartitionProof(NODE, (), ()), 1, NODE, NODE, NODE)


@pytest.mark.thorough
def test_sealed_sectors_prove_spacetime() -> None:
    """A sector of 2 KiB in a WindowPoSt, twice, and in a WinningPoSt."""
    sector = sector_shape(2 * KIB)
    for circuit in (FallbackPoStCircuit.window(sector), FallbackPoStCircuit.winning(sector)):
        traced = r1cs.trace(circuit, CURVE)
        proof = post_sector(66 if circuit.challenges == 1 else circuit.challenges)
        inputs = post_private_inputs(circuit, [proof])
        values = traced.values(inputs)
        assert words_to_integers(traced.field, traced.witness(inputs).values) == values
        paths = proof.vanilla_proof[0].inclusion_proofs
        nodes = [path.leaf_index for path in paths]
        starts = range(0, len(nodes), circuit.challenges)
        sectors = [(proof.comm_r, nodes[start : start + circuit.challenges]) for start in starts]
        public = values[1 : 1 + traced.public]
        assert public == post_inputs(sectors, circuit.sectors)


@pytest.mark.fixtures
def test_a_real_proof_of_spacetime(shared_fixtures: Path) -> None:
    """A sector of 32 GiB with ten challenges."""
    sector = sector_shape(32 * GIB)
    data = (shared_fixtures / "filecoin" / "post.vproof").read_bytes()
    proof = parse_post_sector(data, sector, 10)
    circuit = FallbackPoStCircuit(sector.arities, 1, 10)
    traced = r1cs.trace(circuit, CURVE)
    values = public_values(traced, post_private_inputs(circuit, [proof]))
    (paths,) = proof.vanilla_proof
    challenges = [path.leaf_index for path in paths.inclusion_proofs]
    assert values == [int.from_bytes(proof.comm_r, "little"), *challenges]


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@pytest.mark.fixtures
def test_a_real_replica(shared_fixtures: Path) -> None:
    """The circuit of 8 MiB is satisfied by an output of C1, and so is that of one challenge."""
    data = (shared_fixtures / "filecoin" / "c2-input-8MiB.bincode").read_bytes()[4:-40]
    output = parse_commit(data).output
    (proofs,) = output.vanilla_proofs
    sector = sector_shape(8 * MIB)
    for count in (1, sector.challenges):
        first = CommitOutput(
            output.registered_proof, (proofs[:count],), output.comm_r, output.comm_d,
            output.replica_id, output.seed, output.ticket,
        )  # fmt: skip
        traced = r1cs.trace(StackedCircuit(sector.arities, sector.layers, count), CURVE)
        if count == 1:
            assert (traced.constraints, traced.wires - 1 - traced.public) == (1_922_750, 1_921_510)
        public = public_values(traced, porep_private_inputs(first, 0))
        nodes = [proof.comm_d_proofs.leaf_index for proof in proofs[:count]]
        commitments = (output.replica_id, output.comm_d, output.comm_r)
        assert public == porep_inputs(output.registered_proof.config(), *commitments, nodes)


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_a_replica_by_blocks_and_by_steps() -> None:
    """A sector of 2 KiB: the witness by blocks is that of all steps in their order."""
    inputs = porep_private_inputs(commit_output(), 0)
    traced = r1cs.trace(StackedCircuit.of(sector_shape(2 * KIB)), CURVE)
    witness = traced.witness(inputs)
    assert words_to_integers(traced.field, witness.values) == traced.values(inputs)


def public_values(circuit: r1cs.Circuit, inputs: Inputs) -> list[int]:
    """Return the public values of a witness, which is checked."""
    values = circuit.witness(inputs).values[1 : 1 + circuit.public]
    return words_to_integers(circuit.field, values)
