"""All witnesses of a system over a small field: every choice of a prover, whatever hints say."""

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
    input_values: Values = {0: 1}
    for signal in system.inputs.values():
        value = inputs[signal.name]
        numbers = [value] if signal.single and not signal.bits else value
        input_values |= {
            wire: number % system.prime for wire, number in zip(signal.wires, numbers, strict=True)
        }
    rows: list[Row] = [
        tuple(dict(zip(*system.row(side, row), strict=True)) for side in range(3))  # type: ignore[misc]
        for row in range(len(system.row_paths))
    ]
    wanted = [-at for at in range(1, len(system.public_names) + 1)]
    return {
        tuple(values[wire] for wire in wanted)
        for values in _witnesses(rows, input_values, system.prime, wanted)
    }


def _witnesses(
    rows: list[Row], wire_values: Values, prime: int, wanted: list[int]
) -> Iterator[Values]:
    """Yield all witnesses of the rows; wires that are not wanted only if rows need them."""
    values, open_rows = dict(wire_values), rows
    while True:
        undecided, choices = [], None
        for row in open_rows:
            sides = [_split(side, values, prime) for side in row]
            unknown = {wire for _, terms in sides for wire in terms}
            if not unknown:
                a, b, c = (total for total, _ in sides)
                if (a * b - c) % prime:
                    return
                continue
            undecided.append(row)
            if len(unknown) == 1 and (choices is None or len(choices[1]) > 1):
                (wire,) = unknown
                choices = wire, _roots(sides, wire, prime)
        missing = [wire for wire in wanted if wire not in values]
        if choices is None and not undecided and not missing:
            yield values
            return
        if choices is None:
            needed = {wire for row in undecided for side in row for wire in side} - values.keys()
            choices = next(iter([*needed, *missing])), list(range(prime))
        wire, candidates = choices
        if len(candidates) != 1:
            for each in candidates:
                yield from _witnesses(undecided, {**values, wire: each}, prime, wanted)
            return
        values[wire] = candidates[0]
        open_rows = undecided


def _split(side: dict[int, int], values: Values, prime: int) -> tuple[int, dict[int, int]]:
    """The sum of what is known, and the rest."""
    total = sum(k * values[wire] for wire, k in side.items() if wire in values)
    return total % prime, {w: k for w, k in side.items() if w not in values and k % prime}


def _roots(sides: list[tuple[int, dict[int, int]]], wire: int, prime: int) -> list[int]:
    """The values of a wire for which a row holds that has no other unknown."""

    def rest(value: int) -> int:
        a, b, c = (total + terms.get(wire, 0) * value for total, terms in sides)
        return (a * b - c) % prime

    zero, at_one = rest(0), rest(1)
    if (rest(2) - 2 * at_one + zero) % prime == 0 and zero != at_one:
        # A line.
        return [-zero * pow(at_one - zero, -1, prime) % prime]
    return [value for value in range(prime) if not rest(value)]
