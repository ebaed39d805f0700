"""Sums over the gates of a layer, in plain integers."""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.plain_element import PlainElement, coefficients_of
from quod.field.spec import FieldSpec
from quod.gkr.statement import Statement
from quod.layered.circuit import Coefficient, Public, Random
from quod.sumcheck.eq_reference import equalities


class LayerGates:
    """The gates of a statement's circuit, and its coefficients once challenges are drawn."""

    def __init__(self, statement: Statement, randoms: Sequence[PlainElement]) -> None:
        self.statement, self.randoms = statement, randoms
        self.circuit, self.field = statement.circuit, statement.key.field

    def rows(self, number: int, kind: str) -> list[tuple[int, ...]]:
        """Return rows of a layer's gates: the output, the index of the coefficient, the inputs."""
        gates = self.circuit.layers[number].gates[kind]
        columns = (gates.output, gates.coefficient, *gates.inputs)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def coefficient(self, index: int) -> PlainElement | int:
        """Return a coefficient by its index; it must be the same in all instances."""
        coefficient: Coefficient = self.circuit.coefficients[index]
        if isinstance(coefficient, Random):
            return self.randoms[coefficient.number]
        if isinstance(coefficient, Public):
            return self.statement.public[0][coefficient.number]
        return coefficient

    def without_constants(
        self, number: int, claim: PlainElement, weights: Sequence[PlainElement],
        instance_point: Sequence[PlainElement],
    ) -> PlainElement:  # fmt: skip
        """Subtract a layer's constants from a claim about its weighted values."""
        constants = self._constants(number, instance_point)
        for output, coefficient_index in self.rows(number, "constant"):
            claim -= weights[output] * constants[coefficient_index]
        return claim

    def _constants(
        self, number: int, instance_point: Sequence[PlainElement]
    ) -> dict[int, PlainElement | int]:
        """Return the coefficients of constants at the point of the instances, by index."""
        coefficients = self.circuit.coefficients
        indices = {index for _, index in self.rows(number, "constant")}
        has_public = any(isinstance(coefficients[index], Public) for index in indices)
        # One eq value per instance.
        eq_weights = eq_table(self.field, instance_point) if has_public else []
        constants: dict[int, PlainElement | int] = {}
        for index in indices:
            coefficient = coefficients[index]
            if not isinstance(coefficient, Public):
                constants[index] = self.coefficient(index)
                continue
            total = PlainElement.zero(self.field)
            for weight, row in zip(eq_weights, self.statement.padded, strict=True):
                total += weight * row[coefficient.number]
            constants[index] = total
        return constants


def eq_table(field: FieldSpec, point: Sequence[PlainElement]) -> list[PlainElement]:
    """Return the eq table of a point: eq at all hypercube points."""
    return equalities(field, coefficients_of(point))
