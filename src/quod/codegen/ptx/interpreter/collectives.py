"""Decoders of the collective instructions: barriers, shuffles and matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quod.codegen.ptx.interpreter.arithmetic import Array, numpy_type
from quod.codegen.ptx.interpreter.decode import Code, Frame, Operands, effect, where
from quod.codegen.ptx.interpreter.effects import Decoder, Run, address_in, parts_of
from quod.codegen.ptx.interpreter.parse import Instruction
from quod.kernel.builder import matrices
from quod.kernel.ops.tile import REGISTER_COUNTS

_FLOATS8 = ("e4m3", "e5m2")

_WARP = 0xFFFF_FFFF
"""The member mask of a whole warp."""


@dataclass(frozen=True, slots=True)
class NamedBarrier:
    """An instruction on a named barrier: its number, instance count, and whether it waits."""

    number: int
    count: int
    waits: bool

    @classmethod
    def of(cls, instruction: Instruction) -> NamedBarrier | None:
        """Parse an instruction on a named barrier, which whole warps execute, else return None."""
        match instruction.opcode:
            case ("bar" | "barrier", "sync" | "arrive" as what, *aligned) if aligned in (
                [],
                ["aligned"],
            ):
                if len(instruction.operands) == 2 and all(map(str.isdigit, instruction.operands)):
                    number, count = map(int, instruction.operands)
                    return cls(number, count, what == "sync")
        return None


def _named_barrier(instruction: Instruction, named: NamedBarrier) -> Code:
    """Make the code of a named barrier, which only checks the warp; `arrivals` counts arrivals."""
    if not 1 <= named.number <= 15 or named.count % 32 or not named.count:
        raise instruction.error("names no barrier of whole warps from 1 to 15")

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, np.full(len(mask), _WARP, np.uint32), mask)

    return effect(act)


def barrier(instruction: Instruction, operands: Operands) -> Code:
    """bar.sync 0, at which all instances that have not ended wait, and named barriers."""
    supported = {("bar", "sync"), ("barrier", "sync"), ("barrier", "sync", "aligned")}
    if instruction.opcode == ("bar", "warp", "sync"):
        return _warp_barrier(instruction, operands)
    named = NamedBarrier.of(instruction)
    if named is not None:
        return _named_barrier(instruction, named)
    if instruction.opcode not in supported or operands.number(instruction.operands[0]) != 0:
        raise instruction.error("is no barrier that is known here")
    operands.count(1)

    def act(run: Run, frame: Frame, mask: Array) -> None:
        touched = run.touched(run.groups, mask)
        missing = run.live & ~mask & touched[run.groups]
        if missing.any():
            raise run.memory.place(instruction.location).error(
                int(np.argmax(missing)),
                f"does not reach the barrier that instance {run.instance(mask)} waits at",
            )
        run.memory.shared.barrier(None if touched.all() else touched)

    return effect(act)


def _warp_barrier(instruction: Instruction, operands: Operands) -> Code:
    operands.count(1)
    members = operands.source(instruction.operands[0], "b32")

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, frame[members], mask)

    return effect(act)


def _check_members(instruction: Instruction, run: Run, members: Array, mask: Array) -> None:
    """Raise InterpreterError unless all live lanes of a member mask execute the instruction."""
    site = run.memory.place(instruction.location)
    outside = mask & ((members >> run.lanes & np.uint32(1)) == 0)
    if outside.any():
        raise site.error(int(np.argmax(outside)), "is not in its own member mask")
    member_masks = np.zeros(int(run.warps[-1]) + 1, np.uint32)
    member_masks[run.warps[mask]] = members[mask]
    different = mask & (member_masks[run.warps] != members)
    if different.any():
        raise site.error(int(np.argmax(different)), "has a member mask of its own")
    absent = run.live & ~mask & ((member_masks[run.warps] >> run.lanes & np.uint32(1)) == 1)
    if absent.any():
        raise site.error(int(np.argmax(absent)), "does not come where its warp waits for it")


def move_registers(instruction: Instruction, operands: Operands) -> Code:
    """setmaxnreg: change the register count of warps."""
    match instruction.opcode[1:]:
        case ("inc" | "dec", "sync", "aligned", "u32"):
            operands.count(1)
        case _:
            raise instruction.error("moves no registers in a way that is known here")
    count = operands.number(instruction.operands[0])
    if count not in REGISTER_COUNTS:
        raise instruction.error("gives an instance no multiple of 8 registers from 24 to 256")

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, np.full(len(mask), _WARP, np.uint32), mask)
        run.move_registers(instruction, count, mask)

    return effect(act)


def shuffle(instruction: Instruction, operands: Operands) -> Code:
    """shfl.sync: another lane's register."""
    modes = ("idx", "up", "down", "bfly")
    match instruction.opcode[1:]:
        case ("sync", mode, "b32") if mode in modes:
            operands.count(5)
        case _:
            raise instruction.error("is no shuffle that is known here")
    first, *source_texts = instruction.operands
    target, *flag = first.split("|")
    target_slot = operands.target(target.strip(), "b32")
    inside_slot = operands.target(flag[0].strip(), "pred") if flag else None
    value, lane, limit, members = (operands.source(text, "b32") for text in source_texts)

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, frame[members], mask)
        own_lane = run.lanes.astype(np.int64)
        operand = (frame[lane] & np.uint32(31)).astype(np.int64)
        segment = (frame[limit] >> np.uint32(8) & np.uint32(31)).astype(np.int64)
        clamp = (frame[limit] & np.uint32(31)).astype(np.int64)
        last = (own_lane & segment) | (clamp & ~segment)
        lowest = own_lane & segment
        match mode:
            case "up":
                source, inside = own_lane - operand, own_lane - operand >= last
            case "down":
                source, inside = own_lane + operand, own_lane + operand <= last
            case "bfly":
                source, inside = own_lane ^ operand, own_lane ^ operand <= last
            case _:
                source = lowest | (operand & ~segment)
                inside = source <= last
        source = np.where(inside, source, own_lane)
        instances = run.first_of_warp + source
        source_instances = np.minimum(instances, len(mask) - 1)
        absent = mask & (
            (instances != source_instances)
            | (run.warps[source_instances] != run.warps)
            | ~mask[source_instances]
        )
        if absent.any():
            instance = int(np.argmax(absent))
            raise run.memory.place(instruction.location).error(
                instance,
                f"takes the register of lane {source[instance]} of its warp, which is not there",
            )
        values = frame[value][np.where(mask, instances, 0)]
        frame[target_slot] = where(mask, values, frame[target_slot])
        if inside_slot is not None:
            frame[inside_slot] = where(mask, inside, frame[inside_slot])

    return effect(act)


