"""Witnesses of a circuit: step by step for the first input, then by a compiled program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.field.array import Words, integers_to_words
from quod.field.moduli import Modulus
from quod.r1cs.executor import ProgramRunner, RowChecker
from quod.r1cs.inputs import Inputs, all_checked, input_values, with_input_index
from quod.r1cs.resident_witness import ResidentWitness, ResidentWitnesses
from quod.r1cs.shape import Counts, Shape
from quod.r1cs.system import ConstraintSystem
from quod.r1cs.witness_program.cached import cached_program, program_of
from quod.r1cs.witness_program.instructions import Program
from quod.r1cs.witness_program.lowering import lowered
from quod.r1cs.witness_program.replay import in_order, replayed
from quod.r1cs.witness_program.steps import Input

# From this many steps on, a compiled program pays: for fewer, compiling takes longer than a
# witness.
_MIN_COMPILED_STEPS = 1000


class TracedCircuit(Protocol):
    """The attributes of a circuit that witness programs use.

    A cached circuit traces its system on first use of `system`.
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
    def shape(self) -> Shape:
        """The constraints as matrices."""
        ...

    @property
    def system(self) -> ConstraintSystem:
        """The traced system with its steps."""
        ...


class WitnessProgram:
    """The computation of a circuit's witnesses from inputs, and the check of its constraints."""

    def __init__(self, circuit: TracedCircuit, program: Program | None = None) -> None:
        """Initialise with a circuit and, if it is cached, its program."""
        self._circuit, self._loaded = circuit, program
        self._large = circuit.counts.steps >= _MIN_COMPILED_STEPS
        self._cache_unread = self._large
        self._resident: dict[AnyDevice, ResidentWitnesses] = {}

    @cached_property
    def runner(self) -> ProgramRunner:
        """The compiled program."""
        return ProgramRunner(self._program, self._circuit.field)

    @property
    def _program(self) -> Program:
        """The program, lowered on first use; that of a large circuit is cached."""
        if self._loaded is None:
            system = self._circuit.system
            self._loaded = program_of(system) if self._large else lowered(system)
        return self._loaded

    @cached_property
    def checker(self) -> RowChecker:
        """The kernels that check constraints."""
        return RowChecker(self._circuit.shape, self._circuit.field)

    def prepare(self) -> None:
        """Compile the program and the checker now."""
        self._cache_unread = False
        _ = self.runner, self.checker

    @property
    def is_prepared(self) -> bool:
        """True if the program is compiled."""
        return self._loaded is not None or "runner" in self.__dict__

    def values(self, inputs: Sequence[Inputs]) -> Words:
        """Compute all wires for each input; return integers, (inputs, wires, words) u32."""
        if len(inputs) == 1 and not self.is_prepared:
            if not self._large:
                return self._step_by_step(inputs)
            if self._cache_unread:
                self._cache_unread = False
                self._loaded = cached_program(self._circuit.system)
                if self._loaded is None:
                    return self._step_by_step(inputs)
        numbers = all_checked(self._circuit.inputs, inputs, self._circuit.field.value)
        values, divide = self.runner.run(numbers)
        for index in np.flatnonzero(divide).tolist():
            # If an input divides by 0, the steps in Python define the witness.
            values[index] = self._witness_by_steps(inputs, index)
        return values

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

    def failing_in(
        self, memories: Sequence[Buffer], wires: int, device: AnyDevice
    ) -> list[list[int]]:
        """Return the rows that fail, for each witness in a device's buffers."""
        return _true_indices(self._on(device).failing(memories, wires))

    def _on(self, device: AnyDevice) -> ResidentWitnesses:
        """Return the computation of resident witnesses on a device."""
        circuit = self._circuit
        resident = self._resident.get(device)
        if resident is None:
            resident = ResidentWitnesses(
                device, circuit.curve, circuit.field, self._program, circuit.shape
            )
            # Drop closed devices, so that they can be freed.
            others = list(self._resident.items())
            open_devices = {other: cached for other, cached in others if not other.space.is_lost}
            self._resident = {**open_devices, device: resident}
        return resident

    def _witness_by_steps(self, inputs: Sequence[Inputs], index: int) -> Words:
        with with_input_index(index, len(inputs)):
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
        return _true_indices(self.checker.failing(witnesses))


def _true_indices(failing: NDArray[np.bool_]) -> list[list[int]]:
    """Return, for each row of the mask, the indices at which it is true."""
    return [np.flatnonzero(mask).tolist() for mask in failing]
