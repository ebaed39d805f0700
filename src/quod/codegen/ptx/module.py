"""A kernel as PTX, and what its launch needs to know."""

from __future__ import annotations

from collections.abc import Sequence

from quod.codegen.ptx.types import parameter_type
from quod.frozen import frozen
from quod.kernel.ir.nodes import Function, Location
from quod.kernel.ir.types import Type


@frozen
class ParameterSlot:
    """Where a parameter lies in the bytes of a launch's arguments: in natural size and alignment.

    A pointer is its 64-bit address, a bool one byte that is 0 or 1.
    """

    offset: int
    size: int


def parameter_layout(parameters: Sequence[Type]) -> list[ParameterSlot]:
    """The slots of a kernel's parameters, in order."""
    slots, end = [], 0
    for type_ in parameters:
        size = type_.bytes
        offset = -(-end // size) * size
        slots.append(ParameterSlot(offset, size))
        end = offset + size
    return slots


def result_layout(function: Function) -> tuple[list[ParameterSlot], int]:
    """Where the results of a function lie in the bytes that it returns, and how many those are."""
    slots, end = [], 0
    for value in function.block.yielded:
        size = 8 if parameter_type(value.type) in ("b64", "f64") else 4
        offset = -(-end // size) * size
        slots.append(ParameterSlot(offset, size))
        end = offset + size
    return slots, end


@frozen(eq=False)
class PtxModule:
    """The PTX of one kernel.

    `entry` is its name in the module. `dynamic_shared_bytes` is what the launch must ask for: 0
    where the shared memory is declared in the text. `lines` has a Python line, or None, for each
    line of the text. Where it `moves_registers` linkers leave that out (remark C7504), and so the
    driver is to load the text itself.
    """

    text: str
    entry: str
    parameters: tuple[ParameterSlot, ...]
    dynamic_shared_bytes: int
    lines: tuple[Location | None, ...]
    moves_registers: bool = False

    def source_of(self, line: int) -> Location | None:
        """The Python line that a line of the text came from, counted from 1 as assemblers do."""
        return self.lines[line - 1] if 1 <= line <= len(self.lines) else None
