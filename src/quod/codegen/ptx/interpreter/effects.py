"""One decoder for each instruction that reaches memory or other lanes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from quod.codegen.ptx.interpreter.arithmetic import UNSIGNED, Array, bits_of, seen_as
from quod.codegen.ptx.interpreter.decode import Code, Frame, Operands, effect, where
from quod.codegen.ptx.interpreter.instructions import elements
from quod.codegen.ptx.interpreter.memory import Memory
from quod.codegen.ptx.interpreter.parse import Instruction
from quod.kernel import matrices


class Run(Protocol):
    """What effects see of the workgroups that run in step; see `execute.Run`."""

    live: Array
    memory: Memory
    groups: Array
    lanes: Array
    warps: Array
    first_of_warp: Array

    def wait_for_launches(self) -> None:
        """Instances wait for the launches before this one."""

    def touched(self, numbers: Array, mask: Array) -> Array:
        """Which warps or workgroups, by the number of each lane's, have a lane in a mask."""

    def instance(self, mask: Array) -> int:
        """The number, in its workgroup, of the first lane of a mask."""


Decoder = Callable[[Instruction, Operands], Code]

_ORDERS = {
    "weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "cta", "gpu", "sys",
}  # fmt: skip
_HINTS = {"ca", "cg", "cs", "lu", "cv", "wb", "wt"}
_WIDTHS = {"v2": 2, "v4": 4}
_MEMORY_TYPES = re.compile(r"[busf](8|16|32|64)")


def _where_to(instruction: Instruction, spaces: tuple[str, ...]) -> tuple[str, int, str, set[str]]:
    """Space, words, type and the modifiers that only order or hint."""
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


def _parts(text: str, count: int, instruction: Instruction) -> list[str]:
    parts = elements(text) if text[0] == "{" else [text]
    if len(parts) != count:
        raise instruction.error(f"moves {count} words, and {text} are {len(parts)}")
    return parts


def address_in(base: Array, offset: np.uint64) -> Array:
    """An address as 64 bits; one that a register of 32 bits holds wraps there."""
    if base.dtype == np.uint32:
        return (base + offset.astype(np.uint32)).astype(np.uint64)
    address: Array = base + offset
    return address


def load(instruction: Instruction, operands: Operands) -> Code:
    """ld of global and shared memory; ld.param is the routine's own."""
    space, count, type_, hints = _where_to(instruction, ("global", "shared", "local"))
    operands.count(2)
    target, source = instruction.operands
    slots = [operands.loose_target(part) for part in _parts(target, count, instruction)]
    base, offset = operands.address(source)
    bits, constant = bits_of(type_), "nc" in hints
    if constant and space != "global":
        raise instruction.error("reads no constant data in shared memory")
    if any(operands.slots.bits[slot] < bits for slot in slots):
        raise instruction.error("loads into a register that is too narrow")
    seen = seen_as(type_) if type_[0] == "s" else UNSIGNED[bits]
    by = np.uint64(offset)

    def act(run: Run, frame: Frame, mask: Array) -> None:
        address = address_in(frame[base], by)
        words = run.memory.load(instruction, space, address, mask, bits, count, constant)
        for slot, word in zip(slots, words, strict=True):
            old = frame[slot]
            wide = word.view(seen)
            if seen is not UNSIGNED[bits]:
                wide = wide.astype(seen_as(f"s{old.itemsize * 8}"))
            frame[slot] = where(mask, wide.astype(old.dtype), old)

    return effect(act)


def store(instruction: Instruction, operands: Operands) -> Code:
    """st to global and shared memory."""
    space, count, type_, hints = _where_to(instruction, ("global", "shared", "local"))
    if "nc" in hints:
        raise instruction.error("cannot store to constant data")
    operands.count(2)
    target, source = instruction.operands
    bits = bits_of(type_)
    parts = _parts(source, count, instruction)
    slots = [operands.loose_source(part, f"b{bits}") for part in parts]
    base, offset = operands.address(target)
    if any(operands.slots.bits[slot] < bits for slot in slots):
        raise instruction.error("stores a register that is too narrow")
    by, narrow = np.uint64(offset), UNSIGNED[bits]

    def act(run: Run, frame: Frame, mask: Array) -> None:
        address = address_in(frame[base], by)
        values = [frame[slot].astype(narrow) for slot in slots]
        run.memory.store(instruction, space, address, mask, bits, values)

    return effect(act)


