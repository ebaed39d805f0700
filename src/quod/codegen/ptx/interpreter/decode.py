"""Decoding of instructions to steps: closures over the slots of their registers.

A frame is a list: the running workgroups, the condition code with its kind, then registers, special
registers and constants, each an array over all lanes. Arrays are never changed in place, so a move
is an assignment. A step has two forms: `alone` replaces a register, if all remaining lanes take the
step together; `masked` preserves the values of other lanes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quod.codegen.ptx.interpreter.arithmetic import UNSIGNED, Array, Evaluate, bits_of
from quod.codegen.ptx.interpreter.parse import Instruction, Routine
from quod.kernel.errors import InterpreterError
from quod.wording import alternatives

Frame = list[Any]
Step = Callable[[Frame, Array], None]

RUN, CARRY, CARRY_KIND = 0, 1, 2
_FIRST_SLOT = 3

_UNSET = 0xDEAD_BEEF_DEAD_BEEF
"""The initial value of registers, chosen so that a read before a write is conspicuous."""

SPECIAL = {
    "%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x", "%laneid", "%lanemask_eq", "%lanemask_lt",
    "%lanemask_le", "%lanemask_gt", "%lanemask_ge", "%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z",
    "%cluster_ctarank",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Code:
    """The two forms of a step."""

    alone: Step
    masked: Step


@dataclass(slots=True)
class Slots:
    """The frame of one routine: a slot for each register, constant and special register."""

    routine: Routine
    addresses: dict[str, int]
    """The addresses of the shared arrays, by name."""
    template: list[Any] = field(default_factory=lambda: [None] * _FIRST_SLOT)
    """The initial contents of a frame; scalars stand for values equal in all lanes."""
    bits: dict[int, int] = field(default_factory=dict)
    special: dict[str, int] = field(default_factory=dict)
    words: dict[str, dict[int, int]] = field(default_factory=dict)
    """The slots of a parameter's words by their offsets."""
    _slots_by_key: dict[object, int] = field(default_factory=dict)

    def parameter(self, name: str, offset: int, bits: int) -> int | None:
        """Return the slot of `bits` bits of a parameter; None if it has none at the offset."""
        routine = self.routine
        sizes = {
            parameter.name: parameter.size for parameter in (*routine.parameters, *routine.results)
        }
        if name in routine.passed:
            sizes[name] = routine.passed[name].size
        size = bits // 8
        if name not in sizes or offset % size or offset + size > sizes[name]:
            return None
        words = self.words.setdefault(name, {})
        if offset not in words:
            words[offset] = self._new((name, offset), bits, _UNSET & ((1 << bits) - 1))
        # A parameter that is read as words of several widths is not supported.
        slot = words[offset]
        return slot if self.bits[slot] == bits else None

    def _new(self, key: object, bits: int, value: int) -> int:
        if key not in self._slots_by_key:
            self._slots_by_key[key] = len(self.template)
            self.bits[len(self.template)] = bits
            self.template.append(UNSIGNED[bits](value))
        return self._slots_by_key[key]

    def register(self, name: str) -> int | None:
        """Return the slot of a register; None if no register has that name."""
        if name in self._slots_by_key:
            return self._slots_by_key[name]
        if name in SPECIAL:
            self.special[name] = self._new(name, 32, 0)
            return self.special[name]
        declared = self.routine.registers.get(name)
        if declared is None or declared[1] is not None:
            split = re.fullmatch(r"(.*?)(\d+)", name)
            declared = self.routine.registers.get(split[1]) if split else None
            if split is None or declared is None or int(split[2]) >= (declared[1] or 0):
                return None
        bits = bits_of(declared[0])
        return self._new(name, bits, _UNSET & ((1 << bits) - 1))

    def constant(self, bits: int, value: int) -> int:
        return self._new(("constant", bits, value), bits, value)


