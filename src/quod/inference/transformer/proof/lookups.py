"""The committed arrays and the lookup arguments of a proof, for both sides.

A lookup argument proves that tuples of *leaves* are entries of a table. A leaf is an affine form in
committed arrays and in sums that are not committed to, row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from quod.frozen import frozen
from quod.inference.transformer.program import INVERSE_SUM_BITS
from quod.inference.transformer.proof.key import MAX_ALIGNMENT, MIN_ALIGNMENT, Key
from quod.inference.transformer.proof.layout import Array, Layout
from quod.inference.transformer.proof.rounding import (
    CLAMP_BITS,
    LIMB,
    LIMB_BITS,
    NARROW_BITS,
    ROUNDED,
)
from quod.inference.transformer.proof.statement import Statement
from quod.inference.transformer.proof.vectors import FIELD, log2_ceil
from quod.inference.transformer.rounding import ACTIVATION, WIDE, Integers, clamp
from quod.inference.transformer.tables import EXP_ENTRIES, activation, exponentials
from quod.lookup.statement import Range, Table
from quod.lookup.statement import Statement as LookupStatement

CLAMPED = (
    "normed", "query", "key", "value", "rotated_query", "rotated_key", "mixed", "gate", "up",
)  # fmt: skip
"""The kinds of value that saturate at 16 bits."""

_NORM_TABLE = ("power", "multiple", "scale", "small", "top")
_RANGE, _CLAMP, _EXP, _ACTIVATION, _NORM = "range", "clamp", "exp", "activation", "norm"

Rows = int | NDArray[np.int64]
"""A coefficient for all rows, or one for each."""


@frozen(eq=False)
class Leaf:
    """An affine form: the sum of coefficients times arrays and sums, and a constant.

    shape: the rows and the base-2 logarithm of the columns.
    """

    shape: tuple[int, int]
    arrays: tuple[tuple[str, Rows], ...] = ()
    sums: tuple[tuple[str, Rows], ...] = ()
    constant: Rows = 0

    def values(self, arrays: Mapping[str, Integers], sums: Mapping[str, Integers]) -> Integers:
        """Return the values, int64 of shape (rows, columns)."""
        rows, log_width = self.shape
        result = np.zeros((rows, 1 << log_width), np.int64) + column(self.constant)
        for source, terms in ((arrays, self.arrays), (sums, self.sums)):
            for name, coefficient in terms:
                result += source[name].reshape(rows, -1) * column(coefficient)
        return result


def column(rows: Rows) -> Integers:
    """Return coefficients as a column that broadcasts over positions."""
    return np.asarray(rows, np.int64).reshape(-1, 1)


class Run:
    """A lookup argument.

    name: its name in errors.
    tuples: the leaves of each tuple, all of one shape.
    table: an array per element of an entry; None for the integers below 2**16.
    padding: the entry that fills the tuples to a power of two.
    """

    def __init__(
        self, name: str, tuples: Sequence[tuple[Leaf, ...]], table: Sequence[Integers] | None
    ) -> None:
        self.name, self.tuples, self.table = name, list(tuples), table
        self.layout = Layout(
            Array(str(index), *leaves[0].shape) for index, leaves in enumerate(self.tuples)
        )
        self.padding = [0] if table is None else [int(part[0]) for part in table]

    @property
    def log_table(self) -> int:
        """The base-2 logarithm of the number of entries of the table."""
        return LIMB_BITS if self.table is None else log2_ceil(len(self.table[0]))

    @property
    def statement(self) -> LookupStatement:
        """The statement of the argument."""
        table = Range(LIMB_BITS) if self.table is None else Table(self.log_table, len(self.table))
        return LookupStatement(FIELD, 1, self.layout.log2_size, table)

    def values(
        self, arrays: Mapping[str, Integers], sums: Mapping[str, Integers]
    ) -> list[Integers]:
        """Return the values of all tuples, an array for each element of an entry."""
        columns = []
        for element, fill in enumerate(self.padding):
            table = np.full(1 << self.layout.log2_size, fill, np.int64)
            for index, leaves in enumerate(self.tuples):
                values = leaves[element].values(arrays, sums).reshape(-1)
                start = self.layout.starts[str(index)]
                table[start : start + len(values)] = values
            columns.append(table)
        return columns


class Columns:
    """The committed arrays and the lookup arguments of a statement."""

    def __init__(self, key: Key, statement: Statement) -> None:
        self._key = key
        self._log = statement.log_positions
        self._size = 1 << self._log
        self._log_chosen = statement.log_chosen
        runs = [self._range(), self._clamp(), self._exp(), self._activation(), self._norm()]
        self.runs = {run.name: run for run in runs}

    @cached_property
    def layout(self) -> Layout:
        """The layout of the commitment: all arrays, and the multiplicities of the tables."""
        counts = [
            Array(
                multiplicities_name(run.name),
                1 << max(0, run.log_table - self._log), min(run.log_table, self._log),
            )
            for run in self.runs.values()
        ]  # fmt: skip
        return Layout([*(Array(name, *shape) for name, shape in self.shapes.items()), *counts])

    @cached_property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """The rows and the base-2 logarithm of the columns of each array, without the counts."""
        key, log, size = self._key, self._log, self._size
        shapes: dict[str, tuple[int, int]] = {}
        for name in ROUNDED:
            rounding = key.roundings[name]
            rows = self._rows(name)
            shapes |= {f"{name}.limb{limb}": (rows, log) for limb in range(1, rounding.limbs)}
            shapes[name] = rows, log
            if name in CLAMPED:
                shapes[f"{name}.quotient"] = rows, log
            elif name in ("residual", "hidden"):
                shapes |= {f"{name}.{side}": (rows, log) for side in ("above", "below")}
        shapes["unit.high"] = key.norms * key.width, log
        scalars = (
            *_NORM_TABLE, "mantissa", "root", "rest1", "rest2", "room1", "room2", "defect1",
            "defect2", "slack1", "slack2", "low", "high", "root_low", "root_high", "checked",
        )  # fmt: skip
        shapes |= {f"norm.{name}": (key.norms, log) for name in scalars}
        heads = key.layers * key.heads
        shapes["weight"] = heads * size, log
        shapes["activated"] = key.layers * key.hidden, log
        shapes |= dict.fromkeys(
            ("largest", "inverse", "inverse.high", "inverse.rest", "inverse.room"), (heads, log)
        )
        shapes["largest.high"] = heads * size, log - log // 2
        shapes["largest.low"] = heads * size, log // 2
        shapes |= {f"margin.limb{limb}": (key.vocabulary, self._log_chosen) for limb in (1, 2)}
        return shapes

    def _rows(self, name: str) -> int:
        """Return the number of rows of a kind of value."""
        key = self._key
        if name in ("normed", "unit", "residual"):
            return key.norms * key.width
        rows = {
            "query": key.query_width, "rotated_query": key.query_width, "mixed": key.query_width,
            "key": key.kv_width, "rotated_key": key.kv_width, "value": key.kv_width,
            "gate": key.hidden, "up": key.hidden, "hidden": key.hidden,
            "score": key.heads * self._size,
        }  # fmt: skip
        return key.layers * rows[name]

    def _of_rows(self, name: str, groups: Sequence[int]) -> NDArray[np.int64]:
        """Return a number per row of a kind of value, from one per group of rows."""
        return np.repeat(np.array(groups, np.int64), self._rows(name) // len(groups))

    # --- the runs

    def _remainder(self, name: str, terms: Sequence[tuple[str, int]]) -> list[Leaf]:
        """Return the limbs of a remainder: sums * 2^(S-s) + 2^(S-1) - results * 2^S.

        Half steps of scores are rounded down, without 2^(S-1).
        """
        rounding = self._key.roundings[name]
        shape = self._rows(name), self._log
        powers = self._of_rows(name, [1 << bits for bits in rounding.bits])
        limbs = [f"{name}.limb{limb}" for limb in range(1, rounding.limbs)]
        results = tuple((array, -factor * powers) for array, factor in terms)
        lower = tuple((limb, -1 << LIMB_BITS * index) for index, limb in enumerate(limbs, 1))
        if name == "score":  # whose sums are scaled already, as those of later keys are constant
            lowest = Leaf(shape, (*results, *lower), (("score.sum", 1),))
        else:
            scales = self._of_rows(name, rounding.scales())
            lowest = Leaf(shape, (*results, *lower), ((f"{name}.sum", scales),), powers >> 1)
        leaves = [lowest, *(Leaf(shape, ((limb, 1),)) for limb in limbs)]
        if rounding.has_spare_bits:
            spare = [1 << LIMB_BITS * rounding.limbs - bits for bits in rounding.bits]
            leaves.append(_scaled(leaves[-1], self._of_rows(name, spare)))
        if rounding.is_narrow:
            leaves.append(Leaf(shape, tuple(terms), (), 1 << NARROW_BITS - 1))
        return leaves

    def _range(self) -> Run:
        key, log = self._key, self._log
        leaves: list[Leaf] = []
        for name in CLAMPED:
            leaves += self._remainder(name, [(f"{name}.quotient", 1)])
        for name in ("unit", "hidden"):
            leaves += self._remainder(name, [(name, 1)])
        leaves += self._remainder("score", [("score", 1)])
        # The residual stream's results are differences of neighbouring states.
        leaves += self._remainder("residual", [("residual", 1), ("residual.before", -1)])
        for name, limit in (("residual", key.residual_limit), ("hidden", WIDE)):
            shape = self._rows(name), log
            for side, sign in (("above", 1), ("below", -1)):
                limb = f"{name}.{side}"
                leaves += [
                    Leaf(shape, ((limb, 1),)),
                    Leaf(shape, ((name, sign), (limb, -LIMB)), (), limit),
                ]
        shape = key.norms * key.width, log
        leaves += [
            Leaf(shape, (("unit.high", 1),)),
            Leaf(shape, (("unit", 1), ("unit.high", -LIMB)), (), 1 << 31),
        ]
        leaves += self._norm_leaves()
        leaves += self._inverse_leaves()
        margins = key.vocabulary, self._log_chosen
        leaves += [
            Leaf(
                margins, (("margin.limb1", -LIMB), ("margin.limb2", -(1 << 32))), (("margin", 1),)
            ),
            *(Leaf(margins, ((f"margin.limb{limb}", 1),)) for limb in (1, 2)),
        ]
        return Run(_RANGE, [(leaf,) for leaf in leaves], None)

    def _norm_leaves(self) -> list[Leaf]:
        shape = self._key.norms, self._log

        def limbs(name: str, limb_names: Sequence[str], leaf: Leaf) -> list[Leaf]:
            """Return the limbs of a form: the lowest is virtual."""
            return _limbs(leaf, [f"norm.{limb}" for limb in limb_names])

        cut_off = Leaf(shape, (), (("norm.scaled.sum", 1), ("norm.floor.sum", -1)))
        room = Leaf(
            shape, (("norm.power", 1),), (("norm.scaled.sum", -1), ("norm.floor.sum", 1)), -1
        )
        defect = Leaf(shape, (), (("norm.cube.sum", -1),), 1 << 62)
        slack = Leaf(
            shape, (("norm.mantissa", 1),), (("norm.cross.sum", 2), ("norm.cube.sum", 1)),
            -1 - (1 << 62),
        )  # fmt: skip
        mantissa, root = ("norm.mantissa", 1), ("norm.root", 1)
        return [
            *limbs("rest", ("rest1", "rest2"), cut_off),
            *limbs("room", ("room1", "room2"), room),
            *limbs("defect", ("defect1", "defect2"), defect),
            *limbs("slack", ("slack1", "slack2"), slack),
            *limbs("low", ("low",), Leaf(shape, (mantissa,), (), -(1 << 20))),
            *limbs("high", ("high",), Leaf(shape, (("norm.top", 1), ("norm.mantissa", -1)))),
            *limbs("root_low", ("root_low",), Leaf(shape, (root,), (), -(1 << 20))),
            *limbs("root_high", ("root_high",), Leaf(shape, (("norm.root", -1),), (), 1 << 21)),
            *limbs("checked", ("checked",), Leaf(shape, (), (("norm.checked.sum", 1),))),
        ]

    def _inverse_leaves(self) -> list[Leaf]:
        shape = self._key.layers * self._key.heads, self._log
        numerator = 1 << INVERSE_SUM_BITS
        return [
            *_limbs(Leaf(shape, (("inverse", 1),)), ["inverse.high"]),
            *_limbs(Leaf(shape, (), (("inverse.sum", -1),), numerator), ["inverse.rest"]),
            *_limbs(
                Leaf(shape, (), (("total.sum", 1), ("inverse.sum", 1)), -1 - numerator),
                ["inverse.room"],
            ),
        ]

    def _clamp(self) -> Run:
        half = 1 << (CLAMP_BITS - 1)
        integers = np.arange(-half, half)
        pairs = [
            (Leaf(shape, ((f"{name}.quotient", 1),)), Leaf(shape, ((name, 1),)))
            for name in CLAMPED
            for shape in [(self._rows(name), self._log)]
        ]
        return Run(_CLAMP, pairs, [integers, clamp(integers, ACTIVATION)])

    def _exp(self) -> Run:
        shape = self._key.layers * self._key.heads * self._size, self._log
        steps = np.arange(1 << self._key.score_bits)
        weights = np.append(exponentials(), 0)[np.minimum(steps + 1 >> 1, EXP_ENTRIES)]
        pair = Leaf(shape, (("score", 1),)), Leaf(shape, (("weight", 1),))
        return Run(_EXP, [pair], [steps, weights.astype(np.int64)])

    def _activation(self) -> Run:
        """Return the lookups of the activation; an entry starts with the number of its table."""
        key, scales = self._key, [c.activation for c in self._key.constants]
        distinct = sorted(set(scales))
        count = 1 << log2_ceil(len(distinct))
        tables = [activation("silu", *pair) for pair in distinct]
        tables += [tables[-1]] * (count - len(distinct))
        numbers = np.repeat(np.arange(count), 1 << 16)
        inputs = np.tile(np.arange(-(1 << 15), 1 << 15), count)
        shape = key.layers * key.hidden, self._log
        layer_tables = np.array([distinct.index(pair) for pair in scales])
        leaves = (
            Leaf(shape, (), (), np.repeat(layer_tables, key.hidden)),
            Leaf(shape, (("gate", 1),)), Leaf(shape, (("activated", 1),)),
        )  # fmt: skip
        outputs = np.concatenate(tables).astype(np.int64)
        return Run(_ACTIVATION, [leaves], [numbers, inputs, outputs])

    def _norm(self) -> Run:
        """Return the lookups of the constants of an alignment t."""
        shape = self._key.norms, self._log
        alignments = np.arange(MIN_ALIGNMENT, MAX_ALIGNMENT + 1)
        alignments = np.concatenate([alignments, [MAX_ALIGNMENT] * (32 - len(alignments))])
        up, down = np.maximum(alignments, 0), np.maximum(-alignments, 0)
        table = [
            1 << 2 * up, 1 << 2 * down, 1 << MAX_ALIGNMENT - alignments,
            (alignments < 0).astype(np.int64),
            np.where(alignments == MAX_ALIGNMENT, (1 << 21) - 1, (1 << 22) - 1),
        ]  # fmt: skip
        leaves = tuple(Leaf(shape, ((f"norm.{name}", 1),)) for name in _NORM_TABLE)
        return Run(_NORM, [leaves], table)


def multiplicities_name(run: str) -> str:
    """Return the name of the array of a run's multiplicities."""
    return f"counts.{run}"


def _limbs(leaf: Leaf, limbs: Sequence[str]) -> list[Leaf]:
    """Return the limbs of a form that is not negative; the lowest one is not committed to."""
    lower = tuple((name, -1 << LIMB_BITS * index) for index, name in enumerate(limbs, 1))
    return [
        Leaf(leaf.shape, leaf.arrays + lower, leaf.sums, leaf.constant),
        *(Leaf(leaf.shape, ((name, 1),)) for name in limbs),
    ]


def _scaled(leaf: Leaf, factor: NDArray[np.int64]) -> Leaf:
    arrays, sums = (
        tuple((name, coefficient * factor) for name, coefficient in terms)
        for terms in (leaf.arrays, leaf.sums)
    )
    return Leaf(leaf.shape, arrays, sums, leaf.constant * factor)
