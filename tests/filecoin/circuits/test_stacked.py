"""StackedCircuit: values, failures, counts of `stacked_circuit.rs` and of cuzk, and digests."""

from __future__ import annotations

from functools import cache

import pytest

from quod import r1cs
from quod.filecoin import sector_shape
from quod.filecoin.circuits import elements
from quod.filecoin.circuits.elements import hash_to_element
from quod.filecoin.circuits.private_inputs import porep_private_inputs
from quod.filecoin.circuits.stacked import StackedCircuit, label_message
from quod.filecoin.public_inputs import porep_inputs
from quod.filecoin.sectors import SECTORS
from quod.testing import assert_fails
from tests.filecoin.circuits.instances import fold, fold_gadget, sha256, stacked_instance
from tests.filecoin.circuits.row_counts import Counts, counts_of
from tests.filecoin.sealed import commit_output
from tests.support.thorough import one_and_others

CURVE = "bls12_381"
SMALL = StackedCircuit((8,), 2, 1)
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

LABEL_ROWS = 522_269
"""SHA-256 of a label's message and the packing of its digest."""

DECOMPOSITION_ROWS = 256
"""Constraints of the bits of a parent's label."""


@cache
def small_circuit() -> r1cs.Circuit:
    """The circuit of `SMALL` with `fold` in the place of SHA-256."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elements, "sha256", fold_gadget)
        return r1cs.trace(SMALL, CURVE)


def test_a_replica_satisfies_the_circuit() -> None:
    inputs, public = stacked_instance(SMALL, fold)
    values = small_circuit().values(inputs)
    assert not small_circuit().check(values)
    assert values[1 : 1 + small_circuit().public] == public


@pytest.mark.parametrize(
    ("name", "namespace"),
    one_and_others(
        [
            ("challenges[0]/exp_parents[7]/column", "challenges[0]/c_x/inclusion_proof"),
            ("replica_id", "challenges[0]/comm_r_last_proof"),
            ("comm_r", "comm_r"),
            ("comm_c", "challenges[0]/drg_parents[0]/inclusion_proof"),
            ("challenges[0]/comm_d_proofs/leaf", "challenges[0]/comm_d_proofs"),
            ("challenges[0]/comm_d_proofs/path[2]/index", "challenges[0]/comm_d_proofs"),
            ("challenges[0]/drg_parents[3]/column", "challenges[0]/drg_parents[3]/inclusion_proof"),
            ("challenges[0]/node", "challenges[0]/c_x/inclusion_proof"),
        ]
    ),
)
def test_a_changed_input_fails(name: str, namespace: str) -> None:
    """The failing constraints name the challenge and what is wrong in it."""
    inputs, _ = stacked_instance(SMALL, fold)
    value = inputs[name]
    changed = [value[0] ^ 1, *value[1:]] if isinstance(value, list) else int(str(value)) ^ 1
    assert_fails(small_circuit(), {**inputs, name: changed}, namespace)


@pytest.mark.thorough
def test_a_replica_with_sha256_satisfies_the_circuit() -> None:
    circuit = StackedCircuit((8,), 2, 1)
    inputs, public = stacked_instance(circuit, sha256)
    traced = r1cs.trace(circuit, CURVE)
    values = traced.values(inputs)
    assert not traced.check(values)
    assert values[1 : 1 + traced.public] == public


@pytest.mark.thorough
def test_create_label() -> None:
    """Upstream's test: layer 3 and node 22 are constants, the labels and replica_id are bits."""

    def function(system: r1cs.ConstraintSystem) -> None:
        parents = [system.private_bits(f"parent{index}", 256) for index in range(37)]
        replica_id = system.private_bits("replica_id", 256)
        node = [22 >> index & 1 for index in range(64)]
        hash_to_element(system, label_message(replica_id, 3, node, parents))

    circuit = r1cs.trace(function, CURVE)
    digest = "0759ddd2645a276700fad35fe3125ec00ac1c96ee74bdab68cc2edc81f8d301e"
    assert (circuit.constraints, circuit.wires - 1) == (532_025, 531_505)
    assert circuit.circuit_hash() == digest


