"""A prover that lies about chosen values, and computes everything else from its lies.

The values of a proof are computed again here, from docs/integer-transformer.md. A *lie* replaces a
value when it is computed, so that all values that depend on it, the limbs and the sums of the
protocol agree with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import isqrt
from typing import Any, Protocol, cast

import numpy as np

from quod.field.plain_element import PlainElement
from quod.inference.transformer.program import LayerSteps, NormStep, Product, Program
from quod.inference.transformer.proof.context import Sum
from quod.inference.transformer.proof.key import Key
from quod.inference.transformer.proof.lookups import Columns, Leaf
from quod.inference.transformer.proof.protocol import run_protocol
from quod.inference.transformer.proof.prover import Prover, _ProverParty
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.proof.vectors import (
    FIELD,
    P,
    Vector,
    add,
    element,
    lift,
    multiply,
    plain,
    subtract,
    total,
)
from quod.inference.transformer.proof.witness import Witness
from quod.inference.transformer.rounding import Integers
from quod.inference.transformer.tables import Rotations, exponentials
from quod.sumcheck.polynomial import SumOfProducts

Lie = Callable[[int, Integers], Integers]
"""Replaces the values of a group (layer, norm, or head), which it may change in place."""


class Values(Protocol):
    """The arrays and the sums of a proof."""

    arrays: dict[str, Integers]
    sums: dict[str, Integers]


class Forgery:
    """The arrays and the sums of a dishonest proof, as `Witness` has them for an honest one."""

    def __init__(
        self, key: Key, program: Program, statement: Statement, lies: Mapping[str, Lie] = {}
    ) -> None:
        self.key, self._lies = key, dict(lies)
        self._unused = set(lies)
        self._parts: dict[str, list[Integers]] = {}
        self._sums: dict[str, list[Integers]] = {}
        tokens = np.array(statement.inputs)
        self._size = len(tokens)
        self._see = np.tri(self._size, dtype=bool)
        self._angles = Rotations(*key_rotations(key)).table(self._size).astype(np.int64)
        x = np.zeros((key.width, self._size), np.int64)
        x = self._state(0, x, program.model.embedding.integers(tokens).T)
        for layer, steps in enumerate(program.layers):
            o = self._attention(layer, steps, self._norm(2 * layer, steps.attention_norm, x))
            x = self._state(2 * layer + 1, x, product(steps.output, o))
            n = self._norm(2 * layer + 1, steps.feed_forward_norm, x)
            x = self._state(
                2 * layer + 2, x, product(steps.down, self._feed_forward(layer, steps, n))
            )
        self._margins(statement, program, self._norm(2 * key.layers, program.norm, x))
        assert not self._unused, self._unused
        self.arrays = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        self.sums = {name: np.concatenate(parts) for name, parts in self._sums.items()}

    def _tell(self, name: str, group: int, honest: Integers) -> Integers:
        self._unused.discard(name)
        lie = self._lies.get(name)
        return honest if lie is None else lie(group, honest.copy())

    def _put(self, name: str, group: int, honest: Integers) -> Integers:
        """Commit to values, or to a lie in their place; return what is committed to."""
        values = self._tell(name, group, honest)
        self._parts.setdefault(name, []).append(values if values.ndim > 1 else values[None])
        return values

    def _sum(self, name: str, values: Integers) -> None:
        self._sums.setdefault(name, []).append(values if values.ndim > 1 else values[None])

    def _limbs(self, names: list[str], group: int, form: Integers) -> None:
        """Commit to all limbs of a form but the lowest; the highest takes what is left."""
        for index, name in enumerate(names, 1):
            limb = form >> 16 * index
            self._put(name, group, limb if index == len(names) else limb & 65535)

    def _remainder(
        self, name: str, group: int, sums: Integers, results: Integers, shift: int | None = None
    ) -> None:
        """Commit to a remainder's limbs; `shift` is the index of the shift, if not the group's."""
        rounding = self.key.roundings[name]
        shift = group if shift is None else shift
        bits = rounding.bits[shift]
        if name == "score":
            form = sums - (results << bits)
        else:
            form = (sums << bits - rounding.shifts[shift]) + (1 << bits >> 1) - (results << bits)
        self._limbs([f"{name}.limb{i}" for i in range(1, rounding.limbs)], group, form)
        self._sum(f"{name}.sum", sums)

    def _round(self, name: str, group: int, sums: Integers) -> Integers:
        shift = self.key.roundings[name].shifts[group]
        return sums + (1 << shift >> 1) >> shift

    def _clamped(self, name: str, group: int, sums: Integers) -> Integers:
        sums = self._tell(f"{name}.sum", group, sums)
        quotient = self._put(f"{name}.quotient", group, self._round(name, group, sums))
        self._remainder(name, group, sums, quotient)
        return self._put(name, group, np.clip(quotient, -32767, 32767))

    def _limit(self, name: str, group: int, values: Integers, limit: int) -> None:
        self._limbs([f"{name}.above"], group, limit + values)
        self._limbs([f"{name}.below"], group, limit - values)

    def _state(self, index: int, before: Integers, sums: Integers) -> Integers:
        sums = self._tell("residual.sum", index, sums)
        x = self._put("residual", index, before + self._round("residual", index, sums))
        self._remainder("residual", index, sums, x - before)
        self._limit("residual", index, x, self.key.residual_limit)
        return x

    def _norm(self, index: int, step: NormStep, x: Integers) -> Integers:
        squares = self._tell("squares", index, (x * x).sum(axis=0) + step.epsilon)
        bits = np.array([int(v).bit_length() for v in squares])
        t = self._tell("alignment", index, -((22 - bits) // 2))
        up, down = np.maximum(t, 0), np.maximum(-t, 0)
        power = self._put("norm.power", index, 1 << 2 * up)
        multiple = self._put("norm.multiple", index, 1 << 2 * down)
        scale = self._put("norm.scale", index, 1 << 21 - t)
        small = self._put("norm.small", index, (t < 0).astype(np.int64))
        top = self._put("norm.top", index, np.where(t == 21, (1 << 21) - 1, (1 << 22) - 1))
        m = self._put("norm.mantissa", index, squares * multiple // power)
        honest = np.array([isqrt((1 << 62) // max(1, int(v))) for v in m])
        root = self._put("norm.root", index, honest)
        leftover, defect = squares * multiple - m * power, (1 << 62) - root * root * m
        for names, form in (
            (("rest1", "rest2"), leftover), (("room1", "room2"), power - 1 - leftover),
            (("defect1", "defect2"), defect),
            (("slack1", "slack2"), (2 * root + 1) * m - 1 - defect),
            (("low",), m - (1 << 20)), (("high",), top - m), (("root_low",), root - (1 << 20)),
            (("root_high",), (1 << 21) - root), (("checked",), squares * small),
        ):  # fmt: skip
            self._limbs([f"norm.{name}" for name in names], index, form)
        self._sum("squares", squares)
        for name, values in (
            ("scaled", squares * multiple), ("floor", m * power), ("checked", squares * small),
            ("cube", root * root * m), ("cross", root * m),
        ):  # fmt: skip
            self._sum(f"norm.{name}.sum", values)
        sums = self._tell("unit.sum", index, x * (root * scale))
        unit = self._put("unit", index, self._round("unit", 0, sums))
        self._remainder("unit", index, sums, unit, 0)
        self._limbs(["unit.high"], index, unit + (1 << 31))
        return self._clamped("normed", index, unit * self.key.gains[index][:, None])

    def _attention(self, layer: int, steps: LayerSteps, n: Integers) -> Integers:
        key, size = self.key, self._size
        q = self._clamped("query", layer, product(steps.query, n))
        k = self._clamped("key", layer, product(steps.key, n))
        v = self._clamped("value", layer, product(steps.value, n))
        q, k = self._rotated("rotated_query", layer, q), self._rotated("rotated_key", layer, k)
        rounding, log_low = key.roundings["score"], (size.bit_length() - 1) // 2
        factor = steps.scores.multiplier << rounding.bits[layer] - rounding.shifts[layer]
        masked = (1 << key.score_bits) - 1
        table = np.append(exponentials(), 0).astype(np.int64)
        sums = []
        for head in range(key.heads):
            group, width = head * key.kv_heads // key.heads, key.head_width
            head_rows, group_rows = (
                slice(head * width, (head + 1) * width),
                slice(group * width, (group + 1) * width),
            )
            number = layer * key.heads + head
            scores = q[head_rows].T @ k[group_rows]
            visible = np.where(self._see, scores, -(1 << 62))
            chosen = self._tell("choice", number, visible.argmax(axis=1))
            largest = self._put("largest", number, scores[np.arange(size), chosen])
            high, low = chosen[:, None] >> log_low, chosen[:, None] % (1 << log_low)
            self._put("largest.high", number, (high == np.arange(size >> log_low)).astype(np.int64))
            self._put("largest.low", number, (low == np.arange(1 << log_low)).astype(np.int64))
            aligned = self._tell("score.sum", number, np.where(
                self._see, (largest[:, None] - scores) * factor, masked << rounding.bits[layer]
            ))  # fmt: skip
            z = self._put("score", number, aligned >> rounding.bits[layer])
            self._remainder("score", number, aligned, z, layer)
            steps_of = np.clip(z + 1 >> 1, 0, len(table) - 1)
            e = self._put("weight", number, table[steps_of])
            self._sum("products", scores)
            total = e.sum(axis=1)
            inverse = self._put("inverse", number, (1 << 46) // np.maximum(total, 1))
            leftover = (1 << 46) - inverse * total
            self._limbs(["inverse.high"], number, inverse)
            self._limbs(["inverse.rest"], number, leftover)
            self._limbs(["inverse.room"], number, total - 1 - leftover)
            self._sum("inverse.sum", inverse * total)
            self._sum("total.sum", total)
            sums.append(v[group_rows] @ e.T * inverse)
        return self._clamped("mixed", layer, np.concatenate(sums))

    def _rotated(self, name: str, layer: int, x: Integers) -> Integers:
        half = self.key.head_width // 2
        a, b = x.reshape(-1, half, 2, self._size).transpose(2, 0, 1, 3)
        c, d = self._angles.transpose(2, 1, 0)
        turned = np.stack([a * c - b * d, b * c + a * d], axis=2).reshape(x.shape)
        turned = self._tell(f"{name}.sum", layer, turned)
        quotient = self._put(f"{name}.quotient", layer, self._round(name, 0, turned))
        self._remainder(name, layer, turned, quotient, 0)
        return self._put(name, layer, np.clip(quotient, -32767, 32767))

    def _feed_forward(self, layer: int, steps: LayerSteps, n: Integers) -> Integers:
        assert steps.gate is not None
        gate = self._clamped("gate", layer, product(steps.gate, n))
        up = self._clamped("up", layer, product(steps.up, n))
        honest = steps.table[np.clip(gate, -32768, 32767) + 32768].astype(np.int64)
        sums = self._tell("hidden.sum", layer, self._put("activated", layer, honest) * up)
        hidden = self._put("hidden", layer, self._round("hidden", layer, sums))
        self._remainder("hidden", layer, sums, hidden)
        self._limit("hidden", layer, hidden, (1 << 23) - 1)
        return hidden

    def _margins(self, statement: Statement, program: Program, normed: Integers) -> None:
        chosen = np.array(statement.chosen)
        logits = product(program.head, normed[:, statement.positions()])
        earlier = np.arange(self.key.vocabulary)[:, None] < chosen
        logits = self._tell("logits", 0, logits)
        margins = np.zeros((self.key.vocabulary, 1 << statement.log_chosen), np.int64)
        margins[:, : len(chosen)] = logits[chosen, np.arange(len(chosen))] - logits - earlier
        self._sum("margin", margins)
        self._limbs(["margin.limb1", "margin.limb2"], 0, margins)


def product(step: Product, x: Integers) -> Integers:
    """Return the sums of a product, a column for each position."""
    sums = step.matrix.integers() @ x
    return sums if step.bias is None else sums + step.bias[:, None]


def key_rotations(key: Key) -> tuple[Any, ...]:
    """Return the arguments of the rotations of a key."""
    return key.rope[0], key.head_width, key.rope[1]


def exact_values(
    leaf: Leaf, arrays: Mapping[str, Integers], sums: Mapping[str, Integers]
) -> Integers:
    """Return a leaf's values modulo p, exactly, between -2^63 and 2^63 - 1; see `Leaf.values`."""
    rows, log_width = leaf.shape
    result = np.zeros((rows, 1 << log_width), object)
    terms = [*((arrays[name], factor) for name, factor in leaf.arrays),
             *((sums[name], factor) for name, factor in leaf.sums), (1, leaf.constant)]  # fmt: skip
    for values, factor in terms:
        numbers = np.asarray(values).astype(object)
        factors = np.asarray(factor).astype(object).reshape(-1, 1)
        result = result + (numbers.reshape(rows, -1) if numbers.ndim else numbers) * factors
    residues = result % P
    return np.where(residues >= 1 << 63, residues - P, residues).astype(np.int64)


