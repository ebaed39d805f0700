"""Lowering of memory accesses to arrays of words and indices."""

from __future__ import annotations

import numpy as np

from quod.codegen.wgsl.lowering.body import (
    WORD_BITS,
    WORD_BYTES,
    Lowered,
    LoweredPointer,
    Lowering,
    Rule,
)
from quod.errors import KernelError
from quod.kernel.ir import types
from quod.kernel.ir.nodes import Op
from quod.kernel.ir.types import PointerType
from quod.kernel.ir.value import Value
from quod.kernel.ops.scalar import ATOMICS


def _declared(lowering: Lowering, op: Op) -> None:
    """Lower the declaration of a shared or private array or of a table."""
    pointer = op.results[0].type
    assert isinstance(pointer, PointerType)
    nbytes = pointer.element.bytes * int(op.attributes["count"])
    words = -(-nbytes // WORD_BYTES)
    space = op.definition.declares
    if space == "constant":
        data = bytes.fromhex(op.attributes["data"]).ljust(words * WORD_BYTES, b"\0")
        array = lowering.k.table(types.u32, np.frombuffer(data, "<u4").tolist())
    else:
        declare = lowering.k.shared if space == "shared" else lowering.k.private
        array = declare(types.u32, words)
        if space == "private" and pointer.element.bytes < WORD_BYTES:
            # A store of part of a word reads the word, so it must be initialised.
            with lowering.k.range(0, words) as loop:
                array[loop.index] = 0
    lowering.values[op.results[0]] = LoweredPointer(array, lowering.zero(), pointer.element)


def _pointer_cast(lowering: Lowering, op: Op) -> None:
    pointer, type_ = lowering.pointer(op.operands[0]), op.attributes["type"]
    unit = min(type_.element.bytes, WORD_BYTES)
    offset = pointer.offset
    if unit < pointer.unit:
        offset = offset * (pointer.unit // unit)
    elif unit > pointer.unit:
        offset = offset // (unit // pointer.unit)
    lowering.values[op.results[0]] = LoweredPointer(pointer.array, offset, type_.element)


def _units(lowering: Lowering, pointer: LoweredPointer, index: Value) -> Value:
    """Return the offset of an element at an index from a pointer, in the pointer's units."""
    low = lowering.wide.low(lowering.values[index])
    factor = max(1, pointer.element.bytes // WORD_BYTES)
    return pointer.offset + low * factor


def _pointer_add(lowering: Lowering, op: Op) -> None:
    pointer = lowering.pointer(op.operands[0])
    offset = _units(lowering, pointer, op.operands[1])
    lowering.values[op.results[0]] = LoweredPointer(pointer.array, offset, pointer.element)


def _load(lowering: Lowering, op: Op) -> None:
    k, pointer = lowering.k, lowering.pointer(op.operands[0])
    count, first_unit = int(op.attributes["count"]), _units(lowering, pointer, op.operands[1])
    if pointer.unit < WORD_BYTES:
        values: list[Lowered] = [
            _narrow_load(lowering, pointer, first_unit + i) for i in range(count)
        ]
    else:
        words_per_element = pointer.element.bytes // WORD_BYTES
        words = k.load(pointer.array, first_unit, count * words_per_element)
        values = [
            lowering.wide.from_words(
                pointer.element, words[i * words_per_element : (i + 1) * words_per_element]
            )
            for i in range(count)
        ]
    lowering.values.update(zip(op.results, values, strict=True))


def _narrow(
    lowering: Lowering, pointer: LoweredPointer, unit_index: Value
) -> tuple[Value, Value, int]:
    """Return the word index of a narrow element, its shift in the word, and its unshifted mask."""
    bits = 8 * pointer.unit
    per_word = WORD_BYTES // pointer.unit
    return unit_index // per_word, (unit_index % per_word) * bits, (1 << bits) - 1


def _narrow_load(lowering: Lowering, pointer: LoweredPointer, unit_index: Value) -> Value:
    k, element = lowering.k, pointer.element
    word, shift, mask = _narrow(lowering, pointer, unit_index)
    loaded = k.load(pointer.array, word)[0]
    if element.kind == "signed":
        # Sign-extend by a shift to the top of the word and an arithmetic shift back.
        return k.bitcast(loaded << (WORD_BITS - element.bits - shift), types.i32) >> (
            WORD_BITS - element.bits
        )
    value = (loaded >> shift) & mask
    return value != 0 if element is types.bool_ else value


def _store(lowering: Lowering, op: Op) -> None:
    k, pointer = lowering.k, lowering.pointer(op.operands[0])
    first_unit = _units(lowering, pointer, op.operands[1])
    new_values = lowering.lowered(op.operands[2:])
    if pointer.unit < WORD_BYTES:
        if not types.is_private(pointer.array.type):
            lowering.record_atomic(pointer)
        for i, value in enumerate(new_values):
            assert isinstance(value, Value)
            word, shift, mask = _narrow(lowering, pointer, first_unit + i)
            value = value.cast(types.u32)
            old_word = k.load(pointer.array, word)[0]
            old_value = (old_word >> shift) & mask
            difference = ((value & mask) - old_value) << shift
            if types.is_private(pointer.array.type):
                k.store(pointer.array, word, old_word + difference)
            else:
                # Other instances may change the rest of the word concurrently, so the difference of
                # this part is added atomically.
                k.atomic_add(pointer.array, word, difference)
        return
    words = [word for value in new_values for word in lowering.wide.to_words(value)]
    k.store(pointer.array, first_unit, *words)


def _atomic(lowering: Lowering, op: Op) -> None:
    pointer = lowering.pointer(op.operands[0])
    if pointer.element is not types.u32:
        raise KernelError(f"{op.location}: WGSL has no atomic operations on {pointer.element}")
    lowering.record_atomic(pointer)
    index = _units(lowering, pointer, op.operands[1])
    values = [lowering.value(value) for value in op.operands[2:]]
    (old_word,) = lowering.tracer.record(op.name, (pointer.array, index, *values), [types.u32])
    lowering.values[op.results[0]] = old_word


def _fence(lowering: Lowering, op: Op) -> None:
    raise KernelError(
        f"{op.location}: WGSL orders no accesses between workgroups of one launch; cut the "
        "kernel in two"
    )


def _copy_async(lowering: Lowering, op: Op) -> None:
    """Lower an asynchronous copy to a synchronous one."""
    target, source = lowering.pointer(op.operands[0]), lowering.pointer(op.operands[2])
    words = int(op.attributes["count"]) * target.element.bytes // WORD_BYTES
    target_offset, source_offset = (
        _units(lowering, target, op.operands[1]),
        _units(lowering, source, op.operands[3]),
    )
    if target.unit < WORD_BYTES:
        per_word = WORD_BYTES // target.unit
        target_offset, source_offset = target_offset // per_word, source_offset // per_word
    lowering.k.store(
        target.array, target_offset, *lowering.k.load(source.array, source_offset, words)
    )


def _drop(lowering: Lowering, op: Op) -> None:
    """Drop a hint, or a wait for a copy that is already done."""


RULES: dict[str, Rule] = {
    "shared": _declared,
    "private": _declared,
    "table": _declared,
    "pointer_cast": _pointer_cast,
    "pointer_add": _pointer_add,
    "load": _load,
    "store": _store,
    **dict.fromkeys(ATOMICS, _atomic),
    "fence": _fence,
    "copy_async": _copy_async,
    "copy_async_commit": _drop,
    "copy_async_wait": _drop,
    "prefetch": _drop,
    "dependency_wait": _drop,
    "launch_dependents": _drop,
}
