"""The functions of `quod.r1cs.portable_hints` in WebAssembly."""

from __future__ import annotations

from collections.abc import Callable

from quod.r1cs.calculator.arithmetic import Arithmetic
from quod.r1cs.calculator.assembler import I32, Function, Module, Value, Variable, load
from quod.r1cs.calculator.integers import Integers
from quod.r1cs.calculator.memory import Memory
from quod.r1cs.portable_hints import PORTABLE_HINTS

MAX_ARGUMENTS = 2


class HintFunctions:
    """The functions that compute hints.

    arguments: the addresses of the arguments, integers that `call` may change.
    call: compute a hint, given its index, the address of its results, and their number.
    reduce: reduce the integer at an address modulo the prime.
    """

    def __init__(
        self, module: Module, memory: Memory, arithmetic: Arithmetic, integers: Integers
    ) -> None:
        self._arithmetic, self._integers = arithmetic, integers
        size = arithmetic.word_bytes
        self.arguments = [memory.reserve(size) for _ in range(MAX_ARGUMENTS)]
        self._quotient, self._remainder, self._trial = (memory.reserve(size) for _ in range(3))
        self.reduce = module.define(1, self._reduce)
        self.call = module.define(3, self._call)

    def _reduce(self, f: Function, a: Value) -> None:
        prime = self._arithmetic.prime_words
        with f.block() as end, f.loop() as start:
            f.branch(end, f.result_of(self._integers.is_below, a, prime))
            f.call(self._integers.subtract, a, prime)
            f.branch(start)

    def _call(self, f: Function, number: Value, results: Value, count: Value) -> None:
        index = f.local(I32)
        cases: dict[str, Callable[[], None]] = {
            "quotient_and_remainder": lambda: self._divide(f, index, results),
            "one_hot": lambda: self._one_hot(f, index, results, count),
            "integer_root": lambda: self._root(f, index, results),
            "bitwise_and": lambda: self._bitwise(f, results, lambda a, b: a & b),
            "bitwise_or": lambda: self._bitwise(f, results, lambda a, b: a | b),
            "bitwise_xor": lambda: self._bitwise(f, results, lambda a, b: a ^ b),
        }
        f.switch(number, [cases[hint.__name__] for hint in PORTABLE_HINTS])

    def _clear(self, f: Function, *addresses: int) -> None:
        for address in addresses:
            f.call(self._integers.clear, address)

    @property
    def _bits(self) -> int:
        return 32 * self._arithmetic.words

    def _divide(self, f: Function, index: Variable, results: Value) -> None:
        """Divide by long division, one bit an iteration."""
        integers, (dividend, divisor) = self._integers, self.arguments
        quotient, remainder = self._quotient, self._remainder
        self._clear(f, quotient, remainder)
        fits, is_zero = f.locals(I32, 2)
        is_zero.set(integers.is_zero(divisor))
        with f.for_(index, self._bits):
            top = integers.bit_of(dividend, (index * -1) + (self._bits - 1))
            f.call(integers.double, remainder, top)
            fits.set(
                f.result_of(integers.is_below, remainder, divisor).is_zero() & is_zero.is_zero()
            )
            with f.if_(fits):
                f.call(integers.subtract, remainder, divisor)
            f.call(integers.double, quotient, fits)
        f.call(integers.copy, results, quotient)
        f.call(integers.copy, results + self._arithmetic.word_bytes, remainder)

    def _one_hot(self, f: Function, index: Variable, results: Value, count: Value) -> None:
        """Store 1 at the index and 0 elsewhere; an index of several words exceeds the count."""
        integers, (position, _) = self._integers, self.arguments
        is_small, address = f.locals(I32, 2)
        is_small.set(integers.is_zero(position, 1))
        with f.for_(index, count):
            address.set(results + index * self._arithmetic.word_bytes)
            f.call(integers.clear, address)
            is_index = index.equals(load("i32.load", position)) & is_small
            f.store("i32.store", address, is_index)

    def _root(self, f: Function, index: Variable, results: Value) -> None:
        """Compute the root from its highest bit, with two bits of the number an iteration."""
        integers, (number, _) = self._integers, self.arguments
        root, remainder, trial = self._quotient, self._remainder, self._trial
        self._clear(f, root, remainder)
        fits = f.local(I32)
        with f.for_(index, self._bits // 2):
            for bit in (1, 0):
                position = (index * -2) + (self._bits - 2 + bit)
                f.call(integers.double, remainder, integers.bit_of(number, position))
            # The root grows by a bit b of 1 if (2 root + b) b, the growth of its square, fits.
            f.call(integers.copy, trial, root)
            f.call(integers.double, trial, 0)
            f.call(integers.double, trial, 1)
            fits.set(f.result_of(integers.is_below, remainder, trial).is_zero())
            with f.if_(fits):
                f.call(integers.subtract, remainder, trial)
            f.call(integers.double, root, fits)
        f.call(integers.copy, results, root)

    def _bitwise(
        self, f: Function, results: Value, combined: Callable[[Value, Value], Value]
    ) -> None:
        a, b = self.arguments
        for word in range(self._arithmetic.words):
            value = combined(load("i32.load", a, 4 * word), load("i32.load", b, 4 * word))
            f.store("i32.store", results, value, 4 * word)
        f.call(self.reduce, results)
