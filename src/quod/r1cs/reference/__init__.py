"""References of gadgets over integers: hashes (`quod.hash`), signatures and Merkle paths.

They validate their arguments; none runs in constant time. Points of Jubjub and Baby Jubjub are
pairs of int; `edwards_group` of `quod.curve` has their operations. The names below load on first
use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.hash.arguments import bytes_to_bits as bytes_to_bits
    from quod.hash.blake import blake_256 as blake_256
    from quod.hash.blake import blake_512 as blake_512
    from quod.hash.hash_to_jubjub import find_group_hash as find_group_hash
    from quod.hash.hash_to_jubjub import group_hash as group_hash
    from quod.hash.mimc import mimc7 as mimc7
    from quod.hash.mimc import mimc7_hash as mimc7_hash
    from quod.hash.mimc import mimc_feistel as mimc_feistel
    from quod.hash.mimc import mimc_sponge as mimc_sponge
    from quod.hash.pedersen import pedersen_bytes as pedersen_bytes
    from quod.hash.pedersen import pedersen_point as pedersen_point
    from quod.hash.poseidon import poseidon_hash as poseidon_hash
    from quod.hash.poseidon import poseidon_outputs as poseidon_outputs
    from quod.hash.sapling_pedersen import sapling_node as sapling_node
    from quod.hash.sapling_pedersen import (
        sapling_pedersen_point as sapling_pedersen_point,
    )
    from quod.r1cs.reference.eddsa import EddsaSignature as EddsaSignature
    from quod.r1cs.reference.eddsa import eddsa_public_key as eddsa_public_key
    from quod.r1cs.reference.eddsa import eddsa_sign as eddsa_sign
    from quod.r1cs.reference.eddsa import eddsa_verify as eddsa_verify
    from quod.r1cs.reference.merkle import merkle_path as merkle_path
    from quod.r1cs.reference.merkle import merkle_root as merkle_root
    from quod.r1cs.reference.merkle import mimc_sponge_node as mimc_sponge_node
    from quod.r1cs.reference.merkle import poseidon_node as poseidon_node
else:
    __getattr__, __dir__ = lazy_names(__name__)
