"""SHA-256 inside kernels, against hashlib."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest

from quod.device.protocol import AnyDevice
from quod.hash.sha2 import BLOCK_WORDS, Sha256, round_constants, start_words
from quod.kernel import U32, Builder, Pointer, kernel
from quod.kernel.ir import types

MOST = 300


@kernel
def padded_digests(
    k: Builder, n: U32, places: Pointer[U32], words: Pointer[U32], out: Pointer[U32]
) -> None:
    """Hash n padded messages, of which number i is from words[places[i]] to that of the next."""
    sha256, i = Sha256(k), k.global_id()
    with k.if_(i < n):
        start, stop = k.load(places, i, 2)
        state = tuple(k.constant(word, types.u32) for word in start_words())
        with k.range(start, stop, BLOCK_WORDS, carry=state) as loop:
            loop.next(
                tuple(sha256.after_block(loop.carried, k.load(words, loop.index, BLOCK_WORDS)))
            )
        k.store(out, i * 8, *loop.results)


def padded(message: bytes) -> bytes:
    """As FIPS 180-4 says in section 5.1.1."""
    zeros = -(len(message) + 9) % 64
    return message + b"\x80" + bytes(zeros) + (8 * len(message)).to_bytes(8, "big")


def check_all_lengths(device: AnyDevice, lengths: range) -> None:
    messages = [random.Random(length).randbytes(length) for length in lengths]
    words = [np.frombuffer(padded(message), ">u4").astype(np.uint32) for message in messages]
    places = np.cumsum([0, *map(len, words)]).astype(np.uint32)
    out = np.zeros((len(messages), 8), np.uint32)
    compiled = device.compile(padded_digests)
    count = -(-len(messages) // compiled.lanes)
    device.launch(compiled, count, len(messages), places, np.concatenate(words), out)
    for message, digest in zip(messages, out, strict=True):
        assert digest.astype(">u4").tobytes() == hashlib.sha256(message).digest()


def test_messages_of_all_lengths(device: AnyDevice) -> None:
    check_all_lengths(device, range(MOST + 1))


def test_messages_on_gpus(gpu_device: AnyDevice) -> None:
    check_all_lengths(gpu_device, range(50, 70))


@kernel
def word_digests(
    k: Builder, words: Pointer[U32], out: Pointer[U32], *, counts: tuple[int, ...]
) -> None:
    """Hash the first so many words, which the kernel pads."""
    sha256 = Sha256(k)
    message = k.load(words, 0, max(counts))
    for place, count in enumerate(counts):
        k.store(out, place * 8, *sha256(message[:count]))


def test_padding(device: AnyDevice) -> None:
    """Around the ends of blocks, where length and stop bit need another one."""
    counts = (0, 1, 13, 14, 15, 16, 29, 30)
    data = random.Random(1).randbytes(4 * max(counts))
    out = np.zeros((len(counts), 8), np.uint32)
    compiled = device.compile(word_digests, lanes=1, counts=counts)
    device.launch(compiled, 1, np.frombuffer(data, np.uint32).copy(), out)
    for count, digest in zip(counts, out, strict=True):
        assert digest.tobytes() == hashlib.sha256(data[: 4 * count]).digest()


@pytest.mark.parametrize(
    ("constants", "first", "last"),
    [(start_words(), 0x6A09E667, 0x5BE0CD19), (round_constants(), 0x428A2F98, 0xC67178F2)],
)
def test_constants_match_fips_180_4(constants: list[int], first: int, last: int) -> None:
    """FIPS 180-4, sections 4.2.2 and 5.3.3."""
    assert (constants[0], constants[-1]) == (first, last)
