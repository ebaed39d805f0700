"""Determinism questions from files and from circuits in Python: inputs, targets and names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from quod.errors import InputError
from quod.formats.r1cs import R1cs, SparseMatrix
from quod.r1cs.determinism.rows import Matrix, Rows
from quod.r1cs.names import array_name, path_name, wire_name
from quod.r1cs.repetition.parts import Side, parts_of
from quod.r1cs.shape import shape_of
from quod.r1cs.signal import source_line
from quod.r1cs.system import ConstraintSystem
from quod.validation import in_order, shown, shown_kind

ALL = "all"
"""The name of all wires that are not inputs, as targets."""

Selection = Sequence[str] | None
"""Names of signals, `ALL`, or None for the default."""


def rows_of_file(
    r1cs: R1cs, names: dict[int, str] | None = None, *, inputs: Selection = None,
    targets: Selection = None,
) -> Rows:  # fmt: skip
    """Return the question about a file of constraints.

    By default the targets are the outputs, and the inputs the public and private inputs.
    names: the names of wires, from a .sym file; without them a wire's name is ``wire 5``.
    Raises InputError for names that are not those of wires, for a composite modulus, and for labels
    that do not show the inputs.
    """
    _check_wire_count(r1cs)
    labels = names or {}
    wires = range(1, r1cs.wires)

    def name(wire: int) -> str:
        return labels.get(wire, f"wire {wire}")

    input_wires = _selected(inputs, wires, name, lambda: _input_wires(r1cs))
    target_wires = _selected(targets, wires, name, lambda: marked_outputs(r1cs))
    return Rows(
        r1cs.fr.value, r1cs.wires, _matrices_of(r1cs.matrices),
        *_disjoint(inputs, input_wires, targets, target_wires, name),
        name, lambda row: f"constraint {row}", _lost_inputs(r1cs) if inputs is None else 0,
        frozenset(range(1, 1 + r1cs.public)), r1cs.curve,
    )  # fmt: skip


def _check_wire_count(r1cs: R1cs) -> None:
    """Raise InputError if a small file counts wires that would fill the memory."""
    entries = sum(matrix.nonzeros for matrix in r1cs.matrices)
    if not r1cs.has_labels and r1cs.wires - entries > _MAX_UNUSED_WIRES:
        r1cs.file.section(1, "header").fail(
            f"it counts {r1cs.wires} wires, and the constraints have {entries} terms; "
            "the file is damaged, compile the circuit again"
        )


_MAX_UNUSED_WIRES = 1 << 20
"""The number of wires without a constraint that a file without labels may count."""


def _lost_inputs(r1cs: R1cs) -> int:
    """Return the number of private inputs to which circom gave no wire."""
    return _declared(r1cs) - len(marked_outputs(r1cs)) - len(_input_wires(r1cs))


def _declared(r1cs: R1cs) -> int:
    """Return the number of outputs and inputs: circom labels them before all other signals."""
    return r1cs.public + r1cs.private_inputs


def marked_outputs(r1cs: R1cs) -> list[int]:
    """Return the wires of a file's outputs: those that the header counts, or that labels mark."""
    return [*range(1, 1 + r1cs.public_outputs), *_late_outputs(r1cs)]


def _late_outputs(r1cs: R1cs) -> list[int]:
    """Return the outputs that the header counts as public inputs, as they follow one.

    Quod gives them labels after those of inputs (`quod.r1cs.names.wire_labels`). Labels that Quod
    does not write mark no outputs.
    """
    if r1cs.public_outputs or not r1cs.has_labels:
        return []
    declared, labels = _declared(r1cs), r1cs.wire_labels
    outputs = 1 + np.flatnonzero(labels[1 : 1 + r1cs.public] > declared)
    first_free = 1 + declared - len(outputs)
    if first_free > r1cs.wires:
        return []
    quod_labels = np.arange(r1cs.wires, dtype=np.uint64)
    quod_labels[first_free:] += np.uint64(len(outputs))
    return outputs.tolist() if np.array_equal(np.sort(labels), quod_labels) else []


def _input_wires(r1cs: R1cs) -> list[int]:
    """Return the wires of a file's inputs.

    circom counts private inputs to which it gives no wire, so their labels decide: those of inputs
    follow the labels of outputs. Raises InputError for labels that neither circom nor Quod writes.
    """
    declared = _declared(r1cs)
    if not r1cs.has_labels:
        if declared >= r1cs.wires:
            raise InputError(
                f"has {r1cs.private_inputs} private inputs, of which some have no wire, and no "
                "labels of wires; name the inputs",
                path=r1cs.path,
            )
        return [*range(1 + r1cs.public_outputs, 1 + declared)]
    labels, late_outputs = r1cs.wire_labels, _late_outputs(r1cs)
    label_count = max(r1cs.labels, 1 + int(labels.max()))
    fault = ""
    if labels[0] != 0 or len(np.unique(labels)) < len(labels):
        fault = "wires with equal labels, or a label of the constant 1 other than 0"
    elif declared >= label_count:
        fault = f"only {label_count} labels, but {declared} outputs and inputs"
    elif not late_outputs and (labels[1 : 1 + r1cs.public] > declared).any():
        fault = f"a public wire whose label is above {declared}, the number of outputs and inputs"
    if fault:
        r1cs.file.section(3, "labels").fail(
            f"has {fault}, so the labels do not show which wires are inputs; name the inputs"
        )
    last = declared - len(late_outputs)
    wires = 1 + r1cs.public_outputs + np.flatnonzero(labels[1 + r1cs.public_outputs :] <= last)
    return [int(wire) for wire in wires]


