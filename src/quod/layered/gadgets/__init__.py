"""Sub-circuits: bits, ranges, lookups, hashes, Merkle paths, products of matrices.

The names below load on first use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.hash.poseidon_m31 import poseidon_m31_hash_numbers as poseidon_m31_hash_numbers
    from quod.layered.gadgets.bits import assert_bits as assert_bits
    from quod.layered.gadgets.bits import assert_signs as assert_signs
    from quod.layered.gadgets.bits import bits_of_number as bits_of_number
    from quod.layered.gadgets.bits import bytes_to_signs as bytes_to_signs
    from quod.layered.gadgets.bits import number_from_bits as number_from_bits
    from quod.layered.gadgets.bits import number_from_signs as number_from_signs
    from quod.layered.gadgets.bits import signs_of_bits as signs_of_bits
    from quod.layered.gadgets.bits import signs_to_bytes as signs_to_bytes
    from quod.layered.gadgets.keccak import keccak_f as keccak_f
    from quod.layered.gadgets.keccak import sha3_256 as sha3_256
    from quod.layered.gadgets.matrix import assert_matrix_product as assert_matrix_product
    from quod.layered.gadgets.matrix import matrix_product as matrix_product
    from quod.layered.gadgets.merkle import merkle_path as merkle_path
    from quod.layered.gadgets.merkle import merkle_root as merkle_root
    from quod.layered.gadgets.merkle import merkle_tree as merkle_tree
    from quod.layered.gadgets.poseidon import poseidon_m31 as poseidon_m31
    from quod.layered.gadgets.poseidon import poseidon_m31_hash as poseidon_m31_hash
    from quod.layered.gadgets.poseidon2 import POSEIDON2 as POSEIDON2
    from quod.layered.gadgets.poseidon2 import Poseidon2 as Poseidon2
    from quod.layered.gadgets.ranges import assert_range as assert_range
    from quod.layered.gadgets.ranges import limbs_of_number as limbs_of_number
    from quod.layered.gadgets.sha2 import sha256 as sha256
    from quod.layered.gadgets.tables import lookup as lookup
else:
    __getattr__, __dir__ = lazy_names(__name__)
