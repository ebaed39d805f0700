"""Kernels that run witness programs: an instance an input."""

from __future__ import annotations

from collections.abc import Callable

from quod.device.runtime.sentinel import UNWRITTEN
from quod.field.element import Element
from quod.field.moduli import BLS12_381_FR, Modulus
from quod.field.strategy import prime_field
from quod.kernel import U32, U64, Builder, Pointer, Struct, kernel
from quod.kernel.ir import types
from quod.kernel.ir.value import Value
from quod.kernel.registry import register
from quod.r1cs.witness_program.instructions import ONE_REGISTER, ZERO, Op

Cases = list[tuple[Op, Callable[[], None]]]


class InputCounts(Struct):
    """Per input: the registers of a program, the elements it reads, and the words of its bits."""

    registers: U32
    elements: U32
    bit_words: U32


class ProgramTables(Struct):
    """The instructions of a program, four words each, and the terms and coefficients of sums."""

    code: Pointer[U32]
    terms: Pointer[U32]
    coefficients: Pointer[U64]


class ReplayArrays(Struct):
    """The arrays of a replay, for each input of the program.

    values: registers in Montgomery form, interleaved by workgroup: register r of instance i of
        workgroup g is element (g * registers + r) * instances + i.
    elements, bits: the integers that the program reads, and bits, 32 a word, interleaved likewise.
    flags: whether the input divides by 0.
    reached: the number of the next instruction of each instance that reached the end.
    """

    elements: Pointer[U64]
    bits: Pointer[U32]
    values: Pointer[U64]
    flags: Pointer[U32]
    reached: Pointer[U32]


def _chosen(k: Builder, op: Value, cases: Cases) -> None:
    """Branch to the case of an operation; cases earlier in the list take fewer comparisons."""
    (case, run), *others = cases
    if not others:
        run()
        return
    with k.if_(op == int(case)) as branch:
        run()
    with branch.otherwise():
        _chosen(k, op, others)


@kernel
def replay_program(
    k: Builder,
    first: U32,
    last: U32,
    counts: InputCounts,
    program: ProgramTables,
    arrays: ReplayArrays,
    *,
    modulus: Modulus,
) -> None:
    """Run instructions `first` to `last` - 1 of a program; an instance computes one input.

    Registers 0 and 1 hold the constants 0 and 1 before the first instruction.
    """
    registers, values = counts.registers, arrays.values
    f, group, width = prime_field(k, modulus), k.workgroup_id(), k.workgroup_size
    lane = k.local_id()
    words = modulus.words // 2
    inverse = pow(modulus.montgomery_radix, -1, modulus.value)

    def place(count: Value, number: Value) -> Value:
        return (group * count + number) * width + lane

    with k.if_(first == 0):
        for number, constant in ((ZERO, f.constant(0)), (ONE_REGISTER, f.one())):
            f.store(values, place(registers, k.constant(number, types.u32)), constant)

    with k.range(first, last) as loop:
        op, d, a, b = (k.uniform(word) for word in k.load(program.code, loop.index * 4, 4))
        target = place(registers, d)

        def register_of(number: Value) -> Element:
            return f.load(values, place(registers, number))

        def chosen(condition: Value) -> Element:
            return f.select(condition, f.one(), f.constant(0))

        def multiply() -> None:
            f.store(values, target, register_of(a) * register_of(b))

        def add() -> None:
            f.store(values, target, register_of(a) + register_of(b))

        def subtract() -> None:
            f.store(values, target, register_of(a) - register_of(b))

        def linear() -> None:
            with k.range(0, b, carry=f.carried(f.constant(0))) as summed:
                place, number = k.load(program.terms, (a + summed.index) * 2, 2)
                product = f.load(program.coefficients, place) * register_of(number)
                summed.next(f.carried(summed.carried + product))
            f.store(values, target, summed.results)

        def bit() -> None:
            (word,) = k.load(values, place(registers, a) * words + (b >> 6))
            value = word >> (b & 63).cast(types.u64) & 1
            f.store(values, target, chosen(value != 0))

        def integer() -> None:
            f.store(values, target, register_of(a) * f.constant(inverse))

        def guard() -> None:
            value = register_of(a)
            is_zero = f.is_zero(value)
            with k.if_(is_zero & (b != 0)):
                k.store(arrays.flags, k.global_id(), k.constant(1, types.u32))
            f.store(values, target, f.select(is_zero, f.one(), value))

        def invert() -> None:
            f.store(values, target, f.inverse(register_of(a)))

        def unless_zero() -> None:
            value = register_of(b)
            f.store(values, target, f.select(f.is_zero(register_of(a)), f.constant(0), value))

        def element() -> None:
            integer = f.load(arrays.elements, place(counts.elements, a))
            f.store(values, target, integer * f.constant(modulus.montgomery_radix))

        def input_bit() -> None:
            (word,) = k.load(arrays.bits, place(counts.bit_words, a >> 5))
            f.store(values, target, chosen((word >> (a & 31) & 1) != 0))

        cases = {
            Op.MULTIPLY: multiply, Op.ADD: add, Op.SUBTRACT: subtract, Op.LINEAR: linear,
            Op.GUARD: guard, Op.INPUT_BIT: input_bit, Op.BIT: bit, Op.INPUT: element,
            Op.INTEGER: integer, Op.UNLESS_ZERO: unless_zero, Op.INVERT: invert,
        }  # fmt: skip
        _chosen(k, op, list(cases.items()))
    k.store(arrays.reached, k.global_id(), last)


