"""AES-256 of single blocks, for diversifiers: FIPS 197. It does not run in constant time."""

from __future__ import annotations

from functools import cache

KEY_BYTES, BLOCK_BYTES = 32, 16
_ROUNDS = 14
_KEY_WORDS = KEY_BYTES // 4


class Aes256:
    """The cipher under a key of 32 bytes."""

    def __init__(self, key: bytes) -> None:
        self._round_keys = _round_keys(key)

    def encrypt(self, block: bytes) -> bytes:
        """Return the ciphertext of a block of 16 bytes."""
        box = _substitution_box()
        first, *middle, last = self._round_keys
        state = _add(block, first)
        for round_key in middle:
            state = _add(_mix_columns(_shift_rows([box[byte] for byte in state])), round_key)
        return bytes(_add(_shift_rows([box[byte] for byte in state]), last))


def _add(state: bytes | list[int], round_key: bytes) -> list[int]:
    return [a ^ b for a, b in zip(state, round_key, strict=True)]


def _shift_rows(state: list[int]) -> list[int]:
    """Rotate row r of the state, whose columns are consecutive, by r columns."""
    return [state[(index + 4 * (index % 4)) % BLOCK_BYTES] for index in range(BLOCK_BYTES)]


def _mix_columns(state: list[int]) -> list[int]:
    mixed = []
    for start in range(0, BLOCK_BYTES, 4):
        column = state[start : start + 4]
        total = column[0] ^ column[1] ^ column[2] ^ column[3]
        for row in range(4):
            pair = column[row] ^ column[(row + 1) % 4]
            mixed.append(column[row] ^ total ^ _doubled(pair))
    return mixed


def _doubled(byte: int) -> int:
    """Return twice an element of the field of 256 elements."""
    return byte << 1 ^ 0x11B if byte & 0x80 else byte << 1


@cache
def _substitution_box() -> bytes:
    """Return the S-box: the inverse in the field of 256 elements, then an affine map."""
    # 3 generates the multiplicative group.
    powers = [1]
    while len(powers) < 255:
        powers.append(powers[-1] ^ _doubled(powers[-1]))
    inverses = {power: powers[-exponent % 255] for exponent, power in enumerate(powers)} | {0: 0}
    box = bytearray(256)
    for byte, inverse in inverses.items():
        rotations = 0
        for count in range(5):
            rotations ^= inverse << count | inverse >> 8 - count
        box[byte] = rotations & 0xFF ^ 0x63
    return bytes(box)


def _round_keys(key: bytes) -> list[bytes]:
    box = _substitution_box()
    words = [key[start : start + 4] for start in range(0, KEY_BYTES, 4)]
    constant = 1
    while len(words) < 4 * (_ROUNDS + 1):
        word, index = words[-1], len(words)
        if index % _KEY_WORDS == 0:
            word = bytes(box[byte] for byte in word[1:] + word[:1])
            word = bytes([word[0] ^ constant]) + word[1:]
            constant = _doubled(constant)
        elif index % _KEY_WORDS == 4:
            word = bytes(box[byte] for byte in word)
        words.append(bytes(_add(words[-_KEY_WORDS], word)))
    return [b"".join(words[start : start + 4]) for start in range(0, len(words), 4)]
