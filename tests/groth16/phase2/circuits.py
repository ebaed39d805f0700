"""A circuit for ceremonies whose coefficients are of every kind, and powers of tau for it."""

from __future__ import annotations

import random
from pathlib import Path

from quod.curve.named import CURVES
from quod.groth16.phase2 import write_known_powers
from tests.groth16.circuits import Circuit, Row

PTAU_SEED = 11


def mixed(curve: str, rows: int = 29) -> Circuit:
    """w_(i+1) = (a row of any coefficients) * (another one); one public output and input.

    With a wire that nothing constrains, repeated entries and coefficients of 0.
    """
    r = CURVES[curve].fr.value
    rng = random.Random(rows)
    kinds = (1, r - 1, 0, 2, r - 2, 7, 8, 9, 1 << 77, r - (1 << 200), r // 2, r // 2 + 1)
    witness = [1, 0, 5, 17]
    order = [0, 2, 3]
    a: list[Row] = []
    b: list[Row] = []
    c: list[Row] = []
    for number in range(rows):
        product_wire = 1 if number == rows - 1 else len(witness)
        left, right = (
            [(rng.choice(order), rng.choice((*kinds, rng.randrange(r)))) for _ in range(4)]
            for _ in range(2)
        )
        value = 1
        for row in (left, right):
            value = value * sum(factor * witness[wire] for wire, factor in row) % r
        if product_wire == len(witness):
            witness.append(0)
            order.append(product_wire)
        a, b = [*a, left], [*b, right]
        scale = rng.choice((1, r - 1, 12345))
        witness[product_wire] = value * pow(scale, -1, r) % r
        c.append([(product_wire, scale)])
    return Circuit(curve, a, b, c, [*witness, 99], 1, 1)


def known_powers(folder: Path, curve: str, power: int) -> Path:
    """INSECURE powers of tau, prepared."""
    path = folder / f"known-{curve}-{power}.ptau"
    if not path.exists():
        write_known_powers(path, curve, power, PTAU_SEED)
    return path
