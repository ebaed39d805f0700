"""Paths of the note commitment tree in circuits: their nodes are computed ahead of their wires."""

from __future__ import annotations

import random

import pytest

from quod import r1cs
from quod.device.emulated.device import EmulatedDevice
from quod.field.array import words_to_integers
from quod.hash.sapling_pedersen import sapling_node
from quod.r1cs.inputs import Inputs
from quod.zcash.circuit.tree import root_of_path
from quod.zcash.protocol import MASP, SAPLING, Protocol
from tests.support.thorough import one_and_others

_DEPTH = 3


def path_circuit(protocol: Protocol) -> r1cs.Circuit:
    def function(system: r1cs.ConstraintSystem) -> None:
        root, _ = root_of_path(system, system.private("leaf"), protocol, _DEPTH)
        system.output("root", root)

    return r1cs.trace(function, "bls12_381")


def random_path(seed: int, prime: int) -> tuple[dict[str, int], int]:
    """Return the inputs of a path, and its root in Sapling."""
    draw = random.Random(seed)
    node = draw.choice((0, 1, prime - 1, draw.randrange(prime)))
    inputs = {"leaf": node}
    for level in range(_DEPTH):
        sibling, bit = draw.randrange(prime), draw.getrandbits(1)
        inputs |= {f"path[{level}]/sibling": sibling, f"path[{level}]/bit": bit}
        node = sapling_node(level, *((sibling, node) if bit else (node, sibling)))
    return inputs, node


@pytest.mark.parametrize("executor", [None, *one_and_others(["ir", "ptx", "wgsl"], always=[])])
def test_paths_on_every_device(executor: str | None) -> None:
    circuit = path_circuit(SAPLING)
    (calls,) = circuit.program.schedule.shortcuts
    assert (calls.name, len(calls.waves)) == ("pedersen_node", _DEPTH)
    device = None if executor is None else EmulatedDevice(executor=executor)
    paths = [random_path(seed, circuit.field.value) for seed in range(2 if executor else 9)]
    batch: list[Inputs] = [inputs for inputs, _ in paths]
    computed = circuit.witnesses(batch, device=device)
    for witness, (inputs, root) in zip(computed, paths, strict=True):
        values = words_to_integers(circuit.field, witness.values)
        assert values[1] == root
        assert values == circuit.values(inputs)
    single = circuit.witness(batch[0])
    assert words_to_integers(circuit.field, single.values)[1] == paths[0][1]


def test_generators_of_masp() -> None:
    """The last level's node has other generators, and so has the root."""
    circuit = path_circuit(MASP)
    inputs, root = random_path(1, circuit.field.value)
    values = words_to_integers(circuit.field, circuit.witness(inputs).values)
    assert values == circuit.values(inputs)
    assert values[1] != root
