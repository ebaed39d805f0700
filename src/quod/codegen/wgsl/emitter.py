"""Emission of WGSL (W3C, "WebGPU Shading Language") from lowered IR.

This module assembles a WGSL module: parameters, memory, device functions and the kernel itself; a
`BodyEmitter` emits the statements of each. Device functions stay functions: inlining is left to
drivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from quod.codegen.rules import Rules
from quod.codegen.wgsl import control, memory, rules, subgroups
from quod.codegen.wgsl.body import BodyEmitter, Lines
from quod.codegen.wgsl.control import CUT_SHORT
from quod.codegen.wgsl.lowering import LoweredKernel, lower
from quod.codegen.wgsl.module import WATCH_WORD, Binding, Dialect, Field, WgslModule
from quod.codegen.wgsl.types import type_text
from quod.codegen.wgsl.unsupported import UNSUPPORTED
from quod.errors import KernelError
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Function, Kernel, Op, walk
from quod.kernel.ir.types import PointerType, Space, Type
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability, Machine
from quod.kernel.ops.scalar import SUBGROUP

TABLES = (rules.RULES, subgroups.RULES, memory.RULES, control.RULES)
"""The tables of rules, one rule per op."""

RULES = Rules("WGSL", TABLES, UNSUPPORTED)
"""The rule of each op, and the reason for each op without one."""

# WGSL allows 255 parameters of a function; this leaves some margin.
_MAX_PARAMETERS = 250

_SPACES: dict[Space, str] = {"shared": "workgroup", "private": "private"}
"""The WGSL address spaces of declared arrays."""

_HEADER_LANES = "@builtin(local_invocation_index) local_id: u32"
_HEADER_GROUP = "@builtin(workgroup_id) group: vec3<u32>"
_HEADER_GRID = "@builtin(num_workgroups) grid: vec3<u32>"


def emit(kernel: Kernel, machine: Machine) -> str:
    """Emit the WGSL of a traced kernel in Tint's dialect."""
    return translate(kernel, machine, dialect="tint").text


def translate(
    kernel: Kernel,
    machine: Machine,
    *,
    dialect: Dialect,
    bindings: Sequence[Binding] | None = None,
) -> WgslModule:
    """Emit the WGSL of a traced kernel.

    `bindings` has a row per pointer parameter, in order; by default each has its own binding.
    KernelError for features that WGSL lacks, such as 64-bit floats.
    """
    lowered = lower(kernel, machine)
    pointers = [
        index
        for index, argument in enumerate(kernel.block.arguments)
        if isinstance(argument.type, PointerType)
    ]
    rows = tuple(bindings or (Binding(number) for number in range(len(pointers))))
    if len(rows) != len(pointers):
        raise KernelError(f"kernel {kernel.name} has {len(pointers)} pointers, not {len(rows)}")
    return ModuleEmitter(kernel, lowered, machine, dialect, rows).module()


