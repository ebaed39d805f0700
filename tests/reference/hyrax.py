"""Hyrax on plain integers, with the sumcheck that makes several claims one.

Nothing here is shared with `quod.commitment` but what a message is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from quod.curve.named.bn254 import BN254
from quod.curve.parameters import G1Point
from quod.field import Modulus
from quod.transcript import Label, Transcript
from tests.reference.curve import g1_of

CURVE = g1_of(BN254)
FIELD: Modulus = BN254.fr
Q, R = BN254.fq.value, BN254.fr.value

Claims = Sequence[tuple[Sequence[int], int]]


def base(number: int) -> tuple[int, int]:
    """Base `number`, hashed to the curve."""
    for attempt in range(1000):
        text = b"quod hyrax bases 1 bn254.g1" + number.to_bytes(8, "little")
        digest = hashlib.sha3_256(text + attempt.to_bytes(4, "little")).digest()
        bits = bin(int.from_bytes(digest, "little") | 1 << 256)[3:]
        x = int(bits[2:], 2)
        y = pow(x**3 + 3, (Q + 1) // 4, Q)
        if x < Q and (y * y - x**3 - 3) % Q == 0:
            return x, max(y, Q - y) if bits[0] == "1" else min(y, Q - y)
    raise AssertionError("no base")


def compressed(point: G1Point) -> bytes:
    """x little-endian; the highest bit is set for the larger y, the next one for infinity."""
    if point is None:
        return bytes(31) + b"\x40"
    x, y = point
    return (x + (1 << 255 if y > Q - y else 0)).to_bytes(32, "little")


def elements(values: Sequence[int]) -> bytes:
    return b"".join(value.to_bytes(32, "little") for value in values)


class Prover:
    """A prover's messages, and their transcript."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript, self.sent = transcript, b""

    def send(self, label: Label, message: bytes) -> None:
        self.transcript.absorb(label, message)
        self.sent += message

    def challenge(self) -> int:
        (value,) = self.transcript.challenge(FIELD)
        return value


def combination(scalars: Sequence[int], points: Sequence[G1Point]) -> G1Point:
    total: G1Point = None
    for scalar, point in zip(scalars, points, strict=True):
        total = CURVE.add(total, CURVE.mul(scalar % R, point))
    return total


def eq(point: Sequence[int]) -> list[int]:
    """At all corners, the first coordinate's bit the highest."""
    count = len(point)
    weights = []
    for corner in range(1 << count):
        weight = 1
        for place, w in enumerate(point):
            bit = corner >> (count - 1 - place) & 1
            weight = weight * (w if bit else 1 - w) % R
        weights.append(weight)
    return weights


def value(table: Sequence[int], point: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(table, eq(point), strict=True)) % R


def one_claim(prover: Prover, table: Sequence[int], claims: Claims) -> tuple[list[int], int]:
    """Point and value of the claim that is left."""
    for point, claimed in claims:
        prover.transcript.absorb(Label.POINT, elements(point))
        prover.transcript.absorb(Label.CLAIM, elements([claimed]))
    if len(claims) == 1:
        return list(claims[0][0]), claims[0][1]
    factors = [1, *(prover.challenge() for _ in claims[1:])]
    weights = [0] * len(table)
    for factor, (point, _) in zip(factors, claims, strict=True):
        weights = [(w + factor * e) % R for w, e in zip(weights, eq(point), strict=True)]
    v, point = list(table), []
    while len(v) > 1:
        half = len(v) // 2
        pairs = [(v[i], v[i + half], weights[i], weights[i + half]) for i in range(half)]
        linear = sum(a * (d - c) + (b - a) * c for a, b, c, d in pairs) % R
        square = sum((b - a) * (d - c) for a, b, c, d in pairs) % R
        prover.send(Label.ROUND, elements([linear, square]))
        r = prover.challenge()
        v = [(a + r * (b - a)) % R for a, b, _, _ in pairs]
        weights = [(c + r * (d - c)) % R for _, _, c, d in pairs]
        point.append(r)
    prover.send(Label.VALUES, elements(v))
    return point, v[0]


def commit(prover: Prover, table: Sequence[int], variables: int) -> list[G1Point]:
    """The commitments of all rows."""
    columns = 1 << (variables - variables // 2)
    bases = [base(number) for number in range(columns)]
    rows = [table[at : at + columns] for at in range(0, len(table), columns)]
    points = [combination(row, bases) for row in rows]
    prover.send(Label.COMMITMENT, b"".join(map(compressed, points)))
    return points


def open_claims(prover: Prover, table: Sequence[int], variables: int, claims: Claims) -> None:
    """Shows claims about the table that was committed to."""
    columns = 1 << (variables - variables // 2)
    point, _ = one_claim(prover, table, claims)
    row = [0] * columns
    for number, weight in enumerate(eq(point[: variables // 2])):
        for column in range(columns):
            row[column] += weight * table[number * columns + column]
    prover.send(Label.OPENING, elements([entry % R for entry in row]))
