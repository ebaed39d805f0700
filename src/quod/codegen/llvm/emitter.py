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

from quod.codegen.llvm import atomics as llvm_atomics
from quod.codegen.llvm import memory as llvm_memory
from quod.codegen.llvm import rules as llvm_rules
from quod.codegen.llvm import subgroups as llvm_subgroups
from quod.codegen.llvm.control import emit_control
from quod.codegen.rules import rule_of
from quod.kernel import types
from quod.kernel.ir import Block, Function, Kernel, Op, walk
from quod.kernel.machine import Capability, Machine
from quod.kernel.ops import ATOMICS
from quod.kernel.registry import emitters
from quod.kernel.types import PointerType, Type
from quod.kernel.uniformity import Uniformity
from quod.kernel.value import Value

_SCALAR_NAMES = {
    types.bool_: "i1", types.u8: "i8", types.u16: "i16", types.u32: "i32", types.u64: "i64",
    types.i32: "i32", types.i64: "i64", types.f32: "float", types.f64: "double", types.cc: "i1",
}  # fmt: skip

_RULES = llvm_rules.RULES | llvm_memory.RULES | llvm_atomics.RULES | llvm_subgroups.RULES
_ATTRIBUTES = '"min-legal-vector-width"="512" "prefer-vector-width"="512"'
_MASKED_OPS = frozenset({"load", "store", *ATOMICS, "copy_async", "prefetch", "while", "for"})


def emit(kernel: Kernel, machine: Machine, *, triple: str = "") -> str:
    """The LLVM IR module of one kernel.

    `triple` is the platform that it is compiled for, if that is known: device functions may then
    use a calling convention that only this platform has. Without, the text suits any.
    """
    return ModuleEmitter(kernel, machine, triple).text()


emitters["llvm"] = emit


def scalar_name(type_: Type) -> str:
    """LLVM's name of a scalar type."""
    return "ptr" if isinstance(type_, PointerType) else _SCALAR_NAMES[type_]


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
                op.name in _MASKED_OPS
                or (op.name == "call" and self.needs_mask(op.attributes["function"]))
                for op in walk(function.block)
            )
        return self._masked[id(function)]

    def function(self, function: Function, varying: tuple[bool, ...], masked: bool) -> str:
        """The LLVM name of a device function for one pattern of varying arguments."""
        key = (id(function), varying, masked)
        if key not in self._functions:
            name = f'@"{function.name}"' if not self._functions else (
                f'@"{function.name}#{len(self._functions)}"'
            )  # fmt: skip
            self._functions[key] = name
            self._bodies.append(self._emit_function(name, function, varying, masked))
        return self._functions[key]

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
        body = BodyEmitter(self, uniformity)
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
        body = BodyEmitter(self, uniformity)
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


