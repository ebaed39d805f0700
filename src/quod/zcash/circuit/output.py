"""The circuit of Sapling's Output, with the constraints of Zcash's `sapling-crypto`.

Zcash protocol specification, 4.18.3; `impl Circuit for Output` of `sapling-crypto/src/circuit.rs`.
"""

from __future__ import annotations

from quod.r1cs.system import ConstraintSystem
from quod.zcash.circuit.points import EdwardsPoint
from quod.zcash.circuit.steps import (
    VALUE_BITS,
    commit_note,
    ephemeral_key_and_recipient,
    random_multiple,
    within_namespace,
)
from quod.zcash.circuit.windows import fixed_multiple
from quod.zcash.generators import value_generator, value_randomness_generator


def sapling_output(system: ConstraintSystem) -> None:
    """Add the circuit, of 7,827 constraints; public are cv.u, cv.v, epk.u, epk.v, cmu.

    The inputs are `value`, `rcv`, `g_d` (u and v), `esk`, `pk_d_v`, `pk_d_u` (the lowest bit of u)
    and `rcm`. The circuit does not constrain pk_d to the curve, as the protocol does not need it.
    """
    with system.namespace("value commitment"):
        value = within_namespace(system, "value", system.private_bits, "value", VALUE_BITS)
        value_term = within_namespace(
            system, "compute the value in the exponent", fixed_multiple, system, value_generator(),
            value,
        )  # fmt: skip
        blinding = random_multiple(
            system, "rcv", "computation of rcv", value_randomness_generator()
        )  # fmt: skip
        cv = within_namespace(system, "computation of cv", value_term.add, blinding)
        within_namespace(system, "commitment point", cv.output, "cv")
    base = within_namespace(system, "witness g_d", EdwardsPoint.of_input, system, "g_d")
    within_namespace(system, "g_d not small order", base.eightfold)
    note = [*value, *within_namespace(system, "representation of g_d", base.encoded)]
    note += ephemeral_key_and_recipient(system, base)
    commit_note(system, b"Zcash_PH", note)
