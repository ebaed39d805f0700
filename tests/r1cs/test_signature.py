"""Inputs that signatures declare, inputs of bytes and points, and circuits in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

from quod import r1cs
from quod.errors import InputError
from quod.r1cs.functions.source import circuit_of_source
from quod.r1cs.inputs import Inputs
from tests.r1cs.calculator.agreement import agree

System = r1cs.ConstraintSystem

VALUES: Inputs = {
    "a": 1, "b": 2, "c": [3, 4], "d": [5, 6, 7], "e": 200, "f": b"\x01\x80\xff", "g": [8, 9],
    "h": [10, 11],
}  # fmt: skip


def all_types(
    system: System,
    a: r1cs.Public,
    b: r1cs.Private,
    c: Annotated[r1cs.PublicList, 2],
    d: Annotated[r1cs.PrivateList, 3],
    e: Annotated[r1cs.PrivateBits, 8],
    f: Annotated[r1cs.PrivateBytes, 3],
    g: r1cs.PublicPoint,
    h: r1cs.PrivatePoint,
    power: int = 2,
) -> None:
    system.output("sum", system.sum([a, b, *c, *d, *g, *h]))
    system.output("bits", system.pack(e) ** power)
    system.output("bytes", system.pack(f))


def declared(system: System) -> None:
    """The circuit of `all_types` with calls."""
    all_types(
        system, system.public("a"), system.private("b"), system.public("c", 2),
        system.private("d", 3), system.private_bits("e", 8), system.private_bytes("f", 3),
        system.public_point("g"), system.private_point("h"),
    )  # fmt: skip


def test_parameters_are_inputs() -> None:
    circuit, other = r1cs.trace(all_types), r1cs.trace(declared)
    assert circuit.circuit_hash() == other.circuit_hash()
    kinds = {name: (each.kind, each.public) for name, each in circuit.inputs.items()}
    assert kinds == {name: (each.kind, each.public) for name, each in other.inputs.items()}
    assert [kind for kind, _ in kinds.values()] == [
        "field", "field", "list", "list", "bits", "bytes", "point", "point",
    ]  # fmt: skip
    values = circuit.values(VALUES)
    assert values[1 + circuit.public - 3 : 1 + circuit.public] == [66, 40_000, 0xFF8001]


def test_calculators_take_bytes_as_bits() -> None:
    circuit = r1cs.trace(all_types)
    values = {**VALUES, "f": int.from_bytes(b"\x01\x80\xff", "little")}
    calculator_values = {**VALUES, "f": b"\x01\x80\xff"}
    assert agree(circuit, [calculator_values]) == (1, 0)
    with pytest.raises(InputError, match="the input 'f' is bytes, not a"):
        circuit.values(values)
    with pytest.raises(InputError, match="the input 'f' must be 3 bytes, not 2"):
        circuit.values({**VALUES, "f": b"ab"})


def without_type(system: System, x: int) -> None: ...
def without_count(system: System, x: r1cs.PrivateBits) -> None: ...
def with_count(system: System, x: Annotated[r1cs.Public, 3]) -> None: ...
def with_wrong_count(system: System, x: Annotated[r1cs.PublicList, 0]) -> None: ...
def unknown(system: System, x: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (without_type, "the parameter 'x' of the circuit's function has no type of an input"),
        (without_count, r"takes a number of elements, as in Annotated\[PrivateBits, 16\]"),
        (with_count, "the type of the parameter 'x' takes no number of elements"),
        (with_wrong_count, "the number of elements of 'x' must be a whole number from 1 on"),
        (unknown, "an annotation of the circuit's function cannot be evaluated"),
    ],
)
def test_wrong_signatures(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        r1cs.trace(function)


def test_circuits_in_files(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def cube(x):\n    return x**3\n")
    file = tmp_path / "circuit.py"
    file.write_text(
        "from helper import cube\n"
        "from quod import r1cs\n\n"
        "def main(system, x: r1cs.Private):\n    system.output('y', cube(x))\n\n"
        "def broken(system):\n    return 1 / 0\n\n"
        "def wrong(system):\n    system.private('')\n"
    )
    circuit = circuit_of_source(f"{file}:main", "bls12_381")
    assert (circuit.curve, circuit.values({"x": 3})[1]) == ("bls12_381", 27)
    for name, message in (
        ("mian", r"circuit.py: has no function mian; did you mean main\?"),
        ("broken", "circuit.py: line 8: ZeroDivisionError"),
        ("wrong", "must be a nonempty str"),
    ):
        with pytest.raises(InputError, match=message):
            circuit_of_source(f"{file}:{name}", "bn254")
    circuit = circuit_of_source("quod.zcash.circuit.output:sapling_output", "bls12_381")
    assert circuit.constraints == 7827
    with pytest.raises(InputError, match=r"quod\.missing: ModuleNotFoundError"):
        circuit_of_source("quod.missing:main", "bn254")
    with pytest.raises(InputError, match="does not name a function"):
        circuit_of_source(str(file), "bn254")
    with pytest.raises(InputError, match=r"missing.py: is not a file"):
        circuit_of_source(tmp_path / "missing.py:main", "bn254")
    (tmp_path / "text.py").write_text("x = 1\nx ==\n")
    with pytest.raises(InputError, match=r"text.py: line 2: SyntaxError"):
        circuit_of_source(tmp_path / "text.py:main", "bn254")
    (tmp_path / "ends.py").write_text(
        "import sys\ndef main(system):\n    sys.exit(0)\n"
        "from quod.r1cs import Private\ndef many(system, *x: Private):\n    pass\n"
    )
    with pytest.raises(InputError, match=r"ends.py: line 3: SystemExit"):
        circuit_of_source(tmp_path / "ends.py:main", "bn254")
    with pytest.raises(InputError, match="the parameter 'x' must be one input, not many"):
        circuit_of_source(tmp_path / "ends.py:many", "bn254")
    (tmp_path / "raises.py").write_text("\nraise KeyError('x')\n")
    with pytest.raises(InputError, match=r"raises.py: line 2: KeyError"):
        circuit_of_source(tmp_path / "raises.py:main", "bn254")
