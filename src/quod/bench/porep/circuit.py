"""A circuit of any size whose witness is mostly bits, in the shape of a partition of PoRep.

Wires come in blocks of `width` behind the constant and one public input; each row makes a wire of
the next block from wires of its own:

    bits      2x * y = x + y - out, so that out = x xor y
    quiet     the same, of bits that are all 0
    full      x * y = out, of values as good as random

A row has `terms` entries in A, the first of them x; the others are of quiet wires, which add
nothing. In B it has one, and only every third wire is in B at all. Which wires a row takes follows
from its number by products modulo the size of its range, and the rows of a wire by their inverses:
so matrices, and the column sums that a key is made of, come from a formula, entry by entry.
"""

from __future__ import annotations

from functools import cached_property
from math import gcd

import numpy as np
from numpy.typing import NDArray

from quod.curve.named import CURVES
from quod.errors import InputError
from quod.field.array import Words, integers_to_words, words_to_integers
from quod.field.moduli import Modulus
from quod.formats import SparseMatrix, Witness
from quod.formats.curves import curve_named
from quod.frozen import frozen

Places64 = NDArray[np.int64]

FIRST = 2
"""Wires before those of blocks: the constant and the public input."""

# The circuit of a partition of PoRep for sectors of 32 GiB: constraints, the share of wires that A
# leaves out, entries of A a row (309 M in all, up to a whole number).
POREP_CONSTRAINTS, POREP_LOG2_DOMAIN = 130_278_869, 27
_UNUSED, _TERMS = 0.003, 3

# Blocks of small circuits have some full wires, too.
_LEAST_WIDTH = 300

# Every so many wires one is in B; and rows that such a wire is in.
B_STRIDE = 3

# The share of a block's wires that are bits which are all zero.
_QUIET = 8

# Below this products of a factor and a place have 32 bits.
_MOST_FACTOR = 1 << 12


