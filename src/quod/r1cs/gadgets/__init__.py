"""Gadgets: logic, comparisons, lookups, hashes, curve points, signatures and Merkle paths.

A gadget is a function of a system and signals; docs/r1cs-gadgets.md lists its constraints.
`quod.r1cs.reference` has the same functions over integers. The names below load on first use
(PEP 562).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.lazy import lazy_names

if TYPE_CHECKING:
    from quod.r1cs.gadgets.bellman.blake2s import blake2s_hash as blake2s_hash
    from quod.r1cs.gadgets.comparison import assert_at_most as assert_at_most
    from quod.r1cs.gadgets.comparison import assert_bits_at_most as assert_bits_at_most
    from quod.r1cs.gadgets.comparison import assert_less as assert_less
    from quod.r1cs.gadgets.comparison import is_at_most as is_at_most
    from quod.r1cs.gadgets.comparison import is_less as is_less
    from quod.r1cs.gadgets.eddsa import assert_eddsa as assert_eddsa
    from quod.r1cs.gadgets.edwards import CurvePoint as CurvePoint
    from quod.r1cs.gadgets.edwards import EdwardsPoints as EdwardsPoints
    from quod.r1cs.gadgets.edwards import SubgroupPoint as SubgroupPoint
    from quod.r1cs.gadgets.inclusion import root_of_path as root_of_path
    from quod.r1cs.gadgets.inclusion import root_of_private_path as root_of_private_path
    from quod.r1cs.gadgets.insertion import insert as insert
    from quod.r1cs.gadgets.insertion import pick as pick
    from quod.r1cs.gadgets.insertion import select as select
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
    from quod.r1cs.gadgets.neptune import neptune_hash as neptune_hash
    from quod.r1cs.gadgets.packing import assert_bits as assert_bits
    from quod.r1cs.gadgets.packing import pack_elements as pack_elements
    from quod.r1cs.gadgets.packing import unpack_elements as unpack_elements
    from quod.r1cs.gadgets.pedersen import pedersen_point as pedersen_point
    from quod.r1cs.gadgets.poseidon import poseidon_hash as poseidon_hash
    from quod.r1cs.gadgets.poseidon import poseidon_outputs as poseidon_outputs
    from quod.r1cs.gadgets.sha import sha256 as sha256
    from quod.r1cs.gadgets.sha import sha256_compression as sha256_compression
    from quod.r1cs.gadgets.template import Template as Template
else:
    __getattr__, __dir__ = lazy_names(__name__)
