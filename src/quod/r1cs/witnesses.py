"""Witnesses of a circuit: step by step for the first input, then by compiled programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.errors import InputError
from quod.field.array import Words, integers_to_words
from quod.field.moduli import Modulus
from quod.r1cs.executor import WitnessRunner
from quod.r1cs.inputs import Inputs, all_checked, input_values, input_wires, with_input_index
from quod.r1cs.repetition.flattening import MAX_ROWS
from quod.r1cs.repetition.parts import Parts, parts_of
from quod.r1cs.repetition.row_checks import RowChecker
from quod.r1cs.repetition.schedule import Schedule, schedule_of, wave_count
from quod.r1cs.resident_witness import ResidentWitness, ResidentWitnesses
from quod.r1cs.shape import Counts
from quod.r1cs.system import ConstraintSystem
from quod.r1cs.traced import Block
from quod.r1cs.witness_program.cached import cached_program, program_of
from quod.r1cs.witness_program.instructions import Program
from quod.r1cs.witness_program.lowering import lowered
from quod.r1cs.witness_program.replay import in_order, replayed
from quod.r1cs.witness_program.steps import Input, Step

# From this many steps on, a compiled program pays: for fewer, compiling takes longer than a
# witness.
_MIN_COMPILED_STEPS = 1000
# The smallest mean number of steps of a wave; below it, a launch takes longer than its work.
_MIN_WAVE_STEPS = 100


class TracedCircuit(Protocol):
    """The attributes of a circuit that witness programs use.

    A cached circuit traces its system on first use of `system` or `traced`.
    """

    @property
    def field(self) -> Modulus:
        """The field of the values."""
        ...

    @property
    def curve(self) -> str:
        """The name of the curve whose scalar field is `field`."""
        ...

    @property
    def inputs(self) -> Mapping[str, Input]:
        """The inputs by name."""
        ...

    @property
    def counts(self) -> Counts:
        """The sizes of the circuit, such as its number of steps."""
        ...

    @property
    def parts(self) -> Parts:
        """The constraints of each repeated function once."""
        ...

    @property
    def system(self) -> ConstraintSystem:
        """The traced system with the rows and steps of all placements."""
        ...

    @property
    def traced(self) -> ConstraintSystem:
        """The traced system with its placements."""
        ...


class WitnessProgram:
    """The computation of a circuit's witnesses from inputs, and the check of its constraints."""

    def __init__(self, circuit: TracedCircuit, schedule: Schedule | None = None) -> None:
        """Initialise with a circuit and, if it is cached, its schedule."""
        self._circuit, self._loaded = circuit, schedule
        self._large = circuit.counts.steps >= _MIN_COMPILED_STEPS
        self._cache_unread = self._large
        self._resident: dict[AnyDevice, ResidentWitnesses] = {}

    @cached_property
    def runner(self) -> WitnessRunner:
        """The compiled programs."""
        return self._runner(None)

    def _runner(self, device: AnyDevice | None) -> WitnessRunner:
        circuit = self._circuit
        wires = input_wires(circuit.inputs, circuit.counts.public)
        return WitnessRunner(self.schedule, wires, circuit.field, device)

    @property
    def schedule(self) -> Schedule:
        """The programs in their order, lowered on first use; those of large blocks are cached."""
        if self._loaded is None:
            circuit = self._circuit
            system, parts = circuit.traced, circuit.parts
            if system.placements and system.rows <= MAX_ROWS:
                if wave_count(system) * _MIN_WAVE_STEPS > circuit.counts.steps:
                    system = circuit.system
                    parts = parts_of(system)
            self._loaded = schedule_of(system, parts, _program)
        return self._loaded

    @cached_property
    def checker(self) -> RowChecker:
        """The kernels that check constraints."""
        return RowChecker(self._circuit.parts, self._circuit.field)

    def prepare(self) -> None:
        """Compile the programs and the checker now."""
        self._cache_unread = False
        _ = self.runner, self.checker

    @property
    def is_prepared(self) -> bool:
        """True if the programs are compiled, and for large circuits of blocks, which soon are."""
        if self._loaded is not None or "runner" in self.__dict__:
            return True
        return self._large and bool(self._circuit.traced.placements)

    def values(self, inputs: Sequence[Inputs]) -> Words:
        """Compute all wires for each input; return integers, (inputs, wires, words) u32."""
        if len(inputs) == 1 and not self.is_prepared:
            if not self._large:
                return self._step_by_step(inputs)
            if self._cache_unread:
                self._cache_unread = False
                self._loaded = self._cached()
                if self._loaded is None:
                    return self._step_by_step(inputs)
        numbers = all_checked(self._circuit.inputs, inputs, self._circuit.field.value)
        values, divide = self.runner.run(numbers)
        for index in np.flatnonzero(divide).tolist():
            # If an input divides by 0, the steps in Python define the witness.
            values[index] = self._witness_by_steps(inputs, index)
        return values

    def _cached(self) -> Schedule | None:
        """Return the schedule of a circuit without blocks if its program is in the cache."""
        system = self._circuit.system
        block = Block(system, 0, None)
        program = cached_program(block, system.steps)
        if program is None:
            return None
        return schedule_of(system, self._circuit.parts, lambda _block, _steps: program)

    def resident(
        self, inputs: Sequence[Inputs], device: AnyDevice
    ) -> tuple[list[ResidentWitness], list[Buffer]]:
        """Compute witnesses in a device's memory; return them and the buffers that hold them."""
        circuit = self._circuit
        numbers = all_checked(circuit.inputs, inputs, circuit.field.value)
        witnesses, memories, divide = self._on(device).make(numbers)
        for index in divide:
            # If an input divides by 0, the steps in Python define the witness.
            device.upload(self._witness_by_steps(inputs, index), into=witnesses[index].memory)
        return witnesses, memories

    def failing_in(self, memories: Sequence[Buffer], device: AnyDevice) -> list[list[int]]:
        """Return the rows that fail, for each witness in a device's buffers."""
        return self._on(device).failing(memories)

    def _on(self, device: AnyDevice) -> ResidentWitnesses:
        """Return the computation of resident witnesses on a device."""
        resident = self._resident.get(device)
        if resident is None:
            resident = ResidentWitnesses(self._circuit.curve, self._runner(device))
            # Drop closed devices, so that they can be freed.
            others = list(self._resident.items())
            open_devices = {other: cached for other, cached in others if not other.space.is_lost}
            self._resident = {**open_devices, device: resident}
        return resident

    def _witness_by_steps(self, inputs: Sequence[Inputs], index: int) -> Words:
        with with_input_index(index, len(inputs)):
            if self._circuit.counts.constraints > MAX_ROWS:
                raise InputError(
                    "the circuit divides by 0 for these inputs; a circuit of more than "
                    f"{MAX_ROWS} constraints has no witness for them"
                )
            values: Words = self._step_by_step([inputs[index]])[0]
        return values

    def _step_by_step(self, inputs: Sequence[Inputs]) -> Words:
        """Compute witnesses in Python, by the steps of the traced system."""
        system = self._circuit.system
        values = [
            in_order(
                system, replayed(system, input_values(system.inputs, assignment, system.prime))
            )
            for assignment in inputs
        ]
        words = integers_to_words(
            system.field, [value for wire_values in values for value in wire_values]
        )
        return words.reshape(len(inputs), -1, system.field.words)

    def failing(self, witnesses: Words) -> list[list[int]]:
        """Return the rows that fail, for each witness as `values` returns it."""
        return self.checker.failing(np.ascontiguousarray(witnesses), len(witnesses))


def _program(block: Block, steps: Sequence[Step]) -> Program:
    """Return the program of steps of a block; one of many steps is cached."""
    if len(steps) >= _MIN_COMPILED_STEPS:
        return program_of(block, steps)
    return lowered(block, steps)
