"""Functions on unsigned integers of several words of 32 bits, in WebAssembly."""

from __future__ import annotations

from quod.r1cs.calculator.arithmetic import copy_words, limb_at
from quod.r1cs.calculator.assembler import I64, Function, Module, Value, load


class Integers:
    """The functions of a module on integers of `words` words; their arguments are addresses.

    is_below: 1 if the first integer is below the second.
    subtract: replace the first integer by the difference.
    double: replace the integer by its double, plus the second argument, a bit; the highest bit is
        lost.
    copy: copy an integer to the first address.
    clear: store 0.
    """

    def __init__(self, module: Module, words: int) -> None:
        self.words = words
        self.is_below = module.define(2, self._is_below, results=1)
        self.subtract = module.define(2, self._subtract)
        self.double = module.define(2, self._double)
        self.copy = module.define(2, lambda f, d, a: copy_words(f, d, a, words))
        self.clear = module.define(1, self._clear)

    def _is_below(self, f: Function, a: Value, b: Value) -> None:
        f.return_((self._difference(f, a, b, stores=False) >> 63).wrap())

    def _subtract(self, f: Function, a: Value, b: Value) -> None:
        self._difference(f, a, b, stores=True)

    def _difference(self, f: Function, a: Value, b: Value, *, stores: bool) -> Value:
        """Subtract b from a; return the last difference, which is negative if b exceeds a."""
        difference = f.local(I64)
        for index in range(self.words):
            borrow = difference.shift_signed(63)
            difference.set(limb_at(a, index) - limb_at(b, index) + borrow)
            if stores:
                f.store("i64.store32", a, difference, 4 * index)
        return difference

    def _double(self, f: Function, a: Value, bit: Value) -> None:
        total, carry = f.locals(I64, 2)
        carry.set(bit.extend())
        for index in range(self.words):
            total.set(limb_at(a, index) << 1 | carry)
            f.store("i64.store32", a, total, 4 * index)
            carry.set(total >> 32)

    def _clear(self, f: Function, d: Value) -> None:
        for index in range(self.words):
            f.store("i32.store", d, 0, 4 * index)

    def bit_of(self, address: int, position: Value) -> Value:
        """Return a bit of the integer at an address."""
        word = load("i32.load", ((position >> 5) << 2) + address)
        return (word >> (position & 31)) & 1

    def is_zero(self, address: Value | int, first: int = 0) -> Value:
        """Return 1 if all words from the word `first` on are 0."""
        words = load("i32.load", address, 4 * first)
        for word in range(first + 1, self.words):
            words = words | load("i32.load", address, 4 * word)
        return words.is_zero()
