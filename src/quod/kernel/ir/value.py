"""The values, ops and regions of a kernel's IR."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Generic, NoReturn, Protocol, TypeVar

from quod.kernel.errors import Location, TraceError, an
from quod.kernel.ir import types
from quod.kernel.ir.types import PointerType, Type

if TYPE_CHECKING:
    from quod.kernel.ops.definition import OpDefinition


class Recorder(Protocol):
    """The recorder of ops behind the operators of `Value`; see `quod.kernel.builder.builder`."""

    def operand(self, item: Operand, type_: Type) -> Value: ...

    def constant(self, number: int | float | bool, type_: Type) -> Value: ...

    def emit(self, name: str, operands: Sequence[Value]) -> Value: ...

    def emit_many(self, name: str, operands: Sequence[Value]) -> tuple[Value, ...]: ...

    def load(self, pointer: Value, index: Operand, count: int = 1) -> tuple[Value, ...]: ...

    def store(self, pointer: Value, index: Operand, *values: Value) -> None: ...

    def cast(self, value: Value, target: Type) -> Value: ...


class Arithmetic(Recorder, Protocol):
    """The builder methods that the device functions for floats use."""

    def constant(self, number: int | float | bool, type_: Type) -> Value: ...
    def bitcast(self, value: Value, target: Type) -> Value: ...
    def select(self, condition: Value, a: Operand, b: Operand) -> Value: ...
    def minimum(self, a: Value, b: Operand) -> Value: ...
    def maximum(self, a: Value, b: Operand) -> Value: ...
    def floor(self, value: Value) -> Value: ...


Operator = Callable[["Value", "Operand"], "Value"]


def _operators(name: str) -> tuple[Operator, Operator]:
    """Return the methods of a binary op, whose value is the first or the second operand."""

    def method(self: Value, other: Operand) -> Value:
        builder = self.builder
        operand = other if isinstance(other, Value) else builder.constant(other, self.type)
        return builder.emit_many(name, (self, operand))[0]

    def swapped(self: Value, other: Operand) -> Value:
        builder = self.builder
        operand = other if isinstance(other, Value) else builder.constant(other, self.type)
        return builder.emit_many(name, (operand, self))[0]

    return method, swapped


class Value:
    """The result of one op, one number or pointer per instance at run time.

    Python operators on it record further ops. A Python number as the other operand becomes a
    constant of the value's type.

    constant: the number, if the op is a constant, else None.
    """

    __slots__ = ("builder", "constant", "op", "type")

    # NumPy scalars as other operands defer to this class.
    __array_ufunc__ = None

    def __init__(self, type_: Type, builder: Recorder, op: Op | None = None) -> None:
        self.type = type_
        self.builder = builder
        self.op = op
        self.constant: int | float | bool | None = None

    # By identity: `==` records an op.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        if self.op is None:
            return f"<{self.type} value>"
        if self.constant is not None:
            return f"<{self.type} value {self.constant}>"
        return f"<{self.type} value of {self.op.name}, {self.op.location}>"

    # --- operations that run-time values do not support during the trace

    def __bool__(self) -> NoReturn:
        raise TraceError(
            "a kernel value has no truth value while the kernel is traced; use `with "
            "k.if_(condition):`, `with k.while_(...)` or `k.select(condition, a, b)`, and & | ~ "
            "instead of and, or, not"
        )

    def __iter__(self) -> Iterator[Value]:
        raise TraceError(
            "a kernel value cannot be iterated over; use `with k.range(start, stop) as loop:`"
        )

    def __index__(self) -> int:
        raise TraceError(
            "a kernel value is not a Python integer: Python's range() and lists run while the "
            "kernel is traced; use `with k.range(start, stop) as loop:` or pointer[index]"
        )

    def __len__(self) -> NoReturn:
        raise TraceError(
            "what a pointer leads to has no length that the kernel knows; take it as a parameter, "
            "n: U32"
        )

    def __float__(self) -> NoReturn:
        raise TraceError(
            "a kernel value is not a Python number while the kernel is traced; use value.cast(f32)"
        )

    # Python operators and functions that the language lacks.

    def __pow__(self, _exponent: object) -> NoReturn:
        raise TraceError("there is no ** of kernel values; write x * x, or a loop of products")

    __rpow__ = __pow__

    def __divmod__(self, _other: object) -> NoReturn:
        raise TraceError("there is no divmod of kernel values; write a // b and a % b")

    __rdivmod__ = __divmod__

    # --- arithmetic

    __add__, __radd__ = _operators("add")
    __sub__, __rsub__ = _operators("sub")
    __mul__, __rmul__ = _operators("mul")
    __mod__, __rmod__ = _operators("rem")
    __and__, __rand__ = _operators("and")
    __or__, __ror__ = _operators("or")
    __xor__, __rxor__ = _operators("xor")
    __lshift__, __rlshift__ = _operators("shl")
    __rshift__, __rrshift__ = _operators("shr")
    _divide, _divide_swapped = _operators("div")

    # Python's `/` of integers returns a float and its `//` of floats a floor: neither is the op.

    def __truediv__(self, other: Operand) -> Value:
        self._check_quotient()
        return self._divide(other)

    def __rtruediv__(self, other: Operand) -> Value:
        self._check_quotient()
        return self._divide_swapped(other)

    def __floordiv__(self, other: Operand) -> Value:
        self._check_whole_quotient()
        return self._divide(other)

    def __rfloordiv__(self, other: Operand) -> Value:
        self._check_whole_quotient()
        return self._divide_swapped(other)

    def _check_quotient(self) -> None:
        if self.type.is_integer:
            raise TraceError(
                f"/ divides floats, and this is {an(self.type)}; write // for the whole quotient "
                "(the op div), or value.cast(f32) / ... for a fraction"
            )

    def _check_whole_quotient(self) -> None:
        if self.type.kind == "float":
            raise TraceError(
                f"// divides integers, and this is {an(self.type)}; write / for the quotient (the "
                "op div), and (a / b).cast(i32) to round it toward zero"
            )

    def __neg__(self) -> Value:
        return self.builder.emit("neg", (self,))

    def __abs__(self) -> Value:
        return self if self.type.kind == "unsigned" else self.builder.emit("abs", (self,))

    def __invert__(self) -> Value:
        return self.builder.emit("not", (self,))

    # --- comparison

    __eq__, __ne__ = _operators("eq")[0], _operators("ne")[0]  # type: ignore[assignment]
    __lt__, __gt__ = _operators("lt")
    __le__, __ge__ = _operators("le")

    # --- memory

    def __getitem__(self, index: Operand) -> Value:
        return self.builder.load(self, index)[0]

    def __setitem__(self, index: Operand, value: Operand) -> None:
        if not isinstance(self.type, PointerType):
            raise TraceError(f"only a pointer can be stored through, not {an(self.type)}")
        element = types.loaded_type(self.type.element)
        self.builder.store(self, index, self.builder.operand(value, element))

    def cast(self, target: Type) -> Value:
        """Convert a number to another scalar type, or a pointer to another element type."""
        return self.builder.cast(self, target)


Operand = Value | int | float | bool


class Op:
    """One operation: its operands, results, attributes and regions."""

    __slots__ = (
        "attributes", "definition", "location", "name", "operands", "regions", "results",
    )  # fmt: skip

    def __init__(
        self, definition: OpDefinition, operands: tuple[Value, ...], results: tuple[Value, ...],
        attributes: dict[str, Any], regions: tuple[Block, ...], location: Location,
    ) -> None:  # fmt: skip
        self.name = definition.name
        self.definition = definition
        self.operands = operands
        self.results = results
        self.attributes = attributes
        self.regions = regions
        self.location = location

    @property
    def conditions(self) -> tuple[Value, ...]:
        """The operands, or the yielded value, that control branching through the regions."""
        count = self.definition.condition_operands
        return self.operands[:count] if count else self.regions[0].yielded[:1]

    @property
    def initial(self) -> tuple[Value, ...]:
        """The initial values that a loop carries."""
        return self.operands[self.definition.condition_operands :]

    @property
    def carried(self) -> tuple[Value, ...]:
        """A loop's carried values, as arguments of its first region, without the loop index."""
        arguments = self.regions[0].arguments
        return arguments[len(arguments) - len(self.initial) :]


