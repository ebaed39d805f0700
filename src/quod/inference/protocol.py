"""The protocol for both sides: claims and their points, and the claims that openings prove.

`Party` is the prover, which computes and writes each message, or the verifier, which reads it; both
draw the same challenges and check all claims. Matrix products are proved as in Thaler ("Time-
optimal interactive proofs for circuit evaluation", CRYPTO 2013): for random y and z

    sum over rows j of eq(y, j) m_j (W x)_j  =  sum over columns k of A(k) X(z, k)
    A(k)  =  sum over rows j of eq(y, j) m_j W(j, k)

A sumcheck over the columns k reduces the first equation to A and X at a point, and another over the
rows j reduces A to W.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from quod.commitment.scheme import Claim
from quod.errors import VerificationError
from quod.field.element_bytes import Plain
from quod.field.plain_element import PlainElement, coefficients_of
from quod.field.spec import FieldSpec
from quod.inference.layout import HIGH, LIMB_BITS, LOW, OUTPUT, QUOTIENT
from quod.inference.perceptron import HALF, MAX_ACTIVATION, SHIFT, Numbers
from quod.inference.statement import (
    WEIGHT_OFFSET,
    VerifyingKey,
    limbs_statement,
    pairs_statement,
)
from quod.lookup.statement import Statement as Lookup
from quod.lookup.verifier import Reduced as LookupReduced
from quod.lookup.verifier import range_at
from quod.sumcheck.eq_reference import equalities
from quod.sumcheck.polynomial import SumOfProducts
from quod.sumcheck.verifier import Reduced
from quod.sumcheck.verifier import Statement as Sumcheck
from quod.transcript.transcript import Transcript

Point = Sequence[Plain]

PRODUCT = SumOfProducts.product(2)

_ACTIVATION_BITS = MAX_ACTIVATION.bit_length()


class Party(Protocol):
    """The prover's or the verifier's side of the protocol; methods send or check a message."""

    transcript: Transcript

    def commit(self) -> None:
        """Commit to the columns of activations, or read the commitment."""

    def lookup(self, statement: Lookup) -> LookupReduced:
        """Run a lookup argument, and return the claims that it leaves to check."""

    def values(self, point: Point, count: int) -> list[Plain]:
        """Return the values of the first `count` columns at a point."""

    def inner(self, statement: Sumcheck, layer: int, rows: Point, images: Point) -> Reduced:
        """Run the sumcheck over a layer's columns."""

    def row(self, statement: Sumcheck, layer: int, columns: Point) -> Reduced:
        """Run the sumcheck over a hidden layer's rows, of their multipliers and weights."""

    def open_columns(self, claims: Sequence[Claim]) -> None:
        """Open the commitment to the columns of activations."""

    def open_weights(self, claims: Sequence[Claim]) -> None:
        """Open the commitment to the weights."""


