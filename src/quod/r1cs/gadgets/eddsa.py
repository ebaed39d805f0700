"""EdDSA-Poseidon signatures on Baby Jubjub, verified in a circuit as circomlib defines them."""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.named.baby_jubjub import BABY_JUBJUB
from quod.r1cs.gadgets.comparison import assert_bits_at_most
from quod.r1cs.gadgets.montgomery import MontgomeryPoints
from quod.r1cs.gadgets.poseidon import poseidon_hash
from quod.r1cs.signal import hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand

hide_frames_of(__file__)


def assert_eddsa(
    system: ConstraintSystem, public_key: Sequence[Operand], message: Operand,
    r8: Sequence[Operand], s: Operand,
) -> None:  # fmt: skip
    """Constrain (R8, S) to sign the message: S * Base8 = R8 + 8 * Poseidon(R8, A, message) * A.

    Also constrains R8 and the key A to be on the curve, A not to be of small order, and S to be
    below the order of the subgroup. The reference is `quod.r1cs.reference.eddsa_verify`.
    """
    points = MontgomeryPoints(system, BABY_JUBJUB)
    edwards, order = points.edwards, BABY_JUBJUB.fr
    message_signal, scalar = signal_of(system, message), signal_of(system, s)
    with system.namespace("points"):
        key = edwards.assert_on_curve(public_key)
        commitment = edwards.assert_on_curve(r8)
        eightfold = edwards.assert_not_small_order(key)
    with system.namespace("S"):
        bits = system.bits(scalar, order.bits)
        assert_bits_at_most(system, bits, order.value - 1)
    with system.namespace("challenge"):
        challenge = poseidon_hash(system, [*commitment, *key, message_signal])
        challenge_bits = system.bits(challenge)
    with system.namespace("right"):
        right = edwards.add(commitment, points.multiply(challenge_bits, eightfold))
    with system.namespace("left"):
        left = points.multiply_fixed(bits, BABY_JUBJUB.generator)
    with system.namespace("equation"):
        edwards.assert_equal(left, right)
