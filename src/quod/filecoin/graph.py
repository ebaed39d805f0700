"""The stacked graph: a node has 6 DRG parents in its layer, 8 expander parents in the preceding.

DRG parents are those of DRSample, from ChaCha8 with a seed for each node (rust-fil-proofs,
storage-proofs-core/src/drgraph.rs); expander parents come from a Feistel permutation
(storage-proofs-porep/src/stacked/vanilla/graph.rs, storage-proofs-core/src/crypto/feistel.rs).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.filecoin.chacha import Words, chacha_blocks
from quod.filecoin.registered_proofs import ApiVersion, PoRepConfig
from quod.frozen import frozen

DRG_PARENTS = 6
EXPANDER_PARENTS = 8
PARENTS = DRG_PARENTS + EXPANDER_PARENTS

_SAMPLED = DRG_PARENTS - 1
_FEISTEL_ROUNDS = 3
_CHUNK_NODES = 1 << 15

Integers = NDArray[np.uint64]


@frozen
class StackedGraph:
    """The graph of a PoRep id.

    nodes: nodes of a layer, a power of two and at most 2**31.
    porep_id: 32 bytes.
    api_version: 1.0 has the preceding node as the last DRG parent, later versions as the first;
        1.0 also truncates the permuted indices of expander parents to 32 bits.
    """

    nodes: int
    porep_id: bytes
    api_version: ApiVersion

    @classmethod
    def of(cls, config: PoRepConfig) -> StackedGraph:
        """Return the graph of a proof of replication."""
        return cls(config.sector.nodes, config.porep_id, config.api_version)

    def parents(self, nodes: Sequence[int] | NDArray[Any]) -> Words:
        """Return the parents of nodes, uint32 of shape (n, 14): DRG parents, then expanders."""
        numbers = np.asarray(nodes, np.uint64)
        parents = np.empty((len(numbers), PARENTS), np.uint32)
        parents[:, :DRG_PARENTS] = self.drg_parents(numbers)
        parents[:, DRG_PARENTS:] = self.expander_parents(numbers)
        return parents

    def chunks(self) -> Iterator[Words]:
        """Yield the parents of all nodes in order, in arrays of at most 2**15 rows."""
        for start in range(0, self.nodes, _CHUNK_NODES):
            yield self.parents(np.arange(start, min(start + _CHUNK_NODES, self.nodes)))

    def digest(self) -> bytes:
        """Return the SHA-256 digest of all parents as u32, as upstream's parent caches have it."""
        digest = hashlib.sha256()
        for chunk in self.chunks():
            digest.update(chunk.astype("<u4").tobytes())
        return digest.digest()

    # --- DRG parents

    def drg_parents(self, nodes: Sequence[int] | NDArray[Any]) -> Words:
        """Return the DRG parents of nodes, uint32 of shape (n, 6); nodes 0 and 1 have zeros."""
        numbers = np.asarray(nodes, np.uint64)
        parents = np.zeros((len(numbers), DRG_PARENTS), np.uint32)
        has_parents = numbers > 1
        numbers = numbers[has_parents]
        is_last = self.api_version is ApiVersion.V1_0
        rows = np.empty((len(numbers), DRG_PARENTS), np.uint32)
        rows[:, -1 if is_last else 0] = numbers - np.uint64(1)
        sampled = rows[:, :-1] if is_last else rows[:, 1:]
        sampled[:] = self._sampled_parents(numbers)
        parents[has_parents] = rows
        return parents

    def _sampled_parents(self, nodes: Integers) -> Integers:
        """Return five parents of each node, at distances whose logarithms are uniform.

        The graph of metanodes has a metanode for each sampled parent of a node. A random bucket is
        a range of distances from a power of two to the next.
        """
        random = self._random_words(nodes).reshape(-1, _SAMPLED, 2)
        metanodes = (nodes * np.uint64(_SAMPLED))[:, None]
        # Exact, as a multiple of 5 is no power of two.
        buckets = np.ceil(np.log2(metanodes)).astype(np.uint64)
        bucket = random[:, :, 0] % buckets + np.uint64(1)
        largest = np.minimum(metanodes, np.uint64(1) << bucket)
        smallest = np.maximum(np.uint64(2), largest >> np.uint64(1))
        distance = smallest + random[:, :, 1] % (largest - smallest + np.uint64(1))
        sampled: Integers = (metanodes - distance) // np.uint64(_SAMPLED)
        return sampled

    def _random_words(self, nodes: Integers) -> Integers:
        """Return the first ten 64-bit words of each node's ChaCha8 stream."""
        seed = hashlib.sha256(b"Filecoin_DRSample" + self.porep_id).digest()[:28]
        keys = np.empty((len(nodes), 8), np.uint32)
        keys[:, :7], keys[:, 7] = np.frombuffer(seed, "<u4"), nodes
        blocks = []
        for counter in range(2):
            positions = np.zeros((len(nodes), 4), np.uint32)
            positions[:, 0] = counter
            blocks.append(chacha_blocks(keys, positions, 8))
        words = np.concatenate(blocks, axis=1)[:, : 4 * _SAMPLED].astype(np.uint64)
        random: Integers = words[:, ::2] | words[:, 1::2] << np.uint64(32)
        return random

    # --- expander parents

    def expander_parents(self, nodes: Sequence[int] | NDArray[Any]) -> Words:
        """Return the expander parents of nodes, uint32 of shape (n, 8)."""
        numbers = np.asarray(nodes, np.uint64)
        indices = np.arange(EXPANDER_PARENTS, dtype=np.uint64)
        slots: Integers = numbers[:, None] * np.uint64(EXPANDER_PARENTS) | indices
        permuted = self._permuted(slots.reshape(-1)).reshape(slots.shape)
        if self.api_version is ApiVersion.V1_0:
            # Version 1.0 kept 32 bits, which loses some of the 34 bits of 64 GiB sectors.
            permuted &= np.uint64(0xFFFFFFFF)
        return (permuted // np.uint64(EXPANDER_PARENTS)).astype(np.uint32)

    def _permuted(self, values: Integers) -> Integers:
        """Apply the permutation of 0 to 8 * nodes - 1: a Feistel network with cycle walking."""
        permuted = self._feistel(values)
        outside = np.flatnonzero(permuted >= self.nodes * EXPANDER_PARENTS)
        while outside.size:
            walked = self._feistel(permuted[outside])
            permuted[outside] = walked
            outside = outside[walked >= self.nodes * EXPANDER_PARENTS]
        return permuted

    def _feistel(self, values: Integers) -> Integers:
        half_bits = np.uint64(self._half_bits)
        left, right = values >> half_bits, values & np.uint64((1 << self._half_bits) - 1)
        for number in range(_FEISTEL_ROUNDS):
            left, right = right, left ^ self._round_values(number, right)
        return left << half_bits | right

    @property
    def _half_bits(self) -> int:
        """Bits of a half: the smallest number for which two halves hold 8 * nodes - 1."""
        return -(-(self.nodes * EXPANDER_PARENTS - 1).bit_length() // 2)

    def _round_values(self, number: int, halves: Integers) -> Integers:
        """Return the values of the round function, from a table if there are as many halves."""
        if len(halves) >= 1 << self._half_bits:
            return self._tables[number][halves]
        return self._round_function(number, halves)

    @cached_property
    def _tables(self) -> list[Integers]:
        """The values of each round's function for all halves."""
        halves = np.arange(1 << self._half_bits, dtype=np.uint64)
        return [self._round_function(number, halves) for number in range(_FEISTEL_ROUNDS)]

    @cached_property
    def _keys(self) -> list[bytes]:
        """The keys of the rounds, big-endian."""
        digest = hashlib.sha256(b"Filecoin_Feistel" + self.porep_id).digest()
        return [digest[8 * number : 8 * number + 8][::-1] for number in range(_FEISTEL_ROUNDS)]

    def _round_function(self, number: int, halves: Integers) -> Integers:
        key, blake2b = self._keys[number], hashlib.blake2b
        digests = b"".join(
            [blake2b(half.to_bytes(8, "big") + key).digest()[:8] for half in halves.tolist()]
        )
        values = np.frombuffer(digests, ">u8").astype(np.uint64)
        return values & np.uint64((1 << self._half_bits) - 1)
