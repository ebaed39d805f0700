"""The emitter of one LLVM function body: names, masks and basic blocks, written by ops' rules."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol

from quod.codegen.llvm.known_lanes import KnownLanes
from quod.codegen.llvm.strides import LaneStrides
from quod.codegen.llvm.types import constant_text, scalar_name
from quod.codegen.rules import Rules
from quod.kernel.ir.nodes import Block, Function, Kernel, Op
from quod.kernel.ir.types import Type
from quod.kernel.ir.value import Value
from quod.kernel.verifier.uniformity import Uniformity


class SpecialisedFunction(NamedTuple):
    """A device function emitted for one pattern of varying arguments.

    varying_results: whether each result is a vector.
    convention: the calling convention.
    arguments: the types of the arguments.
    passed, returned: the types in which the mask with the arguments, and the results, are passed.
    """

    symbol: str
    varying_results: tuple[bool, ...]
    convention: str
    arguments: Sequence[str]
    passed: Sequence[str]
    returned: Sequence[str]


class _OperandTexts(dict[Value, str]):
    """The operand texts of values; those of constants are added at their first use."""

    def __missing__(self, value: Value) -> str:
        if value.constant is None:
            raise KeyError(value)
        text = self[value] = constant_text(value.constant, value.type)
        return text


class Module(Protocol):
    """The interface of the module that bodies and rules emit into.

    ifma: the lanes of a vector multiply by AVX-512 IFMA.
    has_pair_products: the lanes of a vector multiply pairs of 16-bit integers.
    is_x86: the target is known to be x86-64.
    """

    kernel: Kernel
    lanes: int
    ifma: bool
    has_pair_products: bool
    is_x86: bool

    def declare(self, signature: str) -> None:
        """Declare an intrinsic, once."""

    def constant(self, text: str, element: Type) -> str:
        """Add a constant array to the module; return its name."""

    def needs_mask(self, function: Function) -> bool:
        """Return whether a function contains a loop or accesses memory, so that it needs a mask."""

    def function(
        self, function: Function, varying: tuple[bool, ...], masked: bool
    ) -> SpecialisedFunction:
        """Return a device function for one pattern of varying arguments."""

    def passed(self, names: Sequence[str]) -> list[str]:
        """Return the types in which values of given types are passed and returned."""

    def with_unused_registers(self, parts: Sequence[str], value: str) -> list[str]:
        """Insert arguments without a value, so that LLVM has registers to move arguments."""

    def struct(self, names: Sequence[str]) -> str:
        """Return the type of results of these types."""


class BodyEmitter:
    """The body of one LLVM function, emitted by a table of rules."""

    def __init__(self, module: Module, rules: Rules[Rule], uniformity: Uniformity) -> None:
        self.module = module
        self.lanes = module.lanes
        self.uniformity = uniformity
        self._varying = uniformity.varying
        self.names: dict[Value, str] = _OperandTexts()
        self.mask: str | None = None
        self.prefix_masks: dict[str, str] = {}
        """Masks of loops whose active lanes are a prefix of the lanes, if no index wraps around.

        Each maps to the i32 operand of a lane number: a lane that is active whenever any is. This
        is lane 0, or the last lane if lane 0's index has wrapped around below zero.
        """
        self.interleaved: Collection[Value] = ()
        """The pointers of interleaved private arrays (`quod.codegen.llvm.private_arrays`)."""
        self.label = "entry"
        self.workgroup_id_name = ""
        """The name of the i32 workgroup ID; empty in device functions."""
        self.strides = LaneStrides(uniformity)
        self.known_lanes = KnownLanes(module.lanes)
        self._rules = rules
        self._splats: list[dict[Value, str]] = [{}]
        self._lane0_values: list[dict[Value, str]] = [{}]
        self._lines: list[str] = []
        self._allocations: list[str] = []
        self._count = 0
        self._scratch: dict[int, str] = {}

    @property
    def lane0_is_active(self) -> bool:
        """True if lane 0 is active whenever any lane is, unless its index has wrapped around."""
        return self.mask is None or self.mask in self.prefix_masks

    # --- text

    def text(self, *, allocations: bool = True) -> str:
        head = self._allocations if allocations else []
        return "\n".join([*head, *self._lines])

    def allocations_text(self) -> str:
        return "".join(line + "\n" for line in self._allocations)

    def line(self, text: str) -> int:
        """Append a line; return its index, for a later `patch`."""
        self._lines.append("  " + text)
        return len(self._lines) - 1

    def patch(self, index: int, text: str) -> None:
        self._lines[index] = "  " + text

    def fresh(self, text: str) -> str:
        """Append an instruction; return the name of its result."""
        name = f"%v{self._count}"
        self._count += 1
        self._lines.append(f"  {name} = {text}")
        return name

    def reserve(self) -> str:
        """Reserve a name for an instruction that is written later."""
        name = f"%v{self._count}"
        self._count += 1
        return name

    def new_label(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def start(self, label: str) -> None:
        """Start a basic block."""
        self._lines.append(f"{label}:")
        self.label = label

    def allocate(self, type_text: str, align: int) -> str:
        """Allocate stack memory in the entry block; return its name."""
        name = f"%m{len(self._allocations)}"
        self._allocations.append(f"  {name} = alloca {type_text}, align {align}")
        return name

    def scratch(self, nbytes: int) -> str:
        """Scratch memory of at least `nbytes` bytes, which inactive lanes may read and write."""
        size = -(-nbytes // 64) * 64
        if size not in self._scratch:
            self._scratch[size] = self.allocate(f"[{size} x i8]", 64)
        return self._scratch[size]

    # --- values

    def is_varying(self, value: Value) -> bool:
        return value in self._varying

    def are_varying(self, values: Sequence[Value]) -> bool:
        """Return whether any of the values varies."""
        return not self._varying.isdisjoint(values)

    def vector(self, scalar: str) -> str:
        """Return the LLVM type of one scalar per lane; the scalar type itself with one lane."""
        return f"<{self.lanes} x {scalar}>" if self.lanes > 1 else scalar

    def type_of(self, value: Value, *, varying: bool | None = None) -> str:
        if varying is None:
            varying = value in self._varying
        name = scalar_name(value.type)
        return self.vector(name) if varying else name

    def get(self, value: Value, *, varying: bool | None = None) -> str:
        """Return the operand text of a value.

        varying: splat a uniform value.
        """
        if varying and self.lanes > 1 and value not in self._varying:
            return self._splat(value)
        return self.names[value]

    def _splat(self, value: Value) -> str:
        for splats in reversed(self._splats):
            if value in splats:
                return splats[value]
        scalar, operand = scalar_name(value.type), self.names[value]
        if value.constant is not None:
            text = self._splats[0][value] = f"splat ({scalar} {operand})"
            return text
        name = self._splats[-1][value] = self.splat_text(operand, scalar)
        return name

    @property
    def first_lanes(self) -> ChainMap[Value, str]:
        """The scalars equal to lane 0 of values.

        Entries that a region adds are visible in it and in nested ones.
        """
        return ChainMap(*reversed(self._lane0_values))

    def splat_text(self, operand: str, scalar: str) -> str:
        """Emit a vector with one scalar in every lane."""
        first = self.fresh(f"insertelement {self.vector(scalar)} poison, {scalar} {operand}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        vector = self.vector(scalar)
        return self.fresh(f"shufflevector {vector} {first}, {vector} poison, {zeros}")

    # --- ops

    def emit_block(self, block: Block, varying: Sequence[bool] = ()) -> list[str]:
        """Emit the ops of a region from the current basic block on.

        Returns the operand texts of its yielded values, as vectors where `varying` says so.
        """
        self._splats.append({})
        self._lane0_values.append({})
        for op in block.ops:
            if not op.definition.unwritten:
                self._rules.of(op)(self, op)
        pairs = zip(block.yielded, varying, strict=True)
        yielded = [self.get(value, varying=differs) for value, differs in pairs]
        self._splats.pop()
        self._lane0_values.pop()
        return yielded

    def emit_call(self, op: Op) -> None:
        """Emit a call of a device function, specialised by which operands vary."""
        function: Function = op.attributes["function"]
        needs_mask = self.module.needs_mask(function)
        varying = tuple(map(self.is_varying, op.operands))
        if any(varying) and not function.inline and not needs_mask:
            # One copy for all calls, as LLVM takes long for products: uniform operands are splat.
            varying = (True,) * len(varying)
        mask = self.mask if needs_mask else None
        callee = self.module.function(function, varying, mask is not None)
        values = [] if mask is None else [mask]
        for operand, varies, type_, wide in zip(
            op.operands, varying, callee.arguments, callee.passed[len(values) :], strict=True
        ):
            value = self.get(operand, varying=varies)
            values.append(value if wide == type_ else self.fresh(f"zext {type_} {value} to {wide}"))
        parts = [*map(" ".join, zip(callee.passed, values, strict=True))]
        arguments = ", ".join(self.module.with_unused_registers(parts, "poison"))
        return_type = self.module.struct(callee.returned)
        call = f"call {callee.convention} {return_type} {callee.symbol}({arguments})"
        if not op.results:
            self.line(call)
            return
        returned = self.fresh(call)
        for index, (result, varies, wide) in enumerate(
            zip(op.results, callee.varying_results, callee.returned, strict=True)
        ):
            value = returned
            if len(callee.returned) > 1:
                value = self.fresh(f"extractvalue {return_type} {returned}, {index}")
            type_ = self.type_of(result, varying=varies)
            if wide != type_:
                value = self.fresh(f"trunc {wide} {value} to {type_}")
            if varies and not self.is_varying(result):
                value = self.fresh(f"extractelement {type_} {value}, i64 0")
            self.names[result] = value

    def types_of(self, results: Sequence[Value]) -> list[str]:
        """Return the types in which results are returned."""
        return self.module.passed([self.type_of(value) for value in results])

    def return_type(self, results: Sequence[Value]) -> str:
        return self.module.struct(self.types_of(results))

    def emit_return(self, results: Sequence[Value], operands: Sequence[str]) -> None:
        if not results:
            self.line("ret void")
            return
        if len(results) == 1:
            self.line(f"ret {self.type_of(results[0])} {operands[0]}")
            return
        aggregate, kind = "poison", self.return_type(results)
        parts = zip(results, operands, self.types_of(results), strict=True)
        for index, (result, operand, wide) in enumerate(parts):
            if wide != self.type_of(result):
                operand = self.fresh(f"zext {self.type_of(result)} {operand} to i64")
            aggregate = self.fresh(f"insertvalue {kind} {aggregate}, {wide} {operand}, {index}")
        self.line(f"ret {kind} {aggregate}")


Rule = Callable[[BodyEmitter, Op], None]
"""The emitter of one op."""
