"""The witness, matrices and column sums of a `PartitionCircuit`, computed from its formula."""

from __future__ import annotations

from typing import Any

from quod.bench.porep.circuit import B_STRIDE, FIRST, PartitionCircuit, Permutation
from quod.field.moduli import Modulus
from quod.field.prime import PrimeField
from quod.field.strategy import prime_field
from quod.groth16.gpu.matrix import BUNDLE, entry_place
from quod.kernel import U32, U64, Builder, Pointer, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value


class _Kind:
    """The range of an index in a block, and the numbers of that range."""

    def __init__(self, k: Builder, circuit: PartitionCircuit, place: Value) -> None:
        self._k, self._circuit, self._place = k, circuit, place
        _, quiet, bits = circuit.ranges
        self.full, self.is_quiet = (
            place < quiet.start,
            (place >= quiet.start) & (place < bits.start),
        )
        self.start = self.of(*(row_range.start for row_range in circuit.ranges))
        self.own = place - self.start

    def of(self, full: int, quiet: int, bits: int) -> Value:
        """Select the number of the index's range."""
        k = self._k
        other = k.select(self.is_quiet, k.constant(quiet, types.u32), bits)
        selected: Value = k.select(self.full, full, other)
        return selected

    def forward(self, which: str) -> Value:
        """Apply the permutation `which` to the index within its range."""
        permutations = [getattr(row_range, which) for row_range in self._circuit.ranges]
        size, factor, shift = self._columns(permutations)
        return (self.own * factor + shift) % size

    def back(self, which: str, place: Value) -> tuple[Value, Value]:
        """Invert the permutation at `place` of the range; return the preimage and the size."""
        permutations = [getattr(row_range, which) for row_range in self._circuit.ranges]
        size, _, shift = self._columns(permutations)
        inverse = self.of(*(permutation.inverse for permutation in permutations))
        return _times(place + (size - shift), inverse, size), size

    def _columns(self, permutations: list[Permutation]) -> tuple[Value, Value, Value]:
        return (
            self.of(*(permutation.size for permutation in permutations)),
            self.of(*(permutation.factor for permutation in permutations)),
            self.of(*(permutation.shift for permutation in permutations)),
        )


def _times(a: Value, b: Value | int, size: Value | int) -> Value:
    """Compute a * b modulo `size` in 64 bits."""
    wide = b.cast(types.u64) if isinstance(b, Value) else b
    modulus = size.cast(types.u64) if isinstance(size, Value) else size
    return (a.cast(types.u64) * wide % modulus).cast(types.u32)


def _inputs(circuit: PartitionCircuit, row: Value, kind: _Kind) -> tuple[Value, Value, Value]:
    """Return the first wire of a row's block, and its wires x and y."""
    first = row - row % circuit.width + FIRST
    range_start = first + kind.start
    return first, range_start + kind.forward("x"), range_start + kind.forward("y") * B_STRIDE


