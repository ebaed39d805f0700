"""The text form of a kernel; `quod.kernel.ir.parse` reads it back.

    kernel @saxpy(%n: u32, %a: f32, %x: ptr<f32, global>) workgroup 8 shared 0 {
      %0: u32 = local_id
      %1: bool = lt %0, %n
      if %1 {
        %2: f32 = load %x, %0
        ...
        yield
      } else {
        yield
      }
      yield
    }

Each line is `results = op operands [attributes] regions`. The arguments of a region are in
parentheses before it; `else` and `do` come before the second region of an `if` and of a `while`.
`const` is followed by its value, `shared` and `private` by the count, `call` by the name of the
function. Attributes that follow from the types of the results are omitted. With locations, a line
ends in `at "file":line`.

After `shared`, a kernel's first line has `subgroup`, `resident` and `cluster` if these are not 1, 0
and 1, and `constant` with the names of the constant parameters.
"""

from __future__ import annotations

import json

from quod.kernel.ir.nodes import Block, Function, Kernel, Location, Op
from quod.kernel.ir.value import Value


def to_text(kernel: Kernel, *, locations: bool = False) -> str:
    """Print a kernel and the functions that it calls; `locations` adds each op's Python line."""
    parts = [_function(function, locations) for function in kernel.functions]
    body = _Body(locations)
    for value, name in zip(kernel.block.arguments, kernel.parameters, strict=True):
        body.names[value] = f"%{name}"
    head = (
        f"kernel @{_name(kernel.name)}{body.arguments(kernel.block)} "
        f"workgroup {kernel.workgroup_size} shared {kernel.shared_bytes}"
    )
    if kernel.subgroup_size != 1:
        head += f" subgroup {kernel.subgroup_size}"
    if kernel.resident:
        head += f" resident {kernel.resident}"
    if kernel.cluster > 1:
        head += f" cluster {kernel.cluster}"
    if kernel.constant:
        head += f" constant {', '.join(f'%{name}' for name in kernel.constant)}"
    parts.append(body.text(head, kernel.block, kernel.location))
    return "\n".join(parts)


def _function(function: Function, locations: bool) -> str:
    body = _Body(locations)
    body.define(function.block.arguments)
    results = ", ".join(type_.name for type_ in function.result_types)
    inline = " inline" if function.inline else ""
    head = (
        f"function @{_name(function.name)}{body.arguments(function.block)} -> ({results}){inline}"
    )
    return body.text(head, function.block, function.location)


def _name(name: str) -> str:
    """Quote a name unless it consists of letters, digits, `_` and `.`."""
    letters = name.replace("_", "a").replace(".", "a")
    if letters.isascii() and letters.isalnum() and not name[0].isdigit():
        return name
    return json.dumps(name)


def _literal(value: object) -> str:
    """Print a constant as Python's repr does, so that a float keeps all its digits."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    raise TypeError(f"{value!r} has no text form")


class _Body:
    """The lines of one kernel or function."""

    def __init__(self, locations: bool) -> None:
        self.names: dict[Value, str] = {}
        self._locations = locations
        self._lines: list[str] = []
        self._count = 0

    def text(self, head: str, block: Block, location: Location) -> str:
        self._name_values(block)
        self._lines.append(f"{head}{self._location_text(location)} {{")
        self._block(block, "  ")
        self._lines.append("}")
        return "\n".join(self._lines) + "\n"

    def define(self, values: tuple[Value, ...]) -> None:
        for value in values:
            self.names[value] = f"%{self._count}"
            self._count += 1

    def _name_values(self, block: Block) -> None:
        for op in block.ops:
            self.define(op.results)
            for region in op.regions:
                self.define(region.arguments)
                self._name_values(region)

    def _typed(self, values: tuple[Value, ...]) -> str:
        return ", ".join(f"{self.names[value]}: {value.type.name}" for value in values)

    def arguments(self, block: Block) -> str:
        return f"({self._typed(block.arguments)})"

    def _location_text(self, location: Location) -> str:
        return f" at {json.dumps(location.file)}:{location.line}" if self._locations else ""

    def _block(self, block: Block, indent: str) -> None:
        for op in block.ops:
            line = indent + self._statement(op)
            for index, region in enumerate(op.regions):
                if index:
                    line = f"{indent}}} {op.definition.separator}"
                if region.arguments:
                    line += " " + self.arguments(region)
                self._lines.append(line + " {")
                self._block(region, indent + "  ")
                line = indent + "}"
            self._lines.append(line + self._location_text(op.location))

    def _statement(self, op: Op) -> str:
        words = [op.name]
        row = op.definition
        attributes = {key: value for key, value in op.attributes.items() if key not in row.derived}
        unnamed = attributes.pop(row.unnamed_attribute, None)
        if isinstance(unnamed, Function):
            words.append(f"@{_name(unnamed.name)}")
        elif unnamed is not None:
            words.append(_literal(unnamed))
        if op.operands:
            words.append(", ".join(self.names[value] for value in op.operands))
        if attributes:
            attribute_texts = ", ".join(
                f"{key} = {_literal(value)}" for key, value in attributes.items()
            )
            words.append(f"[{attribute_texts}]")
        results = f"{self._typed(op.results)} = " if op.results else ""
        return results + " ".join(words)
