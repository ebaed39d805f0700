"""Private inputs of Filecoin's circuits from vanilla proofs, under the names of their records.

`quod.filecoin.public_inputs` has the public ones, which the circuits compute from the private ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from quod.errors import InputError
from quod.filecoin.circuits.empty_sector_update import EmptySectorUpdateCircuit
from quod.filecoin.circuits.fallback_post import FallbackPoStCircuit
from quod.filecoin.nodes import elements_of_nodes, node_to_element
from quod.filecoin.records import (
    CommitOutput,
    PathElement,
    PoRepProof,
    PoStSectorProof,
    UpdatePartitionProof,
)
from quod.validation import whole_number

CircuitInputs = dict[str, "int | list[int]"]
"""The inputs of a circuit by name."""


def porep_private_inputs(output: CommitOutput, partition: int) -> CircuitInputs:
    """Return the inputs of `StackedCircuit` for a partition of an output of C1.

    Raises InputError if the output has no such partition, or a node that is not below the modulus.
    """
    partitions = output.vanilla_proofs
    proofs = partitions[whole_number("the partition", partition, 0, len(partitions) - 1)]
    if not proofs:
        raise InputError(f"partition {partition} has no challenges")
    inputs = _element_inputs(
        {
            "replica_id": output.replica_id,
            "comm_d": output.comm_d,
            "comm_r": output.comm_r,
            "comm_r_last": proofs[0].comm_r_last_proof.root,
            "comm_c": proofs[0].replica_column_proofs.c_x.inclusion_proof.root,
        }
    )
    for index, proof in enumerate(proofs):
        inputs |= _challenge_inputs(f"challenges[{index}]", proof)
    return inputs


def _challenge_inputs(name: str, proof: PoRepProof) -> CircuitInputs:
    """Return the inputs of a challenge; the circuit computes the node's own column and encoding."""
    columns = proof.replica_column_proofs
    inputs = _element_inputs({f"{name}/comm_d_proofs/leaf": proof.comm_d_proofs.leaf})
    inputs[f"{name}/node"] = columns.c_x.column.index
    inputs |= _path_inputs(f"{name}/comm_d_proofs", proof.comm_d_proofs.path)
    inputs |= _path_inputs(f"{name}/comm_r_last_proof", proof.comm_r_last_proof.path)
    for kind, column_proof in columns.columns.items():
        if column_proof is not columns.c_x:
            column_name = f"{name}/{kind}/column"
            inputs[column_name] = _elements(column_name, column_proof.column.rows)
        inputs |= _path_inputs(f"{name}/{kind}/inclusion_proof", column_proof.inclusion_proof.path)
    return inputs


def post_private_inputs(
    circuit: FallbackPoStCircuit, proofs: Sequence[PoStSectorProof]
) -> CircuitInputs:
    """Return the inputs of a PoSt from the vanilla proofs of its sectors.

    In a WinningPoSt, a sector of the circuit has one of the sector's inclusion proofs. The last
    sector is repeated if there are fewer than the circuit has. Raises InputError if there is no
    sector, if there are too many, for a wrong number of inclusion proofs, and for a node that is
    not below the modulus.
    """
    sectors = [
        sector_inputs
        for index, proof in enumerate(proofs)
        for sector_inputs in _sectors_inputs(f"proofs[{index}]", proof, circuit.challenges)
    ]
    if not 1 <= len(sectors) <= circuit.sectors:
        raise InputError(f"the circuit has 1 to {circuit.sectors} sectors, not {len(sectors)}")
    sectors += sectors[-1:] * (circuit.sectors - len(sectors))
    return {
        f"sectors[{index}]/{name}": value
        for index, sector_inputs in enumerate(sectors)
        for name, value in sector_inputs.items()
    }


