"""Hashes: one module each, with its parameters, reference function and form inside kernels.

`Hash` (`quod.hash.table`) has a row for each hash that transcripts and commitments choose from; the
functions are the reference forms of the hashes that circuits, ceremonies and signatures compute.
SHA-256, SHA3-256, BLAKE2b and BLAKE2s of bytes are hashlib's. The names below load on first use
(PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.hash.blake import blake_256 as blake_256
    from quod.hash.blake import blake_512 as blake_512
    from quod.hash.hash_to_jubjub import find_group_hash as find_group_hash
    from quod.hash.hash_to_jubjub import group_hash as group_hash
    from quod.hash.keccak import keccak_256 as keccak_256
    from quod.hash.mimc import mimc7 as mimc7
    from quod.hash.mimc import mimc7_hash as mimc7_hash
    from quod.hash.mimc import mimc_feistel as mimc_feistel
    from quod.hash.mimc import mimc_sponge as mimc_sponge
    from quod.hash.neptune import neptune_hash as neptune_hash
    from quod.hash.neptune import neptune_parameters as neptune_parameters
    from quod.hash.pedersen import pedersen_bytes as pedersen_bytes
    from quod.hash.pedersen import pedersen_point as pedersen_point
    from quod.hash.poseidon import poseidon_hash as poseidon_hash
    from quod.hash.poseidon import poseidon_outputs as poseidon_outputs
    from quod.hash.sapling_pedersen import sapling_node as sapling_node
    from quod.hash.sapling_pedersen import sapling_pedersen_point as sapling_pedersen_point
    from quod.hash.table import Hash as Hash
    from quod.hash.table import recursive_hash as recursive_hash
else:
    __getattr__, __dir__ = lazy_names(__name__)
