"""The circuit of MASP's Output, which extends Sapling's to many assets.

Its constraints equal those of `impl Circuit for Output` of `masp_proofs/src/circuit/sapling.rs`.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.r1cs.gadgets.bellman.blake2s import blake2s_hash
from quod.r1cs.gadgets.bellman.booleans import Boolean, scaled
from quod.r1cs.system import ConstraintSystem
from quod.zcash.assets import ASSET_GENERATOR
from quod.zcash.circuit.output import recipient
from quod.zcash.circuit.steps import commit_asset_value, commit_note, within_namespace
from quod.zcash.protocol import MASP

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
    encoding, value = commit_asset_value(system)
    within_namespace(
        system, "asset_generator is hashed", _assert_equal_bits, system, encoding, generator_hash
    )
    note = [*encoding, *value, *recipient(system)]
    cm = commit_note(system, note, MASP)
    within_namespace(system, "commitment", system.output, "cmu", cm.u)


def _assert_equal_bits(
    system: ConstraintSystem, left: Sequence[Boolean], right: Sequence[Boolean]
) -> None:
    """Constrain bits to be equal pairwise, with one constraint each: 0 * 0 = difference."""
    for left_bit, right_bit in zip(left, right, strict=True):
        difference = scaled(system, left_bit, 1) - scaled(system, right_bit, 1)
        system.enforce(system.zero, system.zero, difference)
