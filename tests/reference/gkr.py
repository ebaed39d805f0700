"""The whole prover of layered circuits on plain integers: dense tables, sums by their definition.

It shares with Quod the statement, the raw commitment and the bytes of the transcript.
"""

from __future__ import annotations

from quod.field.element_bytes import encode
from quod.field.plain_extension import power, product
from quod.field.spec import FieldSpec
from quod.gkr.key import VerifyingKey
from quod.gkr.reduction import Reduction, degree_by_columns, find_sent_wires
from quod.gkr.statement import Statement
from quod.layered.circuit import POWERS, LayeredCircuit, Public, Random
from quod.transcript import Label, ProofWriter
from tests.reference import sumcheck
from tests.reference.sumcheck import Plain, add, embed, equality

Level = list[list[Plain]]
"""Values of a layer: of each place those of all instances."""


def prove(
    key: VerifyingKey, circuit: LayeredCircuit, inputs: list[list[int]],
    public: list[list[int]] | None = None,
) -> bytes:  # fmt: skip
    """The proof that Quod's prover makes, with raw inputs."""
    public = [[] for _ in inputs] if public is None else public
    model = ModelByColumns if key.reduction is Reduction.DATA_PARALLEL else ModelProver
    return model(Statement(key, circuit, public, len(inputs), allow_bits=0), inputs).prove()


