"""Keccak-f[1600] and SHA3-256 (FIPS 202), over bits that are signs: 1 not set, -1 set.

Exclusive or is a product and negation a change of sign: a round is six layers with 8,000 products.
With values of 0 and 1 each exclusive or would be three gates instead of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from quod.circuit.gadgets.arguments import wires_of
from quod.circuit.program import Program
from quod.circuit.wire import Wire
from quod.errors import InputError
from quod.validation import whole_number_or_none

LANE = 64
STATE = 25 * LANE
ROUNDS = 24
RATE = 1088
"""The bits of a block of SHA3-256."""

DIGEST = 256
_MASK = (1 << LANE) - 1


def keccak_f(
    program: Program, state: Sequence[Wire], *, committed_every: int | None = None
) -> list[Wire]:
    """The permutation of 1600 signs: bit z of lane (x, y) is the value 64 * (x + 5 * y) + z.

    With `committed_every` the state after each so many rounds is an input, too (`committed`), and
    these parts stand side by side: with 1 in 7 layers instead of 144, for 36,800 more inputs, which
    are carried up to be compared, and twice the places of all layers.
    """
    values = wires_of("the state of Keccak", program, state, STATE)
    every = whole_number_or_none("committed_every", committed_every, 1, ROUNDS)
    for number, constant in enumerate(round_constants()):
        if every and number and number % every == 0:
            with program.scope(f"round[{number}]"):
                values = program.committed(values)
        values = _round(program, values, constant)
    return values


def sha3_256(
    program: Program, message: Sequence[Wire], *, committed_every: int | None = None
) -> list[Wire]:
    """The 256 signs of the digest of a message of whole bytes, of each byte the lowest bit first.

    That the message is made of signs is not asserted (`assert_signs`). `committed_every` is that of
    `keccak_f`, and commits to the state between blocks, too.
    """
    signs = wires_of("the message", program, message)
    if len(signs) % 8:
        raise InputError("the message of SHA3-256 has whole bytes")
    padding = [1] * (RATE - len(signs) % RATE)
    # The bits 01 of SHA-3, then 1, zeros, and 1 at the end of the block.
    for place in (1, 2):
        padding[place] = -1
    padding[-1] = -padding[-1]
    signs += [program.constant(sign) for sign in padding]
    state = [program.constant(1)] * STATE
    for start in range(0, len(signs), RATE):
        block = signs[start : start + RATE]
        if committed_every is not None and start:
            with program.scope(f"block[{start // RATE}]"):
                state = program.committed(state)
        state = [a * b for a, b in zip(state, block, strict=False)] + state[RATE:]
        state = [value.held() for value in state]
        state = keccak_f(program, state, committed_every=committed_every)
    return state[:DIGEST]


def _round(program: Program, state: list[Wire], constant: int) -> list[Wire]:
    def at(x: int, y: int, z: int) -> Wire:
        return state[LANE * (x % 5 + 5 * (y % 5)) + z % LANE]

    # Theta multiplies a bit by ten of two columns. In pairs of pairs, and with the last row of both
    # columns apart, that is four layers instead of five: (bit * last * last) * (four * four).
    fours, changed = list[list[Wire]](), list[Wire]()
    for x in range(5):
        fours.append([])
        for z in range(LANE):
            low, high = at(x, 0, z) * at(x, 1, z), at(x, 2, z) * at(x, 3, z)
            fours[x].append(low * high)
    columns = [
        [
            (
                (fours[x - 1][z] * fours[(x + 1) % 5][(z - 1) % LANE]).held(),
                (at(x - 1, 4, z) * at(x + 1, 4, z - 1)).held(),
            )
            for z in range(LANE)
        ]
        for x in range(5)
    ]
    for place, value in enumerate(state):
        four, last = columns[place // LANE % 5][place % LANE]
        changed.append(((value * last) * four).held())
    # Rho and pi move bits.
    moved = [program.constant(1)] * STATE
    for place, value in enumerate(changed):
        lane, z = divmod(place, LANE)
        y, x = divmod(lane, 5)
        moved[LANE * (y + 5 * ((2 * x + 3 * y) % 5)) + (z + rotations()[lane]) % LANE] = value
    # Chi: not b and c, as a sign, is (1 - b + c + b * c) / 2.
    half, result = pow(2, -1, program.field.value), list[Wire]()
    weights = [half, -half, half, half]
    for place, value in enumerate(moved):
        lane, z = divmod(place, LANE)
        y, x = divmod(lane, 5)
        b, c = (moved[LANE * ((x + step) % 5 + 5 * y) + z] for step in (1, 2))
        both = program.sum([1, b, c, b * c], weights)
        # Iota changes signs of the first lane.
        flips = lane == 0 and constant >> z & 1
        result.append(((-value if flips else value) * both).held())
    return result


@cache
def rotations() -> list[int]:
    """By how much rho rotates the lane x + 5 * y."""
    found, x, y = [0] * 25, 1, 0
    for step in range(ROUNDS):
        found[x + 5 * y] = (step + 1) * (step + 2) // 2 % LANE
        x, y = y, (2 * x + 3 * y) % 5
    return found


@cache
def round_constants() -> list[int]:
    """What iota adds to the first lane, round by round."""
    found, register = [], 1
    for _ in range(ROUNDS):
        constant = 0
        for power in range(7):
            constant |= (register & 1) << (1 << power) - 1
            register = register << 1 ^ (register >> 7) * 0x171
        found.append(constant)
    return found


def permuted(lanes: Sequence[int]) -> list[int]:
    """Keccak-f[1600] of 25 lanes that are integers, on the host."""
    state = list(lanes)
    for constant in round_constants():
        parity = [
            state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20]
            for x in range(5)
        ]
        theta = [parity[x - 1] ^ _rotated(parity[(x + 1) % 5], 1) for x in range(5)]
        moved = [0] * 25
        for lane, value in enumerate(state):
            y, x = divmod(lane, 5)
            moved[y + 5 * ((2 * x + 3 * y) % 5)] = _rotated(value ^ theta[x], rotations()[lane])
        rows = [moved[start : start + 5] for start in range(0, 25, 5)]
        state = [row[x] ^ ~row[(x + 1) % 5] & row[(x + 2) % 5] for row in rows for x in range(5)]
        state[0] ^= constant
    return state


def _rotated(lane: int, by: int) -> int:
    return (lane << by | lane >> (LANE - by)) & _MASK


def keccak_256(data: bytes) -> bytes:
    """Keccak-256 with the padding of 2008, which hashlib has not; on the host."""
    rate = RATE // 8
    padded = bytearray(data + bytes(rate - len(data) % rate))
    padded[len(data)] ^= 0x01
    padded[-1] ^= 0x80
    lanes = [0] * 25
    for start in range(0, len(padded), rate):
        for lane in range(rate // 8):
            place = start + 8 * lane
            lanes[lane] ^= int.from_bytes(padded[place : place + 8], "little")
        lanes = permuted(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])