@frozen
class Places:
    """A permutation of the places below `size`: place u goes to factor * u + shift."""

    size: int
    factor: int
    shift: int

    @classmethod
    def number(cls, which: int, size: int) -> Places:
        """One of many."""
        factor = max(1, min(size - 1, _MOST_FACTOR) * (50 + 7 * which) // 100)
        while gcd(factor, size) != 1:
            factor -= 1
        return cls(size, factor, (which * size // 5) % size)

    @property
    def inverse(self) -> int:
        """What brings v - shift back."""
        return pow(self.factor, -1, self.size)


@frozen
class Range:
    """Wires start to start + size - 1 of each block, all of one kind."""

    start: int
    size: int
    full: bool

    @property
    def x(self) -> Places:
        return Places.number(1, self.size)

    @property
    def y(self) -> Places:
        """Among every third wire."""
        return Places.number(2, self.size // B_STRIDE)


@frozen
class PartitionCircuit:
    """A circuit of `constraints` rows over a curve's scalar field, in blocks of `width` wires.

    Of each block `full` wires are as good as random, the others 0 or 1; both are multiples of 3. It
    is what `quod.groth16.setup.make_key` takes. InputError for sizes that do not go together.
    """

    curve: str
    constraints: int
    width: int
    full: int
    terms: int = _TERMS

    def __post_init__(self) -> None:
        curve_named(self.curve)
        least = self.full + self.quiet.size + B_STRIDE
        if (
            self.full < B_STRIDE or self.full % B_STRIDE or self.width % B_STRIDE
            or self.width < least or self.quiet.size < B_STRIDE
        ):  # fmt: skip
            raise InputError(
                f"a block of {self.width} wires, {self.full} of them full, is none: both are "
                "multiples of 3, and some wires are left for bits"
            )
        if not 1 <= self.constraints < 1 << 30 or self.width >= 1 << 20 or self.terms < 1:
            raise InputError(
                f"{self.constraints} constraints in blocks of {self.width} with {self.terms} "
                "entries of A a row are none: there are 1 to 2**30 - 1, in blocks below 2**20"
            )

    @classmethod
    def like_porep(
        cls, log2_domain: int = POREP_LOG2_DOMAIN, *, bits: int = 99, curve: str = "bls12_381"
    ) -> PartitionCircuit:
        """A partition of PoRep, scaled to a domain; `bits` percent of its values are 0 or 1."""
        if not 9 <= log2_domain <= 27 or not 50 <= bits <= 99:
            raise InputError(
                f"a domain of 2**{log2_domain} with {bits} % of bits is none: domains are 2**9 to "
                "2**27, and 50 to 99 % of the values are bits"
            )
        constraints = (POREP_CONSTRAINTS << log2_domain) >> POREP_LOG2_DOMAIN
        width = max(_LEAST_WIDTH, B_STRIDE * round(constraints * _UNUSED / B_STRIDE))
        full = B_STRIDE * max(1, round(width * (100 - bits) / 100 / B_STRIDE))
        return cls(curve, constraints, width, full)

    @property
    def fr(self) -> Modulus:
        """The scalar field."""
        return CURVES[self.curve].fr

    @cached_property
    def path(self) -> str:
        """What errors call the circuit."""
        return f"a partition of {self.constraints} constraints over {self.curve}"

    @cached_property
    def public(self) -> int:
        """Public inputs."""
        return FIRST - 1

    @property
    def wires(self) -> int:
        return FIRST + self.width + self.constraints

    @property
    def blocks(self) -> int:
        """Blocks that rows take wires from."""
        return -(-self.constraints // self.width)

    @property
    def used(self) -> int:
        """Wires up to the last block that rows take wires from: those that A may have."""
        return FIRST + self.blocks * self.width

    @property
    def used_in_b(self) -> int:
        """Wires that B may have: wire 2 + 3q for q below this."""
        return self.blocks * self.width // B_STRIDE

    @property
    def log2_domain(self) -> int:
        """Of the domain of its key: one row more for the constant and the public input each."""
        return (self.constraints + self.public).bit_length()

    @property
    def quiet(self) -> Range:
        """The bits that are all zero."""
        return Range(self.full, B_STRIDE * (self.width // _QUIET // B_STRIDE), False)

    @property
    def ranges(self) -> tuple[Range, Range, Range]:
        """Full, quiet and other wires of a block."""
        end = self.full + self.quiet.size
        return Range(0, self.full, True), self.quiet, Range(end, self.width - end, False)

    @property
    def extras(self) -> tuple[tuple[Places, int], ...]:
        """Of each entry of A behind the first: which quiet wire it is of, and its coefficient."""
        size = self.quiet.size
        return tuple((Places.number(2 + k, size), 3 + (1 << 20 * k)) for k in range(1, self.terms))

    # --- on the host, for circuits of a few thousand rows

    def _rows(self) -> tuple[Places64, Places64, Places64]:
        """Of each row its block's first wire, its place in the block, and which range it is in."""
        block, place = np.divmod(np.arange(self.constraints, dtype=np.int64), self.width)
        return FIRST + block * self.width, place, self._which(place)

    def _which(self, place: Places64) -> Places64:
        starts = [own.start for own in self.ranges]
        found: Places64 = np.searchsorted(starts, place, side="right").astype(np.int64) - 1
        return found

    @cached_property
    def _inputs(self) -> tuple[Places64, Places64]:
        """The wires x and y of each row."""
        first, place, which = self._rows()
        found = []
        for name, stride in (("x", 1), ("y", B_STRIDE)):
            rows = [(own.start, getattr(own, name)) for own in self.ranges]
            start, size, factor, shift = (
                np.array(column)[which]
                for column in zip(
                    *((begin, own.size, own.factor, own.shift) for begin, own in rows)
                )
            )
            found.append(first + start + stride * (((place - start) * factor + shift) % size))
        return found[0], found[1]

    @cached_property
    def matrices(self) -> tuple[SparseMatrix, SparseMatrix, SparseMatrix]:
        """A, B and C; wires that a row does not have in C are there with 0."""
        first, place, which = self._rows()
        x, y = self._inputs
        full = np.array([own.full for own in self.ranges])[which]
        of_a = [(x, np.where(full, 1, 2))]
        for own, coefficient in self.extras:
            wire = first + self.quiet.start + (place * own.factor + own.shift) % own.size
            of_a.append((wire, np.full(self.constraints, coefficient)))
        out = FIRST + self.width + np.arange(self.constraints)
        one = np.where(full, 0, 1)
        minus = np.where(full, 1, -1)
        return (
            self._matrix(of_a),
            self._matrix([(y, np.ones(self.constraints, np.int64))]),
            self._matrix([(x, one), (y, one), (out, minus)]),
        )

    def _matrix(self, entries: list[tuple[Places64, Places64]]) -> SparseMatrix:
        columns = np.stack([wires for wires, _ in entries], axis=1).astype(np.uint32)
        values = np.stack([values for _, values in entries], axis=1).reshape(-1)
        known, place = np.unique(values, return_inverse=True)
        r = self.fr.value
        words = integers_to_words(self.fr, [int(value) % r for value in known])
        rows, width = columns.shape
        starts = np.arange(0, rows * width + 1, width, dtype=np.int64)
        return SparseMatrix(starts, columns.reshape(-1), words[place])

    def inputs(self, seed: int = 1) -> Words:
        """The wires up to the first block, drawn from `seed`: the rest follows from them."""
        rng, fr = np.random.default_rng(seed), self.fr
        values = np.zeros((FIRST + self.width, fr.words), np.uint32)
        values[0, 0] = 1
        _, _, bits = self.ranges
        values[1] = rng.integers(0, 1 << 16, fr.words)
        block = values[FIRST:]
        block[: self.full] = rng.integers(0, 1 << 32, (self.full, fr.words), np.uint32)
        # Below any of the fields' moduli, and so is the public input.
        block[: self.full, -1] >>= 16
        values[1, -1] = 0
        block[bits.start :, 0] = rng.integers(0, 2, bits.size)
        return values

    def witness(self, *, seed: int = 1) -> Witness:
        """A witness, computed by the host block by block."""
        values = np.zeros((self.wires, self.fr.words), np.uint32)
        given = self.inputs(seed)
        values[: len(given)] = given
        x, y = self._inputs
        for start in range(0, self.constraints, self.width):
            rows = slice(start, min(start + self.width, self.constraints))
            out = FIRST + self.width + start
            made = values[out : out + rows.stop - rows.start]
            left, right = values[x[rows]], values[y[rows]]
            made[:] = left ^ right
            some = slice(0, min(self.full, len(made)))
            pairs = (words_to_integers(self.fr, side[some]) for side in (left, right))
            products = [a * b % self.fr.value for a, b in zip(*pairs, strict=True)]
            made[some] = integers_to_words(self.fr, products)
        return Witness(f"the witness of {self.path}", self.curve, values, values.nbytes)
