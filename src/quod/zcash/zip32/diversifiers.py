"""Diversifiers of a diversifier key dk by their index: ZIP 32, and FF1 of NIST SP 800-38G.

Diversifier j is FF1-AES256 under dk, without a tweak, of the 88 bits of j, the least significant
first. Half of the diversifiers hash to a point; the others have no address.
"""

from __future__ import annotations

from quod.errors import InputError
from quod.validation import exact_bytes, whole_number
from quod.zcash.address import DIVERSIFIER_BYTES, diversify_hash
from quod.zcash.protocol import SAPLING, Protocol
from quod.zcash.zip32.aes import KEY_BYTES, Aes256

_BITS = 8 * DIVERSIFIER_BYTES
_HALF = _BITS // 2
_HALF_BYTES = -(-_HALF // 8)
_ROUNDS = 10
# The bytes of the block cipher's output that FF1 adds to a half: 4 * ceil(6/4) + 4.
_SUM_BYTES = 12
_MAX_INDEX = (1 << _BITS) - 1
# FF1's first block: version, method, addition, radix 2, rounds, half, length, no tweak.
_PREFIX = (
    bytes([1, 2, 1]) + (2).to_bytes(3, "big") + bytes([_ROUNDS, _HALF])
    + _BITS.to_bytes(4, "big") + bytes(4)
)  # fmt: skip


def indexed_diversifier(key: bytes, index: int) -> bytes:
    """Return diversifier `index`, 11 bytes, which may have no address.

    key: dk, 32 bytes.
    index: from 0 to 2**88 - 1.
    """
    cipher = Aes256(exact_bytes("dk", key, KEY_BYTES))
    number = _reversed_bits(
        whole_number("the index of a diversifier", index, 0, _MAX_INDEX), _BITS
    )  # fmt: skip
    # The numerals of FF1 are bits; in a half the first one is the most significant.
    high, low = divmod(number, 1 << _HALF)
    chained = cipher.encrypt(_PREFIX)
    for round_number in range(_ROUNDS):
        tail = low.to_bytes(_HALF_BYTES, "big")
        block = bytes(len(chained) - 1 - len(tail)) + bytes([round_number]) + tail
        mixed = bytes(a ^ b for a, b in zip(chained, block, strict=True))
        total = high + int.from_bytes(cipher.encrypt(mixed)[:_SUM_BYTES], "big")
        high, low = low, total & (1 << _HALF) - 1
    return _reversed_bits(high << _HALF | low, _BITS).to_bytes(DIVERSIFIER_BYTES, "little")


def find_diversifier(key: bytes, start: int = 0, protocol: Protocol = SAPLING) -> tuple[int, bytes]:
    """Return the first index from `start` on whose diversifier has a point, and the diversifier.

    With `start` 0 this is the default diversifier of dk. Raises InputError if there is none.
    """
    for index in range(
        whole_number("the index of a diversifier", start, 0, _MAX_INDEX), _MAX_INDEX + 1
    ):
        diversifier = indexed_diversifier(key, index)
        if diversify_hash(diversifier, protocol) is not None:
            return index, diversifier
    raise InputError(f"no diversifier from index {start} on has a point")


def _reversed_bits(number: int, count: int) -> int:
    return int(f"{number:0{count}b}"[::-1], 2)
