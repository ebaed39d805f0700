"""The interpreter of witness programs and the checker of rows, in WebAssembly.

Both read streams of units of 2 or 4 bytes (`quod.r1cs.calculator.streams`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from quod.frozen import frozen
from quod.r1cs.calculator.arithmetic import Arithmetic
from quod.r1cs.calculator.assembler import I32, Function, Module, Value, Variable, load
from quod.r1cs.calculator.hints import HintFunctions
from quod.r1cs.calculator.integers import Integers
from quod.r1cs.witness_program.instructions import Op

STORE, CALL, END = len(Op), len(Op) + 1, len(Op) + 2
"""Operations besides those of `Op`: store register d to the column (a, b); call hint d; end."""


class Row(IntEnum):
    """The kinds of rows in a stream of rows."""

    END = 0
    BIT = 1
    """A column that is 0 or 1."""
    GENERAL = 2
    """A row a·b = c."""


PLUS, MINUS = 0, 1
"""The indices of the coefficients 1 and -1."""


@frozen
class Addresses:
    """The memory that the interpreter reads and writes.

    unit: the number of bytes of a unit of a stream.
    registers, coefficients, witness: the addresses of arrays.
    scratch: the addresses of three registers.
    """

    unit: int
    registers: int
    coefficients: int
    witness: int
    scratch: tuple[int, int, int]


class Interpreter:
    """The functions `run` and `check` in a module.

    run: run a program. Arguments: the address of its stream, and of a copy the address of its table
        and the number of its fixed columns.
    check: check rows, with such arguments; returns 0, or the number of the first row that fails,
        counted from 1.
    """

    def __init__(
        self,
        module: Module,
        arithmetic: Arithmetic,
        integers: Integers,
        hints: HintFunctions,
        addresses: Addresses,
    ) -> None:
        self._arithmetic, self._hints, self._addresses = arithmetic, hints, addresses
        self._integers = integers
        self._address_of = module.define(3, self._write_address_of, results=1)
        self.run = module.define(3, self._run)
        self._sum = module.define(5, self._write_sum, results=1)
        self.check = module.define(3, self._check, results=1)

    def _unit(self, cursor: Value, index: int) -> Value:
        size = self._addresses.unit
        return load("i32.load16_u" if size == 2 else "i32.load", cursor, size * index)

    def _column(self, cursor: Value, index: int) -> Value:
        low = self._unit(cursor, index)
        return low | self._unit(cursor, index + 1) << 16 if self._addresses.unit == 2 else low

    def _register(self, number: Value) -> Value:
        return number * self._arithmetic.register_bytes + self._addresses.registers

    def _write_address_of(self, f: Function, column: Value, table: Value, fixed: Value) -> None:
        """Return the address of a column's value, for a copy."""
        size, witness = self._arithmetic.word_bytes, self._addresses.witness
        with f.if_(column.below(fixed)):
            f.return_(load("i32.load", table + (column << 2), 4) * size + witness)
        f.return_((load("i32.load", table) + column - fixed) * size + witness)

    # --- programs

    def _run(self, f: Function, cursor: Variable, table: Value, fixed: Value) -> None:
        op, d, a, b, count = f.locals(I32, 5)
        arithmetic, addresses = self._arithmetic, self._addresses
        total, term, integer = addresses.scratch

        register_of = self._register

        def wide_operand() -> Value:
            return a | b << 16 if addresses.unit == 2 else a

        def address_of(column: Value) -> Value:
            return f.result_of(self._address_of, column, table, fixed)

        def advance(units: int) -> None:
            cursor.set(cursor + addresses.unit * units)

        def linear() -> None:
            f.call(
                arithmetic.multiply, total, self._coefficient(cursor), self._register_at(cursor, 1)
            )
            advance(2)
            count.set(wide_operand())
            with f.block() as end, f.loop() as start:
                count.set(count - 1)
                f.branch(end, count.is_zero())
                f.call(
                    arithmetic.multiply,
                    term,
                    self._coefficient(cursor),
                    self._register_at(cursor, 1),
                )
                f.call(arithmetic.add, total, total, term)
                advance(2)
                f.branch(start)
            f.call(arithmetic.copy, d, total)

        def bit() -> None:
            # `b` has the index of the limb in the high byte, and the position within it below.
            word = load("i32.load", register_of(a) + ((b >> 8) << 2))
            value = (word >> (b & 255)) & 1
            f.call(arithmetic.copy, d, value * arithmetic.register_bytes + addresses.registers)

        def guard() -> None:
            a.set(register_of(a))
            f.call(arithmetic.copy, d, a)
            with f.if_(f.result_of(arithmetic.is_zero, a)):
                f.call(arithmetic.copy, d, addresses.registers + arithmetic.register_bytes)

        def invert() -> None:
            f.call(arithmetic.invert, total, register_of(a))
            f.call(arithmetic.copy, d, total)

        def unless_zero() -> None:
            a.set(register_of(a))
            b.set(register_of(b))
            with f.if_(f.result_of(arithmetic.is_zero, a)):
                b.set(addresses.registers)
            f.call(arithmetic.copy, d, b)

        def from_witness() -> None:
            f.call(arithmetic.unpack, term, address_of(wide_operand()))
            f.call(arithmetic.multiply, d, term, arithmetic.to_montgomery)

        def store() -> None:
            f.call(arithmetic.canonical, integer, d)
            f.call(arithmetic.pack, address_of(wide_operand()), integer)

        def call() -> None:
            for index, address in enumerate(self._hints.arguments):
                f.call(arithmetic.pack, address, self._register_at(cursor, index))
            results = address_of(self._column(cursor, 2))
            f.call(self._hints.call, self._unit(cursor, 4), results, wide_operand())
            advance(5)

        def binary(function: Function) -> Callable[[], None]:
            return lambda: f.call(function, d, register_of(a), register_of(b))

        cases: dict[int, Callable[[], None]] = {
            Op.MULTIPLY: binary(arithmetic.multiply), Op.ADD: binary(arithmetic.add),
            Op.SUBTRACT: binary(arithmetic.subtract), Op.LINEAR: linear, Op.BIT: bit,
            Op.INTEGER: lambda: f.call(arithmetic.canonical, d, register_of(a)),
            Op.GUARD: guard, Op.INVERT: invert, Op.UNLESS_ZERO: unless_zero,
            Op.INPUT: from_witness, STORE: store, CALL: call, END: f.return_,
        }  # fmt: skip
        with f.loop() as start:
            op.set(self._unit(cursor, 0))
            d.set(register_of(self._unit(cursor, 1)))
            a.set(self._unit(cursor, 2))
            b.set(self._unit(cursor, 3))
            advance(4)
            f.switch(op, [cases[number] for number in range(len(cases))])
            f.branch(start)

    def _coefficient(self, cursor: Value) -> Value:
        size = self._arithmetic.register_bytes
        return self._unit(cursor, 0) * size + self._addresses.coefficients

    def _register_at(self, cursor: Value, index: int) -> Value:
        return self._register(self._unit(cursor, index))

    # --- rows

    def _write_sum(
        self, f: Function, cursor: Variable, count: Value, total: Value, table: Value, fixed: Value
    ) -> None:
        """Store the sum of terms at an address; return the address after the terms.

        A term has the index of a coefficient, and a column of two units.
        """
        arithmetic, (*_, term) = self._arithmetic, self._addresses.scratch
        index, number = f.locals(I32, 2)
        for limb in range(arithmetic.limbs):
            f.store("i32.store", total, 0, 4 * limb)
        with f.for_(index, count):
            number.set(self._unit(cursor, 0))
            address = f.result_of(self._address_of, self._column(cursor, 1), table, fixed)
            f.call(arithmetic.unpack, term, address)
            with f.if_(number.below(2).is_zero()):
                f.call(arithmetic.multiply, term, self._coefficient(cursor), term)
            with f.block() as end:
                with f.block() as is_negative:
                    f.branch(is_negative, number.equals(MINUS))
                    f.call(arithmetic.add, total, total, term)
                    f.branch(end)
                f.call(arithmetic.subtract, total, total, term)
            cursor.set(cursor + 3 * self._addresses.unit)
        f.return_(cursor)

    def _check(self, f: Function, cursor: Variable, table: Value, fixed: Value) -> None:
        number, address = f.locals(I32, 2)
        arithmetic, unit = self._arithmetic, self._addresses.unit
        a, b, c = self._row_registers

        def bit() -> None:
            address.set(f.result_of(self._address_of, self._column(cursor, 1), table, fixed))
            is_bit = (load("i32.load", address) >> 1).is_zero() & self._integers.is_zero(address, 1)
            with f.if_(is_bit.is_zero()):
                f.return_(number)
            cursor.set(cursor + 3 * unit)

        def general() -> None:
            counts = f.locals(I32, 3)
            for index, count in enumerate(counts):
                count.set(self._unit(cursor, 1 + index))
            cursor.set(cursor + 4 * unit)
            for count, register in zip(counts, (a, b, c), strict=True):
                cursor.set(f.result_of(self._sum, cursor, count, register, table, fixed))
            # With integers a, b and c, both products have a factor 1/radix.
            f.call(arithmetic.multiply, a, a, b)
            f.call(arithmetic.multiply, c, c, arithmetic.integer_one)
            f.call(arithmetic.subtract, a, a, c)
            with f.if_(f.result_of(arithmetic.is_zero, a).is_zero()):
                f.return_(number)

        cases: dict[int, Callable[[], None]] = {
            Row.END: lambda: f.return_(0), Row.BIT: bit, Row.GENERAL: general
        }  # fmt: skip
        with f.loop() as start:
            number.set(number + 1)
            f.switch(self._unit(cursor, 0), [cases[kind] for kind in Row])
            f.branch(start)
        f.return_(0)

    @property
    def _row_registers(self) -> tuple[int, int, int]:
        """The sums of a row; no program runs during a check, so registers 2 to 4 are free."""
        size = self._arithmetic.register_bytes
        a, b, c = (self._addresses.registers + size * (2 + index) for index in range(3))
        return a, b, c
