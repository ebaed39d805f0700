"""Signal names: those of a circuit's wires, invalid files, and files of other circuits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quod.errors import InputError, MismatchError
from quod.formats import R1cs, SparseMatrix, write_r1cs
from quod.formats.sym import wire_names

# Wires 1 to 3 have the labels 1, 4 and 5.
SYM = "1,1,0,main.out\n2,-1,0,main.gone\n3,2,1,main.alias\n4,2,0,main.in[0]\n5,3,2,main.b.x\n"


@pytest.fixture
def r1cs(tmp_path: Path) -> R1cs:
    empty = SparseMatrix(np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros((0, 8), np.uint32))
    write_r1cs(
        tmp_path / "c.r1cs", curve="bn254", wires=4, public_outputs=1, public_inputs=0,
        private_inputs=1, a=empty, b=empty, c=empty,
        wire_labels=np.array([0, 1, 4, 5], np.uint64),
    )  # fmt: skip
    return R1cs.open(tmp_path / "c.r1cs")


def test_names(r1cs: R1cs, tmp_path: Path) -> None:
    path = tmp_path / "c.sym"
    path.write_text(SYM)
    assert wire_names(path, r1cs) == {1: "main.out", 2: "main.in[0]", 3: "main.b.x"}
    assert wire_names(path, r1cs, {0, 2}) == {2: "main.in[0]"}
    assert wire_names(path, r1cs, {0}) == {}
    # The last line's break may be missing, and names may have commas and other text.
    path.write_text("1,1,0,main.out\r\n5,3,0,main.c\r\n4,2,0,main.ä,b")
    assert wire_names(path, r1cs) == {1: "main.out", 2: "main.ä,b", 3: "main.c"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1,1,0\n", "c.sym: line 1 is not a line of circom's .sym format"),
        (b"1,1,0,main.a\nx,2,0,main.b\n", "line 2 is not a line"),
        (b"1,1.5,0,main.a\n", "line 1 is not a line"),
        (b"-1,1,0,main.a\n", "line 1 is not a line"),
        (b"1,-2,0,main.a\n", "line 1 is not a line"),
        (b"1,99999999999999999999,0,main.a\n", "line 1 is not a line"),
        (b"1,1,0,main.a\n\n", "line 2 is not a line"),
        (b"1,1,0,main.a\n2,2,0,\xff\n", "offset 19: is not text"),
        (b"1,1,0,main.a\n1,1,0,main.b\n", "line 2 is the second name of label 1"),
    ],
)
def test_invalid_symbol_files_are_rejected(
    content: bytes, message: str, r1cs: R1cs, tmp_path: Path
) -> None:
    (tmp_path / "c.sym").write_bytes(content)
    with pytest.raises(InputError, match=message):
        wire_names(tmp_path / "c.sym", r1cs)


@pytest.mark.parametrize(
    "content",
    [
        "1,4,0,main.a\n", "6,1,0,main.a\n", "2,1,0,main.a\n", "1,-1,0,main.a\n",
        # Without the line of wire 3, and with another wire for its label.
        SYM[: SYM.index("5,3")], f"{SYM}5,2,0,main.d\n",
    ],
)  # fmt: skip
def test_symbols_of_another_circuit_are_rejected(content: str, r1cs: R1cs, tmp_path: Path) -> None:
    (tmp_path / "c.sym").write_text(content)
    with pytest.raises(MismatchError, match="belongs to another circuit"):
        wire_names(tmp_path / "c.sym", r1cs)
