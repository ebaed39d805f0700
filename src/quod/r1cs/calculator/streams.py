"""Witness programs and rows as streams of numbers, which the interpreter reads.

A stream is a sequence of units: of 2 bytes if all numbers fit, else of 4. A column takes two units,
the low one first; with units of 4 bytes the second one is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quod.r1cs.calculator.arithmetic import LIMB_BITS
from quod.r1cs.calculator.hints import MAX_ARGUMENTS
from quod.r1cs.calculator.interpreter import CALL, END, MINUS, PLUS, STORE, Row
from quod.r1cs.portable_hints import PORTABLE_HINTS
from quod.r1cs.signal import ONE
from quod.r1cs.traced import Block
from quod.r1cs.witness_program.instructions import ZERO_REGISTER, Call, Op, Program
from quod.r1cs.witness_program.steps import Solve

_NARROW = 1 << 16

Wide = tuple[int]
"""A number that takes two units, such as a column or a count."""

Stream = list["int | Wide"]


class Coefficients:
    """A table of the distinct coefficients of all programs and rows."""

    def __init__(self, prime: int) -> None:
        self._indices = {1: PLUS, prime - 1: MINUS}

    def index_of(self, coefficient: int) -> int:
        """Return the index of a coefficient."""
        return self._indices.setdefault(coefficient, len(self._indices))

    @property
    def numbers(self) -> list[int]:
        """The coefficients in the order of their indices."""
        return list(self._indices)


def program_stream(program: Program, coefficients: Coefficients) -> Stream:
    """Return the stream of a program."""
    stream: Stream = []
    instructions = program.instructions.tolist()
    terms = program.terms.tolist()
    outputs = program.outputs.tolist()
    indices = [coefficients.index_of(number) for number in program.coefficients]
    first = first_output = 0
    for stretch in program.stretches:
        for op, d, a, b in instructions[first : stretch.instructions]:
            if op == Op.LINEAR:
                stream += (op, d, (b,))
                for number, register in terms[a : a + b]:
                    stream += (indices[number], register)
            elif op == Op.INPUT:
                stream += (op, d, (a,))
            elif op == Op.BIT:
                limb, position = divmod(b, LIMB_BITS)
                stream += (op, d, a, limb << 8 | position)
            else:
                stream += (op, d, a, b)
        for register, column in outputs[first_output : stretch.outputs]:
            stream += (STORE, register, (column,))
        if stretch.call is not None:
            stream += _call(stretch.call)
        first, first_output = stretch.instructions, stretch.outputs
    stream += (END, 0, 0, 0)
    return stream


def _call(call: Call) -> Stream:
    padding = (ZERO_REGISTER,) * (MAX_ARGUMENTS - len(call.arguments))
    # The wires of a hint are consecutive.
    column = call.results[0]
    number = list(PORTABLE_HINTS).index(call.hint.function)
    return [CALL, 0, (len(call.results),), *call.arguments, *padding, (column,), number]


def rows_to_check(block: Block) -> list[int]:
    """Return the rows of a block that must be checked: its steps do not always satisfy them."""
    system = block.system
    satisfied = set()
    for step in system.steps:
        if type(step) is Solve:
            wires, coefficients = system.row(1 - step.side if step.side < 2 else 2, step.row)
            if step.side == 2 or (tuple(wires) == (ONE,) and coefficients[0] % system.prime):
                satisfied.add(step.row)
    return [row for row in range(len(system.row_paths)) if row not in satisfied]


def row_stream(block: Block, rows: Sequence[int], coefficients: Coefficients) -> Stream:
    """Return the stream of rows."""
    system, prime = block.system, block.system.prime
    stream: Stream = []
    for row in rows:
        sides = [system.row(side, row) for side in range(3)]
        wire = _bit_wire(sides, prime)
        if wire is not None:
            stream += (Row.BIT, (block.column(wire),))
            continue
        stream += (Row.GENERAL, *[len(wires) for wires, _ in sides])
        for wires, values in sides:
            for wire, coefficient in zip(wires, values, strict=True):
                stream += (coefficients.index_of(coefficient % prime), (block.column(wire),))
    stream.append(Row.END)
    return stream


def _bit_wire(sides: Sequence[tuple[Sequence[int], Sequence[int]]], prime: int) -> int | None:
    """Return the wire that a row constrains to 0 or 1, or None for a row of another form."""
    a, b, (product, _) = sides
    if product:
        return None
    for (wires, _), (others, values) in ((a, b), (b, a)):
        if len(wires) == 1 and wires[0] != ONE and len(others) == 2 and {*others} == {ONE, *wires}:
            return wires[0] if not sum(values) % prime else None
    return None


def unit_of(streams: Sequence[Stream]) -> int:
    """Return the number of bytes of a unit that holds each number of the streams."""
    is_narrow = all(
        number < _NARROW for stream in streams for number in stream if type(number) is int
    )
    return 2 if is_narrow else 4


def encoded(stream: Stream, unit: int) -> bytes:
    """Return the bytes of a stream."""
    numbers: list[int] = []
    for number in stream:
        if type(number) is not tuple:
            numbers.append(number)  # type: ignore[arg-type]
        elif unit == 2:
            numbers += (number[0] & _NARROW - 1, number[0] >> 16)
        else:
            numbers += (number[0], 0)
    return np.array(numbers, f"<u{unit}").tobytes()