def immediate(text: str, type_: str) -> int | None:
    """Return the bits of a literal of a type; None if the text is no literal."""
    bits = bits_of(type_)
    if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", text):
        value = struct.unpack(">f", bytes.fromhex(text[2:]))[0]
        return int(text[2:], 16) if bits == 32 else _float_bits(value, bits)
    if re.fullmatch(r"0[dD][0-9a-fA-F]{16}", text):
        value = struct.unpack(">d", bytes.fromhex(text[2:]))[0]
        return int(text[2:], 16) if bits == 64 else _float_bits(value, bits)
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)U?", text):
        sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text)
        digits = digits.rstrip("U")
        octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
        return sign * int(digits, 8 if octal else 0) & ((1 << bits) - 1)
    if type_[0] == "f" and re.fullmatch(r"-?\d+\.\d*([eE][-+]?\d+)?", text):
        return _float_bits(float(text), bits)
    return None


def _float_bits(value: float, bits: int) -> int:
    code, integer_code = (">f", ">I") if bits == 32 else (">d", ">Q")
    return int(struct.unpack(integer_code, struct.pack(code, value))[0])


class Operands:
    """The operands of one instruction as slots; each is checked when it is read."""

    def __init__(self, instruction: Instruction, slots: Slots) -> None:
        self.instruction = instruction
        self.slots = slots

    def count(self, *allowed: int) -> None:
        if len(self.instruction.operands) not in allowed:
            raise self.instruction.error(
                f"takes {alternatives(map(str, allowed))} operands, not "
                f"{len(self.instruction.operands)}"
            )

    def _checked(self, slot: int, text: str, type_: str) -> int:
        if self.slots.bits[slot] != bits_of(type_):
            raise self.instruction.error(
                f"reads or writes {text} of {self.slots.bits[slot]} bits as {type_}"
            )
        return slot

    def target(self, text: str, type_: str) -> int:
        """Return the slot of a register that is written."""
        slot = self.slots.register(text)
        if slot is None or text in SPECIAL:
            raise self.instruction.error(f"cannot write {text}, which is no register")
        return self._checked(slot, text, type_)

    def loose_target(self, text: str) -> int:
        """Return the slot of a register of any width that is written."""
        slot = self.slots.register(text)
        if slot is None or text in SPECIAL:
            raise self.instruction.error(f"cannot write {text}, which is no register")
        return slot

    def source(self, text: str, type_: str) -> int:
        """Return the slot of a register or literal that is read."""
        slot = self.slots.register(text)
        if slot is not None:
            return self._checked(slot, text, type_)
        value = immediate(text, "u32" if type_ == "pred" else type_)
        if value is None:
            raise self.instruction.error(f"has {text} where a {type_} belongs")
        return self.slots.constant(bits_of(type_), value != 0 if type_ == "pred" else value)

    def loose_source(self, text: str, type_: str) -> int:
        """Return the slot of a register of any width, or of a literal, that is read."""
        slot = self.slots.register(text)
        return self.source(text, type_) if slot is None else slot

    def parameter(self, text: str, type_: str) -> int:
        """Return the slot of `[name + offset]` of a parameter."""
        match = re.fullmatch(r"\[\s*([\w$@]+)\s*(?:\+\s*(\d+)\s*)?\]", text)
        slot = match and self.slots.parameter(match[1], int(match[2] or 0), bits_of(type_))
        if slot is None:
            raise self.instruction.error(f"has {text} where a parameter's {type_} belongs")
        return slot

    def number(self, text: str) -> int:
        """Return a literal that must be known when the text is read."""
        value = immediate(text, "u32")
        if value is None:
            raise self.instruction.error(f"needs a literal, not {text}")
        return value

    def address(self, text: str) -> tuple[int, int]:
        """`[register + offset]` as the slot of the register, or of a constant, and the offset."""
        match = re.fullmatch(r"\[\s*([^\s+\-\]]+)\s*(?:\+?\s*(-?\w+)\s*)?\]", text)
        offset = immediate(match[2] or "0", "u64") if match else None
        if match is None or offset is None:
            raise self.instruction.error(f"has {text} where an address belongs")
        slot = self.slots.register(match[1])
        if slot is None and match[1] in self.slots.addresses:
            slot = self.slots.constant(64, self.slots.addresses[match[1]])
        if slot is None or self.slots.bits[slot] not in (32, 64):
            raise self.instruction.error(f"has {match[1]} where an address belongs")
        return slot, offset


