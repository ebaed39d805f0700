"""Poseidon of many groups of nodes, in pure Python or on a device."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice, lanes_for
from quod.device.runtime.sentinel import UNWRITTEN, not_written
from quod.device.runtime.stream import RecordingStream
from quod.errors import InputError
from quod.field.array import (
    Words,
    all_canonical,
    check_canonical,
    from_integers,
    integers_to_words,
    words_to_integers,
)
from quod.field.moduli import BLS12_381_FR
from quod.filecoin.kernels import hash_groups
from quod.filecoin.sectors import NODE_BYTES
from quod.hash import neptune_hash
from quod.hash.neptune import kernel_constants

_NODE_WORDS = NODE_BYTES // 4


class NodeHasher:
    """Poseidon hashes with the tag of Merkle trees.

    device: computes the hashes; None stands for pure Python, about a millisecond a hash.
    Nodes are canonical words, uint32 of shape (n, 8).
    """

    def __init__(self, device: AnyDevice | None = None) -> None:
        self._device = device
        self._constants: dict[int, Buffer] = {}

    def hash_groups(self, arity: int, nodes: Words) -> Words:
        """Return the hash of each group of `arity` successive nodes.

        Raises InputError for a node that is not below p.
        """
        return self._hashed(arity, nodes, arity, 1)

    def hash_columns(self, layers: Sequence[Words]) -> Words:
        """Return the hash of each node's column, from the layers' labels, all of equal length."""
        nodes = np.concatenate(layers)
        return self._hashed(len(layers), nodes, 1, len(layers[0]))

    def tree_levels(self, arities: Sequence[int], leaves: Words) -> list[Words]:
        """Return the levels of a Merkle tree, from the leaves to the root.

        arities: the arity of each level. Raises InputError for a leaf that is not below p, and if
        the number of leaves is not the product of the arities.
        """
        counts = [len(leaves)]
        for arity in arities:
            counts.append(counts[-1] // arity)
        if len(leaves) != int(np.prod(arities, dtype=np.int64)):
            raise InputError(f"{len(leaves)} leaves are not those of a tree of arities {arities}")
        check_canonical(BLS12_381_FR, leaves)
        if self._device is None:
            levels = [leaves]
            for arity in arities:
                levels.append(self._hashed(arity, levels[-1], arity, 1))
            return levels
        return self._levels_on(self._device, arities, leaves, counts)

    def _levels_on(
        self, device: AnyDevice, arities: Sequence[int], leaves: Words, counts: Sequence[int]
    ) -> list[Words]:
        starts = [0, *np.cumsum(counts).tolist()]
        size = NODE_BYTES * starts[-1]
        device.check_budget("a Merkle tree", size)
        tree = device.allocate(size, zero=False)
        levels = [tree.slice(NODE_BYTES * a, NODE_BYTES * b) for a, b in pairwise(starts)]
        device.upload(np.ascontiguousarray(leaves), into=levels[0])
        recording = device.stream("Merkle tree").record()
        recording.fill(levels[-1], UNWRITTEN)
        for arity, count, (children, parents) in zip(
            arities, counts[1:], pairwise(levels), strict=True
        ):
            self._launch(recording, device, arity, count, arity, 1, children, parents)
        recording.finish().run()
        nodes = _downloaded(device, "a Merkle tree", tree)
        return [nodes[start:stop] for start, stop in pairwise(starts)]

    def _hashed(self, arity: int, nodes: Words, group_stride: int, member_stride: int) -> Words:
        """Hash groups whose members are `member_stride` nodes apart."""
        check_canonical(BLS12_381_FR, nodes)
        count = len(nodes) // arity
        if self._device is None:
            integers = words_to_integers(BLS12_381_FR, nodes)
            starts = range(0, count * group_stride, group_stride)
            span = arity * member_stride
            hashes = [neptune_hash(integers[at : at + span : member_stride]) for at in starts]
            return integers_to_words(BLS12_381_FR, hashes)
        device = self._device
        device.check_budget("Poseidon hashes", NODE_BYTES * (len(nodes) + count))
        source = device.upload(np.ascontiguousarray(nodes))
        target = device.allocate(NODE_BYTES * count, zero=False)
        recording = device.stream("Poseidon").record()
        recording.fill(target, UNWRITTEN)
        self._launch(recording, device, arity, count, group_stride, member_stride, source, target)
        recording.finish().run()
        return _downloaded(device, "Poseidon hashes", target)

    def _launch(
        self, recording: RecordingStream, device: AnyDevice, arity: int, count: int,
        group_stride: int, member_stride: int, nodes: Buffer, hashes: Buffer,
    ) -> None:  # fmt: skip
        if arity not in self._constants:
            constants = from_integers(BLS12_381_FR, kernel_constants(arity))
            self._constants[arity] = device.upload(constants)
        compiled = device.compile(hash_groups, lanes=lanes_for(device, count), arity=arity)
        recording.launch(
            compiled, -(-count // compiled.lanes), count, group_stride, member_stride, nodes,
            self._constants[arity], hashes,
        )  # fmt: skip


def _downloaded(device: AnyDevice, what: str, buffer: Buffer) -> Words:
    """Download nodes; raises DeviceError for one above p, such as memory that no kernel wrote."""
    nodes = np.empty((buffer.nbytes // NODE_BYTES, _NODE_WORDS), np.uint32)
    device.download(buffer, nodes)
    if not all_canonical(BLS12_381_FR, nodes):
        raise not_written(device, what)
    return nodes