CASES = {
    "2": (StackedCircuit((2,) * 3, 2, 1), 22,
          (1_206_212, 1_205_053, 2_884_516, 1_206_473, 2_619_453, 1_200_052, 307_340), None),
    "8": (StackedCircuit((8,), 2, 1), 22,
          (1_199_620, 1_198_525, 2_840_868, 1_199_929, 2_611_389, 1_195_188, 302_284),
          "b9e22ee377bc73c4e08f679252c4f87948f5812be8c95358a6bf87a7279a785f"),
    "8_4": (StackedCircuit((8, 4), 2, 1), 22,
            (1_296_576, 1_295_435, 3_090_742, 1_297_009, 2_812_863, 1_290_574, 329_874), None),
    "8_4_2": (StackedCircuit((8, 4, 2), 2, 1), 22,
              (1_346_982, 1_345_810, 3_228_935, 1_347_477, 2_915_976, 1_339_699, 345_133),
              "c9b69c85139ae04bac789fecb881052900c660c6337ab4b520eaa0c9f7293f75"),
    "PoRep 2 KiB": (StackedCircuit.of(sector_shape(2 * KIB)), 40,
                    (2_687_921, 2_685_673, 6_420_965, 2_689_006, 5_824_682, 2_674_908, 685_521),
                    "2c120b1125bd531d5a62b11932b2ae0e0cb47f455cea582994f97534e296bb42"),
}  # fmt: skip
"""Circuits with their inputs, counts (in the order of `Counts`) and digest.

The rows and inputs of the first four are asserted upstream; the other figures are of a model. A
sealed sector satisfies the last circuit.
"""


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("case", CASES)
def test_constraints(case: str) -> None:
    function, inputs, counts, digest = CASES[case]
    circuit = r1cs.trace(function, CURVE)
    assert circuit.public + 1 == inputs
    assert counts_of(circuit).numbers == counts
    if digest is not None:
        assert circuit.circuit_hash() == digest
    if case == "PoRep 2 KiB":
        output = commit_output()
        values = circuit.values(porep_private_inputs(output, 0))
        assert not circuit.check(values)
        challenges = [proof.comm_d_proofs.leaf_index for proof in output.vanilla_proofs[0]]
        config = output.registered_proof.config()
        commitments = (output.replica_id, output.comm_d, output.comm_r)
        assert values[1:40] == porep_inputs(config, *commitments, challenges)


@pytest.mark.thorough
def test_porep_of_32_gib() -> None:
    """The figures are those that cuzk records.

    cuzk counts a row for each input, too, with a coefficient in A.
    """
    circuit = r1cs.trace(StackedCircuit.of(sector_shape(32 * GIB)), CURVE)
    inputs = 1 + circuit.public
    assert inputs == 328
    assert counts_of(circuit) == Counts(
        130_278_869 - inputs, 130_169_893, 309_405_051 - inputs, 130_327_340, 282_656_500,
        129_753_292, 33_112_281,
    )  # fmt: skip


LEVEL_ROWS = {2: 314, 8: 530}
"""A level of an inclusion proof in TreeC."""

TREE_D_LEVEL_ROWS = 45_382
COLUMN_ROWS = {2: 311, 11: 598}


def test_rows_of_all_sizes() -> None:
    """The sum of the parts, whose constraints other tests count."""
    rows = {}
    for sector in SECTORS.values():
        layers, column = sector.layers, COLUMN_ROWS[sector.layers]
        inclusion = sum(LEVEL_ROWS[arity] for arity in sector.arities) + 2
        labels = layers * LABEL_ROWS + (6 + (layers - 1) * 14) * DECOMPOSITION_ROWS
        data = TREE_D_LEVEL_ROWS * sector.node_bits + 2
        challenge = data + 15 * (column + inclusion) + 65 + labels + 1 + inclusion
        base = 1 + DECOMPOSITION_ROWS + 2 + COLUMN_ROWS[2] + 1
        rows[sector.name] = base + sector.challenges * challenge
    expected = {
        "2KiB": 2_687_921, "8MiB": 3_844_929, "512MiB": 4_423_433, "32GiB": 130_278_541,
        "64GiB": 131_185_849,
    }  # fmt: skip
    assert {name: rows[name] for name in expected} == expected
