"""Runs decoded PTX: blocks of steps, each for the lanes that stand there.

Of the places where lanes stand, the first in the text runs next, so lanes that took different ways
meet again behind them. Lanes that wait for others (a barrier, a shuffle) let those run first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from quod.codegen.ptx.interpreter.arithmetic import Array, bits_of, seen_as
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
from quod.codegen.ptx.interpreter.effects import EFFECTS
from quod.codegen.ptx.interpreter.instructions import COMPUTING, elements
from quod.codegen.ptx.interpreter.meetings import Meetings
from quod.codegen.ptx.interpreter.memory import FIRST_TABLE, Memory, global_address, shared_layout
from quod.codegen.ptx.interpreter.parse import Instruction, Module, Routine, parse
from quod.codegen.ptx.interpreter.registers import Registers
from quod.codegen.ptx.interpreter.tiles import Poll, Tiles, copy_tile, mbarrier, products
from quod.codegen.ptx.interpreter.together import TOGETHER, NamedBarrier
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter_clocks import Clocks
from quod.kernel.interpreter_memory import Buffer

Argument = Array | int | float | bool | np.generic

_END = -1
_IGNORED = ("nanosleep",)


@dataclass(slots=True)
class Block:
    """Steps without a branch or a label between; `target` of a branch is a block, or the end."""

    alone: list[Step] = field(default_factory=list)
    masked: list[Step] = field(default_factory=list)
    together: Instruction | None = None
    """The instruction that begins it, if lanes execute it together."""
    leaves: Instruction | None = None
    named: NamedBarrier | None = None
    """The same, if it names a barrier."""
    poll: Poll | None = None
    """What the instruction that begins it asks of an mbarrier, if it is one that does."""
    target: int = _END
    predicate: int | None = None
    negated: bool = False


@dataclass(slots=True)
class Decoded:
    """A routine as blocks, with the frame that it runs in."""

    routine: Routine
    slots: Slots
    blocks: list[Block]


def _granule(module: Module) -> int:
    """Bytes of the smallest access to shared or private memory."""
    sizes = [4]
    for routine in (module.entry, *module.functions.values()):
        for instruction in routine.instructions:
            near = {"shared", "local"} & set(instruction.opcode)
            if near and instruction.opcode[0] in ("ld", "st", "atom"):
                sizes.append(bits_of(instruction.opcode[-1]) // 8)
    return min(sizes)


class Program:
    """A text, decoded: its entry and the functions that it calls."""

    def __init__(self, text: str) -> None:
        self.module = parse(text)
        self.addresses, self.shared_bytes = shared_layout(self.module.shared)
        private, self.private_bytes = shared_layout(self.module.local)
        tables = {name: FIRST_TABLE + at for at, name in enumerate(self.module.tables)}
        self.addresses |= private | {name: global_address(at) for name, at in tables.items()}
        self.tables = {
            at: Buffer(f"the table {name}", np.frombuffer(self.module.tables[name], np.uint8))
            for name, at in tables.items()
        }
        self.dynamic = any(array.size is None for array in self.module.shared)
        self.granule = _granule(self.module)
        self._functions: dict[str, Decoded] = {}
        self.entry = self._decode(self.module.entry)
        opcodes = [each.opcode[:2] for each in self.module.entry.instructions]
        self.has_tiles = any(opcode[0] in ("mbarrier", "wgmma") for opcode in opcodes)
        self.mbarriers = opcodes.count(("mbarrier", "init"))
        self.has_roles = self.has_tiles or any(block.named for block in self.entry.blocks)

    def function(self, name: str) -> Decoded | None:
        """A device function, decoded when it is first called."""
        if name not in self._functions and name in self.module.functions:
            self._functions[name] = self._decode(self.module.functions[name])
        return self._functions.get(name)

    def _decode(self, routine: Routine) -> Decoded:
        slots = Slots(routine, self.addresses)
        return Decoded(routine, slots, self._blocks(routine, slots))

    def _blocks(self, routine: Routine, slots: Slots) -> list[Block]:
        begins = {0, *routine.labels.values(), len(routine.instructions)}
        for number, instruction in enumerate(routine.instructions):
            name = instruction.opcode[0]
            if name in ("bra", "ret", "exit"):
                begins.add(number + 1)
            elif name in (*TOGETHER, "wgmma") or instruction.opcode[1:2] == ("try_wait",):
                begins.add(number)
        order = sorted(begins)
        numbers = {begin: number for number, begin in enumerate(order)}
        blocks = []
        for begin, end in zip(order, [*order[1:], order[-1]], strict=True):
            block = Block()
            for instruction in routine.instructions[begin:end]:
                operands = Operands(instruction, slots)
                name = instruction.opcode[0]
                if name in ("bra", "ret", "exit"):
                    self._leave(block, instruction, operands, routine, numbers)
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
        numbers: dict[int, int],
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
            block.target = numbers[routine.labels[label]]
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
        outs = elements(texts.pop(0)) if texts[0][0] == "(" else []
        name = texts.pop(0)
        ins = elements(texts.pop(0)) if texts else []
        routine = self.module.functions.get(name)
        if routine is None or texts:
            raise instruction.error(f"calls {name}, which is no function")
        ins, outs = ([text for text in part if text] for part in (ins, outs))
        passed = operands.slots.routine.passed
        for given, wanted in ((ins, routine.parameters), (outs, routine.results)):
            fits = len(given) == len(wanted) and all(
                text in passed and (passed[text].type, passed[text].size) == (each.type, each.size)
                for text, each in zip(given, wanted, strict=True)
            )
            if not fits:
                raise instruction.error(f"does not fit the parameters and results of {name}")
        words = operands.slots.words

        def act(run: Run, frame: Frame, mask: Array) -> None:
            callee = self.function(name)
            assert callee is not None
            inner = run.frame(callee)
            for text, each in zip(ins, routine.parameters, strict=True):
                for offset, slot in callee.slots.words.get(each.name, {}).items():
                    inner[slot] = _same_width(
                        instruction, inner[slot], frame[words.get(text, {}).get(offset, RUN)]
                    )
            run.run(callee, inner, mask)
            for text, each in zip(outs, routine.results, strict=True):
                made = callee.slots.words.get(each.name, {})
                for offset, slot in words.get(text, {}).items():
                    new = _same_width(instruction, frame[slot], inner[made.get(offset, RUN)])
                    frame[slot] = where(mask, new, frame[slot])
            # A call does not keep the condition code.
            frame[CARRY] = frame[CARRY_KIND] = None

        return effect(act)


def _same_width(instruction: Instruction, wanted: Array, given: object) -> Array:
    if not isinstance(given, np.ndarray) or given.dtype != wanted.dtype:
        raise instruction.error("passes or takes a word that the other side does not set as such")
    return given


def _load_parameter(instruction: Instruction, operands: Operands) -> Code:
    operands.count(2)
    target, source = instruction.operands
    type_ = instruction.opcode[-1]
    if len(instruction.opcode) != 3:
        raise instruction.error("is no load of a parameter that is known here")
    given, slot = operands.parameter(source, type_), operands.loose_target(target)
    held = operands.slots.bits[slot]
    if held < bits_of(type_):
        raise instruction.error("loads into a register that is too narrow")
    wide = seen_as(f"u{held}")
    if type_[0] == "s":
        seen, signed = seen_as(type_), seen_as(f"s{held}")
        return assignment(slot, lambda a: a.view(seen).astype(signed).view(wide), [given])
    return assignment(slot, lambda a: a.astype(wide), [given])


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


class Run:
    """Workgroups `first` to `first + count - 1` while they run in step."""

    def __init__(
        self, program: Program, first: int, count: int, groups: int, buffers: dict[int, Buffer],
        shared_bytes: int, templates: dict[int, list[Any]], limit: int,
        waiting: Callable[[], None] | None, addresses: Mapping[int, int],
    ) -> None:  # fmt: skip
        self._entry = program.entry
        self._waiting = waiting
        width = program.module.entry.workgroup_size
        self._size = width * count
        self._count = count
        self.live = np.ones(self._size, np.bool_)
        clocks = Clocks(width, 32, program.mbarriers) if program.has_roles else None
        self.memory = Memory(
            buffers, shared_bytes, program.granule, first, count, width, program.private_bytes,
            clocks,
        )  # fmt: skip
        self.tiles: Any = None
        if clocks is not None and program.has_tiles:
            self.tiles = Tiles(self.memory, clocks, self._size, addresses)
        self.registers = Registers(program.module.entry, self.memory, self._size)
        self._templates = templates
        self._meetings = (
            None if clocks is None else Meetings(program.entry.blocks, self.memory, clocks)
        )
        self._left = limit
        number = np.tile(np.arange(width, dtype=np.uint32), count)
        self.groups = np.repeat(np.arange(count), width)
        self.lanes = number & np.uint32(31)
        self.warps = self.groups * -(-width // 32) + number // 32
        self.first_of_warp = np.arange(self._size) - self.lanes
        bit, one = np.uint32(1) << self.lanes, np.uint32(1)
        self._special = {
            "%tid.x": number, "%laneid": self.lanes,
            "%ctaid.x": (first + self.groups).astype(np.uint32), "%lanemask_eq": bit,
            "%lanemask_lt": bit - one, "%lanemask_le": bit | (bit - one),
            "%lanemask_ge": ~(bit - one), "%lanemask_gt": ~(bit | (bit - one)),
        }  # fmt: skip
        for name, value in (("nctaid.x", groups), ("ntid.x", width)):
            self._special[f"%{name}"] = np.full(self._size, value, np.uint32)
        for name in ("%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z", "%cluster_ctarank"):
            self._special[name] = np.zeros(self._size, np.uint32)

    def wait_for_launches(self) -> None:
        """Instances wait for the launches before this one."""
        if self._waiting is not None:
            self._waiting()

    def move_registers(self, instruction: Instruction, count: int, mask: Array) -> None:
        """Instances have so many registers from here on."""
        self.registers.move(instruction, count, mask)

    def touched(self, numbers: Array, mask: Array) -> Array:
        """Which of the warps or workgroups, by the number of each lane's, have a lane in a mask."""
        result = np.zeros(int(numbers[-1]) + 1, np.bool_)
        result[numbers[mask]] = True
        return result

    def instance(self, mask: Array) -> int:
        """The number, in its workgroup, of the first lane of a mask."""
        return int(np.argmax(mask)) % (self._size // self._count)

    def frame(self, decoded: Decoded) -> Frame:
        """A new frame for one run of a routine."""
        key = id(decoded)
        if key not in self._templates:
            self._templates[key] = [
                None if value is None else np.full(self._size, value)
                for value in decoded.slots.template
            ]
        frame = self._templates[key].copy()
        frame[RUN] = self
        for name, slot in decoded.slots.special.items():
            frame[slot] = self._special[name]
        return frame

    def run(self, decoded: Decoded, frame: Frame, mask: Array) -> None:
        """Runs a routine for the lanes of a mask until all have left it."""
        blocks = decoded.blocks
        pending: dict[int, Array] = {0: mask}
        # Registers of lanes that have left a function hold its results; those of an entry nothing.
        kept = False
        while pending:
            if len(pending) == 1:
                number = next(iter(pending))
            else:
                number = self._next(blocks, pending, frame)
            mask = pending.pop(number)
            block = blocks[number]
            if block.poll is not None:
                ready = self.tiles.over(block.poll, frame, mask)
                if not ready.any():
                    raise self.tiles.never(block.poll, frame, mask)
                if (mask & ~ready).any():
                    pending[number] = mask & ~ready
                mask = ready
            if block.named is not None:
                assert self._meetings is not None
                self._meetings.come(number, mask, pending)
            for step in block.masked if pending or kept else block.alone:
                step(frame, mask)
            self._left -= 1
            if self._left == 0:
                raise InterpreterError("the kernel goes on and on", decoded.routine.location)
            if block.leaves is None:
                self._arrive(decoded, pending, number + 1, mask)
                continue
            kept = kept or (block.target == _END and decoded is not self._entry)
            if block.predicate is None:
                self._arrive(decoded, pending, block.target, mask)
                continue
            holds = frame[block.predicate]
            going = mask & ~holds if block.negated else mask & holds
            staying = mask & ~going
            if going.any():
                if staying.any():
                    self._check_uniform(block.leaves, going, staying)
                    self._arrive(decoded, pending, number + 1, staying)
                self._arrive(decoded, pending, block.target, going)
            else:
                self._arrive(decoded, pending, number + 1, mask)

    def _arrive(
        self, decoded: Decoded, pending: dict[int, Array], number: int, mask: Array
    ) -> None:
        if number in pending:
            pending[number] = pending[number] | mask
        elif 0 <= number < len(decoded.blocks) - 1:
            pending[number] = mask
        elif number == _END:
            if decoded is self._entry:
                self.live = self.live & ~mask
        else:
            raise InterpreterError(
                f"{decoded.routine.name} ends without a ret", decoded.routine.location
            )

    def _next(self, blocks: list[Block], pending: dict[int, Array], frame: Frame) -> int:
        """The first place in the text whose lanes, or some of them, need not wait for others."""
        order = sorted(pending)
        for number in order:
            poll = blocks[number].poll
            if poll is not None and not self.tiles.over(poll, frame, pending[number]).any():
                continue
            instruction, named = blocks[number].together, blocks[number].named
            if instruction is None or self._all_here(instruction, pending[number], named):
                # What follows is of places of the entry, as functions name no barriers.
                if named is None or self._meetings is None:
                    return number
                if self._meetings.may_go(number, pending):
                    return number
        return order[0]

    def _all_here(self, instruction: Instruction, mask: Array, named: NamedBarrier | None) -> bool:
        """Whether lanes execute an instruction together that are all of their warps, or groups."""
        missing = self.live & ~mask
        of_warp = named is not None or (
            instruction.opcode[0] not in ("bar", "barrier") or "warp" in instruction.opcode
        )
        numbers = self.warps if of_warp else self.groups
        if instruction.opcode[0] == "wgmma":
            numbers = self.warps // 4
        return not (missing & self.touched(numbers, mask)[numbers]).any()

    def _check_uniform(self, instruction: Instruction, going: Array, staying: Array) -> None:
        if "uni" not in instruction.opcode:
            return
        both = self.touched(self.warps, going) & self.touched(self.warps, staying)
        if both.any():
            here = both[self.warps]
            raise self.memory.place(instruction.location).error(
                int(np.argmax(going & here)),
                f"goes where instance {self.instance(staying & here)} of its warp does not, and "
                "the branch says that all go one way",
            )


@functools.lru_cache(maxsize=128)
def _program(text: str) -> Program:
    return Program(text)


def interpret_ptx(
    text: str, groups: int, arguments: Sequence[Argument], *, dynamic_shared: int = 0,
    groups_at_once: int = 1, block_limit: int = 1 << 28,
    waiting: Callable[[], None] | None = None, addresses: Mapping[int, int] | None = None,
) -> None:  # fmt: skip
    """Runs `groups` workgroups of the one entry of a PTX text.

    A pointer parameter takes a C-contiguous NumPy array, which the kernel reads and changes; any
    other takes a number. `dynamic_shared` is the bytes of shared memory that the launch gives,
    which the `.extern` array has. InterpreterError, naming the line of the text, for what the PTX
    ISA leaves undefined, for an instruction that Quod does not write, and for a kernel that runs
    more than `block_limit` basic blocks.

    With `groups_at_once` so many workgroups run in step, which is faster. It suits kernels whose
    workgroups do not wait for one another. `waiting` is called wherever instances wait for the
    launches before this one. `addresses` are those of arguments' memory that tensor maps say.
    """
    program = _program(text)
    entry = program.entry
    if program.has_roles:
        groups_at_once = 1
    location, declared = entry.routine.location, entry.routine.parameters
    if len(arguments) != len(declared):
        raise InterpreterError(
            f"{entry.routine.name} takes {len(declared)} arguments, not {len(arguments)}",
            location,
        )
    if program.dynamic != (dynamic_shared > 0):
        raise InterpreterError(
            "shared memory whose size the launch says needs a size above 0"
            if program.dynamic
            else "the text has no shared memory whose size the launch says",
            location,
        )
    buffers: dict[int, Buffer] = dict(program.tables)
    values = []
    for number, (parameter, given) in enumerate(zip(declared, arguments, strict=True)):
        if isinstance(given, np.ndarray):
            if not given.flags.c_contiguous or bits_of(parameter.type) != 64:
                raise InterpreterError(
                    f"argument {number} is no array that {parameter.name} can point to", location
                )
            buffers[number] = Buffer(f"argument {number}", given)
            values.append(np.array([global_address(number)], np.uint64))
        else:
            with np.errstate(all="ignore"):
                value = np.array([given]).astype(seen_as(parameter.type))
            values.append(value.view(seen_as(f"u{bits_of(parameter.type)}")))
    with np.errstate(all="ignore"):
        templates: dict[int, list[Any]] = {}
        for first in range(0, groups, groups_at_once):
            count = min(groups_at_once, groups - first)
            if count < groups_at_once:
                templates = {}
            run = Run(
                program, first, count, groups, buffers, program.shared_bytes + dynamic_shared,
                templates, block_limit, waiting, addresses or {},
            )  # fmt: skip
            frame = run.frame(entry)
            lanes = len(run.live)
            for parameter, value in zip(declared, values, strict=True):
                for slot in entry.slots.words.get(parameter.name, {}).values():
                    frame[slot] = np.repeat(value, lanes)
            run.run(entry, frame, np.ones(lanes, np.bool_))
            run.registers.check()
            if run.tiles is not None:
                run.tiles.check()