_ATOMICS = {
    ("add", "u"): "atomic_add", ("add", "s"): "atomic_add", ("max", "u"): "atomic_max",
    ("min", "u"): "atomic_min", ("or", "b"): "atomic_or", ("exch", "b"): "atomic_exchange",
    ("cas", "b"): "atomic_compare_exchange",
}  # fmt: skip


def atomic(instruction: Instruction, operands: Operands) -> Code:
    """atom, and red, which gives nothing."""
    *opcode, operation, type_ = instruction.opcode
    shorter = Instruction((*opcode, type_), instruction.operands, None, False, instruction.location)
    space, count, _, _ = _where_to(shorter, ("global", "shared"))
    name = _ATOMICS.get((operation, type_[0]))
    bits = bits_of(type_)
    if name is None or count != 1 or bits not in (32, 64) or (type_ == "s64"):
        raise instruction.error("is no atomic operation that is known here")
    gives = opcode[0] == "atom"
    texts = list(instruction.operands)
    operands.count((4 if operation == "cas" else 3) - (not gives))
    target = operands.target(texts.pop(0), type_) if gives else None
    base, offset = operands.address(texts[0])
    sources = [operands.source(text, type_) for text in texts[1:]]
    by = np.uint64(offset)

    def act(run: Run, frame: Frame, mask: Array) -> None:
        address = address_in(frame[base], by)
        values = [frame[slot] for slot in sources]
        before = run.memory.atomic(instruction, space, name, address, mask, bits, values)
        if target is not None:
            frame[target] = where(mask, before, frame[target])

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
        case ("async", "ca" | "cg" as level, "shared" | "shared:cta", "global", *rest) if all(
            part.startswith("L2:") for part in rest
        ):
            operands.count(3, 4)
            (to, to_by), (start, start_by) = map(operands.address, instruction.operands[:2])
            size = operands.number(instruction.operands[2])
            read = [operands.source(text, "u32") for text in instruction.operands[3:]]
            if size not in ((16,) if level == "cg" else (4, 8, 16)):
                raise instruction.error(f"cannot copy {size} bytes")

            def begin(run: Run, frame: Frame, mask: Array) -> None:
                given = frame[read[0]] if read else np.full(len(mask), size)
                if not np.isin(given[mask], (0, size)).all():
                    raise instruction.error(f"reads neither nothing nor {size} bytes")
                run.memory.begin_copy(
                    instruction, address_in(frame[to], np.uint64(to_by)),
                    frame[start] + np.uint64(start_by), mask, size, given != 0,
                )  # fmt: skip

            return effect(begin)
    raise instruction.error("is no copy that is known here")


def _nothing(instruction: Instruction, operands: Operands) -> Code:
    return effect(lambda run, frame, mask: None)


def fence(instruction: Instruction, operands: Operands) -> Code:
    """membar and fence: accesses happen in the order of the text here."""
    operands.count(0)
    if not set(instruction.opcode[1:]) <= {*_ORDERS, "gl"}:
        raise instruction.error("is no fence that is known here")
    return _nothing(instruction, operands)


def prefetch(instruction: Instruction, operands: Operands) -> Code:
    """A hint; what it names need not be there."""
    if instruction.opcode[1:] not in (("global", "L1"), ("global", "L2")):
        raise instruction.error("is no hint that is known here")
    operands.count(1)
    operands.address(instruction.operands[0])
    return _nothing(instruction, operands)


def grid_control(instruction: Instruction, operands: Operands) -> Code:
    """griddepcontrol: launches before this one have ended once it waits, at the latest."""
    operands.count(0)
    match instruction.opcode[1:]:
        case ("wait",):
            return effect(lambda run, frame, mask: run.wait_for_launches() if mask.any() else None)
        case ("launch_dependents",):
            return _nothing(instruction, operands)
    raise instruction.error("controls no launches in a way that is known here")


