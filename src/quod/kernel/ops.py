"""The op table: the single source for the tracer, the verifier, the interpreter and the docs.

An op has operand types, result types, effects, a sentence of documentation and, if it computes
values from values alone, its meaning as a NumPy function over all lanes. Each target has one rule
for each op; a test compares the two tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from quod.frozen import frozen
from quod.kernel import types
from quod.kernel.semantics import (
    NUMPY_TYPES,
    Array,
    add_carry,
    count_leading_zeros,
    count_trailing_zeros,
    divide,
    fused_multiply_add,
    maximum,
    minimum,
    multiply_add_52_high,
    multiply_add_52_low,
    multiply_high,
    multiply_high_add,
    multiply_low_add,
    multiply_wide,
    remainder,
    shift_amount,
    subtract_borrow,
)
from quod.kernel.types import Type

__all__ = ["ATOMICS", "NUMPY_TYPES", "OPS", "SUBGROUP", "TOGETHER", "Effect", "OpDefinition"]

Effect = Literal["none", "carry", "read", "write", "subgroup", "barrier", "control"]

Evaluate = Callable[..., "Array | tuple[Array, ...]"]


@frozen
class OpDefinition:
    """One row of the op table.

    `operands` and `results` are type names; a name in `variables` stands for any one of the types
    that it lists, the same one throughout the row. `evaluate` takes an array an operand. The types
    of a `special` op depend on its attributes or regions too.
    """

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    doc: str
    variables: dict[str, tuple[Type, ...]]
    effect: Effect = "none"
    evaluate: Evaluate | None = None
    special: bool = False

    @property
    def pure(self) -> bool:
        """Whether the op may be folded, shared and removed."""
        return self.effect == "none"

    @property
    def removable(self) -> bool:
        """Whether the op may be removed when none of its results is used."""
        return self.effect in ("none", "carry", "read", "subgroup")

    def infer(self, operand_types: list[Type]) -> list[Type]:
        """Result types for the given operand types; TypeError says which operand is wrong."""
        key = (self.name, tuple(operand_types))
        if key not in _inferred:
            _inferred[key] = self._infer(operand_types)
        return _inferred[key].copy()

    def _infer(self, operand_types: list[Type]) -> list[Type]:
        if len(operand_types) != len(self.operands):
            raise TypeError(
                f"{self.name} takes {len(self.operands)} operands, not {len(operand_types)}"
            )
        bound: dict[str, Type] = {}
        for position, (name, given) in enumerate(zip(self.operands, operand_types, strict=True)):
            if name not in self.variables:
                wanted = types.parse_type(name)
                if wanted is not given:
                    raise TypeError(
                        f"operand {position + 1} of {self.name} must be {wanted}, not {given}"
                    )
            elif name not in bound:
                allowed = self.variables[name]
                if given not in allowed:
                    names = ", ".join(t.name for t in allowed)
                    raise TypeError(
                        f"operand {position + 1} of {self.name} must be one of {names}, not {given}"
                    )
                bound[name] = given
            elif bound[name] is not given:
                raise TypeError(
                    f"operands of {self.name} must have one type, not {bound[name]} and {given}"
                )
        return [bound[name] if name in bound else types.parse_type(name) for name in self.results]


OPS: dict[str, OpDefinition] = {}

_inferred: dict[tuple[str, tuple[Type, ...]], list[Type]] = {}

ATOMICS = (
    "atomic_add", "atomic_max", "atomic_min", "atomic_or", "atomic_exchange",
    "atomic_compare_exchange",
)  # fmt: skip
"""The ops that read and change one place of memory at once."""

SUBGROUP = ("shuffle", "ballot")
"""The ops that need the feature ``subgroup``."""

TOGETHER = ("barrier", "uniform", *SUBGROUP)
"""The ops that stand only where every instance of the workgroup comes."""


def _define(
    name: str,
    signature: str,
    doc: str,
    evaluate: Evaluate | None = None,
    *,
    effect: Effect = "none",
    special: bool = False,
    **variables: tuple[Type, ...],
) -> None:
    operands, _, results = signature.partition("->")
    OPS[name] = OpDefinition(
        name, tuple(operands.split()), tuple(results.split()), doc, variables, effect, evaluate,
        special,
    )  # fmt: skip


_I, _N, _U = types.INTEGERS, types.NUMBERS, types.UNSIGNED
_S = types.SCALARS
_IB = (types.bool_, *types.INTEGERS)
_E = (*types.SCALARS, *types.STORAGE)

_define("add", "T T -> T", "Sum; integers wrap.", lambda a, b: a + b, T=_N)
_define("sub", "T T -> T", "Difference; integers wrap.", lambda a, b: a - b, T=_N)
_define("mul", "T T -> T", "Product; integers keep the low half.", lambda a, b: a * b, T=_N)
_define(
    "div", "T T -> T", "Quotient; unsigned division by zero gives all ones.", divide,
    T=(*_U, *types.FLOATS),
)  # fmt: skip
_define("rem", "T T -> T", "Remainder; by zero it gives the first operand.", remainder, T=_U)
_define(
    "min", "T T -> T", "The smaller operand; of floats NaN if one is, and -0 is below +0.",
    minimum, T=_N,
)  # fmt: skip
_define(
    "max", "T T -> T", "The larger operand; of floats NaN if one is, and -0 is below +0.",
    maximum, T=_N,
)  # fmt: skip
_define("neg", "T -> T", "Negation; integers wrap.", lambda a: -a, T=(*types.FLOATS, *_I))
_define("fma", "T T T -> T", "a * b + c, rounded once.", fused_multiply_add, T=types.FLOATS)
_define("sqrt", "T -> T", "Square root, correctly rounded.", np.sqrt, T=types.FLOATS)
_define("and", "T T -> T", "Bitwise and.", lambda a, b: a & b, T=_IB)
_define("or", "T T -> T", "Bitwise or.", lambda a, b: a | b, T=_IB)
_define("xor", "T T -> T", "Bitwise exclusive or.", lambda a, b: a ^ b, T=_IB)
_define("not", "T -> T", "Bitwise complement.", lambda a: ~a, T=_IB)
_define(
    "shl", "T T -> T", "Shift left; the amount counts modulo the width.",
    lambda a, n: a << shift_amount(a, n), T=_I,
)  # fmt: skip
_define(
    "shr", "T T -> T", "Shift right, arithmetic if signed; the amount counts modulo the width.",
    lambda a, n: a >> shift_amount(a, n), T=_I,
)  # fmt: skip
_define("mul_hi", "T T -> T", "High half of the full product.", multiply_high, T=_U)
_define(
    "mul_wide", "u32 u32 -> u64", "Full 64-bit product of two 32-bit integers.",
    multiply_wide,
)  # fmt: skip
_define(
    "madd52_lo", "u64 u64 u64 -> u64",
    "c + (low 52 bits of the product of the low 52 bits of a and b); operands c, a, b.",
    multiply_add_52_low,
)  # fmt: skip
_define(
    "madd52_hi", "u64 u64 u64 -> u64",
    "c + (bits 52 to 103 of the product of the low 52 bits of a and b); operands c, a, b.",
    multiply_add_52_high,
)  # fmt: skip
_define("eq", "T T -> bool", "a equals b.", lambda a, b: a == b, T=_S)
_define("ne", "T T -> bool", "a differs from b.", lambda a, b: a != b, T=_S)
_define("lt", "T T -> bool", "a is less than b.", lambda a, b: a < b, T=_N)
_define("le", "T T -> bool", "a is at most b.", lambda a, b: a <= b, T=_N)
_define(
    "select", "bool T T -> T", "The second operand where the first is true, else the third.",
    lambda c, a, b: np.where(c, a, b), T=_S,
)  # fmt: skip
_define("clz", "T -> T", "Count of leading zero bits.", count_leading_zeros, T=_U)
_define("ctz", "T -> T", "Count of trailing zero bits.", count_trailing_zeros, T=_U)
_define(
    "popcount", "T -> T", "Count of one bits.",
    lambda a: np.bitwise_count(a).astype(a.dtype), T=_U,
)  # fmt: skip
_define(
    "add_cc", "T T -> T cc", "Sum and carry out.",
    add_carry, effect="carry", T=_U,
)  # fmt: skip
_define(
    "addc_cc", "T T cc -> T cc", "Sum with carry in, and carry out.", add_carry,
    effect="carry", T=_U,
)  # fmt: skip
_define(
    "addc", "T T cc -> T", "Sum with carry in.",
    lambda a, b, c: add_carry(a, b, c)[0], effect="carry", T=_U,
)  # fmt: skip
_define(
    "sub_cc", "T T -> T cc", "Difference and borrow out.",
    subtract_borrow, effect="carry", T=_U,
)  # fmt: skip
_define(
    "subc_cc", "T T cc -> T cc", "Difference with borrow in, and borrow out.",
    subtract_borrow, effect="carry", T=_U,
)  # fmt: skip
_define(
    "subc", "T T cc -> T", "Difference with borrow in.",
    lambda a, b, c: subtract_borrow(a, b, c)[0], effect="carry", T=_U,
)  # fmt: skip
_define(
    "mad_lo_cc", "T T T -> T cc", "Low half of a * b, plus c, and carry out.",
    multiply_low_add, effect="carry", T=_U,
)  # fmt: skip
_define(
    "madc_lo_cc", "T T T cc -> T cc", "Low half of a * b, plus c, with carry in and out.",
    multiply_low_add, effect="carry", T=_U,
)  # fmt: skip
_define(
    "mad_hi_cc", "T T T -> T cc", "High half of a * b, plus c, and carry out.",
    multiply_high_add, effect="carry", T=_U,
)  # fmt: skip
_define(
    "madc_hi_cc", "T T T cc -> T cc", "High half of a * b, plus c, with carry in and out.",
    multiply_high_add, effect="carry", T=_U,
)  # fmt: skip
_define(
    "madc_hi", "T T T cc -> T", "High half of a * b, plus c, with carry in.",
    lambda a, b, c, carry: multiply_high_add(a, b, c, carry)[0], effect="carry", T=_U,
)  # fmt: skip
_define(
    "local_id", "-> u32", "Index of this instance in its workgroup.",
)  # fmt: skip
_define("workgroup_id", "-> u32", "Index of this workgroup in the grid.")
_define("num_workgroups", "-> u32", "Workgroups in the grid.")
_define("barrier", "->", "Waits for all instances of the workgroup.", effect="barrier")
_define(
    "uniform", "T -> T",
    "The same value, which every instance of the workgroup has: branches and loops on it are "
    "uniform.",
    effect="subgroup", T=_S,
)  # fmt: skip
_define(
    "shuffle", "T u32 -> T",
    "The first operand's value in the instance of the same subgroup whose index in it the second "
    "gives, modulo the subgroup's size.",
    effect="subgroup", T=_N,
)  # fmt: skip
_define(
    "ballot", "bool -> u32",
    "A bit for each instance of the subgroup, the first one's lowest: where the operand is true.",
    effect="subgroup",
)  # fmt: skip

# Ops whose types depend on attributes or regions: the verifier treats each by name. The variables
# of their signatures are for readers; `infer` is not for them.
_define("const", "-> T", "The constant `value`.", special=True, T=_S)
_define(
    "convert", "S -> T",
    "A number as another type. Integer to integer: the low bits, extended by the sign of the "
    "source. To float: to nearest even. Float to integer: toward zero, the nearest end of the "
    "range if out of it, 0 for NaN. To bool: whether it differs from 0.",
    special=True, S=_S, T=_S,
)  # fmt: skip
_define(
    "bitcast", "S -> T", "The same bits as another type of the same width.",
    special=True, S=_N, T=_N,
)  # fmt: skip
_define(
    "pointer_cast", "ptr<S> -> ptr<T>",
    "The same address with another element type. Each access must be aligned to its element.",
    special=True, S=_E, T=_E,
)  # fmt: skip
_define(
    "pointer_add", "ptr<T> I -> ptr<T>", "The address `index` elements after a pointer.",
    special=True, T=_E, I=_U,
)  # fmt: skip
_define(
    "load", "ptr<T> I -> T...",
    "`count` consecutive elements from pointer[index] on; u8 and u16 give u32.",
    effect="read", special=True, T=_E, I=_U,
)  # fmt: skip
_define(
    "store", "ptr<T> I T... ->",
    "Stores values at pointer[index] and the places after it; u8 and u16 keep the low bits.",
    effect="write", special=True, T=_E, I=_U,
)  # fmt: skip
_define(
    "atomic_add", "ptr<T> I T -> T", "Adds to pointer[index] atomically; gives the value before.",
    effect="write", special=True, T=_U, I=_U,
)  # fmt: skip
_define(
    "atomic_max", "ptr<T> I T -> T",
    "Makes pointer[index] the larger of it and the value, atomically; gives the value before.",
    effect="write", special=True, T=_U, I=_U,
)  # fmt: skip
_define(
    "atomic_min", "ptr<T> I T -> T",
    "Makes pointer[index] the smaller of it and the value, atomically; gives the value before.",
    effect="write", special=True, T=_U, I=_U,
)  # fmt: skip
_define(
    "atomic_or", "ptr<T> I T -> T",
    "Sets bits of pointer[index] atomically; gives the value before.",
    effect="write", special=True, T=_U, I=_U,
)  # fmt: skip
_define(
    "atomic_exchange", "ptr<T> I T -> T",
    "Replaces pointer[index] atomically; gives the value before.",
    effect="write", special=True, T=_U, I=_U,
)  # fmt: skip
_define(
    "atomic_compare_exchange", "ptr<T> I T T -> T",
    "Where pointer[index] is the third operand, replaces it by the fourth, atomically; gives the "
    "value before.",
    effect="write", special=True, T=_U, I=_U,
)  # fmt: skip
_define(
    "fence", "->",
    "What this instance loaded and stored before comes, for the whole device, before what it loads "
    "and stores after.",
    effect="write",
)  # fmt: skip
_define(
    "copy_async", "ptr<T, shared> I ptr<T, global> I ->",
    "Begins to copy `count` elements, 4, 8 or 16 bytes in all, from global to shared memory. Both "
    "addresses are multiples of that number of bytes. What arrives is there for this instance once "
    "it has waited, and for others after a barrier behind that.",
    effect="write", special=True, T=_E, I=_U,
)  # fmt: skip
_define(
    "copy_async_commit", "->",
    "Makes one group of the copies that this instance began since the last group.", effect="write",
)  # fmt: skip
_define(
    "copy_async_wait", "->",
    "Waits until all groups of copies of this instance but the last `pending` are done.",
    effect="write", special=True,
)  # fmt: skip
_define(
    "prefetch", "ptr<T> I ->",
    "Hint that `count` elements from pointer[index] on will be loaded soon.",
    effect="write", special=True, T=_E, I=_U,
)  # fmt: skip
_define(
    "shared", "-> ptr<T>", "An array of `count` elements for the workgroup, at first unset.",
    effect="write", special=True, T=_E,
)  # fmt: skip
_define(
    "private", "-> ptr<T>", "An array of `count` elements for the instance, at first unset.",
    effect="write", special=True, T=_E,
)  # fmt: skip
_define("call", "... -> ...", "Calls a device function.", effect="control", special=True)
_define(
    "if", "bool -> ...", "Two regions, one of which runs; each yields the results.",
    effect="control", special=True,
)  # fmt: skip
_define(
    "for", "I I I ... -> ...",
    "Start, stop and step of a counted loop, then its carried values. The step is above zero, and "
    "the index may not pass the end of its type.",
    effect="control", special=True, I=_I,
)  # fmt: skip
_define(
    "while", "... -> ...",
    "A loop of two regions: the first yields the condition, the second the next carried values.",
    effect="control", special=True,
)  # fmt: skip
_define(
    "yield", "... ->", "Ends a region with the values that it gives.",
    effect="control", special=True,
)  # fmt: skip
