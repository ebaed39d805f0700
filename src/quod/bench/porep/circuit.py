"""A circuit of any size in the shape of a PoRep partition: most witness values are bits.

After the constant and one public input, wires come in blocks of `width`. Row i computes wire i of
those after the first block, from two wires of the block before that wire's. A block has three
ranges of wires, and so there are three kinds of rows:

    bits      2x * y = x + y - out, so that out = x xor y
    quiet     the same for bits that are all 0
    full      x * y = out, for pseudo-random values

A row has `terms` entries in A: x, and quiet wires, which add nothing. It has one entry in B, and
only every third wire occurs in B at all. The wires that a row reads follow from its index by a
multiplication modulo the size of its range, and the rows that read a wire by the inverse. So every
entry of the matrices has a formula. The key is made from sums over the entries of a wire, of the
coefficient times the row's Lagrange polynomial, which have formulas, too.
"""

from __future__ import annotations

from functools import cached_property
from math import gcd
from typing import Self

import numpy as np
from numpy.typing import NDArray

from quod.curve.named import CURVES
from quod.errors import InputError
from quod.field.array import Words, integers_to_words, words_to_integers
from quod.field.moduli import Modulus
from quod.formats import SparseMatrix, Witness
from quod.formats.curves import curve_named
from quod.frozen import frozen

Indices = NDArray[np.int64]

WIRES_BEFORE_BLOCKS = 2
"""The number of wires before the blocks: the constant and the public input."""

# A PoRep partition of a 32 GiB sector: constraints and the log2 of the domain; the width of a block
# divided by the constraints, which is the share of wires not in A; entries of A per row (309 M in
# all, 2.4 per row, rounded up).
POREP_CONSTRAINTS, POREP_LOG2_DOMAIN = 130_278_869, 27
_SHARE_NOT_IN_A, _TERMS = 0.003, 3

# The minimum width of a block: small circuits need some full wires, too.
_MIN_WIDTH = 300

# One wire in three is in B, and each of these is in three rows.
B_STRIDE = 3

# One wire in eight of a block is a zero bit.
_QUIET_STRIDE = 8

# Below this, the product of a factor and an index fits 32 bits.
_MAX_FACTOR = 1 << 12


