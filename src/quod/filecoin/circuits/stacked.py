"""StackedCircuit, the circuit of PoRep: a replica encodes the data of a sector.

A proof of one partition states, for public replica_id, comm_d, comm_r and challenges:

- comm_r = Poseidon(comm_c, comm_r_last): comm_c is the root of TreeC, whose leaves hash the columns
  of labels; comm_r_last is the root of TreeRLast, whose leaves are the nodes of the replica.
- For each challenged node: its data is a leaf of TreeD, whose root is comm_d. The columns of its 6
  DRG parents and of its 8 expander parents are leaves of TreeC. Its label in each layer is the
  SHA-256 hash of replica_id, the layer, the node and its parents' labels: those of the DRG parents
  in this layer, those of the expander parents in the preceding layer. Its label in the last layer
  plus its data is a leaf of TreeRLast. Its own column of labels is a leaf of TreeC.

The constraints are those of `StackedCircuit` of rust-fil-proofs,
`storage-proofs-porep/src/stacked/circuit/{proof,params,create_label}.rs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice

from quod.errors import InputError
from quod.filecoin.circuits.elements import (
    hash_to_element,
    message_bits,
    public_element,
    public_name,
)
from quod.filecoin.circuits.trees import (
    Arities,
    binary_arities,
    leaf_count,
    prove_inclusion,
    tree_d_node,
    tree_r_node,
)
from quod.filecoin.graph import DRG_PARENTS, EXPANDER_PARENTS
from quod.filecoin.labels import LABEL_PARENTS
from quod.filecoin.sectors import SectorShape
from quod.frozen import frozen
from quod.hash.neptune import PARTIAL_ROUNDS
from quod.r1cs.gadgets.bellman.packing import publish_packed
from quod.r1cs.gadgets.neptune import neptune_hash
from quod.r1cs.names import name_here
from quod.r1cs.signal import Signal
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import shown, whole_number

_LAYER_BITS = 32
_NODE_BITS = 64
_PADDING_BITS = 160
"""Zeros between the node and the first parent, which starts the second block."""

Column = list[Signal]
"""The labels of a node, one for each layer."""


@frozen
class StackedCircuit:
    """The circuit of one partition of PoRep, a function for `quod.r1cs.trace` over BLS12-381.

    arities: those of TreeC and TreeRLast; their product is the number of nodes of a sector.
    layers: the number of layers of labels: 2, or 11 from 32 GiB on.
    challenges: the number of challenged nodes: 2, or 18 from 32 GiB on.

    Public wires are replica_id, comm_d and comm_r; then for each challenge the index of the data in
    TreeD, the indices of the 6 and 8 parents, and the challenged node three times: as the node of
    its labels, in TreeRLast and in TreeC.
    Raises InputError for numbers that no circuit has.
    """

    arities: Arities
    layers: int
    challenges: int

    def __post_init__(self) -> None:
        leaf_count(self.arities)
        challenges = whole_number("the number of challenges", self.challenges, 1)
        self.__dict__["challenges"] = challenges
        if self.layers not in PARTIAL_ROUNDS:
            raise InputError(
                f"the number of layers must be an arity of Poseidon: "
                f"{', '.join(map(str, PARTIAL_ROUNDS))}, not {shown(self.layers)}"
            )

    @classmethod
    def of(cls, sector: SectorShape) -> StackedCircuit:
        """Return the circuit of a sector size."""
        return cls(sector.arities, sector.layers, sector.challenges)

    @property
    def nodes(self) -> int:
        """The number of nodes of a sector."""
        return leaf_count(self.arities)

    def __call__(self, system: ConstraintSystem) -> None:
        """Add the circuit to an empty system."""
        replica_id = public_element(system, "replica_id")
        with system.namespace("replica_id bits"):
            replica_id_bits = message_bits(system, replica_id)
        comm_d = public_element(system, "comm_d")
        comm_r = public_element(system, "comm_r")
        comm_r_last, comm_c = system.private("comm_r_last"), system.private("comm_c")
        with system.namespace("comm_r"):
            system.enforce(comm_r, system.one, neptune_hash(system, [comm_c, comm_r_last]))
        for index in range(self.challenges):
            with system.namespace(f"challenges[{index}]"):
                system.repeat(self._challenge, replica_id_bits, comm_d, comm_r_last, comm_c)

    def _challenge(
        self, system: ConstraintSystem, replica_id_bits: Sequence[Operand], comm_d: Signal,
        comm_r_last: Signal, comm_c: Signal,
    ) -> None:  # fmt: skip
        """Constrain a challenged node: its data, parents, labels, encoding and column."""
        with system.namespace("comm_d_proofs"):
            data = system.private(name_here(system, "leaf"))
            prove_inclusion(system, data, binary_arities(self.nodes), tree_d_node, comm_d)
        drg_parents = [
            self._parent(system, f"drg_parents[{index}]", comm_c) for index in range(DRG_PARENTS)
        ]
        exp_parents = [
            self._parent(system, f"exp_parents[{index}]", comm_c)
            for index in range(EXPANDER_PARENTS)
        ]
        node = system.private_bits(name_here(system, "node"), _NODE_BITS)
        publish_packed(system, public_name(name_here(system, "node")), node)
        column: Column = []
        for layer in range(1, self.layers + 1):
            parents = [labels[layer - 1] for labels in drg_parents]
            if layer > 1:
                parents += [labels[layer - 2] for labels in exp_parents]
            with system.namespace(f"labels[{layer}]"):
                column.append(create_label(system, replica_id_bits, layer, node, parents))
        with system.namespace("comm_r_last_proof"):
            encoded = system.wire("leaf")
            system.enforce(column[-1] + data, system.one, encoded)
            prove_inclusion(system, encoded, self.arities, tree_r_node, comm_r_last)
        with system.namespace("c_x"):
            self._prove_column(system, column, comm_c)

    def _parent(self, system: ConstraintSystem, name: str, comm_c: Signal) -> Column:
        """Declare the column of a parent, and constrain it to be in TreeC."""
        with system.namespace(name):
            column: Column = system.repeat(self._private_column, comm_c)
        return column

    def _private_column(self, system: ConstraintSystem, comm_c: Signal) -> Column:
        """Declare a column of labels that is in TreeC."""
        column = system.private("column", self.layers)
        self._prove_column(system, column, comm_c)
        return column

    def _prove_column(self, system: ConstraintSystem, column: Column, comm_c: Signal) -> None:
        """Constrain the hash of a column to be a leaf of TreeC."""
        with system.namespace("column"):
            leaf = neptune_hash(system, column)
        with system.namespace("inclusion_proof"):
            prove_inclusion(system, leaf, self.arities, tree_r_node, comm_c)


def create_label(
    system: ConstraintSystem, replica_id_bits: Sequence[Operand], layer: int,
    node: Sequence[Operand], parents: Sequence[Signal],
) -> Signal:  # fmt: skip
    """Compute the label of a node in a layer; 523,805 constraints in layer 1, 525,853 in others.

    replica_id_bits: the 256 bits of `message_bits`.
    layer: the number of the layer, from 1.
    node: the 64 bits of the node's index, least significant first.
    parents: the labels of the 6 DRG parents in this layer, and except in layer 1 those of the 8
        expander parents in the preceding layer.
    """
    with system.namespace("parents"):
        parent_bits = [message_bits(system, parent) for parent in parents]
    return hash_to_element(system, label_message(replica_id_bits, layer, node, parent_bits))


def label_message(
    replica_id_bits: Sequence[Operand], layer: int, node: Sequence[Operand],
    parent_bits: Sequence[Sequence[Operand]],
) -> list[Operand]:  # fmt: skip
    """Return the message of a label: 9,984 bits, which are 20 blocks of SHA-256 with the padding.

    The first block has replica_id, the layer (32 bits) and the node (64 bits), both big-endian, and
    zeros. The parents' labels follow, repeated in order until there are 37.
    """
    layer_bits = [layer >> index & 1 for index in reversed(range(_LAYER_BITS))]
    message = [*replica_id_bits, *layer_bits, *reversed(node), *[0] * _PADDING_BITS]
    for bits in islice(cycle(parent_bits), LABEL_PARENTS):
        message += bits
    return message
