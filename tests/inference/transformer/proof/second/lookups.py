"""The lookups of a statement, as the page lists them: tuples of affine forms, and tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from quod.inference.transformer.proof.key import Key
from quod.inference.transformer.proof.lookups import Columns
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.tables import activation, exponentials
from tests.inference.transformer.proof.second.elements import (
    ZERO,
    Element,
    P,
    Vector,
    minus,
    plus,
    scaled,
    times,
)

Rows = int | list[int]
"""A factor for all rows, or one for each."""

CLAMPED = (
    "normed", "query", "key", "value", "rotated_query", "rotated_key", "mixed", "gate", "up",
)  # fmt: skip


def lookups_of(key: Key, statement: Statement) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tuples and the table of each lookup argument.

    A tuple is (rows, log2 of columns, elements); an element is an affine form: factors of arrays,
    factors of sums, and a constant, each an integer or one for each row.
    """
    shapes, tau = Columns(key, statement).shapes, statement.log_positions
    leaves: list[Any] = []

    def put(shape: tuple[int, int], arrays: Any, sums: Any = (), constant: Rows = 0) -> None:
        leaves.append((*shape, [(list(arrays), list(sums), constant)]))

    def limbs(shape: tuple[int, int], names: list[str], arrays: Any, sums: Any = (),
              constant: Rows = 0) -> None:  # fmt: skip
        lower = [(name, -(1 << 16 * index)) for index, name in enumerate(names, 1)]
        put(shape, [*arrays, *lower], sums, constant)
        for name in names:
            put(shape, [(name, 1)])

    def remainder(name: str, result: list[tuple[str, int]]) -> None:
        rounding, shape = key.roundings[name], shapes[name]
        count = -(-max(rounding.bits) // 16)
        per_group = shape[0] // len(rounding.bits)

        def column(numbers: Iterable[int]) -> list[int]:
            return [number for number in numbers for _ in range(per_group)]

        powers = column(1 << S for S in rounding.bits)
        factors = column(1 << S - s for S, s in zip(rounding.bits, rounding.shifts, strict=True))
        halves = [power // 2 for power in powers]
        if name == "score":
            factors, halves = [1] * shape[0], [0] * shape[0]
        names = [f"{name}.limb{index}" for index in range(1, count)]
        arrays = [(array, [-sign * power for power in powers]) for array, sign in result]
        limbs(shape, names, arrays, [(f"{name}.sum", factors)], halves)
        if any(16 * count > S for S in rounding.bits):
            spare = column(1 << 16 * count - S for S in rounding.bits)
            if names:
                put(shape, [(names[-1], spare)])
            else:
                put(shape, [(array, _products(rows, spare)) for array, rows in arrays],
                    [(f"{name}.sum", _products(factors, spare))],
                    _products(halves, spare))  # fmt: skip
        if rounding.is_narrow:
            put(shape, result, (), 1 << 15)

    for name in CLAMPED:
        remainder(name, [(f"{name}.quotient", 1)])
    for name in ("unit", "hidden", "score"):
        remainder(name, [(name, 1)])
    remainder("residual", [("residual", 1), ("before", -1)])
    for name, limit in (("residual", key.residual_limit), ("hidden", (1 << 23) - 1)):
        for side, sign in (("above", 1), ("below", -1)):
            put(shapes[name], [(f"{name}.{side}", 1)])
            put(shapes[name], [(name, sign), (f"{name}.{side}", -(1 << 16))], (), limit)
    put(shapes["unit"], [("unit.high", 1)])
    put(shapes["unit"], [("unit", 1), ("unit.high", -(1 << 16))], (), 1 << 31)

    def norm(names: str, arrays: Any, sums: Any = (), constant: int = 0) -> None:
        limbs((key.norms, tau), [f"norm.{n}" for n in names.split()],
              [(f"norm.{n}", f) for n, f in arrays], [(f"norm.{n}.sum", f) for n, f in sums],
              constant)  # fmt: skip

    norm("rest1 rest2", (), [("scaled", 1), ("floor", -1)])
    norm("room1 room2", [("power", 1)], [("scaled", -1), ("floor", 1)], -1)
    norm("defect1 defect2", (), [("cube", -1)], 1 << 62)
    norm("slack1 slack2", [("mantissa", 1)], [("cross", 2), ("cube", 1)], -1 - (1 << 62))
    norm("low", [("mantissa", 1)], (), -(1 << 20))
    norm("high", [("top", 1), ("mantissa", -1)])
    norm("root_low", [("root", 1)], (), -(1 << 20))
    norm("root_high", [("root", -1)], (), 1 << 21)
    norm("checked", (), [("checked", 1)])
    heads = key.layers * key.heads, tau
    limbs(heads, ["inverse.high"], [("inverse", 1)])
    limbs(heads, ["inverse.rest"], (), [("inverse.sum", -1)], 1 << 46)
    limbs(heads, ["inverse.room"], (), [("inverse.sum", 1), ("total.sum", 1)], -(1 << 46) - 1)
    limbs(shapes["margin.limb1"], ["margin.limb1", "margin.limb2"], (), [("margin", 1)])

    def tuple_of(shape: tuple[int, int], *arrays: str) -> Any:
        return (*shape, [([(array, 1)], [], 0) for array in arrays])

    pairs = [c.activation for c in key.constants]
    distinct = sorted(set(pairs))
    functions = [activation("silu", *pair).tolist() for pair in distinct]
    while len(functions) & len(functions) - 1:
        functions.append(functions[-1])
    numbers = [distinct.index(pair) for pair in pairs for _ in range(key.hidden)]
    gate_rows, gate_width, elements = tuple_of(shapes["gate"], "gate", "activated")
    norm_names = ("power", "multiple", "scale", "small", "top")
    alignments = [min(t, 21) for t in range(-6, 26)]
    exp = [*exponentials().tolist(), 0]
    half_steps = range(1 << key.score_bits)
    integers = list(range(-(1 << 17), 1 << 17))
    return {
        "range": leaves,
        "clamp": [tuple_of(shapes[name], f"{name}.quotient", name) for name in CLAMPED],
        "exp": [tuple_of(shapes["score"], "score", "weight")],
        "activation": [(gate_rows, gate_width, [([], [], numbers), *elements])],
        "norm": [tuple_of(shapes["norm.power"], *(f"norm.{name}" for name in norm_names))],
    }, {
        "range": [],
        "clamp": [integers, [max(-32767, min(32767, n)) for n in integers]],
        "exp": [list(half_steps), [exp[min((z + 1) // 2, 1 << 14)] for z in half_steps]],
        "activation": [
            [n for n in range(len(functions)) for _ in range(1 << 16)],
            list(range(-(1 << 15), 1 << 15)) * len(functions),
            [entry for function in functions for entry in function],
        ],
        "norm": [
            [4 ** max(t, 0) for t in alignments], [4 ** max(-t, 0) for t in alignments],
            [1 << 21 - t for t in alignments], [int(t < 0) for t in alignments],
            [(1 << 21) - 1 if t == 21 else (1 << 22) - 1 for t in alignments],
        ],
    }  # fmt: skip


def table_at(table: list[int], start: int, end: int, point: tuple[Element, ...]) -> Element:
    """Evaluate the multilinear polynomial of a part of a table; equal entries need no work."""
    first, count = table[start], end - start
    if count == 1 or table[start:end] == [first] * count:
        return first % P, 0
    if table[start:end] == list(range(first, first + count)):
        index = ZERO
        for coordinate in point:
            index = plus(scaled(index, 2), coordinate)
        return plus(index, (first % P, 0))
    middle = (start + end) // 2
    low = table_at(table, start, middle, point[1:])
    high = table_at(table, middle, end, point[1:])
    return plus(low, times(point[0], minus(high, low)))


def _products(xs: list[int], ys: list[int]) -> list[int]:
    return [x * y for x, y in zip(xs, ys, strict=True)]


def column_of(factor: Rows, rows: int) -> list[int]:
    return [factor] * rows if isinstance(factor, int) else factor


def add_scaled(total: Vector, weights: Vector, factors: list[int]) -> None:
    for index, ((a, b), factor) in enumerate(zip(weights, factors, strict=True)):
        c, d = total[index]
        total[index] = (c + a * factor) % P, (d + b * factor) % P
