"""circomlib's Pedersen hash in a circuit: seven constraints for four bits.

Points are summed in Montgomery form. The multiple of the generator in a partial sum is less than
half of the next addend's multiple, so the two points never have the same u.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.edwards.affine import edwards_group
from quod.curve.named.baby_jubjub import BABY_JUBJUB
from quod.hash.pedersen import SEGMENT, SHIFT, WINDOW, pedersen_generator
from quod.r1cs.gadgets.edwards import CurvePoint
from quod.r1cs.gadgets.lookup import look_up
from quod.r1cs.gadgets.montgomery import MontgomeryPoint, MontgomeryPoints
from quod.r1cs.gadgets.signals import bit_signals
from quod.r1cs.signal import hide_frames_of
from quod.r1cs.system import ConstraintSystem, Operand

hide_frames_of(__file__)


def pedersen_point(system: ConstraintSystem, bits: Sequence[Operand]) -> CurvePoint:
    """Hash bits to a point; the reference is `quod.r1cs.reference.pedersen_point`.

    Raises InputError for a signal that is not known to be a bit.
    """
    points = MontgomeryPoints(system, BABY_JUBJUB)
    message = bit_signals(system, "the bits", bits, least=1)
    group, result = edwards_group(BABY_JUBJUB), None
    for segment, start in enumerate(range(0, len(message), SEGMENT)):
        segment_bits = message[start : start + SEGMENT]
        segment_bits += [system.zero] * (-len(segment_bits) % WINDOW)
        base, total = pedersen_generator(segment), None
        for index in range(0, len(segment_bits), WINDOW):
            *digit, sign = segment_bits[index : index + WINDOW]
            multiples = [base]
            while len(multiples) < 1 << len(digit):
                multiples.append(group.add(multiples[-1], base))
            forms = [BABY_JUBJUB.to_montgomery(point) or (0, 0) for point in multiples]
            u, v = look_up(system, digit, [[p[0] for p in forms], [p[1] for p in forms]])
            signed = MontgomeryPoint(u, system.multiply(v, 1 - 2 * sign))
            total = signed if total is None else points.add(total, signed, distinct=True)
            base = group.multiply(1 << SHIFT, base)
        assert total is not None
        segment_point = points.to_edwards(total, nonzero=True)
        result = segment_point if result is None else points.edwards.add(result, segment_point)
    assert result is not None
    return result
