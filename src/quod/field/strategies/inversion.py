"""Modular inversion by division steps.

Bernstein and Yang, "Fast constant-time gcd computation and modular inversion" (CHES 2019), with the
counter that starts at one half (Wuille, "Bounds on divsteps iterations in safegcd", 2021). From
f = p, g = x a step is

    if g is odd and delta > 0:  delta, f, g = 1 - delta, g, (g - f)/2
    else:                       delta, f, g = 1 + delta, f, (g + (g mod 2)*f)/2

until g = 0 and f = +-1. The lowest bits of f and g determine a run of steps. The 2x2 matrix of the
run, scaled by a power of two, is then applied to the long numbers f and g, and modulo p to d and e,
where d*x = f and e*x = g. The loop ends when g = 0 in every lane, so the result does not depend on
a count of steps. The size of d and e does depend on it; the bound of the paper (Theorem 11.2)
leaves ample room.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quod.field.moduli import Modulus
from quod.field.strategies.carry_chains import with_carry
from quod.frozen import frozen
from quod.kernel.ir import types
from quod.kernel.ir.value import Value

if TYPE_CHECKING:
    from quod.kernel.builder.builder import Builder

Limbs = tuple[Value, ...]

_MASK64 = (1 << 64) - 1

# Steps of 32-bit words in one iteration of their loop.
_UNROLLED_STEPS = 5


@frozen
class Matrix:
    """The transition of a run of steps: (f, g) becomes (u*f + v*g, q*f + r*g) / 2**steps."""

    u: Value
    v: Value
    q: Value
    r: Value

    def compose(self, earlier: Matrix) -> Matrix:
        """Return the transition of the run `earlier` followed by this one."""
        return Matrix(
            self.u * earlier.u + self.v * earlier.q, self.u * earlier.v + self.v * earlier.r,
            self.q * earlier.u + self.r * earlier.q, self.q * earlier.v + self.r * earlier.r,
        )  # fmt: skip


class Inversion(ABC):
    """Inversion modulo one prime, for one representation of long signed integers.

    half_steps: half the steps of a round of two runs. The matrix of that many steps has 32-bit
        coefficients, two of which are packed in a 64-bit word.
    """

    half_steps: int
    first_sign: int
    second_sign: int

    def __init__(self, k: Builder, modulus: Modulus, scale: int) -> None:
        self.k = k
        self.modulus = modulus
        self.p = modulus.value
        self.scale = scale

    @property
    def steps(self) -> int:
        """The number of steps of a round."""
        return 2 * self.half_steps

    @property
    def rounds(self) -> int:
        """An upper bound on the rounds for any input."""
        steps = (49 * self.modulus.bits + 57) // 17
        return -(-steps // self.steps)

    @property
    def size(self) -> int:
        """The number n for which |d| and |e| are below n * p: a round adds at most p."""
        return self.rounds + 1

    # --- what a representation provides

    @abstractmethod
    def short(self, number: int) -> Limbs:
        """Return a constant in the limbs of f and g."""

    @abstractmethod
    def long(self, number: int) -> Limbs:
        """Return a constant in the limbs of d and e."""

    @abstractmethod
    def combine(self, a: Value, x: Limbs, b: Value, y: Limbs) -> Limbs:
        """Return (a*x + b*y)/2**steps, an exact division."""

    @abstractmethod
    def combine_modulo(self, a: Value, x: Limbs, b: Value, y: Limbs) -> Limbs:
        """Return (a*x + b*y)/2**steps modulo p, at most p above the bound of x and y."""

    @abstractmethod
    def non_negative(self, negative: Value, d: Limbs) -> Limbs:
        """Return size*p - d where `negative`, else size*p + d, in non-negative limbs."""

    # --- the algorithm

    def inverse(self, k: Builder, x: Limbs) -> Limbs:
        """Return scale/x modulo p, below 2*size*p, for x below p; a multiple of p for x = 0."""
        theta = k.constant(0, types.i64)  # delta - 1/2
        state = (theta, self.short(self.p), x, self.long(0), self.long(self.scale))
        with k.while_(state) as loop:
            theta, f, g, d, e = loop.carried
            remaining = g[0]
            for limb in g[1:]:
                remaining = remaining | limb
            loop.check(remaining != 0)
            theta, m = self._round(theta, f[0], g[0])
            next_fg = (self.combine(m.u, f, m.v, g), self.combine(m.q, f, m.r, g))
            next_de = (self.combine_modulo(m.u, d, m.v, e), self.combine_modulo(m.q, d, m.r, e))
            loop.next((theta, *next_fg, *next_de))
        _, f, _, d, _ = loop.results
        return self.non_negative(k.bitcast(f[-1], types.i64) < 0, d)

    def _round(self, theta: Value, f: Value, g: Value) -> tuple[Value, Matrix]:
        """Run one round, two runs of steps; return theta and the product of their matrices."""
        signed = [self.k.bitcast(word, types.i64) for word in (f, g)]
        theta, f, g, first_matrix = self._run(theta, signed[0], signed[1], self.first_sign)
        theta, _, _, second_matrix = self._run(theta, f, g, self.second_sign)
        return theta, second_matrix.compose(first_matrix)

    def _run(
        self, theta: Value, f: Value, g: Value, sign: int
    ) -> tuple[Value, Value, Value, Matrix]:
        """Run `half_steps` steps on the lowest bits; the matrix is multiplied by `sign`."""
        return self._steps(theta, f, g, sign, self.half_steps)

    def _steps(
        self, theta: Value, f: Value, g: Value, sign: int, count: int, unrolled: int = 1
    ) -> tuple[Value, Value, Value, Matrix]:
        """Run `count` steps, fewer than half the bits of f and g; multiply the matrix by `sign`.

        Each row (a, b) of the matrix is packed in a word as a + 2**half * b. The loop is unrolled
        `unrolled` times.
        """
        k, half = self.k, f.type.bits // 2
        upper, lower = (k.constant(sign * unit, f.type) for unit in (1, 1 << half))
        with k.range(0, count // unrolled, carry=(theta, f, g, upper, lower)) as loop:
            state = loop.carried
            for _ in range(unrolled):
                state = self._step(*state)
            loop.next(state)
        theta, f, g, upper, lower = loop.results
        return theta, f, g, Matrix(*self._unpack(upper), *self._unpack(lower))

    def _step(
        self, theta: Value, f: Value, g: Value, upper: Value, lower: Value
    ) -> tuple[Value, Value, Value, Value, Value]:
        k = self.k
        odd = (g & 1) != 0
        is_positive = theta >= 0
        swap = odd & is_positive
        return (
            k.select(swap, -theta, theta + 1),
            k.select(swap, g, f),
            k.select(odd, g + k.select(is_positive, -f, f), g) >> 1,
            k.select(swap, lower, upper) << 1,
            k.select(odd, lower + k.select(is_positive, -upper, upper), lower),
        )

    @staticmethod
    def _unpack(row: Value) -> tuple[Value, Value]:
        half = row.type.bits // 2
        low = (row << half) >> half
        return low, (row - low) >> half


class VectorInversion(Inversion):
    """Numbers in limbs of 64-bit lanes; the last limb is signed. A round drops one limb."""

    limb_bits: int

    def __init__(self, k: Builder, modulus: Modulus, scale: int, limb_count: int) -> None:
        super().__init__(k, modulus, scale)
        self.limb_count = limb_count
        if self.size * self.p >= self._room:
            raise ValueError(f"{modulus.name} leaves no room in {limb_count} limbs")

    @property
    @abstractmethod
    def _room(self) -> int:
        """The exclusive bound of the magnitude of d and e."""

    @abstractmethod
    def _columns(self, a: Value, x: Limbs, b: Value, y: Limbs) -> list[Value]:
        """Return a*x + b*y in signed columns; the last column holds all higher bits."""

    @abstractmethod
    def _add_multiple_of_p(self, columns: list[Value]) -> None:
        """Add the multiple of p that clears the bits of the lowest limb in column 0."""

    @property
    def _mask(self) -> int:
        return (1 << self.limb_bits) - 1

    def short(self, number: int) -> Limbs:
        bits = self.limb_bits
        return tuple(
            self.k.constant((number >> (bits * j)) & self._mask, types.u64)
            for j in range(self.limb_count)
        )

    def long(self, number: int) -> Limbs:
        return self.short(number)

    def combine(self, a: Value, x: Limbs, b: Value, y: Limbs) -> Limbs:
        return self._drop_lowest(self._columns(a, x, b, y))

    def combine_modulo(self, a: Value, x: Limbs, b: Value, y: Limbs) -> Limbs:
        columns = self._columns(a, x, b, y)
        self._add_multiple_of_p(columns)
        return self._drop_lowest(columns)

    def _drop_lowest(self, columns: Sequence[Value]) -> Limbs:
        """Divide columns by 2**limb_bits and carry them to limbs."""
        return self._carry_columns(columns[1:], self._arithmetic_carry(columns[0]))

    def _carry_columns(self, columns: Sequence[Value], carry: Value | None = None) -> Limbs:
        limbs = []
        for column in columns[:-1]:
            total = column if carry is None else column + carry
            carry = self._arithmetic_carry(total)
            limbs.append(total & self._mask)
        last = columns[-1] if carry is None else columns[-1] + carry
        return (*limbs, last)

    def _arithmetic_carry(self, column: Value) -> Value:
        return self.k.bitcast(self.k.bitcast(column, types.i64) >> self.limb_bits, types.u64)

    def non_negative(self, negative: Value, d: Limbs) -> Limbs:
        base = self.short(self.size * self.p)
        return self._carry_columns(
            [self.k.select(negative, x - y, x + y) for x, y in zip(base, d, strict=True)]
        )


class Inversion52(VectorInversion):
    """Numbers in 52-bit limbs.

    A round has 52 steps. Its matrix is negated, which negates all values, because the coefficients
    are then at least -2**52 and below 2**52.
    """

    limb_bits = 52
    half_steps = 26
    first_sign, second_sign = 1, -1

    @property
    def _room(self) -> int:
        return 1 << (52 * self.limb_count)

    def _add_multiple_of_p(self, columns: list[Value]) -> None:
        k = self.k
        inverse = k.constant(-pow(self.p, -1, 1 << 52) % (1 << 52), types.u64)
        zero = k.constant(0, types.u64)
        quotient = k.emit("madd52_lo", (zero, columns[0], inverse))
        self._add_multiple(columns, quotient, self.short(self.p))

    def _columns(self, a: Value, x: Limbs, b: Value, y: Limbs) -> list[Value]:
        k, n = self.k, self.limb_count
        columns = [k.constant(0, types.u64)] * (n + 1)
        for signed, number in ((a, x), (b, y)):
            factor = k.bitcast(signed, types.u64)
            # The instructions use the low 52 bits of both factors, as unsigned numbers.
            self._add_multiple(columns, factor, number)
            negative = signed < 0
            for j in range(n):
                corrected = columns[j + 1] - number[j]
                columns[j + 1] = k.select(negative, corrected, columns[j + 1])
            below_zero = k.bitcast(number[-1], types.i64) < 0
            corrected = columns[n] - (factor & self._mask)
            columns[n] = k.select(below_zero, corrected, columns[n])
        return columns

    def _add_multiple(self, columns: list[Value], factor: Value, number: Limbs) -> None:
        for j in range(self.limb_count):
            columns[j] = self.k.emit("madd52_lo", (columns[j], number[j], factor))
        for j in range(self.limb_count):
            columns[j + 1] = self.k.emit("madd52_hi", (columns[j + 1], number[j], factor))


class Inversion29(VectorInversion):
    """Numbers in limbs of up to 29 bits, whose products are signed products of 32-bit integers.

    A round is a single run, of as many steps as a limb has bits. The magnitudes of its coefficients
    are at most 2**29, and that of the last limb is below 2**31.
    """

    def __init__(
        self, k: Builder, modulus: Modulus, scale: int, limb_count: int, limb_bits: int
    ) -> None:
        self.limb_bits = limb_bits
        super().__init__(k, modulus, scale, limb_count)

    @property
    def steps(self) -> int:
        return self.limb_bits

    @property
    def _room(self) -> int:
        return 1 << (self.limb_bits * (self.limb_count - 1) + 31)

    def _round(self, theta: Value, f: Value, g: Value) -> tuple[Value, Matrix]:
        signed_f, signed_g = (self.k.bitcast(word, types.i64) for word in (f, g))
        theta, _, _, matrix = self._steps(theta, signed_f, signed_g, 1, self.steps)
        return theta, matrix

    def _columns(self, a: Value, x: Limbs, b: Value, y: Limbs) -> list[Value]:
        return [
            self._product(a, x_limb) + self._product(b, y_limb)
            for x_limb, y_limb in zip(x, y, strict=True)
        ] + [self.k.constant(0, types.u64)]

    def _product(self, factor: Value, limb: Value) -> Value:
        """Return a signed product of the low 32 bits, which LLVM computes in one instruction."""
        x, y = (number.cast(types.i32).cast(types.i64) for number in (factor, limb))
        return self.k.bitcast(x * y, types.u64)

    def _add_multiple_of_p(self, columns: list[Value]) -> None:
        unit = self._mask + 1
        inverse = self.k.constant(-pow(self.p, -1, unit) % unit, types.u64)
        quotient = self._product(columns[0], inverse) & self._mask
        for j, limb in enumerate(self.short(self.p)):
            columns[j] = columns[j] + self._product(quotient, limb)


class Inversion64(Inversion):
    """Numbers in 64-bit limbs in two's complement, for scalar code; d and e have one more limb."""

    half_steps = 31
    first_sign, second_sign = -1, -1

    def __init__(self, k: Builder, modulus: Modulus, scale: int, limb_count: int) -> None:
        super().__init__(k, modulus, scale)
        self.limb_count = limb_count
        if self.p >= 1 << (64 * limb_count - 1) or 4 * self.size >= 1 << 64:
            raise ValueError(f"{modulus.name} leaves no room in {limb_count} limbs")

    def short(self, number: int) -> Limbs:
        return self._constant(number, self.limb_count)

    def long(self, number: int) -> Limbs:
        return self._constant(number, self.limb_count + 1)

    def _constant(self, number: int, count: int) -> Limbs:
        return tuple(
            self.k.constant((number >> (64 * j)) & _MASK64, types.u64) for j in range(count)
        )

    def combine(self, a: Value, x: Limbs, b: Value, y: Limbs) -> Limbs:
        return self._shift_down(self._sum(a, x, b, y))

    def combine_modulo(self, a: Value, x: Limbs, b: Value, y: Limbs) -> Limbs:
        total = self._sum(a, x, b, y)
        unit = 1 << (2 * self.half_steps)
        quotient = (total[0] * (-pow(self.p, -1, unit) % unit)) & (unit - 1)
        return self._shift_down(self._add(total, self._multiple(quotient, self.short(self.p))))

    def _sum(self, a: Value, x: Limbs, b: Value, y: Limbs) -> Limbs:
        return self._add(self._signed_multiple(a, x), self._signed_multiple(b, y))

    def _signed_multiple(self, signed: Value, number: Limbs) -> Limbs:
        """Return signed * number, in one more limb than the number."""
        k = self.k
        zero = k.constant(0, types.u64)
        factor = k.bitcast(signed, types.u64)
        product = self._multiple(factor, number)
        # As an unsigned word, a negative factor is too large by 2**64, and a negative number by a
        # power of 2**64; both are corrected.
        factor_mask = k.bitcast(signed >> 63, types.u64)
        number_mask = k.bitcast(k.bitcast(number[-1], types.i64) >> 63, types.u64)
        correction = [zero, *(limb & factor_mask for limb in number)]
        product = self._subtract(product, correction)
        return (*product[:-1], product[-1] - (factor & number_mask))

    def _multiple(self, factor: Value, number: Limbs) -> Limbs:
        k = self.k
        zero = k.constant(0, types.u64)
        high_word: Value = zero
        limbs = []
        for x in number:
            low, carry = k.emit_many("add_cc", (x * factor, high_word))
            high_word = k.emit("addc", (k.emit("mul_hi", (x, factor)), zero, carry))
            limbs.append(low)
        return (*limbs, high_word)

    def _add(self, a: Limbs, b: Limbs) -> Limbs:
        """Return a + b in len(a) limbs; b may have fewer."""
        zero = self.k.constant(0, types.u64)
        return tuple(with_carry(self.k, "add", a, [*b, *([zero] * (len(a) - len(b)))])[0])

    def _subtract(self, a: Limbs, b: Sequence[Value]) -> Limbs:
        return tuple(with_carry(self.k, "sub", a, b)[0])

    def _shift_down(self, number: Limbs) -> Limbs:
        """Return number / 2**steps in one limb less."""
        steps = 2 * self.half_steps
        return tuple(
            (low >> steps) | (high << (64 - steps)) for low, high in itertools.pairwise(number)
        )

    def non_negative(self, negative: Value, d: Limbs) -> Limbs:
        mask = self.k.select(negative, self.k.constant(_MASK64, types.u64), 0)
        base = self.long(self.size * self.p)
        flipped = self._subtract(tuple(limb ^ mask for limb in d), [mask] * len(d))
        return self._add(base, flipped)


class Inversion32(Inversion64):
    """`Inversion64` for machines whose 64-bit words are pairs of 32: steps use 32-bit words.

    A run is two runs of 15 steps on the lowest words, whose matrices have 16-bit coefficients.
    """

    half_steps = 30

    def _run(
        self, theta: Value, f: Value, g: Value, sign: int
    ) -> tuple[Value, Value, Value, Matrix]:
        low_theta, low_f, low_g = (number.cast(types.i32) for number in (theta, f, g))
        low_theta, low_f, low_g, first_matrix = self._steps(
            low_theta, low_f, low_g, sign, 15, _UNROLLED_STEPS
        )
        low_theta, _, _, second_matrix = self._steps(
            low_theta, low_f, low_g, sign, 15, _UNROLLED_STEPS
        )
        product = second_matrix.compose(first_matrix)
        m = Matrix(*(part.cast(types.i64) for part in (product.u, product.v, product.q, product.r)))
        f, g = (m.u * f + m.v * g) >> 30, (m.q * f + m.r * g) >> 30
        return low_theta.cast(types.i64), f, g, m
