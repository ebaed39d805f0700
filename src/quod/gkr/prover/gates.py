"""Gates inside the prover's kernels: their coefficients, and sums over the gates of a wire.

Gates are sorted once per circuit, by the wire that is the index in the table that a kernel writes:
a layer's values, or a table of a sumcheck. A kernel instance sums the gates of one wire, a
contiguous run for each kind, and writes one entry. So kernels need no atomics, and the table need
not be cleared first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quod.field.spec import FieldSpec
from quod.frozen import frozen
from quod.kernel import U32, Builder, Pointer, Struct
from quod.kernel.ir.value import Value
from quod.layered.circuit import KINDS
from quod.sumcheck.mixed import MixedField

PUBLIC_TAG, RANDOM_TAG = 1, 2
TAG_SHIFT = 30
"""The number of bits of a coefficient's code below its tag; the tag of a fixed coefficient is 0."""


@frozen
class GateForm:
    """The static parameters of the kernels over a layer.

    field: the field of challenges.
    kinds: the kinds of gates.
    has_public: whether coefficients may be public inputs (`Public`).
    has_random: whether coefficients may be random (`Random`): challenges drawn for the circuit,
        other than those of a sumcheck.
    below_is_base: whether the values below the layer are in the prime field.
    """

    field: FieldSpec
    kinds: tuple[str, ...]
    has_public: bool
    has_random: bool
    below_is_base: bool


class LayerSizes(Struct):
    """log2 of the numbers of wires of a layer and of the layer below it, and of instances."""

    log_size: U32
    log_below: U32
    log_instances: U32


class GateTable(Struct):
    """The gates of a layer in memory, and their coefficients; `public` counts public inputs.

    starts, gates: the gates as runs; `added_gates` sums over the gates of a wire.
    coefficients: the fixed coefficients and, from `first_public` on, the public inputs of all
        proofs, at index ((proof * public + number) << log_rows) + instance.
    challenges: the values of the random coefficients, `randoms` per proof.
    log_rows: log2 of the padded number of instances; unused if `coefficients` are fixed or random.
    """

    first_public: U32
    public: U32
    randoms: U32
    log_rows: U32
    starts: Pointer[U32]
    gates: Pointer[U32]
    coefficients: Pointer[U32]
    challenges: Pointer[U32]


class ConstantGates(Struct):
    """The constant gates of a layer of 2**log_size wires.

    gates: `count` pairs of an output and a coefficient's code.
    coefficients, challenges: see `GateTable`.
    collapsed: per proof, `public` elements: each public input's multilinear extension over the
        instances, evaluated at the claim's point.
    """

    count: U32
    log_size: U32
    public: U32
    randoms: U32
    gates: Pointer[U32]
    coefficients: Pointer[U32]
    challenges: Pointer[U32]
    collapsed: Pointer[U32]


class Coefficients:
    """The coefficients of gates inside a kernel."""

    def __init__(self, k: Builder, form: GateForm, gates: GateTable) -> None:
        self.mixed = MixedField(k, form.field)
        self._form, self._gates = form, gates

    def load(self, code: Value, proof: Value, instance: Value) -> Any:
        """Load the coefficient with a code; it is in the prime field unless `has_random`."""
        form, mixed, gates = self._form, self.mixed, self._gates
        k = mixed.base.k
        tag, number = code >> TAG_SHIFT, code & ((1 << TAG_SHIFT) - 1)
        index = number
        if form.has_public:
            public_index = ((proof * gates.public + number) << gates.log_rows) + instance
            index = k.select(tag == PUBLIC_TAG, gates.first_public + public_index, number)
        if not form.has_random:
            return mixed.base.bounded(mixed.base.load(gates.coefficients, index))
        f = mixed.extended
        with k.if_(tag == RANDOM_TAG) as branch:
            branch.yield_(f.bounded(f.load(gates.challenges, proof * gates.randoms + number)))
        with branch.otherwise():
            branch.yield_(f.bounded(mixed.embedded(mixed.base.load(gates.coefficients, index))))
        return branch.results


def bounded(mixed: MixedField, element: Any) -> Any:
    """Return an element of either field with standard bounds, as loops carry it.

    The bounds are those of lazily reduced integers; see `FieldArithmetic.bounded`.
    """
    return (mixed.extended if mixed.is_extended(element) else mixed.base).bounded(element)


def power(f: Any, value: Any, exponent: int) -> Any:
    """Return value**exponent, for exponents from 1 to 5."""
    if exponent == 1:
        return value
    square = f.bounded(f.square(value))
    if exponent == 2:
        return square
    if exponent == 3:
        return f.bounded(square * value)
    fourth = f.bounded(f.square(square))
    return fourth if exponent == 4 else f.bounded(fourth * value)


def added_gates(
    mixed: MixedField, f: Any, kinds: Sequence[str], table: GateTable, wire: Value, wires: Value,
    gate_term: Callable[..., Any],
) -> Any:  # fmt: skip
    """Sum the results of `gate_term` over all gates of a wire.

    The table's `starts` has for each kind wires + 1 word offsets into its `gates`: the gates of
    wire i are the words from starts[i] to starts[i + 1]. A gate is `KINDS[kind]` + 1 words:
    its wires without the one that gates are sorted by, and its coefficient's code. `gate_term`
    receives the kind and the words of one gate.
    """
    k = mixed.base.k
    total = f.bounded(f.zero())
    for kind_index, kind in enumerate(kinds):
        start = wire + kind_index * (wires + 1)
        width = KINDS[kind] + 1
        with k.range(table.starts[start], table.starts[start + 1], width, carry=total) as loop:
            product = gate_term(kind, *k.load(table.gates, loop.index, width))
            product = mixed.embedded(product) if f is mixed.extended else product
            loop.next(f.bounded(loop.carried + product))
        total = loop.results
    return total
