"""A kernel as PTX, with the parameter layout and requirements of its launch."""

from __future__ import annotations

from collections.abc import Sequence

from quod.codegen.ptx.types import parameter_type
from quod.frozen import frozen
from quod.kernel.ir.nodes import Function, Location
from quod.kernel.ir.types import Type


@frozen
class ParameterSlot:
    """The offset and size in bytes of a parameter in a launch's argument buffer.

    Parameters have natural size and alignment; a pointer is a 64-bit address, a bool one byte.
    """

    offset: int
    size: int


def parameter_layout(parameters: Sequence[Type]) -> list[ParameterSlot]:
    """Lay out a kernel's parameters, in order."""
    slots, end = [], 0
    for type_ in parameters:
        size = type_.bytes
        offset = -(-end // size) * size
        slots.append(ParameterSlot(offset, size))
        end = offset + size
    return slots


def result_layout(function: Function) -> tuple[list[ParameterSlot], int]:
    """Lay out the results of a function in the bytes it returns; also returns their total size."""
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

    text: the module.
    entry: the kernel's name in the module.
    parameters: the layout of the launch's argument buffer.
    dynamic_shared_bytes: shared memory to request at the launch; 0 if declared in the text.
    lines: for each line of the text, its Python line or None.
    moves_registers: True if the text uses setmaxnreg. Linkers drop it (remark C7504), so the driver
        must load the PTX itself.
    """

    text: str
    entry: str
    parameters: tuple[ParameterSlot, ...]
    dynamic_shared_bytes: int
    lines: tuple[Location | None, ...]
    moves_registers: bool = False

    def source_of(self, line: int) -> Location | None:
        """Return the Python line of a line of the text, numbered from 1."""
        return self.lines[line - 1] if 1 <= line <= len(self.lines) else None