# --- other lanes


def barrier(instruction: Instruction, operands: Operands) -> Code:
    """bar.sync 0: every instance that has not ended waits here."""
    known = {("bar", "sync"), ("barrier", "sync"), ("barrier", "sync", "aligned")}
    if instruction.opcode == ("bar", "warp", "sync"):
        return _warp_barrier(instruction, operands)
    if instruction.opcode not in known or operands.number(instruction.operands[0]) != 0:
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
    """All lanes that a member mask names, of those that have not ended, are here."""
    place = run.memory.place(instruction.location)
    outside = mask & ((members >> run.lanes & np.uint32(1)) == 0)
    if outside.any():
        raise place.error(int(np.argmax(outside)), "is not in its own member mask")
    named = np.zeros(int(run.warps[-1]) + 1, np.uint32)
    named[run.warps[mask]] = members[mask]
    different = mask & (named[run.warps] != members)
    if different.any():
        raise place.error(int(np.argmax(different)), "has a member mask of its own")
    absent = run.live & ~mask & ((named[run.warps] >> run.lanes & np.uint32(1)) == 1)
    if absent.any():
        raise place.error(int(np.argmax(absent)), "does not come where its warp waits for it")


def shuffle(instruction: Instruction, operands: Operands) -> Code:
    """shfl.sync: another lane's register."""
    modes = ("idx", "up", "down", "bfly")
    match instruction.opcode[1:]:
        case ("sync", mode, "b32") if mode in modes:
            operands.count(5)
        case _:
            raise instruction.error("is no shuffle that is known here")
    first, *rest = instruction.operands
    target, *flag = first.split("|")
    to = operands.target(target.strip(), "b32")
    inside_to = operands.target(flag[0].strip(), "pred") if flag else None
    value, lane, limit, members = (operands.source(text, "b32") for text in rest)

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, frame[members], mask)
        own = run.lanes.astype(np.int64)
        by = (frame[lane] & np.uint32(31)).astype(np.int64)
        segment = (frame[limit] >> np.uint32(8) & np.uint32(31)).astype(np.int64)
        clamp = (frame[limit] & np.uint32(31)).astype(np.int64)
        last = (own & segment) | (clamp & ~segment)
        lowest = own & segment
        match mode:
            case "up":
                source, inside = own - by, own - by >= last
            case "down":
                source, inside = own + by, own + by <= last
            case "bfly":
                source, inside = own ^ by, own ^ by <= last
            case _:
                source = lowest | (by & ~segment)
                inside = source <= last
        source = np.where(inside, source, own)
        whole = run.first_of_warp + source
        there = np.minimum(whole, len(mask) - 1)
        absent = mask & ((whole != there) | (run.warps[there] != run.warps) | ~mask[there])
        if absent.any():
            at = int(np.argmax(absent))
            raise run.memory.place(instruction.location).error(
                at, f"takes the register of lane {source[at]} of its warp, which is not there"
            )
        taken = frame[value][np.where(mask, whole, 0)]
        frame[to] = where(mask, taken, frame[to])
        if inside_to is not None:
            frame[inside_to] = where(mask, inside, frame[inside_to])

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
    to = operands.target(target, result)
    negated, source = source.startswith("!"), source.lstrip("!")
    given, members = operands.source(source, "pred"), operands.source(mask_text, "b32")

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, frame[members], mask)
        holds = ~frame[given] if negated else frame[given]
        yes, here = np.zeros((2, int(run.warps[-1]) + 1, 32), np.bool_)
        yes[run.warps, run.lanes] = holds & mask
        here[run.warps, run.lanes] = mask
        if mode == "ballot":
            answer = (yes << np.arange(32, dtype=np.uint32)).sum(1, dtype=np.uint32)
        else:
            every, some = (yes == here).all(1), yes.any(1)
            answer = {"all": every, "any": some, "uni": every | ~some}[mode]
        frame[to] = where(mask, answer[run.warps], frame[to])

    return effect(act)