@kernel
def partition_wires(
    k: Builder, first: U32, count: U32, wires: Pointer[U32], *, circuit: PartitionCircuit
) -> None:
    """The wires that `count` rows from row `first` on make, canonical; those before are there."""
    f, i = prime_field(k, circuit.fr), k.global_id()
    words = circuit.fr.words
    with k.if_(i < count):
        row = first + i
        kind = _Kind(k, circuit, row % circuit.width)
        _, x, y = _inputs(circuit, row, kind)
        out = row + (FIRST + circuit.width)
        with k.if_(kind.full):
            enter = f.constant(circuit.fr.montgomery_radix)
            leave = f.constant(pow(circuit.fr.montgomery_radix, -1, circuit.fr.value))
            # A canonical value has the words of value / radix in Montgomery form.
            product = (f.load(wires, x) * enter) * (f.load(wires, y) * enter)
            f.store(wires, out, product * leave)
        with k.if_(~kind.full):
            sides = (k.load(wires, at.cast(types.u64) * words, words) for at in (x, y))
            k.store(wires, out.cast(types.u64) * words, *(a ^ b for a, b in zip(*sides)))


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
    """The rows of A, or of B, as `multiply_pieces` takes them; row i is element `offset` + i."""
    fr, row = circuit.fr, k.global_id()
    terms = circuit.terms if is_a else 1
    with k.if_(row < circuit.constraints):
        place = row % circuit.width
        kind = _Kind(k, circuit, place)
        first, x, y = _inputs(circuit, row, kind)
        wires = [x if is_a else y]
        words = _stored(k, fr, 1)
        if is_a:
            words = [
                k.select(kind.full, of_one, two) for of_one, two in zip(words, _stored(k, fr, 2))
            ]
        coefficients = [words]
        for permutation, coefficient in circuit.extras if is_a else ():
            wires.append(
                first
                + circuit.quiet.start
                + (place * permutation.factor + permutation.shift) % permutation.size
            )
            coefficients.append(_stored(k, fr, coefficient))
        targets[row] = offset + row
        lengths[row] = k.constant(terms, types.u32)
        start = (row // BUNDLE).cast(types.u64) * (BUNDLE * terms)
        with k.if_(row % BUNDLE == 0):
            bundles[row // BUNDLE] = start
        for j, (wire, own_words) in enumerate(zip(wires, coefficients, strict=True)):
            at = entry_place(k, row, start, k.constant(j, types.u32))
            indices[at] = wire
            k.store(values, at * fr.words, *own_words)


def _stored(k: Builder, modulus: Modulus, value: int) -> list[Value]:
    """Return the words of a coefficient times the squared Montgomery radix."""
    stored = value * modulus.montgomery_radix**2 % modulus.value
    words = (stored >> 32 * place & 0xFFFFFFFF for place in range(modulus.words))
    return [k.constant(word, types.u32) for word in words]


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
    """out[i] = weights of (a, b, c) of wire first + i * stride: sums over its entries by column.

    `lagrange` has a canonical value a row, those of the constant and the public input at the end;
    `weights` are in Montgomery form, the results canonical.
    """
    f, i = prime_field(k, circuit.fr), k.global_id()
    rows = circuit.constraints
    zero = f.carried(f.raw_constant(0, f.memory_exponent))

    def term(row: Value, exists: Value) -> Any:
        """Return the value of a row, or zero."""
        within = exists & (row < rows)
        value = f.carried(f.load(lagrange, k.select(within, row, 0), linear=True))
        return f.select(within, value, zero)

    with k.if_(i < count):
        wire = first + i * stride
        tied = wire < FIRST
        offset_wire = k.select(tied, 0, wire - FIRST)
        place = offset_wire % circuit.width
        # The row of the block's index 0.
        block = offset_wire - place
        kind = _Kind(k, circuit, place)
        always = ~tied
        u, _ = kind.back("x", kind.own)
        x = term(block + kind.start + u, always)
        of_x = _sum_of_y(k, f, circuit, kind, block, term, always)
        extra = _sum_of_extras(k, f, circuit, kind, block, term, always & kind.is_quiet, zero)
        as_output = term(offset_wire - circuit.width, always & (offset_wire >= circuit.width))
        doubled = f.carried(x + x)
        a = f.carried(f.select(kind.full, x, doubled) + extra)
        b = of_x
        inputs = f.carried(f.select(kind.full, zero, f.carried(x + b)))
        c = f.carried(f.select(kind.full, as_output, f.carried(inputs - as_output)))
        tie = f.carried(f.load(lagrange, k.select(tied, wire, 0) + rows, linear=True))
        a, b, c = f.select(tied, tie, a), f.select(tied, zero, b), f.select(tied, zero, c)
        factors = [f.load(weights, place) for place in range(3)]
        products = [factor * sum_ for factor, sum_ in zip(factors, (a, b, c))]
        f.store(out, i, products[0] + products[1] + products[2])


def _sum_of_y(
    k: Builder, f: PrimeField, circuit: PartitionCircuit, kind: _Kind, block: Value, term: Any,
    exists: Value,
) -> Any:  # fmt: skip
    """Sum over the rows with the wire in B."""
    u, size = kind.back("y", kind.own // B_STRIDE)
    there = exists & (kind.own % B_STRIDE == 0)
    row = block + kind.start + u
    total = term(row, there)
    for number in range(1, B_STRIDE):
        total = f.carried(total + term(row + size * number, there))
    return total


def _sum_of_extras(
    k: Builder, f: PrimeField, circuit: PartitionCircuit, kind: _Kind, block: Value, term: Any,
    exists: Value, zero: Any,
) -> Any:  # fmt: skip
    """Sum over the rows with the wire, a quiet one, after their first entry of A."""
    total = zero
    for permutation, coefficient in circuit.extras:
        start = _times(
            kind.own + (permutation.size - permutation.shift), permutation.inverse, permutation.size
        )
        with k.range(start, circuit.width, permutation.size, carry=zero) as loop:
            loop.next(f.carried(loop.carried + term(block + loop.index, exists)))
        weight = f.constant(coefficient)
        total = f.carried(total + weight * f.carried(loop.results))
    return total
