"""Programs of products in private memory, against plain integers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from quod.codegen.wgsl.machine import PORTABLE, WgslTarget
from quod.curve.group import Group
from quod.curve.groups import GROUPS
from quod.curve.sums.bytecode import ElementMachine, Step, factor, step
from quod.field.any_field import field_arithmetic
from quod.field.array import from_integers, to_integers
from quod.kernel import U32, U64, Builder, Machine, Pointer, TraceError, kernel, u32
from quod.kernel.interpreter.interpreter import interpret
from tests.msm.sums import wide
from tests.reference.field import fields_of

NAMES = ("a", "b", "c", "d")
PROGRAM = (
    step("c", "a", "b"),
    step("d", "a-b", "2a+b", less="c", twice="a"),
    step("a", "2b-nothing", "c+d"),
    step("a", "a", "a", less="a"),
    step("b", "nothing", "b", twice="b"),
    step("b", "nothing-b", "2nothing-a"),
)
MACHINES = {
    "13": WgslTarget(limbs="13").machine(64),
    "13:rolled": PORTABLE.machine(64),
    "29/64:rolled": WgslTarget(u64=True, limbs="29/64:rolled").machine(64),
}


@kernel
def run_program(
    k: Builder, start: U32, stop: U32, numbers: Pointer[U64], out: Pointer[U64],
    zeros: Pointer[U32], *, group: Group, program: tuple[Step, ...],
) -> None:  # fmt: skip
    """out[i] = the four slots after some steps, from numbers[i]; zeros[i] = which are zero."""
    field, i = field_arithmetic(k, group.field), k.global_id()
    machine = ElementMachine(k, field, NAMES)
    for place, name in enumerate(NAMES):
        machine.put(name, machine.pack(field.load(numbers, i * len(NAMES) + place)))
    machine.run(program, start, stop)
    zero_bits = k.constant(0, u32)
    for place, name in enumerate(NAMES):
        words = machine.get(name)
        field.store(out, i * len(NAMES) + place, machine.unpack(words))
        zero_bits = zero_bits | k.select(machine.is_zero(words), k.constant(1 << place, u32), 0)
    zeros[i] = zero_bits


def expected(field: Any, slots: dict[str, Any], steps: tuple[Step, ...]) -> dict[str, Any]:
    held = slots | {"nothing": field.zero}

    def value(operand: Any) -> Any:
        first = held[operand.first]
        first = field.add(first, first) if operand.doubled else first
        combine = field.sub if operand.minus else field.add
        return combine(first, held[operand.second])

    for instruction in steps:
        twice = field.add(held[instruction.twice], held[instruction.twice])
        product = field.mul(value(instruction.left), value(instruction.right))
        held[instruction.target] = field.sub(field.sub(product, held[instruction.less]), twice)
    return {name: held[name] for name in NAMES}


@pytest.mark.parametrize(
    ("name", "limbs"),
    [*(("bn254.g1", limbs) for limbs in MACHINES), ("bls12_381.g1", "13"),
     ("bls12_377.g2", "29/64:rolled")],
)  # fmt: skip
def test_programs(name: str, limbs: str) -> None:
    group, source = GROUPS[name], random.Random(3)
    fields, p, degree = fields_of(group.curve), group.coordinates.value, group.degree
    field = fields.fq if degree == 1 else fields.fq2
    hostile = [0, 1, 2, p - 1, p - 2, (p - 1) // 2, source.randrange(p), source.randrange(p)]
    flat = [source.choice(hostile) for _ in range(64 * len(NAMES) * degree)]
    flat[: len(NAMES) * degree] = [0] * (len(NAMES) * degree)
    flat[len(NAMES) * degree : 2 * len(NAMES) * degree] = [p - 1] * (len(NAMES) * degree)
    numbers = wide(from_integers(group.coordinates, flat))
    elements = flat if degree == 1 else list(zip(flat[::2], flat[1::2], strict=True))
    traced = run_program.trace(MACHINES[limbs], group=group, program=PROGRAM)
    for start, stop in ((0, len(PROGRAM)), (1, 3), (5, 6), (2, 2)):
        out, zeros = np.zeros_like(numbers), np.zeros(64, np.uint32)
        interpret(traced, 1, [start, stop, numbers, out, zeros])
        coordinates = to_integers(
            group.coordinates, out.view(np.uint32).reshape(-1, group.coordinates.words)
        )
        outputs = (
            coordinates
            if degree == 1
            else list(zip(coordinates[::2], coordinates[1::2], strict=True))
        )
        for lane in range(64):
            span = slice(lane * len(NAMES), (lane + 1) * len(NAMES))
            slots = dict(zip(NAMES, elements[span], strict=True))
            wanted = [*expected(field, slots, PROGRAM[start:stop]).values()]
            assert outputs[span] == wanted
            flags = sum((element == field.zero) << place for place, element in enumerate(wanted))
            assert int(zeros[lane]) == flags


def test_zero_elements_have_zero_words() -> None:
    """Infinity is detected by zero words."""

    @kernel
    def words_of(k: Builder, numbers: Pointer[U64], out: Pointer[U32]) -> None:
        field = field_arithmetic(k, GROUPS["bls12_381.g2"].field)
        machine = ElementMachine(k, field, NAMES)
        packed = machine.pack(field.load(numbers, k.global_id()))
        k.store(out, k.global_id() * len(packed), *packed)

    for machine in MACHINES.values():
        out = np.full((64, 24), 7, np.uint32)
        numbers = np.zeros((64, 12), np.uint64)
        numbers[1:, 0] = 1
        interpret(words_of.trace(machine), 1, [numbers.reshape(-1), out.reshape(-1)])
        assert not out[0].any()
        assert all(words.any() for words in out[1:])


def test_factors() -> None:
    assert str(factor("x")) == str(factor("x+nothing"))
    sums = [factor(text) for text in ("c-x", "2z+t", "2z-t")]
    assert [(term.first, term.second, term.minus, term.doubled) for term in sums] == [
        ("c", "x", True, False), ("z", "t", False, True), ("z", "t", True, True),
    ]  # fmt: skip


def test_invalid_programs_are_rejected() -> None:
    @kernel
    def made(k: Builder, y: Pointer[U32], *, names: tuple[str, ...]) -> None:
        ElementMachine(k, field_arithmetic(k, GROUPS["bn254.g1"].field), names)

    fifteen = tuple(f"n{i}" for i in range(15))
    made.trace(PORTABLE.machine(8), names=fifteen)
    with pytest.raises(TraceError, match="an element machine has at most 16 slots, not 17"):
        made.trace(PORTABLE.machine(8), names=(*fifteen, "more"))
    scalar = Machine("llvm", 8, frozenset({"u64"}))
    with pytest.raises(TraceError, match="an element machine needs a field in"):
        made.trace(scalar, names=NAMES)
