"""Execution of decoded PTX: blocks of steps, each for the lanes at its position.

Of all positions with pending lanes, the first in the text runs next, so divergent lanes reconverge.
Lanes that wait at a barrier or shuffle let the other lanes run first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quod.codegen.ptx.interpreter.arithmetic import Array, bits_of, numpy_type
from quod.codegen.ptx.interpreter.arrivals import NamedBarriers
from quod.codegen.ptx.interpreter.collectives import NamedBarrier
from quod.codegen.ptx.interpreter.decode import RUN, Frame
from quod.codegen.ptx.interpreter.memory import Memory, global_address
from quod.codegen.ptx.interpreter.parse import Instruction
from quod.codegen.ptx.interpreter.program import END, Block, Decoded, Program
from quod.codegen.ptx.interpreter.registers import Registers
from quod.codegen.ptx.interpreter.tiles import Tiles
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.clocks import Clocks
from quod.kernel.interpreter.memory import Buffer

Argument = Array | int | float | bool | np.generic


class Run:
    """Workgroups `first` to `first + count - 1` while they run in lockstep."""

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
        clocks = Clocks(width, 32) if program.has_roles else None
        self.memory = Memory(
            buffers, shared_bytes, program.granule, first, count, width, program.private_bytes,
            clocks,
        )  # fmt: skip
        self.tiles: Any = None
        if clocks is not None and program.has_tiles:
            self.tiles = Tiles(self.memory, clocks, self._size, addresses)
        self.registers = Registers(program.module.entry, self.memory, self._size)
        self._templates = templates
        self._named_barriers = (
            None if clocks is None else NamedBarriers(program.entry.blocks, self.memory, clocks)
        )
        self._remaining_blocks = limit
        thread_index = np.tile(np.arange(width, dtype=np.uint32), count)
        self.groups = np.repeat(np.arange(count), width)
        self.lanes = thread_index & np.uint32(31)
        self.warps = self.groups * -(-width // 32) + thread_index // 32
        self.first_of_warp = np.arange(self._size) - self.lanes
        bit, unit = np.uint32(1) << self.lanes, np.uint32(1)
        self._special = {
            "%tid.x": thread_index, "%laneid": self.lanes,
            "%ctaid.x": (first + self.groups).astype(np.uint32), "%lanemask_eq": bit,
            "%lanemask_lt": bit - unit, "%lanemask_le": bit | (bit - unit),
            "%lanemask_ge": ~(bit - unit), "%lanemask_gt": ~(bit | (bit - unit)),
        }  # fmt: skip
        for name, value in (("nctaid.x", groups), ("ntid.x", width)):
            self._special[f"%{name}"] = np.full(self._size, value, np.uint32)
        for name in ("%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z", "%cluster_ctarank"):
            self._special[name] = np.zeros(self._size, np.uint32)

    def wait_for_launches(self) -> None:
        """Wait for the preceding launches."""
        if self._waiting is not None:
            self._waiting()

    def move_registers(self, instruction: Instruction, count: int, mask: Array) -> None:
        """Set the register count of the instances in a mask."""
        self.registers.move(instruction, count, mask)

    def touched(self, numbers: Array, mask: Array) -> Array:
        """Mark the warps or workgroups with a lane in a mask; `numbers` has each lane's index."""
        result = np.zeros(int(numbers[-1]) + 1, np.bool_)
        result[numbers[mask]] = True
        return result

    def instance(self, mask: Array) -> int:
        """Return the index in its workgroup of the first lane of a mask."""
        return int(np.argmax(mask)) % (self._size // self._count)

    def frame(self, decoded: Decoded) -> Frame:
        """Create a frame for one run of a routine."""
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
        """Run a routine for the lanes of a mask until all have left it."""
        blocks = decoded.blocks
        pending: dict[int, Array] = {0: mask}
        # Registers of lanes that have left a function hold its results; an entry point has no
        # results.
        keeps_registers = False
        while pending:
            if len(pending) == 1:
                block_index = next(iter(pending))
            else:
                block_index = self._next(blocks, pending, frame)
            mask = pending.pop(block_index)
            block = blocks[block_index]
            if block.poll is not None:
                ready = self.tiles.over(block.poll, frame, mask)
                if not ready.any():
                    raise self.tiles.never(block.poll, frame, mask)
                if (mask & ~ready).any():
                    pending[block_index] = mask & ~ready
                mask = ready
            if block.named is not None:
                assert self._named_barriers is not None
                self._named_barriers.come(block_index, mask, pending)
            for step in block.masked if pending or keeps_registers else block.alone:
                step(frame, mask)
            self._remaining_blocks -= 1
            if self._remaining_blocks == 0:
                raise InterpreterError("the kernel goes on and on", decoded.routine.location)
            if block.leaves is None:
                self._arrive(decoded, pending, block_index + 1, mask)
                continue
            keeps_registers = keeps_registers or (
                block.target == END and decoded is not self._entry
            )
            if block.predicate is None:
                self._arrive(decoded, pending, block.target, mask)
                continue
            holds = frame[block.predicate]
            going = mask & ~holds if block.negated else mask & holds
            staying = mask & ~going
            if going.any():
                if staying.any():
                    self._check_uniform(block.leaves, going, staying)
                    self._arrive(decoded, pending, block_index + 1, staying)
                self._arrive(decoded, pending, block.target, going)
            else:
                self._arrive(decoded, pending, block_index + 1, mask)

    def _arrive(
        self, decoded: Decoded, pending: dict[int, Array], block_index: int, mask: Array
    ) -> None:
        if block_index in pending:
            pending[block_index] = pending[block_index] | mask
        elif 0 <= block_index < len(decoded.blocks) - 1:
            pending[block_index] = mask
        elif block_index == END:
            if decoded is self._entry:
                self.live = self.live & ~mask
        else:
            raise InterpreterError(
                f"{decoded.routine.name} ends without a ret", decoded.routine.location
            )

    def _next(self, blocks: list[Block], pending: dict[int, Array], frame: Frame) -> int:
        """Return the first block with lanes that can run without waiting for others."""
        order = sorted(pending)
        for block_index in order:
            poll = blocks[block_index].poll
            if poll is not None and not self.tiles.over(poll, frame, pending[block_index]).any():
                continue
            instruction, named = blocks[block_index].together, blocks[block_index].named
            if instruction is None or self._has_all_live_lanes(
                instruction, pending[block_index], named
            ):
                # Functions have no named barriers, so these blocks are the entry's.
                if named is None or self._named_barriers is None:
                    return block_index
                if self._named_barriers.may_go(block_index, pending):
                    return block_index
        return order[0]

    def _has_all_live_lanes(
        self, instruction: Instruction, mask: Array, named: NamedBarrier | None
    ) -> bool:
        """Return whether a mask has all live lanes of its warps, warpgroups or workgroups."""
        missing = self.live & ~mask
        is_for_warp = named is not None or (
            instruction.opcode[0] not in ("bar", "barrier") or "warp" in instruction.opcode
        )
        numbers = self.warps if is_for_warp else self.groups
        if instruction.opcode[0] == "wgmma":
            numbers = self.warps // 4
        return not (missing & self.touched(numbers, mask)[numbers]).any()

    def _check_uniform(self, instruction: Instruction, going: Array, staying: Array) -> None:
        if "uni" not in instruction.opcode:
            return
        split_warps = self.touched(self.warps, going) & self.touched(self.warps, staying)
        if split_warps.any():
            in_split_warps = split_warps[self.warps]
            raise self.memory.place(instruction.location).error(
                int(np.argmax(going & in_split_warps)),
                f"goes where instance {self.instance(staying & in_split_warps)} of its warp does "
                "not, and the branch says that all go one way",
            )


@functools.lru_cache(maxsize=128)
def _program(text: str) -> Program:
    return Program(text)


def interpret_ptx(
    text: str, groups: int, arguments: Sequence[Argument], *, dynamic_shared: int = 0,
    groups_at_once: int = 1, block_limit: int = 1 << 28,
    waiting: Callable[[], None] | None = None, addresses: Mapping[int, int] | None = None,
) -> None:  # fmt: skip
    """Run `groups` workgroups of the single entry of a PTX text.

    A pointer parameter takes a C-contiguous NumPy array, which the kernel reads and changes in
    place; other parameters take numbers. InterpreterError, naming the line of the text, for
    undefined behaviour, for an instruction that Quod does not emit, and for a kernel that runs more
    than `block_limit` basic blocks.

    dynamic_shared: bytes of the `.extern` shared array.
    groups_at_once: workgroups that run in lockstep; more is faster, but only for kernels whose
        workgroups do not wait for one another.
    waiting: called where instances wait for preceding launches.
    addresses: the addresses of arguments' memory in tensor maps.
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
    for number, (parameter, argument) in enumerate(zip(declared, arguments, strict=True)):
        if isinstance(argument, np.ndarray):
            if not argument.flags.c_contiguous or bits_of(parameter.type) != 64:
                raise InterpreterError(
                    f"argument {number} is no array that {parameter.name} can point to", location
                )
            buffers[number] = Buffer(f"argument {number}", argument)
            values.append(np.array([global_address(number)], np.uint64))
        else:
            with np.errstate(all="ignore"):
                value = np.array([argument]).astype(numpy_type(parameter.type))
            values.append(value.view(numpy_type(f"u{bits_of(parameter.type)}")))
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
