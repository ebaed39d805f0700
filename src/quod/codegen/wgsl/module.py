"""A kernel as WGSL, with the bindings and parameter block of its launch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal

from quod.frozen import frozen
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Location
from quod.kernel.ir.types import Type

WATCH_WORD = 4
"""The index of the word of ``watch`` that a kernel sets if the driver has ended a loop early.

Some drivers leave a loop after a number of iterations; the kernel then sets the word. ``watch`` is
a buffer in bind group 1; only kernels for a machine with ``watched_loops`` have it.
"""

Dialect = Literal["naga", "tint"]
"""The dialect of WGSL: naga's (wgpu) or Tint's (Chromium, Dawn), which differ in extensions."""


@frozen
class Binding:
    """The storage binding of one pointer parameter.

    number: the index of the storage binding; parameters with equal numbers share it.
    offset: True if the launch passes the offset of the memory in the binding, in 32-bit words.
    """

    number: int
    offset: bool = False


@frozen
class Field:
    """A field of the parameter block: the value or offset of kernel parameter `parameter`.

    It begins at 32-bit word `word`.
    """

    kind: Literal["offset", "value"]
    parameter: int
    word: int
    type: Type


@frozen(eq=False)
class WgslModule:
    """The WGSL of one kernel.

    In group 0, binding 0 is a uniform block of `parameter_words` 32-bit words, a multiple of four:
    first the number of workgroups, then the `fields`. Bindings 1 to `storage` are the storage
    bindings, each an array of u32 that is read and written. `lines` has a Python line, or None, for
    each line of the text.

    A launch of n workgroups dispatches (n, 1, 1). If n exceeds the limit of a dimension, it
    dispatches (x, y, 1) with x * y >= n.
    """

    text: str
    entry: str
    workgroup_size: int
    bindings: tuple[Binding, ...]
    storage: int
    parameter_words: int
    fields: tuple[Field, ...]
    dialect: Dialect
    lines: tuple[Location | None, ...]

    def source_of(self, line: int) -> Location | None:
        """Return the Python line of a line of the text, numbered from 1."""
        return self.lines[line - 1] if 1 <= line <= len(self.lines) else None

    def pack(self, groups: int, values: Sequence[int | float]) -> bytes:
        """Pack the parameter block of a launch.

        `values` has one number per kernel parameter. For a pointer it is the offset in words, which
        is ignored if the block has no field for it.
        """
        words = bytearray(4 * self.parameter_words)
        struct.pack_into("<I", words, 0, groups)
        for field in self.fields:
            value = values[field.parameter]
            form = "<I" if field.kind == "offset" else _FORMATS[field.type]
            number = value if form == "<f" else int(value)
            struct.pack_into(form, words, 4 * field.word, number)
        return bytes(words)


_FORMATS = {
    types.bool_: "<I", types.u32: "<I", types.i32: "<i", types.u64: "<Q", types.i64: "<q",
    types.f32: "<f",
}  # fmt: skip
