"""bellman's parameters of a small circuit, from secrets, in plain integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quod.curve.named.bls12_381 import BLS12_381
from quod.curve.weierstrass.affine import g1_group, g2_group
from quod.field.array import Words, integers_to_words
from tests.groth16.circuits import Circuit, Row

R = BLS12_381.fr.value
TAU, ALPHA, BETA, GAMMA, DELTA = 0xA11CE, 1234567, 7654321, 1357911, 2468013


def words(points: Sequence[Any], degree: int) -> Words:
    """Points as `quod.formats.bellman` has them."""
    flat: list[int] = []
    for x, y in points:
        flat += [x, y] if degree == 1 else [*x, *y]
    shape = (len(points), 2, 12) if degree == 1 else (len(points), 2, 2, 12)
    return integers_to_words(BLS12_381.fq, flat).reshape(shape)


def parameters(circuit: Circuit) -> dict[str, Words]:
    """As `generate_parameters` makes them: the QAP at tau, with a row for each input behind."""
    inputs = circuit.outputs + circuit.inputs + 1
    wires = len(circuit.witness)
    rows: list[tuple[Row, Row, Row]] = list(zip(circuit.a, circuit.b, circuit.c, strict=True))
    rows += [([(wire, 1)], [], []) for wire in range(inputs)]
    size = 1
    while size < len(rows):
        size *= 2
    # bellman's root of order 2**32: 7 to the odd part of r - 1.
    root = pow(7, (R - 1) // size, R)
    vanishing = pow(TAU, size, R) - 1
    sums = [[0] * wires for _ in range(3)]
    for place, row in enumerate(rows):
        x = pow(root, place, R)
        lagrange = vanishing * x * pow(size * (TAU - x), -1, R) % R
        for wire_sums, terms in zip(sums, row, strict=True):
            for wire, value in terms:
                wire_sums[wire] = (wire_sums[wire] + value * lagrange) % R
    a, b, c = sums
    both = [(BETA * a[i] + ALPHA * b[i] + c[i]) % R for i in range(wires)]
    g1, g2 = g1_group(BLS12_381), g2_group(BLS12_381)

    def times(scalars: Sequence[int], degree: int = 1) -> Words:
        law: Any = g1 if degree == 1 else g2
        points = [law.multiply(scalar % R, law.generator) for scalar in scalars]
        return words([point for point in points if point is not None], degree)

    gamma_inverse, delta_inverse = pow(GAMMA, -1, R), pow(DELTA, -1, R)
    return {
        "alpha_g1": times([ALPHA])[0], "beta_g1": times([BETA])[0],
        "beta_g2": times([BETA], 2)[0], "gamma_g2": times([GAMMA], 2)[0],
        "delta_g1": times([DELTA])[0], "delta_g2": times([DELTA], 2)[0],
        "ic": times([value * gamma_inverse for value in both[:inputs]]),
        "h": times([pow(TAU, i, R) * vanishing * delta_inverse for i in range(size - 1)]),
        "l": times([value * delta_inverse for value in both[inputs:]]),
        # Polynomials that are zero have infinity, which is left out.
        "a": times(a), "b_g1": times(b), "b_g2": times(b, 2),
    }  # fmt: skip
