"""Proofs as sequences of parts, each after its length in four bytes, little-endian."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quod.errors import InputError

_LENGTH_BYTES = 4


def join_parts(parts: Iterable[bytes]) -> bytes:
    """Return the bytes of all parts, each preceded by its length."""
    return b"".join(len(part).to_bytes(_LENGTH_BYTES, "little") + part for part in parts)


def split_parts(proof: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the bytes of each part; InputError for a part beyond the end."""
    offset = 0
    while offset < len(proof):
        start = offset + _LENGTH_BYTES
        end = start + int.from_bytes(proof[offset:start], "little")
        if start > len(proof) or end > len(proof):
            raise InputError("the proof ends within the part that begins here", offset=offset)
        yield start, proof[start:end]
        offset = end
