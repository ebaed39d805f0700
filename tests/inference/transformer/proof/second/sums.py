"""The sums of the lookup argument `range`, which no commitment contains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quod.inference.transformer.tables import Rotations
from quod.sumcheck import SumOfProducts
from tests.inference.transformer.proof.second.elements import (
    ONE,
    ZERO,
    Element,
    Packing,
    Term,
    Vector,
    column_blocks,
    dot,
    dot_integers,
    eq,
    eq_table,
    log2_ceil,
    minus,
    outer,
    plus,
    prefix_sums,
    require,
    scaled,
    split,
    times,
)

if TYPE_CHECKING:
    from tests.inference.transformer.proof.second.verifier import Run


class Sums:
    """The sums of `range`: weights of rows, and eq of a point of positions."""

    def __init__(self, run: Run, sums: dict[str, Vector], point: Vector) -> None:
        self.run, self.v, self.key, self.sums = run, run.v, run.key, sums
        self.t = point[len(point) - run.v.tau :]
        self.positions = eq_table(self.t)
        statement = run.statement
        log_chosen = statement.log_chosen
        self.choices = eq_table(point[len(point) - log_chosen :])[: len(statement.chosen)]
        self.log_chosen = log_chosen
        self.log_heads = log2_ceil(run.v.heads)

    def prove(self) -> tuple[Element, list[Term]]:
        """Return the sums' value without the terms, which are linear in committed arrays."""
        values = [
            self.scores(), self.inverses(), self.products(), self.embedding(), self.norms(),
            self.rotations(), self.mixed(), self.gated(), self.chosen(), self.ties(),
        ]  # fmt: skip
        gains = [g for norm in self.key.gains.tolist() for g in norm]
        gained = [scaled(w, g) for w, g in zip(self.sums["normed.sum"], gains, strict=True)]
        return plus(*values), [*self.terms, ("unit", gained, self.positions)]

    def weights_of(self, name: str, values: Vector) -> Element:
        """Return the sum of the weights of a sum's rows times values."""
        return dot(self.sums[name], values)

    def scores(self) -> Element:
        key, v = self.key, self.v
        rounding, rows = key.roundings["score"], self.sums["score.sum"]
        seen = prefix_sums(self.positions)
        constant = ZERO
        aligned: list[Vector] = []
        for head in range(v.heads):
            layer = head // key.heads
            S = rounding.bits[layer]
            factor = key.constants[layer].multiplier << S - rounding.shifts[layer]
            head_rows = rows[head * v.size : (head + 1) * v.size]
            aligned.append([scaled(w, factor) for w in head_rows])
            for weight, before in zip(head_rows, seen, strict=True):
                entry = scaled(minus(ONE, before), (1 << key.score_bits) - 1 << S)
                constant = plus(constant, times(weight, entry))
        log_width = log2_ceil(key.head_width)
        value, at, (weight, query, key_value) = self.run.sumcheck(
            SumOfProducts.product(3), self.log_heads + log_width + v.tau
        )
        heads = eq_table(at[: self.log_heads])[: v.heads]
        channels = eq_table(at[self.log_heads : -v.tau])[: key.head_width]
        queries = eq_table(at[-v.tau :])
        expected = dot(heads, [dot(row, queries) for row in aligned])
        require(weight == expected, "the weights of scores")
        self.run.claims.add(query, ("rotated_query", outer(heads, channels), queries))
        # A key at j is in the sums of the queries from j on.
        later = prefix_sums(queries[::-1])[::-1]
        columns = [times(a, b) for a, b in zip(later, self.positions, strict=True)]
        key_rows = outer(self.run.by_group(heads), channels)
        self.run.claims.add(key_value, ("rotated_key", key_rows, columns))
        entries = [[times(w, s) for w, s in zip(row, seen, strict=True)] for row in aligned]
        self.terms: list[Term] = [("largest", entries, None)]
        return minus(constant, value)

    def inverses(self) -> Element:
        v, ones = self.v, [ONE] * self.v.size
        value, at, (weight, inverse, total) = self.run.sumcheck(
            SumOfProducts.product(3), self.log_heads + v.tau
        )
        heads = eq_table(at[: self.log_heads])[: v.heads]
        queries = eq_table(at[self.log_heads :])
        expected = times(self.weights_of("inverse.sum", heads), eq(self.t, at[self.log_heads :]))
        require(weight == expected, "the weights of inverses")
        self.run.claims.add(inverse, ("inverse", heads, queries))
        self.run.claims.add(total, ("weight", outer(heads, queries), ones))
        self.terms.append(("weight", outer(self.sums["total.sum"], self.positions), ones))
        return value

    def products(self) -> Element:
        key, layers = self.key, self.key.layers
        shapes = {
            "normed": (key.norms, key.width), "mixed": (layers, key.query_width),
            "hidden": (layers, key.hidden),
        }  # fmt: skip
        packing = Packing((n, rows, log2_ceil(width)) for n, (rows, width) in shapes.items())
        value, at, (input_value, weight_value) = self.run.sumcheck(
            SumOfProducts.product(2), packing.variables
        )
        rows_at = {n: list(rows) for n, rows in self.v.row_weights(packing, at).items()}
        channels = {
            n: eq_table(at[packing.variables - log2_ceil(width) :])[:width]
            for n, (_, width) in shapes.items()
        }
        head_positions = [ZERO] * self.v.size
        for choice, weight in enumerate(self.choices):
            head_positions[self.run.statement.prompt - 1 + choice] = weight
        terms: list[Term] = []
        for name, rows in rows_at.items():
            entries = outer(rows, channels[name])
            if name == "normed":
                zeros = [ZERO] * (len(entries) - key.width)
                terms.append((name, zeros + entries[-key.width :], head_positions))
                entries[-key.width :] = [ZERO] * key.width
            terms.append((name, entries, self.positions))
        self.run.claims.add(input_value, *terms)
        states = self.sums["residual.sum"]
        state = [states[n * key.width : (n + 1) * key.width] for n in range(key.norms)]
        of_layers = {
            name: [(2 * n + (name in ("gate", "up")), weights) for n, weights in enumerate(
                split(self.sums[f"{name}.sum"], layers)
            )]
            for name in ("query", "key", "value", "gate", "up")
        }  # fmt: skip
        of_layers["output"] = [(n, state[2 * n + 1]) for n in range(layers)]
        of_layers["down"] = [(n, state[2 * n + 2]) for n in range(layers)]
        of_layers[key.head] = [(2 * layers, [minus(ZERO, w) for w in self.sums["margin"]])]
        matrix_terms: list[Term] = []
        for name, parts in of_layers.items():
            source = {"output": "mixed", "down": "hidden"}.get(name, "normed")
            matrix_rows = [times(w, rows_at[source][index]) for index, ws in parts for w in ws]
            matrix_terms += self.matrix(name, matrix_rows, channels[source])
            for layer, (_, weights) in enumerate(parts):
                biases = {} if name == key.head else key.constants[layer].biases
                if name in biases:
                    value = plus(value, dot_integers(weights, biases[name].tolist()))
        self.run.claim_weights(weight_value, matrix_terms)
        return value

    def matrix(self, name: str, rows: Vector, columns: Vector) -> list[Term]:
        return [
            (f"{name}.{start}", rows, columns[start : start + (1 << width)])
            for start, width in column_blocks(len(columns))
        ]

    def embedding(self) -> Element:
        value = self.run.sent_value()
        rows = [ZERO] * self.key.vocabulary
        tokens = list(self.run.statement.tokens[:-1])
        tokens += [0] * (self.v.size - len(tokens))
        for token, weight in zip(tokens, self.positions, strict=True):
            rows[token] = plus(rows[token], weight)
        columns = self.sums["residual.sum"][: self.key.width]
        self.run.claim_weights(value, self.matrix("embedding", rows, columns))
        return value

    def norms(self) -> Element:
        key, run, log_norms = self.key, self.run, log2_ceil(self.key.norms)
        polynomial = SumOfProducts((
            (1, (0, 10, 11, 13)), (1, (1, 12, 6)), (1, (2, 7, 8)), (1, (3, 12, 9)),
            (1, (4, 10, 10, 7)), (1, (5, 10, 7)),
        ))  # fmt: skip
        value, at, values = run.sumcheck(polynomial, log_norms + self.v.tau)
        norm_at, position_at = at[:log_norms], at[log_norms:]
        rows, here = eq_table(norm_at)[: key.norms], eq(self.t, position_at)
        require(values[0] == times(plus(*rows), here), "the norms")
        for value_at, name in zip(
            values[1:6], ("scaled", "floor", "checked", "cube", "cross"), strict=True
        ):
            expected = times(self.weights_of(f"norm.{name}.sum", rows), here)
            require(value_at == expected, f"the weights of {name}")
        columns = eq_table(position_at)
        names = ("multiple", "mantissa", "power", "small", "root", "scale")
        for value_at, name in zip(values[6:12], names, strict=True):
            run.claims.add(value_at, (f"norm.{name}", rows, columns))
        units = self.sums["unit.sum"]
        channels = [times(rows[n // key.width], weight) for n, weight in enumerate(units)]
        run.claims.add(values[13], ("residual", channels, columns))
        squares = minus(values[12], dot_integers(rows, list(key.epsilons)))
        log_width = log2_ceil(key.width)
        _, inner, (weight, channel) = run.sumcheck(
            SumOfProducts(((1, (0, 1, 1)),)), log_norms + log_width + self.v.tau, squares
        )
        norm_in, position_in = inner[:log_norms], inner[log_norms + log_width :]
        expected = times(eq(norm_at, norm_in), eq(position_at, position_in))
        require(weight == expected, "the squares")
        inner_rows = outer(
            eq_table(norm_in)[: key.norms],
            eq_table(inner[log_norms : log_norms + log_width])[: key.width],
        )
        run.claims.add(channel, ("residual", inner_rows, eq_table(position_in)))
        return value

    def rotations(self) -> Element:
        key, half = self.key, self.key.head_width // 2
        log_half = log2_ceil(half)
        value, at, (cosine, by_cosine, sine, by_sine) = self.run.sumcheck(
            SumOfProducts(((1, (0, 1)), (1, (2, 3)))), log_half + self.v.tau
        )
        pairs, columns = eq_table(at[:log_half])[:half], eq_table(at[log_half:])
        both = [times(a, b) for a, b in zip(columns, self.positions, strict=True)]
        angles = Rotations(key.rope[0], key.head_width, key.rope[1]).table(self.v.size).tolist()
        for index, value_at in enumerate((cosine, sine)):
            by_position = [dot_integers(pairs, [pair[index] for pair in row]) for row in angles]
            require(value_at == dot(both, by_position), "the angles")
        for value_at, is_sine in ((by_cosine, False), (by_sine, True)):
            terms: list[Term] = []
            for name in ("query", "key"):
                weights = self.sums[f"rotated_{name}.sum"]
                rows = []
                for index in range(0, len(weights), 2):
                    u, w = weights[index], weights[index + 1]
                    pair = pairs[index % key.head_width // 2]
                    first, second = (w, minus(ZERO, u)) if is_sine else (u, w)
                    rows += [times(first, pair), times(second, pair)]
                terms.append((name, rows, columns))
            self.run.claims.add(value_at, *terms)
        return value

    def mixed(self) -> Element:
        key, v, run = self.key, self.v, self.run
        value, at, (weight, inverse, inner_value) = run.sumcheck(
            SumOfProducts.product(3), self.log_heads + v.tau
        )
        heads, queries = eq_table(at[: self.log_heads])[: v.heads], eq_table(at[self.log_heads :])
        require(
            weight == times(plus(*heads), eq(self.t, at[self.log_heads :])), "the mixed positions"
        )
        run.claims.add(inverse, ("inverse", heads, queries))
        _, inner, (weight, e, channel) = run.sumcheck(
            SumOfProducts.product(3), self.log_heads + v.tau, inner_value
        )
        inner_heads = eq_table(inner[: self.log_heads])[: v.heads]
        keys = eq_table(inner[self.log_heads :])
        require(weight == dot(heads, inner_heads), "the mixed heads")
        run.claims.add(e, ("weight", outer(inner_heads, queries), keys))
        by_channel = split(self.sums["mixed.sum"], v.heads)
        rows: Vector = []
        for c in range(key.head_width):
            rows += run.by_group([
                times(h, w[c]) for h, w in zip(inner_heads, by_channel, strict=True)
            ])  # fmt: skip
        groups = key.layers * key.kv_heads
        ordered = [rows[c * groups + g] for g in range(groups) for c in range(key.head_width)]
        run.claims.add(channel, ("value", ordered, keys))
        return value

    def gated(self) -> Element:
        weights = self.sums["hidden.sum"]
        log_rows = log2_ceil(len(weights))
        value, at, (weight, activated, up) = self.run.sumcheck(
            SumOfProducts.product(3), log_rows + self.v.tau
        )
        rows, columns = eq_table(at[:log_rows])[: len(weights)], eq_table(at[log_rows:])
        expected = times(dot(rows, weights), eq(self.t, at[log_rows:]))
        require(weight == expected, "the gated products")
        self.run.claims.add(activated, ("activated", rows, columns))
        self.run.claims.add(up, ("up", rows, columns))
        return value

    def chosen(self) -> Element:
        key, statement, log_chosen = self.key, self.run.statement, self.log_chosen
        factor = plus(*self.sums["margin"])
        value, at, (weight, normed, matrix_value) = self.run.sumcheck(
            SumOfProducts.product(3), log_chosen + log2_ceil(key.width)
        )
        choices = eq_table(at[:log_chosen])[: len(statement.chosen)]
        channels = eq_table(at[log_chosen:])[: key.width]
        require(weight == times(factor, dot(choices, self.choices)), "the choices")
        positions = [ZERO] * self.v.size
        tokens = [ZERO] * key.vocabulary
        for index, (choice, token) in enumerate(zip(choices, statement.chosen, strict=True)):
            positions[statement.prompt - 1 + index] = choice
            tokens[token] = plus(tokens[token], choice)
        rows = [ZERO] * (key.width * (key.norms - 1)) + channels
        self.run.claims.add(normed, ("normed", rows, positions))
        self.run.claim_weights(matrix_value, self.matrix(key.head, tokens, channels))
        return value

    def ties(self) -> Element:
        below = [ZERO, *prefix_sums(self.sums["margin"])]
        chosen = self.run.statement.chosen
        return minus(ZERO, dot(self.choices, [below[token] for token in chosen]))
