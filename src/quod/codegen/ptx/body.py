"""The body of one PTX function, as the rules of ops write it: registers, lines and names."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Protocol

from quod.codegen.ptx.facts import BASE_ALIGNMENT, Facts
from quod.codegen.ptx.machine import Architecture
from quod.codegen.ptx.module import result_layout
from quod.codegen.ptx.types import (
    REGISTER_TYPES,
    bits_or_float,
    constant_text,
    parameter_type,
    register_kind,
    suffix,
)
from quod.codegen.rules import Rules
from quod.errors import KernelError
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Block, Function, Kernel, Location, Op
from quod.kernel.ir.value import Value
from quod.kernel.machine import Machine
from quod.kernel.verifier.uniformity import Uniformity


class Module(Protocol):
    """What bodies and rules ask of the module that they write for."""

    kernel: Kernel
    machine: Machine
    architecture: Architecture

    @property
    def inlined(self) -> Container[int]:
        """The identities of the functions that are copied to their callers."""

    @property
    def used_carries(self) -> Container[Value]:
        """The carries that an op takes."""

    def require(self, version: tuple[int, int]) -> None:
        """Notes that an instruction is known from this PTX version on."""

    def require_specific(self) -> None:
        """Notes that an instruction is this architecture's alone."""

    def place_shared(self, op: Op) -> int:
        """The byte in shared memory where an array begins."""

    def table(self, data: bytes) -> str:
        """The name of an array that is part of the module."""

    def function(self, function: Function) -> str:
        """The name of a device function that is called."""

    @property
    def has_roles(self) -> bool:
        """Whether subgroups of the kernel go their own ways."""

    stores_to_tiles: bool
    """Whether instances may store to shared memory that copies or products of tiles reach too."""

    def makes_roles(self, op: Op) -> bool:
        """Whether it is a branch of which each warp takes one side."""

    def first_instance(self, op: Op) -> int:
        """The first instance of those that come to an op together."""

    def registers_at_entry(self) -> int:
        """The registers of an instance, which are now known to be moved between roles."""


class BodyEmitter:
    """The body of an entry point or a function, by the rules that it is given."""

    def __init__(
        self, module: Module, rules: Rules[Rule], uniformity: Uniformity, location: Location
    ) -> None:
        self.module = module
        self.uniformity = uniformity
        self.facts = Facts(module.kernel.workgroup_size)
        self.names: dict[Value, str] = {}
        self.borrow_masks: dict[Value, str] = {}
        """The mask of each number that was made of a borrow: all ones where it is 1."""
        self.lines: list[str] = []
        self.where: list[Location | None] = []
        self._rules = rules
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
            if op.definition.unwritten:
                continue
            self._location = op.location
            self._rules.of(op)(self, op)
        self._known.pop()

    def emit_call(self, op: Op) -> None:
        """A call of a device function, or a copy of it."""
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


Rule = Callable[[BodyEmitter, Op], None]
"""Writes one op."""
