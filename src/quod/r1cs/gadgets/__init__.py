"""Parts of circuits: logic, orders, lookups, hashes, points of curves, signatures, paths.

Each is a function of a system and of signals, and has the constraints that docs/r1cs-gadgets.md
lists; `quod.r1cs.reference` has what they compute, of plain integers. The names below load on first
use (PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.r1cs.gadgets.blake2s import blake2s_hash as blake2s_hash
    from quod.r1cs.gadgets.comparison import assert_at_most as assert_at_most
    from quod.r1cs.gadgets.comparison import assert_bits_at_most as assert_bits_at_most
    from quod.r1cs.gadgets.comparison import assert_less as assert_less
    from quod.r1cs.gadgets.comparison import is_at_most as is_at_most
    from quod.r1cs.gadgets.comparison import is_less as is_less
    from quod.r1cs.gadgets.eddsa import assert_eddsa as assert_eddsa
    from quod.r1cs.gadgets.edwards import CurvePoint as CurvePoint
    from quod.r1cs.gadgets.edwards import EdwardsPoints as EdwardsPoints
    from quod.r1cs.gadgets.edwards import SubgroupPoint as SubgroupPoint
    from quod.r1cs.gadgets.logic import exclusive_or as exclusive_or
    from quod.r1cs.gadgets.logic import exclusive_or_of_three as exclusive_or_of_three
    from quod.r1cs.gadgets.logic import inclusive_or as inclusive_or
    from quod.r1cs.gadgets.logic import majority as majority
    from quod.r1cs.gadgets.lookup import choose as choose
    from quod.r1cs.gadgets.lookup import choose_at as choose_at
    from quod.r1cs.gadgets.lookup import look_up as look_up
    from quod.r1cs.gadgets.lookup import one_hot as one_hot
    from quod.r1cs.gadgets.merkle import merkle_root as merkle_root
    from quod.r1cs.gadgets.merkle import mimc_sponge_node as mimc_sponge_node
    from quod.r1cs.gadgets.merkle import poseidon_node as poseidon_node
    from quod.r1cs.gadgets.mimc import mimc7 as mimc7
    from quod.r1cs.gadgets.mimc import mimc7_hash as mimc7_hash
    from quod.r1cs.gadgets.mimc import mimc_feistel as mimc_feistel
    from quod.r1cs.gadgets.mimc import mimc_sponge as mimc_sponge
    from quod.r1cs.gadgets.montgomery import MontgomeryPoint as MontgomeryPoint
    from quod.r1cs.gadgets.montgomery import MontgomeryPoints as MontgomeryPoints
    from quod.r1cs.gadgets.packing import assert_bits as assert_bits
    from quod.r1cs.gadgets.packing import pack_elements as pack_elements
    from quod.r1cs.gadgets.packing import unpack_elements as unpack_elements
    from quod.r1cs.gadgets.pedersen import pedersen_point as pedersen_point
    from quod.r1cs.gadgets.poseidon import poseidon_hash as poseidon_hash
    from quod.r1cs.gadgets.poseidon import poseidon_outputs as poseidon_outputs
    from quod.r1cs.gadgets.sha import sha256 as sha256
    from quod.r1cs.gadgets.sha import sha256_compression as sha256_compression
    from quod.r1cs.gadgets.template import Template as Template

__all__ = [
    "CurvePoint",
    "EdwardsPoints",
    "MontgomeryPoint",
    "MontgomeryPoints",
    "SubgroupPoint",
    "Template",
    "assert_at_most",
    "assert_bits",
    "assert_bits_at_most",
    "assert_eddsa",
    "assert_less",
    "blake2s_hash",
    "choose",
    "choose_at",
    "exclusive_or",
    "exclusive_or_of_three",
    "inclusive_or",
    "is_at_most",
    "is_less",
    "look_up",
    "majority",
    "merkle_root",
    "mimc7",
    "mimc7_hash",
    "mimc_feistel",
    "mimc_sponge",
    "mimc_sponge_node",
    "one_hot",
    "pack_elements",
    "pedersen_point",
    "poseidon_hash",
    "poseidon_node",
    "poseidon_outputs",
    "sha256",
    "sha256_compression",
    "unpack_elements",
]

_HOME = {
    "blake2s_hash": "quod.r1cs.gadgets.blake2s",
    "assert_at_most": "quod.r1cs.gadgets.comparison",
    "assert_bits_at_most": "quod.r1cs.gadgets.comparison",
    "assert_less": "quod.r1cs.gadgets.comparison",
    "is_at_most": "quod.r1cs.gadgets.comparison",
    "is_less": "quod.r1cs.gadgets.comparison",
    "assert_eddsa": "quod.r1cs.gadgets.eddsa",
    "CurvePoint": "quod.r1cs.gadgets.edwards",
    "EdwardsPoints": "quod.r1cs.gadgets.edwards",
    "exclusive_or": "quod.r1cs.gadgets.logic",
    "exclusive_or_of_three": "quod.r1cs.gadgets.logic",
    "inclusive_or": "quod.r1cs.gadgets.logic",
    "majority": "quod.r1cs.gadgets.logic",
    "choose": "quod.r1cs.gadgets.lookup",
    "choose_at": "quod.r1cs.gadgets.lookup",
    "look_up": "quod.r1cs.gadgets.lookup",
    "one_hot": "quod.r1cs.gadgets.lookup",
    "merkle_root": "quod.r1cs.gadgets.merkle",
    "mimc_sponge_node": "quod.r1cs.gadgets.merkle",
    "poseidon_node": "quod.r1cs.gadgets.merkle",
    "mimc7": "quod.r1cs.gadgets.mimc",
    "mimc7_hash": "quod.r1cs.gadgets.mimc",
    "mimc_feistel": "quod.r1cs.gadgets.mimc",
    "mimc_sponge": "quod.r1cs.gadgets.mimc",
    "SubgroupPoint": "quod.r1cs.gadgets.edwards",
    "MontgomeryPoint": "quod.r1cs.gadgets.montgomery",
    "MontgomeryPoints": "quod.r1cs.gadgets.montgomery",
    "assert_bits": "quod.r1cs.gadgets.packing",
    "pack_elements": "quod.r1cs.gadgets.packing",
    "unpack_elements": "quod.r1cs.gadgets.packing",
    "pedersen_point": "quod.r1cs.gadgets.pedersen",
    "poseidon_hash": "quod.r1cs.gadgets.poseidon",
    "poseidon_outputs": "quod.r1cs.gadgets.poseidon",
    "sha256": "quod.r1cs.gadgets.sha",
    "sha256_compression": "quod.r1cs.gadgets.sha",
    "Template": "quod.r1cs.gadgets.template",
}

__getattr__, __dir__ = lazy_names(__name__, _HOME)
