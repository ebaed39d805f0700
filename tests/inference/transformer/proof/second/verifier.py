"""A second verifier of a language model's answers, on Python integers.

It is written from docs/design/verified-transformer.md, and shares with
`quod.inference.transformer.proof` only the key, the statement, and the shapes of the arrays. The
verifiers of sumchecks, lookup arguments and Ligero are those of Quod.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from quod.commitment import Claim, Ligero
from quod.commitment.ligero.verifier import LigeroCommitment
from quod.errors import InputError
from quod.inference.transformer.proof.key import Key
from quod.inference.transformer.proof.lookups import Columns
from quod.inference.transformer.proof.statement import Statement
from quod.lookup import Range, Table
from quod.lookup import Statement as Lookup
from quod.lookup.verifier import Reduced
from quod.lookup.verifier import verify as verify_lookup
from quod.sumcheck import Statement as Sumcheck
from quod.sumcheck import SumOfProducts
from quod.sumcheck import verify as verify_sumcheck
from quod.transcript import Label, ProofReader, Transcript
from tests.inference.transformer.proof.second.elements import (
    FIELD,
    ONE,
    ZERO,
    Element,
    LinearClaims,
    P,
    Packing,
    Term,
    Vector,
    column_blocks,
    commitment_of,
    dot,
    dot_integers,
    eq,
    eq_table,
    log2_ceil,
    minus,
    outer,
    pair,
    plus,
    require,
    scaled,
    times,
)
from tests.inference.transformer.proof.second.lookups import (
    add_scaled,
    column_of,
    lookups_of,
    table_at,
)
from tests.inference.transformer.proof.second.sums import Sums


class SecondVerifier:
    """The verifier of a statement; `verify` may be called for many proofs.

    Values that depend on nothing but an accepted proof's challenges are kept for the next proof.
    """

    def __init__(self, key: Key, statement: Statement) -> None:
        statement.check(key)
        self.key, self.statement = key, statement
        self.tau = statement.log_positions
        self.size = 1 << self.tau
        self.heads = key.layers * key.heads
        self.tuples, self.tables = lookups_of(key, statement)
        counts = [(f"counts.{n}", *self._counts(n)) for n in self.tables]
        shapes = Columns(key, statement).shapes
        self.columns = Packing([*((n, *shape) for n, shape in shapes.items()), *counts])
        blocks: dict[str, list[tuple[str, int, int]]] = {"tokens": [], "layers": []}
        for name, (layers, rows, columns) in key.matrices().items():
            blocks[commitment_of(name)] += [
                (f"{name}.{at}", layers * rows, w) for at, w in column_blocks(columns)
            ]
        self.weights = {name: Packing(parts) for name, parts in blocks.items()}
        self._kept: dict[Hashable, Any] = {}

    def _counts(self, name: str) -> tuple[int, int]:
        log = 16 if name == "range" else log2_ceil(len(self.tables[name][0]))
        return 1 << max(0, log - self.tau), min(log, self.tau)

    def keep(self, name: Hashable, compute: Callable[[], Any]) -> Any:
        if name not in self._kept:
            self._kept[name] = compute()
        return self._kept[name]

    def eq_table(self, point: Sequence[Element]) -> Vector:
        result: Vector = self.keep(("eq", tuple(point)), lambda: eq_table(point))
        return result

    def verify(self, proof: bytes) -> None:
        """Raise VerificationError or InputError unless the proof holds."""
        before = dict(self._kept)
        try:
            Run(self, proof).run()
        except Exception:
            self._kept = before
            raise

    def row_weights(self, packing: Packing, point: Sequence[Element]) -> dict[str, Vector]:
        """Return the weight of each row of each array in the value at a point."""
        weights = {}
        for name, (rows, width) in packing.arrays.items():
            first = packing.first_row[name]
            table = self.eq_table(tuple(point[: packing.variables - width]))
            weights[name] = table[first : first + rows]
        return weights


class Run:
    """The verification of one proof."""

    def __init__(self, verifier: SecondVerifier, proof: bytes) -> None:
        self.v, self.key, self.statement = verifier, verifier.key, verifier.statement
        self.parts: list[bytes] = []
        while proof:
            length, proof = int.from_bytes(proof[:4], "little"), proof[4:]
            if length > len(proof):
                raise InputError("a part is longer than the proof")
            self.parts.append(proof[:length])
            proof = proof[length:]
        self.parts.reverse()
        self.transcript: Transcript = self.statement.begin(self.key)
        self.claims = LinearClaims()
        self.weight_claims = {name: LinearClaims() for name in verifier.weights}

    def part(self) -> bytes:
        if not self.parts:
            raise InputError("the proof is too short")
        return self.parts.pop()

    def sent_sum(self) -> Element:
        part = self.part()
        if len(part) != 16:
            raise InputError("a sum has 16 bytes")
        first, second = (int.from_bytes(part[i : i + 8], "little") for i in (0, 8))
        if first >= P or second >= P:
            raise InputError("a sum is not reduced")
        return first, second

    def sumcheck(
        self, polynomial: SumOfProducts, variables: int, claim: Element | None = None
    ) -> tuple[Element, Vector, Vector]:
        """Return the sum, the point and the values of the tables."""
        if claim is None:
            claim = self.sent_sum()
        statement = Sumcheck(FIELD, polynomial, variables, claim)
        reduced = verify_sumcheck(statement, self.part(), transcript=self.transcript, allow_bits=0)
        return claim, list(map(pair, reduced.point)), list(map(pair, reduced.values))

    def sent_value(self) -> Element:
        reader = ProofReader(self.part(), self.transcript)
        (value,) = map(pair, reader.elements(Label.VALUES, FIELD, 1))
        reader.end()
        return value

    def claim_weights(self, value: Element, terms: list[Term]) -> None:
        """Claim a value of weights; if both commitments have a part, that of tokens is sent."""
        tokens = [term for term in terms if commitment_of(term[0].split(".")[0]) == "tokens"]
        layers = [term for term in terms if term not in tokens]
        if tokens and layers:
            part = self.sent_value()
            self.weight_claims["tokens"].add(part, *tokens)
            self.weight_claims["layers"].add(minus(value, part), *layers)
        else:
            self.weight_claims["tokens" if tokens else "layers"].add(value, *terms)

    def challenges(self, count: int) -> Vector:
        return list(map(pair, self.transcript.challenges(FIELD, count)))

    def run(self) -> None:
        reader = ProofReader(self.part(), self.transcript)
        commitment = Ligero().read(reader, FIELD, self.v.columns.variables, allow_bits=0)
        reader.end()
        for name in self.v.tables:
            self.lookup(name)
        self.maxima()
        self.open(self.v.columns, self.claims, commitment)
        for name, packing in self.v.weights.items():
            shape = Ligero().shape(FIELD, packing.variables)
            weights = LigeroCommitment(shape, self.key.roots[name])
            self.open(packing, self.weight_claims[name], weights)
        if self.parts:
            raise InputError("the proof is too long")

    def open(self, packing: Packing, claims: LinearClaims, commitment: LigeroCommitment) -> None:
        self.transcript.absorb_elements(Label.CLAIM, FIELD, claims.values)
        (factor,) = self.challenges(1)
        powers = [ONE]
        while len(powers) < len(claims.values):
            powers.append(times(powers[-1], factor))
        total = dot(powers, claims.values)
        _, point, (value, weight) = self.sumcheck(
            SumOfProducts.product(2), packing.variables, total
        )
        expected = self.v.keep(
            ("weights", tuple(point), tuple(claims.values), packing.variables),
            lambda: self.weight_at(packing, claims, powers, point),
        )
        require(weight == expected, "the weights of the claims")
        reader = ProofReader(self.part(), self.transcript)
        commitment.check([Claim(tuple(point), value)], reader)
        reader.end()

    def weight_at(
        self, packing: Packing, claims: LinearClaims, powers: Vector, point: Vector
    ) -> Element:
        rows_at, total = self.v.row_weights(packing, point), ZERO
        for power, terms in zip(powers, claims.terms, strict=True):
            for name, rows, columns in terms:
                columns_at = self.v.eq_table(
                    tuple(point[packing.variables - packing.arrays[name][1] :])
                )
                if columns is None:
                    by_row = [dot(row, columns_at) for row in rows]
                    value = dot(by_row, rows_at[name])
                else:
                    value = times(dot(rows, rows_at[name]), dot(columns, columns_at))
                total = plus(total, times(power, value))
        return total

    # --- lookups

    def lookup(self, name: str) -> None:
        leaves, table = self.v.tuples[name], self.v.tables[name]
        packing = Packing((str(i), rows, width) for i, (rows, width, _) in enumerate(leaves))
        kind = Range(16) if name == "range" else Table(log2_ceil(len(table[0])), len(table))
        reduced = verify_lookup(
            Lookup(FIELD, 1, packing.variables, kind), self.part(), transcript=self.transcript,
            allow_bits=0,
        )  # fmt: skip
        self.check_table(name, table, reduced)
        table_point = list(map(pair, reduced.table_point))
        split = len(table_point) - self.v.columns.arrays[f"counts.{name}"][1]
        self.claims.add(pair(reduced.multiplicity), (
            f"counts.{name}", self.v.eq_table(table_point[:split]), eq_table(table_point[split:])
        ))  # fmt: skip
        point = list(map(pair, reduced.point))
        for index, value in enumerate(map(pair, reduced.columns[0])):
            fill = 0 if name == "range" else table[index][0]
            arrays, sums, constant = self.v.keep(
                (name, index, tuple(point)),
                lambda i=index, f=fill: self.leaf(packing, leaves, i, f, point),
            )
            value = minus(value, constant)
            linear: list[Term] = []
            if sums:
                proved, linear = Sums(self, sums, point).prove()
                value = minus(value, proved)
            self.claims.add(value, *arrays, *linear)

    def leaf(
        self, packing: Packing, leaves: list[Any], index: int, fill: int, point: Vector
    ) -> tuple[list[Term], dict[str, Vector], Element]:
        """Return the weights of arrays and sums in one element of the tuples, and the constant."""
        rows_at, used, constant = self.v.row_weights(packing, point), ZERO, ZERO
        arrays: dict[str, tuple[Vector, int]] = {}
        sums: dict[str, Vector] = {}
        for number, (rows, width, elements) in enumerate(leaves):
            weights = rows_at[str(number)]
            used = plus(used, *weights)
            in_arrays, in_sums, offset = elements[index]
            constant = plus(constant, dot_integers(weights, column_of(offset, rows)))
            for array, factor in in_arrays:
                total = arrays.setdefault(array, ([ZERO] * rows, width))[0]
                add_scaled(total, weights, column_of(factor, rows))
            for array, factor in in_sums:
                add_scaled(sums.setdefault(array, [ZERO] * rows), weights, column_of(factor, rows))
        before = arrays.pop("before", None)
        if before is not None:
            d, states = self.key.width, arrays["residual"][0]
            for row in range(d, len(states)):
                states[row - d] = plus(states[row - d], before[0][row])
        constant = plus(constant, scaled(minus(ONE, used), fill))
        terms: list[Term] = [
            (array, weights, eq_table(point[len(point) - width :]))
            for array, (weights, width) in arrays.items()
        ]
        return terms, sums, constant

    def check_table(self, name: str, table: list[list[int]], reduced: Reduced) -> None:
        if name == "range":
            return
        point = tuple(map(pair, reduced.table_point))
        for index, (part, value) in enumerate(zip(table, reduced.entry, strict=True)):
            expected = self.v.keep(
                ("table", name, index, point), lambda p=part: table_at(p, 0, len(p), point)
            )
            require(expected == pair(value), f"the table of {name}")

    # --- the largest scores

    def maxima(self) -> None:
        v, key, tau = self.v, self.key, self.v.tau
        log_heads = log2_ceil(v.heads)
        variables = log_heads + tau
        log_low = tau // 2
        log_high = tau - log_low

        def rows_of(point: Vector) -> Vector:
            return outer(eq_table(point[:log_heads])[: v.heads], eq_table(point[log_heads:]))

        for name, width in (("largest.high", log_high), ("largest.low", log_low)):
            point = self.challenges(variables + width)
            _, at, (weight, bit) = self.sumcheck(
                SumOfProducts(((1, (0, 1, 1)), (-1, (0, 1)))), variables + width, ZERO
            )
            require(weight == eq(point, at), "eq of bits")
            self.claims.add(bit, (name, rows_of(at[:variables]), eq_table(at[variables:])))
            rows = rows_of(self.challenges(variables))
            self.claims.add(plus(*rows), (name, rows, [ONE] * (1 << width)))
        row_point = self.challenges(variables)
        (mu,) = self.challenges(1)
        heads, queries = eq_table(row_point[:log_heads])[: v.heads], eq_table(row_point[log_heads:])
        _, at, (weight, high, low, shifted) = self.sumcheck(
            SumOfProducts.product(4), variables + tau, times(mu, plus(*heads))
        )
        heads_at = eq_table(at[:log_heads])[: v.heads]
        queries_at, keys_at = eq_table(at[log_heads:variables]), eq_table(at[variables:])
        visible = ZERO
        for i in range(v.size):
            for j in range(i + 1):
                visible = plus(visible, times(times(queries[i], queries_at[i]), keys_at[j]))
        require(weight == times(dot(heads, heads_at), visible), "the visible keys")
        rows = outer(heads_at, queries_at)
        self.claims.add(
            high, ("largest.high", rows, eq_table(at[variables : variables + log_high]))
        )
        self.claims.add(low, ("largest.low", rows, eq_table(at[variables + log_high :])))
        # The last table is largest - score + mu.
        log_width = log2_ceil(key.head_width)
        scores, inner, (weight, query, key_value) = self.sumcheck(
            SumOfProducts.product(3), log_heads + log_width
        )
        inner_heads = eq_table(inner[:log_heads])[: v.heads]
        channels = eq_table(inner[log_heads:])[: key.head_width]
        require(weight == dot(inner_heads, heads_at), "the heads of scores")
        self.claims.add(query, ("rotated_query", outer(inner_heads, channels), queries_at))
        self.claims.add(
            key_value, ("rotated_key", outer(self.by_group(inner_heads), channels), keys_at)
        )
        largest = plus(minus(shifted, times(mu, plus(*heads_at))), scores)
        self.claims.add(largest, ("largest", heads_at, queries_at))

    def by_group(self, heads: Vector) -> Vector:
        """Add the weights of the heads that share a key head."""
        key = self.key
        groups = [ZERO] * (key.layers * key.kv_heads)
        for index, weight in enumerate(heads):
            layer, head = divmod(index, key.heads)
            group = layer * key.kv_heads + head * key.kv_heads // key.heads
            groups[group] = plus(groups[group], weight)
        return groups
