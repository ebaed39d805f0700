"""Functions that gadgets prove, of plain integers: hashes (`quod.hash`), signatures, paths.

Each is exact and checks what it is given; none runs in constant time. Points of Jubjub and Baby
Jubjub are pairs, whose law is in `quod.curve` (`edwards_group`). The names below load on first use
(PEP 562).
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

__all__ = [
    "EddsaSignature",
    "blake_256",
    "blake_512",
    "bytes_to_bits",
    "eddsa_public_key",
    "eddsa_sign",
    "eddsa_verify",
    "find_group_hash",
    "group_hash",
    "merkle_path",
    "merkle_root",
    "mimc7",
    "mimc7_hash",
    "mimc_feistel",
    "mimc_sponge",
    "mimc_sponge_node",
    "pedersen_bytes",
    "pedersen_point",
    "poseidon_hash",
    "poseidon_node",
    "poseidon_outputs",
    "sapling_node",
    "sapling_pedersen_point",
]

_HOME = {
    "EddsaSignature": "quod.r1cs.reference.eddsa",
    "blake_256": "quod.hash.blake",
    "blake_512": "quod.hash.blake",
    "bytes_to_bits": "quod.hash.arguments",
    "eddsa_public_key": "quod.r1cs.reference.eddsa",
    "eddsa_sign": "quod.r1cs.reference.eddsa",
    "eddsa_verify": "quod.r1cs.reference.eddsa",
    "find_group_hash": "quod.hash.hash_to_jubjub",
    "group_hash": "quod.hash.hash_to_jubjub",
    "merkle_path": "quod.r1cs.reference.merkle",
    "merkle_root": "quod.r1cs.reference.merkle",
    "mimc7": "quod.hash.mimc",
    "mimc7_hash": "quod.hash.mimc",
    "mimc_feistel": "quod.hash.mimc",
    "mimc_sponge": "quod.hash.mimc",
    "mimc_sponge_node": "quod.r1cs.reference.merkle",
    "pedersen_bytes": "quod.hash.pedersen",
    "pedersen_point": "quod.hash.pedersen",
    "poseidon_hash": "quod.hash.poseidon",
    "poseidon_node": "quod.r1cs.reference.merkle",
    "poseidon_outputs": "quod.hash.poseidon",
    "sapling_node": "quod.hash.sapling_pedersen",
    "sapling_pedersen_point": "quod.hash.sapling_pedersen",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
