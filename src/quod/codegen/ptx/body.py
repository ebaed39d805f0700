"""The emitter of one PTX function body: registers, lines and names, written by the ops' rules."""

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
    """The interface of the module that bodies and rules emit into."""

    kernel: Kernel
    machine: Machine
    architecture: Architecture

    @property
    def inlined(self) -> Container[int]:
        """The ids of the inlined functions."""

    @property
    def used_carries(self) -> Container[Value]:
        """The carries that some op consumes."""

    def require(self, version: tuple[int, int]) -> None:
        """Require at least a PTX version."""

    def require_specific(self) -> None:
        """Require the architecture-specific target, such as ``sm_90a``."""

    def place_shared(self, op: Op) -> int:
        """Allocate a shared array; return its byte offset."""

    def table(self, data: bytes) -> str:
        """Add a constant array to the module; return its name."""

    def function(self, function: Function) -> str:
        """Return the name of a called device function."""

    @property
    def has_roles(self) -> bool:
        """True if the kernel is warp-specialised."""

    stores_to_tiles: bool
    """True if instances may store to shared arrays that tile copies or products access too."""

    def makes_roles(self, op: Op) -> bool:
        """Return whether an op is a branch that makes roles: each warp takes one side."""

    def first_instance(self, op: Op) -> int:
        """Return the index of the first instance that reaches a collective op."""

    def registers_at_entry(self) -> int:
        """Return the initial registers per instance, and note that roles redistribute them."""


