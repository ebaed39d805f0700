"""Counts of a circuit: rows, variables, nonzero coefficients and densities."""

from __future__ import annotations

import numpy as np

from quod import r1cs
from quod.frozen import frozen


@frozen
class Counts:
    """Constraints, private variables, nonzero coefficients of A, B and C, and densities.

    a_density, b_density: the private variables that occur in A, and in B.
    """

    rows: int
    aux: int
    a: int
    b: int
    c: int
    a_density: int
    b_density: int

    @property
    def numbers(self) -> tuple[int, ...]:
        """All counts in order."""
        densities = (self.a_density, self.b_density)
        return (self.rows, self.aux, self.a, self.b, self.c, *densities)


def counts_of(circuit: r1cs.Circuit) -> Counts:
    """Return the counts of a circuit of any size."""
    parts, first = circuit.parts, 1 + circuit.public
    densities = [int(np.count_nonzero(parts.used_wires(side)[first:])) for side in range(2)]
    return Counts(circuit.constraints, circuit.wires - first, *parts.nonzeros, *densities)