def where(mask: Array, new: Any, old: Any) -> Any:
    """Merge a register's new and old values after a masked step."""
    return np.where(mask, new, old)


def assignment(target: int, evaluate: Evaluate, sources: list[int]) -> Code:
    """target = evaluate(sources)."""
    if len(sources) == 1:
        (a,) = sources

        def unary(frame: Frame, mask: Array) -> None:
            frame[target] = evaluate(frame[a])

        def unary_masked(frame: Frame, mask: Array) -> None:
            frame[target] = where(mask, evaluate(frame[a]), frame[target])

        return Code(unary, unary_masked)
    if len(sources) == 2:
        a, b = sources

        def binary(frame: Frame, mask: Array) -> None:
            frame[target] = evaluate(frame[a], frame[b])

        def binary_masked(frame: Frame, mask: Array) -> None:
            frame[target] = where(mask, evaluate(frame[a], frame[b]), frame[target])

        return Code(binary, binary_masked)

    def many(frame: Frame, mask: Array) -> None:
        frame[target] = evaluate(*[frame[slot] for slot in sources])

    def many_masked(frame: Frame, mask: Array) -> None:
        new = evaluate(*[frame[slot] for slot in sources])
        frame[target] = where(mask, new, frame[target])

    return Code(many, many_masked)


def carry_assignment(
    instruction: Instruction, target: int, evaluate: Evaluate, sources: list[int], *,
    reads: bool, writes: bool, kind: str,
) -> Code:  # fmt: skip
    """target, and the condition code with it, = evaluate(sources, condition code).

    `kind` says whether the condition code is a carry or a borrow. Hardware stores the complement of
    a borrow, so an instruction that reads a code of the other kind is an error.
    """

    def operands(frame: Frame) -> list[Any]:
        values = [frame[slot] for slot in sources]
        if reads:
            if frame[CARRY_KIND] is not kind:
                raise _unusable(instruction, frame[CARRY_KIND], kind)
            values.append(frame[CARRY])
        return values

    def alone(frame: Frame, mask: Array) -> None:
        result = evaluate(*operands(frame))
        if writes:
            frame[target], frame[CARRY] = result
            frame[CARRY_KIND] = kind
        else:
            frame[target] = result

    def masked(frame: Frame, mask: Array) -> None:
        result = evaluate(*operands(frame))
        if writes:
            result, carry = result
            old = frame[CARRY]
            frame[CARRY] = carry if old is None else where(mask, carry, old)
            frame[CARRY_KIND] = kind
        frame[target] = where(mask, result, frame[target])

    return Code(alone, masked)


def _unusable(instruction: Instruction, actual: str | None, kind: str) -> InterpreterError:
    state = "nothing has set" if actual is None else f"holds a {actual}"
    return instruction.error(f"reads a {kind} from the condition code, which {state}")


def effect(act: Callable[[Any, Frame, Array], None]) -> Code:
    """Make a step that handles the mask itself, in either form; `act` gets the run first."""

    def step(frame: Frame, mask: Array) -> None:
        act(frame[RUN], frame, mask)

    return Code(step, step)


def guarded(code: Code, predicate: int, negated: bool) -> Code:
    """Restrict a step to the lanes whose predicate holds."""

    def step(frame: Frame, mask: Array) -> None:
        holds = mask & ~frame[predicate] if negated else mask & frame[predicate]
        if holds.any():
            code.masked(frame, holds)

    return Code(step, step)
