"""How a key says of itself what it is."""

from __future__ import annotations

INSECURE_MARK = b"QUOD INSECURE TEST KEY\0\0"
"""With what the circuit hash of a key made here begins: 24 bytes, then 40 of BLAKE2b."""