def vote(instruction: Instruction, operands: Operands) -> Code:
    """vote.sync: ballot, all, any and uni of a predicate over the warp."""
    match instruction.opcode[1:]:
        case ("sync", "ballot", "b32"):
            mode, result = "ballot", "b32"
        case ("sync", "all" | "any" | "uni" as mode, "pred"):
            result = "pred"
        case _:
            raise instruction.error("is no vote that is known here")
    operands.count(3)
    target, source, mask_text = instruction.operands
    target_slot = operands.target(target, result)
    negated, source = source.startswith("!"), source.lstrip("!")
    predicate, members = operands.source(source, "pred"), operands.source(mask_text, "b32")

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, frame[members], mask)
        holds = ~frame[predicate] if negated else frame[predicate]
        holds_by_lane, is_present = np.zeros((2, int(run.warps[-1]) + 1, 32), np.bool_)
        holds_by_lane[run.warps, run.lanes] = holds & mask
        is_present[run.warps, run.lanes] = mask
        if mode == "ballot":
            answer = (holds_by_lane << np.arange(32, dtype=np.uint32)).sum(1, dtype=np.uint32)
        else:
            all_hold, any_holds = (holds_by_lane == is_present).all(1), holds_by_lane.any(1)
            answer = {"all": all_hold, "any": any_holds, "uni": all_hold | ~any_holds}[mode]
        frame[target_slot] = where(mask, answer[run.warps], frame[target_slot])

    return effect(act)


def reduce(instruction: Instruction, operands: Operands) -> Code:
    """redux.sync: the sum, minimum or maximum over the words of the warp."""
    match instruction.opcode[1:]:
        case ("sync", "add" | "min" | "max" as name, "u32" | "s32" as type_):
            operands.count(3)
        case _:
            raise instruction.error("is no reduction that is known here")
    target, source, mask_text = instruction.operands
    target_slot, source_slot = operands.target(target, type_), operands.source(source, type_)
    members, number_type = operands.source(mask_text, "b32"), np.dtype(numpy_type(type_))
    combine: Any = {"add": np.add, "min": np.minimum, "max": np.maximum}[name]
    limits = np.iinfo(number_type)
    neutral = {"add": 0, "min": limits.max, "max": limits.min}[name]

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, frame[members], mask)
        values = np.full((int(run.warps[-1]) + 1, 32), neutral, number_type)
        values[run.warps[mask], run.lanes[mask]] = frame[source_slot][mask].view(number_type)
        answer = combine.reduce(values, axis=1, dtype=number_type).view(np.uint32)
        frame[target_slot] = where(mask, answer[run.warps], frame[target_slot])

    return effect(act)


