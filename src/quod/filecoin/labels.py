"""Labels of nodes in the layers of a sector, one after the other (SDR).

rust-fil-proofs, storage-proofs-porep/src/stacked/vanilla/create_label/single.rs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain, islice

import numpy as np

from quod.field.array import Words
from quod.filecoin.graph import DRG_PARENTS, PARENTS, StackedGraph
from quod.filecoin.nodes import TOP_BYTE_MASK, sha256_node
from quod.filecoin.sectors import NODE_BYTES
from quod.validation import exact_bytes

LABEL_PARENTS = 37
"""Hashed parents of a label, with repetitions."""

_PADDING = bytes(20)
_LAST_BYTES = [bytes([byte & TOP_BYTE_MASK]) for byte in range(256)]


def label(replica_id: bytes, layer: int, node: int, parents: Sequence[bytes]) -> bytes:
    """Return the label of a node.

    layer: from 1.
    parents: 37 labels, see `repeated_parents`; none for node 0.
    """
    prefix = layer.to_bytes(4, "big") + node.to_bytes(8, "big") + _PADDING
    return sha256_node(exact_bytes("the replica id", replica_id, NODE_BYTES), prefix, *parents)


def repeated_parents(drg: Sequence[bytes], expander: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return the 37 hashed parents: all parents in turn, again and again.

    drg: the labels of the 6 DRG parents in the same layer.
    expander: the labels of the 8 expander parents in the preceding layer; none in layer 1.
    """
    parents = (*drg, *expander)
    return (parents * (LABEL_PARENTS // len(parents) + 1))[:LABEL_PARENTS]


def compute_layers(graph: StackedGraph, replica_id: bytes, layers: int) -> list[Words]:
    """Compute the labels of all nodes in all layers, uint32 of shape (nodes, 8) for each layer.

    A label depends on that of the preceding node, so this is a sequential computation on one core.
    """
    computed: list[Words] = []
    labels: list[bytes] = []
    for layer in range(1, layers + 1):
        labels = _layer(graph, replica_id, layer, labels)
        computed.append(np.frombuffer(b"".join(labels), "<u4").reshape(-1, NODE_BYTES // 4))
    return computed


def _layer(
    graph: StackedGraph, replica_id: bytes, layer: int, preceding: list[bytes]
) -> list[bytes]:
    """Return the labels of a layer; `preceding` has those of the preceding layer."""
    labels = [label(replica_id, layer, 0, ())]
    prefix, sha256 = replica_id + layer.to_bytes(4, "big"), hashlib.sha256
    size = LABEL_PARENTS * NODE_BYTES
    parent_count = PARENTS if layer > 1 else DRG_PARENTS
    repetitions = LABEL_PARENTS // parent_count + 1
    # Node 0 has no parents.
    rows = chain.from_iterable(chunk[:, :parent_count].tolist() for chunk in graph.chunks())
    for node, row in enumerate(islice(rows, 1, None), 1):
        parents = [labels[parent] for parent in row[:DRG_PARENTS]]
        parents += [preceding[parent] for parent in row[DRG_PARENTS:]]
        repeated = (b"".join(parents) * repetitions)[:size]
        digest = sha256(prefix + node.to_bytes(8, "big") + _PADDING + repeated).digest()
        labels.append(digest[:-1] + _LAST_BYTES[digest[-1]])
    return labels
