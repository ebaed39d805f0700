"""Decoders of the instructions that access memory or other launches."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from quod.codegen.ptx.interpreter.arithmetic import UNSIGNED, Array, bits_of, numpy_type
from quod.codegen.ptx.interpreter.decode import Code, Frame, Operands, effect, where
from quod.codegen.ptx.interpreter.instructions import elements
from quod.codegen.ptx.interpreter.memory import Memory
from quod.codegen.ptx.interpreter.parse import Instruction


class Run(Protocol):
    """The interface of running workgroups that effects use; see `execute.Run`."""

    live: Array
    memory: Memory
    tiles: Any
    groups: Array
    lanes: Array
    warps: Array
    first_of_warp: Array

    def wait_for_launches(self) -> None:
        """Wait for the preceding launches."""

    def move_registers(self, instruction: Instruction, count: int, mask: Array) -> None:
        """Set the register count of the instances in a mask."""

    def touched(self, numbers: Array, mask: Array) -> Array:
        """Mark the warps or workgroups with a lane in a mask; `numbers` has each lane's index."""

    def instance(self, mask: Array) -> int:
        """Return the index in its workgroup of the first lane of a mask."""


Decoder = Callable[[Instruction, Operands], Code]

_ORDERS = {
    "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "cta", "gpu", "sys",
}  # fmt: skip
_HINTS = {"ca", "cg", "cs", "lu", "cv", "wb", "wt"}
_WIDTHS = {"v2": 2, "v4": 4}
_MEMORY_TYPES = re.compile(r"[busf](8|16|32|64)")


def _parse_access(
    instruction: Instruction, spaces: tuple[str, ...]
) -> tuple[str, int, str, set[str]]:
    """Parse an opcode to space, word count, type, and modifiers that only order or hint."""
    space, count, type_ = "", 1, instruction.opcode[-1]
    hints = set()
    for part in instruction.opcode[1:-1]:
        if part in spaces and not space:
            space = part
        elif part in _WIDTHS and count == 1:
            count = _WIDTHS[part]
        elif part in _ORDERS or part in _HINTS or part == "nc" or re.match(r"L[12]:", part):
            hints.add(part)
        else:
            raise instruction.error(f"has a modifier .{part} that is not known here")
    if not space or not _MEMORY_TYPES.fullmatch(type_):
        raise instruction.error("is no access that is known here")
    return space, count, type_, hints


def parts_of(text: str, count: int, instruction: Instruction) -> list[str]:
    """Split a vector operand into registers; a single register is returned alone."""
    parts = elements(text) if text[0] == "{" else [text]
    if len(parts) != count:
        raise instruction.error(f"moves {count} words, and {text} are {len(parts)}")
    return parts


def address_in(base: Array, offset: np.uint64) -> Array:
    """Add an offset to an address; addresses in 32-bit registers wrap at 32 bits."""
    if base.dtype == np.uint32:
        return (base + offset.astype(np.uint32)).astype(np.uint64)
    address: Array = base + offset
    return address


def load(instruction: Instruction, operands: Operands) -> Code:
    """ld of global and shared memory; ld.param is the routine's own."""
    space, count, type_, hints = _parse_access(instruction, ("global", "shared", "local"))
    operands.count(2)
    target, source = instruction.operands
    slots = [operands.loose_target(part) for part in parts_of(target, count, instruction)]
    base, offset = operands.address(source)
    bits, constant = bits_of(type_), "nc" in hints
    if constant and space != "global":
        raise instruction.error("reads no constant data in shared memory")
    if any(operands.slots.bits[slot] < bits for slot in slots):
        raise instruction.error("loads into a register that is too narrow")
    number_type = numpy_type(type_) if type_[0] == "s" else UNSIGNED[bits]
    displacement = np.uint64(offset)

    def act(run: Run, frame: Frame, mask: Array) -> None:
        address = address_in(frame[base], displacement)
        words = run.memory.load(instruction, space, address, mask, bits, count, constant)
        for slot, word in zip(slots, words, strict=True):
            old = frame[slot]
            wide = word.view(number_type)
            if number_type is not UNSIGNED[bits]:
                wide = wide.astype(numpy_type(f"s{old.itemsize * 8}"))
            frame[slot] = where(mask, wide.astype(old.dtype), old)

    return effect(act)


def store(instruction: Instruction, operands: Operands) -> Code:
    """st to global and shared memory."""
    space, count, type_, hints = _parse_access(instruction, ("global", "shared", "local"))
    if "nc" in hints:
        raise instruction.error("cannot store to constant data")
    operands.count(2)
    target, source = instruction.operands
    bits = bits_of(type_)
    parts = parts_of(source, count, instruction)
    slots = [operands.loose_source(part, f"b{bits}") for part in parts]
    base, offset = operands.address(target)
    if any(operands.slots.bits[slot] < bits for slot in slots):
        raise instruction.error("stores a register that is too narrow")
    displacement, narrow = np.uint64(offset), UNSIGNED[bits]

    def act(run: Run, frame: Frame, mask: Array) -> None:
        address = address_in(frame[base], displacement)
        values = [frame[slot].astype(narrow) for slot in slots]
        run.memory.store(instruction, space, address, mask, bits, values)

    return effect(act)


