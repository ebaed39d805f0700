"""Each constraint of each gadget removed: some output is ambiguous, or the row is redundant."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from quod import r1cs
from quod.r1cs.determinism.report import check
from quod.r1cs.determinism.rows import Matrix, Rows
from quod.r1cs.determinism.sources import rows_of_circuit
from tests.r1cs.determinism.test_report import GADGETS

SAMPLE = 3
"""The constraints of each gadget that are removed in `make test`."""
MANY = 100
"""Those that are removed in `make test-all`."""
LARGE = ("EdwardsPoints.multiply", "merkle_root")
"""Gadgets whose search takes seconds for each constraint."""


def without(rows: Rows, removed: int) -> Rows:
    """A system without one of its constraints."""
    matrices = []
    for index in range(3):
        ends: list[int] = []
        wires: list[int] = []
        coefficients: list[int] = []
        for row in range(rows.count):
            if row != removed:
                columns, values = rows.side(index, row)
                wires += columns
                coefficients += values
                ends.append(len(wires))
        matrices.append(Matrix(ends, wires, coefficients))
    return Rows(
        rows.prime, rows.wires, (matrices[0], matrices[1], matrices[2]), rows.inputs, rows.targets,
        rows.name, rows.place,
    )  # fmt: skip


def gadget_rows(name: str) -> Rows:
    """The constraints of a gadget, whose results are the targets."""

    def circuit(system: r1cs.ConstraintSystem) -> None:
        for index, signal in enumerate(GADGETS[name](system)):
            system.output(f"out[{index}]", signal)

    return rows_of_circuit(r1cs.trace(circuit).system)


def verdicts_without(rows: Rows, removed: list[int]) -> Counter[str]:
    """The verdicts about a gadget without each of some constraints."""
    counts = Counter[str]()
    for row in removed:
        kinds = {verdict.kind for verdict in check(without(rows, row), seconds=60).verdicts}
        counts["ambiguous" if "ambiguous" in kinds else "unknown" if "unknown" in kinds else
               "redundant"] += 1  # fmt: skip
    return counts


def _sample(rows: Rows, count: int) -> list[int]:
    return random.Random(1).sample(range(rows.count), min(count, rows.count))


@pytest.mark.parametrize("name", [name for name in GADGETS if name not in LARGE])
def test_sampled_constraint_matters(name: str) -> None:
    rows = gadget_rows(name)
    assert not verdicts_without(rows, _sample(rows, SAMPLE))["unknown"]


@pytest.mark.thorough
def test_each_constraint_matters() -> None:
    counts = Counter[str]()
    for name in GADGETS:
        rows = gadget_rows(name)
        counts += verdicts_without(rows, _sample(rows, MANY))
    assert counts["unknown"] <= 0.05 * counts.total(), counts
