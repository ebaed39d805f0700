"""BLAKE2b with a state, against hashlib's."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from quod.errors import InputError
from quod.hash.blake2b import BLOCK, STATE_BYTES, Blake2b, blake2b


@pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 255, 256, 257, 5000])
def test_digests_match_hashlib(length: int) -> None:
    data = np.random.default_rng(length).bytes(length)
    for piece in (1, 37, 128, 4096):
        state = Blake2b()
        for at in range(0, length, piece):
            state.update(data[at : at + piece])
        assert state.digest() == hashlib.blake2b(data).digest() == blake2b(data)
        # A digest does not end it.
        assert state.update(b"more").digest() == hashlib.blake2b(data + b"more").digest()


@pytest.mark.parametrize("length", [0, 100, 128, 129, 640])
def test_restored_state_continues_the_hash(length: int) -> None:
    data = bytes(range(256)) * 3
    state = Blake2b(data[:length]).state()
    assert len(state) == STATE_BYTES
    restored = Blake2b.from_state(state)
    assert restored.state() == state
    assert restored.update(data[length:]).digest() == hashlib.blake2b(data).digest()


def test_arrays_are_hashed_as_bytes() -> None:
    array = np.arange(100, dtype=np.uint32).reshape(10, 10)
    assert Blake2b(array).digest() == hashlib.blake2b(array.tobytes()).digest()


@pytest.mark.parametrize(
    "state",
    [
        b"",
        bytes(STATE_BYTES - 1),
        bytes(BLOCK + 64) + (1).to_bytes(8, "little") + bytes(16),
        bytes(BLOCK + 72) + (BLOCK + 1).to_bytes(8, "little") + bytes(8),
        bytes(STATE_BYTES - 1) + b"\1",
    ],
)
def test_invalid_states_are_rejected(state: bytes) -> None:
    with pytest.raises(InputError, match="state of BLAKE2b"):
        Blake2b.from_state(state)