@frozen
class Permutation:
    """A permutation of the indices below `size`: u maps to factor * u + shift modulo `size`."""

    size: int
    factor: int
    shift: int

    @classmethod
    def numbered(cls, number: int, size: int) -> Permutation:
        """Return permutation `number` of the indices below `size`.

        In large ranges the factor depends on `number`, so that the wires of a row are not related.
        It is the largest number that is coprime to `size` and at most 50 + 7 * number percent of
        `size` - 1, or of `_MAX_FACTOR` if that is less.
        """
        factor = max(1, min(size - 1, _MAX_FACTOR) * (50 + 7 * number) // 100)
        while gcd(factor, size) != 1:
            factor -= 1
        return cls(size, factor, (number * size // 5) % size)

    @property
    def inverse(self) -> int:
        """The inverse of `factor` modulo `size`."""
        return pow(self.factor, -1, self.size)


@frozen
class Range:
    """Wires `start` to `start + size - 1` of each block.

    is_full: whether their values are pseudo-random field elements, rather than bits.
    """

    start: int
    size: int
    is_full: bool

    @property
    def x(self) -> Permutation:
        """The permutation that maps a row's index in the range to that of its wire x."""
        return Permutation.numbered(1, self.size)

    @property
    def y(self) -> Permutation:
        """The permutation that maps a row's index in the range, modulo `size`, to its wire y.

        Wires y are numbered among every third wire of the range.
        """
        return Permutation.numbered(2, self.size // B_STRIDE)


@frozen
class PartitionCircuit:
    """A circuit of `constraints` rows over a curve's scalar field, in blocks of `width` wires.

    full_wires: the number of wires of a block that are pseudo-random; the others are 0 or 1.
        `full_wires` and `width` are multiples of 3.
    terms: the number of entries of A per row.
    An argument of `quod.groth16.setup.make_key`. Raises InputError for inconsistent sizes.
    """

    curve: str
    constraints: int
    width: int
    full_wires: int
    terms: int = _TERMS

    def __post_init__(self) -> None:
        curve_named(self.curve)
        min_width = self.full_wires + self.quiet.size + B_STRIDE
        if (
            self.full_wires < B_STRIDE or self.full_wires % B_STRIDE or self.width % B_STRIDE
            or self.width < min_width or self.quiet.size < B_STRIDE
        ):  # fmt: skip
            raise InputError(
                f"a block of {self.width} wires with {self.full_wires} full wires is invalid: both "
                f"must be multiples of {B_STRIDE}, with at least {_QUIET_STRIDE * B_STRIDE} wires, "
                f"of which at least {B_STRIDE} are full and {B_STRIDE} neither full nor quiet; a "
                f"wire in {_QUIET_STRIDE} is quiet"
            )
        if not 1 <= self.constraints < 1 << 30 or self.width >= 1 << 20 or self.terms < 1:
            raise InputError(
                f"{self.constraints} constraints in blocks of {self.width} with {self.terms} "
                "entries of A per row are invalid: 1 to 2**30 - 1 constraints, blocks below 2**20 "
                "and at least 1 entry are allowed"
            )

    @classmethod
    def like_porep(
        cls,
        log2_domain: int = POREP_LOG2_DOMAIN,
        *,
        bit_percent: int = 99,
        curve: str = "bls12_381",
    ) -> Self:
        """Build a PoRep partition scaled to a domain.

        bit_percent: the percentage of values that are 0 or 1.
        """
        if not 9 <= log2_domain <= 27 or not 50 <= bit_percent <= 99:
            raise InputError(
                f"a domain of 2**{log2_domain} with {bit_percent} % of bits is invalid: domains of "
                "2**9 to 2**27 with 50 to 99 % of bits are allowed"
            )
        constraints = (POREP_CONSTRAINTS << log2_domain) >> POREP_LOG2_DOMAIN
        width = max(_MIN_WIDTH, B_STRIDE * round(constraints * _SHARE_NOT_IN_A / B_STRIDE))
        full_wires = B_STRIDE * max(1, round(width * (100 - bit_percent) / 100 / B_STRIDE))
        return cls(curve, constraints, width, full_wires)

    @property
    def fr(self) -> Modulus:
        """The scalar field."""
        return CURVES[self.curve].fr

    @cached_property
    def path(self) -> str:
        """The name of the circuit in errors."""
        return f"a partition of {self.constraints} constraints over {self.curve}"

    @cached_property
    def public(self) -> int:
        """The number of public inputs."""
        return WIRES_BEFORE_BLOCKS - 1

    @property
    def wires(self) -> int:
        return WIRES_BEFORE_BLOCKS + self.width + self.constraints

    @property
    def blocks(self) -> int:
        """The number of blocks whose wires are inputs of rows."""
        return -(-self.constraints // self.width)

    @property
    def used_in_a(self) -> int:
        """The number of wires that A may contain: those up to the last input block."""
        return WIRES_BEFORE_BLOCKS + self.blocks * self.width

    @property
    def wires_of_a(self) -> NDArray[np.uint32]:
        """The wires that A may contain."""
        return np.arange(self.used_in_a, dtype=np.uint32)

    @property
    def wires_of_b(self) -> NDArray[np.uint32]:
        """The wires that B may contain: every third one."""
        count = self.blocks * self.width // B_STRIDE
        return np.arange(count, dtype=np.uint32) * np.uint32(B_STRIDE) + np.uint32(
            WIRES_BEFORE_BLOCKS
        )

    @property
    def monomial(self) -> bool:
        """False: the key is one of snarkjs's."""
        return False

    @property
    def full_values(self) -> dict[str, int]:
        """See `DeviceCircuit`; the constant is 1, the public input is not."""
        full = -(-self.wires // self.width) * self.full_wires
        return {"A": full + WIRES_BEFORE_BLOCKS, "B": full // B_STRIDE}

    @property
    def log2_domain(self) -> int:
        """The log2 of its key's domain, with a row each for the constant and the public input."""
        return (self.constraints + self.public).bit_length()

    @property
    def quiet(self) -> Range:
        """The range of the zero bits."""
        size = B_STRIDE * (self.width // _QUIET_STRIDE // B_STRIDE)
        return Range(self.full_wires, size, False)

    @property
    def ranges(self) -> tuple[Range, Range, Range]:
        """The ranges of full, quiet and other wires of a block."""
        end = self.full_wires + self.quiet.size
        return Range(0, self.full_wires, True), self.quiet, Range(end, self.width - end, False)

    @property
    def extras(self) -> tuple[tuple[Permutation, int], ...]:
        """The permutation of quiet wires, and the coefficient, of each further entry of A.

        Quiet wires are 0, so the coefficients are arbitrary: distinct, and longer than a 32-bit
        word from the second on.
        """
        size = self.quiet.size
        return tuple(
            (Permutation.numbered(2 + k, size), 3 + (1 << 20 * k)) for k in range(1, self.terms)
        )

    # --- on the host, for circuits of a few thousand rows

    def _rows(self) -> tuple[Indices, Indices, Indices]:
        """Return, by row, the first wire of its input block, its index in a block, and its range.

        A range is an index in `ranges`.
        """
        block, index_in_block = np.divmod(np.arange(self.constraints, dtype=np.int64), self.width)
        return (
            WIRES_BEFORE_BLOCKS + block * self.width,
            index_in_block,
            self._range_index(index_in_block),
        )

    def _range_index(self, index_in_block: Indices) -> Indices:
        """Return the range, by its index in `ranges`, of each index in a block."""
        starts = [wire_range.start for wire_range in self.ranges]
        range_index: Indices = (
            np.searchsorted(starts, index_in_block, side="right").astype(np.int64) - 1
        )
        return range_index

    @cached_property
    def _operand_wires(self) -> tuple[Indices, Indices]:
        """The wires x and y of each row."""
        first, index_in_block, range_index = self._rows()
        wires = []
        for name, stride in (("x", 1), ("y", B_STRIDE)):
            by_range = [(wire_range.start, getattr(wire_range, name)) for wire_range in self.ranges]
            start, size, factor, shift = (
                np.array(column)[range_index]
                for column in zip(
                    *(
                        (begin, permutation.size, permutation.factor, permutation.shift)
                        for begin, permutation in by_range
                    )
                )
            )
            wires.append(
                first + start + stride * (((index_in_block - start) * factor + shift) % size)
            )
        return wires[0], wires[1]

    @cached_property
    def matrices(self) -> tuple[SparseMatrix, SparseMatrix, SparseMatrix]:
        """The matrices A, B and C; C has explicit zeros."""
        first, index_in_block, range_index = self._rows()
        x, y = self._operand_wires
        is_full_row = np.array([wire_range.is_full for wire_range in self.ranges])[range_index]
        a_entries = [(x, np.where(is_full_row, 1, 2))]
        for permutation, coefficient in self.extras:
            wire = (
                first
                + self.quiet.start
                + (index_in_block * permutation.factor + permutation.shift) % permutation.size
            )
            a_entries.append((wire, np.full(self.constraints, coefficient)))
        out = WIRES_BEFORE_BLOCKS + self.width + np.arange(self.constraints)
        input_coefficient = np.where(is_full_row, 0, 1)
        output_coefficient = np.where(is_full_row, 1, -1)
        return (
            self._matrix(a_entries),
            self._matrix([(y, np.ones(self.constraints, np.int64))]),
            self._matrix(
                [(x, input_coefficient), (y, input_coefficient), (out, output_coefficient)]
            ),
        )

    def _matrix(self, entries: list[tuple[Indices, Indices]]) -> SparseMatrix:
        """Return a matrix from its entries: pairs of a wire and a coefficient for every row."""
        columns = np.stack([wires for wires, _ in entries], axis=1).astype(np.uint32)
        values = np.stack([values for _, values in entries], axis=1).reshape(-1)
        distinct, inverse = np.unique(values, return_inverse=True)
        r = self.fr.value
        words = integers_to_words(self.fr, [int(value) % r for value in distinct])
        rows, entries_per_row = columns.shape
        starts = np.arange(0, rows * entries_per_row + 1, entries_per_row, dtype=np.int64)
        return SparseMatrix(starts, columns.reshape(-1), words[inverse])

    def inputs(self, seed: int = 1) -> Words:
        """Draw the values of all wires up to the end of the first block; the others follow."""
        rng, fr = np.random.default_rng(seed), self.fr
        values = np.zeros((WIRES_BEFORE_BLOCKS + self.width, fr.words), np.uint32)
        values[0, 0] = 1
        _, _, bits = self.ranges
        values[1] = rng.integers(0, 1 << 16, fr.words)
        block = values[WIRES_BEFORE_BLOCKS:]
        block[: self.full_wires] = rng.integers(0, 1 << 32, (self.full_wires, fr.words), np.uint32)
        # Values below all moduli: 16 bits for the block's highest words, 0 for the public input's.
        block[: self.full_wires, -1] >>= 16
        values[1, -1] = 0
        block[bits.start :, 0] = rng.integers(0, 2, bits.size)
        return values

    def witness(self, *, seed: int = 1) -> Witness:
        """Compute a witness on the host, block by block."""
        values = np.zeros((self.wires, self.fr.words), np.uint32)
        input_values = self.inputs(seed)
        values[: len(input_values)] = input_values
        x, y = self._operand_wires
        for start in range(0, self.constraints, self.width):
            rows = slice(start, min(start + self.width, self.constraints))
            out = WIRES_BEFORE_BLOCKS + self.width + start
            outputs = values[out : out + rows.stop - rows.start]
            left, right = values[x[rows]], values[y[rows]]
            outputs[:] = left ^ right
            full_rows = slice(0, min(self.full_wires, len(outputs)))
            pairs = (words_to_integers(self.fr, operand[full_rows]) for operand in (left, right))
            products = [a * b % self.fr.value for a, b in zip(*pairs, strict=True)]
            outputs[full_rows] = integers_to_words(self.fr, products)
        return Witness(f"the witness of {self.path}", self.curve, values, values.nbytes)
