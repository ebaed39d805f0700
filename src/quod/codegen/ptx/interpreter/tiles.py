"""Tiles of one workgroup: mbarriers, copies that they count, and products of warpgroups.

A tensor map is what `EmulatedDevice.tensor_maps` makes: five words of 64 bits, the length of lines,
lines of a plane, planes, lines of a tile, and the address of the array. Sources: PTX ISA 9.0,
"mbarrier", "cp.async.bulk.tensor", "wgmma" and "Shared Memory Matrix Layout"; of the descriptor's
fields, CUTLASS's `mma_sm90_desc.hpp`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from quod.codegen.ptx.interpreter.arithmetic import Array
from quod.codegen.ptx.interpreter.decode import Code, Frame, Operands, effect, where
from quod.codegen.ptx.interpreter.effects import Run, address_in, parts_of
from quod.codegen.ptx.interpreter.memory import SHARED_START, Memory
from quod.codegen.ptx.interpreter.parse import Instruction
from quod.kernel.builder.matrices import added, numbers_of_halves
from quod.kernel.errors import InterpreterError
from quod.kernel.interpreter.clocks import Clocks
from quod.kernel.interpreter.pending import Copy, Mbarrier, PendingReads
from quod.kernel.ops.tile import COLUMNS, LINE, PATTERN, WARPGROUP

_MAP_WORDS = 5


@dataclass(frozen=True, slots=True)
class Poll:
    """An instruction that tests if a phase of an mbarrier has ended."""

    instruction: Instruction
    base: int
    offset: int
    parity: int

    @classmethod
    def of(cls, instruction: Instruction, operands: Operands) -> Poll | None:
        """Parse an instruction as a poll of an mbarrier, else return None."""
        if instruction.opcode[:2] != ("mbarrier", "try_wait"):
            return None
        if instruction.opcode[2:] != ("parity", "shared:cta", "b64"):
            raise instruction.error("is no wait for an mbarrier that is known here")
        operands.count(3)
        base, offset = operands.address(instruction.operands[1])
        return cls(instruction, base, offset, operands.source(instruction.operands[2], "u32"))

    def asked(self, frame: Frame, mask: Array) -> Iterator[tuple[int, int, Array]]:
        """Return the address of each mbarrier, a parity, and the lanes that ask for these."""
        addresses = address_in(frame[self.base], np.uint64(self.offset))
        parities = frame[self.parity] & np.uint32(1)
        pairs = np.stack([addresses[mask], parities[mask].astype(np.uint64)])
        for address, parity in np.unique(pairs, axis=1).T.tolist():
            yield address, parity, mask & (addresses == address) & (parities == parity)


class Tiles:
    """The mbarriers, copies and products of one workgroup.

    `arrays` has the addresses of arguments' memory in tensor maps, by argument number.
    """

    def __init__(
        self, memory: Memory, clocks: Clocks, lanes: int, arrays: Mapping[int, int]
    ) -> None:
        self.memory, self.clocks, self._arrays = memory, clocks, arrays
        self._barriers: dict[int, Mbarrier] = {}
        self._readings: list[PendingReads] = []
        self._committed = np.zeros(-(-lanes // WARPGROUP), np.int64)

    def error(self, instruction: Instruction, lane: int, problem: str) -> InterpreterError:
        return self.memory.place(instruction.location).error(lane, problem)

    # --- mbarriers

    def make(self, instruction: Instruction, address: int, lane: int, count: int) -> None:
        """Initialise an mbarrier."""
        if address in self._barriers or address % 8:
            raise self.error(instruction, lane, f"makes an mbarrier at {address}, which is none")
        site = self.memory.place(instruction.location)
        self.memory.shared.make_mbarrier(address - SHARED_START, lane, site)
        mbarrier = self._barriers[address] = Mbarrier(count, instruction.location)
        mbarrier.clock = self.clocks.begin_mbarrier(lane)

    def barrier(self, instruction: Instruction, address: int, lanes: Array) -> Mbarrier:
        """Look up the mbarrier at an address, whose initialisation must be visible to the lanes."""
        mbarrier = self._barriers.get(address)
        if mbarrier is None:
            raise self.error(instruction, int(lanes[0]), f"has no mbarrier at {address}")
        if not self.clocks.knows(mbarrier.clock, lanes):
            raise self.error(
                instruction, int(lanes[0]), "has an mbarrier that it may not know of yet"
            )
        return mbarrier

    def arrive(self, instruction: Instruction, address: int, lane: int, nbytes: int) -> None:
        """Record an arrival for a warp, with the bytes that the phase expects."""
        arriving = np.array([lane])
        barrier = self.barrier(instruction, address, arriving)
        if not barrier.missing:
            raise self.error(
                instruction, lane, f"arrives in phase {barrier.ended} of an mbarrier, which has "
                "all its arrivals and was not waited for",
            )  # fmt: skip
        if not self.clocks.arrive(barrier.clock, arriving):
            raise self.error(
                instruction, lane, "may arrive at an mbarrier again before the others have arrived"
            )
        barrier.missing -= 1
        barrier.expected += nbytes

    def _has_ended(self, poll: Poll, address: int, parity: int, lanes: Array) -> bool:
        barrier = self.barrier(poll.instruction, address, lanes)
        if barrier.try_end_phase() and not self.clocks.end_phase(barrier.clock):
            raise self.error(poll.instruction, int(lanes[0]), barrier.describe_early_end())
        return barrier.ended % 2 != parity

    def over(self, poll: Poll, frame: Frame, mask: Array) -> Array:
        """Select the lanes of a mask whose phases have ended."""
        ended = np.zeros(len(mask), np.bool_)
        for address, parity, asking_lanes in poll.asked(frame, mask):
            if self._has_ended(poll, address, parity, np.flatnonzero(asking_lanes)):
                ended |= asking_lanes
        return ended

    def never(self, poll: Poll, frame: Frame, mask: Array) -> InterpreterError:
        """Return the error for lanes whose phase can never end."""
        address, _, asking_lanes = next(iter(poll.asked(frame, mask)))
        lanes = np.flatnonzero(asking_lanes)
        barrier = self.barrier(poll.instruction, address, lanes)
        return self.error(
            poll.instruction,
            int(lanes[0]),
            f"waits for ever: {barrier.describe_missing_arrivals()}",
        )

    def learn(self, poll: Poll, frame: Frame, mask: Array) -> None:
        """Record that lanes have observed the end of their phases, which makes copies visible."""
        for address, _, asking_lanes in poll.asked(frame, mask):
            lanes = np.flatnonzero(asking_lanes)
            barrier = self.barrier(poll.instruction, address, lanes)
            if not self.clocks.learn(barrier.clock, lanes):
                raise self.error(poll.instruction, int(lanes[0]), barrier.describe_ambiguous_wait())
            for copy in barrier.copies:
                copy.arrive()
            barrier.copies.clear()

    # --- copies

    def copy(
        self, instruction: Instruction, lane: int, to: int, tensor_map: int,
        start: tuple[int, int, int], address: int,
    ) -> None:  # fmt: skip
        """Start the copy of a tile from the given element of a line, line and plane on."""
        site = self.memory.place(instruction.location)
        words = self._words(instruction, lane, tensor_map)
        data = self._tile(instruction, lane, words, start)
        byte_offset, lanes, shared = to - SHARED_START, np.array([lane]), self.memory.shared
        if to % PATTERN or byte_offset < 0 or byte_offset + data.nbytes > shared.nbytes:
            raise self.error(
                instruction, lane, f"copies {data.nbytes} bytes to {to}, which is no multiple of "
                f"{PATTERN} with as much memory behind it",
            )  # fmt: skip
        barrier = self.barrier(instruction, address, lanes)
        if any(
            reading.overlaps(byte_offset, byte_offset + data.nbytes) for reading in self._readings
        ):
            raise self.error(instruction, lane, "copies over a tile that a product still reads")
        shared.begin_copy(np.array([byte_offset]), lanes, data.nbytes, site, barrier.clock)
        barrier.arrived_bytes += data.nbytes
        barrier.copies.append(
            Copy(lambda: shared.arrive(byte_offset, 0, data), instruction.location)
        )

    def _words(self, instruction: Instruction, lane: int, tensor_map: int) -> list[int]:
        mask = np.zeros(lane + 1, np.bool_)
        mask[lane] = True
        return [
            int(self._load(instruction, tensor_map + 8 * number, mask)[lane])
            for number in range(_MAP_WORDS)
        ]

    def _load(self, instruction: Instruction, address: int, mask: Array) -> Array:
        addresses = np.full(len(mask), address, np.uint64)
        (word,) = self.memory.load(instruction, "global", addresses, mask, 64, 1, False)
        return word

    def _tile(
        self, instruction: Instruction, lane: int, words: list[int], start: tuple[int, int, int]
    ) -> Array:
        """Read a tile; return its bytes in the swizzled order of shared memory."""
        length, height, planes, lines, address = words
        x, y = start[0] + np.arange(COLUMNS), start[1] + np.arange(lines)[:, None]
        inside = (x >= 0) & (x < length) & (y >= 0) & (y < height) & (0 <= start[2] < planes)
        sources = [
            (number, address - first)
            for number, first in self._arrays.items()
            if first <= address < first + self.memory.buffer(number).nbytes
        ]
        if not sources or not lines:
            raise self.error(instruction, lane, f"has a tensor map of {address}, no argument's")
        number, offset = sources[0]
        offsets = offset + 2 * ((start[2] * height + y) * length + x)[inside]
        site = self.memory.place(instruction.location)
        tile = np.zeros((lines, COLUMNS), np.uint16)
        tile[inside] = self.memory.load_halves(number, offsets, lane, site)
        swizzled_tile = np.empty(tile.size, np.uint16)
        byte_offset = _swizzled(np.arange(lines)[:, None] * LINE + np.arange(COLUMNS) * 2)
        swizzled_tile[byte_offset // 2] = tile
        return swizzled_tile.view(np.uint8)

    # --- products

    def warpgroups(self, instruction: Instruction, mask: Array) -> list[int]:
        """Return the warpgroups in a mask; raises InterpreterError for an incomplete one."""
        if len(mask) % WARPGROUP:
            raise instruction.error("is of warpgroups, and the workgroup is not")
        rows = mask.reshape(-1, WARPGROUP)
        is_incomplete = rows.any(axis=1) & ~rows.all(axis=1)
        if is_incomplete.any():
            lane = int(np.argmax(is_incomplete)) * WARPGROUP
            raise self.error(
                instruction, lane + int(np.argmin(mask[lane : lane + WARPGROUP])),
                "does not come where its warpgroup does",
            )  # fmt: skip
        numbers: list[int] = np.flatnonzero(rows[:, 0]).tolist()
        return numbers

    def matrix(
        self, instruction: Instruction, warpgroup: int, descriptor: Array, rows: int, along: bool
    ) -> Array:
        """Return the 16-bit elements of rows of 32 bytes, read until the product completes."""
        lane = warpgroup * WARPGROUP
        word = int(descriptor[0])
        if (descriptor != descriptor[0]).any():
            raise self.error(instruction, lane, "has a matrix that differs between instances")
        if word >> 62 != 1 or word >> 49 & 7:
            raise self.error(instruction, lane, "has a matrix of another swizzle than 128 bytes")
        begin, leading, stride = ((word >> bit & 0x3FFF) << 4 for bit in (0, 16, 32))
        row, column = np.arange(rows)[:, None], np.arange(16)
        if along:
            byte_offset = row // COLUMNS * leading + column // 8 * stride
            byte_offset = begin + byte_offset + column % 8 * LINE + row % COLUMNS * 2
        else:
            byte_offset = begin + row // 8 * stride + row % 8 * LINE + column * 2
        byte_offsets = _swizzled(byte_offset) - SHARED_START
        if (byte_offsets < 0).any():
            raise self.error(instruction, lane, "has a matrix before its memory")
        elements = self.memory.shared.tile(
            byte_offsets, lane, self.memory.place(instruction.location)
        )
        reading = PendingReads(
            self.memory.shared, 0, byte_offsets, lane, int(self._committed[warpgroup])
        )
        self._readings.append(reading)
        return elements

    def commit(self, instruction: Instruction, mask: Array) -> None:
        self._committed[self.warpgroups(instruction, mask)] += 1

    def wait(self, instruction: Instruction, mask: Array, pending: int) -> None:
        """Complete all groups of products but the last `pending`."""
        waiting, pending_readings = self.warpgroups(instruction, mask), []
        for reading in self._readings:
            warpgroup = reading.lane // WARPGROUP
            if warpgroup not in waiting or reading.number >= self._committed[warpgroup] - pending:
                pending_readings.append(reading)
            else:
                site = self.memory.place(instruction.location)
                reading.room.read_tile(reading.places, reading.lane, site)
        self._readings = pending_readings

    def check(self) -> None:
        """Raise InterpreterError for copies that no instance has waited for.

        Also for an mbarrier whose last phase may end before all waits for the previous one are
        done.
        """
        for barrier in self._barriers.values():
            for copy in barrier.copies:
                raise self.memory.place(copy.location).error(
                    0, "ends while this tile is on its way to it"
                )
            if barrier.try_end_phase() and not self.clocks.end_phase(barrier.clock):
                raise self.memory.place(barrier.location).error(0, barrier.describe_early_end())


def _swizzled(byte_offset: Array) -> Array:
    """Apply the 128-byte swizzle to byte addresses."""
    swizzled: Array = byte_offset ^ (byte_offset >> 7 & 7) << 4
    return swizzled


# --- instructions


def mbarrier(instruction: Instruction, operands: Operands) -> Code:
    """mbarrier.init, arrive, arrive.expect_tx and try_wait.parity, of shared memory."""
    poll = Poll.of(instruction, operands)
    if poll is not None:
        return _try_wait(poll, operands)
    match instruction.opcode[1:]:
        case ("init", "shared:cta", "b64"):
            operands.count(2)
            address_text, value = instruction.operands
        case ("arrive", "expect_tx", "shared:cta", "b64"):
            operands.count(3)
            _, address_text, value = instruction.operands
        case ("arrive", "shared:cta", "b64"):
            operands.count(2)
            (_, address_text), value = instruction.operands, "0"
        case _:
            raise instruction.error("does nothing with an mbarrier that is known here")
    makes = instruction.opcode[1] == "init"
    if not makes and instruction.operands[0] != "_":
        raise instruction.error("keeps the state of an mbarrier, which is not known here")
    (base, offset), value_slot = operands.address(address_text), operands.source(value, "u32")

    def act(run: Run, frame: Frame, mask: Array) -> None:
        addresses = address_in(frame[base], np.uint64(offset))
        record = run.tiles.make if makes else run.tiles.arrive
        for lane in np.flatnonzero(mask).tolist():
            record(instruction, int(addresses[lane]), lane, int(frame[value_slot][lane]))

    return effect(act)


def _try_wait(poll: Poll, operands: Operands) -> Code:
    """Make the code of a poll, which only lanes with an ended phase reach; see `execute.Run`."""
    target_slot = operands.target(poll.instruction.operands[0], "pred")

    def act(run: Run, frame: Frame, mask: Array) -> None:
        run.tiles.learn(poll, frame, mask)
        frame[target_slot] = where(mask, True, frame[target_slot])

    return effect(act)


_COPY = (
    "cp", "async", "bulk", "tensor", "3d", "shared:cluster", "global", "tile",
    "mbarrier:complete_tx:bytes",
)  # fmt: skip


def copy_tile(instruction: Instruction, operands: Operands) -> Code:
    """cp.async.bulk.tensor of three dimensions to the workgroup's own shared memory."""
    if instruction.opcode != _COPY:
        raise instruction.error("is no copy of tiles that is known here")
    operands.count(3)
    target_text, source, barrier = instruction.operands
    match = re.fullmatch(r"\[\s*([^\s,]+)\s*,\s*(\{.*\})\s*\]", source)
    if match is None:
        raise instruction.error(f"has {source} where a tensor map and a place belong")
    tensor_map = operands.source(match[1], "b64")
    start = [operands.source(part, "s32") for part in parts_of(match[2], 3, instruction)]
    (target, target_offset), (barrier_base, barrier_offset) = (
        operands.address(target_text),
        operands.address(barrier),
    )

    def act(run: Run, frame: Frame, mask: Array) -> None:
        targets = address_in(frame[target], np.uint64(target_offset))
        barriers = address_in(frame[barrier_base], np.uint64(barrier_offset))
        for lane in np.flatnonzero(mask).tolist():
            x, y, z = (int(frame[slot].view(np.int32)[lane]) for slot in start)
            run.tiles.copy(
                instruction, lane, int(targets[lane]), int(frame[tensor_map][lane]), (x, y, z),
                int(barriers[lane]),
            )  # fmt: skip

    return effect(act)


