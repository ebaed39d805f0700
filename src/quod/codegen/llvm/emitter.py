"""LLVM IR for the CPU: one instance a SIMD lane, one workgroup a vector.

A value that may differ between instances is a vector of `workgroup_size` lanes, any other a
scalar. Divergent control flow becomes masks: a region whose condition differs between instances
runs if any instance needs it, and a mask guards its memory accesses. With one lane everything is
scalar and every branch is a branch.

The entry point is ``void name(ptr arguments, ptr counter, i64 groups, i64 chunk)``: `arguments`
points to one 8-byte slot a parameter; workers take `chunk` workgroups at a time from `counter`
until `groups` are done.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from quod.codegen.llvm import atomics, control, memory, rules, subgroups
from quod.codegen.llvm.body import BodyEmitter
from quod.codegen.llvm.lacking import LACKING
from quod.codegen.llvm.types import scalar_name
from quod.codegen.rules import Rules
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Function, Kernel, walk
from quod.kernel.ir.types import Type
from quod.kernel.machine import Capability, Machine
from quod.kernel.verifier.uniformity import Uniformity

TABLES = (rules.RULES, memory.RULES, atomics.RULES, subgroups.RULES, control.RULES)
"""How each op is written."""

RULES = Rules("LLVM", TABLES, LACKING)
"""The rule of each op, and the reason for each op without one."""
_ATTRIBUTES = '"min-legal-vector-width"="512" "prefer-vector-width"="512"'


def emit(kernel: Kernel, machine: Machine, *, triple: str = "") -> str:
    """The LLVM IR module of one kernel.

    `triple` is the platform that it is compiled for, if that is known: device functions may then
    use a calling convention that only this platform has. Without, the text suits any.
    """
    return ModuleEmitter(kernel, machine, triple).text()


# Of the registers for numbers that the convention has, the first seven are for callees to change.
# Where results are more than registers hold, one of them has a pointer that no type shows.
_CALLER_SAVED = 6
_NUMBER = re.compile(r"i\d+|ptr")
_MASK = re.compile(r"<(\d+) x i1>")


def _late(names: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """LLVM's types in their order, and whether a value comes in a register that callees keep."""
    taken = 0
    for name in names:
        mask = _MASK.fullmatch(name)
        own = -(-int(mask[1]) // 64) if mask else 1 if _NUMBER.fullmatch(name) else 0
        taken += own
        yield name, bool(own) and taken > _CALLER_SAVED


class ModuleEmitter:
    """One kernel's module: its entry point, and each device function once a use pattern."""

    def __init__(self, kernel: Kernel, machine: Machine, triple: str = "") -> None:
        self.kernel = kernel
        self._is_x86 = triple.startswith("x86_64")
        self.lanes = kernel.workgroup_size
        self.one_subgroup = self.lanes <= kernel.subgroup_size
        self.ifma = machine.has(Capability.IFMA52) and self.lanes == 8
        self._declarations: dict[str, None] = {}
        self._constants: list[str] = []
        self._functions: dict[tuple[int, tuple[bool, ...], bool], str] = {}
        self._bodies: list[str] = []
        self._masked: dict[int, bool] = {}

    def declare(self, signature: str) -> None:
        """Declares an intrinsic, once."""
        self._declarations[signature] = None

    def constant(self, text: str, element: Type) -> str:
        """The name of an array that is part of the code."""
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
        """Whether the function does something that inactive instances must not do."""
        if id(function) not in self._masked:
            self._masked[id(function)] = any(
                op.definition.reaches_memory
                or op.definition.repeats
                or (op.name == "call" and self.needs_mask(op.attributes["function"]))
                for op in walk(function.block)
            )
        return self._masked[id(function)]

    def function(self, function: Function, varying: tuple[bool, ...], masked: bool) -> str:
        """The LLVM name of a device function for one pattern of varying arguments."""
        key = (id(function), varying, masked)
        if key not in self._functions:
            self._functions[key] = name = self._symbol(function.name)
            self._bodies.append(self._emit_function(name, function, varying, masked))
        return self._functions[key]

    def _symbol(self, name: str) -> str:
        """A name of LLVM's own for a function of any name: no intrinsic's, nor the kernel's."""
        text = "".join(c if c.isprintable() and c not in '"\\' else "_" for c in name)
        if text.startswith("llvm."):
            text = f"_{text}"
        number = len(self._functions)
        plain = text == name and name not in ("", self.kernel.name)
        return f'@"{text}"' if plain and not number else f'@"{text}#{number}"'

    def _emit_function(
        self, name: str, function: Function, varying: tuple[bool, ...], masked: bool
    ) -> str:
        arguments = function.block.arguments
        uniformity = Uniformity(
            [a for a, differs in zip(arguments, varying, strict=True) if differs],
            trust_loads=True,
            one_subgroup=self.one_subgroup,
        )  # fmt: skip
        if self.lanes > 1:
            uniformity.visit(function.block)
        body = BodyEmitter(self, RULES, uniformity)
        body.strides.carry(arguments)
        own = [body.type_of(argument) for argument in arguments]
        passed, names = self.passed([*self.mask_type(masked), *own]), []
        if masked:
            body.mask = "%mask"
            names.append(body.mask)
        for index, (argument, type_, wide) in enumerate(
            zip(arguments, own, passed[len(names) :], strict=True)
        ):
            body.names[argument] = f"%a{index}"
            names.append(body.names[argument] if wide == type_ else f"%w{index}")
            if wide != type_:
                body.line(f"%a{index} = trunc {wide} %w{index} to {type_}")
        results = function.block.yielded
        body.emit_return(
            results, body.emit_block(function.block, list(map(body.is_varying, results)))
        )
        kind = "alwaysinline" if function.inline else "noinline"
        convention = self.convention(passed, body.types_of(results))
        parameters = ", ".join(map(" ".join, zip(passed, names, strict=True)))
        return (
            f"define internal {convention} {body.return_type(results)} {name}"
            f"({parameters}) {kind} nounwind {_ATTRIBUTES} {{\nentry:\n"
            f"{body.text()}\n}}"
        )

    def passed(self, names: Sequence[str]) -> list[str]:
        """The types as which values of these are passed or returned.

        Of the registers in which numbers are passed on x86-64 the last four are those that callees
        preserve otherwise, and of one that a number of less than 64 bits comes in LLVM (22.1) takes
        only the lower half for used: a caller may leave another value in it, and find it changed.
        So such a number is widened.
        """
        if not self._is_x86:
            return list(names)
        return [
            "i64" if late and name != "ptr" and _NUMBER.fullmatch(name) else name
            for name, late in _late(names)
        ]

    def convention(self, *signature: Sequence[str]) -> str:
        """How a function is called that takes and gives values of these types, as `passed`."""
        if not self._is_x86:
            return "fastcc"
        # More vectors are passed and returned in registers than in any other way. For a mask that
        # comes late the same holds as for narrow numbers.
        pairs = (pair for names in signature for pair in _late(names))
        masks = any(late and _MASK.fullmatch(name) for name, late in pairs)
        return "fastcc" if masks else "x86_regcallcc"

    def mask_type(self, masked: bool) -> list[str]:
        """The type of the parameter that says which instances are active, where there is one."""
        return [f"<{self.lanes} x i1>"] if masked else []

    def _entry(self) -> str:
        kernel = self.kernel
        uniformity = Uniformity((), trust_loads=True, one_subgroup=self.one_subgroup)
        if self.lanes > 1:
            uniformity.visit(kernel.block)
        body = BodyEmitter(self, RULES, uniformity)
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
        body.workgroup = "%group32"
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
