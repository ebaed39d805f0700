"""The task: a sequence of random symbols, a separator, and the same sequence in reverse.

The model reads all symbols but the last, and predicts the next symbol at each position. Predictions
before the separator do not count, as those symbols are random.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.int32]
Hashes = NDArray[np.uint32]

NOT_COUNTED = -100


def hashed(numbers: Hashes) -> Hashes:
    """Hash each number with the finaliser of MurmurHash3."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        numbers = (numbers ^ (numbers >> np.uint32(shift))) * np.uint32(factor)
    mixed: Hashes = numbers ^ (numbers >> np.uint32(16))
    return mixed


def batch_of(step: int, sequences: int, length: int, symbols: int) -> tuple[Words, Words]:
    """Return the inputs and the targets of a step, each of shape (sequences, 2 * length).

    Symbol `symbols - 1` is the separator. The batch depends only on the step's number, so a page in
    a browser makes the same batch.
    """
    first = step * sequences * length % (1 << 32)
    numbers = np.arange(first, first + sequences * length, dtype=np.uint64).astype(np.uint32)
    symbol_values = hashed(numbers).reshape(sequences, length) % np.uint32(symbols - 1)
    first_half = symbol_values.astype(np.int32)
    separators = np.full((sequences, 1), symbols - 1, np.int32)
    tokens = np.concatenate([first_half, separators, first_half[:, ::-1]], axis=1)
    targets = tokens[:, 1:].copy()
    targets[:, :length] = NOT_COUNTED
    return np.ascontiguousarray(tokens[:, :-1]), targets


def accuracy(logits: NDArray[Any], targets: Words) -> float:
    """Return the share of counted positions at which the target has the largest logit."""
    counted = targets != NOT_COUNTED
    return float((logits.argmax(axis=-1) == targets)[counted].mean())
