"""The circuit of Sapling's Output, with the constraints of Zcash's `sapling-crypto`.

Zcash protocol specification, 4.18.3; `impl Circuit for Output` of `sapling-crypto/src/circuit.rs`.
"""

from __future__ import annotations

from quod.r1cs.gadgets.bellman.booleans import Boolean
from quod.r1cs.system import ConstraintSystem
from quod.zcash.circuit.points import EdwardsPoint
from quod.zcash.circuit.steps import (
    commit_note,
    commit_value,
    private_point,
    scalar_bits,
    within_namespace,
)
from quod.zcash.protocol import SAPLING

_COORDINATE_BITS = 255


def sapling_output(system: ConstraintSystem) -> None:
    """Add the circuit, of 7,827 constraints; public are cv.u, cv.v, epk.u, epk.v, cmu.

    The inputs are `value`, `rcv`, `g_d` (u and v), `esk`, `pk_d_v`, `pk_d_u` (the lowest bit of u)
    and `rcm`. The circuit does not constrain pk_d to the curve, as the protocol does not need it.
    """
    value = commit_value(system)
    note = [*value, *recipient(system)]
    cm = commit_note(system, note, SAPLING)
    within_namespace(system, "commitment", system.output, "cmu", cm.u)


def recipient(system: ConstraintSystem) -> list[Boolean]:
    """Make epk = esk * g_d public; return the 512 bits of g_d and pk_d.

    Those of pk_d are not constrained to encode a point.
    """
    base = private_point(system, "witness g_d", "g_d")
    bits = within_namespace(system, "representation of g_d", base.encoded)
    _publish_ephemeral_key(system, base)
    v = within_namespace(system, "pk_d bits of v", system.private_bits, "pk_d_v", _COORDINATE_BITS)
    return [*bits, *v, *within_namespace(system, "pk_d bit of u", system.private_bits, "pk_d_u", 1)]


def _publish_ephemeral_key(system: ConstraintSystem, base: EdwardsPoint) -> None:
    esk = scalar_bits(system, "esk")
    epk = within_namespace(system, "epk computation", base.times, esk)
    within_namespace(system, "epk", epk.output, "epk")