class BodyEmitter:
    """The body of an entry point or function, emitted by a table of rules."""

    def __init__(
        self, module: Module, rules: Rules[Rule], uniformity: Uniformity, location: Location
    ) -> None:
        self.module = module
        self.uniformity = uniformity
        self.facts = Facts(module.kernel.workgroup_size)
        self.names: dict[Value, str] = {}
        self.borrow_masks: dict[Value, str] = {}
        """The mask register, all ones for 1, of each number that was made from a borrow."""
        self.lines: list[str] = []
        self.where: list[Location | None] = []
        self._rules = rules
        self._location = location
        self._counts = dict.fromkeys(REGISTER_TYPES, 0)
        self._labels = 0
        self._private: list[str] = []
        self._shared_registers: list[dict[tuple[str, str], str]] = [{}]

    # --- text

    def private_array(self, nbytes: int) -> str:
        """Declare a private array; return its name."""
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
        """Set the Python line that the next lines are attributed to."""
        self._location = location

    def line(self, text: str) -> None:
        self.lines.append("  " + text)
        self.where.append(self._location)

    def mark(self) -> int:
        """Return the position after the last line."""
        return len(self.lines)

    def checkpoint(self) -> tuple[int, dict[str, int]]:
        """Return the state to pass to `rewind`."""
        return len(self.lines), dict(self._counts)

    def rewind(self, checkpoint: tuple[int, dict[str, int]]) -> None:
        """Discard the lines and registers since a checkpoint."""
        begin, self._counts = checkpoint
        del self.lines[begin:], self.where[begin:]

    def guard(self, begin: int, end: int, predicate: str) -> None:
        """Prefix the lines between two positions with a predicate."""
        for index in range(begin, end):
            self.lines[index] = f"  {predicate} {self.lines[index][2:]}"

    def new_label(self, hint: str) -> str:
        self._labels += 1
        return f"{hint}{self._labels}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.where.append(self._location)

    def new(self, kind: str) -> str:
        """Allocate a new register of a kind."""
        count = self._counts[kind]
        self._counts[kind] = count + 1
        return f"%{kind}{count}"

    def fresh(self, kind: str, instruction: str, operands: str) -> str:
        """Append an instruction; return the register of its result."""
        register = self.new(kind)
        self.line(f"{instruction} {register}, {operands};")
        return register

    def shared_result(self, kind: str, instruction: str, operands: str) -> str:
        """Append an instruction, or reuse the register of an equal earlier one.

        For address arithmetic, which is not in the IR and so is not shared there.
        """
        key = (instruction, operands)
        for registers in reversed(self._shared_registers):
            if key in registers:
                return registers[key]
        register = self._shared_registers[-1][key] = self.fresh(kind, instruction, operands)
        return register

    def define(self, value: Value, instruction: str, operands: str) -> None:
        """Append the instruction that computes a value."""
        self.names[value] = self.fresh(register_kind(value.type), instruction, operands)

    # --- values

    def get(self, value: Value) -> str:
        """Return the operand text of a value: a register or an immediate.

        Predicates are in registers.
        """
        number = value.constant
        if number is None:
            return self.names[value]
        text = constant_text(number, value.type)
        return self.fresh("p", "mov.pred", text) if value.type is types.bool_ else text

    def register(self, value: Value) -> str:
        """Return a register that holds a value, also a constant."""
        text = self.get(value)
        if value.constant is None or value.type is types.bool_:
            return text
        return self.fresh(register_kind(value.type), f"mov.{bits_or_float(value.type)}", text)

    def require(self, op: Op, version: tuple[int, int], capability: int) -> None:
        """Require a PTX version and compute capability; KernelError on older architectures."""
        architecture = self.module.architecture
        if architecture.capability < capability:
            raise KernelError(
                f"{op.location}: {op.name} needs sm_{capability} or newer, and the kernel is for "
                f"{architecture.name}"
            )
        self.module.require(version)

    # --- ops

    def emit_block(self, block: Block) -> None:
        """Emit the ops of a region; the caller handles the yielded values."""
        self._shared_registers.append({})
        for op in block.ops:
            if op.definition.unwritten:
                continue
            self._location = op.location
            self._rules.of(op)(self, op)
        self._shared_registers.pop()

    def emit_call(self, op: Op) -> None:
        """Emit the call of a device function, or inline it."""
        function: Function = op.attributes["function"]
        if id(function) in self.module.inlined:
            self._emit_inlined(op, function)
            return
        name = self.module.function(function)
        call_parameters = [
            (f"p{number}", parameter_type(value.type), self.as_parameter(value))
            for number, value in enumerate(op.operands)
        ]
        slots, size = result_layout(function)
        self.line("{")
        for parameter, kind, text in call_parameters:
            self.line(f".param .{kind} {parameter};")
            self.line(f"st.param.{kind} [{parameter}], {text};")
        if size:
            self.line(f".param .align {BASE_ALIGNMENT} .b8 returned[{size}];")
        names = ", ".join(parameter for parameter, _, _ in call_parameters)
        self.line(f"call {'(returned), ' if size else ''}{name}, ({names});")
        for slot, result in zip(slots, op.results, strict=True):
            self.load_parameter(result, f"[returned+{slot.offset}]", in_memory=False)
        self.line("}")

    def _emit_inlined(self, op: Op, function: Function) -> None:
        arguments = function.block.arguments
        uniformity, facts = self.uniformity, self.facts
        callee_facts = Facts(self.module.kernel.workgroup_size)
        for argument, operand in zip(arguments, op.operands, strict=True):
            self.names[argument] = self.register(operand)
            if operand.type.kind in ("unsigned", "pointer"):
                maximum = facts.maximum(operand) if operand.type.kind == "unsigned" else None
                callee_facts.assume(argument, facts.multiple(operand), maximum)
        self.uniformity, self.facts = uniformity.inside(op), callee_facts
        self.emit_block(function.block)
        for result, value in zip(op.results, function.block.yielded, strict=True):
            self.names[result] = self.register(value)
            if value.type.kind in ("unsigned", "pointer"):
                facts.assume(result, callee_facts.multiple(value))
        self.uniformity, self.facts = uniformity, facts

    def load_parameter(self, value: Value, address: str, *, in_memory: bool) -> None:
        """Load a parameter or result; a bool is a byte `in_memory` (a kernel's), else a word."""
        if value.type is types.bool_:
            word = self.fresh("r", "ld.param.u8" if in_memory else "ld.param.b32", address)
            self.define(value, "setp.ne.u32", f"{word}, 0")
        else:
            kind = suffix(value.type) if in_memory and value.type.kind != "pointer" else (
                bits_or_float(value.type)
            )  # fmt: skip
            self.define(value, f"ld.param.{kind}", address)

    def as_parameter(self, value: Value) -> str:
        """Return the register to pass for a value."""
        if value.type is types.bool_:
            return self.fresh("r", "selp.b32", f"1, 0, {self.get(value)}")
        return self.register(value)


Rule = Callable[[BodyEmitter, Op], None]
"""The emitter of one op."""
