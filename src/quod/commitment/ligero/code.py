"""Reed-Solomon codes on a chain of two-to-one maps.

A message c of 2**k elements is encoded as a codeword (a "word"), the values at 2**m points of

    f = sum over all j of c_j * t_0**bit 0 of j * t_1**bit 1 of j * ...

Each point has an opposite, at which t_0 has the negated value. The pairs of opposites are the
points of the next level, with t_1, and so on. Two values of the next level, a and b, give two
values a + t*b and a - t*b, so encoding takes at most m*2**m / 2 products.
If p is 1 modulo 4, the points are the roots of unity x of order 2**m. Then t_0 is x, and opposites
have the same square: f is the polynomial with the coefficients c (the number-theoretic transform).
If p is 3 modulo 4, as for M31, the points (x, y) are on the circle x**2 + y**2 = 1 and have order
2**(m + 1) or more. Then t_0 is y, opposites have the same x, t_1 is x, and each further level maps
x to 2*x**2 - 1 (Haböck, Levit and Papini, "Circle STARKs", eprint 2024/278).

Points have bit-reversed indices. The table of twiddles has at 2**(m-l-1) + h the t_l of the points
whose index begins with the bits of h and then a 0, bit l. If bit l of a point's index is set, its
t_l is minus that entry.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from quod.errors import InputError
from quod.field.moduli import Modulus
from quod.field.plain_element import PlainElement
from quod.field.roots import root_of_unity
from quod.field.spec import Extension
from quod.frozen import frozen

Point = tuple[int, int]


@frozen
class Code:
    """A code that encodes messages of 2**log_message elements as words of 2**log_length.

    Two words differ in at least 2**log_length - 2**log_message positions.
    """

    modulus: Modulus
    log_message: int
    log_length: int

    @property
    def message(self) -> int:
        """The number of elements of a message."""
        return 1 << self.log_message

    @property
    def length(self) -> int:
        """The number of elements of a word."""
        return 1 << self.log_length

    def twiddles(self) -> tuple[int, ...]:
        """The twiddles of all levels; entry 0 is unused."""
        return _twiddles(self.modulus, self.log_length)

    def values_at(self, message: Sequence[int], indices: Sequence[int]) -> list[int]:
        """Return the elements of a message's word at some indices, in the order of the indices."""
        p, table = self.modulus.value, self.twiddles()
        coefficients_of = {index >> self.log_message: list(message) for index in indices}
        for level in reversed(range(self.log_message)):
            half, first = 1 << level, 1 << (self.log_length - level)
            next_coefficients = {}
            for index in {index >> level for index in indices}:
                parent = coefficients_of[index >> 1]
                twiddle = table[(first + index) >> 1]
                factor = p - twiddle if index & 1 else twiddle
                next_coefficients[index] = [
                    (low + factor * high) % p for low, high in zip(parent[:half], parent[half:])
                ]
            coefficients_of = next_coefficients
        return [coefficients_of[index][0] for index in indices]


def max_log_length(modulus: Modulus) -> int:
    """Return log2 of the largest number of points of a code over a field."""
    if modulus.value % 4 == 1:
        return modulus.two_adicity
    return _two_adicity(modulus.value + 1) - 1


def points(modulus: Modulus, log_length: int) -> list[Point] | list[int]:
    """Return all points of a code, ordered by index."""
    p, count = modulus.value, 1 << log_length
    if p % 4 == 1:
        root = root_of_unity(modulus, "snarkjs", log_length)
        powers = [1]
        for _ in range(count - 1):
            powers.append(powers[-1] * root % p)
        return [powers[_reversed(index, log_length)] for index in range(count)]
    first = circle_generator(modulus)
    for _ in range(max_log_length(modulus) - log_length):
        first = times(p, first, first)
    # The powers first**(1 + 4 * i), and their opposites (x, -y), which are the inverses.
    step = times(p, first, first)
    step = times(p, step, step)
    coset = [first]
    for _ in range(max(1, count // 2) - 1):
        coset.append(times(p, coset[-1], step))
    ordered = [coset[_reversed(index, log_length - 1)] for index in range(count // 2)]
    return [point for x, y in ordered for point in ((x, y), (x, -y % p))]


@functools.lru_cache(maxsize=8)
def _twiddles(modulus: Modulus, log_length: int) -> tuple[int, ...]:
    p, even_points = modulus.value, points(modulus, log_length)[::2]
    levels: list[list[int]]
    if p % 4 == 1:
        levels = [[x for x in even_points if isinstance(x, int)]]
        on_circle = 0
    else:
        pairs = [point for point in even_points if isinstance(point, tuple)]
        levels = [[y for _, y in pairs], [x for x, _ in pairs][::2]]
        on_circle = 1
    # The next level has 2 * x**2 - 1 on the circle, x**2 for roots of unity.
    while len(levels[-1]) > 1:
        levels.append([((1 + on_circle) * x * x - on_circle) % p for x in levels[-1][::2]])
    return (0, *(twiddle for level in reversed(levels[:log_length]) for twiddle in level))


def times(p: int, a: Point, b: Point) -> Point:
    """Return the product of two points of the circle, multiplied as complex numbers."""
    return (a[0] * b[0] - a[1] * b[1]) % p, (a[0] * b[1] + a[1] * b[0]) % p


@functools.cache
def circle_generator(modulus: Modulus) -> Point:
    """Return a point of the circle whose order is the largest power of two.

    It is a power of the point with the smallest suitable x from 2 on and, of the two such points,
    the one with odd y: (2, 1268011823) over M31.
    """
    p, plane = modulus.value, Extension.unchecked_binomial("circle", modulus, 2, -1)
    adicity = _two_adicity(p + 1)
    for x in range(2, p):
        square = (1 - x * x) % p
        y = pow(square, (p + 1) // 4, p)
        if y * y % p != square:
            continue
        point = PlainElement(plane, (x, y if y % 2 else p - y)) ** ((p + 1) >> adicity)
        if point ** (1 << (adicity - 1)) == PlainElement.of(plane, -1):
            return point.coefficients[0], point.coefficients[1]
    raise InputError(f"the circle over {modulus.name} has no such point")


def _two_adicity(number: int) -> int:
    return (number & -number).bit_length() - 1


def _reversed(number: int, bits: int) -> int:
    """Reverse the order of the lowest `bits` bits of a number."""
    return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0
