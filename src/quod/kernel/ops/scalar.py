"""The op table: the single source for the tracer, the verifier, the interpreter and the docs.

A row has all target-independent properties of an op: operand and result types, traits, a sentence
of documentation and, for ops that only compute, a NumPy function over all lanes. Other code reads
the row's traits instead of keeping lists of op names; each target has one rule per op.
tests/kernel/test_op_table.py enforces this; docs/extending.md adds an op as an example.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from quod.kernel.ir import types
from quod.kernel.machine import Capability
from quod.kernel.ops import semantics
from quod.kernel.ops.matrix import define_matrix_ops
from quod.kernel.ops.semantics import NUMPY_TYPES
from quod.kernel.ops.table import OPS
from quod.kernel.ops.table import define as _define
from quod.kernel.ops.tile import define_tile_ops

__all__ = ["ATOMICS", "COMBINING", "NUMPY_TYPES", "OPS", "SUBGROUP", "TOGETHER", "distances"]

_I, _N, _U, _S = types.INTEGERS, types.NUMBERS, types.UNSIGNED, types.SCALARS
_IB = (types.bool_, *types.INTEGERS)
_E = (*types.SCALARS, *types.STORAGE, *types.NARROW_FLOATS)  # elements in memory

_row = partial(_define, "Arithmetic")
_row(
    "add", "T T -> T", "Sum; integers wrap.", np.add, T=_N,
    cost="additions", commutative=True, identity=0, lane_rule="sum",
)  # fmt: skip
_row(
    "sub", "T T -> T", "Difference; integers wrap.", np.subtract, T=_N,
    cost="additions", identity=0, lane_rule="difference",
)  # fmt: skip
_row(
    "mul", "T T -> T", "Product; integers keep the low half.", np.multiply, T=_N,
    cost="product", factors=(0, 1), commutative=True, identity=1, absorber=0, lane_rule="product",
)  # fmt: skip
_row(
    "div", "T T -> T",
    "Quotient. Integers round down, as Python's //; the quotient by 0 has all bits set.",
    semantics.divide, T=_N, identity=1, lane_rule="quotient", ulps={"wgsl": 2.5},
)  # fmt: skip
_row(
    "rem", "T T -> T", "Remainder with the sign of b, as Python's %; a if b is 0.",
    semantics.remainder, T=_I, identity=0, lane_rule="remainder",
)  # fmt: skip
_row(
    "min", "T T -> T", "The smaller operand; NaN if either is NaN, and -0 is below +0.",
    semantics.minimum, T=_N, commutative=True, lane_rule="extreme",
)  # fmt: skip
_row(
    "max", "T T -> T", "The larger operand; NaN if either is NaN, and -0 is below +0.",
    semantics.maximum, T=_N, commutative=True, lane_rule="extreme",
)  # fmt: skip
_row(
    "neg", "T -> T", "Negation; integers wrap.", np.negative, T=(*types.FLOATS, *_I),
    lane_rule="negation",
)  # fmt: skip
_row(
    "abs", "T -> T", "The absolute value; that of the least integer wraps to itself.", np.abs,
    T=(types.i32, types.i64, *types.FLOATS),
)  # fmt: skip
_row(
    "fma", "T T T -> T", "a * b + c, rounded once; through WebGPU perhaps twice.",
    semantics.fused_multiply_add, T=types.FLOATS,
)  # fmt: skip
_row(
    "sqrt", "T -> T", "Square root, correctly rounded.", np.sqrt, T=types.FLOATS, ulps={"wgsl": 3},
)  # fmt: skip
_row(
    "rsqrt", "T -> T", "1 / sqrt(a).", semantics.inverse_square_root, T=(types.f32,),
    ulps={"llvm": 1.5, "ptx": 2, "wgsl": 3},
)  # fmt: skip
_row(
    "rcp", "T -> T", "1 / a.", semantics.reciprocal, T=(types.f32,), ulps={"ptx": 1, "wgsl": 2.5},
)  # fmt: skip
_row("floor", "T -> T", "The largest integer not above a, as a float.", np.floor, T=types.FLOATS)
_row("ceil", "T -> T", "The smallest integer not below a, as a float.", np.ceil, T=types.FLOATS)
_row(
    "exp2", "T -> T", "`2**a`.", semantics.power_of_two, T=(types.f32,),
    capability=Capability.EXP2, ulps={"ptx": 3},
)  # fmt: skip
_row(
    "exp2_normal", "T -> T", "`2**a`; results below `2**-126` are 0.",
    semantics.normal_power_of_two, T=(types.f32,), capability=Capability.EXP2, ulps={"ptx": 3},
)  # fmt: skip


_row = partial(_define, "Bits")
_row(
    "and", "T T -> T", "Bitwise and.", np.bitwise_and, T=_IB,
    commutative=True, identity=-1, absorber=0, lane_rule="conjunction",
)  # fmt: skip
_row(
    "or", "T T -> T", "Bitwise or.", np.bitwise_or, T=_IB,
    commutative=True, identity=0, absorber=-1, lane_rule="below base",
)  # fmt: skip
_row(
    "xor", "T T -> T", "Bitwise exclusive or.", np.bitwise_xor, T=_IB,
    commutative=True, identity=0, lane_rule="below base",
)  # fmt: skip
_row("not", "T -> T", "Bitwise complement.", np.invert, T=_IB)
_row(
    "shl", "T T -> T", "Shift left; the amount counts modulo the width.",
    lambda a, n: a << semantics.shift_amount(a, n), T=_I,
    evaluate_in_range=np.left_shift, identity=0, lane_rule="left",
)  # fmt: skip
_row(
    "shr", "T T -> T", "Shift right, arithmetic if signed; the amount counts modulo the width.",
    lambda a, n: a >> semantics.shift_amount(a, n), T=_I,
    evaluate_in_range=np.right_shift, identity=0, lane_rule="right",
)  # fmt: skip

_row = partial(_define, "Wide products")
_row(
    "mul_hi", "T T -> T", "High half of the full product.", semantics.multiply_high, T=_U,
    cost="high product", factors=(0, 1), commutative=True, absorber=0,
)  # fmt: skip
_row(
    "mul_wide", "u32 u32 -> u64", "Full 64-bit product of two 32-bit integers.",
    semantics.multiply_wide, cost="product", factors=(0, 1), commutative=True, lane_rule="product",
)  # fmt: skip
_row(
    "madd52_lo", "u64 u64 u64 -> u64",
    "c + (low 52 bits of the product of the low 52 bits of a and b); operands c, a, b.",
    semantics.multiply_add_52_low, cost="high product", factors=(1, 2),
)  # fmt: skip
_row(
    "madd52_hi", "u64 u64 u64 -> u64",
    "c + (bits 52 to 103 of the product of the low 52 bits of a and b); operands c, a, b.",
    semantics.multiply_add_52_high, cost="high product", factors=(1, 2),
)  # fmt: skip
_halves, _bytes = "two signed 16-bit halves", Capability.BYTE_PRODUCTS
_low, _high = (f"{_halves} of a and the {text}" for text in (
    "unsigned bytes 0 and 1", "signed bytes 2 and 3"
))  # fmt: skip
for _name, _factors, _dot, _needed in (
    ("dot4", "four signed bytes of a and of b", semantics.dot_of_bytes, None),
    ("dot2", f"{_halves} of a and of b", semantics.dot_of_halves, None),
    ("dot2_low_bytes", f"{_low} of b", semantics.dot_of_halves_and_low_bytes, _bytes),
    ("dot2_high_bytes", f"{_high} of b", semantics.dot_of_halves_and_high_bytes, _bytes),
):
    _doc = f"c + the dot product of the {_factors}; the sum wraps."
    _row(_name, "u32 u32 i32 -> i32", _doc, _dot, capability=_needed)

_row = partial(_define, "Comparison and choice", lane_rule="comparison")
_row("eq", "T T -> bool", "a equals b.", np.equal, T=_S, commutative=True)
_row("ne", "T T -> bool", "a differs from b.", np.not_equal, T=_S, commutative=True)
_row("lt", "T T -> bool", "a is less than b.", np.less, T=_N)
_row("le", "T T -> bool", "a is at most b.", np.less_equal, T=_N)
_row(
    "select", "bool T T -> T", "The second operand where the first is true, else the third.",
    np.where, T=_S, lane_rule="choice",
)  # fmt: skip

_row = partial(_define, "Counting bits", T=_U)
_row("clz", "T -> T", "Count of leading zero bits.", semantics.count_leading_zeros)
_row("ctz", "T -> T", "Count of trailing zero bits.", semantics.count_trailing_zeros)
_row("popcount", "T -> T", "Count of one bits.", lambda a: np.bitwise_count(a).astype(a.dtype))

_row = partial(_define, "Carry chains", effect="carry", cost="additions", T=_U)
_row("add_cc", "T T -> T cc", "Sum and carry out.", semantics.add_carry)
_row("addc_cc", "T T cc -> T cc", "Sum with carry in, and carry out.", semantics.add_carry)
_row("addc", "T T cc -> T", "Sum with carry in.", lambda a, b, c: semantics.add_carry(a, b, c)[0])
_row("sub_cc", "T T -> T cc", "Difference and borrow out.", semantics.subtract_borrow)
_row(
    "subc_cc", "T T cc -> T cc", "Difference with borrow in, and borrow out.",
    semantics.subtract_borrow,
)  # fmt: skip
_row(
    "subc", "T T cc -> T", "Difference with borrow in.",
    lambda a, b, c: semantics.subtract_borrow(a, b, c)[0],
)  # fmt: skip
_row = partial(_row, cost="product", factors=(0, 1))
_row(
    "mad_lo_cc", "T T T -> T cc", "Low half of a * b, plus c, and carry out.",
    semantics.multiply_low_add,
)  # fmt: skip
_row(
    "madc_lo_cc", "T T T cc -> T cc", "Low half of a * b, plus c, with carry in and out.",
    semantics.multiply_low_add,
)  # fmt: skip
_row = partial(_row, cost="high product")
_row(
    "mad_hi_cc", "T T T -> T cc", "High half of a * b, plus c, and carry out.",
    semantics.multiply_high_add, kept_for="chains that begin with a high half; the family is whole",
)  # fmt: skip
_row(
    "madc_hi_cc", "T T T cc -> T cc", "High half of a * b, plus c, with carry in and out.",
    semantics.multiply_high_add,
)  # fmt: skip
_row(
    "madc_hi", "T T T cc -> T", "High half of a * b, plus c, with carry in.",
    lambda a, b, c, carry: semantics.multiply_high_add(a, b, c, carry)[0],
)  # fmt: skip

_row = partial(
    _define, "Where an instance is, barriers and subgroups",
    cost="free", interpreter_function="identity", cheap_to_recompute=True,
)  # fmt: skip
_row("local_id", "-> u32", "Index of this instance in its workgroup.", varies="always")
_row("workgroup_id", "-> u32", "Index of this workgroup in the grid.")
_row("num_workgroups", "-> u32", "Workgroups in the grid.")
_row = partial(
    _define, "Where an instance is, barriers and subgroups", effect="barrier", cost="barriers",
    type_rule="named_barrier", capability=Capability.NAMED_BARRIERS, makes_roles=True,
)  # fmt: skip
_row(
    "named_barrier", "->",
    "Waits until `count` instances have arrived at the barrier `number`, 1 to 15. The subgroups "
    "that arrive must be known before the kernel runs.", blocks=True,
)  # fmt: skip
_row(
    "named_barrier_arrive", "->",
    "Arrives at the barrier `number` without waiting. Instances that wait there see this "
    "instance's earlier stores.", interpreter_function="named_barrier",
)  # fmt: skip
_row = partial(_define, "Where an instance is, barriers and subgroups", requires_uniformity=True)
_row(
    "registers", "->",
    "Sets the number of registers of each instance of the executing warpgroups (four subgroups) to "
    "`count`, a multiple of 8 from 24 to 256. The workgroup's total must not exceed its initial "
    "total. Machines that cannot redistribute registers do nothing.",
    effect="write", type_rule="registers", capability=Capability.NAMED_BARRIERS, makes_roles=True,
)  # fmt: skip
_row(
    "barrier", "->", "Waits for all instances of the workgroup.", effect="barrier", cost="barriers",
    blocks=True,
)  # fmt: skip
_row(
    "uniform", "T -> T",
    "The operand, which must be equal in all instances of the workgroup: branches and loops that "
    "depend on the result are uniform.",
    effect="subgroup", cost="free", varies="never", renames=True, T=_S,
)  # fmt: skip
_row = partial(_row, effect="subgroup", cost="shuffles", capability=Capability.SUBGROUPS)
_row(
    "shuffle", "T u32 -> T",
    "The first operand's value in another instance of the subgroup: the second operand, modulo the "
    "subgroup's size, is that instance's index in the subgroup.", subgroup_operands=(1,), T=_N,
)  # fmt: skip
_row(
    "ballot", "bool -> u32", "Bit i is 1 if the operand is true in instance i of the subgroup.",
    subgroup_operands=(),
)  # fmt: skip
_row = partial(_row, subgroup_operands=(), interpreter_function="combined", T=_N)
_row(
    "subgroup_sum", "T -> T",
    "The sum over the instances of the subgroup. Floats are added in pairs half the subgroup "
    "apart, these sums in pairs a quarter apart, and so on. A value whose partner is beyond the "
    "workgroup is unchanged; the first instance's result is the sum for all.", combines="add",
)  # fmt: skip
_row(
    "subgroup_min", "T -> T", "The minimum over the subgroup, as `min` defines it.", combines="min",
)  # fmt: skip
_row(
    "subgroup_max", "T -> T", "The maximum over the subgroup, as `max` defines it.", combines="max",
)  # fmt: skip

define_matrix_ops()
define_tile_ops()

_row = partial(_define, "Constants and conversions")
_row(
    "const", "-> T", "The constant `value`.", type_rule="constant", cost="free",
    cheap_to_recompute=True, unnamed_attribute="value", unwritten=True, T=_S,
)  # fmt: skip
_row(
    "convert", "S -> T",
    "A number as another type. Integer to integer: the low bits, sign-extended if the source is "
    "signed. To float: rounded to nearest even. Float to integer: rounded toward zero, saturating; "
    "NaN becomes 0. To bool: true unless 0.",
    type_rule="conversion", evaluate_as=semantics.convert, lane_rule="conversion",
    derived=("type",),
    renames=True, S=_S, T=_S,
)  # fmt: skip
_row(
    "bitcast", "S -> T", "The same bits as another type of the same width.",
    type_rule="bitcast", evaluate_as=semantics.bitcast, lane_rule="same bits", cost="free",
    derived=("type",), renames=True, S=_N, T=_N,
)  # fmt: skip
_row = partial(_row, capability=Capability.F16)
_row("unpack_f16_low", "u32 -> f32", "The f16 in the low half of a word.", semantics.unpack_f16_low)
_row(
    "unpack_f16_high", "u32 -> f32", "The f16 in the high half of a word.",
    semantics.unpack_f16_high,
)  # fmt: skip
_row(
    "pack_f16", "f32 f32 -> u32",
    "Two numbers as f16 in a word, the first in the low half. Each is rounded to nearest even; "
    "numbers out of range become infinite, and NaN 0x7fff.", semantics.pack_f16,
)  # fmt: skip
_row(
    "pack_bf16", "f32 f32 -> u32", "As `pack_f16`, with bf16.", semantics.pack_bf16,
    capability=Capability.BF16,
)  # fmt: skip

_row = partial(_define, "Constants and conversions", capability=Capability.FLOATS8)
_row(
    "unpack_e4m3", "u32 -> u32",
    "The two e4m3 in the low half of a word as two f16 in a word; NaN becomes 0x7fff.",
    semantics.unpack_e4m3,
)  # fmt: skip
_row(
    "pack_e4m3", "f32 f32 -> u32",
    "Two numbers as e4m3 in the low half of a word, the first in the lowest byte. Each is rounded "
    "to nearest even; numbers out of range become the greatest number, and NaN 0x7f.",
    semantics.pack_e4m3,
)  # fmt: skip
_row("pack_e5m2", "f32 f32 -> u32", "As `pack_e4m3`, with e5m2.", semantics.pack_e5m2)

_row = partial(_define, "Memory")
_row(
    "pointer_cast", "ptr<S> -> ptr<T>",
    "The same address with another element type. Each access must be aligned to its element.",
    type_rule="pointer_cast", cost="free", derived=("type",), S=_E, T=_E,
)  # fmt: skip
_row(
    "pointer_add", "ptr<T> I -> ptr<T>", "The address `index` elements after a pointer.",
    type_rule="pointer_add", T=_E, I=_U,
)  # fmt: skip
_row(
    "load", "ptr<T> I -> T...",
    "`count` consecutive elements from pointer[index] on; u8 and u16 give u32, i8 and i16 i32.",
    effect="read", access="load", varies="memory", cost="memory", type_rule="load",
    derived=("count",), T=_E, I=_U,
)  # fmt: skip
_row(
    "store", "ptr<T> I T... ->",
    "Stores values at pointer[index] and the following elements; narrow integers keep the low "
    "bits.",
    effect="write", access="store", cost="memory", type_rule="store", T=_E, I=_U,
)  # fmt: skip

_row = partial(_define, "Launches that overlap", effect="write", cost="free")
_row(
    "dependency_wait", "->",
    "Waits until the preceding launches have ended and their stores are visible. Before this op, "
    "a kernel may access only arrays that it declares constant.",
)  # fmt: skip
_row(
    "launch_dependents", "->",
    "Allows the next launch to start, up to its `dependency_wait`, once all workgroups of this "
    "launch have executed this op or ended.", interpreter_function="nothing",
)  # fmt: skip

_row = partial(
    _define, "Memory", effect="write", access="atomic", varies="always", cost="atomics",
    type_rule="atomic", interpreter_function="atomic", T=_U, I=_U,
)  # fmt: skip
_row(
    "atomic_add", "ptr<T> I T -> T",
    "Adds to pointer[index] atomically; returns the previous value.", update=np.add,
)  # fmt: skip
_row(
    "atomic_max", "ptr<T> I T -> T",
    "Sets pointer[index] to the larger of it and the value, atomically; returns the previous "
    "value.",
    update=np.maximum,
)  # fmt: skip
_row(
    "atomic_min", "ptr<T> I T -> T",
    "Sets pointer[index] to the smaller of it and the value, atomically; returns the previous "
    "value.",
    update=np.minimum,
)  # fmt: skip
_row(
    "atomic_or", "ptr<T> I T -> T",
    "Sets bits of pointer[index] atomically; returns the previous value.", update=np.bitwise_or,
)  # fmt: skip
_row(
    "atomic_exchange", "ptr<T> I T -> T",
    "Replaces pointer[index] atomically; returns the previous value.",
    update=lambda old, value: value,
)  # fmt: skip
_row(
    "atomic_compare_exchange", "ptr<T> I T T -> T",
    "Replaces pointer[index] by the fourth operand if it equals the third, atomically; returns the "
    "previous value.", update=lambda old, expected, value: np.where(old == expected, value, old),
)  # fmt: skip

_row = partial(_define, "Memory", effect="write")
_row(
    "fence", "->",
    "Orders this instance's earlier loads and stores before its later ones, for the whole device.",
    interpreter_function="nothing",
)  # fmt: skip
_row(
    "copy_async", "ptr<T,shared> I ptr<T,global> I ->",
    "Starts to copy `count` elements, 4, 8 or 16 bytes in all, from global to shared memory. Both "
    "addresses are multiples of that number of bytes. The data is visible to this instance after "
    "its wait, and to other instances after a barrier that follows the wait.",
    access="copy", cost="memory", type_rule="copy_async", T=_E, I=_U,
)  # fmt: skip
_row(
    "copy_async_or_zero", "ptr<T,shared> I ptr<T,global> I bool ->",
    "As `copy_async`; if the last operand is false, stores zeros and reads nothing.", access="copy",
    cost="memory", type_rule="copy_async", interpreter_function="copy_async", T=_E, I=_U,
    capability=Capability.ASYNC_COPIES,
)  # fmt: skip
_row(
    "copy_async_commit", "->",
    "Forms a group of the copies that this instance started since the last group.",
)  # fmt: skip
_row(
    "copy_async_wait", "->",
    "Waits until all groups of copies of this instance but the last `pending` are done.",
    type_rule="copy_async_wait",
)  # fmt: skip
_row(
    "prefetch", "ptr<T> I ->",
    "Hint that `count` elements from pointer[index] on will be loaded soon.",
    type_rule="prefetch", interpreter_function="nothing", cost="free", T=_E, I=_U,
)  # fmt: skip
_row = partial(
    _row,
    type_rule="array",
    interpreter_function="declare",
    cost="free",
    cheap_to_recompute=True,
    unnamed_attribute="count",
    T=_E,
)
_row(
    "shared", "-> ptr<T>", "An uninitialised array of `count` elements for the workgroup.",
    declares="shared",
)  # fmt: skip
_row(
    "private", "-> ptr<T>", "An uninitialised array of `count` elements for the instance.",
    declares="private", varies="always",
)  # fmt: skip
_row(
    "table", "-> ptr<T>",
    "A read-only table of `count` elements; `data` has their bytes in hex, little-endian.",
    declares="constant", type_rule="table",
)  # fmt: skip

_row = partial(
    _define, "On devices that check", effect="write", cost="free", capability=Capability.CHECKS
)
_row(
    "print", "... ->", "Prints `text` with the operands in place of {}, one line per instance.",
    type_rule="shown", interpreter_function="shown",
)  # fmt: skip
_row(
    "assert", "bool ->", "Stops the launch with `message` if the operand is false.",
    interpreter_function="checked",
)  # fmt: skip

_row = partial(_define, "Functions and control flow", effect="control", cost="control")
_row(
    "call", "... -> ...", "Calls a device function.", type_rule="call", unnamed_attribute="function"
)
_row(
    "if", "bool -> ...", "Two regions, one of which runs; each yields the results.",
    type_rule="branch", interpreter_function="branch", regions=2, condition_operands=1,
    separator="else",
)  # fmt: skip
_row(
    "for", "I I I ... -> ...",
    "A counted loop: operands are start, stop, step and the carried values. The step must be above "
    "zero, and the index must not overflow its type.",
    type_rule="counted_loop", interpreter_function="counted_loop", regions=1, repeats=True,
    condition_operands=3,
    I=_I,
)  # fmt: skip
_row(
    "while", "... -> ...",
    "A loop of two regions: the first yields the condition, the second the next carried values.",
    type_rule="checked_loop", interpreter_function="checked_loop", regions=2, repeats=True,
    separator="do",
)  # fmt: skip
_row(
    "yield", "... ->", "Ends a region, returning its operands.", type_rule="region_end",
    unwritten=True,
)  # fmt: skip


def distances(width: int) -> list[int]:
    """Return the lane distances of a butterfly reduction over `width` lanes, largest first."""
    return [1 << bit for bit in reversed(range((width - 1).bit_length()))]


ATOMICS = tuple(name for name, row in OPS.items() if row.access == "atomic")
"""The names of the atomic read-modify-write ops."""

SUBGROUP = tuple(name for name, row in OPS.items() if row.capability is Capability.SUBGROUPS)
"""The ops that need subgroups."""

COMBINING = tuple(name for name, row in OPS.items() if row.combines)
"""The names of the subgroup reductions."""

TOGETHER = tuple(name for name, row in OPS.items() if row.requires_uniformity)
"""The ops that are legal only where all instances of the workgroup reach them."""