class BodyEmitter:
    """The body of one LLVM function."""

    def __init__(self, module: ModuleEmitter, uniformity: Uniformity) -> None:
        self.module = module
        self.lanes = module.lanes
        self.uniformity = uniformity
        self.names: dict[Value, str] = {}
        self.mask: str | None = None
        self.label = "entry"
        self.workgroup = ""
        self.strides = llvm_memory.LaneStrides(uniformity)
        self._vectors: list[dict[Value, str]] = [{}]
        self._lines: list[str] = []
        self._allocations: list[str] = []
        self._count = 0
        self._scratch: dict[int, str] = {}

    # --- text

    def text(self, *, allocations: bool = True) -> str:
        head = self._allocations if allocations else []
        return "\n".join([*head, *self._lines])

    def allocations_text(self) -> str:
        return "".join(line + "\n" for line in self._allocations)

    def line(self, text: str) -> int:
        """Appends a line; gives its index, for a later `patch`."""
        self._lines.append("  " + text)
        return len(self._lines) - 1

    def patch(self, index: int, text: str) -> None:
        self._lines[index] = "  " + text

    def fresh(self, text: str) -> str:
        """Appends an instruction; gives the name of its result."""
        name = f"%v{self._count}"
        self._count += 1
        self.line(f"{name} = {text}")
        return name

    def reserve(self) -> str:
        """A name for an instruction that is written later."""
        name = f"%v{self._count}"
        self._count += 1
        return name

    def new_label(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def start(self, label: str) -> None:
        """Begins a basic block."""
        self._lines.append(f"{label}:")
        self.label = label

    def allocate(self, type_text: str, align: int) -> str:
        """Stack memory that lives as long as the function."""
        name = f"%m{len(self._allocations)}"
        self._allocations.append(f"  {name} = alloca {type_text}, align {align}")
        return name

    def scratch(self, nbytes: int) -> str:
        """Memory that inactive instances may read and write, at least so many bytes."""
        size = -(-nbytes // 64) * 64
        if size not in self._scratch:
            self._scratch[size] = self.allocate(f"[{size} x i8]", 64)
        return self._scratch[size]

    # --- values

    def is_varying(self, value: Value) -> bool:
        return self.uniformity.is_varying(value)

    def vector(self, scalar: str) -> str:
        """LLVM's name of a vector of lanes; the scalar itself with one lane."""
        return f"<{self.lanes} x {scalar}>" if self.lanes > 1 else scalar

    def type_of(self, value: Value, *, varying: bool | None = None) -> str:
        name = scalar_name(value.type)
        if varying is None:
            varying = self.is_varying(value)
        return self.vector(name) if varying else name

    def get(self, value: Value, *, varying: bool | None = None) -> str:
        """The operand text of a value, splat over the lanes if it must vary and does not."""
        if varying is None:
            varying = self.is_varying(value)
        number = value.constant
        if number is not None:
            text = llvm_rules.constant_text(number, value.type)
            if varying and self.lanes > 1:
                return f"splat ({scalar_name(value.type)} {text})"
            return text
        if varying and self.lanes > 1 and not self.is_varying(value):
            return self._splat(value)
        return self.names[value]

    def _splat(self, value: Value) -> str:
        for known in reversed(self._vectors):
            if value in known:
                return known[value]
        name = self.splat_text(self.names[value], scalar_name(value.type))
        self._vectors[-1][value] = name
        return name

    def splat_text(self, operand: str, scalar: str) -> str:
        """A vector with one scalar in every lane."""
        first = self.fresh(f"insertelement {self.vector(scalar)} poison, {scalar} {operand}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        vector = self.vector(scalar)
        return self.fresh(f"shufflevector {vector} {first}, {vector} poison, {zeros}")

    # --- ops

    def emit_block(self, block: Block, varying: Sequence[bool] = ()) -> list[str]:
        """Emits the ops of a region in the current basic block and the ones that they open.

        Gives the operands that the region yields, as varying or not as told.
        """
        self._vectors.append({})
        for op in block.ops:
            if op.name != "yield":
                self._emit_op(op)
        pairs = zip(block.yielded, varying, strict=True)
        yielded = [self.get(value, varying=differs) for value, differs in pairs]
        self._vectors.pop()
        return yielded

    def _emit_op(self, op: Op) -> None:
        if op.name == "const":
            return
        if op.regions:
            emit_control(self, op)
        elif op.name == "call":
            self._emit_call(op)
        else:
            rule_of(_RULES, op, "LLVM")(self, op)

    def _emit_call(self, op: Op) -> None:
        function: Function = op.attributes["function"]
        varying = tuple(self.is_varying(operand) for operand in op.operands)
        masked = self.mask is not None and self.module.needs_mask(function)
        name = self.module.function(function, varying, masked)
        own = [self.type_of(operand) for operand in op.operands]
        passed = self.module.passed([*self.module.mask_type(masked), *own])
        values = [] if self.mask is None or not masked else [self.mask]
        for operand, type_, wide in zip(op.operands, own, passed[len(values) :], strict=True):
            value = self.get(operand)
            values.append(value if wide == type_ else self.fresh(f"zext {type_} {value} to {wide}"))
        arguments = ", ".join(map(" ".join, zip(passed, values, strict=True)))
        inner = self.types_of(op.results)
        return_type = self.struct(inner)
        convention = self.module.convention(passed, inner)
        call = f"call {convention} {return_type} {name}({arguments})"
        if not op.results:
            self.line(call)
        elif len(op.results) == 1:
            self.names[op.results[0]] = self.fresh(call)
        else:
            whole = self.fresh(call)
            for index, (result, wide) in enumerate(zip(op.results, inner, strict=True)):
                value = self.fresh(f"extractvalue {return_type} {whole}, {index}")
                own_type = self.type_of(result)
                self.names[result] = (
                    value if wide == own_type else self.fresh(f"trunc {wide} {value} to {own_type}")
                )

    def types_of(self, results: Sequence[Value]) -> list[str]:
        """The types as which results are returned."""
        return self.module.passed([self.type_of(result) for result in results])

    @staticmethod
    def struct(parts: Sequence[str]) -> str:
        if not parts:
            return "void"
        return parts[0] if len(parts) == 1 else "{ " + ", ".join(parts) + " }"

    def return_type(self, results: Sequence[Value]) -> str:
        return self.struct(self.types_of(results))

    def emit_return(self, results: Sequence[Value], operands: Sequence[str]) -> None:
        if not results:
            self.line("ret void")
            return
        if len(results) == 1:
            self.line(f"ret {self.type_of(results[0])} {operands[0]}")
            return
        whole, kind = "poison", self.return_type(results)
        parts = zip(results, operands, self.types_of(results), strict=True)
        for index, (result, operand, wide) in enumerate(parts):
            if wide != self.type_of(result):
                operand = self.fresh(f"zext {self.type_of(result)} {operand} to i64")
            whole = self.fresh(f"insertvalue {kind} {whole}, {wide} {operand}, {index}")
        self.line(f"ret {kind} {whole}")