def load_matrices(instruction: Instruction, operands: Operands) -> Code:
    """ldmatrix: load four matrices of 8 by 8 16-bit elements; each lane addresses one row."""
    match instruction.opcode[1:]:
        case ("sync", "aligned", "m8n8", "x4", *trans, "shared", "b16") if trans in ([], ["trans"]):
            operands.count(2)
        case _:
            raise instruction.error("is no load of matrices that is known here")
    target, source = instruction.operands
    slots = [operands.target(part, "b32") for part in parts_of(target, 4, instruction)]
    base, offset = operands.address(source)
    displacement, transposed = np.uint64(offset), bool(trans)

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, np.full(len(mask), _WARP, np.uint32), mask)
        rows = run.memory.load_rows(instruction, address_in(frame[base], displacement), mask)
        fragments = matrices.words_of_rows(rows, transposed=transposed)
        for slot, words in zip(slots, fragments, strict=True):
            frame[slot] = where(mask, _spread(words, mask), frame[slot])

    return effect(act)


def store_matrices(instruction: Instruction, operands: Operands) -> Code:
    """stmatrix: store 1, 2 or 4 matrices of 8 by 8 16-bit elements; lanes address the rows."""
    match instruction.opcode[1:]:
        case (
            "sync",
            "aligned",
            "m8n8",
            "x1" | "x2" | "x4" as count_suffix,
            *trans,
            "shared",
            "b16",
        ) if trans in ([], ["trans"]):
            operands.count(2)
        case _:
            raise instruction.error("is no store of matrices that is known here")
    target, source = instruction.operands
    parts = parts_of(source, int(count_suffix[1:]), instruction)
    slots = [operands.source(part, "b32") for part in parts]
    base, offset = operands.address(target)
    displacement, transposed = np.uint64(offset), bool(trans)

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, np.full(len(mask), _WARP, np.uint32), mask)
        words = np.stack([frame[slot][mask] for slot in slots])
        rows = matrices.rows_of_words(words, transposed=transposed)
        pointing = mask & (run.lanes < 8 * len(slots))
        run.memory.store_rows(instruction, address_in(frame[base], displacement), pointing, rows)

    return effect(act)


def multiply_matrices(instruction: Instruction, operands: Operands) -> Code:
    """mma: the product of two matrices of a warp, plus a third."""
    match instruction.opcode[1:]:
        case ("sync", "aligned", "m16n8k16", "row", "col", "f32", a, b, "f32") if a == b and a in (
            "f16",
            "bf16",
        ):
            sums = "f32"
        case ("sync", "aligned", "m16n8k8", "row", "col", "f32", "tf32" as a, "tf32", "f32"):
            sums = "f32"
        case ("sync", "aligned", "m16n8k32", "row", "col", "f32" as sums, a, b, "f32") if (
            a in _FLOATS8 and b in _FLOATS8
        ):
            a = f"{a}_{b}"
        case ("sync", "aligned", "m16n8k32", "row", "col", "s32" as sums, "s8", "s8", "s32"):
            a = "i8"
        case _:
            raise instruction.error("is no product of matrices that is known here")
    operands.count(4)
    target, *texts = instruction.operands
    slots = [operands.target(part, sums) for part in parts_of(target, 4, instruction)]
    sources = [
        operands.source(part, type_)
        for text, count, type_ in zip(texts, (4, 2, 4), ("b32", "b32", sums), strict=True)
        for part in parts_of(text, count, instruction)
    ]

    sum_type = np.float32 if sums == "f32" else np.int32

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, np.full(len(mask), _WARP, np.uint32), mask)
        words = [frame[slot][mask].view(np.uint32) for slot in sources]
        factors = [*words[:6], *(word.view(sum_type) for word in words[6:])]
        for slot, values in zip(slots, matrices.multiply_add(a, factors), strict=True):
            old = frame[slot]
            frame[slot] = where(mask, _spread(values, mask).view(old.dtype), old)

    return effect(act)


def _spread(values: Array, mask: Array) -> Array:
    """Scatter values of the lanes in a mask to an array over all lanes."""
    spread = np.zeros(len(mask), values.dtype)
    spread[mask] = values
    return spread


TOGETHER: dict[str, Decoder] = {
    "bar": barrier,
    "barrier": barrier,
    "shfl": shuffle,
    "vote": vote,
    "redux": reduce,
    "ldmatrix": load_matrices,
    "stmatrix": store_matrices,
    "mma": multiply_matrices,
    "setmaxnreg": move_registers,
}
"""The decoders of the instructions that lanes execute together."""
