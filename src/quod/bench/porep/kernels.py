"""The witness, matrices and column sums of a `PartitionCircuit`, computed on the device.

The circuit's module defines the rows. Permutations of ranges of a block give the input wires of a
row, and their inverses the rows of a wire.
"""

from __future__ import annotations

from typing import Any

from quod.bench.porep.circuit import B_STRIDE, WIRES_BEFORE_BLOCKS, PartitionCircuit, Permutation
from quod.field.moduli import Modulus
from quod.field.prime import PrimeField
from quod.field.strategy import prime_field
from quod.groth16.gpu.matrix import BUNDLE, entry_place
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value


class _IndexRange:
    """The range (full, quiet or bits) of an index in a block, and the parameters of that range.

    is_full: whether the range has the pseudo-random wires.
    is_quiet: whether the range has the wires that are always 0.
    start: the first index of the range.
    index_in_range: the index relative to `start`.
    """

    def __init__(self, k: Builder, circuit: PartitionCircuit, index: Value) -> None:
        self._k, self._circuit, self._index = k, circuit, index
        _, quiet, bits = circuit.ranges
        self.is_full, self.is_quiet = (
            index < quiet.start,
            (index >= quiet.start) & (index < bits.start),
        )
        self.start = self.of(*(wire_range.start for wire_range in circuit.ranges))
        self.index_in_range = index - self.start

    def of(self, full_value: int, quiet_value: int, bits_value: int) -> Value:
        """Return the argument that belongs to the index's range."""
        k = self._k
        other = k.select(self.is_quiet, k.constant(quiet_value, types.u32), bits_value)
        selected: Value = k.select(self.is_full, full_value, other)
        return selected

    def forward(self, name: str) -> Value:
        """Apply the permutation `name` ("x" or "y") of the range to the index relative to it."""
        permutations = [getattr(wire_range, name) for wire_range in self._circuit.ranges]
        size, factor, shift = self._parameters(permutations)
        return (self.index_in_range * factor + shift) % size

    def back(self, name: str, offset: Value) -> tuple[Value, Value]:
        """Return the preimage of `offset` under permutation `name`, and the permutation's size."""
        permutations = [getattr(wire_range, name) for wire_range in self._circuit.ranges]
        size, _, shift = self._parameters(permutations)
        inverse = self.of(*(permutation.inverse for permutation in permutations))
        return _multiply_mod(offset + (size - shift), inverse, size), size

    def _parameters(self, permutations: list[Permutation]) -> tuple[Value, Value, Value]:
        """Return the size, factor and shift of the permutation of the index's range."""
        return (
            self.of(*(permutation.size for permutation in permutations)),
            self.of(*(permutation.factor for permutation in permutations)),
            self.of(*(permutation.shift for permutation in permutations)),
        )


def _multiply_mod(a: Value, b: Value | int, size: Value | int) -> Value:
    """Compute a * b modulo `size` in 64 bits."""
    b64 = b.cast(types.u64) if isinstance(b, Value) else b
    modulus = size.cast(types.u64) if isinstance(size, Value) else size
    return (a.cast(types.u64) * b64 % modulus).cast(types.u32)


def _operand_wires(
    circuit: PartitionCircuit, row: Value, index_range: _IndexRange
) -> tuple[Value, Value, Value]:
    """Return the first wire of the row's block and the row's two input wires."""
    block_wire = row - row % circuit.width + WIRES_BEFORE_BLOCKS
    range_start = block_wire + index_range.start
    return (
        block_wire,
        range_start + index_range.forward("x"),
        range_start + index_range.forward("y") * B_STRIDE,
    )


