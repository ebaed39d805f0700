"""Ligero on plain integers: every value by its definition, nothing transformed or folded.

It shares with Quod the bytes of the transcript, and products in extensions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import comb

from quod.field.element_bytes import encode
from quod.field.moduli import Modulus
from quod.field.plain_extension import product
from quod.field.spec import FieldSpec
from quod.transcript import Label, Transcript
from tests.reference import sumcheck
from tests.reference.sumcheck import embed, equality, multilinear

Plain = tuple[int, ...]


def sizes(log2_size: int, log_blowup: int, max_log_length: int) -> tuple[int, int, int]:
    """The logarithms of rows, of a row's entries and of a word's."""
    log_columns = min(log2_size, -(-(log2_size + 4) // 2), max_log_length - log_blowup)
    return log2_size - log_columns, log_columns, log_columns + log_blowup


def points(modulus: Modulus, log_length: int) -> list[tuple[int, int]] | list[int]:
    """Points of the code, in the order of their numbers."""
    p, count = modulus.value, 1 << log_length
    order = [int(format(j, f"0{log_length}b")[::-1], 2) for j in range(count)]
    if p % 4 == 1:
        g = next(g for g in range(2, p) if pow(g, (p - 1) // 2, p) != 1)
        root = pow(g, (p - 1) // count, p)
        return [pow(root, exponent, p) for exponent in order]
    generator = next(
        candidate for x in range(2, p) for y in roots(p, 1 - x * x) if y % 2
        if order_is_full(p, candidate := circle_power(p, (x, y), odd_part(p + 1)))
    )  # fmt: skip
    first = circle_power(p, generator, (p + 1) // odd_part(p + 1) // (2 * count))
    on_circle = []
    for j in range(count):
        half = format(j >> 1, f"0{log_length - 1}b")[::-1] if log_length > 1 else "0"
        angle = 1 + 4 * int(half, 2)
        on_circle.append(circle_power(p, first, -angle % (2 * count) if j % 2 else angle))
    return on_circle


def roots(p: int, square: int) -> list[int]:
    root = pow(square, (p + 1) // 4, p)
    return [root, p - root] if (root * root - square) % p == 0 else []


def odd_part(number: int) -> int:
    while number % 2 == 0:
        number //= 2
    return number


def order_is_full(p: int, point: tuple[int, int]) -> bool:
    half = (p + 1) // odd_part(p + 1) // 2
    return circle_power(p, point, half) == (p - 1, 0)


def circle_power(p: int, point: tuple[int, int], exponent: int) -> tuple[int, int]:
    """As of the complex number x + i*y, bit after bit from the lowest."""
    (x, y), (a, b) = (1, 0), point
    while exponent:
        if exponent & 1:
            x, y = (x * a - y * b) % p, (x * b + y * a) % p
        a, b = (a * a - b * b) % p, 2 * a * b % p
        exponent >>= 1
    return x, y


def word_at(p: int, message: Sequence[int], point: tuple[int, int] | int) -> int:
    """The polynomial with a message as coefficients, at one point."""
    if isinstance(point, int):
        return sum(c * pow(point, exponent, p) for exponent, c in enumerate(message)) % p
    x, y = point
    factors = [y]
    for _ in range(1, len(message).bit_length()):
        factors.append(x)
        x = (2 * x * x - 1) % p
    total = 0
    for j, c in enumerate(message):
        for level, factor in enumerate(factors):
            c = c * factor % p if j >> level & 1 else c
        total += c
    return total % p


Hashed = Callable[[bytes, int], bytes]
"""The digest of bytes on a level: 0 for leaves, 1 for the nodes above."""


def sha3(data: bytes, level: int) -> bytes:
    return hashlib.sha3_256(data + bytes([level])).digest()


class Tree:
    """All levels of a Merkle tree, the leaves first."""

    def __init__(self, leaves: list[bytes], hashed: Hashed = sha3) -> None:
        self.levels = [leaves]
        while len(self.levels[-1]) > 1:
            below = self.levels[-1]
            pairs = zip(below[::2], below[1::2], strict=True)
            self.levels.append([hashed(a + b, 1) for a, b in pairs])

    def shown(self, places: Sequence[int]) -> bytes:
        """The digests that the leaves at some places do not give."""
        digests = b""
        for height, level in enumerate(self.levels[:-1]):
            reached = {place >> height for place in places}
            digests += b"".join(
                digest for number, digest in enumerate(level)
                if number not in reached and number ^ 1 in reached
            )  # fmt: skip
        return digests


def columns_needed(length: int, message: int, bits: int) -> int:
    """The least number of columns of which all are right with a chance of at most 2**-bits."""
    wrong = (length - message - 1) // 2 + 1
    return next(
        count for count in range(length + 1)
        if Fraction(comb(length - wrong, count), comb(length, count)) <= Fraction(1, 1 << bits)
    )  # fmt: skip


class Ligero:
    """A prover of one table; `prove` commits, and opens claims as (point, value)."""

    def __init__(
        self, field: FieldSpec, table: Sequence[int], max_log_length: int, log_blowup: int = 2,
        bits: int = 110, hashed: Hashed = sha3,
    ) -> None:  # fmt: skip
        self.hashed = hashed
        self.field, self.p = field, field.modulus.value
        log_size = len(table).bit_length() - 1
        self.log_rows, self.log_columns, self.log_length = sizes(
            log_size, log_blowup, max_log_length
        )
        columns, length = 1 << self.log_columns, 1 << self.log_length
        self.rows = [table[at : at + columns] for at in range(0, len(table), columns)]
        places = points(field.modulus, self.log_length)
        self.words = [[word_at(self.p, row, point) for point in places] for row in self.rows]
        self.hash_columns()
        self.opened = columns_needed(length, columns, bits)

    def hash_columns(self) -> None:
        """The tree of the words as they are."""
        leaves = [self.hashed(self.column(j), 0) for j in range(1 << self.log_length)]
        self.tree = Tree(leaves, self.hashed)

    def column(self, j: int) -> bytes:
        return encode(self.field.modulus, [(word[j],) for word in self.words])

    def prove(self, transcript: Transcript, claims: Sequence[tuple[list[Plain], Plain]]) -> bytes:
        root = self.tree.levels[-1][0]
        transcript.absorb(Label.COMMITMENT, root)
        return root + self.open(transcript, claims)

    def open(self, transcript: Transcript, claims: Sequence[tuple[list[Plain], Plain]]) -> bytes:
        field = self.field
        for point, value in claims:
            transcript.absorb(Label.POINT, encode(field, point))
            transcript.absorb(Label.CLAIM, encode(field, [value]))
        factor, factors = embed(field, 1), [embed(field, 1)]
        if len(claims) > 1:
            factor = transcript.challenge(field)
        for _ in claims[1:]:
            factors.append(product(field, factors[-1], factor))

        # Of each claim the rows' values at the lower variables, and eq of the upper ones.
        tables: list[list[Plain]] = []
        for (point, _), claim_factor in zip(claims, factors, strict=True):
            upper, lower = point[: self.log_rows], point[self.log_rows :]
            values = [
                multilinear(field, [embed(field, entry) for entry in row], lower)
                for row in self.rows
            ]
            corners = [
                [number >> (self.log_rows - 1 - at) & 1 for at in range(self.log_rows)]
                for number in range(len(self.rows))
            ]
            tables.append([product(field, claim_factor, value) for value in values])
            tables.append([equality(field, upper, corner) for corner in corners])
        terms = [(1, (2 * number, 2 * number + 1)) for number in range(len(claims))]

        def answered(message: list[Plain]) -> Plain:
            transcript.absorb(Label.ROUND, encode(field, message))
            return transcript.challenge(field)

        self.messages, r, _ = sumcheck.prove(field, terms, tables, None, answered)
        proof = b"".join(encode(field, message) for message in self.messages)
        combination = self.combined(r)
        transcript.absorb(Label.OPENING, encode(field, combination))
        return proof + encode(field, combination) + self.columns(transcript)

    def combined(self, r: Sequence[Plain]) -> list[Plain]:
        """The rows' combination with eq of a point."""
        field = self.field
        return [
            multilinear(field, [embed(field, row[j]) for row in self.rows], r)
            for j in range(1 << self.log_columns)
        ]

    def columns(self, transcript: Transcript) -> bytes:
        """Those that are drawn, and the nodes that show them."""
        drawn: list[int] = []
        while len(set(drawn)) < self.opened:
            state = transcript.draw()
            for at in range(0, 32, 4):
                drawn.append(int.from_bytes(state[at : at + 4], "little") % (1 << self.log_length))
        kept: list[int] = []
        for place in drawn:
            if place not in kept and len(kept) < self.opened:
                kept.append(place)
        places = sorted(kept)
        leaves = b"".join(self.tree.levels[0][place] for place in places)
        transcript.absorb(Label.OPENING, leaves)
        shown = self.tree.shown(places)
        transcript.absorb(Label.OPENING, shown)
        return b"".join(map(self.column, places)) + shown


def value(field: FieldSpec, table: Sequence[int], point: Sequence[Plain]) -> Plain:
    """The table's polynomial at a point."""
    return multilinear(field, [embed(field, entry) for entry in table], point)
