"""The check of a written file answers the question about the circuit that was written."""

from __future__ import annotations

import io
import json
import re
import tempfile
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from quod.cli import entry
from quod.errors import InputError
from quod.formats.r1cs import R1cs
from quod.formats.sym import wire_names
from quod.r1cs import Circuit, ConstraintSystem, Signal, trace
from quod.r1cs.determinism.rows import Rows
from quod.r1cs.determinism.sources import rows_of_circuit, rows_of_file

Step = Callable[[ConstraintSystem, str, list[Signal]], None]


def _late_root(system: ConstraintSystem, name: str, signals: list[Signal]) -> None:
    """A wire with two possible values."""
    (root,) = system.hint(lambda value: value, signals[-1:], 1)
    system.assert_equal(root * root, signals[-1] * signals[-1])
    signals.append(root)


def _unused_hint(system: ConstraintSystem, name: str, signals: list[Signal]) -> None:
    system.hint(lambda value: [value, value], signals[-1:], 2)


def _namespace(system: ConstraintSystem, name: str, signals: list[Signal]) -> None:
    with system.namespace(f"inner of {name}"):
        _private(system, name, signals)
        _late_root(system, name, signals)
        _named_wire(system, f"{name}x", signals)


def _repeated(system: ConstraintSystem, signal: Signal) -> Signal:
    (root,) = system.hint(lambda value: value, [signal], 1)
    system.assert_equal(root * root, signal * signal)
    first, second = system.private("list", 2)
    system.output("out", root * first)
    return root + second * system.public("p")


def _repeat(system: ConstraintSystem, name: str, signals: list[Signal]) -> None:
    for index in range(2):
        with system.namespace(f"{name}[{index}]"):
            signals.append(system.repeat(_repeated, signals[-1]))


def _named_wire(system: ConstraintSystem, name: str, signals: list[Signal]) -> None:
    """A wire of the name that an input has, or will have, in the .sym file."""
    wire = system.wire(name[:-1])
    system.assert_equal(wire, signals[-1] + signals[0])
    signals.append(wire)


def _private(system: ConstraintSystem, name: str, signals: list[Signal]) -> None:
    signals.append(system.private(name))


def _output(system: ConstraintSystem, name: str, signals: list[Signal]) -> None:
    system.output(name, signals[-1] + signals[len(signals) // 2])


STEPS: list[Step] = [
    _private, _output, _output, _late_root, _unused_hint, _namespace, _repeat, _named_wire,
    lambda system, name, signals: signals.append(signals[-1] * signals[0]),
    lambda system, name, signals: signals.append(system.public(name)),
    lambda system, name, signals: signals.extend(system.private(name, 2)),
    lambda system, name, signals: signals.extend(system.public(name, 2)),
    lambda system, name, signals: signals.extend(system.private_bits(name, 3)),
    lambda system, name, signals: signals.extend(system.private_bytes(name, 1)[:2]),
    lambda system, name, signals: signals.extend(system.private_point(name)),
    lambda system, name, signals: signals.extend(system.public_point(name)),
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(STEPS) - 1), min_size=1, max_size=7), st.booleans())
def test_questions_of_written_files(numbers: list[int], is_first_public: bool) -> None:
    """Inputs, targets, names and verdicts are those of `Circuit.check`."""

    def function(system: ConstraintSystem) -> None:
        signals = [system.public("a") if is_first_public else system.private("a")]
        for index, number in enumerate(numbers):
            STEPS[number](system, f"s{index}", signals)

    circuit = trace(function)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder, name)) for name in ("c.r1cs", "c.sym")]
        circuit.write_files(files[0], sym=files[1])
        file = R1cs.open(files[0])
        names = wire_names(files[1], file)
        rows, expected = rows_of_file(file, names), rows_of_circuit(circuit.system)
        # The wires that the circuit's function declared, counted without the labels.
        inputs = {
            -wire if wire < 0 else circuit.public + wire
            for each in circuit.inputs.values()
            for wire in each.wires
        }
        outputs = tuple(wire for wire in range(1, 1 + circuit.public) if wire not in inputs)
        assert rows.inputs == expected.inputs == inputs
        assert rows.targets == expected.targets == outputs
        assert not rows.lost_inputs
        assert _entries(rows) == _entries(expected)
        assert sorted(names) == [*range(1, circuit.wires)]
        assert len(set(names.values())) == len(names)
        for name, declared in circuit.inputs.items():
            if "/" not in name and all(_is_outermost(circuit, wire) for wire in declared.wires):
                chosen = rows_of_file(file, names, inputs=[name]).inputs
                assert chosen == rows_of_circuit(circuit.system, inputs=[name]).inputs
        with redirect_stdout(io.StringIO()) as output:
            code = entry.run(["r1cs", "check", *files, "--quiet", "--json"])
    # The number in a name, such as `wire 5`, selects that wire.
    for wire in range(1, circuit.wires):
        if (number := re.search(r"wire (\d+)$", expected.name(wire))) is not None:
            assert int(number[1]) == wire
    verdicts = circuit.check().verdicts
    kinds = {verdict.kind for verdict in verdicts}
    assert code == (13 if "ambiguous" in kinds else 14 if "unknown" in kinds or not kinds else 0)
    targets = json.loads(output.getvalue())["targets"]
    assert [(target["wire"], target["verdict"]) for target in targets] == [
        (verdict.wire, verdict.kind) for verdict in verdicts
    ]


