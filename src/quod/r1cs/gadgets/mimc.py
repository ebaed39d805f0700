"""circomlib's MiMC7 and MiMCSponge in a circuit: four and three constraints per round."""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.moduli import BN254_FR
from quod.hash.mimc import mimc7_constants, mimc_sponge_constants
from quod.r1cs.gadgets.signals import check_field, signals
from quod.r1cs.signal import Signal, hide_frames_of, signal_of
from quod.r1cs.system import ConstraintSystem, Operand
from quod.validation import whole_number

hide_frames_of(__file__)


def mimc7(system: ConstraintSystem, value: Operand, key: Operand) -> Signal:
    """The cipher MiMC7 of a signal under a key; 364 constraints."""
    check_field(system, BN254_FR)
    state, secret = signal_of(system, value), signal_of(system, key)
    for constant in mimc7_constants():
        state = (state + secret + constant) ** 7
    return state + secret


def mimc7_hash(system: ConstraintSystem, values: Sequence[Operand], *, key: Operand = 0) -> Signal:
    """The MiMC7 hash of signals; 364 constraints per signal."""
    check_field(system, BN254_FR)
    state = signal_of(system, key)
    for value in signals(system, "the values", values):
        state = state + value + mimc7(system, value, state)
    return state


def mimc_feistel(
    system: ConstraintSystem, left: Operand, right: Operand, key: Operand
) -> tuple[Signal, Signal]:
    """The permutation of MiMCSponge; 660 constraints."""
    check_field(system, BN254_FR)
    a, b, secret = (signal_of(system, each) for each in (left, right, key))
    for constant in mimc_sponge_constants():
        base = a + secret + constant
        if base.constant is not None:
            a, b = b + base**5, a
            continue
        # The new left half gets a wire; its linear combination would otherwise grow in each round.
        fourth, new_left = base**4, system.wire()
        system.enforce(fourth, base, new_left - b)
        a, b = new_left, a
    return b, a


def mimc_sponge(
    system: ConstraintSystem, values: Sequence[Operand], *, key: Operand = 0, outputs: int = 1
) -> list[Signal]:
    """Hash signals with the MiMC sponge; 660 constraints per value and per output but the first."""
    check_field(system, BN254_FR)
    secret = signal_of(system, key)
    outputs = whole_number("outputs", outputs, 1, 1 << 16)
    state = (system.zero, system.zero)
    for value in signals(system, "the values", values):
        state = mimc_feistel(system, state[0] + value, state[1], secret)
    squeezed = [state[0]]
    while len(squeezed) < outputs:
        state = mimc_feistel(system, *state, secret)
        squeezed.append(state[0])
    return squeezed
