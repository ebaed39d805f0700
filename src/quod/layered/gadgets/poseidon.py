"""Poseidon over M31 (`quod.hash.poseidon_m31`) as a sub-circuit; its linear part costs no layer."""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.hash.poseidon_m31 import FIELD, RATE, ROW, WIDTH, powers_in, round_constants
from quod.layered.gadgets.arguments import wires_of
from quod.layered.program import Program
from quod.layered.wire import Wire


def poseidon_m31(program: Program, state: Sequence[Wire]) -> list[Wire]:
    """Permute 16 wires."""
    _check_field(program)
    return _permuted(program, wires_of("the state of Poseidon", program, state, WIDTH))


def poseidon_m31_hash(program: Program, message: Sequence[Wire]) -> list[Wire]:
    """Hash a message of at least one wire to a digest of 16 wires.

    The last block is padded with zeros and the length is not hashed: messages that differ only in
    trailing zeros have the same digest, so fix the length.
    """
    _check_field(program)
    wires = wires_of("the message", program, message, least=1)
    state = [program.sum([])] * WIDTH
    for start in range(0, len(wires), RATE):
        for index, wire in enumerate(wires[start : start + RATE], WIDTH - RATE):
            state[index] = program.sum([state[index], wire])
        state = _permuted(program, state)
    return state


def _permuted(program: Program, state: list[Wire]) -> list[Wire]:
    for round_index, constants in enumerate(round_constants()):
        sums = [program.sum([wire, c]) for wire, c in zip(state, constants, strict=True)]
        state = [program.sum(sums, ROW[index:] + ROW[:index]) for index in range(WIDTH)]
        power_count = powers_in(round_index)
        state[:power_count] = [wire**5 for wire in state[:power_count]]
    return state


def _check_field(program: Program) -> None:
    if program.field != FIELD:
        raise InputError(f"this Poseidon is over m31, but the program is over {program.field.name}")