_FACTORS: dict[tuple[str, ...], tuple[str, str]] = {
    ("f32", "f16", "f16"): ("f16", "f16"), ("f32", "bf16", "bf16"): ("bf16", "bf16"),
    ("f32", "tf32", "tf32"): ("tf32", "tf32"), ("s32", "s8", "s8"): ("i8", "i8"),
    **{("f32", a, b): (a, b) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")},
}  # fmt: skip
_LANE = np.arange(WARPGROUP)
_ROW, _PART = _LANE // 32 * 16 + _LANE % 32 // 4, _LANE % 4
"""Per lane of a warpgroup, its first row and its index among the four lanes of the row."""


def products(instruction: Instruction, operands: Operands) -> Code:
    """wgmma.fence, mma_async, commit_group and wait_group, by whole warpgroups."""
    match instruction.opcode[1:]:
        case ("fence", "sync", "aligned"):
            operands.count(0)
            return effect(lambda run, frame, mask: run.tiles.warpgroups(instruction, mask))
        case ("commit_group", "sync", "aligned"):
            operands.count(0)
            return effect(lambda run, frame, mask: run.tiles.commit(instruction, mask))
        case ("wait_group", "sync", "aligned"):
            operands.count(1)
            pending = operands.number(instruction.operands[0])
            return effect(lambda run, frame, mask: run.tiles.wait(instruction, mask, pending))
        case ("mma_async", "sync", "aligned", shape, *types) if tuple(types) in _FACTORS:
            return _product(instruction, operands, shape, _FACTORS[tuple(types)])
    raise instruction.error("is nothing of warpgroups that is known here")


def _product(
    instruction: Instruction, operands: Operands, shape: str, factors: tuple[str, str]
) -> Code:
    match = re.fullmatch(r"m64n(\d+)k(\d+)", shape)
    depth = {"tf32": 8, "f16": 16, "bf16": 16}.get(factors[0], 32)
    if match is None or int(match[2]) != depth or not 8 <= int(match[1]) <= 256:
        raise instruction.error(f"has no shape {shape}")
    columns = int(match[1])
    sums_text, first, second, keeps, *immediates = instruction.operands
    sums = [operands.target(part, "b32") for part in parts_of(sums_text, columns // 2, instruction)]
    in_registers = first[0] == "{"
    left = (
        [operands.source(part, "b32") for part in parts_of(first, 4, instruction)]
        if in_registers
        else [operands.source(first, "b64")]
    )
    right, keeps_sums = operands.source(second, "b64"), operands.source(keeps, "pred")
    signs, transposes = (
        (immediates[:2], immediates[2:]) if factors[0] != "i8" else (["1", "1"], immediates)
    )
    transposition_count = 0 if depth != 16 else 1 if in_registers else 2
    if (
        signs != ["1", "1"]
        or len(transposes) != transposition_count
        or not set(transposes) <= {"0", "1"}
    ):
        raise instruction.error("has other immediates than are known here")
    transposes_a, transposes_b = ["0", "0", *transposes][-2:]
    register_index = np.arange(len(sums))[:, None]
    row, column = (
        _ROW + 8 * (register_index // 2 % 2),
        8 * (register_index // 4) + 2 * _PART + register_index % 2,
    )
    sum_type = np.int32 if factors[0] == "i8" else np.float32

    def first_factor(run: Run, frame: Frame, warpgroup: int, lanes: slice) -> Array:
        if not in_registers:
            descriptor = frame[left[0]][lanes]
            transposed = transposes_a == "1"
            factor: Array = run.tiles.matrix(instruction, warpgroup, descriptor, 64, transposed)
            return factor
        halves = np.empty((64, 16), np.uint16)
        for part, slot in enumerate(left):
            words = np.ascontiguousarray(frame[slot][lanes]).view(np.uint16).reshape(-1, 2)
            part_columns = 2 * _PART[:, None] + 8 * (part >> 1) + np.arange(2)
            halves[_ROW[:, None] + 8 * (part & 1), part_columns] = words
        return halves

    def act(run: Run, frame: Frame, mask: Array) -> None:
        totals = np.stack([frame[slot].view(sum_type) for slot in sums])
        for warpgroup in run.tiles.warpgroups(instruction, mask):
            lanes = slice(warpgroup * WARPGROUP, (warpgroup + 1) * WARPGROUP)
            adds_to_sums = frame[keeps_sums][lanes]
            if (adds_to_sums != adds_to_sums[0]).any():
                raise instruction.error("adds to sums of some instances alone")
            a = numbers_of_halves(factors[0], first_factor(run, frame, warpgroup, lanes))
            b = numbers_of_halves(
                factors[1],
                run.tiles.matrix(
                    instruction, warpgroup, frame[right][lanes], columns, transposes_b == "1"
                ),
            )
            products = (a.astype(np.float64) @ b.astype(np.float64).T)[row, column]
            old_sums = totals[:, lanes] if adds_to_sums[0] else np.zeros_like(totals[:, lanes])
            totals[:, lanes] = added(factors[0], old_sums, products)
        for slot, values in zip(sums, totals.view(np.uint32), strict=True):
            frame[slot] = where(mask, values, frame[slot])

    return effect(act)