@cache
def _entries(parts: tuple[bytes, ...]) -> frozenset[tuple[int, ...]]:
    return frozenset(zip(*(np.frombuffer(part, np.int64).tolist() for part in parts), strict=True))


def failing_lookups(
    key: Key, columns: Columns, forgery: Values, honest: Values | None = None
) -> dict[str, int]:
    """Return the number of lookups outside of the table, for each argument that has any.

    honest: values whose lookups are all in the tables; leaves that equal theirs are skipped.
    """
    sources = [
        {**side.arrays, **side.sums, "residual.before": np.concatenate([
            np.zeros_like(side.arrays["residual"][: key.width]),
            side.arrays["residual"][: -key.width],
        ])} for side in (forgery, honest or forgery)
    ]  # fmt: skip
    changed = {
        name for name, values in sources[0].items()
        if honest is None or not np.array_equal(values, sources[1][name])
    }  # fmt: skip
    failures = {}
    for name, lookup in columns.runs.items():
        wrong = 0
        for leaves in lookup.tuples:
            names = {source for leaf in leaves for source, _ in (*leaf.arrays, *leaf.sums)}
            if changed.isdisjoint(names):
                continue
            values = [exact_values(leaf, sources[0], sources[0]).reshape(-1) for leaf in leaves]
            if lookup.table is None:
                wrong += int(((values[0] < 0) | (values[0] > 65535)).sum())
            else:
                entries = _entries(tuple(np.asarray(t, np.int64).tobytes() for t in lookup.table))
                rows = zip(*(v.tolist() for v in values), strict=True)
                wrong += sum(row not in entries for row in rows)
        if wrong:
            failures[name] = wrong
    return failures