@kernel
def witness_values(
    k: Builder,
    n: U32,
    width: U32,
    registers: U32,
    wires: U32,
    outputs: Pointer[U32],
    values: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
    are_integers: bool = False,
) -> None:
    """out[i * wires + w] = the integer of register outputs[w] of input i, for n elements of `out`.

    width: instances in a workgroup of `replay_program`.
    are_integers: whether registers hold integers already, not Montgomery form.
    """
    f, index = prime_field(k, modulus), k.global_id()
    inverse = pow(modulus.montgomery_radix, -1, modulus.value)
    with k.if_(index < n):
        number = index // wires
        (register_,) = k.load(outputs, index - number * wires)
        group = number // width
        place = (group * registers + register_) * width + (number - group * width)
        value = f.load(values, place)
        f.store(out, index, value if are_integers else value * f.constant(inverse))


@kernel
def count_unwritten(
    k: Builder, n: U32, step: U32, values: Pointer[U32], counts: Pointer[U32], *, words: int
) -> None:
    """Count unwritten elements among i, i + step, ... below n, into counts[i].

    They have a last word that no element has (`quod.device.runtime.sentinel`).
    """
    index = k.global_id()
    with k.if_(index < step):
        with k.range(index, n, step, carry=k.constant(0, types.u32)) as loop:
            (last,) = k.load(values, loop.index * words + (words - 1))
            is_marked = k.select(last == UNWRITTEN, k.constant(1, types.u32), 0)
            loop.next(loop.carried + is_marked)
        k.store(counts, index, loop.results)


@kernel
def failing_rows(
    k: Builder,
    n: U32,
    rows: U32,
    wires: U32,
    ends: Pointer[U32],
    columns: Pointer[U32],
    numbers: Pointer[U32],
    coefficients: Pointer[U64],
    witness: Pointer[U64],
    failing: Pointer[U32],
    *,
    modulus: Modulus,
) -> None:
    """failing[i * rows + r] = 1 where row r does not hold for witness i, else 0, for n of them.

    Term t of A, B or C is coefficient numbers[t] of wire columns[t]. The terms of row r of matrix m
    begin at ends[m * rows + r] and end where those of the next do. Coefficients are in Montgomery
    form of their product with its radix, and witnesses integers.
    """
    f, index = prime_field(k, modulus), k.global_id()
    with k.if_(index < n):
        number = index // rows
        row = index - number * rows
        sums = []
        for matrix in range(3):
            start, stop = k.load(ends, matrix * rows + row, 2)
            with k.range(start, stop, carry=f.carried(f.constant(0))) as loop:
                (column,) = k.load(columns, loop.index)
                (which,) = k.load(numbers, loop.index)
                product = f.load(coefficients, which) * f.load(witness, number * wires + column)
                loop.next(f.carried(loop.carried + product))
            sums.append(loop.results)
        a, b, c = sums
        holds = f.is_zero(a * b - c)
        k.store(failing, index, k.select(holds, k.constant(0, types.u32), k.constant(1, types.u32)))


for _definition in (replay_program, witness_values, failing_rows):
    register(f"r1cs.{_definition.name}[{BLS12_381_FR.name}]", _definition, modulus=BLS12_381_FR)
register("r1cs.count_unwritten", count_unwritten, words=BLS12_381_FR.words)