class ModuleEmitter:
    """The emitter of one WGSL module."""

    def __init__(
        self, source: Kernel, lowered: LoweredKernel, machine: Machine, dialect: Dialect,
        rows: tuple[Binding, ...],
    ) -> None:  # fmt: skip
        self.source = source
        self.machine = machine
        self.watches_loops = machine.has(Capability.WATCHED_LOOPS)
        self.dialect = dialect
        self._kernel = lowered.kernel
        self._rows = rows
        self.arrays: dict[Value, tuple[str, str]] = {}
        """The name of each array, and the text to prefix to an index into it."""
        self.atomic: set[Value] = set(lowered.atomic)
        self.exchanges_storage = _exchanges_storage(lowered, rows)
        """True if instances may read values from a buffer that others have stored there."""
        self.structures: dict[tuple[str, ...], str] = {}
        self.helpers: dict[str, str] = {}
        self.function_names: dict[int, str] = {}
        self._function_texts: list[Lines] = []
        self._with_ids: set[int] = set()

    def module(self) -> WgslModule:
        fields, scalar_texts = self._parameters()
        declared = [op for op in self._kernel.block.ops if op.definition.declares]
        for number, op in enumerate(declared):
            self.arrays[op.results[0]] = (f"{op.name}{number}", "")
        body = BodyEmitter(self, RULES)
        body.names.update(scalar_texts)
        body.emit_block(self._kernel.block)
        lines = Lines()
        self._head(lines, declared)
        for function_lines in self._function_texts:
            lines.extend(function_lines)
        lines.add(f"@compute @workgroup_size({self.source.workgroup_size}, 1, 1)")
        lines.add(f"fn main({_HEADER_LANES}, {_HEADER_GROUP}, {_HEADER_GRID}) {{")
        # A launch spread over two dimensions may have surplus workgroups.
        lines.add("  let group_id = group.y * grid.x + group.x;")
        lines.add("  if (group_id >= parameters.words[0].x) { return; }")
        lines.extend(body.lines)
        if self.watches_loops:
            lines.add(f"  if ({CUT_SHORT}) {{ atomicStore(&watch[{WATCH_WORD}], 1u); }}")
        lines.add("}")
        return WgslModule(
            "\n".join(lines.texts) + "\n", "main", self.source.workgroup_size, self._rows,
            self._storage, self._parameter_words, tuple(fields), self.dialect,
            tuple(lines.locations),
        )  # fmt: skip

    def _parameters(self) -> tuple[list[Field], dict[Value, str]]:
        """Return the fields of the parameter block, and the text that reads each lowered scalar."""
        fields: list[Field] = []
        names: dict[Value, str] = {}
        word = 1
        lowered = iter(self._kernel.block.arguments)
        rows = iter(self._rows)
        binding_is_atomic: dict[int, bool] = {}
        for index, argument in enumerate(self.source.block.arguments):
            if isinstance(argument.type, PointerType):
                array, row = next(lowered), next(rows)
                index_prefix = ""
                if row.offset:
                    fields.append(Field("offset", index, word, types.u32))
                    index_prefix = f"{_word(word)} + "
                    word += 1
                self.arrays[array] = (f"buffer{row.number}", index_prefix)
                binding_is_atomic[row.number] = (
                    binding_is_atomic.get(row.number, False) or array in self.atomic
                )
                continue
            fields.append(Field("value", index, word, argument.type))
            for part in self._parts_of(argument.type, lowered):
                names[part] = _parameter_text(part.type, word)
                word += 2 if part.type in (types.u64, types.i64) else 1
        self._binding_is_atomic = binding_is_atomic
        for argument in self._kernel.block.arguments:
            if argument in self.arrays:
                name = self.arrays[argument][0]
                if binding_is_atomic[int(name.removeprefix("buffer"))]:
                    self.atomic.add(argument)
        self._storage = max((row.number + 1 for row in self._rows), default=0)
        self._parameter_words = -(-word // 4) * 4
        return fields, names

    def _parts_of(self, type_: Type, lowered: Iterable[Value]) -> list[Value]:
        parts = iter(lowered)
        first = next(parts)
        if type_ in (types.u64, types.i64) and first.type is not type_:
            return [first, next(parts)]
        return [first]

    def _head(self, lines: Lines, declared: list[Op]) -> None:
        used = {
            op.name
            for block in (self._kernel.block, *(f.block for f in self._kernel.functions))
            for op in walk(block)
        }
        lines.add(f"// Kernel {self.source.name}, written by Quod.")
        if used & set(SUBGROUP) and self.dialect == "tint":
            lines.add("enable subgroups;")
        lines.add(f"struct Parameters {{ words: array<vec4<u32>, {self._parameter_words // 4}> }}")
        lines.add("@group(0) @binding(0) var<uniform> parameters: Parameters;")
        for number in range(self._storage):
            element = "atomic<u32>" if self._binding_is_atomic.get(number) else "u32"
            lines.add(
                f"@group(0) @binding({number + 1}) "
                f"var<storage, read_write> buffer{number}: array<{element}>;"
            )
        if self.watches_loops:
            lines.add("@group(1) @binding(0) var<storage, read_write> watch: array<atomic<u32>>;")
            lines.add(f"var<private> {CUT_SHORT}: bool = false;")
        for op in declared:
            (array,) = op.results
            element = "atomic<u32>" if array in self.atomic else "u32"
            name, count = self.arrays[array][0], op.attributes["count"]
            space = op.definition.declares
            assert space is not None
            if space == "constant":
                data = np.frombuffer(bytes.fromhex(op.attributes["data"]), "<u4")
                numbers = ", ".join(f"{word}u" for word in data)
                lines.add(f"const {name} = array<u32, {count}>({numbers});")
                continue
            lines.add(f"var<{_SPACES[space]}> {name}: array<{element}, {count}>;")
        if "uniform" in used:
            lines.add("var<workgroup> agreed: u32;")
        for members, name in self.structures.items():
            member_texts = ", ".join(f"m{i}: {kind}" for i, kind in enumerate(members))
            lines.add(f"struct {name} {{ {member_texts} }}")
        for text in self.helpers.values():
            lines.add(text)

    def structure(self, members: tuple[str, ...]) -> str:
        """Declare a structure with members m0, m1, ... of these types, once; return its name."""
        return self.structures.setdefault(members, f"Values{len(self.structures)}")

    def helper(self, name: str, text: str) -> str:
        """Add a helper function to the module, once; return its name."""
        self.helpers.setdefault(name, text)
        return name

    def function(self, function: Function, arrays: Sequence[Value]) -> str:
        """Return the name of a device function, emitting it at its first call."""
        key = id(function)
        if key not in self.function_names:
            safe_name = "".join(c if c.isascii() and c.isalnum() else "_" for c in function.name)
            name = f"f{len(self.function_names)}_{safe_name}"
            self.function_names[key] = name
            array_arguments = [
                a for a in function.block.arguments if isinstance(a.type, PointerType)
            ]
            for parameter, array in zip(array_arguments, arrays, strict=True):
                self.arrays[parameter] = self.arrays[array]
                if array in self.atomic:
                    self.atomic.add(parameter)
            self._write_function(name, function)
        return self.function_names[key]

    def _write_function(self, name: str, function: Function) -> None:
        body = BodyEmitter(self, RULES)
        scalars = [a for a in function.block.arguments if not isinstance(a.type, PointerType)]
        lines = Lines(function.location)
        packed = self.packed(scalars)
        parameters = [f"words: array<u32, {len(packed)}>"] if packed else []
        body.names.update({value: f"words[{i}]" for i, value in enumerate(packed)})
        for value in scalars:
            if value not in packed:
                parameter = f"a{len(parameters)}"
                parameters.append(f"{parameter}: {type_text(value.type)}")
                body.names[value] = parameter
        body.emit_block(function.block)
        if body.uses_ids:
            self._with_ids.add(id(function))
            parameters += ["local_id: u32", "group_id: u32"]
        results = [body.text_of(value) for value in function.block.yielded]
        kinds = tuple(type_text(value.type) for value in function.block.yielded)
        arrow = ""
        if len(kinds) == 1:
            arrow = f" -> {kinds[0]}"
            body.lines.add(f"  return {results[0]};")
        elif kinds:
            structure = self.structure(kinds)
            arrow = f" -> {structure}"
            body.lines.add(f"  return {structure}({', '.join(results)});")
        lines.add(f"fn {name}({', '.join(parameters)}){arrow} {{")
        lines.extend(body.lines)
        lines.add("}")
        self._function_texts.append(lines)

    def needs_ids(self, function: Function) -> bool:
        """Return whether an emitted function takes the instance's indices as parameters."""
        return id(function) in self._with_ids

    @staticmethod
    def packed(scalars: Sequence[Value]) -> dict[Value, None]:
        """Select the parameters of u32 to pass in one array, if there are too many for WGSL."""
        if len(scalars) <= _MAX_PARAMETERS:
            return {}
        return {value: None for value in scalars if value.type is types.u32}


def _exchanges_storage(lowered: LoweredKernel, rows: Sequence[Binding]) -> bool:
    """Return whether the kernel both loads and stores through some binding."""
    kernel = lowered.kernel
    pointers = [a for a in kernel.block.arguments if isinstance(a.type, PointerType)]
    binding_numbers = dict(zip(pointers, (row.number for row in rows), strict=True))
    loaded: set[int] = set()
    stored: set[int] = set()
    for block in (kernel.block, *(function.block for function in kernel.functions)):
        for op in walk(block):
            access = op.definition.access
            if access is not None:
                binding = binding_numbers.get(lowered.root(op.operands[0]))
                if binding is None:
                    continue
                if access != "store":
                    loaded.add(binding)
                if access != "load":
                    stored.add(binding)
    return bool(loaded & stored)


def _word(word: int) -> str:
    return f"parameters.words[{word // 4}].{'xyzw'[word % 4]}"


def _parameter_text(type_: Type, word: int) -> str:
    text = _word(word)
    if type_ is types.u32:
        return text
    if type_ is types.bool_:
        return f"({text} != 0u)"
    if type_ in (types.u64, types.i64):
        wide = f"(u64({text}) | (u64({_word(word + 1)}) << 32u))"
        return wide if type_ is types.u64 else f"bitcast<i64>{wide}"
    return f"bitcast<{type_text(type_)}>({text})"
