"""Kernels that run witness programs and check constraints; an instance runs one input."""

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
from quod.r1cs.witness_program.instructions import ONE_REGISTER, ZERO_REGISTER, Op

Cases = list[tuple[Op, Callable[[], None]]]


class InputCounts(Struct):
    """Counts per input: a program's registers, the elements it reads, and the words of its bits."""

    registers: U32
    elements: U32
    bit_words: U32


class ProgramTables(Struct):
    """The instructions of a program, four words each, and its terms and coefficients.

    See `quod.r1cs.witness_program.instructions.Program`; coefficients are in Montgomery form.
    """

    code: Pointer[U32]
    terms: Pointer[U32]
    coefficients: Pointer[U64]


class ReplayArrays(Struct):
    """The arrays of a replay.

    values: registers in Montgomery form, interleaved by workgroup: register r of instance i of
        workgroup g is element (g * registers + r) * instances + i, for workgroups of `instances`.
    elements, bits: the integers that the program reads, and its bits, 32 per word; interleaved like
        `values`.
    flags: one word per instance; set to 1 if its input divides by 0.
    reached: one word per instance; set to `last` when the instance has run all instructions.
    """

    elements: Pointer[U64]
    bits: Pointer[U32]
    values: Pointer[U64]
    flags: Pointer[U32]
    reached: Pointer[U32]


def _dispatch(k: Builder, op: Value, cases: Cases) -> None:
    """Run the case of an operation; earlier cases take fewer comparisons."""
    (case, run_case), *others = cases
    if not others:
        run_case()
        return
    with k.if_(op == int(case)) as branch:
        run_case()
    with branch.otherwise():
        _dispatch(k, op, others)


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
    """Run instructions `first` to `last` - 1 of a program; each instance computes one input.

    Registers 0 and 1 hold the constants 0 and 1 before the first instruction.
    """
    registers, values = counts.registers, arrays.values
    f, group, width = prime_field(k, modulus), k.workgroup_id(), k.workgroup_size
    local_index = k.local_id()
    words = modulus.words // 2
    inverse = pow(modulus.montgomery_radix, -1, modulus.value)

    def place(count: Value, number: Value) -> Value:
        return (group * count + number) * width + local_index

    with k.if_(first == 0):
        for register_, constant in ((ZERO_REGISTER, f.constant(0)), (ONE_REGISTER, f.one())):
            f.store(values, place(registers, k.constant(register_, types.u32)), constant)

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
            # `bounded` gives an element the standard bounds that loops and branches require.
            with k.range(0, b, carry=f.bounded(f.constant(0))) as summed:
                coefficient, number = k.load(program.terms, (a + summed.index) * 2, 2)
                product = f.load(program.coefficients, coefficient) * register_of(number)
                summed.next(f.bounded(summed.carried + product))
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
        _dispatch(k, op, list(cases.items()))
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
    """Store register outputs[w] of input i, as an integer, to out[i * wires + w].

    n: the number of elements of `out`; each instance writes one.
    width: the workgroup size of `replay_program`.
    are_integers: whether the registers hold integers instead of Montgomery forms.
    """
    f, index = prime_field(k, modulus), k.global_id()
    inverse = pow(modulus.montgomery_radix, -1, modulus.value)
    with k.if_(index < n):
        input_index = index // wires
        (register_,) = k.load(outputs, index - input_index * wires)
        group = input_index // width
        place = (group * registers + register_) * width + (input_index - group * width)
        value = f.load(values, place)
        f.store(out, index, value if are_integers else value * f.constant(inverse))


@kernel
def count_unwritten(
    k: Builder, n: U32, step: U32, values: Pointer[U32], counts: Pointer[U32], *, words: int
) -> None:
    """Store to counts[i] the number of unwritten elements among i, i + step, ... below n.

    The last word of an unwritten element is the sentinel, which no element has
    (`quod.device.runtime.sentinel`).
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
    """Set failing[i * rows + r] to 1 if row r does not hold for witness i, else to 0.

    n: the number of elements of `failing`; each instance writes one.
    Term t is coefficients[numbers[t]] times wire columns[t]. The terms of row r of matrix m (A, B
    and C are 0, 1 and 2) are ends[m * rows + r] to ends[m * rows + r + 1] - 1. A coefficient c is
    stored as c * R**2, R being the Montgomery radix. Witnesses are integers below the modulus.
    """
    f, index = prime_field(k, modulus), k.global_id()
    with k.if_(index < n):
        witness_index = index // rows
        row = index - witness_index * rows
        sums = []
        for matrix in range(3):
            start, stop = k.load(ends, matrix * rows + row, 2)
            # As in `replay_program`, `f.bounded` gives elements the bounds that loops require.
            with k.range(start, stop, carry=f.bounded(f.constant(0))) as loop:
                (column,) = k.load(columns, loop.index)
                (coefficient_index,) = k.load(numbers, loop.index)
                product = f.load(coefficients, coefficient_index) * f.load(
                    witness, witness_index * wires + column
                )
                loop.next(f.bounded(loop.carried + product))
            sums.append(loop.results)
        a, b, c = sums
        holds = f.is_zero(a * b - c)
        k.store(failing, index, k.select(holds, k.constant(0, types.u32), k.constant(1, types.u32)))


for _definition in (replay_program, witness_values, failing_rows):
    register(f"r1cs.{_definition.name}[{BLS12_381_FR.name}]", _definition, modulus=BLS12_381_FR)
register("r1cs.count_unwritten", count_unwritten, words=BLS12_381_FR.words)
