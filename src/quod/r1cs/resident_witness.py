"""Witnesses that are computed in a device's memory and stay there for its prover."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np

from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.field.array import Words
from quod.field.moduli import Modulus
from quod.formats import Witness
from quod.r1cs.executor import WitnessRunner
from quod.r1cs.inputs import InputNumbers
from quod.r1cs.repetition.row_checks import RowChecker
from quod.validation import whole_number

OF_A_CIRCUIT = "the witness of a circuit"
"""The name in messages of a witness that was not read from a file."""


class ResidentWitness(Witness):
    """A witness in a device's memory, which proving keys of that device read there.

    memory: the values in the device's memory.
    values: the values on the host, copied on first use.
    """

    device: AnyDevice
    memory: Buffer
    _modulus: Modulus

    def __init__(self, curve: str, device: AnyDevice, memory: Buffer, modulus: Modulus) -> None:
        # The base class is frozen, so attributes are set through __dict__.
        self.__dict__.update(
            path=OF_A_CIRCUIT, curve=curve, size=memory.nbytes, device=device,
            memory=memory, _modulus=modulus,
        )  # fmt: skip

    def __len__(self) -> int:
        return self.memory.nbytes // self._modulus.bytes

    def __repr__(self) -> str:
        return (
            f"<ResidentWitness over {self.curve}: {len(self)} values in the memory of "
            f"{self.memory.space.name}>"
        )

    def __copy__(self) -> Self:
        # Witnesses are immutable.
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the values, as another process has no access to the memory."""
        return Witness, (self.path, self.curve, self.values, self.size)

    @cached_property
    def values(self) -> Words:
        copy = self.first(len(self))
        # Writes to the copy would not reach device memory.
        copy.flags.writeable = False
        return copy

    def first(self, count: int) -> Words:
        """Copy the first `count` values to the host; raises InputError if there are fewer."""
        count = whole_number("the count of values", count, 0, len(self))
        copy = unwritten(count, self._modulus.words)
        self.device.download(self.memory.slice(0, copy.nbytes), copy)
        check_written(self.device, "a copy of a witness", copy)
        return copy


class ResidentWitnesses:
    """The computation of resident witnesses with a circuit's schedule."""

    def __init__(self, curve: str, runner: WitnessRunner) -> None:
        self._curve, self._runner = curve, runner

    @cached_property
    def _checker(self) -> RowChecker:
        runner = self._runner
        return RowChecker(runner.schedule.parts, runner.modulus, runner.device)

    def make(
        self, inputs: Sequence[InputNumbers]
    ) -> tuple[list[ResidentWitness], list[Buffer], list[int]]:
        """Compute witnesses in the device's memory.

        Returns the witnesses, the buffers that have all of them in order, and the indices of inputs
        that divide by 0, whose values are meaningless.
        """
        runner = self._runner
        memories, divides_by_zero = runner.run_resident(inputs)
        size = runner.witness_bytes
        witnesses = [
            ResidentWitness(
                self._curve, runner.device, memory.slice(start, start + size), runner.modulus
            )
            for memory in memories for start in range(0, memory.nbytes, size)
        ]  # fmt: skip
        return witnesses, memories, np.flatnonzero(divides_by_zero).tolist()

    def failing(self, memories: Sequence[Buffer]) -> list[list[int]]:
        """Return the rows that fail, for each witness in the buffers."""
        size = self._runner.witness_bytes
        return [
            rows
            for memory in memories
            for rows in self._checker.failing(memory, memory.nbytes // size)
        ]
