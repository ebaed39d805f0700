"""What a transform is told of its direction and of the order of its elements."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from quod.validation import choice

Ordering = Literal["NN", "NR", "RN", "RR"]
"""Order of what comes in and of what goes out: N natural, R bit-reversed."""

Way = Literal["forward", "inverse"]
"""From coefficients to evaluations, or back."""


def check_ordering(ordering: object) -> None:
    """InputError for what is no `Ordering`."""
    choice("an ordering", ordering, get_args(Ordering))


def check_way(way: object) -> None:
    """InputError for what is no `Way`."""
    choice("a way", way, get_args(Way))


def reversed_bits(number: int, bits: int) -> int:
    """The number below 2**bits with its bits reversed."""
    return int(format(number, f"0{bits}b")[::-1], 2) if bits else 0


def bit_reversal(bits: int) -> NDArray[np.uint32]:
    """The index with its `bits` bits reversed, for each index below 2**bits."""
    table = np.zeros(1, np.uint32)
    for _ in range(bits):
        table = np.concatenate([table * 2, table * 2 + 1], dtype=np.uint32)
    return table
