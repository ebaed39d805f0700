"""The registers that the warps of a workgroup redistribute at run time (setmaxnreg)."""

from __future__ import annotations

import numpy as np

from quod.codegen.ptx.interpreter.arithmetic import Array
from quod.codegen.ptx.interpreter.memory import Memory
from quod.codegen.ptx.interpreter.parse import Instruction, Routine
from quod.kernel.ops.tile import WARPGROUP
from quod.kernel.verifier.registers import at_entry


class Registers:
    """The register counts per instance, which setmaxnreg changes."""

    def __init__(self, entry: Routine, memory: Memory, lanes: int) -> None:
        self._width, self._is_known, self._memory = entry.workgroup_size, entry.resident > 0, memory
        self._initial_count = at_entry(self._width, entry.resident)
        self._counts = np.full(lanes, self._initial_count)
        self._last_instruction: Instruction | None = None

    def move(self, instruction: Instruction, count: int, mask: Array) -> None:
        """Set the register count of the instances in a mask.

        InterpreterError if ``inc`` would lower it or ``dec`` raise it, or if the assembler would
        drop the instruction because the entry has no ``.minnctapersm``.
        """
        if not self._is_known:
            raise instruction.error("is left out, as the entry has no .minnctapersm")
        wrong = self._counts < count if instruction.opcode[1] == "dec" else self._counts > count
        if (wrong & mask).any():
            lane = int(np.argmax(wrong & mask))
            raise self._memory.place(instruction.location).error(
                lane, f"has {self._counts[lane]} registers, and is to have {count}"
            )
        self._counts[mask] = count
        self._last_instruction = instruction

    def check(self) -> None:
        """Raise InterpreterError if the counts exceed the supply or differ in a warpgroup."""
        if self._last_instruction is None:
            return
        totals = self._counts.reshape(-1, self._width).sum(axis=1)
        if (totals > self._initial_count * self._width).any():
            raise self._last_instruction.error(
                f"waits for ever: instances have {totals.max()} registers in all, and there are "
                f"{self._initial_count} for each of {self._width}"
            )
        warpgroup_counts = self._counts[::WARPGROUP].repeat(WARPGROUP)
        if len(warpgroup_counts) != len(self._counts) or (warpgroup_counts != self._counts).any():
            raise self._last_instruction.error(
                "is of whole warpgroups, of which some warps have not come"
            )
