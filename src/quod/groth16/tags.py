"""How a key says of itself what it is."""

from __future__ import annotations

INSECURE_TAG = b"QUOD INSECURE TEST KEY\0\0"
"""With what the circuit hash of a key made here begins: 24 bytes, then 40 of BLAKE2b."""

TEST_GAMMA = int.from_bytes(b"QUODTEST", "big")
"""The gamma of every key made here, by which its verifying key is known too.

A gamma need not be secret: that of snarkjs's keys is 1.
"""
