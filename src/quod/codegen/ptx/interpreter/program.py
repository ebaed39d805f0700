"""Decoded PTX as blocks of steps; blocks begin where lanes diverge, reconverge or wait."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from quod.codegen.ptx.interpreter.arithmetic import Array, bits_of, numpy_type
from quod.codegen.ptx.interpreter.collectives import TOGETHER, NamedBarrier
from quod.codegen.ptx.interpreter.decode import (
    CARRY,
    CARRY_KIND,
    RUN,
    Code,
    Frame,
    Operands,
    Slots,
    Step,
    assignment,
    effect,
    guarded,
    where,
)
from quod.codegen.ptx.interpreter.effects import EFFECTS, Run
from quod.codegen.ptx.interpreter.instructions import COMPUTING, elements
from quod.codegen.ptx.interpreter.memory import FIRST_TABLE, global_address, shared_layout
from quod.codegen.ptx.interpreter.parse import Instruction, Module, Routine, parse
from quod.codegen.ptx.interpreter.tiles import Poll, copy_tile, mbarrier, products
from quod.kernel.interpreter.memory import Buffer

END = -1
"""The position of lanes that have left a routine."""
_IGNORED = ("nanosleep",)


@dataclass(slots=True)
class Block:
    """Steps without a branch or a label between them; `target` is a block's number, or `END`."""

    alone: list[Step] = field(default_factory=list)
    masked: list[Step] = field(default_factory=list)
    together: Instruction | None = None
    """The instruction that begins the block, if lanes execute it together."""
    leaves: Instruction | None = None
    named: NamedBarrier | None = None
    """The named barrier of `together`, if it is one."""
    poll: Poll | None = None
    """The poll of an mbarrier that begins the block, if any."""
    target: int = END
    predicate: int | None = None
    negated: bool = False


@dataclass(slots=True)
class Decoded:
    """A routine as blocks, with the frame that it runs in."""

    routine: Routine
    slots: Slots
    blocks: list[Block]


class Caller(Run, Protocol):
    """The interface of running workgroups that calls use; see `execute.Run`."""

    def frame(self, decoded: Decoded) -> Frame:
        """Create a frame for one run of a routine."""

    def run(self, decoded: Decoded, frame: Frame, mask: Array) -> None:
        """Run a routine for the lanes of a mask until all have left it."""


