"""Findings from the structure of constraints, without the determinism check."""

from __future__ import annotations

from collections.abc import Iterator

from quod.frozen import frozen
from quod.r1cs.names import path_name, wire_name
from quod.r1cs.signal import ONE, source_line
from quod.r1cs.system import ConstraintSystem
from quod.r1cs.witness_program.steps import Bit, Hint, InverseOrZero

UNCONSTRAINED = "unconstrained wire"
HINT_ONLY = "wire in hints only"
UNUSED_PUBLIC = "unused public input"
DUPLICATE_ROW = "duplicate constraint"
CONSTANT_ROW = "constant constraint"


@frozen
class Finding:
    """A likely mistake: its `kind`, and a message with its signals, the reason and the place."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def lints_of(system: ConstraintSystem) -> list[Finding]:
    """Find wires and public inputs that no constraint uses, and redundant constraints.

    Unused wires may occur in hints. Redundant constraints are duplicates, and constraints
    between constants.
    """
    return [*_wire_findings(system), *_constraint_findings(system)]


def _wire_findings(system: ConstraintSystem) -> Iterator[Finding]:
    """Yield unused public inputs, and wires that no constraint uses."""
    used = _constrained_wires(system)
    hinted = set[int]()
    for step in system.steps:
        if isinstance(step, Hint):
            for argument in step.arguments:
                hinted.update(argument.wires)
        elif isinstance(step, (Bit, InverseOrZero)):
            hinted.update(step.signal.wires)
    for number in range(1, len(system.public_names) + 1):
        if -number not in used:
            yield Finding(UNUSED_PUBLIC, wire_name(system, -number))
    for wire in range(1, len(system.wire_paths) + 1):
        if wire not in used and wire not in system.free_wires:
            kind = HINT_ONLY if wire in hinted else UNCONSTRAINED
            yield Finding(kind, wire_name(system, wire))


def _constrained_wires(system: ConstraintSystem) -> set[int]:
    """The wires of C, and the wires of A and B in rows where neither is empty."""
    used = set(system.columns[2])
    for row in range(len(system.row_paths)):
        left, right = (system.row(side, row)[0] for side in (0, 1))
        if left and right:
            used.update(left, right)
    return used


def _constraint_findings(system: ConstraintSystem) -> Iterator[Finding]:
    """Yield constraints between constants, and constraints that repeat an earlier one."""
    seen: dict[tuple[object, ...], int] = {}
    for row in range(len(system.row_paths)):
        sides = [
            frozenset(
                (wire, coefficient % system.prime)
                for wire, coefficient in zip(*system.row(matrix, row))
            )
            for matrix in range(3)
        ]
        path = path_name(system, system.row_paths[row])
        location = source_line(system.row_codes[row], system.row_instructions[row])
        description = f"constraint {row}" + (f" `{path}`" if path else "") + f" ({location})"
        if not any(wire != ONE for matrix in sides for wire, _ in matrix):
            yield Finding(CONSTANT_ROW, description)
        # A * B = B * A, so the order of A and B does not matter.
        key = (frozenset(sides[:2]), sides[2])
        if (first := seen.setdefault(key, row)) != row:
            yield Finding(DUPLICATE_ROW, f"{description} says what constraint {first} says")
