"""The questions of the determinism check: inputs, targets and limits from callers and files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quod.errors import InputError
from quod.field.moduli import BN254_FR
from quod.formats.r1cs import R1cs, SparseMatrix, write_r1cs
from quod.formats.sym import symbol_rows, wire_names
from quod.r1cs import Circuit, ConstraintSystem, trace
from quod.r1cs.determinism.report import check
from quod.r1cs.determinism.sources import rows_of_file


def squared(system: ConstraintSystem) -> None:
    system.output("y", system.private("x") * 3)


@pytest.fixture(scope="module")
def circuit() -> Circuit:
    return trace(squared)


def matrix(*terms: tuple[int, int]) -> SparseMatrix:
    """Return a matrix of one row, of pairs of wire and coefficient."""
    wires = np.array([wire for wire, _ in terms], np.uint32)
    words = [np.frombuffer((k % BN254_FR.value).to_bytes(32, "little"), "<u4") for _, k in terms]
    return SparseMatrix(np.array([0, len(terms)]), wires, np.array(words, np.uint32))


def labelled(path: Path, labels: list[int], private_inputs: int) -> R1cs:
    """Return a file of h*h = y - x, for the output y (wire 1), wire x = 2 and wire h = 3."""
    write_r1cs(
        path, curve="bn254", wires=4, public_outputs=1, public_inputs=0,
        private_inputs=private_inputs, a=matrix((3, 1)), b=matrix((3, 1)),
        c=matrix((1, 1), (2, -1)), wire_labels=np.array(labels, np.uint64),
    )  # fmt: skip
    return R1cs.open(path)


@pytest.mark.parametrize(
    ("labels", "private_inputs", "message"),
    [
        ([0, 0, 0, 0], 0, "wires with equal labels"),
        ([0, 0, 0, 0], 1, "wires with equal labels"),
        ([0, 1, 2, 2], 1, "wires with equal labels"),
        ([0, 1, 2, 1], 1, "wires with equal labels"),
        ([3, 2, 1, 0], 1, "a label of the constant 1 other than 0"),
        ([0, 3, 1, 2], 1, "a public wire whose label is above 2"),
    ],
)
def test_labels_that_do_not_show_the_inputs(
    labels: list[int], private_inputs: int, message: str, tmp_path: Path
) -> None:
    r1cs = labelled(tmp_path / "a.r1cs", labels, private_inputs)
    with pytest.raises(InputError, match=message) as raised:
        rows_of_file(r1cs)
    assert raised.value.path == str(tmp_path / "a.r1cs")
    # Named inputs need no labels.
    (verdict,) = check(rows_of_file(r1cs, inputs=["2"])).verdicts
    assert verdict.kind == "ambiguous"


def test_labels_of_inputs(tmp_path: Path) -> None:
    assert rows_of_file(labelled(tmp_path / "a.r1cs", [0, 1, 2, 7], 1)).inputs == {2}
    assert rows_of_file(labelled(tmp_path / "b.r1cs", [0, 1, 7, 2], 1)).inputs == {3}
    assert rows_of_file(labelled(tmp_path / "c.r1cs", [0, 1, 8, 9], 1)).lost_inputs == 1


def with_a_late_input(system: ConstraintSystem) -> None:
    """The first private input, then a wire with two possible values, then the second input."""
    x = system.private("x")
    (root,) = system.hint(lambda value: value, [x], 1)
    system.assert_equal(root * root, x * x)
    system.output("z", root * system.private("y"))


def test_written_files_show_late_inputs(tmp_path: Path) -> None:
    """The root is no input of the file, so that z is ambiguous."""
    circuit = trace(with_a_late_input)
    circuit.write_files(tmp_path / "a.r1cs", sym=tmp_path / "a.sym")
    r1cs = R1cs.open(tmp_path / "a.r1cs")
    names = wire_names(tmp_path / "a.sym", r1cs)
    rows = rows_of_file(r1cs, names)
    assert {names[wire] for wire in rows.inputs} == {"main.x_1", "main.y_5"}
    assert [verdict.kind for verdict in check(rows).verdicts] == ["ambiguous"]
    assert [verdict.kind for verdict in circuit.check().verdicts] == ["ambiguous"]
    symbols = list(symbol_rows((tmp_path / "a.sym").read_bytes(), "a.sym"))
    assert [row.label for row in symbols] == list(range(1, r1cs.wires))
    assert all(r1cs.wire_labels[row.wire] == row.label for row in symbols)


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, None, "3", True])
def test_time_limits_that_are_refused(circuit: Circuit, seconds: Any) -> None:
    with pytest.raises(InputError, match="the time limit must be 0 seconds or more"):
        circuit.check(seconds=seconds)


@pytest.mark.parametrize("names", [5, "x", b"x", {"x": 1}, [5], [b"x"], [None]])
def test_names_that_are_refused(circuit: Circuit, names: Any) -> None:
    for option in ("inputs", "targets"):
        with pytest.raises(InputError, match=r"the names? of (a )?signals? must be"):
            circuit.check(**{option: names})
