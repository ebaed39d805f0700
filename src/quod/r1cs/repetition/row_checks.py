"""The check of a circuit's rows in witnesses, by parts, on a device.

A lane is a copy of a part in one of the witnesses. A check is a row of the part in a lane: check c
of n lanes is that of row c // n in lane c % n. Each instance of a launch computes the checks at a
stride from its first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from quod.device.discovery import resolve_device
from quod.device.memory.buffer import Buffer
from quod.device.protocol import AnyDevice
from quod.device.runtime.sentinel import check_written, unwritten
from quod.field.array import Words, from_integers, words_to_integers
from quod.field.moduli import Modulus
from quod.r1cs.kernels import RowTables, failing_rows
from quod.r1cs.lanes import Copies, Lanes
from quod.r1cs.repetition.parts import Part, Parts
from quod.r1cs.tables import copy_table, nonempty, readable

MAX_LISTED = 1 << 16
"""The largest number of failing rows of a witness that are listed."""

# The most checks of a launch; kernels number them with 32 bits.
_MAX_CHECKS = 1 << 31
# The most instances of a launch.
_MAX_INSTANCES = 1 << 20


class RowChecker:
    """The check of a circuit's constraints on witnesses, on a device, by default the CPU."""

    def __init__(self, parts: Parts, modulus: Modulus, device: AnyDevice | None = None) -> None:
        self.parts, self.modulus, self._device_choice = parts, modulus, device
        self._tables_of_part: dict[int, tuple[RowTables, Any]] = {}

    @property
    def device(self) -> AnyDevice:
        """The device; the CPU is resolved at each access, as a failed one is opened again."""
        return self._device_choice or resolve_device("cpu")

    @cached_property
    def _coefficients(self) -> Any:
        values = words_to_integers(self.modulus, self.parts.coefficients)
        radix = self.modulus.montgomery_radix
        words = from_integers(self.modulus, [value * radix for value in values])
        return readable(self.device, nonempty(words))

    def failing(self, witnesses: Words | Buffer, count: int) -> list[list[int]]:
        """Return, for each witness, the rows that fail, at most `MAX_LISTED`.

        witnesses: `count` witnesses of integers, in host memory or in that of the device.
        Raises DeviceError if the device has not written every result.
        """
        failing: list[list[int]] = [[] for _ in range(count)]
        for index, part in enumerate(self.parts.parts):
            lanes = part.copies * count
            checks = len(part.rows) * lanes
            for first in range(0, checks, _MAX_CHECKS):
                last = min(first + _MAX_CHECKS, checks)
                stride = min(last - first, _MAX_INSTANCES)
                if not self._count(index, witnesses, lanes, first, last, stride).any():
                    continue
                for check in self._failing_checks(index, witnesses, lanes, first, last):
                    row, lane = divmod(check, lanes)
                    witness, copy = divmod(lane, part.copies)
                    if len(failing[witness]) < MAX_LISTED:
                        failing[witness].append(int(part.first_row[copy] + part.rows[row]))
        return [sorted(rows) for rows in failing]

    def _failing_checks(
        self, index: int, witnesses: Words | Buffer, lanes: int, first: int, last: int
    ) -> Iterator[int]:
        """Yield the checks of a part that fail, of those from `first` to `last` - 1."""
        for start in range(first, last, _MAX_INSTANCES):
            stop = min(start + _MAX_INSTANCES, last)
            counts = self._count(index, witnesses, lanes, start, stop, stop - start)
            yield from (np.flatnonzero(counts) + start).tolist()

    def _count(
        self, index: int, witnesses: Words | Buffer, lanes: int, first: int, last: int, stride: int
    ) -> Words:
        """Return the number of failing checks of each instance; see `failing_rows`."""
        device, part = self.device, self.parts.parts[index]
        tables, copies = self._tables(index)
        counts = unwritten(stride, 1)
        device.launch(
            device.compile(failing_rows, modulus=self.modulus), -(-stride // device.lanes), first,
            last, stride, len(part.rows),
            Lanes(0, lanes, part.copies, part.table.shape[1], self.parts.wires), tables, copies,
            witnesses, counts,
        )  # fmt: skip
        check_written(device, "which constraints fail", counts)
        return counts[:, 0]

    def _tables(self, index: int) -> tuple[RowTables, Copies]:
        tables = self._tables_of_part.get(index)
        if tables is None:
            device, part = self.device, self.parts.parts[index]
            arrays = [readable(device, nonempty(array)) for array in _row_tables(part)]
            numbers = np.arange(part.copies, dtype=np.uint32)
            tables = self._tables_of_part[index] = (
                RowTables(*arrays, self._coefficients),
                Copies(readable(device, numbers), readable(device, copy_table(part))),
            )
        return tables


def _row_tables(part: Part) -> tuple[Any, Any, Any]:
    """Return the ends, columns and numbers of `RowTables`."""
    sides = part.sides
    starts = np.cumsum([0, *(len(side.column) for side in sides)])
    ends = [side.row_ptr[:-1] + start for side, start in zip(sides, starts, strict=False)]
    return (
        np.concatenate([*ends, starts[-1:]]).astype(np.uint32),
        np.concatenate([side.column for side in sides]),
        np.concatenate([side.number for side in sides]),
    )
