"""Values that mark a key as a test key."""

from __future__ import annotations

INSECURE_TAG = b"QUOD INSECURE TEST KEY\0\0"
"""The first 24 bytes of a test key's circuit hash; 40 bytes of BLAKE2b follow."""

TEST_GAMMA = int.from_bytes(b"QUODTEST", "big")
"""The gamma of every test key, which marks the verifying key too.

Gamma need not be secret: in snarkjs's keys it is 1.
"""