class ModelProver:
    """Proves as Quod does; a cheating prover overrides what it sends."""

    def __init__(self, statement: Statement, inputs: list[list[int]]) -> None:
        self.statement, self.circuit = statement, statement.circuit
        self.field: FieldSpec = statement.key.field
        self.writer = ProofWriter(statement.key.transcript())
        missing = (1 << statement.log_instances) - len(inputs)
        self.inputs = inputs + [inputs[-1]] * missing
        self.public = statement.padded
        self.randoms: list[Plain] = []
        self.claims: list[tuple[list[Plain], Plain]] = []
        self.across: list[Plain] = []
        self.levels: list[Level] = []

    def prove(self) -> bytes:
        circuit, field, writer = self.circuit, self.field, self.writer
        self.statement.begin(writer.transcript)
        level = [[embed(field, row[x]) for row in self.inputs] for x in range(len(self.inputs[0]))]
        table: list[Plain] = [(value[0],) for values in level for value in values]
        data = encode(circuit.field, self._committed(table))
        writer.digested(Label.COMMITMENT, circuit.field, data)
        self._apply_chain()
        self.randoms = writer.transcript.challenges(field, circuit.randoms)
        if self.randoms:
            self._apply_chain()
        self.levels = levels = [level]
        for number in range(len(circuit.layers)):
            levels.append(self._above(number, levels[-1]))
        point = writer.transcript.challenges(field, circuit.log_outputs)
        self.across = writer.transcript.challenges(field, self.statement.log_instances)
        self.claims = [(point, embed(field, 0))]
        for number in reversed(range(len(circuit.layers))):
            self._layer(number, levels[number])
        return writer.getvalue()

    def _apply_chain(self) -> None:
        for _ in range(self.statement.key.chain):
            self.writer.transcript.absorb(Label.CHAIN, b"")

    def _committed(self, table: list[Plain]) -> list[Plain]:
        """The table of inputs that is sent."""
        return table

    def _coefficient(self, place: int, instance: int) -> Plain:
        coefficient = self.circuit.coefficients[place]
        if isinstance(coefficient, Random):
            return self.randoms[coefficient.number]
        if isinstance(coefficient, Public):
            coefficient = self.public[instance][coefficient.number]
        return embed(self.field, coefficient)

    def _gates(self, number: int, kind: str) -> list[tuple[int, ...]]:
        gates = self.circuit.layers[number].gates[kind]
        columns = (gates.output, gates.coefficient, *gates.inputs)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def _above(self, number: int, below: Level) -> Level:
        field, layer = self.field, self.circuit.layers[number]
        above = [[embed(field, 0)] * len(self.inputs) for _ in range(1 << layer.log_size)]
        for kind in layer.gates:
            for output, place, *taken in self._gates(number, kind):
                for s in range(len(self.inputs)):
                    part = self._coefficient(place, s)
                    for x in taken:
                        part = product(field, part, power(field, below[x][s], POWERS.get(kind, 1)))
                    above[output][s] = add(field, above[output][s], part)
        return above

    def _layer(self, number: int, below: Level) -> None:
        field, writer, circuit = self.field, self.writer, self.circuit
        layer, count = circuit.layers[number], len(self.inputs)
        factors = self._factors(number)
        zeros = circuit.zeros if number == len(circuit.layers) - 1 else 1 << layer.log_size
        weights = [
            add(field, *(product(field, factor, _corner(field, point, z))
                         for factor, (point, _) in zip(factors, self.claims, strict=True)))
            if z < zeros else embed(field, 0)
            for z in range(1 << layer.log_size)
        ]  # fmt: skip
        powers = [exponent for kind, exponent in POWERS.items() if len(layer.gates[kind])]
        has_products = bool(len(layer.gates["multiply"]))
        is_linear = not powers and not has_products
        values = below
        if is_linear:
            values, count = [[self._collapsed(row)] for row in below], 1
        first = [[embed(field, 0)] * count for _ in values]
        others = {exponent: [[embed(field, 0)] * count for _ in values] for exponent in powers}
        for kind, table in (
            ("add", first), ("multiply", first), *((f"power{e}", others[e]) for e in powers),
        ):  # fmt: skip
            for z, place, x, *other_inputs in self._gates(number, kind):
                for s in range(count):
                    part = product(field, weights[z], self._coefficient(place, s))
                    for y in other_inputs:
                        part = product(field, part, values[y][s])
                    table[x][s] = add(field, table[x][s], part)
        terms: list[tuple[int, tuple[int, ...]]] = [(1, (0, 1))]
        terms += [(1, (*([0] * e), 2 + at)) for at, e in enumerate(powers)]
        tables = [[v for row in t for v in row] for t in (values, first, *others.values())]
        log_below = circuit.log_below(number)
        point = None
        if count > 1:
            half = embed(field, (field.modulus.value + 1) // 2)
            point = [*[half] * log_below, *self.across]
        r, table_values = self._sumcheck((number, "x"), terms, tables, point)
        x_point = r[:log_below]
        if count > 1:
            self.across = r[log_below:]
        sent = self._first_values(table_values, has_products=has_products)
        writer.elements(Label.VALUES, field, sent)
        self.claims = [(x_point, sent[0])]
        if not has_products:
            return
        collapsed = [self._collapsed(row) for row in below]
        second = [embed(field, 0)] * len(below)
        for z, place, x, y in self._gates(number, "multiply"):
            part = product(field, weights[z], self._coefficient(place, 0))
            second[y] = add(field, second[y], product(field, part, _corner(field, x_point, x)))
        terms = [(1, (0, 1))]
        y_point, table_values = self._sumcheck((number, "y"), terms, [collapsed, second], None)
        sent = self._second_value(table_values)
        writer.elements(Label.VALUES, field, sent)
        self.claims.append((y_point, sent[0]))

    def _factors(self, number: int) -> list[Plain]:
        """Draw the factors of the claims about a layer's values."""
        if len(self.claims) == 1:
            return [embed(self.field, 1)]
        return [embed(self.field, 1), self.writer.transcript.challenge(self.field)]

    def _first_values(self, table_values: list[Plain], *, has_products: bool) -> list[Plain]:
        """Select the tables' values that are sent after the first sumcheck of a layer."""
        return table_values[: 1 + has_products]

    def _second_value(self, table_values: list[Plain]) -> list[Plain]:
        """Select the tables' values that are sent after the second sumcheck of a layer."""
        return table_values[:1]

    def _collapsed(self, row: list[Plain]) -> Plain:
        """Values of all instances at the point across them."""
        return sumcheck.multilinear(self.field, row, self.across)

    def _sumcheck(
        self, phase: tuple[int, str], terms: sumcheck.Terms, tables: Level,
        point: list[Plain] | None,
    ) -> tuple[list[Plain], list[Plain]]:  # fmt: skip
        """Run the sumcheck of a layer's phase: the point, and the tables' values there."""

        def challenge(message: list[Plain]) -> Plain:
            self.writer.elements(Label.ROUND, self.field, message)
            return self.writer.transcript.challenge(self.field)

        _, challenges, values = sumcheck.prove(self.field, terms, tables, point, challenge)
        return challenges, values


class ModelByColumns(ModelProver):
    """The reduction by columns: a term of the sumcheck for each gate."""

    def _layer(self, number: int, below: Level) -> None:
        field, circuit = self.field, self.circuit
        ((point, _),) = self.claims
        top = number == len(circuit.layers) - 1
        claimed = range(circuit.zeros) if top else find_sent_wires(circuit, number + 1).tolist()
        tables, terms = self._terms(number, below, {z: _corner(field, point, z) for z in claimed})
        if degree_by_columns(circuit.kinds[number]) > 1 and self.across:
            self.across, _ = self._sumcheck((number, "s"), terms, tables, self.across)
        taken = find_sent_wires(circuit, number).tolist()
        sent = self._sent_values([self._collapsed(below[x]) for x in taken])
        self.writer.elements_by_runs(Label.VALUES, field, sent)
        point = self.writer.transcript.challenges(field, circuit.log_below(number))
        value = embed(field, 0)
        for x, sent_value in zip(taken, sent, strict=True):
            value = add(field, value, product(field, _corner(field, point, x), sent_value))
        self.claims = [(point, value)]

    def _terms(
        self, number: int, below: Level, weights: dict[int, Plain]
    ) -> tuple[Level, sumcheck.Terms]:
        """Tables and terms of the sum over instances; the weight of a gate is in its first one."""
        field = self.field
        tables: Level = []
        terms: list[tuple[int, tuple[int, ...]]] = []
        for kind in self.circuit.layers[number].gates:
            for z, place, *taken in self._gates(number, kind):
                if kind == "constant":
                    continue
                weight = weights.get(z, embed(field, 0))
                weight = product(field, weight, self._coefficient(place, 0))
                factors = [below[x] for x in taken for _ in range(POWERS.get(kind, 1))]
                factors[0] = [product(field, weight, value) for value in factors[0]]
                terms.append((1, tuple(range(len(tables), len(tables) + len(factors)))))
                tables += factors
        return tables, terms

    def _sent_values(self, values: list[Plain]) -> list[Plain]:
        """Encode the values below a layer as they are sent."""
        return values


def _corner(field: FieldSpec, point: list[Plain], place: int) -> Plain:
    """eq of a point and the corner of a number."""
    bits = [place >> (len(point) - 1 - at) & 1 for at in range(len(point))]
    return equality(field, point, bits)
