"""All witnesses of a system over a small field: what a prover can choose, whatever hints say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quod import r1cs
from quod.field.moduli import Modulus

Row = tuple[dict[int, int], dict[int, int], dict[int, int]]
"""A, B and C of a constraint: coefficients by wire."""
Values = dict[int, int]


def system_over(field: Modulus) -> r1cs.ConstraintSystem:
    """An empty system over a field that no curve has."""
    system = r1cs.ConstraintSystem("bn254")
    system.prime, system.field = field.value, field
    return system


def outputs_of(system: r1cs.ConstraintSystem, inputs: Mapping[str, Any]) -> set[tuple[int, ...]]:
    """The outputs of all witnesses with these inputs, of which `private_bits` are lists here.

    A wire that may be anything is one of each of the field's values.
    """
    known: Values = {0: 1}
    for own in system.inputs.values():
        given = inputs[own.name]
        numbers = [given] if own.single and not own.bits else given
        known |= {
            wire: number % system.prime for wire, number in zip(own.wires, numbers, strict=True)
        }
    rows: list[Row] = [
        tuple(dict(zip(*system.row(side, row), strict=True)) for side in range(3))  # type: ignore[misc]
        for row in range(len(system.row_paths))
    ]
    wanted = [-at for at in range(1, len(system.public_names) + 1)]
    return {
        tuple(values[wire] for wire in wanted)
        for values in _witnesses(rows, known, system.prime, wanted)
    }


def _witnesses(rows: list[Row], known: Values, prime: int, wanted: list[int]) -> Iterator[Values]:
    """What satisfies the rows, in all ways; wires that are not wanted only if rows need them."""
    values, open_rows = dict(known), rows
    while True:
        left, choices = [], None
        for row in open_rows:
            sides = [_split(side, values, prime) for side in row]
            unknown = {wire for _, rest in sides for wire in rest}
            if not unknown:
                a, b, c = (total for total, _ in sides)
                if (a * b - c) % prime:
                    return
                continue
            left.append(row)
            if len(unknown) == 1 and (choices is None or len(choices[1]) > 1):
                (wire,) = unknown
                choices = wire, _roots(sides, wire, prime)
        missing = [wire for wire in wanted if wire not in values]
        if choices is None and not left and not missing:
            yield values
            return
        if choices is None:
            needed = {wire for row in left for side in row for wire in side} - values.keys()
            choices = next(iter([*needed, *missing])), list(range(prime))
        wire, found = choices
        if len(found) != 1:
            for each in found:
                yield from _witnesses(left, {**values, wire: each}, prime, wanted)
            return
        values[wire] = found[0]
        open_rows = left


def _split(side: dict[int, int], values: Values, prime: int) -> tuple[int, dict[int, int]]:
    """The sum of what is known, and the rest."""
    total = sum(k * values[wire] for wire, k in side.items() if wire in values)
    return total % prime, {w: k for w, k in side.items() if w not in values and k % prime}


def _roots(sides: list[tuple[int, dict[int, int]]], wire: int, prime: int) -> list[int]:
    """The values of a wire for which a row holds that has no other unknown."""

    def rest(value: int) -> int:
        a, b, c = (total + own.get(wire, 0) * value for total, own in sides)
        return (a * b - c) % prime

    zero, one = rest(0), rest(1)
    if (rest(2) - 2 * one + zero) % prime == 0 and zero != one:
        # A line.
        return [-zero * pow(one - zero, -1, prime) % prime]
    return [value for value in range(prime) if not rest(value)]
