"""The Grain LFSR from which permutations of Poseidon's kind draw their constants.

Grassi, Khovratovich, Rechberger, Roy, Schofnegger, eprint 2019/458, appendix E, for odd powers over
a prime field.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress

_LENGTH = 80
_TAPS = (62, 51, 38, 23, 13, 0)
_DISCARDED_BITS = 160


def grain_numbers(
    p: int, width: int, full_rounds: int, partial_rounds: int, *, sbox: int = 0
) -> Iterator[int]:
    """Yield integers of p.bit_length() bits, not reduced modulo p, without end.

    sbox: the code of the S-box in the register's start, 4 bits: 0 for a power; neptune writes 1.
    """
    bits = p.bit_length()
    parameters = (
        (1, 2), (sbox, 4), (bits, 12), (width, 12), (full_rounds, 10), (partial_rounds, 10)
    )  # fmt: skip
    register = "".join(f"{value:0{size}b}" for value, size in parameters) + "1" * 30
    position, length = 0, 1 << 12
    while True:
        text = _stream(register, length)[_LENGTH + _DISCARDED_BITS :]
        # The second bit of each pair is kept if the first is 1.
        kept_bits = "".join(compress(text[1::2], map(int, text[::2])))
        for start in range(position, len(kept_bits) - bits + 1, bits):
            yield int(kept_bits[start : start + bits], 2)
            position = start + bits
        length *= 4


def _stream(start: str, length: int) -> str:
    """Return the first `length` bits of the register's sequence, the oldest first.

    The recurrence also holds at distances scaled by 2**k: bit n + 80 * 2**k is the sum modulo 2 of
    the bits n + tap * 2**k. This gives 18 * 2**k bits at a time.
    """
    sequence, available, scale = int(start[::-1], 2), _LENGTH, 1
    while available < length:
        while 2 * scale * _LENGTH <= available:
            scale *= 2
        oldest, next_bits = available - scale * _LENGTH, 0
        for tap in _TAPS:
            next_bits ^= sequence >> oldest + scale * tap
        count = scale * (_LENGTH - max(_TAPS))
        sequence |= (next_bits & (1 << count) - 1) << available
        available += count
    return f"{sequence:0{available}b}"[::-1][:length]
