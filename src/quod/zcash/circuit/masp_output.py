"""The circuit of MASP's Output, which extends Sapling's to many assets.

Its constraints equal those of `impl Circuit for Output` of `masp_proofs/src/circuit/sapling.rs`.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.hash.hash_to_jubjub import find_group_hash
from quod.r1cs.gadgets.bellman.blake2s import blake2s_hash
from quod.r1cs.gadgets.bellman.booleans import Boolean, scaled
from quod.r1cs.system import ConstraintSystem
from quod.zcash.circuit.points import EdwardsPoint
from quod.zcash.circuit.steps import (
    VALUE_BITS,
    commit_note,
    ephemeral_key_and_recipient,
    random_multiple,
    within_namespace,
)

ASSET_GENERATOR = b"MASP__v_"
"""The personalisation of the hash from the identifier of an asset to its generator."""
PEDERSEN = b"MASP__PH"
VALUE_RANDOMNESS = b"MASP__r_"
_IDENTIFIER_BITS = 256


def masp_output(system: ConstraintSystem) -> None:
    """Add the circuit, of 31,205 constraints; public are cv.u, cv.v, epk.u, epk.v, cmu.

    The inputs are those of `sapling_output`, `asset_identifier` (256 bits) and `asset_generator`
    (u and v), the point whose encoding is the hash of the identifier.
    """
    identifier = within_namespace(
        system, "asset_identifier", system.private_bits, "asset_identifier", _IDENTIFIER_BITS
    )
    generator_hash = within_namespace(
        system, "asset_generator hash", blake2s_hash, system, identifier, ASSET_GENERATOR
    )
    with system.namespace("value commitment"):
        generator = within_namespace(
            system, "asset_generator", EdwardsPoint.of_input, system, "asset_generator"
        )
        encoding = within_namespace(system, "asset_generator repr", generator.encoded)
        cofactor_multiple = within_namespace(
            system, "asset_generator not small order", generator.eightfold
        )
        value = within_namespace(system, "value", system.private_bits, "value", VALUE_BITS)
        value_term = within_namespace(
            system, "compute the value in the exponent", cofactor_multiple.times, value
        )
        blinding = random_multiple(
            system, "rcv", "computation of rcv", find_group_hash(VALUE_RANDOMNESS, b"r")
        )
        cv = within_namespace(system, "computation of cv", value_term.add, blinding)
        within_namespace(system, "commitment point", cv.output, "cv")
    within_namespace(
        system, "asset_generator is hashed", _assert_equal_bits, system, encoding, generator_hash
    )
    base = within_namespace(system, "witness g_d", EdwardsPoint.of_input, system, "g_d")
    within_namespace(system, "g_d not small order", base.eightfold)
    note = [*encoding, *value, *within_namespace(system, "representation of g_d", base.encoded)]
    note += ephemeral_key_and_recipient(system, base)
    commit_note(system, PEDERSEN, note)


def _assert_equal_bits(
    system: ConstraintSystem, left: Sequence[Boolean], right: Sequence[Boolean]
) -> None:
    """Constrain bits to be equal pairwise, with one constraint each: 0 * 0 = difference."""
    for left_bit, right_bit in zip(left, right, strict=True):
        difference = scaled(system, left_bit, 1) - scaled(system, right_bit, 1)
        system.enforce(system.zero, system.zero, difference)
