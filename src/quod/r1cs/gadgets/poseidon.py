"""circomlib's Poseidon in a circuit: three constraints an S-box, and the linear part costs none."""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.field.moduli import BN254_FR
from quod.hash.poseidon import MOST_INPUTS, poseidon_parameters
from quod.r1cs.gadgets.signals import signals, system_over
from quod.r1cs.signal import Signal, hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import whole_number

hide_frames_of(__file__)


def poseidon_hash(
    system: ConstraintSystem, inputs: Sequence[Operand], *, initial: Operand = 0
) -> Signal:
    """The hash of 1 to 16 signals over BN254; `quod.r1cs.reference.poseidon_hash` natively."""
    return poseidon_outputs(system, inputs, 1, initial=initial)[0]


def poseidon_outputs(
    system: ConstraintSystem, inputs: Sequence[Operand], count: int, *, initial: Operand = 0
) -> list[Signal]:
    """The first `count` elements of the state after the permutation of [initial, *inputs]."""
    system_over(system, BN254_FR)
    state = [signal_of(system, initial), *signals(system, "the inputs", inputs)]
    if not 2 <= len(state) <= MOST_INPUTS + 1:
        raise InputError(f"Poseidon takes 1 to {MOST_INPUTS} inputs, not {len(state) - 1}")
    count = whole_number("count", count, 1, len(state))
    parameters = poseidon_parameters(len(state))
    for number, constants in enumerate(parameters.round_constants):
        changed = len(state) if parameters.is_full(number) else 1
        state = [value + constant for value, constant in zip(state, constants, strict=True)]
        state[:changed] = [value**5 for value in state[:changed]]
        state = [system.sum(state, row) for row in parameters.matrix]
    return state[:count]
