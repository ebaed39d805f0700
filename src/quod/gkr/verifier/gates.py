"""Sums over the gates of a layer, in plain integers."""

from __future__ import annotations

from collections.abc import Sequence

from quod.field.plain_extension import add, one, product, scaled, subtract
from quod.gkr.statement import Statement
from quod.layered.circuit import Coefficient, Public, Random
from quod.sumcheck.eq_reference import equalities
from quod.transcript.elements import Plain


class LayerGates:
    """The gates of a statement's circuit, and its coefficients once challenges are drawn."""

    def __init__(self, statement: Statement, randoms: Sequence[Plain]) -> None:
        self.statement, self.randoms = statement, randoms
        self.circuit, self.field = statement.circuit, statement.key.field

    def rows(self, number: int, kind: str) -> list[tuple[int, ...]]:
        """Rows of a layer's gates: the output, the place of the coefficient, the inputs."""
        gates = self.circuit.layers[number].gates[kind]
        columns = (gates.output, gates.coefficient, *gates.inputs)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def times_coefficient(self, value: Plain, place: int) -> Plain:
        """A value times a coefficient, which is the same in all instances."""
        coefficient: Coefficient = self.circuit.coefficients[place]
        if isinstance(coefficient, Random):
            return product(self.field, value, self.randoms[coefficient.number])
        if isinstance(coefficient, Public):
            coefficient = self.statement.public[0][coefficient.number]
        return scaled(self.field, value, coefficient)

    def without_constants(
        self, number: int, claim: Plain, weights: Sequence[Plain], across: Sequence[Plain]
    ) -> Plain:
        """What a layer's constants leave of a claim about its weighted values."""
        field, constants = self.field, self._constants(number, across)
        for output, coefficient in self.rows(number, "constant"):
            claim = subtract(field, claim, product(field, weights[output], constants[coefficient]))
        return claim

    def _constants(self, number: int, across: Sequence[Plain]) -> dict[int, Plain]:
        """The coefficients of constants at the point of the instances, by place."""
        field, found = self.field, {}
        places = {place for _, place in self.rows(number, "constant")}
        coefficients = self.circuit.coefficients
        has_public = any(isinstance(coefficients[place], Public) for place in places)
        # As many as instances.
        shares = equalities(field, across) if has_public else []
        for place in places:
            coefficient = coefficients[place]
            if isinstance(coefficient, Public):
                total: Plain = (0,) * field.degree
                for share, row in zip(shares, self.statement.padded, strict=True):
                    total = add(field, total, scaled(field, share, row[coefficient.number]))
                found[place] = total
            else:
                found[place] = self.times_coefficient(one(field), place)
        return found
