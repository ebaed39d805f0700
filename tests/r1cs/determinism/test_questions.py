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
        ([0, 1, 2, 3], 7, "only 4 labels, but 8 outputs and inputs"),
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


@pytest.mark.parametrize(
    ("labels", "inputs", "outputs"),
    [
        ([0, 1, 2, 3], {1, 2, 3}, ()),
        # Two outputs follow the labels of inputs; private inputs have the labels after the public.
        ([0, 4, 1, 2], {2, 3}, (1,)),
        ([0, 4, 5, 1], {3}, (1, 2)),
        ([0, 1, 4, 2], {1, 3}, (2,)),
        # Quod writes none of these: a label between those of inputs and outputs, an input without a
        # wire, a label without a wire, and a label twice. They mark no outputs.
        ([0, 1, 4, 3], None, ()),
        ([0, 4, 5, 2], None, ()),
        ([0, 4, 5, 6], None, ()),
        ([0, 4, 1, 5], None, ()),
        ([0, 1, 5, 2], None, ()),
        ([0, 4, 4, 1], None, ()),
    ],
)
def test_labels_of_outputs_after_inputs(
    labels: list[int], inputs: set[int] | None, outputs: tuple[int, ...], tmp_path: Path
) -> None:
    """The header counts two public inputs and a private one."""
    write_r1cs(
        tmp_path / "a.r1cs", curve="bn254", wires=4, public_outputs=0, public_inputs=2,
        private_inputs=1, a=matrix((3, 1)), b=matrix((3, 1)), c=matrix((1, 1)),
        wire_labels=np.array(labels, np.uint64),
    )  # fmt: skip
    r1cs = R1cs.open(tmp_path / "a.r1cs")
    if inputs is None:
        with pytest.raises(InputError, match=r"whose label is above 3|equal labels"):
            rows_of_file(r1cs)
    else:
        rows = rows_of_file(r1cs)
        assert (rows.inputs, rows.targets) == (inputs, outputs)
    assert rows_of_file(r1cs, inputs=["3"]).targets == outputs


def test_outputs_of_the_header_exclude_marks(tmp_path: Path) -> None:
    """No file of Quod has outputs before and after public inputs: the header counts the first."""
    write_r1cs(
        tmp_path / "a.r1cs", curve="bn254", wires=4, public_outputs=1, public_inputs=2,
        private_inputs=0, a=matrix((3, 1)), b=matrix((3, 1)), c=matrix((1, 1)),
        wire_labels=np.array([0, 1, 4, 2], np.uint64),
    )  # fmt: skip
    r1cs = R1cs.open(tmp_path / "a.r1cs")
    with pytest.raises(InputError, match="a public wire whose label is above 3"):
        rows_of_file(r1cs)
    assert rows_of_file(r1cs, inputs=["3"]).targets == (1,)


@pytest.mark.parametrize("count", [0, 3, 9])
def test_a_wrong_count_of_labels_does_not_matter(count: int, tmp_path: Path) -> None:
    """Other compilers count no labels; the labels themselves show the inputs."""
    write_r1cs(
        tmp_path / "a.r1cs", curve="bn254", wires=4, public_outputs=1, public_inputs=1,
        private_inputs=1, a=matrix((3, 1)), b=matrix((3, 1)), c=matrix((1, 1)), labels=count,
    )  # fmt: skip
    assert rows_of_file(R1cs.open(tmp_path / "a.r1cs")).inputs == {2, 3}


def test_no_inputs_are_named(tmp_path: Path) -> None:
    """Labels that do not show the inputs do not matter if the caller says that there are none."""
    r1cs = labelled(tmp_path / "a.r1cs", [0, 1, 2, 2], 1)
    assert rows_of_file(r1cs, inputs=[]).inputs == frozenset()


def test_wires_that_would_fill_the_memory(tmp_path: Path) -> None:
    circuit = trace(squared)
    path = tmp_path / "a.r1cs"
    a, b, c = circuit.matrices
    write_r1cs(
        path, curve="bn254", wires=circuit.wires, public_outputs=1, public_inputs=0,
        private_inputs=1, a=a, b=b, c=c,
    )  # fmt: skip
    # The section of labels may be empty.
    data = path.read_bytes()[: -8 * circuit.wires - 8] + bytes(8)
    header = data.index(BN254_FR.value.to_bytes(32, "little")) + 32
    path.write_bytes(data[:header] + (2**32 - 1).to_bytes(4, "little") + data[header + 4 :])
    with pytest.raises(InputError, match=r"section 1 \(header\).* it counts 4294967295 wires"):
        rows_of_file(R1cs.open(path), targets=["1"])


def test_names_precede_those_of_arrays() -> None:
    """`a` is the signal of that name, and an array only if there is none."""

    def function(system: ConstraintSystem) -> None:
        for name in ("a", "a[0]", "b[0]", "b[1]"):
            system.output(name, system.private(f"x of {name}") * 3)

    names = {1: "main.a", 2: "main.a[0]", 3: "main.b[0]", 4: "main.b[1]"}
    file = trace(function).r1cs
    assert rows_of_file(file, names, targets=["a"]).targets == (1,)
    assert rows_of_file(file, names, targets=["main.b"]).targets == (3, 4)
    for name in ("9", "\u0663", "9" * 5000):
        with pytest.raises(InputError, match="no wire has the name"):
            rows_of_file(file, names, targets=[name])


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
    assert {names[wire] for wire in rows.inputs} == {"main.x", "main.y"}
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
