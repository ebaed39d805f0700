"""circomlib's Poseidon in a circuit: three constraints per S-box, none for the linear layer."""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.field.moduli import BN254_FR
from quod.hash.poseidon import MAX_INPUTS, poseidon_parameters
from quod.r1cs.gadgets.signals import check_field, signals
from quod.r1cs.signal import Signal, hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import whole_number

hide_frames_of(__file__)


def poseidon_hash(
    system: ConstraintSystem, inputs: Sequence[Operand], *, initial: Operand = 0
) -> Signal:
    """Hash 1 to 16 signals over BN254; the reference is `quod.r1cs.reference.poseidon_hash`."""
    return poseidon_outputs(system, inputs, 1, initial=initial)[0]


def poseidon_outputs(
    system: ConstraintSystem, inputs: Sequence[Operand], count: int, *, initial: Operand = 0
) -> list[Signal]:
    """Permute [initial, *inputs] and return the first `count` elements of the state."""
    check_field(system, BN254_FR)
    state = [signal_of(system, initial), *signals(system, "the inputs", inputs)]
    if not 2 <= len(state) <= MAX_INPUTS + 1:
        raise InputError(f"Poseidon takes 1 to {MAX_INPUTS} inputs, not {len(state) - 1}")
    count = whole_number("count", count, 1, len(state))
    parameters = poseidon_parameters(len(state))
    for round_index, constants in enumerate(parameters.round_constants):
        sbox_count = len(state) if parameters.is_full(round_index) else 1
        state = [value + constant for value, constant in zip(state, constants, strict=True)]
        state[:sbox_count] = [value**5 for value in state[:sbox_count]]
        state = [system.sum(state, row) for row in parameters.matrix]
    return state[:count]
