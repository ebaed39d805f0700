"""Tables of a schedule in memory that kernels of a device read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quod.device.protocol import AnyDevice, in_host_memory
from quod.field.array import from_integers
from quod.field.moduli import Modulus
from quod.r1cs.kernels import ProgramTables
from quod.r1cs.lanes import Copies
from quod.r1cs.repetition.parts import Part
from quod.r1cs.repetition.schedule import Schedule, ShortcutCalls, ShortcutRun, Stage, StageRun
from quod.r1cs.shortcuts import tables_of


class ScheduleTables:
    """The tables of a schedule, each uploaded on first use; all for one device."""

    def __init__(self, schedule: Schedule, modulus: Modulus) -> None:
        self._schedule, self._modulus = schedule, modulus
        self._programs: dict[Stage, tuple[ProgramTables, Any]] = {}
        self._shortcuts: dict[ShortcutCalls, list[Any]] = {}
        self._copies: dict[StageRun | ShortcutRun, Copies] = {}
        self._copy_tables: dict[int, Any] = {}

    def of_stage(self, device: AnyDevice, stage: Stage) -> tuple[ProgramTables, Any]:
        """Return the tables of a stage's program, and its outputs."""
        tables = self._programs.get(stage)
        if tables is None:
            program = stage.program
            arrays = (
                program.instructions, nonempty(program.terms),
                nonempty(from_integers(self._modulus, program.coefficients)),
            )  # fmt: skip
            tables = self._programs[stage] = (
                ProgramTables(*[readable(device, array) for array in arrays]),
                readable(device, nonempty(program.outputs)),
            )
        return tables

    def of_calls(self, device: AnyDevice, calls: ShortcutCalls) -> list[Any]:
        """Return the tables of a shortcut's arguments and results, and its own."""
        tables = self._shortcuts.get(calls)
        if tables is None:
            arrays = (calls.arguments, calls.results, *tables_of(calls))
            tables = self._shortcuts[calls] = [readable(device, array) for array in arrays]
        return tables

    def copies(self, device: AnyDevice, run: StageRun | ShortcutRun) -> Copies:
        """Return the table of the copies that run in a wave."""
        copies = self._copies.get(run)
        if copies is None:
            table = self._copy_tables.get(run.part)
            if table is None:
                part = self._schedule.part_of(run)
                table = self._copy_tables[run.part] = readable(device, copy_table(part))
            copies = self._copies[run] = Copies(readable(device, run.copies), table)
        return copies


def copy_table(part: Part) -> NDArray[np.uint32]:
    """Return `Copies.tables` of a part."""
    return np.concatenate([part.first_wire[:, None].astype(np.uint32), part.table], axis=1)


def readable(device: AnyDevice, table: NDArray[Any]) -> Any:
    """Return a table in memory that kernels of the device can read."""
    return table if in_host_memory(device) else device.upload(table)


def nonempty(array: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the array, or one entry of zeros if it is empty, as kernels need an entry."""
    return array if len(array) else np.zeros((1, *array.shape[1:]), np.uint32)
