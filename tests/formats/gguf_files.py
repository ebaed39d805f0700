"""GGUF files put together without the code under test."""

from __future__ import annotations

import struct
from collections.abc import Sequence

Pair = tuple[bytes, int, bytes]
Tensor = tuple[bytes, Sequence[int], int, int]


def text(data: bytes) -> bytes:
    return struct.pack("<Q", len(data)) + data


def array(kind: int, count: int, data: bytes) -> bytes:
    return struct.pack("<IQ", kind, count) + data


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def gguf_file(
    pairs: Sequence[Pair],
    tensors: Sequence[Tensor] = (),
    data: bytes = b"",
    *,
    version: int = 3,
    alignment: int = 32,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """Pairs are key, type and value; tensors name, dimensions, type and offset."""
    stated = (len(tensors), len(pairs)) if counts is None else counts
    head = b"GGUF" + struct.pack("<IQQ", version, *stated)
    for key, kind, value in pairs:
        head += text(key) + u32(kind) + value
    for name, dimensions, kind, offset in tensors:
        head += text(name) + u32(len(dimensions))
        head += struct.pack(f"<{len(dimensions)}Q", *dimensions) + struct.pack("<IQ", kind, offset)
    return head + bytes(-len(head) % alignment) + data


PAIRS: list[Pair] = [
    (b"general.architecture", 8, text(b"tiny")),
    (b"general.alignment", 4, u32(64)),
    (b"a.u8", 0, b"\xff"),
    (b"a.i8", 1, b"\xff"),
    (b"a.u16", 2, b"\xfe\xff"),
    (b"a.i16", 3, b"\xfe\xff"),
    (b"a.i32", 5, b"\xfd\xff\xff\xff"),
    (b"a.f32", 6, struct.pack("<f", 1.5)),
    (b"a.bool", 7, b"\1"),
    (b"a.u64", 10, struct.pack("<Q", 2**63 + 1)),
    (b"a.i64", 11, struct.pack("<q", -(2**62))),
    (b"a.f64", 12, struct.pack("<d", float("inf"))),
    (b"b.tokens", 9, array(8, 3, text("é".encode()) + text(b"") + text(b"end"))),
    (b"b.scores", 9, array(6, 5, struct.pack("<5f", 0, -1, 2.5, 3, 4))),
    (b"b.flags", 9, array(7, 3, b"\1\0\1")),
    (b"b.none", 9, array(4, 0, b"")),
]
TENSORS: list[Tensor] = [
    (b"weights", (256, 2), 12, 128),
    (b"bias", (3,), 0, 0),
    (b"halves", (2, 3), 30, 64),
    (b"scalar", (), 24, 448),
]
DATA = bytes(range(256)) * 2
"""The data of the tensors, of which the last one takes one byte, the 449th."""


def sound() -> bytes:
    """A file with a value of each type, and tensors that are not in the order of their data."""
    return gguf_file(PAIRS, TENSORS, DATA, alignment=64)
