"""The module of a circuit: programs, rows and inputs as data, and circom's interface.

The interface is that of circom's code producers (wasm_elements) from 2.0.3 on, so that snarkjs,
`quod.witness` and Quod's pages run the module. It also exports its memory, and the address of the
witness (``getWitnessStart``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.r1cs.calculator.arithmetic import Arithmetic
from quod.r1cs.calculator.assembler import Module
from quod.r1cs.calculator.hints import HintFunctions
from quod.r1cs.calculator.integers import Integers
from quod.r1cs.calculator.interface import Interface, Run, Tables
from quod.r1cs.calculator.interpreter import Addresses, Interpreter
from quod.r1cs.calculator.memory import Memory
from quod.r1cs.calculator.streams import (
    Coefficients,
    Stream,
    encoded,
    program_stream,
    row_stream,
    rows_to_check,
    unit_of,
)
from quod.r1cs.inputs import wire_indices
from quod.r1cs.names import path_name
from quod.r1cs.portable_hints import PORTABLE_HINTS
from quod.r1cs.repetition.parts import Part, Parts, callers_first
from quod.r1cs.repetition.schedule import Schedule, schedule_of
from quod.r1cs.shape import Counts
from quod.r1cs.signal import source_line
from quod.r1cs.system import ConstraintSystem
from quod.r1cs.tables import copy_table
from quod.r1cs.traced import Block
from quod.r1cs.witness_program.lowering import lowered
from quod.r1cs.witness_program.steps import Hint, HintFunction, Input

MAX_BYTES = 1 << 30
"""The largest memory of a calculator."""

_FILE_AND_LINE = re.compile(r"(.*):([0-9]+)")
_UNSAFE_CHARACTER = re.compile(r"[^A-Za-z0-9_.-]")


class TracedCircuit(Protocol):
    """The attributes of a circuit from which a calculator is made."""

    @property
    def field(self) -> Modulus:
        """The field of the values."""
        ...

    @property
    def inputs(self) -> Mapping[str, Input]:
        """The inputs by name."""
        ...

    @property
    def counts(self) -> Counts:
        """The sizes of the circuit."""
        ...

    @property
    def parts(self) -> Parts:
        """The constraints of each repeated function once."""
        ...

    @property
    def traced(self) -> ConstraintSystem:
        """The traced system with its placements."""
        ...


def calculator_module(circuit: TracedCircuit) -> bytes:
    """Return the witness calculator of a circuit as a WebAssembly module.

    Raises InputError for a hint that is not a function of `quod.r1cs.portable_hints`, and for a
    circuit whose witness and tables exceed `MAX_BYTES`.
    """
    system = circuit.traced
    blocks = callers_first(Block(system, 0, None))
    for block in blocks:
        _check_hints(block)
    if circuit.counts.wires * circuit.field.bytes > MAX_BYTES:
        raise _too_large()
    schedule = schedule_of(
        system, circuit.parts, lambda block, steps: lowered(block, steps, exact=True),
        use_shortcuts=False,
    )  # fmt: skip
    return _Builder(circuit, blocks, schedule).encoded()


def _check_hints(block: Block) -> None:
    """Raise InputError for a hint that a calculator cannot compute."""
    for step in block.system.steps:
        if type(step) is not Hint:
            continue
        if step.function not in PORTABLE_HINTS:
            raise InputError(
                f"the hint {_name(step.function)} is a Python function, which a calculator in "
                "WebAssembly cannot call; use a function of quod.r1cs.portable_hints"
            )
        arguments, results = PORTABLE_HINTS[step.function]
        if results is None and step.arguments:
            results = step.arguments[-1].constant
        if (len(step.arguments), len(step.wires)) != (arguments, results):
            raise InputError(
                f"the hint {_name(step.function)} has {arguments} arguments and "
                f"{'as many results as its last one says' if results is None else results}, but "
                f"{len(step.arguments)} and {len(step.wires)} are declared"
            )


def _name(function: HintFunction) -> str:
    """Return the name of a function, with its file and line if it has code."""
    name = getattr(function, "__qualname__", "a function")
    code = getattr(function, "__code__", None)
    if code is None:
        return name
    return f"{name} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"


def _too_large() -> InputError:
    return InputError(
        f"the circuit is too large for a calculator in WebAssembly, which has {MAX_BYTES >> 20} MiB"
    )


class _Builder:
    """A builder of a calculator's module, which adds tables and functions in order."""

    def __init__(
        self, circuit: TracedCircuit, blocks: Sequence[Block], schedule: Schedule
    ) -> None:  # fmt: skip
        self._circuit, self._blocks, self._schedule = circuit, blocks, schedule
        self._module = Module()
        self._interface = Interface(self._module)
        self._memory = Memory(self._module)
        self._coefficients = Coefficients(circuit.field.value)
        self._locations: dict[str, int] = {}

    def encoded(self) -> bytes:
        """Return the module's bytes."""
        module, memory, circuit = self._module, self._memory, self._circuit
        arithmetic = Arithmetic(module, memory, circuit.field)
        stages = self._schedule.stages
        programs = [program_stream(stage.program, self._coefficients) for stage in stages]
        rows = [rows_to_check(block) for block in self._blocks]
        row_streams = [
            row_stream(block, block_rows, self._coefficients)
            for block, block_rows in zip(self._blocks, rows, strict=True)
        ]
        locations_of_rows: list[Stream] = [
            [self._location(block, row) for row in block_rows]
            for block, block_rows in zip(self._blocks, rows, strict=True)
        ]
        # Units also hold the indices of coefficients and locations.
        unit = unit_of([*programs, *row_streams, *locations_of_rows])
        registers = max([5, *[stage.program.registers for stage in stages]])
        addresses = Addresses(
            unit, memory.reserve(registers * arithmetic.register_bytes),
            memory.add(b"".join(map(arithmetic.montgomery, self._coefficients.numbers))),
            memory.reserve(circuit.counts.wires * arithmetic.word_bytes),
            _triple([memory.reserve(arithmetic.register_bytes) for _ in range(3)]),
        )  # fmt: skip
        tables = [
            memory.add(copy_table(part).astype("<u4").tobytes())
            for part in self._schedule.parts.parts
        ]
        program_addresses = {
            stage: memory.add(encoded(stream, unit))
            for stage, stream in zip(stages, programs, strict=True)
        }
        runs = [
            Run(program_addresses[stage_run.stage], *self._copy_table(tables, stage_run.part, copy))
            for wave in self._schedule.waves
            for stage_run in wave.stages
            for copy in stage_run.copies.tolist()
        ]
        checks = []
        for index, part in enumerate(self._schedule.parts.parts):
            if rows[index]:
                stream = memory.add(encoded(row_streams[index], unit))
                locations = memory.add(encoded(locations_of_rows[index], unit))
                checks += [
                    (Run(stream, *self._copy_table(tables, index, copy)), locations)
                    for copy in range(part.copies)
                ]
        integers = Integers(module, arithmetic.words)
        hints = HintFunctions(module, memory, arithmetic, integers)
        interpreter = Interpreter(module, arithmetic, integers, hints, addresses)
        self._interface.add(
            memory, arithmetic, hints, interpreter,
            Tables(
                circuit.counts.wires, addresses, self._inputs(), runs, checks,
                list(self._locations),
            ),
        )  # fmt: skip
        if memory.size > MAX_BYTES:
            raise _too_large()
        return module.encoded(memory.size)

    def _copy_table(self, tables: Sequence[int], part: int, copy: int) -> tuple[int, int]:
        """Return the address of a copy's table, and the number of its fixed columns."""
        fixed = self._part(part).table.shape[1]
        return tables[part] + 4 * copy * (fixed + 1), fixed

    def _part(self, part: int) -> Part:
        return self._schedule.parts.parts[part]

    def _inputs(self) -> dict[str, list[int]]:
        """Return the wires of each input, in the order of a witness."""
        public = self._circuit.counts.public
        return {
            name: wire_indices(np.array(declaration.wires, np.int64), public).tolist()
            for name, declaration in self._circuit.inputs.items()
        }

    def _location(self, block: Block, row: int) -> int:
        """Return the index of a row's location, in the form of circom's messages."""
        system = block.system
        line = source_line(system.row_codes[row], system.row_instructions[row])
        match = _FILE_AND_LINE.fullmatch(line)
        assert match is not None
        text = f"Error in {_UNSAFE_CHARACTER.sub('_', match[1])} line: {match[2]}"
        if namespace := path_name(system, system.row_paths[row]):
            text += f", in {namespace}"
        return self._locations.setdefault(text, len(self._locations))


def _triple(addresses: Sequence[int]) -> tuple[int, int, int]:
    first, second, third = addresses
    return first, second, third