_ATOMICS = {
    ("add", "u"): "atomic_add", ("add", "s"): "atomic_add", ("max", "u"): "atomic_max",
    ("min", "u"): "atomic_min", ("or", "b"): "atomic_or", ("exch", "b"): "atomic_exchange",
    ("cas", "b"): "atomic_compare_exchange",
}  # fmt: skip


def atomic(instruction: Instruction, operands: Operands) -> Code:
    """atom, and red, which returns nothing."""
    *opcode, operation, type_ = instruction.opcode
    access = Instruction((*opcode, type_), instruction.operands, None, False, instruction.location)
    space, count, _, _ = _parse_access(access, ("global", "shared"))
    name = _ATOMICS.get((operation, type_[0]))
    bits = bits_of(type_)
    if name is None or count != 1 or bits not in (32, 64) or (type_ == "s64"):
        raise instruction.error("is no atomic operation that is known here")
    returns_old = opcode[0] == "atom"
    texts = list(instruction.operands)
    operands.count((4 if operation == "cas" else 3) - (not returns_old))
    target = operands.target(texts.pop(0), type_) if returns_old else None
    base, offset = operands.address(texts[0])
    sources = [operands.source(text, type_) for text in texts[1:]]
    displacement = np.uint64(offset)

    def act(run: Run, frame: Frame, mask: Array) -> None:
        address = address_in(frame[base], displacement)
        values = [frame[slot] for slot in sources]
        old_values = run.memory.atomic(instruction, space, name, address, mask, bits, values)
        if target is not None:
            frame[target] = where(mask, old_values, frame[target])

    return effect(act)


def copy(instruction: Instruction, operands: Operands) -> Code:
    """cp.async: a copy, the end of a group, a wait for groups."""
    match instruction.opcode[1:]:
        case ("async", "commit_group"):
            operands.count(0)
            return effect(lambda run, frame, mask: run.memory.commit(mask))
        case ("async", "wait_group"):
            operands.count(1)
            pending = operands.number(instruction.operands[0])
            return effect(lambda run, frame, mask: run.memory.wait(pending, mask))
        case ("async", "wait_all"):
            operands.count(0)

            def wait_all(run: Run, frame: Frame, mask: Array) -> None:
                run.memory.commit(mask)
                run.memory.wait(0, mask)

            return effect(wait_all)
        case ("async", "ca" | "cg" as level, "shared" | "shared:cta", "global", *hints) if all(
            part.startswith("L2:") for part in hints
        ):
            operands.count(3, 4)
            (target, target_offset), (source, source_offset) = map(
                operands.address, instruction.operands[:2]
            )
            size = operands.number(instruction.operands[2])
            read_size = [operands.source(text, "u32") for text in instruction.operands[3:]]
            if size not in ((16,) if level == "cg" else (4, 8, 16)):
                raise instruction.error(f"cannot copy {size} bytes")

            def begin(run: Run, frame: Frame, mask: Array) -> None:
                sizes = frame[read_size[0]] if read_size else np.full(len(mask), size)
                if not np.isin(sizes[mask], (0, size)).all():
                    raise instruction.error(f"reads neither nothing nor {size} bytes")
                run.memory.begin_copy(
                    instruction, address_in(frame[target], np.uint64(target_offset)),
                    frame[source] + np.uint64(source_offset), mask, size, sizes != 0,
                )  # fmt: skip

            return effect(begin)
    raise instruction.error("is no copy that is known here")


def _nothing(instruction: Instruction, operands: Operands) -> Code:
    return effect(lambda run, frame, mask: None)


def fence(instruction: Instruction, operands: Operands) -> Code:
    """membar and fence: accesses happen in the order of the text here."""
    match instruction.opcode[1:]:
        case ("mbarrier_init", "release", "cluster") | ("proxy", "async", "shared:cta"):
            operands.count(0)
            return _nothing(instruction, operands)
        case ("proxy", "tensormap:generic", "acquire", "sys"):
            # Tensor maps do not change during a launch, so no fence is needed.
            operands.count(2)
            return _nothing(instruction, operands)
    operands.count(0)
    if not set(instruction.opcode[1:]) <= {*_ORDERS, "gl"}:
        raise instruction.error("is no fence that is known here")
    return _nothing(instruction, operands)


def prefetch(instruction: Instruction, operands: Operands) -> Code:
    """prefetch: a hint, whose address need not be valid."""
    if instruction.opcode[1:] not in (("global", "L1"), ("global", "L2")):
        raise instruction.error("is no hint that is known here")
    operands.count(1)
    operands.address(instruction.operands[0])
    return _nothing(instruction, operands)


def grid_control(instruction: Instruction, operands: Operands) -> Code:
    """griddepcontrol: preceding launches have ended after the wait."""
    operands.count(0)
    match instruction.opcode[1:]:
        case ("wait",):
            return effect(lambda run, frame, mask: run.wait_for_launches() if mask.any() else None)
        case ("launch_dependents",):
            return _nothing(instruction, operands)
    raise instruction.error("controls no launches in a way that is known here")


EFFECTS: dict[str, Decoder] = {
    "ld": load,
    "st": store,
    "atom": atomic,
    "red": atomic,
    "cp": copy,
    "membar": fence,
    "fence": fence,
    "prefetch": prefetch,
    "griddepcontrol": grid_control,
}
"""The decoders of the instructions that reach memory or other launches."""
