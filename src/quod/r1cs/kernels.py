"""Kernels that run witness programs and check constraints."""

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
from quod.r1cs.lanes import Copies, Lane, Lanes
from quod.r1cs.shortcuts.kernels import call_bit_function, call_neptune_hash
from quod.r1cs.shortcuts.pedersen_node import call_pedersen_node
from quod.r1cs.witness_program.instructions import ONE_REGISTER, ZERO_REGISTER, Op

Cases = list[tuple[Op, Callable[[], None]]]


class ProgramTables(Struct):
    """The instructions of a program, four words each, and its terms and coefficients.

    See `quod.r1cs.witness_program.instructions.Program`; coefficients are in Montgomery form.
    """

    code: Pointer[U32]
    terms: Pointer[U32]
    coefficients: Pointer[U64]


class ReplayArrays(Struct):
    """The arrays of a replay.

    witness: the witnesses, of integers.
    values: registers in Montgomery form, interleaved by workgroup: register r of instance i of
        workgroup g is element (g * registers + r) * instances + i, for workgroups of `instances`.
    states: two words per instance: `last` once the instance has run all instructions, and whether
        one of them divided by 0.
    """

    witness: Pointer[U64]
    values: Pointer[U64]
    states: Pointer[U32]


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
    registers: U32,
    lanes: Lanes,
    program: ProgramTables,
    copies: Copies,
    arrays: ReplayArrays,
    *,
    modulus: Modulus,
) -> None:
    """Run instructions `first` to `last` - 1 of a program; each instance computes one lane.

    Registers 0 and 1 hold the constants 0 and 1 before the first instruction.
    """
    values, states = arrays.values, arrays.states
    f, group, width = prime_field(k, modulus), k.workgroup_id(), k.workgroup_size
    local_index, state = k.local_id(), k.global_id() * 2
    words = modulus.words // 2
    inverse = pow(modulus.montgomery_radix, -1, modulus.value)
    lane = Lane(k, lanes, copies, k.minimum(lanes.first + k.global_id(), lanes.last - 1))

    def place(number: Value) -> Value:
        return (group * registers + number) * width + local_index

    with k.if_(first == 0):
        for register_, constant in ((ZERO_REGISTER, f.constant(0)), (ONE_REGISTER, f.one())):
            f.store(values, place(k.constant(register_, types.u32)), constant)
    k.store(states, state + 1, k.constant(0, types.u32))

    with k.range(first, last) as loop:
        op, d, a, b = (k.uniform(word) for word in k.load(program.code, loop.index * 4, 4))
        target = place(d)

        def register_of(number: Value) -> Element:
            return f.load(values, place(number))

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
            (word,) = k.load(values, place(a) * words + (b >> 6))
            value = word >> (b & 63).cast(types.u64) & 1
            f.store(values, target, chosen(value != 0))

        def integer() -> None:
            f.store(values, target, register_of(a) * f.constant(inverse))

        def guard() -> None:
            value = register_of(a)
            is_zero = f.is_zero(value)
            with k.if_(is_zero & (b != 0)):
                k.store(states, state + 1, k.constant(1, types.u32))
            f.store(values, target, f.select(is_zero, f.one(), value))

        def invert() -> None:
            f.store(values, target, f.inverse(register_of(a)))

        def unless_zero() -> None:
            value = register_of(b)
            f.store(values, target, f.select(f.is_zero(register_of(a)), f.constant(0), value))

        def from_witness() -> None:
            integer = f.load(arrays.witness, lane.index_of(a))
            f.store(values, target, integer * f.constant(modulus.montgomery_radix))

        cases = {
            Op.MULTIPLY: multiply, Op.ADD: add, Op.SUBTRACT: subtract, Op.LINEAR: linear,
            Op.GUARD: guard, Op.BIT: bit, Op.INPUT: from_witness,
            Op.INTEGER: integer, Op.UNLESS_ZERO: unless_zero, Op.INVERT: invert,
        }  # fmt: skip
        _dispatch(k, op, list(cases.items()))
    k.store(states, state, last)