class Block:
    """A region: arguments and ops, of which the last is a yield once the region is closed."""

    __slots__ = ("arguments", "ops")

    def __init__(self, arguments: tuple[Value, ...] = (), ops: list[Op] | None = None) -> None:
        self.arguments = arguments
        self.ops = [] if ops is None else ops

    @property
    def yielded(self) -> tuple[Value, ...]:
        """The values that the region yields."""
        return self.ops[-1].operands if self.ops and self.ops[-1].name == "yield" else ()


ElementType = TypeVar("ElementType")


class Pointer(Value, Generic[ElementType]):
    """The annotation of a kernel parameter that points to elements in device memory."""


class Composite(ABC):
    """The type of a kernel parameter with several slots, such as a field element or a struct."""

    @abstractmethod
    def resolved(self, static: Mapping[str, Any]) -> Composite:
        """Return the type with its dependencies resolved from the kernel's static arguments.

        Raises ValueError if they do not determine it; the error's text completes a message that
        begins with the parameter's name.
        """

    @property
    @abstractmethod
    def slots(self) -> Mapping[str, Type]:
        """The types of the scalars and pointers, by the suffixes of their slots' names.

        Available only on the result of `resolved`.
        """

    @abstractmethod
    def split(self, argument: object) -> tuple[Any, ...]:
        """Split an argument into an item per slot; raises ValueError, as `resolved` does."""

    @abstractmethod
    def joined(self, k: Any, numbers: Sequence[Value]) -> Any:
        """Assemble the object that a kernel receives from one value per slot."""


ParameterType = Type | Composite
"""The type of a kernel parameter."""


Bool = Annotated[Value, types.bool_]
U8 = Annotated[Value, types.u8]
U16 = Annotated[Value, types.u16]
I8 = Annotated[Value, types.i8]
I16 = Annotated[Value, types.i16]
U32 = Annotated[Value, types.u32]
U64 = Annotated[Value, types.u64]
I32 = Annotated[Value, types.i32]
I64 = Annotated[Value, types.i64]
F16 = Annotated[Value, types.f16]
BF16 = Annotated[Value, types.bf16]
E4M3 = Annotated[Value, types.e4m3]
E5M2 = Annotated[Value, types.e5m2]
F32 = Annotated[Value, types.f32]
F64 = Annotated[Value, types.f64]
