"""MiMC over BN254's scalar field as in circomlib: MiMC7, and MiMCSponge's Feistel network.

Albrecht, Grassi, Rechberger, Roy, Tiessen, eprint 2016/492. MiMC7 takes seventh powers in 91
rounds, MiMCSponge fifth powers in 220. The constants of each are a hash chain of Keccak-256.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from quod.field.moduli import BN254_FR
from quod.hash.arguments import element, elements
from quod.hash.keccak import keccak_256
from quod.validation import whole_number

MIMC7_ROUNDS = 91
MIMC_SPONGE_ROUNDS = 220
_P = BN254_FR.value


def mimc7(value: int, key: int) -> int:
    """Return the cipher MiMC7 of one element under a key."""
    value = element("the value", value, BN254_FR)
    key = element("the key", key, BN254_FR)
    for constant in mimc7_constants():
        value = pow(value + key + constant, 7, _P)
    return (value + key) % _P


def mimc7_hash(values: Sequence[int], *, key: int = 0) -> int:
    """Return the hash of elements, circomlibjs's `multiHash`; without elements, the key."""
    state = element("the key", key, BN254_FR)
    for value in elements("a value", values, BN254_FR):
        state = (state + value + mimc7(value, state)) % _P
    return state


def mimc_feistel(left: int, right: int, key: int) -> tuple[int, int]:
    """Apply the permutation of MiMCSponge to two elements under a key."""
    left = element("the left element", left, BN254_FR)
    right = element("the right element", right, BN254_FR)
    key = element("the key", key, BN254_FR)
    for constant in mimc_sponge_constants():
        left, right = (right + pow(left + key + constant, 5, _P)) % _P, left
    # The last round does not swap the halves.
    return right, left


def mimc_sponge(values: Sequence[int], *, key: int = 0, outputs: int = 1) -> list[int]:
    """Hash elements with the sponge, which absorbs one at a time; return `outputs` elements."""
    key = element("the key", key, BN254_FR)
    outputs = whole_number("outputs", outputs, 1, 1 << 16)
    state = (0, 0)
    for value in elements("a value", values, BN254_FR):
        state = mimc_feistel((state[0] + value) % _P, state[1], key)
    squeezed = [state[0]]
    while len(squeezed) < outputs:
        state = mimc_feistel(*state, key)
        squeezed.append(state[0])
    return squeezed


@cache
def mimc7_constants() -> tuple[int, ...]:
    """Return the round constants of MiMC7; the first is 0."""
    return (0, *_chain(b"mimc", MIMC7_ROUNDS - 1))


@cache
def mimc_sponge_constants() -> tuple[int, ...]:
    """Return the round constants of MiMCSponge; the first and the last are 0."""
    return (0, *_chain(b"mimcsponge", MIMC_SPONGE_ROUNDS - 2), 0)


def _chain(seed: bytes, count: int) -> list[int]:
    constants, link = [], keccak_256(seed)
    for _ in range(count):
        link = keccak_256(link)
        constants.append(int.from_bytes(link, "big") % _P)
    return constants
