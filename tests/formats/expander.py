"""Files of Expander's compiler, put together by the description alone, and what they mean."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

M31 = (1 << 31) - 1
GOLDILOCKS = (1 << 64) - (1 << 32) + 1
BABY_BEAR = (1 << 31) - (1 << 27) + 1
BN254 = 0x30644E72E131A029B85045B68181585D2833E84879B9709143E1F593F0000001
ELEMENT_BYTES = {M31: 4, GOLDILOCKS: 8, BABY_BEAR: 4, BN254: 32, 2: 1}

RANDOM = "random"
Coefficient = Any
"""An int, RANDOM, or ("public", number)."""


@dataclass
class Segment:
    """A segment: gates are (inputs..., output, coefficient), unary ones have their kind before."""

    inputs: int
    outputs: int
    children: list[tuple[int, list[tuple[int, int]]]] = field(default_factory=list)
    mul: list[Any] = field(default_factory=list)
    add: list[Any] = field(default_factory=list)
    const: list[Any] = field(default_factory=list)
    uni: list[Any] = field(default_factory=list)


def u64(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def coefficient(prime: int, value: Coefficient) -> bytes:
    if value == RANDOM:
        return b"\2"
    if isinstance(value, tuple):
        return b"\3" + u64(value[1])
    number: int = value % prime
    return b"\1" + number.to_bytes(ELEMENT_BYTES[prime], "little")


def segment_bytes(prime: int, segment: Segment) -> bytes:
    parts = [u64(segment.inputs, segment.outputs, len(segment.children))]
    for child, copies in segment.children:
        parts.append(u64(child, len(copies)) + b"".join(u64(*copy) for copy in copies))
    for gates in (segment.mul, segment.add, segment.const):
        parts.append(u64(len(gates)))
        parts += [u64(*places) + coefficient(prime, value) for *places, value in gates]
    parts.append(u64(len(segment.uni)))
    for kind, x, output, value in segment.uni:
        parts.append(u64(kind, 1, x, output) + coefficient(prime, value))
    return b"".join(parts)


def circuit_bytes(
    prime: int, segments: Sequence[Segment], layers: Sequence[int], *, public: int = 0,
    outputs: int = 1, zeros: int = 1,
) -> bytes:  # fmt: skip
    parts = [b"CIRCUIT6", prime.to_bytes(32, "little"), u64(public, outputs, zeros, len(segments))]
    parts += [segment_bytes(prime, segment) for segment in segments]
    return b"".join([*parts, u64(len(layers)), u64(*layers)])


def witness_bytes(
    prime: int, private: Sequence[Sequence[int]], public: Sequence[Sequence[int]]
) -> bytes:
    size = ELEMENT_BYTES[prime]
    parts = [u64(len(private), len(private[0]), len(public[0])), prime.to_bytes(32, "little")]
    for secret, shared in zip(private, public, strict=True):
        parts += [value.to_bytes(size, "little") for value in (*secret, *shared)]
    return b"".join(parts)


def values(
    prime: int, segments: Sequence[Segment], number: int, inputs: Sequence[int],
    public: Sequence[int],
) -> list[int]:  # fmt: skip
    """Return the outputs of a segment without random coefficients."""
    segment = segments[number]
    outputs = [0] * segment.outputs
    for child, copies in segment.children:
        callee = segments[child]
        for into, out in copies:
            # A segment's padding may lie beyond its parent's.
            passed = [*inputs[into : into + callee.inputs], *[0] * callee.inputs][: callee.inputs]
            for place, value in enumerate(values(prime, segments, child, passed, public)):
                if value:
                    outputs[out + place] += value

    def factor(value: Coefficient) -> int:
        return public[value[1]] if isinstance(value, tuple) else value

    for x, y, output, value in segment.mul:
        outputs[output] += factor(value) * inputs[x] * inputs[y]
    for x, output, value in segment.add:
        outputs[output] += factor(value) * inputs[x]
    for output, value in segment.const:
        outputs[output] += factor(value)
    for kind, x, output, value in segment.uni:
        outputs[output] += factor(value) * inputs[x] ** {12345: 5, 12346: 1}[kind]
    return [value % prime for value in outputs]


SMALL = [
    Segment(4, 1, mul=[(2, 1, 0, -1)], add=[(0, 0, -1), (3, 0, 1)]),
    Segment(1, 1, add=[(0, 0, RANDOM)]),
    *[Segment(1, 1, add=[(0, 0, 1)]) for _ in range(4)],
]
"""x3 - x0 - x1 * x2 over M31, times a challenge, handed on through four layers."""
SMALL_CIRCUIT = circuit_bytes(M31, SMALL, range(6))
SMALL_WITNESS = witness_bytes(M31, [[10, 5, 2, 20]] * 16, [[]] * 16)

EVERYTHING = [
    Segment(
        4, 4, mul=[(0, 1, 0, 5)], add=[(3, 1, -1), (2, 1, RANDOM), (1, 1, 1)],
        const=[(2, 9), (3, ("public", 1)), (3, ("public", 0)), (0, RANDOM)],
        uni=[(12345, 2, 3, 2), (12346, 3, 0, RANDOM), (12345, 0, 1, -2)],
    ),
    Segment(8, 8, [(0, [(0, 0), (4, 4), (2, 3)])], add=[(7, 7, 1)]),
    Segment(8, 2, [(1, [(0, 0)] * 0)], mul=[(7, 7, 1, -1)]),
]  # fmt: skip
"""Gates and coefficients of all sorts; segment 1 has copies of segment 0, segment 2 none."""
