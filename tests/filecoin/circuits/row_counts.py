"""Counts of circuits that are too large to keep: rows and variables, by namespace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from quod import r1cs
from quod.frozen import frozen
from quod.r1cs.signal import Signal, merged_terms
from quod.r1cs.witness_program.steps import Step


@frozen
class Counts:
    """Constraints, private variables, nonzero coefficients of A, B and C, and densities.

    a_density, b_density: the private variables that occur in A, and in B.
    """

    rows: int = 0
    aux: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    a_density: int = 0
    b_density: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(x + y for x, y in zip(self.numbers, other.numbers, strict=True)))

    def __mul__(self, times: int) -> Counts:
        return Counts(*(times * number for number in self.numbers))

    @property
    def numbers(self) -> tuple[int, ...]:
        """All counts in order."""
        densities = (self.a_density, self.b_density)
        return (self.rows, self.aux, self.a, self.b, self.c, *densities)


def counts_of(circuit: r1cs.Circuit) -> Counts:
    """Return the counts of a circuit."""
    nonzeros = [matrix.nonzeros for matrix in circuit.matrices]
    densities = [
        int(np.count_nonzero(np.unique(matrix.column) > circuit.public))
        for matrix in circuit.matrices[:2]
    ]
    aux = circuit.wires - 1 - circuit.public
    return Counts(circuit.constraints, aux, *nonzeros, *densities)


class _NoSteps(list[Step]):
    """A list that forgets the steps of the witness program."""

    def append(self, step: Step) -> None:
        """Forget a step."""


class RowCounter(r1cs.ConstraintSystem):
    """A constraint system that counts its rows instead of keeping them."""

    def __init__(self) -> None:
        """Create an empty system over BLS12-381's scalar field."""
        super().__init__("bls12_381")
        self.steps = _NoSteps()
        self._rows: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self._dense = (bytearray(1), bytearray(1))
        self._last: set[int] = set()

    def repeat(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Count the rows of each call."""
        return function(self, *arguments)

    def _row(self, a: Signal, b: Signal, c: Signal) -> None:
        counts = self._rows[self.path]
        counts[0] += 1
        self._last = set()
        for side, signal in enumerate((a, b, c)):
            wires = merged_terms(signal.wires, signal.coefficients, self.prime)[0]
            counts[1 + side] += len(wires)
            self._last.update(wires)
            if side < 2:
                dense = self._dense[side]
                if (missing := len(self.wire_paths) + 1 - len(dense)) > 0:
                    dense.extend(bytes(missing))
                for wire in wires:
                    if wire > 0:
                        dense[wire] = 1

    def _solve(self) -> None:
        unknown = self._last & self.unknown.keys()
        if len(unknown) == 1:
            del self.unknown[unknown.pop()]

    def by_namespace(self) -> dict[str, Counts]:
        """Return the counts of each outermost namespace; ``""`` is outside of all.

        A variable counts for the namespace that creates it.
        """
        outermost = [0] * len(self.paths)
        for index, (parent, _) in enumerate(self.paths[1:], 1):
            outermost[index] = outermost[parent] if parent else index
        totals: defaultdict[str, Counts] = defaultdict(Counts)
        for path, (rows, *nonzeros) in self._rows.items():
            name = self.paths[outermost[path]][1]
            totals[name] += Counts(rows, 0, *nonzeros)
        wires = np.array(self.wire_paths, np.int64)
        dense = [
            np.frombuffer(bytes(side) + bytes(len(wires) + 1 - len(side)), np.uint8)[1:]
            for side in self._dense
        ]
        columns = [
            np.bincount(np.array(outermost)[wires], weights, len(outermost))
            for weights in (None, *dense)
        ]
        for path in range(len(self.paths)):
            if outermost[path] == path:
                aux, *densities = (int(column[path]) for column in columns)
                totals[self.paths[path][1]] += Counts(0, aux, 0, 0, 0, *densities)
        return dict(totals)


def count(circuit: Callable[[r1cs.ConstraintSystem], object]) -> RowCounter:
    """Count the rows of a circuit's function."""
    system = RowCounter()
    circuit(system)
    assert not system.unknown
    return system