def _granule(module: Module) -> int:
    """Bytes of the smallest access to shared or private memory."""
    sizes = [4]
    for routine in (module.entry, *module.functions.values()):
        for instruction in routine.instructions:
            is_near_memory = {"shared", "local"} & set(instruction.opcode)
            if is_near_memory and instruction.opcode[0] in ("ld", "st", "atom"):
                sizes.append(bits_of(instruction.opcode[-1]) // 8)
    return min(sizes)


class Program:
    """A text, decoded: its entry and the functions that it calls."""

    def __init__(self, text: str) -> None:
        self.module = parse(text)
        self.addresses, self.shared_bytes = shared_layout(self.module.shared)
        private, self.private_bytes = shared_layout(self.module.local)
        tables = {name: FIRST_TABLE + index for index, name in enumerate(self.module.tables)}
        self.addresses |= private | {
            name: global_address(number) for name, number in tables.items()
        }
        self.tables = {
            number: Buffer(f"the table {name}", np.frombuffer(self.module.tables[name], np.uint8))
            for name, number in tables.items()
        }
        self.dynamic = any(array.size is None for array in self.module.shared)
        self.granule = _granule(self.module)
        self._functions: dict[str, Decoded] = {}
        self.entry = self._decode(self.module.entry)
        opcodes = [each.opcode[:2] for each in self.module.entry.instructions]
        self.has_tiles = any(opcode[0] in ("mbarrier", "wgmma") for opcode in opcodes)
        self.has_roles = self.has_tiles or any(block.named for block in self.entry.blocks)

    def function(self, name: str) -> Decoded | None:
        """Return a device function, decoded when it is first called."""
        if name not in self._functions and name in self.module.functions:
            self._functions[name] = self._decode(self.module.functions[name])
        return self._functions.get(name)

    def _decode(self, routine: Routine) -> Decoded:
        slots = Slots(routine, self.addresses)
        return Decoded(routine, slots, self._blocks(routine, slots))

    def _blocks(self, routine: Routine, slots: Slots) -> list[Block]:
        block_starts = {0, *routine.labels.values(), len(routine.instructions)}
        for number, instruction in enumerate(routine.instructions):
            name = instruction.opcode[0]
            if name in ("bra", "ret", "exit"):
                block_starts.add(number + 1)
            elif name in (*TOGETHER, "wgmma") or instruction.opcode[1:2] == ("try_wait",):
                block_starts.add(number)
        order = sorted(block_starts)
        block_indices = {begin: index for index, begin in enumerate(order)}
        blocks = []
        for begin, end in zip(order, [*order[1:], order[-1]], strict=True):
            block = Block()
            for instruction in routine.instructions[begin:end]:
                operands = Operands(instruction, slots)
                name = instruction.opcode[0]
                if name in ("bra", "ret", "exit"):
                    self._leave(block, instruction, operands, routine, block_indices)
                    continue
                if name in TOGETHER or name == "wgmma":
                    named = NamedBarrier.of(instruction)
                    if named is not None and routine is not self.module.entry:
                        raise instruction.error("names a barrier in a function")
                    if instruction.guard is not None:
                        raise instruction.error("stands under a predicate, and waits for all")
                    block.together = instruction
                    block.named = named
                if name in ("mbarrier", "wgmma") and routine is not self.module.entry:
                    raise instruction.error("is of roles, and stands in a function")
                if name == "mbarrier":
                    block.poll = Poll.of(instruction, operands) or block.poll
                code = self._code(instruction, operands, routine)
                block.alone.append(code.alone)
                block.masked.append(code.masked)
            blocks.append(block)
        return blocks

    def _leave(
        self, block: Block, instruction: Instruction, operands: Operands, routine: Routine,
        block_indices: dict[int, int],
    ) -> None:  # fmt: skip
        if instruction.guard is not None:
            block.predicate = operands.source(instruction.guard, "pred")
            block.negated = instruction.negated
        block.leaves = instruction
        if instruction.opcode[0] == "bra":
            operands.count(1)
            label = instruction.operands[0]
            if label not in routine.labels:
                raise instruction.error(f"goes to {label}, which is no label")
            block.target = block_indices[routine.labels[label]]
        elif instruction.opcode[0] == "exit" and routine is not self.module.entry:
            raise instruction.error("ends an instance within a function")

    def _code(self, instruction: Instruction, operands: Operands, routine: Routine) -> Code:
        name = instruction.opcode[0]
        if instruction.opcode[:2] == ("ld", "param"):
            code = _load_parameter(instruction, operands)
        elif instruction.opcode[:2] == ("st", "param"):
            code = _store_parameter(instruction, operands)
        elif name == "call":
            code = self._call(instruction, operands)
        elif name in _IGNORED:
            code = effect(lambda run, frame, mask: None)
        elif name == "trap":
            code = effect(functools.partial(_trap, instruction))
        elif name in COMPUTING:
            code = COMPUTING[name](instruction, operands)
        elif name == "mbarrier":
            code = mbarrier(instruction, operands)
        elif instruction.opcode[:3] == ("cp", "async", "bulk"):
            code = copy_tile(instruction, operands)
        elif name == "wgmma":
            code = products(instruction, operands)
        elif name in EFFECTS:
            code = EFFECTS[name](instruction, operands)
        elif name in TOGETHER:
            code = TOGETHER[name](instruction, operands)
        else:
            raise instruction.error("is no instruction that is known here")
        if instruction.guard is not None:
            predicate = operands.source(instruction.guard, "pred")
            return guarded(code, predicate, instruction.negated)
        return code

    def _call(self, instruction: Instruction, operands: Operands) -> Code:
        texts = list(instruction.operands)
        if instruction.opcode[1:] not in ((), ("uni",)) or not texts:
            raise instruction.error("is no call that is known here")
        result_names = elements(texts.pop(0)) if texts[0][0] == "(" else []
        name = texts.pop(0)
        argument_names = elements(texts.pop(0)) if texts else []
        routine = self.module.functions.get(name)
        if routine is None or texts:
            raise instruction.error(f"calls {name}, which is no function")
        argument_names, result_names = (
            [text for text in part if text] for part in (argument_names, result_names)
        )
        passed = operands.slots.routine.passed
        for names, declared in (
            (argument_names, routine.parameters),
            (result_names, routine.results),
        ):
            fits = len(names) == len(declared) and all(
                text in passed
                and (passed[text].type, passed[text].size) == (parameter.type, parameter.size)
                for text, parameter in zip(names, declared, strict=True)
            )
            if not fits:
                raise instruction.error(f"does not fit the parameters and results of {name}")
        words = operands.slots.words

        def act(run: Caller, frame: Frame, mask: Array) -> None:
            callee = self.function(name)
            assert callee is not None
            callee_frame = run.frame(callee)
            for text, parameter in zip(argument_names, routine.parameters, strict=True):
                for offset, slot in callee.slots.words.get(parameter.name, {}).items():
                    callee_frame[slot] = _same_width(
                        instruction, callee_frame[slot], frame[words.get(text, {}).get(offset, RUN)]
                    )
            run.run(callee, callee_frame, mask)
            for text, parameter in zip(result_names, routine.results, strict=True):
                result_slots = callee.slots.words.get(parameter.name, {})
                for offset, slot in words.get(text, {}).items():
                    new = _same_width(
                        instruction, frame[slot], callee_frame[result_slots.get(offset, RUN)]
                    )
                    frame[slot] = where(mask, new, frame[slot])
            # A call does not keep the condition code.
            frame[CARRY] = frame[CARRY_KIND] = None

        return effect(act)


def _same_width(instruction: Instruction, target: Array, word: object) -> Array:
    """Return a word passed to or by a function; InterpreterError if `target` has another width.

    The caller passes something else than an array if the other side does not have the word.
    """
    if not isinstance(word, np.ndarray) or word.dtype != target.dtype:
        raise instruction.error("passes or takes a word that the other side does not set as such")
    return word


def _load_parameter(instruction: Instruction, operands: Operands) -> Code:
    operands.count(2)
    target, source = instruction.operands
    type_ = instruction.opcode[-1]
    if len(instruction.opcode) != 3:
        raise instruction.error("is no load of a parameter that is known here")
    source_slot, slot = operands.parameter(source, type_), operands.loose_target(target)
    register_bits = operands.slots.bits[slot]
    if register_bits < bits_of(type_):
        raise instruction.error("loads into a register that is too narrow")
    wide = numpy_type(f"u{register_bits}")
    if type_[0] == "s":
        number_type, extended_type = numpy_type(type_), numpy_type(f"s{register_bits}")
        return assignment(
            slot, lambda a: a.view(number_type).astype(extended_type).view(wide), [source_slot]
        )
    return assignment(slot, lambda a: a.astype(wide), [source_slot])


def _store_parameter(instruction: Instruction, operands: Operands) -> Code:
    operands.count(2)
    target, source = instruction.operands
    type_ = instruction.opcode[-1]
    if len(instruction.opcode) != 3:
        raise instruction.error("is no store to a parameter that is known here")
    slot = operands.parameter(target, type_)
    return assignment(slot, lambda a: a, [operands.source(source, type_)])


def _trap(instruction: Instruction, run: Run, frame: Frame, mask: Array) -> None:
    raise run.memory.place(instruction.location).error(int(np.argmax(mask)), "traps")
