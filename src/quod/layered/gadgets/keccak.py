"""Keccak-f[1600] and SHA3-256 (FIPS 202), over bits that are signs: 1 not set, -1 set.

An exclusive or is a product, and a negation a change of sign, so a round is six layers with 8,000
products. With values of 0 and 1 each exclusive or would be three gates instead of one.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.errors import InputError
from quod.hash.keccak import LANE, RATE, ROUNDS, moves, round_constants
from quod.layered.gadgets.arguments import wires_of
from quod.layered.program import Program
from quod.layered.wire import Wire
from quod.validation import whole_number_or_none

STATE = 25 * LANE
DIGEST = 256


def keccak_f(
    program: Program, state: Sequence[Wire], *, committed_every: int | None = None
) -> list[Wire]:
    """Permute 1600 signs: bit z of lane (x, y) is the value 64 * (x + 5 * y) + z.

    committed_every: the state after each group of this many rounds becomes an input
        (`Program.committed`), so that all groups are in the same layers. 1 gives 7 layers instead
        of 144, for 36,800 more inputs, which are relayed up for comparison, and layers of twice the
        size.
    """
    values = wires_of("the state of Keccak", program, state, STATE)
    rounds_per_group = whole_number_or_none("committed_every", committed_every, 1, ROUNDS)
    for number, constant in enumerate(round_constants()):
        if rounds_per_group and number and number % rounds_per_group == 0:
            with program.scope(f"round[{number}]"):
                values = program.committed(values)
        values = _round(program, values, constant)
    return values


def sha3_256(
    program: Program, message: Sequence[Wire], *, committed_every: int | None = None
) -> list[Wire]:
    """Hash a message of whole bytes to the 256 signs of its digest.

    In both, bytes are in order, and the lowest bit of each byte comes first.

    Does not assert that the message consists of signs (`assert_signs`). `committed_every` is as for
    `keccak_f`, and also commits to the state between blocks.
    """
    signs = wires_of("the message", program, message)
    if len(signs) % 8:
        raise InputError("the message of SHA3-256 must be whole bytes")
    padding = [1] * (RATE - len(signs) % RATE)
    # The padding is SHA-3's suffix 01, then 1, zeros, and 1 at the end of the block.
    for index in (1, 2):
        padding[index] = -1
    padding[-1] = -padding[-1]
    signs += [program.constant(sign) for sign in padding]
    state = [program.constant(1)] * STATE
    for start in range(0, len(signs), RATE):
        block = signs[start : start + RATE]
        if committed_every is not None and start:
            with program.scope(f"block[{start // RATE}]"):
                state = program.committed(state)
        state = [a * b for a, b in zip(state, block, strict=False)] + state[RATE:]
        state = [value.as_value() for value in state]
        state = keccak_f(program, state, committed_every=committed_every)
    return state[:DIGEST]


def _round(program: Program, state: list[Wire], constant: int) -> list[Wire]:
    def at(x: int, y: int, z: int) -> Wire:
        return state[LANE * (x % 5 + 5 * (y % 5)) + z % LANE]

    # Theta multiplies a bit by the ten bits of two columns. The first four rows of a column are a
    # product of two pairs; the last rows of both columns are multiplied separately. So theta takes
    # four layers instead of five: (bit * last * last) * (four * four).
    fours, after_theta = list[list[Wire]](), list[Wire]()
    for x in range(5):
        fours.append([])
        for z in range(LANE):
            low, high = at(x, 0, z) * at(x, 1, z), at(x, 2, z) * at(x, 3, z)
            fours[x].append(low * high)
    columns = [
        [
            (
                (fours[x - 1][z] * fours[(x + 1) % 5][(z - 1) % LANE]).as_value(),
                (at(x - 1, 4, z) * at(x + 1, 4, z - 1)).as_value(),
            )
            for z in range(LANE)
        ]
        for x in range(5)
    ]
    for index, value in enumerate(state):
        four, last = columns[index // LANE % 5][index % LANE]
        after_theta.append(((value * last) * four).as_value())
    # Rho and pi move bits.
    rotated = [program.constant(1)] * STATE
    for lane, bits, target in moves():
        for z in range(LANE):
            rotated[LANE * target + (z + bits) % LANE] = after_theta[LANE * lane + z]
    # Chi: not b and c, as a sign, is (1 - b + c + b * c) / 2.
    half, result = pow(2, -1, program.field.value), list[Wire]()
    weights = [half, -half, half, half]
    for index, value in enumerate(rotated):
        lane, z = divmod(index, LANE)
        y, x = divmod(lane, 5)
        b, c = (rotated[LANE * ((x + step) % 5 + 5 * y) + z] for step in (1, 2))
        not_b_and_c_sign = program.sum([1, b, c, b * c], weights)
        # Iota changes signs of the first lane.
        flips = lane == 0 and constant >> z & 1
        result.append(((-value if flips else value) * not_b_and_c_sign).as_value())
    return result
