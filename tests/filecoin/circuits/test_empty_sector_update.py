"""EmptySectorUpdateCircuit: values, failures, counts of upstream's tests, and a digest."""

from __future__ import annotations

from functools import cache

import pytest

from quod import r1cs
from quod.filecoin import sector_shape
from quod.filecoin.circuits import elements
from quod.filecoin.circuits.empty_sector_update import EmptySectorUpdateCircuit
from quod.filecoin.circuits.private_inputs import update_private_inputs
from quod.filecoin.public_inputs import update_inputs
from quod.filecoin.sectors import UpdateShape
from quod.filecoin.updates import k_and_h_select
from quod.testing import assert_fails
from tests.filecoin.circuits.instances import fold, fold_gadget, sha256, update_instance
from tests.filecoin.circuits.row_counts import Counts, counts_of
from tests.filecoin.sealed import update_partition
from tests.support.thorough import one_and_others

CURVE = "bls12_381"
SMALL = EmptySectorUpdateCircuit((8, 4), UpdateShape(2, 4, 4, (1, 2, 3, 2, 1, 4)))
KIB, GIB = 1 << 10, 1 << 30
SHA_NODE_ROWS = 45_379


@cache
def small_circuit() -> r1cs.Circuit:
    """The circuit of `SMALL` with `fold` in the place of SHA-256."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elements, "sha256", fold_gadget)
        return r1cs.trace(SMALL, CURVE)


@pytest.mark.parametrize(("partition", "choice"), one_and_others([(1, 2), (0, 5)]))
def test_an_update_satisfies_the_circuit(partition: int, choice: int) -> None:
    inputs, public = update_instance(SMALL, partition, choice, fold)
    values = small_circuit().values(inputs)
    assert not small_circuit().check(values)
    assert values[1 : 1 + small_circuit().public] == public


@pytest.mark.parametrize(
    ("name", "namespace"),
    one_and_others(
        [
            ("challenge_proofs[1]/proof_r_old/leaf", "challenge_proofs[1]/proof_r_old"),
            ("k_and_h_select", "apex"),
            ("comm_r_old", "comm_r_old"),
            ("comm_d_new", "apex"),
            ("comm_c", "comm_r_new"),
            ("root_r_new", "challenge_proofs[3]/proof_r_new"),
            ("apex_leafs", "apex"),
            ("partition_path[0]/hashes", "apex"),
            ("challenge_proofs[2]/proof_d_new/leaf", "challenge_proofs[2]/proof_d_new"),
            ("challenge_proofs[2]/proof_r_new/path[1]/hashes", "challenge_proofs[2]/proof_r_new"),
        ]
    ),
)
def test_a_changed_input_fails(name: str, namespace: str) -> None:
    """The failing constraints name the challenge and what is wrong in it."""
    inputs, _ = update_instance(SMALL, 1, 2, fold)
    value = inputs[name]
    changed = [value[0] ^ 1, *value[1:]] if isinstance(value, list) else int(str(value)) ^ 1
    assert_fails(small_circuit(), {**inputs, name: changed}, namespace)


@pytest.mark.thorough
def test_an_update_with_sha256_satisfies_the_circuit() -> None:
    circuit = EmptySectorUpdateCircuit((8, 4), UpdateShape(1, 2, 8, (1,) * 6))
    inputs, public = update_instance(circuit, 0, 0, sha256)
    traced = r1cs.trace(circuit, CURVE)
    values = traced.values(inputs)
    assert not traced.check(values)
    assert values[1:5] == public


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_constraints_of_2_kib() -> None:
    """The counts and digest of a model; an update of a sealed sector satisfies the circuit."""
    sector = sector_shape(2 * KIB)
    function = EmptySectorUpdateCircuit.of(sector)
    circuit = r1cs.trace(function, CURVE)
    assert circuit.public + 1 == 5
    # A model counts one coefficient of A more, which is 0.
    assert counts_of(circuit) == Counts(
        1_705_039, 1_703_569, 4_030_887, 1_706_537, 3_616_648, 1_697_189, 444_403
    )
    assert circuit.circuit_hash() == (
        "c787aea9329f4525b3bcde14533b9b775654f6a9afe0a7c671783c8bd4f1f7a5"
    )
    rows = circuit.profile().within
    assert (rows["digests[0]"], rows["apex"]) == (568, 7 * SHA_NODE_ROWS + 1)
    proof, comm_r_old, comm_d_new, comm_r_new = update_partition()
    choice = k_and_h_select(sector, 0)
    values = circuit.values(
        update_private_inputs(function, proof, choice, comm_r_old, comm_d_new, comm_r_new)
    )
    assert not circuit.check(values)
    assert values[1:5] == update_inputs(sector, 0, comm_r_old, comm_d_new, comm_r_new)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arities", "shape", "rows"),
    [
        ((8, 4), UpdateShape(1, 10, 8, (1,) * 6), 1_248_389),
        ((8, 8, 2), sector_shape(4 * KIB).update, 2_165_109),
        ((8, 8, 4), UpdateShape(1, 10, 8, (1,) * 6), 2_620_359),
        ((8, 8, 8), sector_shape(16 * KIB).update, 6_300_021),
        ((8, 8, 8, 2), sector_shape(32 * KIB).update, 6_760_091),
    ],
)
def test_rows_of_small_sectors(arities: tuple[int, ...], shape: UpdateShape, rows: int) -> None:
    assert r1cs.trace(EmptySectorUpdateCircuit(arities, shape), CURVE).constraints == rows


def test_constraints_of_32_gib() -> None:
    circuit = r1cs.trace(EmptySectorUpdateCircuit.of(sector_shape(32 * GIB)), CURVE)
    # A model counts one coefficient of A more, which is 0.
    assert counts_of(circuit) == Counts(
        81_049_499, 80_978_488, 190_374_907, 81_118_127, 172_187_492, 80_743_581, 20_983_607
    )
    assert circuit.public == 4


@pytest.mark.thorough
@pytest.mark.parametrize(("apex_leaves", "partitions", "rows"), [(16, 4, 771_448), (8, 8, 453_797)])
def test_rows_of_the_apex(apex_leaves: int, partitions: int, rows: int) -> None:
    """The apex tree and the path from its root to comm_d_new."""
    shape = UpdateShape(partitions, 1, apex_leaves, (1,) * 6)
    circuit = r1cs.trace(EmptySectorUpdateCircuit((8, 8, 8), shape), CURVE)
    assert circuit.profile().within["apex"] == rows