class _Liar(_ProverParty):
    """A prover that makes false sums true by a change of a table that is not committed to."""

    def sum(
        self, polynomial: SumOfProducts, variables: int, tables: Callable[[], list[Vector]],
        claim: Vector | None = None,
    ) -> Sum:  # fmt: skip
        """See `Party.sum`; the last table of a product is changed."""
        columns = tables()
        count = len(columns)
        if claim is not None and polynomial == SumOfProducts.product(count):
            *others, last = [lift(column) if column.ndim == 1 else column for column in columns]
            weights = others[0]
            for column in others[1:]:
                weights = multiply(weights, column)
            difference = subtract(claim, total(multiply(weights, last)))
            index = int(np.flatnonzero(weights.any(axis=1))[0])
            inverse = PlainElement(FIELD, plain(weights[index])) ** (P * P - 2)
            change = PlainElement(FIELD, plain(difference)) * inverse
            last = last.copy()
            last[index] = add(last[index], element(change.coefficients))
            columns = [*columns[:-1], last]
        return super().sum(polynomial, variables, lambda: columns, claim)


def forged_proof(prover: Prover, statement: Statement, forgery: Values) -> bytes:
    """Return the proof of a forgery; an error of Quod if the prover itself cannot go on."""
    columns = Columns(prover.key, statement)
    writer = _Liar(prover, columns, cast(Witness, forgery), statement.begin(prover.key))
    writer.arrays, writer.derived = dict(forgery.arrays), dict(forgery.sums)
    run_protocol(writer, prover.key, statement, columns)
    return writer.proof()