def _entries(rows: Rows) -> list[list[list[int]]]:
    return [[[*each.ends], [*each.wires], [*each.coefficients]] for each in rows.matrices]


def _is_outermost(circuit: Circuit, wire: int) -> bool:
    return wire < 0 or not circuit.system.wire_paths[wire - 1]


_NAMES = [
    "a", "a b", "a_b", "a.b", "a,b", "a[0]", "a[1]", "a[0][0]", "main.a", "main_a", "main", "a_2",
    "a_2[0]", "w_3", "a.w_3", "b", "b_", "a/b",
]  # fmt: skip
_DECLARATIONS: list[Step] = [
    lambda system, name, signals: signals.append(system.private(name)),
    lambda system, name, signals: signals.extend(system.private(name, 2)),
    lambda system, name, signals: signals.extend(system.private_bits(name, 1)),
    lambda system, name, signals: signals.append(system.public(name)),
    lambda system, name, signals: signals.extend(system.public(name, 2)),
    lambda system, name, signals: signals.append(system.output(name, signals[0])),
]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(_DECLARATIONS) - 1), st.sampled_from(_NAMES),
            st.sampled_from(["", "a", "main", "b[0]"]), st.booleans(),
        ),
        min_size=1, max_size=6, unique_by=lambda each: each[1],
    ),
)  # fmt: skip
def test_names_select_what_they_select_in_python(
    declarations: list[tuple[int, str, str, bool]],
) -> None:
    """A name of an input or output selects the same wires of a file, or none."""

    def function(system: ConstraintSystem) -> None:
        signals = [system.one]
        for number, name, namespace, has_wire in declarations:
            with system.namespace(namespace) if namespace else nullcontext():
                with suppress(InputError):
                    _DECLARATIONS[number](system, name, signals)
                if has_wire:
                    _named_wire(system, f"{name}x", signals)
        system.output("an output", signals[-1])

    circuit = trace(function)
    with tempfile.TemporaryDirectory() as folder:
        circuit.write_files(Path(folder, "c.r1cs"), sym=Path(folder, "c.sym"))
        file = R1cs.open(Path(folder, "c.r1cs"))
        names = wire_names(Path(folder, "c.sym"), file)
    assert len(set(names.values())) == len(names) == circuit.wires - 1
    for name in {*circuit.inputs, *circuit.traced.public_names}:
        for key in (name, f"main.{name}", f"{name}[0]", f"{name}[1]"):
            with suppress(InputError):
                chosen = rows_of_file(file, names, targets=[key]).targets
                assert chosen == rows_of_circuit(circuit.system, targets=[key]).targets