def reduce(instruction: Instruction, operands: Operands) -> Code:
    """redux.sync: the sum, least or greatest word of the warp."""
    match instruction.opcode[1:]:
        case ("sync", "add" | "min" | "max" as name, "u32" | "s32" as type_):
            operands.count(3)
        case _:
            raise instruction.error("is no reduction that is known here")
    target, source, mask_text = instruction.operands
    to, given = operands.target(target, type_), operands.source(source, type_)
    members, seen = operands.source(mask_text, "b32"), np.dtype(seen_as(type_))
    combine: Any = {"add": np.add, "min": np.minimum, "max": np.maximum}[name]
    ends = np.iinfo(seen)
    nothing = {"add": 0, "min": ends.max, "max": ends.min}[name]

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, frame[members], mask)
        found = np.full((int(run.warps[-1]) + 1, 32), nothing, seen)
        found[run.warps[mask], run.lanes[mask]] = frame[given][mask].view(seen)
        answer = combine.reduce(found, axis=1, dtype=seen).view(np.uint32)
        frame[to] = where(mask, answer[run.warps], frame[to])

    return effect(act)


def load_matrices(instruction: Instruction, operands: Operands) -> Code:
    """ldmatrix: four matrices of 8 by 8 halves, a row of each by the address of a lane."""
    match instruction.opcode[1:]:
        case ("sync", "aligned", "m8n8", "x4", *trans, "shared", "b16") if trans in ([], ["trans"]):
            operands.count(2)
        case _:
            raise instruction.error("is no load of matrices that is known here")
    target, source = instruction.operands
    slots = [operands.target(part, "b32") for part in _parts(target, 4, instruction)]
    base, offset = operands.address(source)
    by, transposed = np.uint64(offset), bool(trans)

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, np.full(len(mask), _WARP, np.uint32), mask)
        rows = run.memory.load_rows(instruction, address_in(frame[base], by), mask)
        found = matrices.words_of_rows(rows, transposed=transposed)
        for slot, words in zip(slots, found, strict=True):
            frame[slot] = where(mask, _spread(words, mask), frame[slot])

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
        case ("sync", "aligned", "m16n8k32", "row", "col", "s32" as sums, "s8", "s8", "s32"):
            a = "i8"
        case _:
            raise instruction.error("is no product of matrices that is known here")
    operands.count(4)
    target, *texts = instruction.operands
    slots = [operands.target(part, sums) for part in _parts(target, 4, instruction)]
    sources = [
        operands.source(part, type_)
        for text, count, type_ in zip(texts, (4, 2, 4), ("b32", "b32", sums), strict=True)
        for part in _parts(text, count, instruction)
    ]

    held = np.float32 if sums == "f32" else np.int32

    def act(run: Run, frame: Frame, mask: Array) -> None:
        _check_members(instruction, run, np.full(len(mask), _WARP, np.uint32), mask)
        words = [frame[slot][mask].view(np.uint32) for slot in sources]
        given = [*words[:6], *(word.view(held) for word in words[6:])]
        for slot, values in zip(slots, matrices.multiply_add(a, given), strict=True):
            old = frame[slot]
            frame[slot] = where(mask, _spread(values, mask).view(old.dtype), old)

    return effect(act)


_WARP = 0xFFFF_FFFF


def _spread(values: Array, mask: Array) -> Array:
    """Values of the lanes of a mask at their places among all."""
    found = np.zeros(len(mask), values.dtype)
    found[mask] = values
    return found


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
    "bar": barrier,
    "barrier": barrier,
    "shfl": shuffle,
    "vote": vote,
    "redux": reduce,
    "ldmatrix": load_matrices,
    "mma": multiply_matrices,
}
"""The decoders of the instructions that reach beyond the registers of a lane."""

TOGETHER = ("bar", "barrier", "shfl", "vote", "redux", "ldmatrix", "mma")
"""Instructions that lanes execute together."""
