"""The interface of circom's witness calculators, as functions of a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from quod.frozen import frozen
from quod.r1cs.calculator.arithmetic import Arithmetic, copy_words
from quod.r1cs.calculator.assembler import I32, Function, Module, Value, Variable, load
from quod.r1cs.calculator.hints import HintFunctions
from quod.r1cs.calculator.interpreter import Addresses, Interpreter
from quod.r1cs.calculator.memory import Memory

VERSION = (2, 2, 0)
"""The version of circom whose interface this is."""

_UNKNOWN, _TOO_MANY, _SET_TWICE, _UNSATISFIED, _TOO_LONG = 1, 2, 3, 4, 6
_OFFSET, _PRIME = 0xCBF29CE484222325, 0x100000001B3


@frozen
class Run:
    """The arguments of a call of `Interpreter.run` or `check`.

    stream: the address of the stream.
    table: the address of the table of the copy of a block that is computed.
    fixed: the number of fixed columns of the copy.
    """

    stream: int
    table: int
    fixed: int


@frozen
class Tables:
    """The tables of a calculator.

    wires: the number of values of a witness.
    inputs: the wires of each input.
    runs: the programs in order.
    checks: the rows to check, each with the address of the locations of its rows.
    locations: the texts of errors about rows.
    """

    wires: int
    addresses: Addresses
    inputs: Mapping[str, Sequence[int]]
    runs: Sequence[Run]
    checks: Sequence[tuple[Run, int]]
    locations: Sequence[str]


def hash_of(name: str) -> int:
    """Return the 64-bit FNV-1a hash by which calculators identify an input."""
    value = _OFFSET
    for byte in name.encode():
        value = (value ^ byte) * _PRIME % (1 << 64)
    return value


class Interface:
    """The imports of a module, and the functions that it exports."""

    def __init__(self, module: Module) -> None:
        """Add the imports."""
        self._module = module
        self._fail = module.imported("runtime", "exceptionHandler", [I32])
        self._print = module.imported("runtime", "printErrorMessage")
        self._remaining, self._message = module.global_(I32), module.global_(I32)

    def add(
        self, memory: Memory, arithmetic: Arithmetic, hints: HintFunctions,
        interpreter: Interpreter, tables: Tables,
    ) -> None:  # fmt: skip
        """Add the exported functions, with the tables that they read."""
        module = self._module
        self._memory, self._arithmetic, self._hints = memory, arithmetic, hints
        self._tables = tables
        self._shared = memory.reserve(arithmetic.word_bytes)
        sizes = [len(wires) for wires in tables.inputs.values()]
        self._slots = sum(sizes)
        self._flags = memory.reserve(self._slots)
        records = []
        first = 0
        for name, size in zip(tables.inputs, sizes, strict=True):
            hash = hash_of(name)
            records += [hash & 0xFFFFFFFF, hash >> 32, first, size]
            first += size
        self._records = memory.add(_words(records))
        self._wires = memory.add(
            _words([wire for wires in tables.inputs.values() for wire in wires])
        )
        self._compute = module.define(0, lambda f: self._write_compute(f, interpreter))
        for name, number in zip(
            ("getVersion", "getMinorVersion", "getPatchVersion"), VERSION, strict=True
        ):
            module.constant(name, number)
        module.constant("getSharedRWMemoryStart", self._shared)
        module.constant("getFieldNumLen32", arithmetic.words)
        module.constant("getWitnessSize", tables.wires)
        module.constant("getWitnessStart", tables.addresses.witness)
        module.constant("getInputSize", self._slots)
        self._add_shared_memory()
        self._find_input = module.define(2, self._find, results=1)
        module.define(2, self._size, results=1, export="getInputSignalSize")
        module.define(3, self._set, export="setInputSignal")
        module.define(1, self._init, export="init")
        module.define(0, self._character, results=1, export="getMessageChar")

    # --- numbers

    def _add_shared_memory(self) -> None:
        module, arithmetic, shared = self._module, self._arithmetic, self._shared
        witness = self._tables.addresses.witness

        def read(f: Function, word: Value) -> None:
            f.return_(load("i32.load", word << 2, shared))

        def write(f: Function, word: Value, number: Value) -> None:
            f.store("i32.store", word << 2, number, shared)

        def prime(f: Function) -> None:
            copy_words(f, shared, arithmetic.prime_words, arithmetic.words)

        def value(f: Function, wire: Variable) -> None:
            wire.set(wire * arithmetic.word_bytes + witness)
            copy_words(f, shared, wire, arithmetic.words)

        module.define(1, read, results=1, export="readSharedRWMemory")
        module.define(2, write, export="writeSharedRWMemory")
        module.define(0, prime, export="getRawPrime")
        module.define(1, value, export="getWitness")

    # --- inputs

    def _find(self, f: Function, high: Value, low: Value) -> None:
        """Return the address of an input's record by its hash, or 0."""
        index, record = f.locals(I32, 2)
        with f.for_(index, len(self._tables.inputs)):
            record.set((index << 4) + self._records)
            matches = load("i32.load", record).equals(low) & load("i32.load", record, 4).equals(
                high
            )
            with f.if_(matches):
                f.return_(record)
        f.return_(0)

    def _size(self, f: Function, high: Value, low: Value) -> None:
        """Return the number of values of an input, or 0."""
        record = f.local(I32)
        record.set(f.result_of(self._find_input, high, low))
        with f.if_(record):
            f.return_(load("i32.load", record, 12))
        f.return_(0)

    def _set(self, f: Function, high: Value, low: Value, position: Value) -> None:
        """Set a value of an input; the last one starts the computation."""
        record, slot, address = f.locals(I32, 3)
        remaining = f.variable(self._remaining)
        record.set(f.result_of(self._find_input, high, low))
        self._fail_if(f, record.is_zero(), _UNKNOWN)
        self._fail_if(f, remaining.is_zero(), _TOO_MANY)
        self._fail_if(f, position.below(load("i32.load", record, 12)).is_zero(), _TOO_LONG)
        slot.set(load("i32.load", record, 8) + position)
        self._fail_if(f, load("i32.load8_u", slot, self._flags), _SET_TWICE)
        f.store("i32.store8", slot, 1, self._flags)
        f.call(self._hints.reduce, self._shared)
        wire = load("i32.load", slot << 2, self._wires)
        address.set(wire * self._arithmetic.word_bytes + self._tables.addresses.witness)
        copy_words(f, address, self._shared, self._arithmetic.words)
        remaining.set(remaining - 1)
        with f.if_(remaining.is_zero()):
            f.call(self._compute)

    def _fail_if(self, f: Function, condition: Value, code: int) -> None:
        """Report an error to the caller, and stop, if a condition is not 0."""
        with f.if_(condition):
            f.call(self._fail, code)
            f.trap()

    def _init(self, f: Function, _sanity_check: Value) -> None:
        """Reset the inputs; the argument has no effect."""
        addresses, arithmetic = self._tables.addresses, self._arithmetic
        f.fill(self._flags, 0, self._slots)
        for index, constant_bytes in enumerate((bytes(4), arithmetic.montgomery(1))):
            for offset in range(0, len(constant_bytes), 4):
                word = int.from_bytes(constant_bytes[offset : offset + 4], "little")
                address = addresses.registers + index * arithmetic.register_bytes
                f.store("i32.store", address, word, offset)
        f.store("i32.store", addresses.witness, 1)
        f.variable(self._remaining).set(self._slots)
        f.variable(self._message).set(0)
        if not self._slots:
            f.call(self._compute)

    # --- the witness

    def _write_compute(self, f: Function, interpreter: Interpreter) -> None:
        """Run all programs, and check all rows."""
        tables, memory = self._tables, self._memory
        runs = memory.add(
            _words([number for run in tables.runs for number in (run.stream, run.table, run.fixed)])
        )
        checks = memory.add(
            _words(
                [
                    number
                    for run, locations in tables.checks
                    for number in (run.stream, run.table, run.fixed, locations)
                ]
            )
        )
        messages, ends = bytearray(), []
        for location in tables.locations:
            ends.append(len(messages))
            messages += location.encode("ascii", "replace") + b"\0"
        text = memory.add(bytes(messages))
        starts = memory.add(_words([text + end for end in ends]))
        index, record, failing = f.locals(I32, 3)
        with f.for_(index, len(tables.runs)):
            record.set(index * 12 + runs)
            f.call(interpreter.run, *_fields(record, 3))
        unit = tables.addresses.unit
        with f.for_(index, len(tables.checks)):
            record.set((index << 4) + checks)
            failing.set(f.result_of(interpreter.check, *_fields(record, 3)))
            with f.if_(failing):
                row_location = load("i32.load", record, 12) + (failing - 1) * unit
                number = load("i32.load16_u" if unit == 2 else "i32.load", row_location)
                f.variable(self._message).set(load("i32.load", number << 2, starts))
                f.call(self._print)
                f.call(self._fail, _UNSATISFIED)
                f.trap()

    def _character(self, f: Function) -> None:
        """Return the next character of the message, and 0 at its end."""
        character = f.local(I32)
        message: Variable = f.variable(self._message)
        with f.if_(message.is_zero()):
            f.return_(0)
        character.set(load("i32.load8_u", message))
        message.set(message + 1)
        with f.if_(character.is_zero()):
            message.set(0)
        f.return_(character)


def _fields(record: Value, count: int) -> list[Value]:
    return [load("i32.load", record, 4 * index) for index in range(count)]


def _words(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, "<u4").tobytes()
