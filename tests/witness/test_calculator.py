"""Witnesses equal those of snarkjs, from any thread, and only for the right circuit."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quod.errors import InputError, MismatchError, ServiceError
from quod.field import NAMED
from quod.formats import Witness
from quod.witness import WitnessCalculator, WitnessLimits
from quod.witness.errors import CircuitError
from tests.support.node import run_program
from tests.witness.circuits import VARIOUS, circuit

EXAMPLE = Path(__file__).parents[2] / "examples" / "membership"
INPUT = json.loads((EXAMPLE / "input.json").read_text())


@pytest.fixture(scope="module")
def membership() -> WitnessCalculator:
    return WitnessCalculator.open(EXAMPLE / "circuit.wasm")


def test_the_example(membership: WitnessCalculator) -> None:
    assert (membership.curve, membership.variables, membership.inputs) == ("bn254", 3993, 23)
    expected = (EXAMPLE / "witness.wtns").read_bytes()
    assert membership.calculate((EXAMPLE / "input.json").read_bytes()) == expected
    assert membership.calculate({name: INPUT[name] for name in reversed(INPUT)}) == expected


def test_threads_are_isolated(membership: WitnessCalculator) -> None:
    # Another scope is another nullifier, the first output.
    inputs = [INPUT | {"scope": scope} for scope in range(24)]
    expected = [membership.calculate(values) for values in inputs]
    assert len(set(expected)) == 24
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(membership.calculate, inputs)) == expected


def test_errors_of_the_circuit_have_lines_and_no_values(membership: WitnessCalculator) -> None:
    source = (EXAMPLE / "membership.circom").read_text().splitlines()
    with pytest.raises(CircuitError) as caught:
        membership.calculate(INPUT | {"secret": 123456789}, where="the inputs of part 0")
    error = caught.value
    assert (error.code, error.exit_code, len(error.lines)) == (4, 3, 1)
    [(template, line)] = error.lines
    assert template.startswith("Membership_")
    assert "===" in source[line - 1]
    assert str(error) == (
        "the inputs of part 0: the inputs do not satisfy the circuit: an assertion failed "
        f"({template} line {line})"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nobody": 5}, 'the circuit has no input "nobody"'),
        ({"siblings": [1] * 9}, 'the input "siblings" takes 10 numbers, and 9 are given'),
        ({"siblings": [1] * 11}, 'the input "siblings" takes 10 numbers, and 11 are given'),
        ({"siblings": []}, 'the input "siblings" takes 10 numbers, and 0 are given'),
        ({"root": [1, 2]}, 'the input "root" takes 1 number, and 2 are given'),
        ({"root": [[1]] * 2}, 'the input "root" takes 1 number, and 2 are given'),
        ({"root": {"x": 1}}, 'the circuit has no input "root.x"; did you mean "root"?'),
    ],
)
def test_wrong_inputs_are_named(
    membership: WitnessCalculator, change: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        membership.calculate(INPUT | change)
    assert str(caught.value) == f"inputs: {message}"
    assert not isinstance(caught.value, CircuitError)


def test_a_missing_input(membership: WitnessCalculator) -> None:
    inputs = {name: value for name, value in INPUT.items() if name != "root"}
    with pytest.raises(InputError) as caught:
        membership.calculate(inputs)
    assert str(caught.value) == 'inputs: the input "root" (1 number) is missing'
    with pytest.raises(InputError) as caught:
        membership.calculate({name: INPUT[name] for name in ("scope", "root", "turns")})
    assert str(caught.value) == (
        'inputs: the inputs "secret" (1 number), "siblings" (10 numbers) are missing'
    )
    # Of what there is nothing, nothing need be given.
    assert membership.calculate(INPUT | {"nobody": []})


def test_a_missing_input_without_symbols() -> None:
    membership = WitnessCalculator((EXAMPLE / "circuit.wasm").read_bytes())
    inputs = {name: value for name, value in INPUT.items() if name != "root"}
    with pytest.raises(InputError) as caught:
        membership.calculate(inputs)
    assert str(caught.value) == (
        "inputs: an input is missing: the circuit takes 23 numbers, and 22 are given (scope, "
        "secret, siblings, turns)"
    )
    with pytest.raises(InputError, match=r"0 are given \(no input\)"):
        membership.calculate({})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("siblings[0]", 'write "siblings": [...], one list of its 10 numbers'),
        ("main.siblings[9]", 'write "siblings": [...], one list of its 10 numbers'),
        ("main.root", 'write "root": value'),
        ("sibling", 'did you mean "siblings"?'),
    ],
)
def test_similar_names_are_suggested(membership: WitnessCalculator, name: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        membership.calculate({**INPUT, name: 1})
    assert str(caught.value) == f'inputs: the circuit has no input "{name}"; {hint}'


@pytest.mark.parametrize(
    ("wasm", "symbols"), [("c_js/c.wasm", "c.sym"), ("c.wasm", "c.sym"), ("c_js/c.wasm", "d.sym")]
)
def test_symbols_are_found_where_circom_writes_them(
    tmp_path: Path, wasm: str, symbols: str
) -> None:
    (tmp_path / wasm).parent.mkdir(exist_ok=True)
    (tmp_path / wasm).write_bytes((EXAMPLE / "circuit.wasm").read_bytes())
    (tmp_path / symbols).write_bytes((EXAMPLE / "circuit.sym").read_bytes())
    expected = "an input is missing" if symbols == "d.sym" else 'the inputs "root" '
    with pytest.raises(InputError, match=expected):
        WitnessCalculator.open(tmp_path / wasm).calculate({})


@pytest.mark.parametrize("symbols", [b"", b"\xff\n", b"no line\n", b"1,1,2,main.x\n"])
def test_invalid_symbols_only_lose_signal_names(tmp_path: Path, symbols: bytes) -> None:
    path = tmp_path / "c.sym"
    for symbols_path in (path, tmp_path):
        path.write_bytes(symbols)
        calculator = WitnessCalculator(
            (EXAMPLE / "circuit.wasm").read_bytes(), symbols=symbols_path
        )
        with pytest.raises(InputError, match="an input is missing: the circuit takes 23 numbers"):
            calculator.calculate({})


def test_a_calculator_of_another_key() -> None:
    code = circuit(wires=3)
    calculator = WitnessCalculator(code, curve="bn254", variables=3)
    assert calculator.variables == 3
    with pytest.raises(MismatchError, match="a witness of 3 values, but the key takes 4"):
        WitnessCalculator(code, variables=4)
    with pytest.raises(MismatchError, match="field of bn254, but the key is over bls12_381"):
        WitnessCalculator(code, curve="bls12_381")
    with pytest.raises(InputError, match="the curve must be one of"):
        WitnessCalculator(code, curve="none")
    with pytest.raises(InputError, match="must be bytes, not a str"):
        WitnessCalculator("circuit.wasm")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="does not exist"):
        WitnessCalculator.open("none.wasm")


@pytest.mark.parametrize(
    ("field", "value"),
    [("seconds", 0), ("seconds", True), ("seconds", float("nan")), ("memory_bytes", 1),
     ("compile_seconds", 0), ("compile_bytes", 5)],
)  # fmt: skip
def test_invalid_limits_are_rejected(field: str, value: object) -> None:
    with pytest.raises(InputError):
        WitnessLimits(**{field: value})  # type: ignore[arg-type]


@pytest.mark.node
@pytest.mark.parametrize("prime", ["bn128", pytest.param("bls12381", marks=pytest.mark.thorough)])
def test_witnesses_match_snarkjs(prime: str, tmp_path: Path) -> None:
    (tmp_path / "c.circom").write_text(VARIOUS)
    done = run_program("circom2", "c.circom", "--wasm", "--prime", prime, directory=tmp_path)
    assert done.returncode == 0, done.stderr
    calculator = WitnessCalculator.open(tmp_path / "c_js" / "c.wasm")
    modulus = NAMED[f"{calculator.curve}.fr"].value
    inputs = {
        "grid": [[1, "0x10"], [-5, modulus - 1], [2**53 + 1, "0"]], "key": -3, "flag": True,
    }  # fmt: skip
    # snarkjs rounds what is longer than a double, unless it is text.
    (tmp_path / "input.json").write_text(re.sub(r"(-?\d{16,})", r'"\1"', json.dumps(inputs)))
    done = run_program(
        "snarkjs", "wtns", "calculate", "c_js/c.wasm", "input.json", "out.wtns", directory=tmp_path
    )
    assert done.returncode == 0, done.stdout
    witness = calculator.calculate(inputs)
    assert witness == (tmp_path / "out.wtns").read_bytes()
    (tmp_path / "own.wtns").write_bytes(witness)
    assert Witness.open(tmp_path / "own.wtns").curve == calculator.curve
    with pytest.raises(CircuitError) as caught:
        calculator.calculate(inputs | {"flag": 2})
    assert caught.value.lines[0] == (
        "Various_1",
        VARIOUS.splitlines().index("    flag * (flag - 1) === 0;") + 1,
    )
    with pytest.raises(CircuitError) as caught:
        calculator.calculate(inputs | {"grid": [[8, 3], [2, 0], [0, 0]], "key": 0})
    assert caught.value.code == 4


@pytest.mark.fixtures
@pytest.mark.parametrize("name", ["quod-bn254-eddsa", "quod-bls12_381-pow5bits"])
def test_witnesses_match_published_ones(shared_fixtures: Path, name: str) -> None:
    """circomlib's signatures and hashes, by snarkjs."""
    folder = shared_fixtures / "circom" / name
    calculator = WitnessCalculator.open(folder / "circuit.wasm")
    witness = calculator.calculate((folder / "input.json").read_bytes())
    assert witness == (folder / "witness.wtns").read_bytes()


def test_missing_wasmtime_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("quod.witness.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    with pytest.raises(ServiceError, match=r"pip install '\.\[wasm\]'"):
        from quod.witness.calculator import WitnessCalculator as _  # noqa: F401
