"""PTX for NVIDIA GPUs: one instance a thread, 32 of them a warp.

A kernel becomes one module with one entry point. Values are virtual registers, of which there is
no end: the assembler allocates. Small device functions are copied to their callers (see
`ptx_inline`), others become `.func`s with parameters in parameter space.

`.version` is the lowest that knows the architecture and the instructions used, so that the oldest
driver possible takes the text. `.target` has the letter `a` only where an instruction needs it;
none of those emitted so far does. Sources: PTX ISA 9.0.
"""

from __future__ import annotations

import re

from quod.codegen.ptx import memory as ptx_memory
from quod.codegen.ptx import rules as ptx_rules
from quod.codegen.ptx.control import emit_control
from quod.codegen.ptx.facts import BASE_ALIGNMENT, Facts
from quod.codegen.ptx.inline import inlined_functions
from quod.codegen.ptx.machine import DEFAULT_ARCH, architecture, ptx_machine
from quod.codegen.ptx.module import ParameterSlot, PtxModule, parameter_layout
from quod.codegen.ptx.rules import (
    REGISTER_TYPES,
    bits_or_float,
    constant_text,
    register_kind,
    suffix,
)
from quod.codegen.rules import rule_of
from quod.errors import KernelError
from quod.kernel import types
from quod.kernel.ir import Block, Function, Kernel, Location, Op, walk
from quod.kernel.machine import DEFAULT_SHARED_BYTES, Machine
from quod.kernel.registry import default_machines, emitters
from quod.kernel.types import PointerType, Type
from quod.kernel.uniformity import Uniformity
from quod.kernel.value import Value

ENTRY_PREFIX = "quod_"
"""Before the names of entry points and functions: PTX reserves the names of its instructions."""


def emit(kernel: Kernel, machine: Machine) -> str:
    """The PTX text of one kernel."""
    return translate(kernel, machine).text


emitters["ptx"] = emit
default_machines["ptx"] = ptx_machine


def translate(kernel: Kernel, machine: Machine) -> PtxModule:
    """The PTX of one kernel, with what its launch needs and the Python line of each line.

    KernelError where the machine's architecture is not known or lacks what the kernel uses.
    """
    return ModuleEmitter(kernel, machine).module()