@kernel
def partition_wires(
    k: Builder, first: U32, count: U32, wires: Pointer[U32], *, circuit: PartitionCircuit
) -> None:
    """Compute the output wires of `count` rows from row `first` on, as canonical integers.

    Row r writes wire WIRES_BEFORE_BLOCKS + width + r. All earlier wires must be in `wires`.
    """
    f, i = prime_field(k, circuit.fr), k.global_id()
    words = circuit.fr.words
    with k.if_(i < count):
        row = first + i
        index_range = _IndexRange(k, circuit, row % circuit.width)
        _, x, y = _operand_wires(circuit, row, index_range)
        out = row + (WIRES_BEFORE_BLOCKS + circuit.width)
        with k.if_(index_range.is_full):
            to_montgomery = f.constant(circuit.fr.montgomery_radix)
            from_montgomery = f.constant(pow(circuit.fr.montgomery_radix, -1, circuit.fr.value))
            # Read as a Montgomery form, a canonical v is v / radix; the constants correct this.
            product = (f.load(wires, x) * to_montgomery) * (f.load(wires, y) * to_montgomery)
            f.store(wires, out, product * from_montgomery)
        with k.if_(~index_range.is_full):
            operands = (k.load(wires, wire.cast(types.u64) * words, words) for wire in (x, y))
            k.store(wires, out.cast(types.u64) * words, *(a ^ b for a, b in zip(*operands)))


