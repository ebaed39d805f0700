"""PTX for NVIDIA GPUs: an instance is a thread, 32 of them a warp.

A kernel becomes one module with one entry point. Values are virtual registers, which the assembler
allocates. Small device functions are inlined (see `inline`); others become `.func`s with parameters
in parameter space.

`.version` is the lowest that supports the architecture and the instructions used, so that drivers
as old as possible accept the text. `.target` has the suffix `a` only if an instruction needs it.
Source: PTX ISA 9.0.
"""

from __future__ import annotations

import re

from quod.codegen.ptx import carries, control, matrices, memory, rules, subgroups, tiles
from quod.codegen.ptx.body import BodyEmitter
from quod.codegen.ptx.facts import BASE_ALIGNMENT
from quod.codegen.ptx.inline import inlined_functions
from quod.codegen.ptx.machine import DEFAULT_ARCH, architecture
from quod.codegen.ptx.module import PtxModule, parameter_layout, result_layout
from quod.codegen.ptx.types import parameter_type, suffix
from quod.codegen.rules import Rules
from quod.errors import KernelError
from quod.kernel.builder.roles import find_roles, has_roles
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Function, Kernel, Location, Op, walk
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ir.value import Value
from quod.kernel.machine import DEFAULT_SHARED_BYTES, Machine
from quod.kernel.verifier.pointer_roots import array_roots
from quod.kernel.verifier.registers import at_entry
from quod.kernel.verifier.uniformity import Uniformity

TABLES = (
    rules.RULES, carries.RULES, subgroups.RULES, memory.RULES, matrices.RULES, tiles.RULES,
    control.RULES,
)  # fmt: skip
"""The tables of rules, one rule per op."""

RULES = Rules("PTX", TABLES, {})
"""The rule of each op, and the reason for each op without one."""

ENTRY_PREFIX = "quod_"
"""The prefix of entry points and functions: PTX reserves the names of its instructions."""


def emit(kernel: Kernel, machine: Machine) -> str:
    """Emit the PTX text of one kernel."""
    return translate(kernel, machine).text


def translate(kernel: Kernel, machine: Machine) -> PtxModule:
    """Emit the PTX of one kernel, with launch requirements and the Python line of each line.

    KernelError if the machine's architecture is unknown or lacks a feature that the kernel uses.
    """
    return ModuleEmitter(kernel, machine).module()


def _stores_to_tiles(kernel: Kernel) -> bool:
    """Return whether instances may store to shared arrays that tile copies or products access."""
    roots, blocks = array_roots(kernel)
    tile_arrays, stored_arrays = set[Value](), set[Value]()
    for op in (op for block in blocks for op in walk(block)):
        stores = op.definition.access not in (None, "load")
        if stores or op.definition.is_asynchronous:
            arrays = stored_arrays if stores else tile_arrays
            for value in op.operands:
                if isinstance(value.type, PointerType) and value.type.space == "shared":
                    arrays |= roots.get(value, set())
    return not stored_arrays.isdisjoint(tile_arrays)