@kernel
def store_outputs(
    k: Builder,
    first: U32,
    last: U32,
    step: U32,
    groups: U32,
    registers: U32,
    lanes: Lanes,
    copies: Copies,
    outputs: Pointer[U32],
    values: Pointer[U64],
    witness: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Store outputs `first` to `last` - 1 of all lanes to the witness, as integers.

    The first `groups` workgroups have the instances of `replay_program` and store `step` outputs,
    the next `groups` workgroups the next `step`, and so on.
    outputs: pairs of a register and a column.
    """
    f, width, local_index = prime_field(k, modulus), k.workgroup_size, k.local_id()
    inverse = pow(modulus.montgomery_radix, -1, modulus.value)
    chunk = k.workgroup_id() // groups
    group = k.workgroup_id() - chunk * groups
    position = lanes.first + group * width + local_index
    lane = Lane(k, lanes, copies, k.minimum(position, lanes.last - 1))
    start = first + chunk * step
    with k.range(start, k.minimum(start + step, last)) as loop:
        register_, column = (k.uniform(word) for word in k.load(outputs, loop.index * 2, 2))
        value = f.load(values, (group * registers + register_) * width + local_index)
        with k.if_(position < lanes.last):
            f.store(witness, lane.index_of(column), value * f.constant(inverse))


@kernel
def hint_arguments(
    k: Builder,
    n: U32,
    width: U32,
    registers: U32,
    count: U32,
    arguments: Pointer[U32],
    values: Pointer[U64],
    out: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Copy register arguments[j] of instance i, which has an integer, to out[i * count + j].

    n: the number of elements of `out`; each instance writes one.
    width: the workgroup size of `replay_program`.
    """
    f, index = prime_field(k, modulus), k.global_id()
    with k.if_(index < n):
        lane = index // count
        (register_,) = k.load(arguments, index - lane * count)
        group = lane // width
        place = (group * registers + register_) * width + (lane - group * width)
        f.store(out, index, f.load(values, place))


@kernel
def store_values(
    k: Builder,
    n: U32,
    indices: Pointer[U32],
    values: Pointer[U64],
    witness: Pointer[U64],
    *,
    modulus: Modulus,
) -> None:
    """Store n integers: values[i] to witness[indices[i]]."""
    f, i = prime_field(k, modulus), k.global_id()
    with k.if_(i < n):
        (index,) = k.load(indices, i)
        f.store(witness, index, f.load(values, i))


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
            (last,) = k.load(values, loop.index.cast(types.u64) * words + (words - 1))
            is_marked = k.select(last == UNWRITTEN, k.constant(1, types.u32), 0)
            loop.next(loop.carried + is_marked)
        k.store(counts, index, loop.results)


class RowTables(Struct):
    """The rows of a block. Term t is coefficients[numbers[t]] times column columns[t].

    ends: the terms of row r of matrix m (A, B and C are 0, 1 and 2) are ends[m * rows + r] to
        ends[m * rows + r + 1] - 1.
    coefficients: a coefficient c is stored as c * R**2, R being the Montgomery radix.
    """

    ends: Pointer[U32]
    columns: Pointer[U32]
    numbers: Pointer[U32]
    coefficients: Pointer[U64]


@kernel
def failing_rows(
    k: Builder,
    first: U32,
    last: U32,
    step: U32,
    rows: U32,
    lanes: Lanes,
    tables: RowTables,
    copies: Copies,
    witness: Pointer[U64],
    failing: Pointer[U32],
    *,
    modulus: Modulus,
) -> None:
    """Store to failing[i] the number of the checks first + i, first + i + step, ... that fail.

    Checks are those below `last`. Check c is that of row c // n in lane c % n, of n lanes. `step`
    is the number of elements of `failing`. Witnesses are integers below the modulus.
    """
    f, instance = prime_field(k, modulus), k.global_id()
    with k.if_(instance < step):
        zero = k.constant(0, types.u32)
        with k.range(first + instance, last, step, carry=zero) as checks:
            row = checks.index // lanes.last
            lane = Lane(k, lanes, copies, checks.index - row * lanes.last)
            sums = []
            for matrix in range(3):
                start, stop = k.load(tables.ends, matrix * rows + row, 2)
                # As in `replay_program`, `f.bounded` gives elements the bounds that loops require.
                with k.range(start, stop, carry=f.bounded(f.constant(0))) as loop:
                    (column,) = k.load(tables.columns, loop.index)
                    (number,) = k.load(tables.numbers, loop.index)
                    value = f.load(witness, lane.index_of(column))
                    product = f.load(tables.coefficients, number) * value
                    loop.next(f.bounded(loop.carried + product))
                sums.append(loop.results)
            a, b, c = sums
            fails = k.select(f.is_zero(a * b - c), zero, k.constant(1, types.u32))
            checks.next(checks.carried + fails)
        k.store(failing, instance, checks.results)


for _definition in (replay_program, store_outputs, hint_arguments, store_values, failing_rows):
    register(f"r1cs.{_definition.name}[{BLS12_381_FR.name}]", _definition, modulus=BLS12_381_FR)
register("r1cs.count_unwritten", count_unwritten, words=BLS12_381_FR.words)
for _function in ("sha256_compression", "blake2s_compression"):
    register(
        f"r1cs.call_bit_function[{_function}]", call_bit_function, function=_function,
        modulus=BLS12_381_FR,
    )  # fmt: skip
for _windows in (1, 2):
    register(f"r1cs.call_pedersen_node[{_windows}]", call_pedersen_node, scale=1, windows=_windows)
for _arity in (2, 8, 11):
    register(f"r1cs.call_neptune_hash[{_arity}]", call_neptune_hash, arity=_arity)
