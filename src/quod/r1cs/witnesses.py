"""Witnesses of a circuit: step by step for the first input, then by a compiled program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from quod.field.array import Words, integers_to_words
from quod.formats import SparseMatrix
from quod.r1cs.executor import ProgramRunner, RowChecker
from quod.r1cs.inputs import Inputs, checked_inputs, input_values
from quod.r1cs.lowering import lowered
from quod.r1cs.replay import in_order, replayed
from quod.r1cs.system import ConstraintSystem

# Whoever makes one witness does not wait for a program; neither do small circuits.
_FEW_STEPS = 1000


class WitnessProgram:
    """What a system's inputs become, and which rows of it that satisfies."""

    def __init__(self, system: ConstraintSystem, matrices: Sequence[SparseMatrix]) -> None:
        self.system, self._matrices = system, matrices
        self._asked = len(system.steps) >= _FEW_STEPS

    @cached_property
    def runner(self) -> ProgramRunner:
        """The compiled program."""
        return ProgramRunner(lowered(self.system), self.system.field)

    @cached_property
    def checker(self) -> RowChecker:
        """What looks at the rows."""
        return RowChecker(self._matrices, self.system.field)

    def prepare(self) -> None:
        """Makes now what the second witness of a large circuit would make."""
        self._asked = False
        _ = self.runner, self.checker

    @property
    def is_prepared(self) -> bool:
        """Whether the program is there."""
        return "runner" in self.__dict__

    def values(self, inputs: Sequence[Inputs]) -> Words:
        """The values of all wires for each input, (inputs, wires, words), as integers."""
        system = self.system
        if len(inputs) == 1 and not self.is_prepared:
            alone, self._asked = self._asked, False
            if alone or len(system.steps) < _FEW_STEPS:
                return self._step_by_step(inputs)
        given = [checked_inputs(system.inputs, one, system.prime) for one in inputs]
        found, divide = self.runner.run(given)
        for at in np.flatnonzero(divide).tolist():
            # What follows from a quotient by 0 is as the steps say it.
            found[at] = self._step_by_step([inputs[at]])[0]
        return found

    def _step_by_step(self, inputs: Sequence[Inputs]) -> Words:
        system = self.system
        values = [
            in_order(system, replayed(system, input_values(system.inputs, one, system.prime)))
            for one in inputs
        ]
        words = integers_to_words(system.field, [value for one in values for value in one])
        return words.reshape(len(inputs), -1, system.field.words)

    def failing(self, witnesses: Words) -> list[list[int]]:
        """The rows that each of the witnesses, as `values` gives them, does not satisfy."""
        found = self.checker.failing(witnesses)
        return [np.flatnonzero(one).tolist() for one in found]
