"""Keccak of the host against hashlib and published digests."""

from __future__ import annotations

import hashlib

from quod.hash import keccak


def test_keccak_256_matches_published_digests() -> None:
    """FIPS 202's constants, and Keccak-256 of nothing and of a block and more."""
    assert keccak.round_constants()[-1] == 0x8000000080008008
    assert [bits for _, bits, _ in sorted(keccak.moves())][1:6] == [1, 62, 28, 27, 36]
    for data, digest in (
        (b"", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
        (b"abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
    ):
        assert keccak.keccak_256(data).hex() == digest
    # The sponge is the one of hashlib but for a bit of padding.
    data = bytes(range(200))
    padded = data + b"\x06" + bytes(272 - 202) + b"\x80"
    lanes = [0] * 25
    for block in (padded[:136], padded[136:]):
        for at in range(17):
            lanes[at] ^= int.from_bytes(block[8 * at : 8 * at + 8], "little")
        lanes = keccak.permuted(lanes)
    assert (
        b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])
        == hashlib.sha3_256(data).digest()
    )
