"""Keccak-f[1600], and Keccak-256 of bytes with the padding of 2008; hashlib has SHA-3 alone.

The kernel form of the permutation is in `quod.hash.sha3`, and for the lanes of a subgroup in
`quod.hash.keccak_lanes`. Lane x + 5 * y is that of column x and row y.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

LANE = 64
ROUNDS = 24
RATE = 1088
"""The bits of a block of Keccak-256 and SHA3-256."""

_MASK = (1 << LANE) - 1


@cache
def moves() -> tuple[tuple[int, int, int], ...]:
    """Return the moves of steps rho and pi: (source lane, bits of rotation, target lane) each."""
    lane_moves, x, y = [(0, 0, 0)], 1, 0
    for step in range(ROUNDS):
        lane, bits = x + 5 * y, (step + 1) * (step + 2) // 2 % LANE
        x, y = y, (2 * x + 3 * y) % 5
        lane_moves.append((lane, bits, x + 5 * y))
    return tuple(lane_moves)


@cache
def round_constants() -> list[int]:
    """Return the constants of iota, which are added to the first lane, for each round."""
    constants, register = [], 1
    for _ in range(ROUNDS):
        constant = 0
        for power in range(7):
            constant |= (register & 1) << (1 << power) - 1
            register = register << 1 ^ (register >> 7) * 0x171
        constants.append(constant)
    return constants


def permuted(lanes: Sequence[int]) -> list[int]:
    """Apply Keccak-f[1600] to 25 lanes, integers, on the host."""
    state = list(lanes)
    for constant in round_constants():
        parity = [
            state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20]
            for x in range(5)
        ]
        theta = [parity[x - 1] ^ _rotate_left(parity[(x + 1) % 5], 1) for x in range(5)]
        moved = [0] * 25
        for lane, bits, target in moves():
            moved[target] = _rotate_left(state[lane] ^ theta[lane % 5], bits)
        rows = [moved[start : start + 5] for start in range(0, 25, 5)]
        state = [row[x] ^ ~row[(x + 1) % 5] & row[(x + 2) % 5] for row in rows for x in range(5)]
        state[0] ^= constant
    return state


def _rotate_left(lane: int, bits: int) -> int:
    return (lane << bits | lane >> (LANE - bits)) & _MASK


def keccak_256(data: bytes) -> bytes:
    """Return the 32 bytes of Ethereum's Keccak-256; its padding differs from SHA3-256's."""
    rate = RATE // 8
    padded = bytearray(data + bytes(rate - len(data) % rate))
    padded[len(data)] ^= 0x01
    padded[-1] ^= 0x80
    lanes = [0] * 25
    for start in range(0, len(padded), rate):
        for lane in range(rate // 8):
            offset = start + 8 * lane
            lanes[lane] ^= int.from_bytes(padded[offset : offset + 8], "little")
        lanes = permuted(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])