class ModuleEmitter:
    """The emitter of a kernel's module: the entry point and the functions that it calls."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel = kernel
        self.machine = machine
        self.architecture = architecture(machine.arch or DEFAULT_ARCH)
        self.inlined = inlined_functions(kernel)
        blocks = [kernel.block, *(function.block for function in kernel.functions)]
        self.used_carries: set[Value] = {
            operand
            for block in blocks
            for op in walk(block)
            if op.operands and op.operands[-1].type is types.cc
            for operand in op.operands[-1:]
        }
        self._roles = find_roles(kernel) if has_roles(kernel) else None
        self._moves_registers = False
        self.stores_to_tiles = _stores_to_tiles(kernel)
        self._version = self.architecture.version
        self._specific = False
        self._shared_bytes = 0
        self._shared_alignment = BASE_ALIGNMENT
        self._tables: list[str] = []
        self._functions: dict[int, str] = {}
        self._text: list[str] = []
        self._where: list[Location | None] = []

    def require(self, version: tuple[int, int]) -> None:
        """Require at least a PTX version."""
        self._version = max(self._version, version)

    def require_specific(self) -> None:
        """Require the architecture-specific target, such as ``sm_90a``."""
        self._specific = True

    @property
    def has_roles(self) -> bool:
        return self._roles is not None

    def makes_roles(self, op: Op) -> bool:
        """Return whether an op is a branch that makes roles: each warp takes one side."""
        return self._roles is not None and op in self._roles.branches

    def first_instance(self, op: Op) -> int:
        """Return the index of the first instance that reaches a collective op."""
        return 0 if self._roles is None else self._roles.first_instance(op)

    def registers_at_entry(self) -> int:
        """Return the initial registers per instance, and note that roles redistribute them."""
        self._moves_registers = True
        return at_entry(self.kernel.workgroup_size, self.kernel.resident)

    def place_shared(self, op: Op) -> int:
        """Allocate a shared array; return its byte offset."""
        pointer = op.results[0].type
        assert isinstance(pointer, PointerType)
        alignment = int(op.attributes.get("alignment", BASE_ALIGNMENT))
        self._shared_alignment = max(self._shared_alignment, alignment)
        offset = -(-self._shared_bytes // alignment) * alignment
        self._shared_bytes = offset + pointer.element.bytes * int(op.attributes["count"])
        if self._shared_bytes > self.architecture.shared_bytes:
            raise KernelError(
                f"{op.location}: the kernel needs {self._shared_bytes} bytes of shared memory, and "
                f"{self.architecture.name} has {self.architecture.shared_bytes}"
            )
        return offset

    def table(self, data: bytes) -> str:
        """Add a constant array to the module; return its name."""
        name = f"table{len(self._tables)}"
        numbers = ", ".join(map(str, data))
        self._tables.append(
            f".global .align {BASE_ALIGNMENT} .b8 {name}[{len(data)}] = {{{numbers}}};"
        )
        return name

    def module(self) -> PtxModule:
        entry = ENTRY_PREFIX + _clean(self.kernel.name)
        self._emit_entry(entry)
        dynamic_bytes = self._shared_bytes if self._shared_bytes > DEFAULT_SHARED_BYTES else 0
        head = self._head(dynamic_bytes)
        slots = parameter_layout([value.type for value in self.kernel.block.arguments])
        lines = (*[None] * len(head), *self._where)
        return PtxModule(
            "\n".join([*head, *self._text]) + "\n", entry, tuple(slots), dynamic_bytes, lines,
            self._moves_registers,
        )  # fmt: skip

    def _head(self, dynamic_bytes: int) -> list[str]:
        major, minor = self._version
        lines = [
            f"// {self.kernel.name}: workgroups of {self.kernel.workgroup_size}",
            f".version {major}.{minor}",
            f".target {self.architecture.name}{'a' if self._specific else ''}",
            ".address_size 64",
            "",
        ]
        if dynamic_bytes:
            lines += [f".extern .shared .align {self._shared_alignment} .b8 shared_memory[];", ""]
        elif self._shared_bytes:
            size, alignment = self._shared_bytes, self._shared_alignment
            lines += [f".shared .align {alignment} .b8 shared_memory[{size}];", ""]
        return lines + ([*self._tables, ""] if self._tables else [])

    def _append(self, text: str, location: Location | None = None) -> None:
        self._text.append(text)
        self._where.append(location)

    def _append_body(self, body: BodyEmitter) -> None:
        for line in body.declarations():
            self._append(line)
        self._text += body.lines
        self._where += body.where

    def _emit_entry(self, entry: str) -> None:
        kernel = self.kernel
        uniformity = Uniformity((), trust_loads=False)
        uniformity.visit(kernel.block)
        body = BodyEmitter(self, RULES, uniformity, kernel.location)
        declared = []
        for name, argument in zip(kernel.parameters, kernel.block.arguments, strict=True):
            parameter = f"param_{_clean(name)}"
            declared.append(f"  {_entry_parameter(argument.type)} {parameter}")
            body.load_parameter(argument, f"[{parameter}]", in_memory=True)
            if isinstance(argument.type, PointerType):
                body.facts.assume(argument, BASE_ALIGNMENT)
        body.emit_block(kernel.block)
        body.at(kernel.location)
        body.line("ret;")
        self._append(f".visible .entry {entry}(", kernel.location)
        for number, text in enumerate(declared):
            self._append(text + ("," if number < len(declared) - 1 else ""), kernel.location)
        self._append(")", kernel.location)
        self._append(f".maxntid {kernel.workgroup_size}", kernel.location)
        if kernel.resident or self._moves_registers:
            # Without .minnctapersm the assembler does not know the initial count for setmaxnreg.
            self._append(f".minnctapersm {max(kernel.resident, 1)}", kernel.location)
        if kernel.cluster > 1:
            self._append(".explicitcluster", kernel.location)
            self._append(f".reqnctapercluster {kernel.cluster}, 1, 1", kernel.location)
        self._append("{")
        self._append_body(body)
        self._append("}")

    def function(self, function: Function) -> str:
        """Return the name of a called device function, emitting it before its first caller."""
        key = id(function)
        if key not in self._functions:
            name = f"{ENTRY_PREFIX}{_clean(function.name)}_{len(self._functions)}"
            self._functions[key] = name
            self._emit_function(name, function)
        return self._functions[key]

    def _emit_function(self, name: str, function: Function) -> None:
        block = function.block
        uniformity = Uniformity(block.arguments, trust_loads=False)
        uniformity.visit(block)
        body = BodyEmitter(self, RULES, uniformity, function.location)
        declared = []
        for number, argument in enumerate(block.arguments):
            declared.append(f"  .param .{parameter_type(argument.type)} a{number}")
            body.load_parameter(argument, f"[a{number}]", in_memory=False)
        body.emit_block(block)
        body.at(function.location)
        slots, size = result_layout(function)
        for slot, value in zip(slots, block.yielded, strict=True):
            register = body.as_parameter(value)
            kind = parameter_type(value.type)
            body.line(f"st.param.{kind} [result+{slot.offset}], {register};")
        body.line("ret;")
        result_declaration = f"(.param .align {BASE_ALIGNMENT} .b8 result[{size}]) " if size else ""
        self._append(f".func {result_declaration}{name}(", function.location)
        for number, text in enumerate(declared):
            self._append(text + ("," if number < len(declared) - 1 else ""), function.location)
        self._append(")", function.location)
        self._append("{")
        self._append_body(body)
        self._append("}")
        self._append("")


def _clean(name: str) -> str:
    """Replace the characters of a name that PTX does not allow."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _entry_parameter(type_: Type) -> str:
    if isinstance(type_, PointerType):
        return f".param .u64 .ptr .global .align {BASE_ALIGNMENT}"
    return ".param .u8" if type_ is types.bool_ else f".param .{suffix(type_)}"