@kernel
def partition_rows(
    k: Builder,
    offset: U32,
    targets: Pointer[U32],
    lengths: Pointer[U32],
    bundles: Pointer[U64],
    indices: Pointer[U32],
    values: Pointer[U32],
    *,
    circuit: PartitionCircuit,
    is_a: bool,
) -> None:
    """Write the rows of A or B in the layout of `multiply_pieces`, each row as one piece.

    The product of row i goes to element `offset` + i. `targets` and `lengths` have an element per
    row, `bundles` one per `BUNDLE` rows; `indices` has a wire and `values` a coefficient per entry.
    """
    fr, row = circuit.fr, k.global_id()
    terms = circuit.terms if is_a else 1
    with k.if_(row < circuit.constraints):
        index = row % circuit.width
        index_range = _IndexRange(k, circuit, index)
        block_wire, x, y = _operand_wires(circuit, row, index_range)
        wires = [x if is_a else y]
        first_coefficient = _coefficient_words(k, fr, 1)
        if is_a:
            first_coefficient = [
                k.select(index_range.is_full, one_word, two_word)
                for one_word, two_word in zip(first_coefficient, _coefficient_words(k, fr, 2))
            ]
        coefficients = [first_coefficient]
        for permutation, coefficient in circuit.extras if is_a else ():
            wires.append(
                block_wire
                + circuit.quiet.start
                + (index * permutation.factor + permutation.shift) % permutation.size
            )
            coefficients.append(_coefficient_words(k, fr, coefficient))
        targets[row] = offset + row
        lengths[row] = k.constant(terms, types.u32)
        start = (row // BUNDLE).cast(types.u64) * (BUNDLE * terms)
        with k.if_(row % BUNDLE == 0):
            bundles[row // BUNDLE] = start
        for j, (wire, coefficient_words) in enumerate(zip(wires, coefficients, strict=True)):
            entry = entry_place(k, row, start, k.constant(j, types.u32))
            indices[entry] = wire
            k.store(values, entry * fr.words, *coefficient_words)


def _coefficient_words(k: Builder, modulus: Modulus, value: int) -> list[Value]:
    """Return the words of a coefficient times the squared Montgomery radix."""
    scaled = value * modulus.montgomery_radix**2 % modulus.value
    word_values = (scaled >> 32 * word_index & 0xFFFFFFFF for word_index in range(modulus.words))
    return [k.constant(word, types.u32) for word in word_values]


@kernel
def partition_columns(
    k: Builder,
    count: U32,
    first: U32,
    stride: U32,
    weights: Pointer[U64],
    lagrange: Pointer[U64],
    out: Pointer[U64],
    *,
    circuit: PartitionCircuit,
) -> None:
    """out[i] = weights[0] * a + weights[1] * b + weights[2] * c of wire first + i * stride.

    a, b and c sum entry * lagrange[row] over the wire's columns of A, B and C. `lagrange` has a
    canonical value per row of the circuit, then one each for the constant and the public input;
    `weights` are in Montgomery form, the results canonical.
    """
    f, i = prime_field(k, circuit.fr), k.global_id()
    rows = circuit.constraints
    # `bounded` gives an element the standard bounds that loops and branches require.
    zero = f.bounded(f.raw_constant(0, f.memory_exponent))

    def term(row: Value, exists: Value) -> Any:
        """Return the Lagrange value of a row, or zero if it does not exist."""
        within = exists & (row < rows)
        value = f.bounded(f.load(lagrange, k.select(within, row, 0), linear=True))
        return f.select(within, value, zero)

    with k.if_(i < count):
        wire = first + i * stride
        is_input = wire < WIRES_BEFORE_BLOCKS
        offset_wire = k.select(is_input, 0, wire - WIRES_BEFORE_BLOCKS)
        index = offset_wire % circuit.width
        # The row whose index in the block is 0.
        block_row = offset_wire - index
        index_range = _IndexRange(k, circuit, index)
        is_internal = ~is_input
        preimage, _ = index_range.back("x", index_range.index_in_range)
        x_sum = term(block_row + index_range.start + preimage, is_internal)
        y_sum = _sum_of_y(k, f, circuit, index_range, block_row, term, is_internal)
        extra_sum = _sum_of_extras(
            k, f, circuit, index_range, block_row, term, is_internal & index_range.is_quiet, zero
        )
        output_term = term(
            offset_wire - circuit.width, is_internal & (offset_wire >= circuit.width)
        )
        doubled = f.bounded(x_sum + x_sum)
        a = f.bounded(f.select(index_range.is_full, x_sum, doubled) + extra_sum)
        b = y_sum
        input_sum = f.bounded(f.select(index_range.is_full, zero, f.bounded(x_sum + b)))
        c = f.bounded(
            f.select(index_range.is_full, output_term, f.bounded(input_sum - output_term))
        )
        input_value = f.bounded(f.load(lagrange, k.select(is_input, wire, 0) + rows, linear=True))
        a, b, c = (
            f.select(is_input, input_value, a),
            f.select(is_input, zero, b),
            f.select(is_input, zero, c),
        )
        factors = [f.load(weights, index) for index in range(3)]
        products = [factor * sum_ for factor, sum_ in zip(factors, (a, b, c))]
        f.store(out, i, products[0] + products[1] + products[2])


def _sum_of_y(
    k: Builder, f: PrimeField, circuit: PartitionCircuit, index_range: _IndexRange,
    block_row: Value, term: Any, exists: Value,
) -> Any:  # fmt: skip
    """Sum `term` over the rows that have the wire in B.

    The range is `B_STRIDE` times as long as the permutation, so `B_STRIDE` rows have the same wire.
    """
    preimage, size = index_range.back("y", index_range.index_in_range // B_STRIDE)
    is_in_b = exists & (index_range.index_in_range % B_STRIDE == 0)
    row = block_row + index_range.start + preimage
    total = term(row, is_in_b)
    for repetition in range(1, B_STRIDE):
        total = f.bounded(total + term(row + size * repetition, is_in_b))
    return total


def _sum_of_extras(
    k: Builder, f: PrimeField, circuit: PartitionCircuit, index_range: _IndexRange,
    block_row: Value, term: Any, exists: Value, zero: Any,
) -> Any:  # fmt: skip
    """Sum coefficient * term over the rows that have the quiet wire in A, besides as x."""
    total = zero
    for permutation, coefficient in circuit.extras:
        first_index = _multiply_mod(
            index_range.index_in_range + (permutation.size - permutation.shift),
            permutation.inverse,
            permutation.size,
        )
        with k.range(first_index, circuit.width, permutation.size, carry=zero) as loop:
            loop.next(f.bounded(loop.carried + term(block_row + loop.index, exists)))
        factor = f.constant(coefficient)
        total = f.bounded(total + factor * f.bounded(loop.results))
    return total
