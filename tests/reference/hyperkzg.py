"""HyperKZG on plain integers by one who knows tau: a commitment is the value at tau in the group.

Nothing here is shared with `quod.commitment` but what a message is.
"""

from __future__ import annotations

from collections.abc import Sequence

from quod.curve.named.bn254 import BN254
from quod.curve.parameters import G1Point
from quod.transcript import Label
from tests.reference.hyrax import CURVE, Claims, Prover, R, compressed, elements, one_claim


def at(coefficients: Sequence[int], x: int) -> int:
    total = 0
    for coefficient in reversed(coefficients):
        total = (total * x + coefficient) % R
    return total


def commitment(coefficients: Sequence[int], tau: int) -> G1Point:
    value = at(coefficients, tau)
    return CURVE.mul(value, BN254.g1.generator) if value else None


def send_points(prover: Prover, label: Label, points: Sequence[G1Point]) -> None:
    prover.send(label, b"".join(map(compressed, points)))


def commit(prover: Prover, table: Sequence[int], tau: int) -> G1Point:
    point = commitment(table, tau)
    send_points(prover, Label.COMMITMENT, [point])
    return point


def folds_of(table: Sequence[int], point: Sequence[int]) -> list[list[int]]:
    """The table, and its folds of two entries and more."""
    folds = [list(table)]
    for x in reversed(point[1:]):
        last = folds[-1]
        folds.append([((1 - x) * a + x * b) % R for a, b in zip(last[::2], last[1::2])])
    return folds


def divided(dividend: Sequence[int], divisor: Sequence[int]) -> tuple[list[int], list[int]]:
    """Quotient and remainder by a polynomial whose highest coefficient is 1, lowest first."""
    remainder, size = [*dividend], len(divisor) - 1
    quotient = []
    while len(remainder) > size:
        top = remainder.pop() % R
        quotient.append(top)
        for place in range(size):
            remainder[len(remainder) - size + place] -= top * divisor[place]
    return quotient[::-1], [c % R for c in remainder]


def open_claims(
    prover: Prover, table: Sequence[int], tau: int, claims: Claims, change: int | None = None
) -> None:
    """Shows claims about the table that was committed to.

    A cheat changes that fold, and the values so that each is the fold of the one before.
    """
    point, _ = one_claim(prover, table, claims)
    folds = folds_of(table, point)
    if change is not None:
        folds[change][0] += 1
    send_points(prover, Label.OPENING, [commitment(fold, tau) for fold in folds[1:]])
    r = prover.challenge()
    while r * (r * r - 1) % R == 0:
        r = prover.challenge()
    values = [at(fold, x) for fold in folds for x in (r, -r % R)]
    values.append(at(folds[0], r * r))
    prover.send(Label.VALUES, elements(values))
    q = prover.challenge()
    total = [0] * len(table)
    for number, fold in enumerate(folds):
        for place, coefficient in enumerate(fold):
            total[place] += pow(q, number, R) * coefficient
    s = r * r
    quotient, _ = divided([c % R for c in total], [s * s, -s, -s, 1])
    send_points(prover, Label.OPENING, [commitment(quotient, tau)])
