"""LLVM IR for the CPU: an instance is a SIMD lane, a workgroup a vector.

A value that may differ between instances is a vector of `workgroup_size` lanes; uniform values are
scalars. Divergent control flow becomes masks: a divergent region runs if any instance needs it, and
a mask guards its memory accesses. With one lane everything is scalar and branches stay branches.

The entry point is ``void name(ptr arguments, ptr counter, i64 groups, i64 chunk)``: `arguments`
points to one 8-byte slot per parameter; workers take `chunk` workgroups at a time from `counter`
until `groups` are done.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from quod.codegen.llvm import atomics, control, memory, rules, subgroups
from quod.codegen.llvm.body import BodyEmitter, SpecialisedFunction
from quod.codegen.llvm.private_arrays import interleaved_arrays
from quod.codegen.llvm.types import scalar_name
from quod.codegen.llvm.unsupported import UNSUPPORTED
from quod.codegen.rules import Rules
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Block, Function, Kernel, walk
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value
from quod.kernel.machine import Capability, Machine
from quod.kernel.verifier.uniformity import Uniformity

TABLES = (rules.RULES, memory.RULES, atomics.RULES, subgroups.RULES, control.RULES)
"""The tables of rules, one rule per op."""

RULES = Rules("LLVM", TABLES, UNSUPPORTED)
"""The rule of each op, and the reason for each op without one."""
_ATTRIBUTES = '"min-legal-vector-width"="512" "prefer-vector-width"="512"'


def emit(kernel: Kernel, machine: Machine, *, triple: str = "", register_bits: int = 256) -> str:
    """Emit the LLVM IR module of one kernel.

    triple: the target platform, if known, which allows its own calling conventions for device
        functions. Without it the text is portable.
    register_bits: the width of the target's vector registers, if it has sixteen.
    """
    return ModuleEmitter(kernel, machine, triple, register_bits).text()


# Without AVX-512 there are sixteen vector registers. If all hold arguments or results, LLVM (22.1)
# may lack one to move another value, which ends the process. So two of them get no value. A machine
# without IFMA may have AVX-512, but few functions have so many arguments.
_VECTOR_REGISTERS = 16
_UNUSED_REGISTERS = 2
# Seven of the convention's integer registers are caller-saved. One of them is left out here: it
# holds a hidden pointer if the results do not fit in registers.
_CALLER_SAVED = 6
_NUMBER = re.compile(r"i\d+|ptr")
_MASK = re.compile(r"<(\d+) x i1>")
_VECTOR = re.compile(r"<(\d+) x (\w+)>")
_FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def _in_callee_saved(names: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield each LLVM type with whether its value is passed in a callee-saved register."""
    registers_used = 0
    for name in names:
        mask = _MASK.fullmatch(name)
        registers = -(-int(mask[1]) // 64) if mask else 1 if _NUMBER.fullmatch(name) else 0
        registers_used += registers
        yield name, bool(registers) and registers_used > _CALLER_SAVED


def _vector_registers(part: str, register_bits: int) -> int:
    """Return the number of vector registers of a value, from a text that begins with its type."""
    vector = _VECTOR.match(part)
    if not vector:
        return int(part.partition(" ")[0] in _FLOAT_BITS)
    element_bits = {**_FLOAT_BITS, "ptr": 64}.get(vector[2]) or int(vector[2].removeprefix("i"))
    return -(-int(vector[1]) * element_bits // register_bits)


class ModuleEmitter:
    """The emitter of a kernel's module: the entry point and specialised device functions."""

    def __init__(
        self, kernel: Kernel, machine: Machine, triple: str = "", register_bits: int = 256
    ) -> None:
        self.kernel = kernel
        self.is_x86 = triple.startswith("x86_64")
        self.lanes = kernel.workgroup_size
        one_subgroup = self.lanes <= kernel.subgroup_size
        self._uniformity = Uniformity((), trust_loads=True, one_subgroup=one_subgroup)
        self.ifma = machine.has(Capability.IFMA52) and self.lanes == 8
        self.has_pair_products = machine.has(Capability.PAIR_PRODUCTS)
        self._few_registers = not self.ifma
        self._register_bits = register_bits
        self._unused = f"<{register_bits // 64} x i64>"
        self._declarations: dict[str, None] = {}
        self._constants: list[str] = []
        self._functions: dict[tuple[int, tuple[bool, ...], bool], SpecialisedFunction] = {}
        self._bodies: list[str] = []
        self._masked: dict[int, bool] = {}

    def declare(self, signature: str) -> None:
        """Declare an intrinsic, once."""
        self._declarations[signature] = None

    def constant(self, text: str, element: Type) -> str:
        """Add a constant array to the module; return its name."""
        name = f"@table{len(self._constants)}"
        align = max(4, element.bytes)
        self._constants.append(f"{name} = private unnamed_addr constant {text}, align {align}")
        return name

    def text(self) -> str:
        entry = self._entry()
        header = f"; {self.kernel.name}: {self.lanes} lanes\n"
        declarations = "\n".join(f"declare {line}" for line in self._declarations)
        tables = ["\n".join(self._constants)] if self._constants else []
        return "\n\n".join([header + declarations, *tables, *self._bodies, entry]) + "\n"

    def needs_mask(self, function: Function) -> bool:
        """Return whether a function accesses memory or loops, so that it needs a mask."""
        if id(function) not in self._masked:
            self._masked[id(function)] = any(
                op.definition.reaches_memory
                or op.definition.repeats
                or (op.name == "call" and self.needs_mask(op.attributes["function"]))
                for op in walk(function.block)
            )
        return self._masked[id(function)]

    def function(
        self, function: Function, varying: tuple[bool, ...], masked: bool
    ) -> SpecialisedFunction:
        """Return a device function for one pattern of varying arguments."""
        key = (id(function), varying, masked)
        if key not in self._functions:
            self._functions[key] = self._emit_function(function, varying, masked)
        return self._functions[key]

    def _symbol(self, name: str) -> str:
        """Make a unique symbol for a function, distinct from intrinsics and the kernel."""
        text = "".join(c if c.isprintable() and c not in '"\\' else "_" for c in name)
        if text.startswith("llvm."):
            text = f"_{text}"
        number = len(self._functions)
        is_unchanged = text == name and name not in ("", self.kernel.name)
        return f'@"{text}"' if is_unchanged and not number else f'@"{text}#{number}"'

    def _emit_function(
        self, function: Function, varying: tuple[bool, ...], masked: bool
    ) -> SpecialisedFunction:
        arguments, uniformity = function.block.arguments, self._uniformity
        if self.lanes > 1:
            uniformity = uniformity.of_function(function, varying)
        body = BodyEmitter(self, RULES, uniformity)
        body.interleaved = self._interleaved(function.block)
        body.strides.carry(arguments)
        argument_types = [body.type_of(argument) for argument in arguments]
        mask_type = [body.vector("i1")] if masked else []
        passed, names = self.passed([*mask_type, *argument_types]), []
        if masked:
            body.mask = "%mask"
            names.append(body.mask)
        for index, (argument, type_, wide) in enumerate(
            zip(arguments, argument_types, passed[len(names) :], strict=True)
        ):
            body.names[argument] = f"%a{index}"
            names.append(body.names[argument] if wide == type_ else f"%w{index}")
            if wide != type_:
                body.line(f"%a{index} = trunc {wide} %w{index} to {type_}")
        results = function.block.yielded
        varying_results = tuple(map(body.is_varying, results))
        body.emit_return(results, body.emit_block(function.block, varying_results))
        kind = "alwaysinline" if function.inline else "noinline"
        returned = body.types_of(results)
        convention = self.convention(passed, returned)
        named = map(" ".join, zip(passed, names, strict=True))
        parameters = ", ".join(self.with_unused_registers([*named], "%unused{}"))
        symbol = self._symbol(function.name)
        self._bodies.append(
            f"define internal {convention} {self.struct(returned)} {symbol}"
            f"({parameters}) {kind} nounwind {_ATTRIBUTES} {{\nentry:\n"
            f"{body.text()}\n}}"
        )
        return SpecialisedFunction(
            symbol, varying_results, convention, argument_types, passed, returned
        )

    def passed(self, names: Sequence[str]) -> list[str]:
        """Return the types in which values of given types are passed and returned.

        On x86-64 the last four integer argument registers are callee-saved in other conventions.
        If a number of less than 64 bits is passed in one, LLVM (22.1) treats only the lower half as
        used: a caller may keep another value in the upper half and find it changed. Such numbers
        are therefore widened to 64 bits.
        """
        if not self.is_x86:
            return list(names)
        return [
            "i64" if is_callee_saved and name != "ptr" and _NUMBER.fullmatch(name) else name
            for name, is_callee_saved in _in_callee_saved(names)
        ]

    def with_unused_registers(self, parts: Sequence[str], value: str) -> list[str]:
        """Insert arguments without a value, so that LLVM has registers to move arguments.

        parts: the arguments or the parameters, each a type and a name.
        value: the text of the inserted values.
        """
        position = self._first_beyond_registers(parts)
        unused = [f"{self._unused} {value.format(i)}" for i in range(_UNUSED_REGISTERS)]
        return [*parts[:position], *unused, *parts[position:]] if position else list(parts)

    def struct(self, names: Sequence[str]) -> str:
        """Return the type of results of these types.

        Results that would leave no register unused get further ones, so that LLVM returns all of
        them in memory.
        """
        if not names:
            return "void"
        if self._first_beyond_registers(names):
            names = [*names, *[self._unused] * _UNUSED_REGISTERS]
        return names[0] if len(names) == 1 else "{ " + ", ".join(names) + " }"

    def _first_beyond_registers(self, parts: Sequence[str]) -> int | None:
        """Return the index of the first value that would occupy one of the unused registers."""
        if not (self.is_x86 and self._few_registers):
            return None
        used = 0
        for index, part in enumerate(parts):
            used += _vector_registers(part, self._register_bits)
            if used > _VECTOR_REGISTERS - _UNUSED_REGISTERS:
                return index
        return None

    def convention(self, *signature: Sequence[str]) -> str:
        """Return the calling convention for parameter and result types, as from `passed`."""
        if not self.is_x86:
            return "fastcc"
        # regcall passes and returns the most vectors in registers. Masks in callee-saved registers
        # have the same problem as narrow numbers.
        pairs = (pair for names in signature for pair in _in_callee_saved(names))
        masks = any(is_callee_saved and _MASK.fullmatch(name) for name, is_callee_saved in pairs)
        return "fastcc" if masks else "x86_regcallcc"

    def _interleaved(self, block: Block) -> Collection[Value]:
        return interleaved_arrays(block) if self.lanes > 1 else ()

    def _entry(self) -> str:
        kernel = self.kernel
        if self.lanes > 1:
            self._uniformity.visit(kernel.block)
        body = BodyEmitter(self, RULES, self._uniformity)
        prologue = []
        for index, argument in enumerate(kernel.block.arguments):
            name = scalar_name(argument.type)
            prologue.append(f"  %s{index} = getelementptr i64, ptr %arguments, i64 {index}")
            if argument.type is types.bool_:
                prologue.append(f"  %b{index} = load i8, ptr %s{index}")
                prologue.append(f"  %p{index} = trunc i8 %b{index} to i1")
            else:
                prologue.append(f"  %p{index} = load {name}, ptr %s{index}")
            body.names[argument] = f"%p{index}"
        body.interleaved = self._interleaved(kernel.block)
        body.workgroup_id_name = "%group32"
        body.label = "group"
        body.emit_block(kernel.block)
        lines = "\n".join(prologue)
        return f"""define void @"{kernel.name}"(ptr noalias %arguments, ptr noalias %counter, \
i64 %groups, i64 %chunk) nounwind {_ATTRIBUTES} {{
entry:
{lines}
{body.allocations_text()}  %groups32 = trunc i64 %groups to i32
  br label %take
take:
  %first = atomicrmw add ptr %counter, i64 %chunk monotonic
  %more = icmp ult i64 %first, %groups
  br i1 %more, label %begin, label %finished
begin:
  %wanted = add i64 %first, %chunk
  %fits = icmp ult i64 %wanted, %groups
  %last = select i1 %fits, i64 %wanted, i64 %groups
  br label %group
group:
  %index = phi i64 [ %first, %begin ], [ %following, %next ]
  %group32 = trunc i64 %index to i32
{body.text(allocations=False)}
  br label %next
next:
  %following = add i64 %index, 1
  %again = icmp ult i64 %following, %last
  br i1 %again, label %group, label %take
finished:
  ret void
}}"""
