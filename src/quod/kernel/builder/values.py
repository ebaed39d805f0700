"""The ops of a builder that compute values, within an instance (a thread) or across a subgroup."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quod.kernel.builder.control import check_condition
from quod.kernel.builder.memory import check_type, check_value
from quod.kernel.builder.tiles import TileBuilder, product_name
from quod.kernel.errors import TraceError, an
from quod.kernel.ir import types
from quod.kernel.ir.types import PointerType, Type
from quod.kernel.ir.value import Operand, Value
from quod.kernel.machine import Capability, Machine
from quod.kernel.ops import semantics
from quod.kernel.ops.scalar import NUMPY_TYPES
from quod.validation import flag


class ValueBuilder(TileBuilder):
    """The part of a builder with the named operations on values; `Value` has the operators."""

    machine: Machine

    @abstractmethod
    def emit(self, name: str, operands: Sequence[Value]) -> Value:
        """Record an op with one result; pure ops are folded and shared."""

    @abstractmethod
    def emit_many(self, name: str, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Record an op with any number of results; pure ops are folded and shared."""

    @abstractmethod
    def constant(self, number: int | float | bool, type_: Type) -> Value:
        """Return a constant; raises TraceError for a number that does not fit the type."""

    @abstractmethod
    def call(self, name: str, body: Callable[..., Any], *arguments: Any, inline: bool) -> Any:
        """Call a device function."""

    @property
    @abstractmethod
    def subgroup_size(self) -> int:
        """The number of instances in a subgroup; TraceError on machines without subgroups."""

    # --- values

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        """Return `a` if the condition holds, else `b`; both are computed."""
        if not isinstance(a, Value):
            if not isinstance(b, Value):
                raise TraceError(
                    "select needs at least one kernel value to know its type; for field elements "
                    "and points write field.select(...) or points.select(...)"
                )
            a = self.constant(a, b.type)
        return self.emit("select", (condition, a, self.operand(b, a.type)))

    def minimum(self, a: Value, b: Operand) -> Value:
        """Return the smaller of two values."""
        check_value(a, "k.minimum")
        return self.emit("min", (a, self.operand(b, a.type)))

    def maximum(self, a: Value, b: Operand) -> Value:
        """Return the larger of two values."""
        check_value(a, "k.maximum")
        return self.emit("max", (a, self.operand(b, a.type)))

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Compute a * b + c, rounded once."""
        return self.emit("fma", (a, b, c))

    def dot4(self, a: Value, b: Value, c: Value) -> Value:
        """Compute c + the dot product of the four signed bytes in each of `a` and `b`.

        a, b: u32. c: i32.
        """
        return self.emit("dot4", (a, b, c))

    def dot2(self, a: Value, b: Value, c: Value) -> Value:
        """Compute c + the dot product of the two signed 16-bit halves of `a` and `b`.

        a, b: u32. c: i32.
        """
        return self.emit("dot2", (a, b, c))

    def dot2_low_bytes(self, a: Value, b: Value, c: Value) -> Value:
        """Compute c + the dot product of the two signed 16-bit halves of `a` and bytes 0 and 1.

        The bytes are those of `b`, unsigned. a, b: u32. c: i32. Only with
        `Capability.BYTE_PRODUCTS`.
        """
        return self.emit("dot2_low_bytes", (a, b, c))

    def dot2_high_bytes(self, a: Value, b: Value, c: Value) -> Value:
        """Compute as `dot2_low_bytes` does, with bytes 2 and 3 of `b`, which are signed."""
        return self.emit("dot2_high_bytes", (a, b, c))

    def rcp(self, value: Value) -> Value:
        """Compute 1 / value of an f32."""
        return self.emit("rcp", (value,))

    def cast(self, value: Value, target: Type) -> Value:
        """Convert a number to another scalar type, or a pointer to another element type."""
        check_value(value, "k.cast")
        if value.type is target:
            return value
        check_type(target)
        if isinstance(value.type, PointerType):
            if target.kind == "pointer":
                raise TraceError("cast a pointer to the type of its elements, not to a pointer")
            result = types.pointer(target, value.type.space)
            return self._converted("pointer_cast", value, result)
        if target not in types.SCALARS or value.type not in types.SCALARS:
            raise TraceError(f"cannot convert {value.type} to {target}")
        if value.constant is not None:
            array = np.array([value.constant], NUMPY_TYPES[value.type])
            return self.constant(semantics.convert(array, target)[0].item(), target)
        return self._converted("convert", value, target)

    def bitcast(self, value: Value, target: Type) -> Value:
        """Reinterpret the bits of a number as another type of the same width."""
        check_value(value, "k.bitcast")
        check_type(target)
        if value.type not in types.NUMBERS or target not in types.NUMBERS:
            raise TraceError(f"cannot take the bits of {value.type} as {target}")
        if value.type.bits != target.bits:
            raise TraceError(f"{value.type} and {target} differ in width")
        return self._converted("bitcast", value, target)

    def _converted(self, name: str, value: Value, target: Type) -> Value:
        attributes = {"type": target}
        return self._tracer.record(name, (value,), (target,), attributes, shared=True)[0]

    # --- floats

    def sqrt(self, value: Value) -> Value:
        """Compute the square root."""
        return self.emit("sqrt", (value,))

    def rsqrt(self, value: Value) -> Value:
        """Compute 1 / sqrt(value) of an f32."""
        return self.emit("rsqrt", (value,))

    def floor(self, value: Value) -> Value:
        """Return the largest integer not above a float, as a float."""
        return self.emit("floor", (value,))

    def ceil(self, value: Value) -> Value:
        """Return the smallest integer not below a float, as a float."""
        return self.emit("ceil", (value,))

    def exp2(self, value: Value, *, flush_subnormals: bool = False) -> Value:
        """Compute 2**value of an f32.

        flush_subnormals: whether subnormal results may be 0, which is faster on NVIDIA GPUs.
        """
        flush_subnormals = flag("flush_subnormals", flush_subnormals, error=TraceError)
        if self.machine.has(Capability.EXP2):
            return self.emit("exp2_normal" if flush_subnormals else "exp2", (value,))
        return self._function("exp2", value)

    def exp(self, value: Value) -> Value:
        """Compute e**value of an f32."""
        return self._function("exp", value)

    def log2(self, value: Value) -> Value:
        """Compute the logarithm of an f32 to base 2."""
        return self._function("log2", value)

    def log(self, value: Value) -> Value:
        """Compute the natural logarithm of an f32."""
        return self._function("log", value)

    def tanh(self, value: Value) -> Value:
        """Compute the hyperbolic tangent of an f32."""
        return self._function("tanh", value)

    def _function(self, name: str, value: Value) -> Value:
        from quod.kernel.builder.float_functions import FUNCTIONS

        candidate: object = value
        kind = candidate.type if isinstance(candidate, Value) else type(candidate).__name__
        if kind is not types.f32:
            raise TraceError(f"k.{name} is for f32, not {an(kind)}; write value.cast(f32)")
        result: Value = self.call(name, FUNCTIONS[name].body, value, inline=True)
        return result

    # --- floats of 8 and 16 bits

    def unpack_f16(self, word: Value) -> tuple[Value, Value]:
        """Unpack the two f16 in a u32 to f32, low half first."""
        check_value(word, "k.unpack_f16")
        if self.machine.has(Capability.F16):
            return self.emit("unpack_f16_low", (word,)), self.emit("unpack_f16_high", (word,))
        low, high = (self._convert("f16_value", half) for half in (word & 0xFFFF, word >> 16))
        return low, high

    def unpack_bf16(self, word: Value) -> tuple[Value, Value]:
        """Unpack the two bf16 in a u32 to f32, low half first."""
        check_value(word, "k.unpack_bf16")
        return self.bitcast(word << 16, types.f32), self.bitcast(word & 0xFFFF0000, types.f32)

    def pack_f16(self, low: Value, high: Value) -> Value:
        """Pack two f32 as f16 into a u32, rounding to nearest even."""
        if self.machine.has(Capability.F16):
            return self.emit("pack_f16", (low, high))
        return self._convert("f16_bits", low) | self._convert("f16_bits", high) << 16

    def pack_bf16(self, low: Value, high: Value) -> Value:
        """Pack two f32 as bf16 into a u32, rounding to nearest even."""
        if self.machine.has(Capability.BF16):
            return self.emit("pack_bf16", (low, high))
        return self._convert("bf16_bits", low) | self._convert("bf16_bits", high) << 16

    def unpack_float8(self, element: Type, word: Value) -> tuple[Value, Value, Value, Value]:
        """Unpack the four e4m3 or e5m2 in a u32 to f32, lowest byte first."""
        _check_float8("k.unpack_float8", element, word)
        if element is types.e5m2:
            # An e5m2 is the upper byte of an f16.
            even, odd = (
                self.unpack_f16(shifted_word & 0xFF00FF00) for shifted_word in (word << 8, word)
            )
            return even[0], odd[0], even[1], odd[1]
        if self.machine.has(Capability.FLOATS8):
            pairs = (self.emit("unpack_e4m3", (half,)) for half in (word, word >> 16))
            low, high = (self.unpack_f16(pair) for pair in pairs)
            return *low, *high
        shifted_words = (word, word >> 8, word >> 16)
        first, second, third = (
            self._convert("e4m3_value", shifted & 0xFF) for shifted in shifted_words
        )
        return first, second, third, self._convert("e4m3_value", word >> 24)

    def pack_float8(self, element: Type, *values: Value) -> Value:
        """Pack four f32 as e4m3 or e5m2 into a u32, the first in its lowest byte.

        Each is rounded to nearest even. Numbers out of range, including infinities, saturate to the
        largest number of their sign; NaN becomes 0x7f.
        """
        _check_float8("k.pack_float8", element, *values)
        if len(values) != 4:
            raise TraceError(f"k.pack_float8 takes four f32, not {len(values)}")
        if self.machine.has(Capability.FLOATS8):
            low, high = (
                self.emit(_PACKING[element], values[first : first + 2]) for first in (0, 2)
            )
            return low | high << 16
        word, *upper_bytes = (self._convert(f"{element}_bits", value) for value in values)
        for index, bits in enumerate(upper_bytes, 1):
            word = word | bits << 8 * index
        return word

    def _convert(self, name: str, value: Value) -> Value:
        """Call a conversion of `narrow_floats` by its name."""
        from quod.kernel.builder.narrow_floats import FUNCTIONS

        result: Value = self.call(name, FUNCTIONS[name], value, inline=True)
        return result

    def _widened(self, bits: Value, element: Type) -> Value:
        if element in types.FLOATS8:
            return self.unpack_float8(element, bits)[0]
        unpack = self.unpack_f16 if element is types.f16 else self.unpack_bf16
        return unpack(bits)[0]

    def _narrowed(self, value: Value, element: Type) -> Value:
        zero = self.constant(0.0, types.f32)
        if element in types.FLOATS8:
            if self.machine.has(Capability.FLOATS8):
                return self.emit(_PACKING[element], (value, zero))
            return self._convert(f"{element}_bits", value)
        pack = self.pack_f16 if element is types.f16 else self.pack_bf16
        return pack(value, zero)

    # --- on devices that check

    def print(self, *items: Value | str) -> None:
        """Print texts and numbers in order, with the line, workgroup and instance.

        Only on checking devices, such as ``cpu:checked``; elsewhere nothing is recorded.
        """
        texts, numbers = [], []
        for item in items:
            entry: object = item
            if isinstance(entry, str):
                _refuse_values(entry, "give the value as an item of its own: k.print('x is', x)")
                texts.append(entry.replace("{", "{{").replace("}", "}}"))
            elif isinstance(entry, Value) and entry.type in types.SCALARS:
                texts.append("{}")
                numbers.append(entry)
            else:
                raise TraceError(
                    f"k.print takes texts and kernel values, not {an(type(entry).__name__)}; for a "
                    "field element print *field.to_words(a)"
                )
        if self.machine.has(Capability.CHECKS):
            self._tracer.record("print", numbers, (), {"text": " ".join(texts)})

    def assert_(self, condition: Value, message: str = "this does not hold") -> None:
        """Raise AssertionFailure with `message`, line and instance where `condition` is false.

        Only on checking devices, such as ``cpu:checked``; elsewhere nothing is recorded.
        """
        check_condition(condition)
        if type(message) is not str:
            raise TraceError("k.assert_ takes a condition and a text that says what is wrong")
        _refuse_values(message, "k.print shows values: k.print('x is', x)")
        if self.machine.has(Capability.CHECKS):
            self._tracer.record("assert", (condition,), (), {"message": message})

    # --- values of other instances

    def shuffle(self, value: Value, lane: Operand) -> Value:
        """Read `value` from instance `lane` (modulo the subgroup's size) of the same subgroup.

        `value` is a number of 32 or 64 bits. Legal where all instances of the workgroup reach it.
        """
        _ = self.subgroup_size  # raises TraceError on machines without subgroups
        return self.emit("shuffle", (value, self.operand(lane, types.u32)))

    def ballot(self, condition: Value) -> Value:
        """Return a u32 whose bit i is set if the condition holds in instance i of the subgroup.

        All instances of the workgroup must reach this call.
        """
        _ = self.subgroup_size  # raises TraceError on machines without subgroups
        check_condition(condition)
        return self.emit("ballot", (condition,))

    def any_lane(self, condition: Value) -> Value:
        """Test if the condition holds in any instance of the subgroup."""
        return self.ballot(condition) != 0

    def all_lanes(self, condition: Value) -> Value:
        """Test if the condition holds in all instances of the subgroup."""
        check_condition(condition)
        return self.ballot(~condition) == 0

    def subgroup_sum(self, value: Value) -> Value:
        """Sum a number over the subgroup; every instance gets the sum.

        Floats are added in the tree order of the op ``subgroup_sum``. Legal where all instances of
        the workgroup reach it.
        """
        return self._combined("subgroup_sum", value)

    def subgroup_minimum(self, value: Value) -> Value:
        """Return the minimum over the subgroup.

        All instances of the workgroup must reach this call.
        """
        return self._combined("subgroup_min", value)

    def subgroup_maximum(self, value: Value) -> Value:
        """Return the maximum over the subgroup.

        All instances of the workgroup must reach this call.
        """
        return self._combined("subgroup_max", value)

    def _combined(self, name: str, value: Value) -> Value:
        _ = self.subgroup_size  # raises TraceError on machines without subgroups
        return self.emit(name, (value,))

    def mma(
        self, element: Type, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value], *,
        other: Type | None = None,
    ) -> tuple[Value, ...]:  # fmt: skip
        """Compute A B + C on matrix fragments in the subgroup's registers.

        A has 4 words per instance and B 2: 16 by 16 and 16 by 8 for f16 and bf16; 16 by 8 and 8 by
        8 for f32, truncated to 10 mantissa bits (tf32); 16 by 32 and 32 by 8 for i8, e4m3 and e5m2.
        C and the result are 16 by 8, 4 values of f32 per instance, or of i32 modulo 2**32 for i8.
        The op ``mma_f16`` defines the layouts. `other` is the type of B if it differs: e4m3 or
        e5m2. Requires the capability ``tensor_cores`` or ``float8_cores``; legal where all
        instances of the workgroup reach it.
        """
        check_type(element)
        product = product_name(element, other)
        if product not in _PRODUCTS:
            raise TraceError(
                "k.mma multiplies f16, bf16, f32, i8, e4m3 or e5m2 by the same type, or e4m3 by "
                f"e5m2 in either order, not {product}"
            )
        for name, fragment, count in (("A", a, 4), ("B", b, 2), ("C", c, 4)):
            if not isinstance(fragment, (list, tuple)):
                raise TraceError(f"{name} is a list of values, not {an(type(fragment).__name__)}")
            if len(fragment) != count:
                raise TraceError(f"an instance has {count} values of {name}, not {len(fragment)}")
        return self.emit_many(_PRODUCTS[product], (*a, *b, *c))

    def uniform(self, value: Value) -> Value:
        """Return the value, declaring that it is equal in all instances of the workgroup.

        Barriers may then be in branches and loops that depend on it, such as on a count loaded from
        memory. Checking devices verify the declaration; elsewhere results are undefined if it is
        false. Legal where all instances of the workgroup reach it.
        """
        return self.emit("uniform", (value,))


_PRODUCTS = {
    "f16": "mma_f16", "bf16": "mma_bf16", "f32": "mma_tf32", "i8": "mma_i8", "e4m3": "mma_e4m3",
    "e5m2": "mma_e5m2", "e4m3_e5m2": "mma_e4m3_e5m2", "e5m2_e4m3": "mma_e5m2_e4m3",
}  # fmt: skip
"""The op of a product, by its name; see `product_name`."""

_PACKING = {types.e4m3: "pack_e4m3", types.e5m2: "pack_e5m2"}
"""The op that packs two f32."""


def _check_float8(name: str, element: Type, *values: Value) -> None:
    check_type(element)
    if element not in types.FLOATS8:
        raise TraceError(f"{name} is for e4m3 and e5m2, not {element}")
    for value in values:
        check_value(value, name)


# The form of `Value.__repr__`, which the repr of a field element or point contains.
_VALUE = r"<\S+ value[ >]"


def _refuse_values(text: str, remedy: str) -> None:
    if re.search(_VALUE, text):
        raise TraceError(
            "a text has a kernel value in it, which is no number yet while the kernel is traced; "
            + remedy
        )
