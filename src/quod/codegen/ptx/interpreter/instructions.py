"""Decoders of the instructions that compute, from opcode and operands to a step."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from quod.codegen.ptx.interpreter import arithmetic
from quod.codegen.ptx.interpreter.arithmetic import UNSIGNED, Array, bits_of
from quod.codegen.ptx.interpreter.decode import (
    Code,
    Frame,
    Operands,
    assignment,
    carry_assignment,
    where,
)
from quod.codegen.ptx.interpreter.parse import Instruction
from quod.kernel.ir import types
from quod.kernel.ops import float8
from quod.kernel.ops.semantics import (
    dot_of_bytes,
    dot_of_halves_and_high_bytes,
    dot_of_halves_and_low_bytes,
    inverse_square_root,
    normal_power_of_two,
    pack_bf16,
    pack_f16,
    power_of_two,
    reciprocal,
    unpack_f16_low,
)

Decoder = Callable[[Instruction, Operands], Code]

_INTEGERS = ("u16", "u32", "u64", "s16", "s32", "s64")
_CARRIED = ("u32", "u64", "s32", "s64")
"""The types of additions with carry."""


def _type_of(instruction: Instruction, allowed: tuple[str, ...]) -> tuple[str, list[str]]:
    """Return the type that ends the opcode, and the modifiers before it."""
    *modifiers, type_ = instruction.opcode[1:] or ("",)
    if type_ not in allowed:
        raise instruction.error("is no instruction that is known here")
    return type_, modifiers


def _refuse(instruction: Instruction, modifiers: list[str]) -> None:
    if modifiers:
        raise instruction.error(f"has a modifier .{modifiers[0]} that is not known here")


def _one_type(instruction: Instruction, operands: Operands) -> Code:
    """Instructions of one type without modifiers."""
    name = instruction.opcode[0]
    allowed, make = arithmetic.ELEMENTWISE[name]
    type_, modifiers = _type_of(instruction, allowed)
    _refuse(instruction, modifiers)
    # Bit counts are 32 bits wide, as are the position and length of a bit field.
    result = "u32" if name in ("clz", "popc") else type_
    texts = instruction.operands
    operands.count(len(texts) if len(texts) > 1 else 2)
    sources = [operands.source(text, type_) for text in texts[1:3]]
    if name == "bfe":
        sources = [sources[0], *(operands.source(text, "u32") for text in texts[2:])]
    elif name in ("bfi", "prmt"):
        sources += [operands.source(text, "u32") for text in texts[3:]]
    return assignment(operands.target(texts[0], result), make(type_), sources)


def _rounded(
    instruction: Instruction, operands: Operands, type_: str, modifiers: list[str]
) -> Code:
    """Arithmetic of floating-point numbers, rounded to nearest even."""
    if modifiers != ["rn"]:
        raise instruction.error(
            "must round as .rn says, and do nothing else: without it the assembler may fuse it "
            "with another"
        )
    texts = instruction.operands
    operands.count({"sqrt": 2, "fma": 4, "mad": 4}.get(instruction.opcode[0], 3))
    sources = [operands.source(text, type_) for text in texts[1:]]
    evaluate = arithmetic.typed(arithmetic.ROUNDED[instruction.opcode[0]], type_)
    return assignment(operands.target(texts[0], type_), evaluate, sources)


def _sum(instruction: Instruction, operands: Operands) -> Code:
    """add, sub, addc, subc, with .cc or without."""
    name = instruction.opcode[0]
    type_, modifiers = _type_of(instruction, (*_INTEGERS, "f32", "f64"))
    if type_[0] == "f":
        return _rounded(instruction, operands, type_, modifiers)
    operands.count(3)
    target = operands.target(instruction.operands[0], type_)
    sources = [operands.source(text, type_) for text in instruction.operands[1:]]
    writes, reads = modifiers == ["cc"], name[-1] == "c"
    if not writes:
        _refuse(instruction, modifiers)
    if (writes or reads) and type_ not in _CARRIED:
        raise instruction.error(f"has no carry of type {type_}")
    subtracts = name.startswith("sub")
    if not (writes or reads):
        plain: Callable[[Any, Any], Any] = np.subtract if subtracts else np.add
        return assignment(target, plain, sources)
    evaluate: Any = {
        (False, False, True): arithmetic.add_out,
        (False, True, False): arithmetic.add_in,
        (False, True, True): arithmetic.add_in_out,
        (True, False, True): arithmetic.subtract_out,
        (True, True, False): arithmetic.subtract_in,
        (True, True, True): arithmetic.subtract_in_out,
    }[subtracts, reads, writes]
    return carry_assignment(
        instruction, target, evaluate, sources, reads=reads, writes=writes,
        kind="borrow" if subtracts else "carry",
    )  # fmt: skip


def _multiply(instruction: Instruction, operands: Operands) -> Code:
    """mul, mad and madc."""
    name = instruction.opcode[0]
    type_, modifiers = _type_of(instruction, (*_INTEGERS, "f32", "f64"))
    if type_[0] == "f":
        return _rounded(instruction, operands, type_, modifiers)
    half = modifiers.pop(0) if modifiers else ""
    if half not in ("lo", "hi", "wide") or (half == "hi" and bits_of(type_) == 16):
        raise instruction.error("is no product that is known here")
    result = f"{type_[0]}{2 * bits_of(type_)}" if half == "wide" else type_
    reads, writes = name == "madc", modifiers == ["cc"]
    if not writes:
        _refuse(instruction, modifiers)
    operands.count(3 if name == "mul" else 4)
    target = operands.target(instruction.operands[0], result)
    sources = [operands.source(text, type_) for text in instruction.operands[1:3]]
    if name == "mul":
        if writes:
            raise instruction.error("gives no carry")
        return assignment(target, arithmetic.product(half, type_), sources)
    sources.append(operands.source(instruction.operands[3], result))
    if not (reads or writes):
        return assignment(target, arithmetic.multiply_add(half, type_), sources)
    if half == "wide" or type_ not in _CARRIED:
        raise instruction.error("gives no carry")
    evaluate = arithmetic.multiply_add_carry(half, type_, reads, writes)
    return carry_assignment(
        instruction, target, evaluate, sources, reads=reads, writes=writes, kind="carry"
    )


def _divide(instruction: Instruction, operands: Operands) -> Code:
    if instruction.opcode[-1][0] == "f":
        return _rounded(
            instruction, operands, instruction.opcode[-1], list(instruction.opcode[1:-1])
        )
    return _one_type(instruction, operands)


def _float_only(instruction: Instruction, operands: Operands) -> Code:
    type_, modifiers = _type_of(instruction, ("f32", "f64"))
    return _rounded(instruction, operands, type_, modifiers)


_APPROXIMATED = {"ex2": power_of_two, "rcp": reciprocal, "rsqrt": inverse_square_root}


def _approximate(instruction: Instruction, operands: Operands) -> Code:
    """ex2, rcp and rsqrt: approximations on GPUs, correctly rounded here."""
    name, *modifiers = instruction.opcode
    function = _APPROXIMATED[name]
    if modifiers == ["approx", "ftz", "f32"] and name == "ex2":
        function = normal_power_of_two
    elif modifiers != ["approx", "f32"]:
        raise instruction.error("is no approximation that is known here")
    operands.count(2)
    target, source = instruction.operands
    evaluate = arithmetic.typed(function, "f32")
    return assignment(operands.target(target, "f32"), evaluate, [operands.source(source, "f32")])


def _extreme(instruction: Instruction, operands: Operands) -> Code:
    type_, modifiers = _type_of(instruction, (*_INTEGERS, "f32", "f64"))
    propagate = modifiers == ["NaN"]
    if not propagate:
        _refuse(instruction, modifiers)
    if propagate and type_ != "f32":
        raise instruction.error(f"does not exist for {type_}")
    operands.count(3)
    evaluate = arithmetic.extreme(instruction.opcode[0] == "max", type_, propagate)
    sources = [operands.source(text, type_) for text in instruction.operands[1:]]
    return assignment(operands.target(instruction.operands[0], type_), evaluate, sources)


def _shift(instruction: Instruction, operands: Operands) -> Code:
    to_left = instruction.opcode[0] == "shl"
    allowed = ("b16", "b32", "b64") if to_left else ("b16", "b32", "b64", *_INTEGERS)
    type_, modifiers = _type_of(instruction, allowed)
    _refuse(instruction, modifiers)
    operands.count(3)
    target, value, amount = instruction.operands
    sources = [operands.source(value, type_), operands.source(amount, "u32")]
    return assignment(operands.target(target, type_), arithmetic.shift(to_left, type_), sources)


def _funnel_shift(instruction: Instruction, operands: Operands) -> Code:
    type_, modifiers = _type_of(instruction, ("b32",))
    if len(modifiers) != 2 or modifiers[0] not in "lr" or modifiers[1] not in ("wrap", "clamp"):
        raise instruction.error("is no shift that is known here")
    operands.count(4)
    evaluate = arithmetic.funnel_shift(modifiers[0] == "l", modifiers[1] == "clamp")
    sources = [operands.source(text, type_) for text in instruction.operands[1:]]
    return assignment(operands.target(instruction.operands[0], type_), evaluate, sources)


_DOT_PRODUCTS = {
    ("dp4a", "s32", "s32"): dot_of_bytes,
    ("dp2a", "lo", "s32", "u32"): dot_of_halves_and_low_bytes,
    ("dp2a", "hi", "s32", "s32"): dot_of_halves_and_high_bytes,
}


def _dot_product(instruction: Instruction, operands: Operands) -> Code:
    dot = _DOT_PRODUCTS.get(instruction.opcode)
    if dot is None:
        raise instruction.error("is known here with the types that Quod writes alone")
    operands.count(4)
    target, *texts = instruction.operands
    sources = [operands.source(text, "s32") for text in texts]
    return assignment(
        operands.target(target, "s32"),
        lambda a, b, c: dot(a, b, c.view(np.int32)).view(np.uint32),
        sources,
    )


def _logic3(instruction: Instruction, operands: Operands) -> Code:
    type_, modifiers = _type_of(instruction, ("b32",))
    _refuse(instruction, modifiers)
    operands.count(5)
    *texts, table = instruction.operands
    sources = [operands.source(text, type_) for text in texts[1:]]
    evaluate = arithmetic.logic3(operands.number(table))
    return assignment(operands.target(texts[0], type_), evaluate, sources)


_PACKED: dict[tuple[str, ...], tuple[str, Callable[[Array, Array], Array]]] = {
    ("rn", "f16x2", "f32"): ("b32", pack_f16),
    ("rn", "bf16x2", "f32"): ("b32", pack_bf16),
    ("rn", "satfinite", "e4m3x2", "f32"): ("b16", partial(float8.pack, types.e4m3)),
    ("rn", "satfinite", "e5m2x2", "f32"): ("b16", partial(float8.pack, types.e5m2)),
}


def _convert_narrow(instruction: Instruction, operands: Operands) -> Code | None:
    """cvt of floats of 8 and 16 bits, which packs the first in the upper half; else None."""
    texts, kind = instruction.operands, instruction.opcode[1:]
    if kind in _PACKED:
        operands.count(3)
        register, pack = _PACKED[kind]
        register_type = UNSIGNED[bits_of(register)]
        sources = [operands.source(text, "f32") for text in texts[:0:-1]]

        def packed(low: Array, high: Array) -> Array:
            words: Array = pack(low.view(np.float32), high.view(np.float32)).astype(register_type)
            return words

        return assignment(operands.target(texts[0], register), packed, sources)
    unpack: Callable[[Array], Array] | None = {
        ("f32", "f16"): lambda a: unpack_f16_low(a).view(np.uint32),
        ("rn", "f16x2", "e4m3x2"): lambda a: float8.unpack_e4m3(a.astype(np.uint32)),
    }.get(kind)
    if unpack is None:
        return None
    operands.count(2)
    source = operands.source(texts[1], "b16")
    return assignment(operands.target(texts[0], "b32"), unpack, [source])


def _convert(instruction: Instruction, operands: Operands) -> Code:
    code = _convert_narrow(instruction, operands)
    if code is not None:
        return code
    if len(instruction.opcode) < 3:
        raise instruction.error("needs two types")
    *modifiers, target_type, source_type = instruction.opcode[1:]
    types = (*_INTEGERS, "u8", "s8", "f32", "f64")
    if target_type not in types or source_type not in types:
        raise instruction.error("is no conversion that is known here")
    rounding = modifiers.pop(0) if modifiers else None
    _refuse(instruction, modifiers)
    allowed_roundings: tuple[str | None, ...] = (None,)
    if source_type[0] == "f" and target_type[0] != "f":
        allowed_roundings = ("rzi", "rni")
    elif source_type == target_type and source_type[0] == "f":
        allowed_roundings = ("rmi", "rpi")
    elif target_type[0] == "f" and (
        source_type[0] != "f" or bits_of(target_type) < bits_of(source_type)
    ):
        allowed_roundings = ("rn",)
    if rounding not in allowed_roundings:
        raise instruction.error(
            f"must round as .{allowed_roundings[0]} says" if allowed_roundings[0] else "rounds not"
        )
    operands.count(2)
    target = operands.loose_target(instruction.operands[0])
    source_slot = operands.loose_source(instruction.operands[1], source_type)
    evaluate = arithmetic.convert(target_type, source_type, rounding)
    register_bits = operands.slots.bits[target]
    narrow, register_type = UNSIGNED[bits_of(source_type)], UNSIGNED[register_bits]
    if operands.slots.bits[source_slot] < bits_of(source_type) or register_bits < bits_of(
        target_type
    ):
        raise instruction.error("has a register that is too narrow")
    if bits_of(target_type) == register_bits and operands.slots.bits[source_slot] == bits_of(
        source_type
    ):
        return assignment(target, evaluate, [source_slot])
    extended_type = (
        arithmetic.numpy_type(f"s{register_bits}") if target_type[0] == "s" else register_type
    )

    def through(a: Array) -> Array:
        value = evaluate(a.astype(narrow)).view(arithmetic.numpy_type(target_type))
        result: Array = value.astype(extended_type).view(register_type)
        return result

    return assignment(target, through, [source_slot])


def _move(instruction: Instruction, operands: Operands) -> Code:
    types = ("pred", "b16", "b32", "b64", *_INTEGERS, "f32", "f64")
    type_, modifiers = _type_of(instruction, types)
    _refuse(instruction, modifiers)
    operands.count(2)
    target, source = instruction.operands
    if target[0] == "{":
        return _unpack(operands, type_, target, source)
    slot = operands.target(target, type_)
    if source[0] == "{":
        return _pack(operands, type_, slot, source)
    name, _, offset = source.partition("+")
    if name in operands.slots.addresses:
        # The address of a variable, or of an offset in it.
        address = operands.slots.addresses[name] + int(offset or 0)
        return assignment(slot, lambda a: a, [operands.slots.constant(bits_of(type_), address)])
    return assignment(slot, lambda a: a, [operands.source(source, type_)])


def elements(text: str) -> list[str]:
    """Return the parts of a vector operand {a, b}."""
    return [part.strip() for part in text[1:-1].split(",")]


def _pack(operands: Operands, type_: str, target: int, source: str) -> Code:
    parts = elements(source)
    bits = bits_of(type_) // len(parts)
    sources = [operands.source(part, f"b{bits}") for part in parts]
    wide = UNSIGNED[bits_of(type_)]

    def evaluate(*parts_in: Array) -> Array:
        result = parts_in[0].astype(wide)
        for index, part in enumerate(parts_in[1:], 1):
            result = result | (part.astype(wide) << wide(index * bits))
        return result

    return assignment(target, evaluate, sources)


def _unpack(operands: Operands, type_: str, target: str, source: str) -> Code:
    parts = elements(target)
    bits = bits_of(type_) // len(parts)
    source_slot = operands.source(source, type_)
    targets = [None if part == "_" else operands.target(part, f"b{bits}") for part in parts]
    wide, narrow = UNSIGNED[bits_of(type_)], UNSIGNED[bits]

    def part_of(frame: Frame, index: int) -> Array:
        shifted = frame[source_slot] >> wide(index * bits)
        result: Array = shifted.astype(narrow)
        return result

    def alone(frame: Frame, mask: Array) -> None:
        part_values = [part_of(frame, index) for index in range(len(parts))]
        for slot, value in zip(targets, part_values, strict=True):
            if slot is not None:
                frame[slot] = value

    def masked(frame: Frame, mask: Array) -> None:
        part_values = [part_of(frame, index) for index in range(len(parts))]
        for slot, value in zip(targets, part_values, strict=True):
            if slot is not None:
                frame[slot] = where(mask, value, frame[slot])

    return Code(alone, masked)


def _select(instruction: Instruction, operands: Operands) -> Code:
    type_, modifiers = _type_of(instruction, ("b16", "b32", "b64", *_INTEGERS, "f32", "f64"))
    _refuse(instruction, modifiers)
    operands.count(4)
    target, a, b, condition = instruction.operands
    sources = [
        operands.source(condition, "pred"),
        operands.source(a, type_),
        operands.source(b, type_),
    ]
    return assignment(operands.target(target, type_), np.where, sources)


_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor
}  # fmt: skip


def _compare(instruction: Instruction, operands: Operands) -> Code:
    """setp, with a second predicate for the complement, and with a predicate to combine with."""
    type_, modifiers = _type_of(instruction, ("b16", "b32", "b64", *_INTEGERS, "f32", "f64"))
    evaluate = arithmetic.comparison(modifiers[0], type_) if modifiers else None
    combine = _COMBINE.get(modifiers[1]) if len(modifiers) == 2 else None
    if evaluate is None or len(modifiers) > 2 or (len(modifiers) == 2 and combine is None):
        raise instruction.error("is no comparison that is known here")
    operands.count(4 if combine else 3)
    first, *source_texts = instruction.operands
    sources = [operands.source(text, type_) for text in source_texts[:2]]
    names = first.split("|")
    targets = [operands.target(name.strip(), "pred") for name in names]
    if combine is None and len(targets) == 1:
        return assignment(targets[0], evaluate, sources)
    negated = combine is not None and source_texts[2].startswith("!")
    other = operands.source(source_texts[2].lstrip("!"), "pred") if combine else None

    def predicates(frame: Frame) -> list[Array]:
        holds = evaluate(*(frame[slot] for slot in sources))
        results = [holds, ~holds][: len(targets)]
        if combine is None or other is None:
            return results
        combined_with = ~frame[other] if negated else frame[other]
        return [combine(result, combined_with) for result in results]

    def alone(frame: Frame, mask: Array) -> None:
        for slot, value in zip(targets, predicates(frame), strict=True):
            frame[slot] = value

    def masked(frame: Frame, mask: Array) -> None:
        for slot, value in zip(targets, predicates(frame), strict=True):
            frame[slot] = where(mask, value, frame[slot])

    return Code(alone, masked)


COMPUTING: dict[str, Decoder] = {
    **dict.fromkeys(arithmetic.ELEMENTWISE, _one_type),
    **dict.fromkeys(("add", "sub", "addc", "subc"), _sum),
    **dict.fromkeys(("mul", "mad", "madc"), _multiply),
    **dict.fromkeys(("fma", "sqrt"), _float_only),
    **dict.fromkeys(_APPROXIMATED, _approximate),
    "div": _divide,
    "min": _extreme,
    "max": _extreme,
    "shl": _shift,
    "shr": _shift,
    "shf": _funnel_shift,
    "lop3": _logic3,
    "dp4a": _dot_product,
    "dp2a": _dot_product,
    "cvt": _convert,
    "mov": _move,
    "selp": _select,
    "setp": _compare,
}
"""The decoders of the instructions that compute registers from registers."""
