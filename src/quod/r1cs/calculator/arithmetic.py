"""Field arithmetic in WebAssembly, on elements in memory.

A register has limbs of 29 bits, 4 bytes each. Their products have 58 bits, so that sums of 32
products fit in an i64 and Montgomery multiplication carries only at its end. Elements are in
Montgomery form, in [0, 2p): the radix exceeds 4p, so that products need no final subtraction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quod.field.moduli import Modulus
from quod.r1cs.calculator.assembler import I32, I64, Function, Module, Value, Variable, load
from quod.r1cs.calculator.memory import Memory

LIMB_BITS = 29
_MASK = (1 << LIMB_BITS) - 1


class Arithmetic:
    """The functions of a field in a module; their arguments are addresses, the result's first.

    Registers of elements have `limbs` limbs and `register_bytes` bytes, integers `words` words of
    32 bits and `word_bytes` bytes, as in a witness.

    multiply, add, subtract: combine two elements. The product is divided by the Montgomery radix.
    invert: invert an element, to another address.
    copy: copy a register.
    canonical: convert an element from Montgomery form to the integer below p, in a register.
    pack, unpack: convert an integer from a register to words, and from words to a register.
    is_zero: 1 if the element at its only argument is 0.
    """

    def __init__(self, module: Module, memory: Memory, modulus: Modulus) -> None:
        self._prime = modulus.value
        self.limbs = -(-(modulus.bits + 3) // LIMB_BITS)
        self.words = modulus.words
        self.register_bytes, self.word_bytes = 4 * self.limbs, 4 * self.words
        self.radix = 1 << LIMB_BITS * self.limbs
        self.prime_words = memory.add(self._prime.to_bytes(self.word_bytes, "little"))
        self.integer_one = memory.add(self.limb_bytes(1))
        self.to_montgomery = memory.add(self.limb_bytes(self.radix**2 % self._prime))
        self.multiply = module.define(3, self._multiply)
        self.add = module.define(3, self._add)
        self.subtract = module.define(3, self._subtract)
        self.copy = module.define(2, self._copy)
        self.canonical = module.define(2, self._canonical)
        self.is_zero = module.define(1, self._is_zero, results=1)
        self.pack = module.define(2, self._pack)
        self.unpack = module.define(2, self._unpack)
        # The digits of p - 2 without the first one, which is 1.
        self._exponent = [int(digit) for digit in f"{self._prime - 2:b}"[1:]]
        self._exponent_address = memory.add(bytes(self._exponent))
        self.invert = module.define(2, self._invert)

    # --- constants

    def limb_bytes(self, number: int) -> bytes:
        """Return a number as the bytes of a register."""
        return b"".join(limb.to_bytes(4, "little") for limb in self._limbs_of(number))

    def montgomery(self, number: int) -> bytes:
        """Return a number as the bytes of a register in Montgomery form."""
        return self.limb_bytes(number * self.radix % self._prime)

    def _limbs_of(self, number: int) -> list[int]:
        return [number >> LIMB_BITS * index & _MASK for index in range(self.limbs)]

    # --- products

    def _multiply(self, f: Function, d: Value, a: Variable, b: Value) -> None:
        factors = f.locals(I64, self.limbs)
        for index, factor in enumerate(factors):
            factor.set(limb_at(b, index))
        sums = f.locals(I64, self.limbs - 1)
        limb, quotient = f.locals(I64, 2)
        end = f.local(I32)
        end.set(a + self.register_bytes)
        with f.loop() as start:
            limb.set(load("i64.load32_u", a))
            for total, factor in zip(sums, factors, strict=False):
                total.set(total + limb * factor)
            self._clear_limb(quotient, sums, limb * factors[-1])
            a.set(a + 4)
            f.branch(start, a.differs(end))
        self._store_sums(f, d, sums)

    def _clear_limb(
        self, quotient: Variable, sums: Sequence[Variable], last: Value | None = None
    ) -> None:
        """Add the multiple of p that clears the first limb, and drop this limb.

        last: the last limb, if it is not among `sums`.
        """
        prime = self._limbs_of(self._prime)
        negative_inverse = -pow(self._prime, -1, 1 << LIMB_BITS) % (1 << LIMB_BITS)
        quotient.set((sums[0] * negative_inverse) & _MASK)
        carry = (sums[0] + quotient * prime[0]) >> LIMB_BITS
        for index in range(1, self.limbs):
            product = quotient * prime[index]
            if index < len(sums):
                product = sums[index] + product
            elif last is not None:
                product = last + product
            sums[index - 1].set(product + carry if index == 1 else product)

    def _store_sums(self, f: Function, d: Value, sums: Sequence[Variable]) -> None:
        """Store the number with these limbs, which may exceed 29 bits, at d."""
        for index, limb in enumerate(sums):
            f.store("i64.store32", d, limb & _MASK, 4 * index)
            shifted = limb >> LIMB_BITS
            if index + 1 < len(sums):
                sums[index + 1].set(sums[index + 1] + shifted)
            else:
                f.store("i64.store32", d, shifted, 4 * (index + 1))

    def _invert(self, f: Function, d: Value, a: Value) -> None:
        """Compute the power p - 2 (Fermat's theorem)."""
        index = f.local(I32)
        f.call(self.copy, d, a)
        with f.for_(index, len(self._exponent)):
            f.call(self.multiply, d, d, d)
            with f.if_(load("i32.load8_u", index + self._exponent_address)):
                f.call(self.multiply, d, d, a)

    # --- sums

    def _store_reduced(
        self, f: Function, d: Value, limb_of: Callable[[int], Value], number: int
    ) -> None:
        """Store the number with signed limbs `limb_of`, plus `number` if it is negative, at d."""
        values, addend = f.locals(I64, self.limbs), self._limbs_of(number)
        for index, value in enumerate(values):
            limb = limb_of(index)
            value.set(limb + values[index - 1].shift_signed(LIMB_BITS) if index else limb)
        mask, total = f.locals(I64, 2)
        mask.set(values[-1].shift_signed(63))
        for index, value in enumerate(values):
            limb = value if index == self.limbs - 1 else value & _MASK
            limb = limb + (mask & addend[index])
            total.set(limb + total.shift_signed(LIMB_BITS) if index else limb)
            f.store("i64.store32", d, total & _MASK, 4 * index)

    def _add(self, f: Function, d: Value, a: Value, b: Value) -> None:
        double = self._limbs_of(2 * self._prime)

        def limb_of(index: int) -> Value:
            return limb_at(a, index) + limb_at(b, index) - double[index]

        self._store_reduced(f, d, limb_of, 2 * self._prime)

    def _subtract(self, f: Function, d: Value, a: Value, b: Value) -> None:
        def limb_of(index: int) -> Value:
            return limb_at(a, index) - limb_at(b, index)

        self._store_reduced(f, d, limb_of, 2 * self._prime)

    # --- representations

    def _canonical(self, f: Function, d: Value, a: Value) -> None:
        """Divide by the radix, which leaves at most p, and subtract p if that is not negative."""
        prime = self._limbs_of(self._prime)
        sums = f.locals(I64, self.limbs)
        quotient, index = f.local(I64), f.local(I32)
        for position, limb in enumerate(sums):
            limb.set(limb_at(a, position))
        with f.for_(index, self.limbs):
            self._clear_limb(quotient, sums)
            sums[-1].set(0)
        self._store_sums(f, d, sums[:-1])
        self._store_reduced(
            f, d, lambda position: limb_at(d, position) - prime[position], self._prime
        )

    def _is_zero(self, f: Function, a: Value) -> None:
        """Compare with 0 and p."""
        zero, prime = f.locals(I32, 2)
        for index, limb in enumerate(self._limbs_of(self._prime)):
            zero.set(zero | load("i32.load", a, 4 * index))
            prime.set(prime | (load("i32.load", a, 4 * index) ^ limb))
        f.return_(zero.is_zero() | prime.is_zero())

    def _copy(self, f: Function, d: Value, a: Value) -> None:
        copy_words(f, d, a, self.limbs)

    def _pack(self, f: Function, d: Value, a: Value) -> None:
        for word in range(self.words):
            first, offset = divmod(32 * word, LIMB_BITS)
            value = limb_at(a, first) >> offset
            for index in (first + 1, first + 2):
                shift = LIMB_BITS * index - 32 * word
                if index < self.limbs and shift < 32:
                    value = value | limb_at(a, index) << shift
            f.store("i64.store32", d, value, 4 * word)

    def _unpack(self, f: Function, d: Value, a: Value) -> None:
        for index in range(self.limbs):
            word, offset = divmod(LIMB_BITS * index, 32)
            if word >= self.words:
                f.store("i32.store", d, 0, 4 * index)
                continue
            kind = "i64.load" if word + 1 < self.words else "i64.load32_u"
            f.store("i64.store32", d, (load(kind, a, 4 * word) >> offset) & _MASK, 4 * index)


def limb_at(address: Value | int, index: int) -> Value:
    """Return a limb or a word of the number at an address."""
    return load("i64.load32_u", address, 4 * index)


def copy_words(f: Function, d: Value | int, a: Value | int, count: int) -> None:
    """Copy words of 32 bits from one address to another."""
    for index in range(count):
        f.store("i32.store", d, load("i32.load", a, 4 * index), 4 * index)
