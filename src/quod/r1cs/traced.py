"""The record of tracing: the wires, rows, names, namespaces and steps of a constraint system."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from types import CodeType
from typing import Any

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.formats.curves import curve_named
from quod.frozen import frozen
from quod.r1cs.ranges import Ranges
from quod.r1cs.signal import (
    ONE,
    Signal,
    caller,
    hide_frames_of,
    merged_terms,
    signal_of,
    source_line,
)
from quod.r1cs.witness_program.steps import Input, Step
from quod.validation import shown, whole_number

hide_frames_of(__file__)
MAX_WIRES = 1 << 28


Operand = Signal | int


@frozen(eq=False)
class Shortcut:
    """A kernel that computes the results of a block; see `quod.r1cs.repetition.shortcuts`.

    name, parameters: those of the kernel.
    arguments: a wire of the block for each argument, and whether the argument is 1 minus the wire.
        Constants have the wire of the constant 1.
    results: the wire of each result.
    """

    name: str
    parameters: tuple[int, ...]
    arguments: tuple[tuple[int, bool], ...]
    results: tuple[int, ...]


class Block:
    """A traced function.

    system: its constraints; wires 1 to `formal_wires` are the formal wires.
    result: what the function returned, with signals of `system`.
    shortcut: the kernel that computes the results, if there is one.
    """

    __slots__ = ("formal_wires", "result", "shortcut", "system")

    def __init__(
        self, system: TracedSystem, formal_wires: int, result: Any, shortcut: Shortcut | None = None
    ) -> None:  # fmt: skip
        self.system, self.formal_wires, self.result = system, formal_wires, result
        self.shortcut = shortcut

    @property
    def wires(self) -> int:
        """The number of wires that a placement adds, without the public ones."""
        return self.system.wires - self.formal_wires

    def column(self, wire: int) -> int:
        """Return the column of a wire (`quod.r1cs.repetition.parts.Part`)."""
        if wire < ONE:
            return self.formal_wires - wire
        return wire + len(self.system.public_names) if wire > self.formal_wires else wire


class Placement:
    """A call of a block: where its rows and wires are in the system that contains it.

    arguments: the wire for each formal wire.
    own_rows, own_wires, own_steps: the number of preceding rows, of wires that are not public, and
        of steps, without those of other placements.
    row, wire, public: the number of preceding rows, of wires that are not public, and of public
        wires, including those of other placements.
    path: the namespace of the call.
    """

    __slots__ = (
        "arguments", "block", "own_rows", "own_steps", "own_wires", "path", "public", "row", "wire",
    )  # fmt: skip

    def __init__(self, system: TracedSystem, block: Block, arguments: Sequence[int]) -> None:
        """Describe a call at the end of a system."""
        self.block, self.arguments, self.path = block, arguments, system.path
        self.own_rows, self.own_wires = len(system.row_paths), len(system.wire_paths)
        self.own_steps = len(system.steps)
        self.row, self.wire, self.public = system.rows, system.wires, len(system.public_names)

    def wire_of(self, wire: int) -> int:
        """Return the wire of the containing system for one of the block."""
        formal_wires = self.block.formal_wires
        if wire > formal_wires:
            return wire - formal_wires + self.wire
        if wire < ONE:
            return wire - self.public
        return self.arguments[wire - 1] if wire else ONE

    def signal_of(self, system: TracedSystem, signal: Signal) -> Signal:
        """Return the signal of the containing system for one of the block."""
        wires = tuple([self.wire_of(wire) for wire in signal.wires])
        return Signal(system, wires, signal.coefficients, signal.limit)


class TracedSystem(ABC):
    """A constraint system as tracing records it; `ConstraintSystem` has the methods that fill it.

    Public wires are -1, -2, ..., wire 0 is the constant 1, and the others are 1, 2, ... Rows, wires
    and steps of placements are those of their blocks (`quod.r1cs.repetition.blocks`).
    """

    def __init__(self, curve: str) -> None:
        """Create an empty system over the scalar field of a curve (`quod.curve.named.CURVES`)."""
        self.curve = curve_named(curve).name
        self.field: Modulus = curve_named(curve).fr
        self.prime = self.field.value
        self.inputs: dict[str, Input] = {}
        self.steps: list[Step] = []
        self.public_names: list[str] = []
        self._names: set[str] = set()
        self.outputs = 0
        self.outputs_first = True
        self.private_inputs = 0
        # The index of the current namespace (0 is the outermost); parent and name of each.
        self.path = 0
        self.paths: list[tuple[int, str]] = [(-1, "")]
        self._path_numbers: dict[tuple[int, str], int] = {}
        # The number of wires that are not public, and of rows; both count those of placements.
        self.wires = self.rows = 0
        # The namespaces of wires that are not public and not of placements, in their order.
        self.wire_paths: list[int] = []
        self.wire_names: dict[int, str] = {}
        self.free_wires: set[int] = set()
        self._ranges = Ranges()
        # For each of A, B and C: the wires and coefficients of the rows that are not of placements,
        # and the end of each row. Steps and namespaces number these rows from 0.
        self.columns: tuple[list[int], list[int], list[int]] = ([], [], [])
        self.values: tuple[list[int], list[int], list[int]] = ([], [], [])
        self.ends: tuple[list[int], list[int], list[int]] = ([], [], [])
        self.row_paths: list[int] = []
        self.row_codes: list[CodeType] = []
        self.row_instructions: list[int] = []
        # The traced blocks by function and signature of the arguments, and the calls of blocks.
        self.blocks: dict[Hashable, Block] = {}
        self.placements: list[Placement] = []
        # Wires without a value yet, and the code location that created each.
        self.unknown: dict[int, tuple[CodeType, int]] = {}
        # True once a `Circuit` was made; its shape and witnesses are cached.
        self.is_finished = False

    @abstractmethod
    def multiply(self, a: Operand, b: Operand) -> Signal:
        """Return a·b."""

    @abstractmethod
    def divide(self, a: Operand, b: Operand) -> Signal:
        """Return a/b."""

    # --- bounds of signals

    def upper_bound(self, signal: Operand) -> int | None:
        """Return an upper bound of a signal that the constraints so far imply, or None.

        Bounds are known for bits (`boolean`, `bits`, `private_bits`, x·(1 - x) = 0), for signals
        decomposed by `bits`, for sums and products of bounded signals that cannot wrap around the
        prime, for signals equal to one of these, and for signals passed to `declare_upper_bound`.
        Constraints on sums of more than two terms are not analysed.
        """
        return self._ranges.upper_bound(signal_of(self, signal))

    def declare_upper_bound(self, signal: Operand, most: int) -> Signal:
        """Declare an upper bound that the constraints imply but Quod cannot derive.

        Gadgets that need a bit or a small number then accept the signal. This adds no constraint
        and checks nothing: if the constraints do not imply the bound, the circuit is unsound.
        Returns the signal.
        """
        value = signal_of(self, signal)
        most = whole_number("the upper bound", most, 0, self.prime - 1)
        if (constant := value.constant) is not None and constant > most:
            raise InputError(
                f"{self._here()}: the constant {shown(constant)} exceeds the bound {shown(most)}"
            )
        self._ranges.record(value, most)
        return value

    def determined(self, operand: Operand) -> Signal:
        """Return an operand as a signal; raises InputError if a wire of it has no value yet."""
        signal = signal_of(self, operand)
        if self.unknown and not self.unknown.keys().isdisjoint(signal.wires):
            for wire in merged_terms(signal.wires, signal.coefficients, self.prime)[0]:
                if wire in self.unknown:
                    raise InputError(
                        f"{self._here()}: the wire {self.wire_names.get(wire, wire)} has no value "
                        "yet; add the constraint that determines it first"
                    )
        return signal

    # --- size

    @property
    def step_count(self) -> int:
        """The number of steps, with those of placements."""
        return len(self.steps) + sum(each.block.system.step_count for each in self.placements)

    def formal_wire(self) -> int:
        """Add a wire that stands for one of an argument; see `quod.r1cs.repetition.blocks`."""
        return self._new_wire()

    def finish(self) -> None:
        """Refuse further changes.

        Raises InputError if no constraint or hint determines the value of a wire.
        """
        for wire, (code, instruction) in self.unknown.items():
            raise InputError(
                f"{source_line(code, instruction)}: no constraint determines the value of the wire "
                f"{self.wire_names.get(wire, wire)}: that takes a constraint with no other new "
                "wire, and this wire in only one of a, b and c; use `hint`"
            )
        self.is_finished = True

    def row(self, side: int, row: int) -> tuple[list[int], list[int]]:
        """Return the wires and coefficients of a row of A, B or C (`side` 0, 1 or 2)."""
        ends = self.ends[side]
        start, end = ends[row - 1] if row else 0, ends[row]
        return self.columns[side][start:end], self.values[side][start:end]

    # --- names and namespaces

    def path_of(self, parent: int, name: str) -> int:
        """Return the index of a namespace within another; adds it if it is new."""
        index = self._path_numbers.setdefault((parent, name), len(self.paths))
        if index == len(self.paths):
            self.paths.append((parent, name))
        return index

    # --- additions

    def _check_open(self) -> None:
        """Raise InputError if the circuit is already finished."""
        if self.is_finished:
            raise InputError(
                f"{self._here()}: the circuit is already traced; its signals are no longer usable"
            )

    def _new_wire(self, name: str = "") -> int:
        """Add a wire that is not public; return its number."""
        self._check_open()
        self.wire_paths.append(self.path)
        self.wires += 1
        wire = self.wires
        if name:
            self.wire_names[wire] = name
        return wire

    def _new_public(self, name: str) -> int:
        self.public_names.append(name)
        return -len(self.public_names)

    def _new_output(self, name: str) -> int:
        """Add a public wire that the circuit computes; return its number."""
        self._check_name(name)
        self.add_names((name,))
        self.outputs_first &= self.outputs == len(self.public_names)
        self.outputs += 1
        return self._new_public(name)

    def _input_length(self, name: str, count: int | None) -> int:
        self._check_name(name)
        return 1 if count is None else whole_number(f"the length of {name}", count, 1, MAX_WIRES)

    def _check_name(self, name: object) -> None:
        self._check_open()
        if type(name) is not str or not name:
            raise InputError(
                f"the name of an input or output must be a nonempty str, not {shown(name)}"
            )

    def add_names(self, names: Sequence[str]) -> None:
        """Record names of inputs and public wires; raises InputError for one that is not new."""
        self._check_open()
        for name in names:
            if name in self._names:
                raise InputError(
                    f"two inputs or outputs have the name {name!r}; choose another name"
                )
        self._names.update(names)

    def _here(self) -> str:
        return source_line(*caller(sys._getframe(1)))
