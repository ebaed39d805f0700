"""Poseidon over M31 as Expander has it: width 16, fifth powers, 8 full and 14 partial rounds.

A round adds constants, multiplies by a matrix whose rows are one row rotated and takes powers, in
a partial round of the first element alone. The linear part costs no layer of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from quod.errors import InputError
from quod.field.moduli import NAMED
from quod.layered.gadgets.arguments import wires_of
from quod.layered.gadgets.permutation import Numbers, Ring, Wires
from quod.layered.program import Program
from quod.layered.wire import Wire
from quod.transcript.plain_keccak import keccak_256
from quod.validation import instance, shown_kind

WIDTH = 16
RATE = 8
FULL_ROUNDS, PARTIAL_ROUNDS = 8, 14
_FIELD = NAMED["m31"]
_SEED = b"poseidon_seed_Mersenne 31_16"
_ROW = (1, 1, 51, 1, 11, 17, 2, 1, 101, 63, 15, 2, 67, 22, 13, 3)


def poseidon_m31(program: Program, state: Sequence[Wire]) -> list[Wire]:
    """The permutation of 16 wires."""
    _check_field(program)
    return _permuted(Wires(program), wires_of("the state of Poseidon", program, state, WIDTH))


def poseidon_m31_hash(program: Program, message: Sequence[Wire]) -> list[Wire]:
    """The 16 wires of the digest of a message of at least one.

    The last block is filled up with zeros and the length is not hashed: messages of different
    lengths that end in zeros have one digest. Fix the length.
    """
    _check_field(program)
    wires = wires_of("the message", program, message, least=1)
    return _hashed(Wires(program), wires)


def poseidon_m31_hash_numbers(message: Sequence[int]) -> list[int]:
    """The same of integers."""
    if not isinstance(message, (list, tuple)) or not message:
        raise InputError(f"the message is a list of int, not {shown_kind(message)}")
    for value in message:
        if type(value) is not int:
            raise InputError(f"the message is made of int, not {shown_kind(value)}")
    p = _FIELD.value
    return _hashed(Numbers(p), [value % p for value in message])


def _hashed(ring: Ring, message: Sequence[Any]) -> list[Any]:
    state: list[Any] = [ring.sum([])] * WIDTH
    for start in range(0, len(message), RATE):
        block = message[start : start + RATE]
        for at, value in enumerate(block, WIDTH - RATE):
            state[at] = ring.sum([state[at], value])
        state = _permuted(ring, state)
    return state


def _permuted(ring: Ring, state: list[Any]) -> list[Any]:
    for number, constants in enumerate(round_constants()):
        added = [ring.sum([value, c]) for value, c in zip(state, constants, strict=True)]
        state = [ring.sum(added, _ROW[at:] + _ROW[:at]) for at in range(WIDTH)]
        full = not FULL_ROUNDS // 2 <= number < FULL_ROUNDS // 2 + PARTIAL_ROUNDS
        changed = WIDTH if full else 1
        state[:changed] = [ring.power(value, 5) for value in state[:changed]]
    return state


@cache
def round_constants() -> list[list[int]]:
    """The constants of each round: four bytes of a chain of Keccak-256 each, modulo p."""
    found, seed = [], keccak_256(_SEED)
    for _ in range((FULL_ROUNDS + PARTIAL_ROUNDS) * WIDTH):
        seed = keccak_256(seed)
        found.append(int.from_bytes(seed[:4], "little") % _FIELD.value)
    return [found[start : start + WIDTH] for start in range(0, len(found), WIDTH)]


def _check_field(program: Program) -> None:
    instance("the program of a gadget", program, Program, "Program(field) makes one")
    if program.field != _FIELD:
        raise InputError(f"this Poseidon is over m31, the program over {program.field.name}")
