"""Weighted sums of rows, on every device, against plain integers."""

from __future__ import annotations

import random

import pytest

from quod.commitment.rows import weighted_rows
from quod.device.protocol import AnyDevice
from quod.field import EXTENSIONS, NAMED, FieldSpec, from_integers
from quod.field.plain_element import PlainElement, coefficients_of

FIELDS: dict[str, FieldSpec] = {"bn254.fr": NAMED["bn254.fr"], "m31.4": EXTENSIONS["m31.4"]}


def check(device: AnyDevice, field: FieldSpec, log_rows: int, log_columns: int) -> None:
    generator, p = random.Random(log_rows), field.modulus.value
    rows, columns = 1 << log_rows, 1 << log_columns
    matrix = [
        generator.choice([0, 1, p - 1, generator.randrange(p)]) for _ in range(rows * columns)
    ]
    weights = [
        tuple(generator.choice([p - 1, 5]) for _ in range(field.degree)) for _ in range(rows)
    ]
    expected = [PlainElement.zero(field)] * columns
    for place, entry in enumerate(matrix):
        expected[place % columns] += PlainElement(field, weights[place // columns]) * entry
    memory = device.upload(from_integers(field.modulus, matrix))
    sums = weighted_rows(device, field, memory, weights, log_columns)
    assert tuple(sums) == coefficients_of(expected)


@pytest.mark.parametrize(
    ("log_rows", "log_columns", "name"),
    [*((rows, columns, "m31.4") for rows, columns in ((0, 0), (0, 3), (4, 0), (3, 2), (2, 7))),
     (3, 2, "bn254.fr")],
)  # fmt: skip
def test_agrees_with_integers(
    device: AnyDevice, log_rows: int, log_columns: int, name: str
) -> None:
    check(device, FIELDS[name], log_rows, log_columns)


@pytest.mark.parametrize("name", FIELDS)
def test_gpu_code_matches_integers(gpu_device: AnyDevice, name: str) -> None:
    check(gpu_device, FIELDS[name], 3, 2)