class ModuleEmitter:
    """One kernel's module: its entry point and the functions that it calls."""

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
        self._version = self.architecture.version
        self._shared_bytes = 0
        self._tables: list[str] = []
        self._functions: dict[int, str] = {}
        self._text: list[str] = []
        self._where: list[Location | None] = []

    def require(self, version: tuple[int, int]) -> None:
        """Notes that an instruction is known from this PTX version on."""
        self._version = max(self._version, version)

    def place_shared(self, op: Op) -> int:
        """The byte in shared memory where an array begins."""
        pointer = op.results[0].type
        assert isinstance(pointer, PointerType)
        offset = -(-self._shared_bytes // BASE_ALIGNMENT) * BASE_ALIGNMENT
        self._shared_bytes = offset + pointer.element.bytes * int(op.attributes["count"])
        if self._shared_bytes > self.architecture.shared_bytes:
            raise KernelError(
                f"{op.location}: the kernel needs {self._shared_bytes} bytes of shared memory, and "
                f"{self.architecture.name} has {self.architecture.shared_bytes}"
            )
        return offset

    def table(self, data: bytes) -> str:
        """The name of an array that is part of the module."""
        name = f"table{len(self._tables)}"
        numbers = ", ".join(map(str, data))
        self._tables.append(
            f".global .align {BASE_ALIGNMENT} .b8 {name}[{len(data)}] = {{{numbers}}};"
        )
        return name

    def module(self) -> PtxModule:
        entry = ENTRY_PREFIX + _clean(self.kernel.name)
        self._emit_entry(entry)
        dynamic = self._shared_bytes if self._shared_bytes > DEFAULT_SHARED_BYTES else 0
        head = self._head(dynamic)
        slots = parameter_layout([value.type for value in self.kernel.block.arguments])
        lines = (*[None] * len(head), *self._where)
        return PtxModule(
            "\n".join([*head, *self._text]) + "\n", entry, tuple(slots), dynamic, lines
        )

    def _head(self, dynamic: int) -> list[str]:
        major, minor = self._version
        lines = [
            f"// {self.kernel.name}: workgroups of {self.kernel.workgroup_size}",
            f".version {major}.{minor}",
            f".target {self.architecture.name}",
            ".address_size 64",
            "",
        ]
        if dynamic:
            lines += [f".extern .shared .align {BASE_ALIGNMENT} .b8 shared_memory[];", ""]
        elif self._shared_bytes:
            size = self._shared_bytes
            lines += [f".shared .align {BASE_ALIGNMENT} .b8 shared_memory[{size}];", ""]
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
        body = BodyEmitter(self, uniformity, kernel.location)
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
        if kernel.resident:
            self._append(f".minnctapersm {kernel.resident}", kernel.location)
        self._append("{")
        self._append_body(body)
        self._append("}")

    def function(self, function: Function) -> str:
        """The name of a device function that is called; it is emitted before its first caller."""
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
        body = BodyEmitter(self, uniformity, function.location)
        declared = []
        for number, argument in enumerate(block.arguments):
            declared.append(f"  .param .{parameter_type(argument.type)} a{number}")
            body.load_parameter(argument, f"[a{number}]", in_memory=False)
        body.emit_block(block)
        body.at(function.location)
        slots, size = result_layout(function)
        for slot, value in zip(slots, block.yielded, strict=True):
            stored = body.as_parameter(value)
            kind = parameter_type(value.type)
            body.line(f"st.param.{kind} [result+{slot.offset}], {stored};")
        body.line("ret;")
        gives = f"(.param .align {BASE_ALIGNMENT} .b8 result[{size}]) " if size else ""
        self._append(f".func {gives}{name}(", function.location)
        for number, text in enumerate(declared):
            self._append(text + ("," if number < len(declared) - 1 else ""), function.location)
        self._append(")", function.location)
        self._append("{")
        self._append_body(body)
        self._append("}")
        self._append("")


def _clean(name: str) -> str:
    """A name with the letters that PTX allows in one."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _entry_parameter(type_: Type) -> str:
    if isinstance(type_, PointerType):
        return f".param .u64 .ptr .global .align {BASE_ALIGNMENT}"
    return ".param .u8" if type_ is types.bool_ else f".param .{suffix(type_)}"


def parameter_type(type_: Type) -> str:
    """How a value is passed to a device function: a bool as a word."""
    return "b32" if type_ is types.bool_ else bits_or_float(type_)


def result_layout(function: Function) -> tuple[list[ParameterSlot], int]:
    """Where the results of a function lie in the bytes that it returns, and how many those are."""
    slots, end = [], 0
    for value in function.block.yielded:
        size = 8 if parameter_type(value.type) in ("b64", "f64") else 4
        offset = -(-end // size) * size
        slots.append(ParameterSlot(offset, size))
        end = offset + size
    return slots, end


class BodyEmitter:
    """The body of an entry point or a function."""

    def __init__(self, module: ModuleEmitter, uniformity: Uniformity, location: Location) -> None:
        self.module = module
        self.uniformity = uniformity
        self.facts = Facts(module.kernel.workgroup_size)
        self.names: dict[Value, str] = {}
        self.borrow_masks: dict[Value, str] = {}
        """The mask of each number that was made of a borrow: all ones where it is 1."""
        self.lines: list[str] = []
        self.where: list[Location | None] = []
        self._location = location
        self._counts = dict.fromkeys(REGISTER_TYPES, 0)
        self._labels = 0
        self._private: list[str] = []
        self._known: list[dict[tuple[str, str], str]] = [{}]

    # --- text

    def private_array(self, nbytes: int) -> str:
        """The name of an array of the instance."""
        name = f"private{len(self._private)}"
        self._private.append(f"  .local .align {BASE_ALIGNMENT} .b8 {name}[{nbytes}];")
        return name

    def declarations(self) -> list[str]:
        return self._private + [
            f"  .reg .{REGISTER_TYPES[kind]} %{kind}<{count}>;"
            for kind, count in self._counts.items()
            if count
        ]

    def at(self, location: Location) -> None:
        """The Python line that the next lines come from."""
        self._location = location

    def line(self, text: str) -> None:
        self.lines.append("  " + text)
        self.where.append(self._location)

    def mark(self) -> int:
        """The place after the last line."""
        return len(self.lines)

    def checkpoint(self) -> tuple[int, dict[str, int]]:
        """What `rewind` goes back to."""
        return len(self.lines), dict(self._counts)

    def rewind(self, checkpoint: tuple[int, dict[str, int]]) -> None:
        """Forgets the lines and registers since a checkpoint."""
        begin, self._counts = checkpoint
        del self.lines[begin:], self.where[begin:]

    def guard(self, begin: int, end: int, predicate: str) -> None:
        """Puts a predicate before the lines between two places."""
        for at in range(begin, end):
            self.lines[at] = f"  {predicate} {self.lines[at][2:]}"

    def new_label(self, hint: str) -> str:
        self._labels += 1
        return f"{hint}{self._labels}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.where.append(self._location)

    def new(self, kind: str) -> str:
        """A register that nothing has used."""
        count = self._counts[kind]
        self._counts[kind] = count + 1
        return f"%{kind}{count}"

    def fresh(self, kind: str, instruction: str, operands: str) -> str:
        """Appends an instruction; gives the register of its result."""
        register = self.new(kind)
        self.line(f"{instruction} {register}, {operands};")
        return register

    def shared_result(self, kind: str, instruction: str, operands: str) -> str:
        """The register of an instruction's result, which an instruction before may have set.

        For address arithmetic, which the ops do not show and hence could not share.
        """
        key = (instruction, operands)
        for known in reversed(self._known):
            if key in known:
                return known[key]
        register = self._known[-1][key] = self.fresh(kind, instruction, operands)
        return register

    def define(self, value: Value, instruction: str, operands: str) -> None:
        """Appends the instruction whose result is a value."""
        self.names[value] = self.fresh(register_kind(value.type), instruction, operands)

    # --- values

    def get(self, value: Value) -> str:
        """The operand text of a value; predicates have no constants."""
        number = value.constant
        if number is None:
            return self.names[value]
        text = constant_text(number, value.type)
        return self.fresh("p", "mov.pred", text) if value.type is types.bool_ else text

    def register(self, value: Value) -> str:
        """A register that holds a value."""
        text = self.get(value)
        if value.constant is None or value.type is types.bool_:
            return text
        return self.fresh(register_kind(value.type), f"mov.{bits_or_float(value.type)}", text)

    def require(self, op: Op, version: tuple[int, int], capability: int) -> None:
        """Notes what an op needs; KernelError where the architecture is older."""
        architecture = self.module.architecture
        if architecture.capability < capability:
            raise KernelError(
                f"{op.location}: {op.name} needs sm_{capability} or newer, and the kernel is for "
                f"{architecture.name}"
            )
        self.module.require(version)

    # --- ops

    def emit_block(self, block: Block) -> None:
        """Emits the ops of a region; what it yields is left to the caller."""
        self._known.append({})
        for op in block.ops:
            name = op.name
            if name == "yield" or name == "const":
                continue
            self._location = op.location
            rule = _RULES.get(name)
            if rule is not None:
                rule(self, op)
            elif op.regions:
                emit_control(self, op)
            elif name == "call":
                self._emit_call(op)
            else:
                rule_of(_RULES, op, "PTX")
        self._known.pop()

    def _emit_call(self, op: Op) -> None:
        function: Function = op.attributes["function"]
        if id(function) in self.module.inlined:
            self._emit_inlined(op, function)
            return
        name = self.module.function(function)
        passed = [
            (f"p{number}", parameter_type(value.type), self.as_parameter(value))
            for number, value in enumerate(op.operands)
        ]
        slots, size = result_layout(function)
        self.line("{")
        for parameter, kind, text in passed:
            self.line(f".param .{kind} {parameter};")
            self.line(f"st.param.{kind} [{parameter}], {text};")
        if size:
            self.line(f".param .align {BASE_ALIGNMENT} .b8 returned[{size}];")
        given = ", ".join(parameter for parameter, _, _ in passed)
        self.line(f"call {'(returned), ' if size else ''}{name}, ({given});")
        for slot, result in zip(slots, op.results, strict=True):
            self.load_parameter(result, f"[returned+{slot.offset}]", in_memory=False)
        self.line("}")

    def _emit_inlined(self, op: Op, function: Function) -> None:
        arguments = function.block.arguments
        uniformity, facts = self.uniformity, self.facts
        inner = Facts(self.module.kernel.workgroup_size)
        for argument, operand in zip(arguments, op.operands, strict=True):
            self.names[argument] = self.register(operand)
            if operand.type.kind in ("unsigned", "pointer"):
                maximum = facts.maximum(operand) if operand.type.kind == "unsigned" else None
                inner.assume(argument, facts.multiple(operand), maximum)
        self.uniformity, self.facts = uniformity.inside(op), inner
        self.emit_block(function.block)
        for result, value in zip(op.results, function.block.yielded, strict=True):
            self.names[result] = self.register(value)
            if value.type.kind in ("unsigned", "pointer"):
                facts.assume(result, inner.multiple(value))
        self.uniformity, self.facts = uniformity, facts

    def load_parameter(self, value: Value, place: str, *, in_memory: bool) -> None:
        """Reads a parameter or a result; in memory, that is from outside, a bool is a byte."""
        if value.type is types.bool_:
            word = self.fresh("r", "ld.param.u8" if in_memory else "ld.param.b32", place)
            self.define(value, "setp.ne.u32", f"{word}, 0")
        else:
            kind = suffix(value.type) if in_memory and value.type.kind != "pointer" else (
                bits_or_float(value.type)
            )  # fmt: skip
            self.define(value, f"ld.param.{kind}", place)

    def as_parameter(self, value: Value) -> str:
        """The register that is passed for a value."""
        if value.type is types.bool_:
            return self.fresh("r", "selp.b32", f"1, 0, {self.get(value)}")
        return self.register(value)


_RULES = {**ptx_rules.RULES, **ptx_memory.RULES}