def _sectors_inputs(name: str, proof: PoStSectorProof, challenges: int) -> list[CircuitInputs]:
    """Return the inputs of sectors with `challenges` inclusion proofs each.

    name: the name of the vanilla proof in errors.
    """
    result = []
    for sector in proof.vanilla_proof:
        inclusion_proofs = sector.inclusion_proofs
        if not inclusion_proofs or len(inclusion_proofs) % challenges:
            raise InputError(
                f"{name} has {len(inclusion_proofs)} inclusion proofs, not a multiple of "
                f"{challenges}"
            )
        commitments = {
            "comm_r": proof.comm_r, "comm_c": sector.comm_c, "comm_r_last": sector.comm_r_last,
        }  # fmt: skip
        for start in range(0, len(inclusion_proofs), challenges):
            inputs = _element_inputs(commitments)
            for number, each in enumerate(inclusion_proofs[start : start + challenges]):
                proof_name = f"inclusion_proofs[{number}]"
                inputs |= _element_inputs({f"{proof_name}/leaf": each.leaf})
                inputs |= _path_inputs(proof_name, each.path)
            result.append(inputs)
    return result


def update_private_inputs(
    circuit: EmptySectorUpdateCircuit, proof: UpdatePartitionProof, k_and_h_select: int,
    comm_r_old: bytes, comm_d_new: bytes, comm_r_new: bytes,
) -> CircuitInputs:  # fmt: skip
    """Return the inputs of a partition of an update.

    k_and_h_select: the partition and the choice of h (`quod.filecoin.updates.k_and_h_select`).
    Raises InputError if the proof has no challenges, and for a node that is not below the modulus.
    """
    if not proof.challenge_proofs:
        raise InputError("a partition of an update has no challenges")
    first = proof.challenge_proofs[0]
    inputs = _element_inputs(
        {
            "comm_r_old": comm_r_old,
            "comm_d_new": comm_d_new,
            "comm_r_new": comm_r_new,
            "comm_c": proof.comm_c,
            "root_r_old": first.proof_r_old.root,
            "root_r_new": first.proof_r_new.root,
        }
    )
    inputs["k_and_h_select"] = k_and_h_select
    inputs["apex_leafs"] = _elements("apex_leafs", proof.apex_leafs)
    # A path in TreeD leads to an apex leaf, through the apex tree to its root, and to comm_d_new.
    apex_bits = circuit.shape.apex_leaves.bit_length() - 1
    partition_path = first.proof_d_new.path[circuit.challenge_bits :]
    inputs |= _sibling_inputs("partition_path", partition_path)
    for index, challenge in enumerate(proof.challenge_proofs):
        name = f"challenge_proofs[{index}]"
        inputs |= _element_inputs(
            {
                f"{name}/proof_r_old/leaf": challenge.proof_r_old.leaf,
                f"{name}/proof_d_new/leaf": challenge.proof_d_new.leaf,
            }
        )
        data_path = challenge.proof_d_new.path[: circuit.challenge_bits - apex_bits]
        inputs |= _sibling_inputs(f"{name}/proof_r_old/path", challenge.proof_r_old.path)
        inputs |= _sibling_inputs(f"{name}/proof_r_new/path", challenge.proof_r_new.path)
        inputs |= _sibling_inputs(f"{name}/proof_d_new/path", data_path)
    return inputs


def _element_inputs(nodes: Mapping[str, bytes]) -> CircuitInputs:
    """Return nodes as elements; an error names the input."""
    return {name: node_to_element(name, node) for name, node in nodes.items()}


def _path_inputs(name: str, path: Sequence[PathElement]) -> CircuitInputs:
    """Return the inputs of `root_of_private_path`."""
    indices: CircuitInputs = {
        f"{name}/path[{level}]/index": element.index for level, element in enumerate(path)
    }
    return indices | _sibling_inputs(f"{name}/path", path)


def _sibling_inputs(name: str, path: Sequence[PathElement]) -> CircuitInputs:
    """Return the siblings of each level of a path."""
    return {
        f"{name}[{level}]/hashes": _elements(f"{name}[{level}]/hashes", element.hashes)
        for level, element in enumerate(path)
    }


def _elements(name: str, nodes: Iterable[bytes]) -> list[int]:
    """Return the elements of nodes; an error names the node's index."""
    sequence = list(nodes)
    elements = elements_of_nodes(sequence)
    if elements is not None:
        return elements
    return [node_to_element(f"{name}[{index}]", node) for index, node in enumerate(sequence)]