def rows_of_circuit(
    system: ConstraintSystem, *, inputs: Selection = None, targets: Selection = None
) -> Rows:
    """Return the question about a traced circuit.

    By default the targets are the public values that the circuit computes, and the inputs are the
    declared inputs. Wires are numbered as in a witness. Raises InputError for unknown names.
    """
    public = len(system.public_names)
    count = 1 + public + len(system.wire_paths)
    shape = shape_of(parts_of(system))
    values = [
        int.from_bytes(words.tobytes(), "little") for words in np.atleast_2d(shape.coefficients)
    ]

    def index(wire: int) -> int:
        return -wire if wire < 0 else wire + public

    def name(wire: int) -> str:
        return wire_name(system, -wire if wire <= public else wire - public)

    def location(row: int) -> str:
        path = path_name(system, system.row_paths[row])
        inside = f" `{path}`" if path else ""
        code = source_line(system.row_codes[row], system.row_instructions[row])
        return f"constraint {row}{inside} ({code})"

    def matrix(side: Side) -> Matrix:
        coefficients = [values[number] for number in side.number.tolist()]
        return Matrix(side.row_ptr[1:].tolist(), side.column.tolist(), coefficients)

    declared = system.inputs
    all_inputs = [index(wire) for each in declared.values() for wire in each.wires]
    numbers = range(1, count)
    groups = _declared_wires(system, index)
    input_wires = _selected(inputs, numbers, name, lambda: all_inputs, groups)
    computed = [wire for wire in range(1, public + 1) if wire not in set(all_inputs)]
    target_wires = _selected(targets, numbers, name, lambda: computed, groups)
    a, b, c = (matrix(side) for side in shape.sides)
    return Rows(
        system.prime, count, (a, b, c),
        *_disjoint(inputs, input_wires, targets, target_wires, name), name, location,
        public=frozenset(range(1, 1 + public)), curve=system.curve,
    )  # fmt: skip


def _declared_wires(
    system: ConstraintSystem, index: Callable[[int], int]
) -> dict[str, list[int]]:  # fmt: skip
    """Return the wires of each input and output, and of each element of an array, by name."""
    wires = {name: [wire] for wire, name in enumerate(system.public_names, 1)}
    wires |= {name: [index(wire) for wire in each.wires] for name, each in system.inputs.items()}
    for name, each in system.inputs.items():
        if each.has_elements:
            for element, wire in enumerate(each.wires):
                wires.setdefault(f"{name}[{element}]", [index(wire)])
    return wires


def _selected(
    names: Selection, wires: Sequence[int], name: Callable[[int], str],
    default: Callable[[], Iterable[int]], groups: dict[str, list[int]] | None = None,
) -> list[int]:  # fmt: skip
    """Return the wires with these names; a name also selects the elements of its array."""
    if names is None:
        return list(default())
    names = list(in_order("the names of signals", names))
    for each in names:
        if not isinstance(each, str):
            raise InputError(f"the name of a signal must be text, not {shown_kind(each)}")
    if ALL in names:
        return list(wires)
    wanted = set(names)
    # By precedence: the name itself, without "main.", and the names of arrays in the same way.
    wires_by_name: tuple[dict[str, list[int]], ...] = ({}, {}, {}, {})
    for wire in wires:
        text = name(wire)
        array = array_name(text)
        keys = text, text.removeprefix("main."), array, array.removeprefix("main.")
        for wires_of, key in zip(wires_by_name, keys):
            if key in wanted:
                wires_of.setdefault(key, []).append(wire)
    selected: list[int] = []
    for each in names:
        maps = (groups or {}, *wires_by_name)
        numbers = next((wires_of[each] for wires_of in maps if each in wires_of), None)
        if numbers is None and _WIRE.fullmatch(each) and int(each) in wires:
            numbers = [int(each)]
        if numbers is None:
            raise InputError(f"no wire has the name {shown(each)}; give a name from the .sym file")
        selected += numbers
    return list(dict.fromkeys(selected))


_WIRE = re.compile(r"[0-9]{1,10}")


def _disjoint(
    inputs: Selection, input_wires: list[int], targets: Selection, target_wires: list[int],
    name: Callable[[int], str],
) -> tuple[frozenset[int], tuple[int, ...]]:  # fmt: skip
    """Return inputs and targets without common wires: what a caller names precedes the default.

    Raises InputError if the caller names a wire as both, no target, or all targets as inputs.
    """
    input_set, target_set = frozenset(input_wires), set(target_wires)
    if targets is not None and not target_set:
        raise InputError("no signal is named as a target; name at least one")
    is_named = targets is not None and ALL not in targets
    if is_named and inputs is None:
        return input_set - target_set, tuple(target_wires)
    if is_named and (common := input_set & target_set):
        raise InputError(f"{name(min(common))!r} cannot be both an input and a target")
    remaining = tuple(wire for wire in target_wires if wire not in input_set)
    if inputs is not None and target_wires and not remaining:
        raise InputError("all targets are inputs, so there is nothing to decide; name fewer inputs")
    return input_set, remaining


def _matrices_of(
    matrices: tuple[SparseMatrix, SparseMatrix, SparseMatrix],
) -> tuple[Matrix, Matrix, Matrix]:
    a, b, c = map(_matrix_of, matrices)
    return a, b, c


def _matrix_of(matrix: SparseMatrix) -> Matrix:
    """Return a matrix as lists; equal coefficients share one integer."""
    size = matrix.value.shape[1] * 4
    table: dict[bytes, int] = {}
    data = np.ascontiguousarray(matrix.value, "<u4").tobytes()
    coefficients = []
    for start in range(0, len(data), size):
        key = data[start : start + size]
        if (value := table.get(key)) is None:
            value = table[key] = int.from_bytes(key, "little")
        coefficients.append(value)
    return Matrix(matrix.row_ptr[1:].tolist(), matrix.column.tolist(), coefficients)