class ProtocolRun:
    """One run of the protocol."""

    def __init__(self, side: Party, key: VerifyingKey, images: Numbers, logits: Numbers) -> None:
        self._side, self._key, self._images, self._logits = side, key, images, logits
        self._layout, self._field = key.layout(len(images)), key.field
        self._zero = PlainElement.zero(key.field)
        self._columns: list[Claim] = []
        self._weights: list[Claim] = []

    def run(self) -> None:
        """Run the protocol; VerificationError unless it proves the logits of the images."""
        side, layout = self._side, self._layout
        layers = range(layout.hidden)
        side.commit()
        pairs = side.lookup(pairs_statement(layout, self._field))
        limbs = side.lookup(limbs_statement(layout, self._field))
        if pairs.entry != coefficients_of(pair_at(self._field, pairs.table_point)):
            raise VerificationError("the pairs of sums and activations do not match the table")
        self._at(pairs.point, {
            layout.column(layer, which): pairs.columns[layer][which]
            for layer in layers for which in (QUOTIENT, OUTPUT)
        })  # fmt: skip
        self._at(limbs.point, {
            layout.column(layer, which): limbs.columns[2 * layer + half][0]
            for layer in layers for half, which in enumerate((LOW, HIGH))
        })  # fmt: skip
        self._at(pairs.table_point, {layout.pair_counts: pairs.multiplicity})
        self._at(limbs.table_point, {layout.limb_counts: limbs.multiplicity})
        self._hidden_layers()
        self._last_layer()
        side.open_columns(self._columns)
        side.open_weights(self._weights)

    def _at(self, point: Point, expected_values: dict[int, Plain]) -> list[PlainElement]:
        """Return the columns' values at a point, and add a claim for the opening.

        VerificationError unless the columns in `expected_values` have these values.
        """
        layout, side = self._layout, self._side
        padded = (*[self._zero.coefficients] * (layout.log_block - len(point)), *point)
        column_values = side.values(padded, 1 << layout.log_blocks)
        for column, value in expected_values.items():
            if column_values[column] != value:
                raise VerificationError(f"column {column} of the activations has a different value")
        column_point = side.transcript.challenges(self._field, layout.log_blocks)
        values = PlainElement.from_coefficients(self._field, column_values)
        combined_value = weighted(self._field, equalities(self._field, column_point), values)
        self._columns.append(Claim((*column_point, *padded), combined_value.coefficients))
        return values

    def _hidden_layers(self) -> None:
        side, layout, key = self._side, self._layout, self._key
        point = side.transcript.challenges(self._field, layout.log_activations)
        images, rows = point[: layout.log_images], point[layout.log_images :]
        values = self._at(point, {})
        weights = equalities(self._field, rows)
        for layer in range(layout.hidden):
            # Quotient * 2^24 + remainder - 2^23 is the multiplier times the sum.
            claim = self._zero
            for which, bits in ((QUOTIENT, SHIFT), (LOW, 0), (HIGH, LIMB_BITS)):
                claim += values[layout.column(layer, which)] * (1 << bits)
            claim -= PlainElement.of(self._field, HALF)
            multipliers = key.multipliers[layer]
            for weight, m, bias in zip(weights, multipliers, key.biases[layer], strict=False):
                claim -= weight * (m * bias)
            reduced = self._inner(layer, claim, rows, images)
            statement = Sumcheck(
                self._field, PRODUCT, layout.log_hidden, reduced.values[0], tuple(rows)
            )
            row = side.row(statement, layer, reduced.point)
            expected = weighted(self._field, equalities(self._field, row.point), multipliers)
            if row.values[0] != expected.coefficients:
                raise VerificationError(f"the multipliers of layer {layer} are not the key's")
            self._weight(layer, row.point, reduced.point, row.values[1])

    def _last_layer(self) -> None:
        side, layout, key = self._side, self._layout, self._key
        last = layout.hidden
        point = side.transcript.challenges(self._field, layout.log_images + layout.log_rows(last))
        images, rows = point[: layout.log_images], point[layout.log_images :]
        claim = matrix_at(self._field, self._logits, images, rows)
        for weight, bias in zip(equalities(self._field, rows), key.biases[last], strict=False):
            claim -= weight * bias
        reduced = self._inner(last, claim, rows, images)
        self._weight(last, rows, reduced.point, reduced.values[0])

    def _inner(self, layer: int, claim: PlainElement, rows: Point, images: Point) -> Reduced:
        """Run the sumcheck over the columns, with the activations of the layer before."""
        layout = self._layout
        variables = layout.log_columns(layer)
        statement = Sumcheck(self._field, PRODUCT, variables, claim.coefficients)
        reduced = self._side.inner(statement, layer, rows, images)
        activation = reduced.values[1]
        if layer:
            column = layout.column(layer - 1, OUTPUT)
            self._at((*images, *reduced.point), {column: activation})
        else:
            expected = matrix_at(self._field, self._images, images, reduced.point)
            if expected.coefficients != activation:
                raise VerificationError("the activations of layer 0 are not the images")
        return reduced

    def _weight(self, layer: int, rows: Point, columns: Point, weight: Plain) -> None:
        """Add a claim about the committed weights."""
        layout = self._layout
        size = layout.log_weights_of(layer)
        block, bits = layout.weight_offsets[layer] >> size, layout.log_weights - size
        block_point = [
            PlainElement.of(self._field, block >> bit & 1) for bit in reversed(range(bits))
        ]
        value = PlainElement(self._field, weight) + PlainElement.of(self._field, WEIGHT_OFFSET)
        self._weights.append(
            Claim((*coefficients_of(block_point), *rows, *columns), value.coefficients)
        )


def pair_at(field: FieldSpec, point: Point) -> tuple[PlainElement, PlainElement]:
    """Evaluate the table of pairs at a point: signed integers, ascending, and their activations.

    The upper half has the integers from 0 on. The activation of an integer of up to seven bits is
    the integer itself; the activation of the others is 127.
    """
    bits = len(point)
    number = range_at(field, point) - PlainElement.of(field, 1 << (bits - 1))
    one = is_small = PlainElement.one(field)
    for coordinate in PlainElement.from_coefficients(field, point[1 : bits - _ACTIVATION_BITS]):
        is_small *= one - coordinate
    small_part = is_small * range_at(field, point[bits - _ACTIVATION_BITS :])
    large_part = (one - is_small) * MAX_ACTIVATION
    return number, PlainElement(field, point[0]) * (small_part + large_part)


def matrix_at(field: FieldSpec, numbers: Numbers, rows: Point, columns: Point) -> PlainElement:
    """Evaluate the multilinear polynomial of a matrix, padded by its last row and zero columns."""
    zero, count = PlainElement.zero(field), len(numbers)
    weights = equalities(field, rows)
    # Padding repeats the last row, so that the last weights are added.
    row_weights = [*weights[: count - 1], sum(weights[count - 1 :], zero)]
    total = zero
    column_weights = coefficients_of(equalities(field, columns)[: numbers.shape[1]])
    for weight, row in zip(row_weights, numbers.tolist(), strict=True):
        parts = [
            sum(
                number * column_weight[coefficient_index]
                for number, column_weight in zip(row, column_weights, strict=True)
                if number
            )
            for coefficient_index in range(field.degree)
        ]
        inner = tuple(part % field.modulus.value for part in parts)
        total += weight * PlainElement(field, inner)
    return total


def weighted(
    field: FieldSpec, weights: Sequence[PlainElement], values: Iterable[PlainElement | int]
) -> PlainElement:
    """Return the sum of weights times values, for as many weights as there are values."""
    total = PlainElement.zero(field)
    for weight, value in zip(weights, values, strict=False):
        total += weight * value
    return total
