"""Small circuits with witnesses for any curve, and the complete sets of the shared fixtures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from quod.curve.named import CURVES
from quod.field.array import integers_to_words
from quod.formats import SparseMatrix, write_r1cs, write_wtns

Row = Sequence[tuple[int, int]]

CIRCOM_SETS = (
    "bn254-multiplier2",
    "bn254-poseidon",
    "bls12_381-multiplier2",
    "bls12_381-poseidon",
    "quod-bn254-mulchain",
    "quod-bls12_381-mulchain",
    "quod-bls12_381-pow5bits",
    "quod-bn254-eddsa",
    "quod-bn254-merkle20",
)


@dataclass(frozen=True)
class Circuit:
    """A constraint system as rows of (wire, coefficient), and a witness that satisfies it."""

    curve: str
    a: list[Row]
    b: list[Row]
    c: list[Row]
    witness: list[int]
    outputs: int
    inputs: int

    @property
    def public(self) -> list[int]:
        return self.witness[1 : 1 + self.outputs + self.inputs]

    def write_r1cs(self, path: Path) -> Path:
        fr = CURVES[self.curve].fr

        def sparse(rows: list[Row]) -> SparseMatrix:
            return SparseMatrix(
                np.cumsum([0, *map(len, rows)]).astype(np.int64),
                np.array([wire for row in rows for wire, _ in row], dtype=np.uint32),
                integers_to_words(fr, [value % fr.value for row in rows for _, value in row]),
            )

        write_r1cs(
            path,
            curve=self.curve,
            wires=len(self.witness),
            public_outputs=self.outputs,
            public_inputs=self.inputs,
            private_inputs=0,
            a=sparse(self.a),
            b=sparse(self.b),
            c=sparse(self.c),
        )
        return path

    def write_wtns(self, path: Path, witness: list[int] | None = None) -> Path:
        fr = CURVES[self.curve].fr
        write_wtns(path, self.curve, integers_to_words(fr, witness or self.witness))
        return path

    def satisfied(self, witness: list[int]) -> bool:
        r = CURVES[self.curve].fr.value
        a, b, c = (
            [sum(value * witness[wire] for wire, value in row) % r for row in rows]
            for rows in (self.a, self.b, self.c)
        )
        return all(x * y % r == z for x, y, z in zip(a, b, c))


def recurrence(curve: str, steps: int, start: int = 3) -> Circuit:
    """out = x_steps where x_(i+1) = (2*x_i - x_(i-1) + i) * x_i; public: out and x_0.

    The first step has a repeated entry and a zero coefficient, one constraint has empty rows.
    """
    r = CURVES[curve].fr.value
    wires = [0, 2, *range(3, steps + 2), 1]  # wire 0 is the constant, x_0 = 2, out = 1
    witness = [1] + [0] * (steps + 1)
    witness[2] = start
    a: list[Row] = []
    b: list[Row] = []
    c: list[Row] = []
    for i, (previous, current) in enumerate(pairwise(wires[:-1])):
        following = wires[i + 2]
        row = [(current, 1), (current, 1), (previous, r - 1), (0, i), (0, 0)]
        a.append(row)
        b.append([(current, 1)])
        c.append([(following, 1)])
        factor = sum(value * witness[wire] for wire, value in row)
        witness[following] = factor * witness[current] % r
    a.append([])
    b.append([(0, 1)])
    c.append([])
    return Circuit(curve, a, b, c, witness, 1, 1)
