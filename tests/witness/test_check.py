"""The constraints that a witness fails, against plain integers; files of different circuits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from quod.curve.named import CURVES
from quod.device.protocol import AnyDevice
from quod.errors import InputError, MismatchError
from quod.field.array import Words, integers_to_words, random_elements
from quod.field.moduli import Modulus
from quod.formats import R1cs, SparseMatrix, Witness, write_r1cs, write_wtns
from quod.formats.r1cs_text import constraint
from quod.witness import check_witness
from quod.witness.kernels import row_sums
from tests.support.executors import run_everywhere
from tests.support.thorough import one_and_others

FIELDS = pytest.mark.parametrize(
    "fr", one_and_others([curve.fr for curve in CURVES.values()]), ids=lambda fr: fr.name
)
ROWS, WIRES = 200, 40


def wide(array: Words) -> NDArray[np.uint64]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint64)


@FIELDS
def test_row_sums(fr: Modulus) -> None:
    row_ptr = np.cumsum([0, 5, 0, 1, 9, 2]).astype(np.uint32)
    column = (np.arange(17) * 5 % 7).astype(np.uint32)
    p = fr.value
    edges = [0, 1, p - 1, p - 2, 2**64 - 1, 2**63, p // 2]
    value = np.concatenate([integers_to_words(fr, edges), random_elements(fr, 10, 1)])
    vector = integers_to_words(fr, edges[::-1])
    out = np.zeros(5 * fr.words // 2, dtype=np.uint64)
    arguments = (5, row_ptr, column, wide(value), wide(vector), out)
    run_everywhere(row_sums, 2, arguments, modulus=fr)


def matrix(rows: list[list[tuple[int, int]]], fr: Modulus) -> SparseMatrix:
    terms = [term for row in rows for term in row]
    return SparseMatrix(
        np.cumsum([0, *map(len, rows)]).astype(np.int64),
        np.array([wire for wire, _ in terms], dtype=np.uint32),
        integers_to_words(fr, [value for _, value in terms]),
    )


@pytest.fixture(params=["bn254", "bls12_381"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path, list[int]]:
    """Random constraints, of which those at every seventh place fail; and their numbers.

    Wire 1 is the only one in C, with the coefficient that makes the constraint hold.
    """
    fr = CURVES[request.param].fr
    p = fr.value
    draw = np.random.default_rng(7)
    values = [1, 3, *(int(v) ** 4 % p for v in draw.integers(0, 1 << 62, WIRES - 2))]
    values[5], values[6] = p - 1, 0
    failed = list(range(3, ROWS, 7))
    a, b, c = [], [], []
    for number in range(ROWS):
        left, right = (
            [(int(w), int(v) ** 5 % p) for w, v in draw.integers(0, (WIRES, 1 << 62), (n, 2))]
            for n in draw.integers(0, 6, 2)
        )
        product = sum(v * values[w] for w, v in left) * sum(v * values[w] for w, v in right)
        factor = (product * pow(3, -1, p) + (number in failed)) % p
        a.append(left)
        b.append(right)
        # Twice the same wire: its coefficients add up.
        c.append([(1, factor), (1, 5), (1, p - 5)])
    r1cs, wtns = tmp_path / "c.r1cs", tmp_path / "w.wtns"
    write_r1cs(
        r1cs, curve=request.param, wires=WIRES, public_outputs=0, public_inputs=1,
        private_inputs=1, a=matrix(a, fr), b=matrix(b, fr), c=matrix(c, fr),
    )  # fmt: skip
    write_wtns(wtns, request.param, integers_to_words(fr, values))
    return r1cs, wtns, failed


def test_failed_constraints(system: tuple[Path, Path, list[int]]) -> None:
    r1cs, wtns, failed = system
    report = check_witness(r1cs, wtns)
    assert report.failed.tolist() == failed
    assert not report.satisfied
    opened, values = R1cs.open(r1cs), Witness.open(wtns)
    p = opened.fr.value
    failures = list(report.failures())
    assert [failure.number for failure in failures] == failed
    for failure in failures:
        row = constraint(opened, failure.number)
        wire_values = [int.from_bytes(value.tobytes(), "little") for value in values.values]
        sums = [sum(v * wire_values[w] for w, v in terms) % p for terms in (row.a, row.b, row.c)]
        assert [failure.a, failure.b, failure.c] == sums
        assert failure.a * failure.b % p != failure.c
        assert (failure.c - failure.a * failure.b) % p == 3  # one too many times wire 1
        assert failure.values == {f"wire {wire}": wire_values[wire] for wire in row.wires}
    assert [failure.number for failure in report.failures(2)] == failed[:2]


def test_on_devices(device: AnyDevice, system: tuple[Path, Path, list[int]]) -> None:
    r1cs, wtns, failed = system
    assert check_witness(r1cs, wtns, device=device).failed.tolist() == failed


def test_every_changed_wire_is_detected(
    tmp_path: Path, system: tuple[Path, Path, list[int]]
) -> None:
    """A change of one wire fails only the constraints that contain it."""
    r1cs, wtns, failed = system
    opened, witness = R1cs.open(r1cs), Witness.open(wtns)
    for wire in (1, 17, WIRES - 1):
        values = witness.values.copy()
        values[wire, 0] ^= 1
        report = check_witness(opened, Witness("changed", witness.curve, values, witness.size))
        uses = {n for n in range(ROWS) if wire in constraint(opened, n).wires}
        assert set(report.failed.tolist()) - set(failed) <= uses
        assert set(report.failed.tolist()) != set(failed)


def test_mismatched_files_are_rejected(
    tmp_path: Path, system: tuple[Path, Path, list[int]]
) -> None:
    r1cs, wtns, _ = system
    curve = R1cs.open(r1cs).curve
    other = tmp_path / "other.wtns"
    write_wtns(other, curve, Witness.open(wtns).values[:-1])
    with pytest.raises(MismatchError, match=r"other.wtns: has 39 values over .* takes 40"):
        check_witness(r1cs, other)
    elsewhere = "bls12_377" if curve == "bn254" else "bn254"
    fr = CURVES[elsewhere].fr
    write_wtns(other, elsewhere, integers_to_words(fr, [1] * WIRES))
    with pytest.raises(MismatchError, match="give the witness of this circuit"):
        check_witness(r1cs, other)
    with pytest.raises(InputError, match="the number of failures"):
        check_witness(r1cs, wtns).failures(-1)
